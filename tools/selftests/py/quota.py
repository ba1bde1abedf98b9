# SPDX-License-Identifier: GPL-2.0
"""What one user may take of a device (F5 and F14), and the limits of the rdma cgroup."""

import errno
import ipaddress
import os
import signal

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

from mcast import Member
from oxetest import DEV_A, DEV_B, GID_A, LOCAL, Skip, child, errno_of, host_a, main, same, until

CGROUP = "/tmp/oxe-quota-cgroup"
ONE, TWO = 1001, 1002
FIRST = int(ipaddress.ip_address("239.9.0.1"))


def group(number):
    return str(ipaddress.IPv4Address(FIRST + number))


def as_user(uid, function):
    """In a process of that user; the devices are opened by it."""

    def run():
        os.setresuid(uid, uid, uid)
        function()

    same(child(run), True, "its end")


def groups():
    """A user gets as many multicast groups, and queue pairs of a group, as the device says."""
    host = host_a()
    attr = host.ctx.query_device()
    most, all_members = attr.max_mcast_grp, attr.max_mcast_qp_attach
    host.close()

    def take():
        member = Member(DEV_A, GID_A)
        for number in range(most):
            member.attach(group(number))
        same(errno_of(member.attach, group(most)), errno.ENOMEM, "one group more")
        # A second member of a group that the user is in, and one group for another.
        second = Member(DEV_A, GID_A)
        second.attach(group(0))
        same(errno_of(second.attach, group(most)), errno.ENOMEM, "one group more, by another QP")
        member.detach(group(1))
        second.attach(group(most))
        second.detach(group(most))
        for _ in range(all_members - 2):
            Member(DEV_A, GID_A).attach(group(0))
        last = Member(DEV_A, GID_A)
        same(errno_of(last.command, 30, group(0), second.handle), errno.ENOMEM, "a member more")
        # Others have what is left, meanwhile.
        os.write(go, b"x")
        os.read(gone, 1)

    go_read, go = os.pipe()
    gone, gone_write = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresuid(ONE, ONE, ONE)
            take()
            status = 0
        finally:
            os.write(go, b"e")
            os._exit(status)
    same(os.read(go_read, 1), b"x", "the user that takes its share")

    def other():
        member = Member(DEV_A, GID_A)
        for number in (0, most + 1, most + 2):
            member.attach(group(number))

    as_user(TWO, other)
    other()
    os.write(gone_write, b"x")
    same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "its end")
    # All of it comes back.
    as_user(ONE, lambda: [Member(DEV_A, GID_A).attach(group(n)) for n in range(3)])


def cgroup():
    """Objects beyond the cgroup's limit are refused with EAGAIN, and count until they go."""
    where = f"{CGROUP}/limited"
    os.makedirs(CGROUP, exist_ok=True)
    if os.system(f"mount -t cgroup2 none {CGROUP}"):
        raise Skip("no cgroups")
    with open(f"{CGROUP}/cgroup.controllers", encoding="ascii") as file:
        if "rdma" not in file.read().split():
            raise Skip("a kernel without the rdma cgroup")

    def write(name, text):
        with open(name, "w", encoding="ascii") as file:
            file.write(text)

    def current():
        with open(f"{where}/rdma.current", encoding="ascii") as file:
            for line in file:
                device, *counts = line.split()
                if device == DEV_A:
                    return dict(part.split("=") for part in counts)
        return {"hca_handle": "0", "hca_object": "0"}

    write(f"{CGROUP}/cgroup.subtree_control", "+rdma")
    os.makedirs(where, exist_ok=True)
    write(f"{where}/rdma.max", f"{DEV_A} hca_handle=2 hca_object=9")

    def limited():
        write(f"{where}/cgroup.procs", str(os.getpid()))
        ctx, other = Context(name=DEV_A), Context(name=DEV_A)
        same(errno_of(Context, name=DEV_A) != 0, True, "a third context is refused")
        pds = [PD(ctx) for _ in range(5)]
        cqs = [CQ(ctx, 8) for _ in range(2)]
        more = PD(other)
        mr = MR(more, 4096, LOCAL)
        same(current()["hca_object"], "9", "the objects in use")
        for make in (lambda: PD(ctx), lambda: CQ(ctx, 8), lambda: MR(pds[0], 4096, LOCAL)):
            same(errno_of(make), errno.EAGAIN, "an object more")
        cqs.pop().close()
        kept = PD(ctx)
        same(errno_of(PD, ctx), errno.EAGAIN, "an object more")
        # Another device is another matter.
        if DEV_B != DEV_A:
            PD(Context(name=DEV_B))
        del mr, kept
        os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if not pid:
        try:
            limited()
        except BaseException as error:
            print(f"# {error}", flush=True)
        os._exit(1)
    same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGKILL, "the process's end")
    zero = {"hca_handle": "0", "hca_object": "0"}
    until(lambda: current() == zero, "the counts to go back to 0")
    os.rmdir(where)


CASES = [
    ("multicast groups and their members", groups),
    ("the rdma cgroup", cgroup),
]

if __name__ == "__main__":
    main([(f"quota: {name}", function) for name, function in CASES])
