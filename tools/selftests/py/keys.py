# SPDX-License-Identifier: GPL-2.0
"""Memory windows of types 1 and 2B: who may use them, for what, and for how long."""

import ctypes
import errno
import struct

import enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.wr import SGE, RecvWR, SendWR

from oxetest import (
    ALL_ACCESS,
    LOCAL,
    QKEY,
    SIG,
    End,
    ah_to,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    status,
)
from rereg import ACCESS, rereg

BIND = e.IBV_ACCESS_MW_BIND
READ, WRITE = e.IBV_ACCESS_REMOTE_READ, e.IBV_ACCESS_REMOTE_WRITE
ATOMIC, ZERO_BASED = e.IBV_ACCESS_REMOTE_ATOMIC, e.IBV_ACCESS_ZERO_BASED
TYPES = (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2)
SIZE = 20000
FENCE = e.IBV_SEND_FENCE


class Owner(End):
    """The side whose memory is named: its region admits windows."""

    def __init__(self, host, access=LOCAL | BIND):
        super().__init__(host, size=SIZE, access=ALL_ACCESS)
        self.mr.close()
        self.mr = MR(host.pd, SIZE, access)
        ctypes.memset(self.mr.buf, 0, SIZE)
        self.windows = []

    def window(self, kind):
        self.windows.append(MW(self.host.pd, kind))
        return self.windows[-1]

    def info(self, rights, offset=1000, length=3000, mr=None):
        mr = mr or self.mr
        return MWBindInfo(mr, mr.buf + offset, length, rights)

    def post_bind(self, mw, info, flags=SIG):
        """Posts a bind request. Returns the new key."""
        if mw.type == e.IBV_MW_TYPE_1:
            self.qp.bind_mw(mw, MWBind(info, flags))
            return mw.rkey
        wr = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=flags)
        wr.set_bind_wr(mw, info)
        self.qp.post_send(wr)
        return wr.rkey

    def bind(self, mw, info):
        key = self.post_bind(mw, info)
        good(poll(self.cq))
        return key

    def invalidate(self, key, flags=SIG, opcode=e.IBV_WR_LOCAL_INV, sges=()):
        wr = SendWR(opcode=opcode, num_sge=len(sges), sg=list(sges) or None, send_flags=flags)
        wr.imm_data = key
        self.qp.post_send(wr)

    def bytes(self, offset, length):
        return self.mr.read(length, offset)


def peers(access=LOCAL | BIND):
    """The owner's end and the peer's, connected."""
    owner, peer = Owner(host_b(), access), Owner(host_a())
    connect(owner, peer)
    return owner, peer


def access(peer, opcode, address, key, length=100):
    """The status of one RDMA operation of the peer."""
    peer.send(opcode, peer.sge(length), remote=(address, key))
    return status(poll(peer.cq)[0])


def write(peer, owner, key, offset=1000, length=100):
    return access(peer, e.IBV_WR_RDMA_WRITE, owner.mr.buf + offset, key, length)


def read(peer, owner, key, offset=1000, length=100):
    return access(peer, e.IBV_WR_RDMA_READ, owner.mr.buf + offset, key, length)


def grants(kind):
    """What is inside the window and granted goes on; by WRITE, READ and atomics."""
    owner, peer = peers()
    mw = owner.window(kind)
    key = owner.bind(mw, owner.info(READ | WRITE | ATOMIC))
    peer.mr.write("x" * 3000, 3000)
    same(write(peer, owner, key, length=3000), "SUCCESS", "WRITE to all of it")
    same(owner.bytes(999, 3002), b"\0" + b"x" * 3000 + b"\0", "the bytes written")
    same(read(peer, owner, key, 3999, 1), "SUCCESS", "READ of the last byte")
    peer.send(
        e.IBV_WR_ATOMIC_FETCH_AND_ADD,
        peer.sge(8),
        remote=(owner.mr.buf + 1000, key),
        atomic=(1, 0),
    )
    good(poll(peer.cq))
    same(owner.bytes(1000, 8), b"y" + b"x" * 7, "the atomic's bytes")
    shut(owner, peer)


