# SPDX-License-Identifier: GPL-2.0
"""Fail each allocation and each user copy of a call in turn, one site after another, until the call succeeds untouched.

Uses /proc/thread-self/fail-nth of a kernel with fault injection: the n-th site that could fail in this thread does. Each failure must
come back as ENOMEM or EFAULT (netlink's own sockets add ENOBUFS), and must leave nothing behind: faults.sh checks that afterwards.
Usage: faults.py [case...]
"""
import errno
import os
import socket
import struct
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr

from oxetest import (ALL_ACCESS, DEV_A, End, Skip, ah_to, connect, good, host_a, host_b, main, out, poll, same)

SITES = 3000
# What a caller is told of memory that is short, and of its own memory that cannot be read; ENOBUFS is netlink's word.
EXPECTED = {errno.ENOMEM, errno.EFAULT, errno.ENOBUFS}
LINK_TYPE = os.environ.get("LINK_TYPE", "oxe")
NAMESPACE = "/run/netns/" + os.environ.get("NS_A", "oxt-a")


class Fault:
    """The n-th site in this thread fails, from the arming to the reading back."""

    def __init__(self):
        self.fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def arm(self, n):
        os.pwrite(self.fd, b"%d" % n, 0)

    def disarm(self):
        """True if the fault was injected."""
        # Reading and resetting copy to and from the user too, so a fault still armed may strike just there.
        try:
            left = os.pread(self.fd, 20, 0).strip()
        except OSError:
            left = b"unspent"
        for _ in range(2):
            try:
                os.pwrite(self.fd, b"0", 0)
                break
            except OSError:
                pass
        return left == b"0"


class Sites:
    """call(x) with x = prepare() under faults; undo(result, x) if it succeeds all the same."""

    def __init__(self, call, undo, prepare=None):
        self.call, self.undo, self.prepare = call, undo, prepare
        self.fault, self.codes, self.count = Fault(), {}, 0

    def fails(self, n):
        """Once, with a fault at site n. False if the call is over before it gets there."""
        made = self.prepare() if self.prepare else None
        error = None
        self.fault.arm(n)
        try:
            result = self.call(made)
        except PyverbsRDMAError as problem:
            error = problem.error_code
        except OSError as problem:
            error = problem.errno
        except (MemoryError, PyverbsError):
            error = errno.ENOMEM  # the library's own mapping failed
        injected = self.fault.disarm()
        if error is None:
            self.undo(result, made)
        elif not injected:
            raise AssertionError(f"site {n}: failed with {errno.errorcode.get(error, error)} though nothing was injected")
        else:
            self.codes[error] = self.codes.get(error, 0) + 1
        self.count += injected
        return injected

    def judge(self, also=()):
        """Only errors that tell of memory, and those in also."""
        out(f"# {self.count} sites, errors {({errno.errorcode.get(k, k): v for k, v in self.codes.items()})}")
        if not self.count:
            raise AssertionError("not one site could fail: fault injection does not work")
        strange = {errno.errorcode.get(k, k) for k in self.codes if k not in EXPECTED and k not in also}
        same(strange, set(), "errors that are none of memory")


def every_site(call, undo, prepare=None, also=()):
    """A fault at site 1, 2, ... until the call succeeds."""
    sites, n = Sites(call, undo, prepare), 1
    while sites.fails(n):
        n += 1
        if n > SITES:
            raise AssertionError(f"still failing at site {SITES}")
    sites.judge(also)


