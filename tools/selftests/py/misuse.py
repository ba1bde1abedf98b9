# SPDX-License-Identifier: GPL-2.0
"""Calls that ask for what may not be had, and the errno of each: states, attributes, limits,
memory."""

import ctypes
import errno
import mmap
import os
import resource

import enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

from oxetest import (
    ALL_ACCESS,
    DEV_A,
    GID_A,
    LOCAL,
    End,
    Host,
    Skip,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    pair,
    poll,
    same,
    shut,
)

OXE = os.environ.get("LINK_TYPE", "oxe") == "oxe"
REMOTE_WRITE, REMOTE_READ = e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_READ


def post_too_early():
    for steps in (0, 1, 2):
        a, b = End(host_a()), End(host_b())
        if steps > 0:
            a.to_init()
        if steps > 1:
            a.to_rtr(b.host.gid_value(), b.qp.qp_num)
        same(
            errno_of(a.send, e.IBV_WR_SEND, a.sge(10)),
            errno.EINVAL,
            f"a send posted {steps} steps after RESET",
        )
        none_pending(a.cq, 0.05)
        shut(a, b)


def too_much_posted():
    a, b = pair(rnr=7, min_rnr=1, depth=16)
    posted = 0
    while not errno_of(a.send, e.IBV_WR_SEND, a.sge(10)):
        posted += 1
        if posted > 1000:
            raise AssertionError("a queue of 16 took a thousand requests")
    same(posted >= 16, True, f"room for what was asked for ({posted})")
    shut(a, b)


def too_many_sges():
    a, b = pair()
    room = a.qp.query(e.IBV_QP_CAP)[1].cap.max_send_sge
    same(
        errno_of(a.send, e.IBV_WR_SEND, *[a.sge(1)] * (room + 1)),
        errno.EINVAL,
        f"{room + 1} SGEs where {room} are allowed",
    )
    b.recv(b.sge(100))
    a.send(e.IBV_WR_SEND, *[a.sge(1)] * room)
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def transitions():
    def reached(name):
        a, b = End(host_a()), End(host_b())
        if name in ("INIT", "RTR", "RTS"):
            a.to_init()
        if name in ("RTR", "RTS"):
            a.to_rtr(b.host.gid_value(), b.qp.qp_num)
        if name == "RTS":
            a.to_rts()
        return a, b

    steps = {
        "INIT": lambda a, b: a.to_init(),
        "RTR": lambda a, b: a.to_rtr(b.host.gid_value(), b.qp.qp_num),
        "RTS": lambda a, b: a.to_rts(),
        "SQD": lambda a, b: a.to_state(e.IBV_QPS_SQD),
    }
    bad = [
        ("RESET", "RTR"),
        ("RESET", "RTS"),
        ("RESET", "SQD"),
        ("INIT", "RTS"),
        ("INIT", "SQD"),
        ("RTR", "INIT"),
        ("RTR", "RTR"),
        ("RTR", "SQD"),
        ("RTS", "INIT"),
        ("RTS", "RTR"),
    ]
    for start, end in bad:
        a, b = reached(start)
        before = a.state()
        same(errno_of(steps[end], a, b), errno.EINVAL, f"{start} to {end}")
        same(a.state(), before, f"state after the refused {start} to {end}")
        shut(a, b)


def modify_errno(end, mask, **attributes):
    attr = QPAttr(port_num=attributes.pop("port_num", 1))
    for name, value in attributes.items():
        setattr(attr, name, value)
    return errno_of(end.qp.modify, attr, mask)


def attributes():
    """Attributes that are missing, not allowed here, or out of range."""
    a, b = End(host_a()), End(host_b())
    init = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
    state = {"qp_state": e.IBV_QPS_INIT}
    same(modify_errno(a, init & ~e.IBV_QP_PORT, **state), errno.EINVAL, "INIT without a port")
    same(modify_errno(a, init | e.IBV_QP_SQ_PSN, **state), errno.EINVAL, "INIT with a PSN")
    same(modify_errno(a, init, port_num=2, **state), errno.EINVAL, "INIT with port 2")
    same(modify_errno(a, init, port_num=0, **state), errno.EINVAL, "INIT with port 0")
    same(
        modify_errno(a, init, pkey_index=5000, **state),
        errno.EINVAL,
        "INIT with a P_Key index beyond the table",
    )
    a.to_init()

    gid = b.host.gid_value()
    same(errno_of(a.to_rtr, gid, b.qp.qp_num, min_rnr=32), errno.EINVAL, "an RNR timer of 32")
    same(
        errno_of(a.to_rtr, gid, b.qp.qp_num, rd_atomic=255),
        errno.EINVAL,
        "max_dest_rd_atomic above the limit",
    )
    same(errno_of(a.to_rtr, gid, b.qp.qp_num, mtu=6), errno.EINVAL, "a path MTU of 6")
    same(errno_of(a.to_rtr, gid, b.qp.qp_num, mtu=0), errno.EINVAL, "a path MTU of 0")
    good_gid, a.host.gid = a.host.gid, 250
    same(
        errno_of(a.to_rtr, gid, b.qp.qp_num) in (errno.EINVAL, errno.ENOENT, errno.ENODATA),
        True,
        "a GID index without a GID",
    )
    a.host.gid = good_gid
    a.to_rtr(gid, b.qp.qp_num)

    same(errno_of(a.to_rts, timeout=32), errno.EINVAL, "a timeout of 32")
    same(errno_of(a.to_rts, retry=8), errno.EINVAL, "a retry count of 8")
    same(errno_of(a.to_rts, rnr=8), errno.EINVAL, "an RNR retry count of 8")
    same(errno_of(a.to_rts, rd_atomic=255), errno.EINVAL, "max_rd_atomic above the limit")
    a.to_rts()
    shut(a, b)


