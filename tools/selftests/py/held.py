# SPDX-License-Identifier: GPL-2.0
"""A process holds up the page faults of its regions for ever (F2): its own stop, those of
others do not; its memory is freed when it ends; the module can be removed.

held.py KIND: "killable" faults are those that a signal ends, "stuck" ones no signal ends.
"""

import mmap
import os
import signal
import subprocess
import sys

import pyverbs.enums as e
from pyverbs.mr import MR

import odp_regions
from fuse import Silent
from odp import LIBC, PAGE, SIZE, check, ends, pattern
from oxetest import SLOW, case, good, host_a, poll, same, until

FAULTS = 1100
# Pages between two that are asked for: no READ ahead has both.
APART = 64
TMPFS = "/tmp/oxe-held-tmpfs"
BALLAST = 64 << 20
ONE, TWO = 1001, 1002


class Region:
    """As odp.Memory: a page of a file."""

    def __init__(self, host, at):
        self.host, self.at, self.size = host, at, PAGE
        self.mr = MR(host.pd, PAGE, e.IBV_ACCESS_ON_DEMAND, address=at)


def child(function, uid=0):
    """A process of that user, whose end the caller waits for. Returns it and a file that tells how
    far it is."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return pid, os.fdopen(read_end)
    os.close(read_end)
    status = 1
    try:
        if uid:
            os.setresuid(uid, uid, uid)
        with os.fdopen(write_end, "w") as tell:
            function(lambda text: (tell.write(f"{text}\n"), tell.flush()))
        status = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    os._exit(status)


def hold(path, count, tell):
    """Asks for pages that never come, and sleeps."""
    file = os.open(path, os.O_RDWR)
    size = FAULTS * APART * PAGE
    pages = check(LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0))
    # Without this the kernel reads nothing ahead after a hundred misses of the file: faults then
    # wait for a READ of their own, which no signal ends (fuse.serve).
    check(LIBC.madvise(pages, size, mmap.MADV_SEQUENTIAL))
    # Memory that is seen to be freed: nothing else refers to this file.
    weight = os.open(TMPFS, os.O_RDWR | os.O_TMPFILE)
    os.ftruncate(weight, BALLAST)
    ballast = mmap.mmap(weight, BALLAST)
    os.close(weight)
    for at in range(0, BALLAST, PAGE):
        ballast[at] = 1
    host = host_a()
    regions = [Region(host, pages + n * APART * PAGE) for n in range(count)]
    for region in regions:
        odp_regions.advise(region, odp_regions.PREFETCH, 0)
    tell("asked")
    signal.pause()


def works(tell):
    """On-demand traffic: each message finds pages missing, on both sides."""
    a, b, source, sink = ends()
    for n in range(2):
        data = pattern(SIZE, n)
        source.fill(data)
        sink.drop()
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
        good(poll(a.cq))
        same(sink.bytes(), data, "the bytes")
    tell("done")


def finishes(function, uid):
    pid, told = child(function, uid)
    with told:
        text = told.read()
    same((os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text), (0, "done\n"), "its end")


def tmpfs_free():
    found = os.statvfs(TMPFS)
    return found.f_bfree * found.f_bsize


def held_by(path, count, uid):
    """A process that holds faults up."""
    pid, told = child(lambda tell: hold(path, count, tell), uid)
    same(told.readline(), "asked\n", "the process that holds faults up")
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def others_go_on(pids, path):
    """One process with 1,100 faults does not stop others of its user, nor do several those of
    another user."""
    pids.append(held_by(path, FAULTS, ONE))
    finishes(works, ONE)
    finishes(works, TWO)
    for _ in range(5):
        pids.append(held_by(path, 20, ONE))
    finishes(works, TWO)
    finishes(works, 0)


def memory_is_freed(pids, before):
    while pids:
        kill(pids.pop())
    until(lambda: tmpfs_free() >= before, "the memory of processes that have ended")


def removes(want):
    """Unloads the module; that returns."""
    for device in ("DEV_A", "DEV_B"):
        subprocess.run(["rdma", "link", "del", os.environ[device]], check=False, timeout=60 * SLOW)
    done = subprocess.run(
        ["rmmod", "oxe"], capture_output=True, text=True, check=False, timeout=60 * SLOW
    )
    same((done.returncode == 0, "in use" in done.stderr), want, f"rmmod says {done.stderr}")


def is_removed():
    return not subprocess.run(["rmmod", "oxe"], capture_output=True, check=False).returncode


def main(kind):
    os.makedirs(TMPFS, exist_ok=True)
    LIBC.mount(b"none", TMPFS.encode(), b"tmpfs", 0, b"mode=777,size=1G")
    silent = Silent(f"/tmp/oxe-held-{kind}", FAULTS * APART * PAGE, kind == "killable")
    before, pids = tmpfs_free(), []
    case(f"{kind} faults: others go on", others_go_on, pids, silent.path)
    case(f"{kind} faults: a dead process's memory is freed", memory_is_freed, pids, before)
    # One that lives while the module is removed.
    pids.append(held_by(silent.path, FAULTS, ONE))
    if kind == "killable":
        case("killable faults: the module is removed", removes, (True, False))
        case("killable faults: memory after that", memory_is_freed, pids, before)
    else:
        case("stuck faults: the module is in use", removes, (False, True))
        case("stuck faults: memory after that", memory_is_freed, pids, before)
    silent.close()
    if kind != "killable":
        case("stuck faults: the module is removed after them", until, is_removed, "the removal")
    LIBC.umount2(TMPFS.encode(), 2)


if __name__ == "__main__":
    main(sys.argv[1])