def refuses(kind, rights, opcode, offset, length):
    """What is outside of the window, or not granted, is a remote access error for the peer."""
    owner, peer = peers()
    mw = owner.window(kind)
    key = owner.bind(mw, owner.info(rights))
    got = access(peer, opcode, owner.mr.buf + offset, key, length)
    same(got, "REM_ACCESS_ERR", "the access")
    same(owner.bytes(0, SIZE), bytes(SIZE), "the owner's memory")
    shut(owner, peer)


def zero_based(kind):
    owner, peer = peers()
    mw = owner.window(kind)
    key = owner.post_bind(mw, owner.info(WRITE | ZERO_BASED)) if kind == TYPES[1] else None
    if key is None:
        same(
            errno_of(owner.post_bind, mw, owner.info(WRITE | ZERO_BASED)),
            errno.EINVAL,
            "librxe refuses it for type 1",
        )
        shut(owner, peer)
        return
    good(poll(owner.cq))
    peer.mr.write("z" * 100, 100)
    same(access(peer, e.IBV_WR_RDMA_WRITE, 2900, key), "SUCCESS", "the last bytes")
    same(owner.bytes(3900, 101), b"z" * 100 + b"\0", "the bytes written")
    same(access(peer, e.IBV_WR_RDMA_WRITE, 2901, key), "REM_ACCESS_ERR", "one byte more")
    shut(owner, peer)


def unbindable(kind, what):
    """Requests that must not bind: the bind fails, and the QP with it."""
    owner, peer = peers(LOCAL | (0 if what == "no right to bind" else BIND))
    mw = owner.window(kind)
    mr = owner.mr
    if what == "another PD":
        pd = PD(owner.host.ctx)
        mr = MR(pd, SIZE, LOCAL | BIND)
    elif what == "WRITE to a region without local write":
        mr = MR(owner.host.pd, SIZE, BIND)
    elif what == "a window of another PD":
        pd = PD(owner.host.ctx)
        mw = MW(pd, kind)
    elif what == "a key that is not a region's":
        mr = MR(owner.host.pd, SIZE, LOCAL | BIND)
    places = {
        "past the end": (SIZE - 100, 101),
        "before the start": (-1, 10),
        "a range that wraps": (2**64 - 4096 - mr.buf, 8192 + mr.buf),
    }
    info = owner.info(WRITE, *places.get(what, (0, 100)), mr=mr)
    if what == "a key that is not a region's":
        mr.close()
    elif what == "rights that windows do not have":
        info = owner.info(WRITE | e.IBV_ACCESS_ON_DEMAND, mr=mr)
    owner.post_bind(mw, info)
    owner.send(e.IBV_WR_RDMA_WRITE, owner.sge(10), remote=peer.remote())
    same([status(wc) for wc in poll(owner.cq, 2)], ["MW_BIND_ERR", "WR_FLUSH_ERR"], "completions")
    shut(owner, peer)


def bound_twice():
    """A window of type 2 must be invalidated before it is bound again; one of type 1 moves."""
    owner, peer = peers()
    one = owner.window(TYPES[0])
    old = owner.bind(one, owner.info(WRITE))
    new = owner.bind(one, owner.info(WRITE, 5000))
    same(old != new, True, "another key")
    same(write(peer, owner, new, 5000), "SUCCESS", "the new place")
    same(write(peer, owner, old), "REM_ACCESS_ERR", "the old key")
    shut(owner, peer)
    owner, peer = peers()
    two = owner.window(TYPES[1])
    key = owner.bind(two, owner.info(WRITE))
    owner.post_bind(two, owner.info(WRITE, 5000))
    same(status(poll(owner.cq)[0]), "MW_BIND_ERR", "a second bind")
    same(two.rkey >> 8, key >> 8, "the window's number")
    shut(owner, peer)


def no_length():
    """A bind without length unbinds a window of type 1, and is an error for type 2."""
    owner, peer = peers()
    one = owner.window(TYPES[0])
    key = owner.bind(one, owner.info(WRITE))
    after = owner.bind(one, owner.info(0, length=0))
    owner.mr.close()
    same(write_at(peer, owner, key), "REM_ACCESS_ERR", "the key after that")
    same(after >> 8, key >> 8, "the window's number")
    shut(owner, peer)
    owner, peer = peers()
    owner.post_bind(owner.window(TYPES[1]), owner.info(WRITE, length=0))
    same(status(poll(owner.cq)[0]), "MW_BIND_ERR", "type 2")
    shut(owner, peer)