def mtu_beyond_port():
    """A path MTU above the port's active one."""
    host = host_a()
    active = host.ctx.query_port(1).active_mtu
    if active >= e.IBV_MTU_4096:
        raise Skip("the port carries the largest path MTU there is")
    a = End(host)
    a.to_init()
    same(
        errno_of(a.to_rtr, host.gid_value(), a.qp.qp_num, mtu=active + 1), errno.EINVAL, "path MTU"
    )
    shut(a)


def query_returns():
    """A query returns the attributes that were set."""
    a, b = pair(psn_a=0xABCDEF, psn_b=0x10203, timeout=9, retry=5, rnr=3, rd_atomic=4)
    attr, init = a.qp.query(0x1FFFFF)
    same(
        (
            attr.qp_state,
            attr.path_mtu,
            attr.dest_qp_num,
            attr.timeout,
            attr.retry_cnt,
            attr.rnr_retry,
            attr.max_rd_atomic,
        ),
        (e.IBV_QPS_RTS, e.IBV_MTU_1024, b.qp.qp_num, 9, 5, 3, 4),
        "attributes",
    )
    same((attr.sq_psn, attr.rq_psn), (0xABCDEF, 0x10203), "PSNs")
    same(
        (attr.qp_access_flags & ALL_ACCESS, attr.port_num), (ALL_ACCESS, 1), "access flags and port"
    )
    same(init.cap.max_send_wr >= 64 and init.cap.max_recv_wr >= 64, True, "queue depths")
    shut(a, b)


def missing_service():
    """XRC and raw packets are not supported. (A queue pair that is made all the same would be of a
    service not asked for.)"""
    host = host_a()
    cq = CQ(host.ctx, 16)
    for kind in (e.IBV_QPT_XRC_SEND, e.IBV_QPT_RAW_PACKET):
        init = QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=QPCap())
        same(errno_of(QP, host.pd, init), errno.EOPNOTSUPP, f"a queue pair of type {kind}")
    host.close()


def migration_state():
    """IBV_QP_PATH_MIG_STATE with MIGRATED says that there is no alternate path, which is so:
    accepted, and returned by a query."""
    a, b = pair()
    attr, mask = QPAttr(port_num=1), e.IBV_QP_PATH_MIG_STATE
    for state, want in (
        (e.IBV_MIG_MIGRATED, 0),
        (e.IBV_MIG_REARM, errno.EOPNOTSUPP),
        (e.IBV_MIG_ARMED, errno.EOPNOTSUPP),
        (3, errno.EINVAL),
    ):
        if want and not OXE:
            continue  # rxe takes them all
        attr.path_mig_state = state
        same(errno_of(a.qp.modify, attr, mask), want, f"migration state {state}")
        same(a.qp.query(0x1FFFFF)[0].path_mig_state, e.IBV_MIG_MIGRATED, "what a query tells")
    b.recv(b.sge(10))
    a.send(e.IBV_WR_SEND, a.sge(10))
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def query_tells_nothing_else():
    """Attributes that a queue pair of its kind does not have are 0: the answer's buffer does not
    show the kernel's heap."""
    a, b = End(host_a()), End(host_b(), e.IBV_QPT_UD)
    names = (
        "path_mig_state",
        "en_sqd_async_notify",
        "sq_draining",
        "alt_pkey_index",
        "alt_port_num",
        "alt_timeout",
        "rate_limit",
    )
    for end, more in (
        (a, ("qkey",)),
        (
            b,
            (
                "path_mtu",
                "dest_qp_num",
                "rq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "min_rnr_timer",
                "max_rd_atomic",
            ),
        ),
    ):
        attr, _ = end.qp.query(0x1FFFFF)
        same(
            {name: getattr(attr, name) for name in names + more},
            dict.fromkeys(names + more, 0),
            "attributes",
        )
    shut(a, b)


