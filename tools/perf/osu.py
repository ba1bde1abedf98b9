# SPDX-License-Identifier: GPL-2.0
"""Rows of MPI for bench.py: half a round trip, and the bandwidth of windows of messages, as the OSU
micro-benchmarks have them, between two processes of Open MPI by UCX's rc_verbs, on two hosts.

Both poll, so one that finds nothing yields the processor to the other (mpi_yield_when_idle); a turn
of polling is part of what a message costs, as are two calls of Python. The hosts have IPv6 GIDs,
over which UCX connects on rdma_rxe too.
Run by mpirun, this file is the program itself: osu.py
"""

import json
import os
import subprocess
import sys
import tempfile

import ticks
from driver import IP6

LATENCIES = (1, 64)
BANDWIDTH, WINDOW = 1 << 20, 16
LIMIT = 900

# Host B's daemon is started by this instead of ssh, in that host's namespace.
AGENT = """#!/bin/bash
shift
mkdir -p {directory}/b
export TMPDIR={directory}/b UCX_NET_DEVICES={device}:1 UCX_IB_GID_INDEX={gid}
exec ip netns exec {ns} unshare --uts bash -c "hostname oxe-b; $*"
"""


def figures(counted, ns, dev, gid, ip):
    """Microseconds for each of LATENCIES, and Gb/s: a list of (name, figure, messages)."""
    with tempfile.TemporaryDirectory() as directory:
        agent = f"{directory}/agent"
        with open(agent, "w", encoding="ascii") as file:
            file.write(AGENT.format(directory=directory, device=dev[1], gid=gid[1], ns=ns[1]))
        os.chmod(agent, 0o700)
        result = subprocess.run(
            f"ip netns exec {ns[0]} timeout {LIMIT} {counted} mpirun --allow-run-as-root "
            f"--oversubscribe -n 2 --host {ip[0]}:1,{ip[1]}:1 --map-by node "
            f"--prtemca plm_ssh_agent {agent} "
            "--mca pml ucx --mca mpi_yield_when_idle 1 -x OXE_SERIES "
            "-x UCX_TLS=rc_verbs,ud_verbs:aux,self "
            f"python3 {os.path.abspath(__file__)}",
            shell=True,
            env={
                **os.environ,
                "UCX_NET_DEVICES": f"{dev[0]}:1",
                "UCX_IB_GID_INDEX": str(gid[0]),
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        raise RuntimeError(f"MPI: {result.stdout[-300:]} {result.stderr[-600:]}")
    return json.loads(result.stdout.splitlines()[-1])


def rows(ns, ip):
    """As rows() of bench.py."""

    def figure(driver, name):
        gid = tuple(driver.find_gid(dev, address) for dev, address in zip(driver.dev, IP6))
        return driver.one_of(
            "mpi", name, lambda counted: figures(counted, ns, driver.dev, gid, ip), 3
        )

    for size in LATENCIES:
        name = f"latency {size}"
        yield f"wire 1500, MPI latency, {size} B", "us", lambda d, n=name: figure(d, n), None
    yield "wire 1500, MPI bandwidth, 1 MiB", "Gb/s", lambda d: figure(d, "bandwidth"), None


# ---- the program


def first(world, series):
    """The messages that are counted begin."""
    if world.rank == 0:
        ticks.first(series)


def last(world, count):
    if world.rank == 0:
        ticks.last(count)


def latency(world, size, series, count=500, warm_up=50):
    """Microseconds of half a round trip, and messages."""
    from mpi4py import MPI

    peer = 1 - world.rank
    out, into = bytearray(size), bytearray(size)
    send = world.Send_init([out, MPI.BYTE], peer)
    receive = world.Recv_init([into, MPI.BYTE], peer)
    order = (send, receive) if world.rank == 0 else (receive, send)
    for turn in range(warm_up + count):
        if turn == warm_up:
            first(world, series)
            start = MPI.Wtime()
        for request in order:
            request.Start()
            request.Wait()
    took = MPI.Wtime() - start
    last(world, 2 * count)
    return took / count / 2 * 1e6, 2 * count


def bandwidth(world, size, series, windows=10, warm_up=2):
    """Gb/s of windows of messages, each answered by a short one, and messages."""
    from mpi4py import MPI

    peer, answer = 1 - world.rank, bytearray(4)
    buffers = [bytearray(size) for _ in range(WINDOW)]
    start_one = world.Send_init if world.rank == 0 else world.Recv_init
    requests = [start_one([buffer, MPI.BYTE], peer, 1) for buffer in buffers]
    for turn in range(warm_up + windows):
        if turn == warm_up:
            first(world, series)
            start = MPI.Wtime()
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        if world.rank == 0:
            world.Recv([answer, MPI.BYTE], peer, 2)
        else:
            world.Send([answer, MPI.BYTE], peer, 2)
    took = MPI.Wtime() - start
    last(world, WINDOW * windows)
    return size * WINDOW * windows * 8 / took / 1e9, WINDOW * windows


def main():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found = [
        (f"latency {size}", *latency(world, size, i)) for i, size in enumerate(LATENCIES)
    ]
    found.append(("bandwidth", *bandwidth(world, BANDWIDTH, len(LATENCIES))))
    if world.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.exit(main())
