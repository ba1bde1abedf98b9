# SPDX-License-Identifier: GPL-2.0
"""An MPI program: messages between two ranks, collectives and one-sided operations, every byte
compared. Rank 0 prints the cases for lib.sh's relay.

Usage: mpi.py LARGEST QPTYPE [p2p] [coll] [rma]
LARGEST is the largest buffer in bytes. Ranks are expected to have queue pairs of the type QPTYPE,
and with RC a shared receive queue, on the device in DEV (each rank's own).
"""

import json
import os
import random
import struct
import subprocess
import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
LARGEST, QP_TYPE, PARTS = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
# Around the limits of UCX's protocols: inline, bounce buffers, a path MTU, rendezvous.
SIZES = [
    size
    for size in (1, 8, 63, 200, 1024, 4097, 8255, 30001, 65536, 262145, 1 << 20, 4 << 20)
    if size <= LARGEST
]
# Eight ranks have memory for smaller blocks alone.
BLOCKS = 1 if RANKS <= 2 else RANKS
BLOCK_SIZES = [size for size in SIZES if size * BLOCKS <= LARGEST]


def data(*name, size):
    """The bytes that belong to a name; every rank can make them."""
    return random.Random(repr(name)).randbytes(size)


# What this rank found to be wrong in the case under way. The rank goes on all the same, since the
# others wait for its messages.
FOUND = []


def same(got, want, name):
    if bytes(got) == want:
        return
    first = next(i for i, pair in enumerate(zip(got, want)) if pair[0] != pair[1])
    wrong = sum(a != b for a, b in zip(got, want))
    FOUND.append(f"{name}: {wrong} of {len(want)} bytes differ, the first at {first}")


def case(name, function, *args):
    """Runs a case on all ranks; rank 0 prints the verdict of all. After an error of MPI the ranks
    do not know of each other where they are: then all end."""
    FOUND.clear()
    try:
        function(*args)
    except AssertionError as error:
        FOUND.append(str(error))
    except (MPI.Exception, OSError) as error:
        print(f"not ok {name}\n# rank {RANK}: {type(error).__name__}: {error}", flush=True)
        WORLD.Abort(1)
    more = f" ({len(FOUND)} in all)" if len(FOUND) > 1 else ""
    mine = f"rank {RANK}: {FOUND[0][:200]}{more}" if FOUND else None
    errors = [text for text in WORLD.allgather(mine) if text]
    if RANK == 0:
        print(f"{'not ok' if errors else 'ok'} {name}", flush=True)
        for text in errors:
            print(f"# {text}", flush=True)


def each(function, sizes, *args):
    for size in sizes:
        before = len(FOUND)
        function(*args, size)
        FOUND[before:] = [f"{size} bytes: {text}" for text in FOUND[before:]]


def ping_pong(size):
    """Between ranks 2n and 2n + 1, and back."""
    peer, rounds = RANK ^ 1, 3
    if peer >= RANKS:
        return
    for turn in range(rounds):
        buffer = bytearray(size)
        mine = data("ping", turn, RANK, size=size)
        theirs = data("ping", turn, peer, size=size)
        if RANK < peer:
            WORLD.Send([mine, MPI.BYTE], peer, turn)
        WORLD.Recv([buffer, MPI.BYTE], peer, turn)
        same(buffer, theirs, f"message {turn}")
        if RANK > peer:
            WORLD.Send([mine, MPI.BYTE], peer, turn)


def window(size, depth=24):
    """Many messages at a time, both ways, received in the opposite order of their tags."""
    peer = RANK ^ 1
    if peer >= RANKS:
        return
    buffers = [bytearray(size) for _ in range(depth)]
    receives = [WORLD.Irecv([buffers[i], MPI.BYTE], peer, i) for i in reversed(range(depth))]
    out = [data("window", i, RANK, size=size) for i in range(depth)]
    sends = [WORLD.Isend([out[i], MPI.BYTE], peer, i) for i in range(depth)]
    MPI.Request.Waitall(receives + sends)
    for i in range(depth):
        same(buffers[i], data("window", i, peer, size=size), f"message {i}")