def limits():
    host = host_a()
    dev = host.ctx.query_device()
    cq = CQ(host.ctx, 16)

    def qp(kind=e.IBV_QPT_RC, **cap):
        return errno_of(QP, host.pd, QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=QPCap(**cap)))

    same(qp(), 0, "a plain queue pair")
    for name, limit in (
        ("max_send_wr", dev.max_qp_wr),
        ("max_recv_wr", dev.max_qp_wr),
        ("max_send_sge", dev.max_sge),
        ("max_recv_sge", dev.max_sge),
        ("max_inline_data", 1 << 20),
    ):
        same(qp(**{name: limit + 1}), errno.EINVAL, f"{name} of {limit + 1}")
        same(qp(**{name: 2**32 - 1}), errno.EINVAL, f"{name} of 2^32 - 1")
    same(
        qp(kind=e.IBV_QPT_RAW_PACKET) in (errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM),
        True,
        "a raw packet queue pair",
    )
    for cqe in (dev.max_cqe + 1, 2**31 - 1):
        same(errno_of(CQ, host.ctx, cqe), errno.EINVAL, f"a CQ of {cqe}")
    same(errno_of(CQ, host.ctx, 0), errno.EINVAL, "a CQ of none")
    host.close()


def unpredictable_keys():
    """From some keys others cannot be predicted. By chance this fails once in 2^50 times."""
    host = host_a()
    keys = [MR(host.pd, 4096, LOCAL).rkey for _ in range(64)]
    steps = [(b - a) % 2**32 >> 8 for a, b in zip(keys, keys[1:])]
    same(len(set(steps)) > 32, True, f"steps from key to key: {steps}")
    same(
        sum(min(step, 2**24 - step) < 2**15 for step in steps) < 16,
        True,
        f"few keys near the one before: {steps}",
    )
    for bit in range(32):
        same({key >> bit & 1 for key in keys}, {0, 1}, f"bit {bit} of the keys")
    host.close()


def memory():
    """Regions of memory that does not exist, that is not writable, or of no sensible range."""
    host = host_a()
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 16 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))

    def reg(start, length, access):
        return errno_of(MR, host.pd, length, access, start)

    same(reg(address, 16 * page, ALL_ACCESS), 0, "good memory")
    same(reg(page * 3, page, LOCAL), errno.EFAULT, "an address that is not mapped")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.munmap(ctypes.c_void_p(address + 8 * page), ctypes.c_size_t(page))
    same(reg(address, 16 * page, LOCAL), errno.EFAULT, "a range with a hole")
    same(reg(address, 8 * page, LOCAL), 0, "the part before the hole")
    libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 1)
    same(reg(address, page, LOCAL), errno.EFAULT, "local write on a read-only mapping")
    same(reg(address, page, 0), 0, "reading from a read-only mapping")
    for access in (REMOTE_WRITE, e.IBV_ACCESS_REMOTE_ATOMIC, REMOTE_WRITE | REMOTE_READ):
        same(
            reg(address + page, page, access),
            errno.EINVAL,
            f"remote write or atomic without local write ({access:#x})",
        )
    same(
        reg(2**64 - page, 2 * page, LOCAL) in (errno.EINVAL, errno.EOVERFLOW),
        True,
        "a range that wraps",
    )
    same(
        reg(address, 2**62, LOCAL) in (errno.EINVAL, errno.EFAULT, errno.ENOMEM),
        True,
        "a range of 2^62",
    )
    same(
        reg(address + page, page, 1 << 15) in (errno.EINVAL, errno.EOPNOTSUPP),
        True,
        "an access flag nobody knows",
    )
    # Bits 20 to 29 are IBV_ACCESS_OPTIONAL_RANGE: hints, which a device may not know.
    same(reg(address + page, page, LOCAL | 1 << 29), 0, "an optional access flag without a meaning")
    host.close()


def locked_memory():
    """Pinned pages count against RLIMIT_MEMLOCK for a process without CAP_IPC_LOCK, and are given
    back."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(write_end)
        text = os.fdopen(read_end).read()
        os.waitpid(child, 0)
        same(text, "well", "result of the unprivileged process")
        return
    try:
        os.close(read_end)
        host = Host(DEV_A, GID_A)
        area = mmap.mmap(-1, 4 << 20)
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (256 << 10, 256 << 10))
        os.setuid(65534)

        def reg(length):
            return errno_of(MR, host.pd, length, LOCAL, address)

        same(reg(1 << 20), errno.ENOMEM, "1 MiB with a limit of 256 KiB")
        for _ in range(10):
            mr = MR(host.pd, 128 << 10, LOCAL, address)
            same(reg(192 << 10), errno.ENOMEM, "192 KiB beside 128 KiB")
            mr.close()
        mr = MR(host.pd, 192 << 10, LOCAL, address)
        mr.close()
        os.write(write_end, b"well")
    except BaseException as error:
        os.write(write_end, repr(error).encode())
    finally:
        os._exit(0)


CASES = [
    ("send posted too early", post_too_early),
    ("send queue full", too_much_posted),
    ("too many SGEs", too_many_sges),
    ("illegal transitions", transitions),
    ("bad attributes", attributes),
    ("path MTU above the port's", mtu_beyond_port),
    ("attributes are told as set", query_returns),
    ("services that are not there", missing_service),
    ("limits of objects", limits),
    ("path migration state", migration_state),
    ("a query tells nothing else", query_tells_nothing_else),
    ("keys that nobody can guess", unpredictable_keys),
    ("bad memory", memory),
    ("RLIMIT_MEMLOCK", locked_memory),
]

if __name__ == "__main__":
    main(CASES)
