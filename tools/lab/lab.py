# SPDX-License-Identifier: GPL-2.0
"""Measure scenarios of congestion in the guest: oxe, rdma_rxe and TCP on an impaired wire.

Runs in the deterministic machine, whose clock stands still while the host does other work: an
instruction takes a nanosecond.
Usage: lab.py FILE SCENARIO SEED CONTROLLER [--base]

Writes FILE (JSON): for each scenario (a group, a name, or "" for all) and each peer the figures of
this boot. CONTROLLER is oxe's congestion controller, in rows that have none of their own; "" for
the default. --base: also of the module of another commit, /oxe/base/oxe.ko.
"""

import json
import os
import random
import subprocess
import sys
import time
import traceback

sys.path.append("/oxe/perf")
# pylint: disable=wrong-import-position
import flows
import scenarios
import wire
from driver import Driver, read_ahead, run

# Seconds between samples of the queue, and of what has arrived.
QUEUE_SAMPLE, FLOW_SAMPLE = 0.005, 0.05
# More flows than that are not sampled one by one.
MOST_SAMPLED = 16
PEERS = {"oxe": "oxe", "base": "oxe", "rxe": "rxe", "tcp": None}
DEFAULT_CONTROLLER = "cubic"


class Sampler:
    """The queue and the flows over time, from the first message on."""

    def __init__(self, queue, each):
        self.queue, self.each = queue, each
        self.began = time.monotonic()
        self.queues, self.arrived = [], []

    def run(self, loop, until):
        while True:
            now = time.monotonic()
            at = round(now - self.began, 4)
            self.queues.append((at, self.queue.queue()[0]))
            few = sum(f.count for f in self.each) <= MOST_SAMPLED
            last = self.arrived[-1][0] if self.arrived else -1
            if few and at - last >= FLOW_SAMPLE:
                self.arrived.append((at, [n for f in self.each for _, n in f.received()]))
            if now >= until:
                return
            flows.run_until(loop, min(until, now + QUEUE_SAMPLE))


def begin(each, scenario, sampler, loop, seed):
    """Starts the flows, one after another: in any case not all at the same moment."""
    delays = random.Random(seed)
    for group in each:
        for flow in range(group.count):
            if scenario.stagger or scenario.tcp:
                wait = scenario.stagger + delays.uniform(0, 0.01)
            else:
                wait = delays.uniform(0, 4e-5)
            group.start(flow)
            sampler.run(loop, time.monotonic() + wait)