def write_at(peer, owner, key):
    """As write, when the owner's region is gone."""
    return access(peer, e.IBV_WR_RDMA_WRITE, 4096, key)


def of_another_qp(kind):
    """A window of type 1 serves all QPs of its PD, one of type 2B the one that bound it."""
    owner, peer = peers()
    other, stranger = Owner(owner.host), Owner(peer.host)
    connect(other, stranger)
    key = owner.bind(owner.window(kind), owner.info(WRITE))
    want = "SUCCESS" if kind == TYPES[0] else "REM_ACCESS_ERR"
    same(write(stranger, owner, key), want, "by way of another QP")
    same(write(peer, owner, key), "SUCCESS", "by way of its own")
    shut(owner, peer)


def of_another_pd(kind):
    owner, peer = peers()
    pd, owner.host.pd = owner.host.pd, PD(owner.host.ctx)
    other, stranger = Owner(owner.host), Owner(peer.host)
    owner.host.pd = pd
    connect(other, stranger)
    key = owner.bind(owner.window(kind), owner.info(WRITE))
    same(write(stranger, owner, key), "REM_ACCESS_ERR", "by way of another PD")
    shut(owner, peer)


def not_an_lkey(kind):
    """A window has no L_Key."""
    owner, peer = peers()
    key = owner.bind(owner.window(kind), owner.info(WRITE | READ))
    sge = SGE(owner.mr.buf + 1000, 10, key)
    owner.send(e.IBV_WR_RDMA_WRITE, sge, remote=peer.remote())
    same(status(poll(owner.cq)[0]), "LOC_PROT_ERR", "a request")
    shut(owner, peer)


def invalidated_here():
    """LOCAL_INV ends a window of type 2; it can be bound again then, under another key."""
    owner, peer = peers()
    two = owner.window(TYPES[1])
    old = owner.bind(two, owner.info(WRITE))
    owner.invalidate(old)
    wc = good(poll(owner.cq))[0]
    same(wc.opcode, e.IBV_WC_LOCAL_INV, "the completion's opcode")
    new = owner.post_bind(two, owner.info(WRITE))
    same(good(poll(owner.cq))[0].opcode, e.IBV_WC_BIND_MW, "the completion's opcode")
    same(write(peer, owner, new), "SUCCESS", "the new key")
    owner.invalidate(new)
    good(poll(owner.cq))
    same(write(peer, owner, new), "REM_ACCESS_ERR", "the key after that")
    shut(owner, peer)


def invalidated_by_peer():
    """SEND with invalidate ends the window before the receive completes, which names the key."""
    owner, peer = peers()
    key = owner.bind(owner.window(TYPES[1]), owner.info(WRITE))
    scratch = MR(owner.host.pd, 100, LOCAL)
    owner.qp.post_recv(RecvWR(5, 1, [SGE(scratch.buf, 100, scratch.lkey)]))
    peer.invalidate(key, opcode=e.IBV_WR_SEND_WITH_INV, sges=[peer.sge(10)])
    good(poll(peer.cq))
    wc = good(poll(owner.rcq))[0]
    same((wc.wr_id, wc.byte_len), (5, 10), "the receive")
    same(wc.wc_flags & e.IBV_WC_WITH_INV, e.IBV_WC_WITH_INV, "its flag")
    same(write(peer, owner, key), "REM_ACCESS_ERR", "the key after that")
    shut(owner, peer)


