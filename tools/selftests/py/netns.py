# SPDX-License-Identifier: GPL-2.0
"""Both hosts' devices in a process of neither namespace: an RC connection over IPv6, and an address
handle, have sent when a child of it, which shares the device's context, begins a registration that
does not end.

Says "waiting" then; at the end of input lets the registration go on, and ends. Meanwhile another
connection goes on sending a request that is never answered.
"""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import sys
import time

import enums as e
from pyverbs.mr import MR

from oxetest import GID6_A, GID6_B, LOCAL, QKEY, End, ah_to, connect, good, host_a, host_b, poll

USERFAULTFD, UFFDIO_API, UFFDIO_REGISTER, MODE_MISSING = 323, 0xC018AA3F, 0xC020AA00, 1
libc = ctypes.CDLL(None, use_errno=True)


def hang(host, channel):
    """In the child: registers memory that is missing until all copies of the userfaultfd are
    closed; the last one goes to the parent."""
    memory = mmap.mmap(-1, 65536)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fd = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    fcntl.ioctl(fd, UFFDIO_API, bytearray(struct.pack("=QQQ", 0xAA, 0, 0)))
    fcntl.ioctl(
        fd, UFFDIO_REGISTER, bytearray(struct.pack("=QQQQ", address, 65536, MODE_MISSING, 0))
    )
    socket.send_fds(channel, [b"x"], [fd])
    os.close(fd)
    try:
        MR(host.pd, 65536, LOCAL, address=address)
    except Exception:  # the device may be gone when it goes on
        pass
    os._exit(0)


def asleep(pid):
    """Whether the process waits in the kernel for its memory."""
    with open(f"/proc/{pid}/stack", encoding="ascii") as file:
        return "userfault" in file.read()


a, b = End(host_a(GID6_A)), End(host_b(GID6_B))
connect(a, b, timeout=0)
ud = End(a.host, e.IBV_QPT_UD)
ud.to_init()
ud.to_rtr(None, 0)
ud.to_rts()
ah = ah_to(a.host, b.host)
b.recv(b.sge(100))
a.send(e.IBV_WR_SEND, a.sge(100))
ud.send(e.IBV_WR_SEND, ud.sge(100), ah=(ah, 0xFFF, QKEY))
good(poll(a.cq) + poll(b.rcq) + poll(ud.cq))
b.qp.close()  # and with it the route by which it answered
busy = End(a.host)
busy.to_init()
busy.to_rtr(b.host.gid_value(), 0xFFE)
busy.to_rts(timeout=16)
busy.send(e.IBV_WR_SEND, busy.sge(100))

ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
child = os.fork()
if child == 0:
    hang(a.host, its)
_, (held,), _, _ = socket.recv_fds(ours, 1, 1)
while not asleep(child):
    time.sleep(0.05)
print("waiting")
sys.stdin.read()
os.close(held)
os.waitpid(child, 0)