def measure(scenario, each, queue, devices, seed):
    """One row: figures, and the samples."""
    loop = flows.make_loop(each)
    sampler = Sampler(queue, each)
    begin(each, scenario, sampler, loop, seed)
    sampler.run(loop, time.monotonic() + scenario.warm_up)

    def state():
        return {
            "at": time.monotonic(),
            "queue": queue.queue(),
            # Where the CPU has no time for this process, this is long after the other.
            "queue_at": time.monotonic(),
            "busy": busy(),
            "arrived": [found for f in each for found in f.received()],
            "again": sum(f.sent_again() for f in each)
            + (flows.counter(devices, "retransmits") or 0),
        }

    first = state()
    sampler.run(loop, first["at"] + scenario.time)
    last = state()
    for group in each:
        group.stop()
    took = last["at"] - first["at"]
    latencies = sorted(
        took for f in each for at, took in f.latencies if first["at"] <= at < last["at"]
    )
    queues = [b for at, b in sampler.queues if at >= first["at"] - sampler.began]
    wrong, failed = sum(f.wrong for f in each), [s for f in each for s in f.failed.values()]
    return {
        "seconds": last["queue_at"] - first["queue_at"],
        "goodput": [
            (b - a) * 8 / (until - since)
            for (since, a), (until, b) in zip(first["arrived"], last["arrived"])
        ],
        "dropped": last["queue"][1] - first["queue"][1],
        "passed": last["queue"][2] - first["queue"][2],
        "passed_bytes": last["queue"][3] - first["queue"][3],
        "busy": (last["busy"][0] - first["busy"][0]) / took,
        "queue": sum(queues) / len(queues),
        "again": last["again"] - first["again"],
        "latency": latencies[len(latencies) * 99 // 100] if latencies else None,
        "messages": len(latencies),
        "wrong": wrong,
        "failed": failed,
        "queues": sampler.queues,
        "arrived": sampler.arrived,
    }


def busy():
    """Seconds that the CPU has worked, and those it has been idle."""
    times = [int(word) for word in flows.read_file("/proc/stat").split("\n", 1)[0].split()[1:8]]
    idle = times[3] + times[4]
    return (sum(times) - idle) / 100, idle / 100


def choose(controller, devices):
    """The congestion controller of the connections that these devices make from now on."""
    for device in devices:
        path = f"/sys/kernel/debug/oxe/{device}/congestion_control"
        # An older commit has no choice.
        if controller == DEFAULT_CONTROLLER and not os.path.exists(path):
            continue
        with open(path, "w", encoding="ascii") as file:
            file.write(controller)


def one(scenario, driver, seed):
    """Measures a scenario with a driver, or, without one, with TCP alone."""
    with wire.Impaired(scenario, seed) as queue:
        each = []
        try:
            if driver:
                each.append(flows.Rdma(driver, scenario, seed))
            tcp = scenario.tcp if driver else scenario.flows + scenario.tcp
            if tcp:
                each.append(flows.Tcp(tcp))
            row = measure(scenario, each, queue, driver.dev if driver else (), seed)
            if scenario.late and not queue.late():
                raise RuntimeError("no packet was late")
            return row
        finally:
            for group in each:
                group.close()


def summary(row):
    if "error" in row:
        return row["error"]
    return (
        f"{sum(row['goodput']) / 1e6:.1f} Mb/s, {row['dropped']} dropped and {row['passed']} "
        f"passed, {row['failed'] or 'none'} failed, the CPU was busy for {row['busy']:.2f}"
    )


def measure_peer(peer, wanted, seed, controller, rows):
    kind = PEERS[peer]
    driver = None
    # For the host, which judges the kernel's log of oxe.
    run(f"echo oxe-lab: {peer} >/dev/kmsg")
    if kind:
        base = "/oxe/base" if peer == "base" else "/oxe"
        Driver.LOAD["oxe"] = f"insmod {base}/oxe.ko"
        driver = Driver(kind)
    for scenario in scenarios.measured(wanted, peer):
        try:
            if kind == "oxe":
                chosen = scenario.controller or controller or DEFAULT_CONTROLLER
                choose(chosen, driver.dev)
            row = one(scenario, driver, seed)
        except Exception as error:  # one that fails is told, and the others run all the same
            traceback.print_exc()
            row = {"error": f"{type(error).__name__}: {error}"}
        rows.append({"scenario": scenario.name, "peer": peer, **row})
        print(f"# {peer} {scenario.name}: {summary(row)}", file=sys.stderr, flush=True)
        wire.settle()
    if driver:
        driver.unload()


def main():
    file, group, seed, controller, *options = sys.argv[1:]
    os.environ["PYTHONHASHSEED"] = "0"
    wanted = scenarios.selected(group)
    rows = []
    read_ahead()
    wire.up(gro=True)
    peers = ["oxe", *(["base"] if "--base" in options else []), "rxe", "tcp"]
    if subprocess.run(["modinfo", "rdma_rxe"], capture_output=True, check=False).returncode:
        peers.remove("rxe")
        print("# there is no rdma_rxe", file=sys.stderr)
    try:
        for peer in peers:
            measure_peer(peer, wanted, int(seed), controller, rows)
    finally:
        with open(file, "w", encoding="ascii") as out:
            json.dump(rows, out)
    run("sync", check=False)
    wire.down()


if __name__ == "__main__":
    main()