def cannot_invalidate(what):
    """LOCAL_INV of what is no window of type 2 that is bound by this QP."""
    owner, peer = peers()
    two = owner.window(TYPES[1])
    key = {
        "a region": lambda: owner.mr.rkey,
        "a window of type 1": lambda: owner.bind(owner.window(TYPES[0]), owner.info(WRITE)),
        "a window that is not bound": lambda: two.rkey,
        "another low byte": lambda: owner.bind(two, owner.info(WRITE)) ^ 0x80,
        "a window of another QP": lambda: of_other(owner, peer),
        "a key that names nothing": lambda: 0xFFFFFF00,
    }[what]()
    owner.invalidate(key)
    same(status(poll(owner.cq)[0]), "MW_BIND_ERR", "LOCAL_INV")
    shut(owner, peer)


def of_other(owner, peer):
    other, stranger = Owner(owner.host), Owner(peer.host)
    connect(other, stranger)
    return other.bind(owner.window(TYPES[1]), owner.info(WRITE))


def peer_cannot_invalidate(what):
    """The same at the peer's request: both sides learn of it, and nothing is invalidated."""
    owner, peer = peers(LOCAL | BIND | WRITE)
    if what == "a region":
        key = owner.mr.rkey
    else:
        key = owner.bind(owner.window(TYPES[0]), owner.info(WRITE))
    scratch = MR(owner.host.pd, 100, LOCAL)
    owner.qp.post_recv(RecvWR(5, 1, [SGE(scratch.buf, 100, scratch.lkey)]))
    peer.invalidate(key, opcode=e.IBV_WR_SEND_WITH_INV, sges=[peer.sge(10)])
    same(status(poll(peer.cq)[0]), "REM_ACCESS_ERR", "at the peer")
    same(status(poll(owner.rcq)[0]), "REM_INV_REQ_ERR", "the receive")
    other, stranger = Owner(owner.host), Owner(peer.host)
    connect(other, stranger)
    same(write(stranger, owner, key), "SUCCESS", "the key after that")
    shut(owner, peer)


def fenced():
    """A fenced LOCAL_INV waits for the READ before it; all complete in the order of posting."""
    owner, peer = peers()
    two = owner.window(TYPES[1])
    for _ in range(20):
        key = owner.bind(two, owner.info(WRITE))
        peer.mr.write("r" * 15000, 15000)
        owner.send(e.IBV_WR_RDMA_READ, owner.sge(15000), wr_id=1, remote=remote_of(peer))
        owner.invalidate(key, SIG | FENCE)
        owner.send(e.IBV_WR_RDMA_WRITE, owner.sge(10), wr_id=3, remote=remote_of(peer))
        done = good(poll(owner.cq, 3))
        opcodes = [e.IBV_WC_RDMA_READ, e.IBV_WC_LOCAL_INV, e.IBV_WC_RDMA_WRITE]
        same([wc.opcode for wc in done], opcodes, "the order")
    same(owner.bytes(0, 15000), b"r" * 15000, "the READ's bytes")
    shut(owner, peer)


_regions = {}


def remote_of(end):
    """Address and key of a region of this end that peers may use."""
    if end not in _regions:
        mr = MR(end.host.pd, SIZE, ALL_ACCESS)
        mr.write("r" * SIZE, SIZE)
        _regions[end] = mr
    return _regions[end].buf, _regions[end].rkey


def used_at_once():
    """The owner binds and tells the key in one go; the peer uses it when it is told."""
    owner, peer = peers()
    two = owner.window(TYPES[1])
    for number in range(50):
        peer.recv(peer.sge(4, 16000))
        key = owner.post_bind(two, owner.info(WRITE), flags=0)
        owner.mr.write(struct.pack("<I", key).decode("latin-1"), 4, 16000)
        owner.send(e.IBV_WR_SEND, owner.sge(4, 16000))
        good(poll(peer.rcq))
        same(write(peer, owner, key, 1000 + number), "SUCCESS", f"WRITE {number}")
        owner.invalidate(key)
        wanted = [wc.opcode for wc in good(poll(owner.cq, 3))]
        same(wanted[-1], e.IBV_WC_LOCAL_INV, "the last completion")
    none_pending(owner.cq)
    shut(owner, peer)


