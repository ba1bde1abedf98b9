# SPDX-License-Identifier: GPL-2.0
"""The scenarios of the lab, and what oxe is to reach in each. Read in the guest and on the host.

Usage: scenarios.py [SCENARIO]	ends with 1 if there is none of that group or name
"""

import dataclasses
import sys

# Of a packet: payload, and what tc counts of it, from its Ethernet header on.
RDMA_PACKET = (1024, 1024 + 14 + 20 + 8 + 12 + 4)
TCP_PACKET = (1448, 1448 + 14 + 20 + 32)

OPS = ("send", "write", "read")


@dataclasses.dataclass(frozen=True)
class Scenario:
    # pylint: disable=too-many-instance-attributes
    name: str
    # One of make lab's SCENARIO=.
    group: str
    op: str
    flows: int = 8
    # Flows of TCP beside those.
    tcp: int = 0
    length: int = 65536
    depth: int = 16
    # The bottleneck: its rate, and the bytes of its queue, which drops at the tail. packets:
    # super-packets are segmented in front of it; a wire of super-packets has no rate.
    packets: bool = True
    rate: str = "200mbit"
    queue: int = 150_000
    # oxe's congestion controller, where the row is about it; "" for the one of the run.
    controller: str = ""
    # Percent lost, and milliseconds of delay, each way.
    loss: float = 0
    delay: float = 0
    # One packet in a hundred is late by up to so many others.
    late: int = 0
    # A netem that does nothing, where this row is the measure for one in which it does.
    empty_netem: bool = False
    # Seconds between the first message of one flow and of the next.
    stagger: float = 0
    warm_up: float = 0.5
    time: float = 2.0
    # The row whose goodput is the whole; "" if it is what the bottleneck can carry.
    whole: str = ""
    # The done column: least goodput, most dropped, least Jain's index, least part of the poorest,
    # least and most part of RDMA beside TCP, most 99 % latency.
    share: float | None = None
    dropped: float | None = None
    jain: float | None = None
    poorest: float | None = None
    beside: tuple[float, float] | None = None
    latency: float | None = None
    # Most packets in the queue, on average.
    waiting: float | None = None

    def ceiling(self, tcp=False):
        """Payload in bits a second that the bottleneck can carry."""
        payload, packet = TCP_PACKET if tcp else RDMA_PACKET
        number, unit = float(self.rate[:-4]), self.rate[-4:]
        return number * {"mbit": 1e6, "gbit": 1e9}[unit] * payload / packet

    def has_ceiling(self):
        return not self.whole and self.rate != OPEN["rate"] and self.packets

    def kind(self):
        """Its name without the operation."""
        return self.name.rpartition("-")[0]


# A wire as fast as the machine.
OPEN = {"rate": "100gbit", "queue": 100_000_000}
OPEN_FLOW = {**OPEN, "flows": 1, "empty_netem": True, "warm_up": 0.1, "time": 0.5}


def bottleneck(op):
    return Scenario(f"bottleneck-{op}", "bottleneck", op, share=0.98, dropped=0.015)


def crowd(op):
    return Scenario(
        f"crowd-{op}",
        "crowd",
        op,
        flows=100,
        warm_up=1.0,
        time=2.0,
        share=0.95,
        dropped=0.03,
        poorest=0.1,
    )


def incast(op):
    return Scenario(
        f"incast-{op}",
        "incast",
        op,
        flows=32,
        length=1 << 18,
        depth=1,
        warm_up=0.5,
        time=2.0,
        share=0.85,
        latency=4,
    )


def fairness():
    two = {"rate": "200mbit", "delay": 0.5, "warm_up": 1.0, "time": 3.0}
    for op in ("write", "read"):
        yield Scenario(
            f"fairness-{op}", "fairness", op, flows=2, stagger=0.3, share=0.8, jain=0.95, **two
        )
    for op in ("write", "read"):
        yield Scenario(
            f"beside-tcp-{op}", "fairness", op, flows=1, tcp=1, beside=(0.3, 0.7), **two
        )


def lossy():
    for op in OPS:
        whole = f"lossless-{op}"
        yield Scenario(whole, "lossy", op, **OPEN_FLOW)
        for loss, share in ((0.1, 0.95), (1, 0.8)):
            yield Scenario(
                f"loss-{loss}-{op}", "lossy", op, loss=loss, whole=whole, share=share, **OPEN_FLOW
            )
    super_packets = {**OPEN_FLOW, "packets": False, "time": 1.0}
    for op in OPS:
        whole = f"lossless-gso-{op}"
        yield Scenario(whole, "lossy", op, **super_packets)
        yield Scenario(
            f"loss-1-gso-{op}",
            "lossy",
            op,
            loss=1,
            whole=whole,
            share=0.5,
            **super_packets,
        )


def reorder():
    ordered = {"flows": 1, "queue": 10_000_000, "warm_up": 0.3, "time": 1.0}
    for op in OPS:
        whole = f"ordered-{op}"
        yield Scenario(whole, "reorder", op, **ordered)
        yield Scenario(f"reorder-{op}", "reorder", op, late=8, whole=whole, share=0.95, **ordered)


def long():
    flow = {**OPEN_FLOW, "packets": False, "length": 1 << 20, "warm_up": 1.0, "time": 0.5}
    for op in ("write", "read"):
        whole = f"short-{op}"
        yield Scenario(whole, "long", op, **flow)
        yield Scenario(f"long-{op}", "long", op, delay=5, whole=whole, share=0.8, **flow)


def own():
    """Connections that are controlled by delay: the network of the simulator's lab, 50 times
    slower."""
    for flows, op in ((2, "write"), (8, "write"), (2, "read"), (8, "read")):
        yield Scenario(
            f"own-{flows}-{op}",
            "own",
            op,
            flows=flows,
            controller="delay",
            queue=1_000_000,
            delay=0.5,
            share=0.9,
            waiting=5,
        )


ALL = (
    *(bottleneck(op) for op in ("send", "read")),
    *(crowd(op) for op in ("send", "read")),
    *fairness(),
    *(incast(op) for op in ("write", "read")),
    *lossy(),
    *reorder(),
    *own(),
    *long(),
)
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in ALL))


def selected(group=""):
    """Those of a group, or that of a name and the one that is its measure; all for ""."""
    wanted = [s for s in ALL if group in ("", s.group, s.name)]
    names = {name for s in wanted for name in (s.name, s.whole)}
    return [s for s in ALL if s.name in names]


def measured(wanted, peer):
    """Those that this peer is measured in. TCP has one row of each kind, as it does not depend on
    the operation, and so has rdma_rxe for the sake of time, but for the first of all; neither is in
    those about a controller of oxe's."""
    if peer in ("oxe", "base"):
        return list(wanted)
    kinds = {}
    for scenario in wanted:
        if scenario.controller:
            continue
        if peer == "rxe" and scenario.group == "bottleneck":
            kinds[scenario.name] = scenario
        elif peer == "rxe" or not scenario.tcp:
            kinds.setdefault(scenario.kind(), scenario)
    return list(kinds.values())


if __name__ == "__main__":
    if not selected(*sys.argv[1:]):
        sys.exit("the scenarios: " + ", ".join((*GROUPS, *(s.name for s in ALL))))