def many_sites(call, undo, prepare, ends, between):
    """As every_site for a call with thousands: the first and the last ones, and some of those between."""
    sites, most = Sites(call, undo, prepare), 1
    while sites.fails(most):
        most *= 2
    low, high = most // 2, most  # low is one, high is none
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sites.fails(middle) else (low, middle)
    out(f"# {low} sites in all")
    step = max(1, (low - 2 * ends) // between)
    for n in sorted({*range(1, ends), *range(ends, low - ends, step), *range(max(1, low - ends), low + 1)}):
        sites.fails(n)
    sites.judge()


def close(thing, _):
    thing.close()


def context():
    # libibverbs tries several ways to open a device, and says what the last one said.
    every_site(lambda _: Context(name=DEV_A), close, also=(errno.ENOSYS, -1))


def with_host(call, undo=close):
    host = host_a()
    every_site(lambda _: call(host), undo)
    host.close()


def pd():
    with_host(lambda host: PD(host.ctx))


def cq():
    with_host(lambda host: CQ(host.ctx, 100))


def cq_with_channel():
    host = host_a()
    channel = CompChannel(host.ctx)
    every_site(lambda _: CQ(host.ctx, 100, None, channel, 0), close)
    host.close()


def resize():
    host = host_a()

    def call(made):
        made.resize(500)
        return made
    try:
        probe = CQ(host.ctx, 10)
        probe.resize(20)
        probe.close()
    except PyverbsRDMAError as error:
        if error.error_code in (errno.EOPNOTSUPP, errno.ENOSYS):
            host.close()
            raise Skip("the device does not resize CQs") from error
        raise
    every_site(call, lambda _, made: made.close(), lambda: CQ(host.ctx, 10))
    host.close()


def qp(kind):
    host = host_a()
    cq_ = CQ(host.ctx, 100)
    init = QPInitAttr(qp_type=kind, scq=cq_, rcq=cq_, cap=QPCap(max_send_wr=20, max_recv_wr=20, max_send_sge=3, max_recv_sge=3))
    every_site(lambda _: QP(host.pd, init), close)
    host.close()


def qp_on_srq():
    from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
    host = host_a()
    attr = SrqInitAttr(SrqAttr(max_wr=20, max_sge=2))
    try:
        SRQ(host.pd, attr).close()
    except PyverbsRDMAError as error:
        host.close()
        raise Skip(f"no SRQ ({error})") from error
    every_site(lambda _: SRQ(host.pd, attr), close)
    host.close()


def mr():
    with_host(lambda host: MR(host.pd, 3 << 20, ALL_ACCESS))


def ah():
    a, b = host_a(), host_b()
    # libibverbs asks for the GID first, and says no more than that there is none.
    every_site(lambda _: ah_to(a, b), close, also=(-1,))
    a.close()
    b.close()


def modify(step):
    """One step of RESET to INIT to RTR to RTS to ERR."""
    a, b = host_a(), host_b()
    peer = End(b)
    gid = b.gid_value()
    steps = [lambda x: x.to_init(), lambda x: x.to_rtr(gid, peer.qp.qp_num), lambda x: x.to_rts(), lambda x: x.to_state(e.IBV_QPS_ERR)]

    def prepare():
        end = End(a, size=0)
        for earlier in steps[:step]:
            earlier(end)
        return end

    every_site(steps[step], lambda _, end: end.close(), prepare)
    a.close()
    b.close()


def query():
    a, b = End(host_a()), End(host_b())
    connect(a, b)
    every_site(lambda _: a.state(), lambda *_: None)
    a.host.close()
    b.host.close()


def traffic():
    """A fault while a request is posted and sent delays it, or fails it with a completion; the next one comes through."""
    a, b = End(host_a()), End(host_b())
    connect(a, b, timeout=8)
    fault = Fault()
    for n in range(1, 60):
        b.recv(b.sge(9000))
        fault.arm(n)
        try:
            a.send(e.IBV_WR_SEND, a.sge(9000))
        except PyverbsRDMAError as error:
            # Refused at the door: librxe has put it into the ring already, a later doorbell takes it along.
            injected = fault.disarm()
            same((injected, error.error_code in EXPECTED), (True, True), f"site {n}, error {error.error_code}")
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(1), remote=b.remote())
            good(poll(a.cq, 2))
        else:
            injected = fault.disarm()
            good(poll(a.cq))
        good(poll(b.rcq))
        if not injected:
            break
    same(n > 1, True, "a site that could fail")
    out(f"# {n - 1} sites")
    a.host.close()
    b.host.close()


def attribute(kind, value):
    data = value.encode() + b"\0"
    return struct.pack("<HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def rdma_socket():
    """A socket of the RDMA netlink family in this thread's network namespace."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
    sock.bind((0, 0))
    sock.settimeout(10)
    return sock


def netlink(sock, command, flags, body):
    """A request to the kernel; raises what it answers."""
    sock.send(struct.pack("<IHHII", 16 + len(body), (5 << 10) + command, flags, 1, 0) + body)
    try:
        answer = sock.recv(65536)
    except TimeoutError:
        raise OSError(errno.ENOMEM, "no answer: the kernel could not allocate it") from None
    code = struct.unpack_from("<i", answer, 16)[0]
    if code:
        raise OSError(-code, os.strerror(-code))


def link_add():
    """RDMA_NLDEV_CMD_NEWLINK over our own socket, so that all of it runs in this thread. Names, not numbers, in the message."""
    with open(NAMESPACE, "rb") as file:
        os.setns(file.fileno(), os.CLONE_NEWNET)
    name, where = LINK_TYPE + "f", "/sys/class/infiniband/" + LINK_TYPE + "f"
    body = attribute(2, name) + attribute(65, LINK_TYPE) + attribute(51, "oxvf")

    def delete(*_):
        # Deleting goes by index.
        with os.popen(f"rdma link delete {name} 2>&1") as pipe:
            text = pipe.read()
        same(os.path.exists(where), False, f"the device is gone ({text})")

    def call(sock):
        try:
            netlink(sock, 3, 5, body)
        except OSError:
            # The answer alone may have failed.
            if os.path.exists(where):
                return None
            raise
        return None

    # A device has three files for each place in its GID table: all that is between is the making of those.
    many_sites(call, delete, rdma_socket, 80, 40)


CASES = [
    ("open the device", context), ("allocate a PD", pd), ("create a CQ", cq), ("create a CQ with a channel", cq_with_channel),
    ("resize a CQ", resize), ("create an RC queue pair", qp, e.IBV_QPT_RC), ("create a UD queue pair", qp, e.IBV_QPT_UD),
    ("create an SRQ", qp_on_srq), ("register memory", mr), ("create an AH", ah),
    ("modify to INIT", modify, 0), ("modify to RTR", modify, 1), ("modify to RTS", modify, 2), ("modify to ERR", modify, 3),
    ("query a queue pair", query), ("post and send", traffic), ("add a link", link_add),
]

if __name__ == "__main__":
    if not os.path.exists("/proc/thread-self/fail-nth"):
        sys.exit("this kernel has no fault injection")
    main(CASES)