def in_use():
    """A region to which a window is bound cannot be deregistered, nor registered anew."""
    owner, peer = peers()
    two = owner.window(TYPES[1])
    key = owner.bind(two, owner.info(WRITE))
    same(errno_of(owner.mr.close), errno.EBUSY, "deregistration")
    same(
        errno_of(rereg, owner.host, owner.mr, ACCESS, access=LOCAL),
        errno.EBUSY,
        "registration anew",
    )
    same(write(peer, owner, key), "SUCCESS", "the window after that")
    two.close()
    owner.mr.close()
    shut(owner, peer)


def not_to_have():
    """Operations on keys need a connected QP; REG_MR is not for processes."""
    host = host_b()
    ud = End(host, qp_type=e.IBV_QPT_UD)
    ud.to_init()
    ud.to_rtr(None, 0)
    ud.to_rts()
    wr = SendWR(opcode=e.IBV_WR_LOCAL_INV, num_sge=0, send_flags=SIG)
    wr.imm_data = 1 << 8
    wr.set_wr_ud(ah_to(host, host), ud.qp.qp_num, QKEY)
    ud.qp.post_send(wr)
    same(status(poll(ud.cq)[0]), "LOC_QP_OP_ERR", "LOCAL_INV of a UD QP")
    host.close()
    owner, peer = peers()
    owner.qp.post_send(SendWR(opcode=0x20, num_sge=1, sg=[owner.sge(1)], send_flags=SIG))
    same(status(poll(owner.cq)[0]), "LOC_QP_OP_ERR", "REG_MR")
    shut(owner, peer)


def many():
    """Windows made, bound, used and freed, while the region stays."""
    owner, peer = peers()
    for number in range(200):
        mw = owner.window(TYPES[number % 2])
        key = owner.bind(mw, owner.info(WRITE, number))
        same(write(peer, owner, key, number), "SUCCESS", f"window {number}")
        mw.close()
    same(write(peer, owner, key, 199), "REM_ACCESS_ERR", "a window that was freed")
    owner.mr.close()
    shut(owner, peer)


def cases():
    for kind, name in zip(TYPES, ("type 1", "type 2B")):
        yield f"{name}: what it grants", grants, kind
        for what, rights, opcode, offset, length in (
            ("READ where WRITE was granted", WRITE, e.IBV_WR_RDMA_READ, 1000, 10),
            ("WRITE where READ was granted", READ, e.IBV_WR_RDMA_WRITE, 1000, 10),
            ("WRITE before its start", WRITE, e.IBV_WR_RDMA_WRITE, 999, 10),
            ("WRITE past its end", WRITE, e.IBV_WR_RDMA_WRITE, 3991, 10),
            ("a long WRITE past its end", WRITE, e.IBV_WR_RDMA_WRITE, 1000, 3001),
        ):
            yield f"{name}: {what}", refuses, kind, rights, opcode, offset, length
        yield f"{name}: addresses from 0", zero_based, kind
        for what in (
            "no right to bind",
            "WRITE to a region without local write",
            "rights that windows do not have",
            "past the end",
            "before the start",
            "a range that wraps",
        ):
            yield f"{name}: not bound: {what}", unbindable, kind, what
        yield f"{name}: by way of another QP", of_another_qp, kind
        yield f"{name}: by way of another PD", of_another_pd, kind
        yield f"{name}: not an lkey", not_an_lkey, kind
    # The library refuses these itself for type 1.
    for what in ("another PD", "a window of another PD", "a key that is not a region's"):
        yield f"type 2B: not bound: {what}", unbindable, TYPES[1], what
    yield "bound twice", bound_twice
    yield "bound without length", no_length
    yield "LOCAL_INV", invalidated_here
    yield "SEND with invalidate", invalidated_by_peer
    for what in (
        "a region",
        "a window of type 1",
        "a window that is not bound",
        "another low byte",
        "a window of another QP",
        "a key that names nothing",
    ):
        yield f"LOCAL_INV of {what}", cannot_invalidate, what
    for what in ("a region", "a window of type 1"):
        yield f"SEND with invalidate of {what}", peer_cannot_invalidate, what
    yield "a fenced LOCAL_INV", fenced
    yield "bound, told and used at once", used_at_once
    yield "a region with a window", in_use
    yield "operations that a process or a service does not have", not_to_have
    yield "many windows", many


CASES = list(cases())

if __name__ == "__main__":
    main(CASES)
