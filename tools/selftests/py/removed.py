# SPDX-License-Identifier: GPL-2.0
"""The device is removed while a process uses it: the process gets an event and errors, keeps its
mappings, and does not delay the removal. polled.py has a process that only polls.
"""

import ctypes
import errno
import os
import subprocess

import enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SendWR

from oxetest import (
    DEV_A,
    DEV_B,
    LOCAL,
    QKEY,
    SIG,
    End,
    Host,
    ah_to,
    child,
    connect,
    errno_of,
    host_a,
    host_b,
    main,
    next_event,
    poll,
    same,
    shut,
    status,
    until,
    with_events,
)

RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
# A requester that lost its peer says so soon.
SOON = {"timeout": 10, "retry": 1}


def delete(*devices):
    """Removes the devices. subprocess waits; remove.sh limits the time of all of it."""
    for device in devices:
        subprocess.run(["rdma", "link", "del", device], check=True)
        same(os.path.exists(f"/sys/class/infiniband/{device}"), False, f"{device} is there")


def again():
    """Makes the devices anew, as lib.sh does. Returns the indices of their IPv4 GIDs."""
    lib = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib.sh")
    script = f'. "{lib}"; trap - EXIT; links_down; links_up && echo "$GID4_A $GID4_B"'
    made = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    same(made.returncode, 0, f"status of the new devices ({made.stdout}, {made.stderr})")
    return [int(gid) for gid in made.stdout.splitlines()[-1].split()]


def is_lost(host, events):
    """The process is told that the device is gone."""
    seen = []
    while e.IBV_EVENT_DEVICE_FATAL not in seen:
        seen.append(next_event(host, events))
        same(seen[-1] is not None, True, f"DEVICE_FATAL among the events {seen}")


def use(a, b):
    """Something that does not end: messages that find no receive, or receives without messages."""
    if a.type == UD:
        ah = ah_to(a.host, b.host)
        a.send(e.IBV_WR_SEND, a.sge(100), ah=(ah, b.qp.qp_num, QKEY))
        return [ah]
    for i in range(8):
        a.recv(a.sge(100), wr_id=i)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(), remote=b.remote())
        a.send(e.IBV_WR_SEND, a.sge(50))
    return []


def holds_everything(qp_type):
    """One end's device goes. Its process finds every call refused and may give all back; the other
    end's requester gives up."""
    a_host, events = with_events(host_a)
    a, b = End(a_host, qp_type), End(host_b(), qp_type)
    connect(a, b, **(SOON if qp_type == RC else {}))
    channel = CompChannel(a_host.ctx)
    objects = [
        CQ(a_host.ctx, 10, None, channel, 0),
        SRQ(a_host.pd, SrqInitAttr(SrqAttr(8, 1))),
        MW(a_host.pd, e.IBV_MW_TYPE_1),
        PD(a_host.ctx),
    ]
    objects[0].req_notify(False)
    objects += use(a, b)
    ah = (objects[-1], b.qp.qp_num, QKEY) if qp_type == UD else None
    delete(DEV_A)
    is_lost(a_host, events)
    refused = [
        errno_of(CQ, a_host.ctx, 10),
        errno_of(PD, a_host.ctx),
        errno_of(MR, a_host.pd, 4096, LOCAL),
        errno_of(a.to_state, e.IBV_QPS_ERR),
        errno_of(a_host.ctx.query_port, 1),
        errno_of(a.send, e.IBV_WR_SEND, a.sge(10), ah=ah),
        errno_of(channel.get_cq_event, objects[0]),
    ]
    same(set(refused), {errno.EIO}, f"the errors of calls, {refused}")
    # These do not enter the kernel: its rings and its memory are still the process's.
    while a.cq.poll(1)[0]:
        pass
    same(errno_of(a.recv, a.sge(10)), errno.ENOMEM, "a receive in a ring that nobody reads")
    ctypes.memset(a.mr.buf, 1, a.mr.length)
    if qp_type == RC:
        b.send(e.IBV_WR_RDMA_WRITE, b.sge(8), remote=a.remote(), flags=SIG)
        same(status(poll(b.cq)[-1]), "RETRY_EXC_ERR", "the peer's request")
    for thing in reversed(objects):
        thing.close()
    a.close()
    shut(a, b)
    again()


def system_time(pid):
    """The time that a process has spent in the kernel, in ticks."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().split()[14])


def long_doorbell():
    """A process rings one doorbell for UC requests that copy for very long on one device (F10). The
    removal does not wait for them."""
    count, sges, size = 64, 32, 1 << 25

    def process():
        host = host_a()
        a, b = (End(host, UC, size=size, depth=count, sges=sges) for _ in range(2))
        connect(a, b)
        for i in range(count):
            b.recv(*[b.sge()] * sges, wr_id=i)
        # The last request first. pyverbs keeps no reference to the next one.
        work = {"opcode": e.IBV_WR_SEND, "num_sge": sges, "sg": [a.sge()] * sges}
        requests = [None]
        for i in reversed(range(count)):
            requests.append(SendWR(i, **work, send_flags=SIG, next_wr=requests[-1]))
        os.write(go[1], str(os.getpid()).encode())
        a.qp.post_send(requests[-1])
        found = [status(wc) for wc in poll(a.cq, count)]
        done = found.count("SUCCESS")
        same(found, ["SUCCESS"] * done + ["WR_FLUSH_ERR"] * (count - done), "the requests")
        same(done < count, True, "the removal came before the end")

    def meanwhile():
        os.close(go[1])
        pid = os.read(go[0], 16).decode()
        if pid:
            begun = system_time(pid)
            until(lambda: system_time(pid) > begun + 20, "work in the doorbell")
            delete(DEV_A)

    go = os.pipe()
    same(child(process, meanwhile), True, "the process ended by itself")
    again()


def module_unloaded():
    """The module goes while processes hold contexts, queues and mappings of its late devices."""
    lost = [with_events(open_host) for open_host in (host_a, host_b)]
    a, b = (End(host) for host, _ in lost)
    connect(a, b, **SOON)
    use(a, b)
    delete(DEV_A, DEV_B)
    for host, events in lost:
        is_lost(host, events)
    until(lambda: os.system("rmmod oxe") == 0, "rmmod", seconds=10)
    for end in (a, b):
        while end.cq.poll(1)[0]:
            pass
        same(errno_of(CQ, end.host.ctx, 10), errno.EIO, "another CQ")
    # The old contexts are still open beside those of the new devices.
    new = [End(Host(*which)) for which in zip((DEV_A, DEV_B), again())]
    connect(*new)
    new[0].send(e.IBV_WR_RDMA_WRITE, new[0].sge(), remote=new[1].remote())
    same(status(poll(new[0].cq)[0]), "SUCCESS", "a request on the new devices")
    shut(a, b, *new)


CASES = [
    ("a process with an RC queue pair loses its device", holds_everything, RC),
    ("a process with a UC queue pair loses its device", holds_everything, UC),
    ("a process with a UD queue pair loses its device", holds_everything, UD),
    ("a long doorbell does not hold up the removal", long_doorbell),
    ("the module is unloaded under processes that hold contexts", module_unloaded),
]

if __name__ == "__main__":
    main(CASES)