def unexpected(size, count=200):
    """Messages that wait for their receives: the receiver's shared queue runs dry meanwhile."""
    peer = RANK ^ 1
    if peer >= RANKS:
        return
    out = [data("early", i, RANK, size=size) for i in range(count)]
    sends = [WORLD.Isend([out[i], MPI.BYTE], peer, i) for i in range(count)]
    buffer = bytearray(size)
    for i in reversed(range(count)):
        WORLD.Recv([buffer, MPI.BYTE], peer, i)
        same(buffer, data("early", i, peer, size=size), f"message {i}")
    MPI.Request.Waitall(sends)


def allreduce(size):
    """Sums of 64-bit numbers and XOR of bytes. The numbers have 56 bits, so that the sum of all is
    the sum of two long integers, without a carry from one number to the next."""
    mask = int.from_bytes((b"\xff" * 7 + b"\0") * max(1, size // 8), "little")
    length = max(1, size // 8) * 8

    def numbers(rank):
        return int.from_bytes(data("sum", rank, size=length), "little") & mask

    mine, got = bytearray(numbers(RANK).to_bytes(length, "little")), bytearray(length)
    WORLD.Allreduce([mine, MPI.UINT64_T], [got, MPI.UINT64_T], MPI.SUM)
    same(got, sum(map(numbers, range(RANKS))).to_bytes(length, "little"), "sums")

    mine, got, want = data("xor", RANK, size=size), bytearray(size), 0
    WORLD.Allreduce([mine, MPI.BYTE], [got, MPI.BYTE], MPI.BXOR)
    for rank in range(RANKS):
        want ^= int.from_bytes(data("xor", rank, size=size), "little")
    same(got, want.to_bytes(size, "little"), "XOR")


def alltoall(size):
    """A block of this size for each pair of ranks."""
    mine = b"".join(data("block", RANK, peer, size=size) for peer in range(RANKS))
    got = bytearray(size * RANKS)
    WORLD.Alltoall([mine, MPI.BYTE], [got, MPI.BYTE])
    same(got, b"".join(data("block", peer, RANK, size=size) for peer in range(RANKS)), "blocks")


def others(size):
    """Bcast, Allgather, Reduce_scatter."""
    buffer = bytearray(data("bcast", size=size) if RANK == RANKS - 1 else size)
    WORLD.Bcast([buffer, MPI.BYTE], RANKS - 1)
    same(buffer, data("bcast", size=size), "Bcast")

    got = bytearray(size * RANKS)
    WORLD.Allgather([data("gather", RANK, size=size), MPI.BYTE], [got, MPI.BYTE])
    same(got, b"".join(data("gather", rank, size=size) for rank in range(RANKS)), "Allgather")

    got, want = bytearray(size), 0
    mine = data("scatter", RANK, size=size * RANKS)
    WORLD.Reduce_scatter_block([mine, MPI.BYTE], [got, MPI.BYTE], MPI.BXOR)
    for rank in range(RANKS):
        whole = data("scatter", rank, size=size * RANKS)
        want ^= int.from_bytes(whole[RANK * size : (RANK + 1) * size], "little")
    same(got, want.to_bytes(size, "little"), "Reduce_scatter")


# ---- one-sided


def put_get(win, memory, size):
    """Each rank puts into its right neighbour's memory, and gets from its left one's."""
    right, left = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    memory[:size] = bytes(size)
    memory[LARGEST : LARGEST + size] = data("get", RANK, size=size)
    mine, got = data("put", RANK, size=size), bytearray(size)
    win.Fence()
    win.Put([mine, MPI.BYTE], right, (0, size, MPI.BYTE))
    win.Get([got, MPI.BYTE], left, (LARGEST, size, MPI.BYTE))
    win.Fence()
    same(memory[:size], data("put", left, size=size), "Put")
    same(got, data("get", left, size=size), "Get")


def accumulate(win, memory, size):
    """Every rank adds to rank 0's numbers, all at the same time; each sum is right."""
    length = max(1, size // 8) * 8
    memory[:length] = bytes(length)
    WORLD.Barrier()
    mine = b"".join(struct.pack("<q", (i % 1000) * (RANK + 1)) for i in range(length // 8))
    total = RANKS * (RANKS + 1) // 2
    win.Lock(0, MPI.LOCK_SHARED)
    win.Accumulate([mine, MPI.INT64_T], 0, (0, length // 8, MPI.INT64_T), MPI.SUM)
    win.Unlock(0)
    WORLD.Barrier()
    if RANK == 0:
        want = b"".join(struct.pack("<q", (i % 1000) * total) for i in range(length // 8))
        same(memory[:length], want, "sums")


def counter(win, memory, turns=50):
    """Fetch_and_op: the ranks count together; each number is drawn once."""
    memory[:8] = bytes(8)
    WORLD.Barrier()
    one, got, drawn = bytearray(struct.pack("<q", 1)), bytearray(8), []
    win.Lock(0, MPI.LOCK_SHARED)
    for _ in range(turns):
        win.Fetch_and_op([one, MPI.INT64_T], [got, MPI.INT64_T], 0, 0, MPI.SUM)
        win.Flush(0)
        drawn.append(struct.unpack("<q", got)[0])
    win.Unlock(0)
    everything = sorted(sum(WORLD.allgather(drawn), []))
    assert everything == list(range(turns * RANKS)), f"drawn: {everything}"


def compare_swap(win, memory, turns=20):
    """Compare_and_swap: a spin lock around a number that all ranks add to."""
    memory[:16] = bytes(16)
    WORLD.Barrier()
    free, taken, got = (bytearray(struct.pack("<q", n)) for n in (0, 1, 0))
    number = bytearray(8)
    win.Lock(0, MPI.LOCK_SHARED)
    for _ in range(turns):
        while True:
            win.Compare_and_swap(
                [taken, MPI.INT64_T], [free, MPI.INT64_T], [got, MPI.INT64_T], 0, 0
            )
            win.Flush(0)
            if not struct.unpack("<q", got)[0]:
                break
            # Open MPI carries out rank 0's own operations without a look at what has come for it:
            # the operation that frees the lock would never be seen.
            WORLD.Iprobe()
        win.Get([number, MPI.BYTE], 0, (8, 8, MPI.BYTE))
        win.Flush(0)
        number[:] = struct.pack("<q", struct.unpack("<q", number)[0] + 1)
        win.Put([number, MPI.BYTE], 0, (8, 8, MPI.BYTE))
        win.Flush(0)
        win.Compare_and_swap([free, MPI.INT64_T], [taken, MPI.INT64_T], [got, MPI.INT64_T], 0, 0)
        win.Flush(0)
    win.Unlock(0)
    WORLD.Barrier()
    if RANK == 0:
        same(memory[8:16], struct.pack("<q", turns * RANKS), "number")


def one_sided():
    win = MPI.Win.Allocate(2 * LARGEST + 64, 1, comm=WORLD)
    memory = win.tomemory()
    case(f"Put and Get of 1 to {LARGEST} bytes", each, put_get, SIZES, win, memory)
    case("Accumulate", each, accumulate, (8, 800, 80000), win, memory)
    case("Fetch_and_op", counter, win, memory)
    case("Compare_and_swap", compare_swap, win, memory)
    win.Free()


# ---- which way it goes


def objects(kind):
    """The objects of this process on its device."""
    text = subprocess.run(
        [
            "rdma",
            "-j",
            "resource",
            "show",
            kind,
            "link" if kind == "qp" else "dev",
            os.environ["DEV"],
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [entry for entry in json.loads(text or "[]") if entry.get("pid") == os.getpid()]


def own_objects():
    """Each rank has connected queue pairs of the type asked for, and with RC they take their
    receives from a shared queue. Memory and other processes carry nothing: UCX_TLS says so, and a
    rank without queue pairs would show that it did not obey."""
    found = [qp for qp in objects("qp") if qp["type"] == QP_TYPE and qp["state"] == "RTS"]
    assert found, f"no {QP_TYPE} queue pair in RTS: {objects('qp')}"
    if QP_TYPE == "RC":
        assert objects("srq"), "no shared receive queue"


if "p2p" in PARTS:
    case(f"messages of 1 to {LARGEST} bytes", each, ping_pong, SIZES)
    case("24 messages at a time", each, window, (64, 5000, 100000))
    case("200 messages before their receives", unexpected, 2000)
if "coll" in PARTS:
    case(f"Allreduce of 1 to {LARGEST} bytes", each, allreduce, SIZES)
    case(f"Alltoall of 1 to {LARGEST // BLOCKS} bytes each", each, alltoall, BLOCK_SIZES)
    case("Bcast, Allgather, Reduce_scatter", each, others, (100, LARGEST // RANKS // 4))
if "rma" in PARTS:
    one_sided()
case(f"every rank has {QP_TYPE} queue pairs{' with an SRQ' * (QP_TYPE == 'RC')}", own_objects)
MPI.Finalize()
