# SPDX-License-Identifier: GPL-2.0
"""Two machines send to each other at the same time, over one RC connection of a wire that may lose,
reorder or mark packets: SEND, WRITE, READ, fetch and add, compare and swap. Every byte is compared.

Usage: impaired.py PORT ROUNDS ORDERED [SERVER]: without SERVER this end waits for the other's TCP
connection on PORT. In each round both sides post all of these, and wait for them. rdma_rxe does
less, since two of it would fail: it has one READ or atomic under way at a time, and none where
ORDERED is 0, since the wire does not keep the order of packets. Device and GID
are those of DEV and GID4 (the environment). Prints the number of bytes that were compared.
"""

import ctypes
import os
import random
import struct
import sys

import enums as e

import partners
from oxetest import End, Host, good, poll, same
from peer import meet, swap

PORT, ROUNDS, ORDERED = (int(word) for word in sys.argv[1:4])
SERVER = sys.argv[4] if len(sys.argv) > 4 else None
SIZE = 30_001
# Where in the buffer: what is sent, received, written by the peer, read from the peer, read by the
# peer; two words for the peer's atomics, and what these bring.
SENT, RECEIVED, WRITTEN, READ, OFFERED = (n * SIZE for n in range(5))
ADDED = -(-5 * SIZE // 8) * 8
SWAPPED, BROUGHT = ADDED + 8, ADDED + 16
STEP = 0x0123_4567_89AB_CDEF
MASK = 2**64 - 1
# An ACK that comes within the answer to a READ, or a response that is lost before that to an
# atomic, makes rdma_rxe's queue pair fail.
IS_OXE = os.environ["LINK_TYPE"] == "oxe"
compared = 0


def bytes_of(server, number, kind):
    return random.Random(f"{server} {number} {kind}").randbytes(SIZE)


def put(end, at, data):
    ctypes.memmove(end.mr.buf + at, data, len(data))


def compare(end, at, data, what):
    global compared
    same(ctypes.string_at(end.mr.buf + at, len(data)) == data, True, what)
    compared += len(data)


def words(*values):
    """Atomics work in the byte order of the machine."""
    return struct.pack(f"={len(values)}Q", *(value & MASK for value in values))


def connect(end, stream):
    """To RTS; returns the address and the key of the peer's memory. An ACK may take 67 ms."""
    psn = random.getrandbits(24)
    mine = (end.host.gid_value(), end.qp.qp_num, psn, end.mr.buf, end.mr.rkey)
    gid, qpn, peer_psn, address, rkey = swap(stream, mine)
    partners.note(*mine[:2], gid, qpn)
    end.to_init()
    end.to_rtr(gid, qpn, psn=peer_psn)
    end.to_rts(psn=psn, timeout=14)
    return address, rkey


def groups(number):
    """What this side posts at a time: opcode, length, where here, where there, operands."""
    writes = [
        (e.IBV_WR_SEND, SIZE, SENT, None, None),
        (e.IBV_WR_RDMA_WRITE, SIZE, SENT, WRITTEN, None),
    ]
    others = [
        (e.IBV_WR_RDMA_READ, SIZE, READ, OFFERED, None),
        (e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, BROUGHT, ADDED, (STEP, 0)),
        (e.IBV_WR_ATOMIC_CMP_AND_SWP, 8, BROUGHT + 8, SWAPPED, (number, number + 1)),
    ]
    if IS_OXE:
        return [writes + others]
    return [writes, *([each] for each in others if ORDERED)]


def one_round(end, stream, number, address, rkey):
    """All kinds of requests, both ways."""
    is_server = SERVER is None
    put(end, SENT, bytes_of(is_server, number, "sent"))
    put(end, OFFERED, bytes_of(is_server, number, "offered"))
    ctypes.memset(end.mr.buf + RECEIVED, 0, 3 * SIZE)
    end.recv(end.sge(SIZE, RECEIVED))
    same(swap(stream, number), number, "the round of the other side")
    for group in groups(number):
        for opcode, length, at, remote, atomic in group:
            where = None if remote is None else (address + remote, rkey)
            end.send(opcode, end.sge(length, at), remote=where, atomic=atomic)
        good(poll(end.cq, len(group)))
    good(poll(end.rcq))
    reads = IS_OXE or bool(ORDERED)
    they_read = swap(stream, reads)
    theirs = bytes_of(not is_server, number, "sent")
    compare(end, RECEIVED, theirs, "what was received")
    compare(end, WRITTEN, theirs, "what was written")
    if reads:
        compare(end, READ, bytes_of(not is_server, number, "offered"), "what was read")
        compare(end, BROUGHT, words(number * STEP, number), "the words before atomics")
    if they_read:
        compare(end, ADDED, words((number + 1) * STEP, number + 1), "the words after atomics")


with meet(PORT, SERVER) as connection, connection.makefile("rw") as wire:
    this = End(Host(os.environ["DEV"], int(os.environ["GID4"])), size=BROUGHT + 16)
    ctypes.memset(this.mr.buf, 0, this.mr.length)
    target = connect(this, wire)
    for each in range(ROUNDS):
        one_round(this, wire, each, *target)
    print(f"{compared} bytes compared")
    this.host.close()
