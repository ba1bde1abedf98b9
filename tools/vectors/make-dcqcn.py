#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes dcqcn.txt: the rate of a DCQCN reaction point under trains of CNPs.

Usage: make-dcqcn.py > dcqcn.txt, or make-dcqcn.py --check

It computes in floating point and in steps of each period, by the formulas of Zhu et al.,
"Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 5, and the defaults of
NVIDIA's "DCQCN Parameters". The driver computes otherwise, and a test of it compares the two.

The output is checked in; --check says whether it is that of this program. A trace begins with

    trace name line-rate-in-Mb/s parameter=value...

and has one event a line, of which bytes is empty ("-") unless packets were sent:

    time-in-ns cnp|sent|look bytes rate target alpha

Rates are in bits per second, after the event; alpha is "-" when the rate is not limited.
"""

import pathlib
import sys

MBIT = 1e6
NEVER = float("inf")
DEFAULTS = {
    "rp_clamp_tgt_rate": 0,
    "rp_clamp_tgt_rate_ati": 1,
    "rp_time_reset": 300,
    "rp_byte_reset": 32_767,
    "rp_threshold": 1,
    "rp_ai_rate": 5,
    "rp_hai_rate": 50,
    "rp_max_rate": 0,
    "rp_min_rate": 1,
    "rp_min_dec_fac": 50,
    "rp_rate_to_set_on_first_cnp": 0,
    "rp_gd": 11,
    "rp_dce_tcp_g": 1019,
    "rp_dce_tcp_rtt": 1,
    "rp_initial_alpha_value": 1023,
    "rp_rate_reduce_monitor_period": 4,
}


class ReactionPoint:
    """The state of one flow, moved on from event to event."""

    def __init__(self, line, changes):
        value = DEFAULTS | changes
        self.line = min(line, value["rp_max_rate"] or line) * MBIT
        self.first = value["rp_rate_to_set_on_first_cnp"] * MBIT
        self.g = value["rp_dce_tcp_g"] / 1024  # what stays of alpha
        self.initial_alpha = value["rp_initial_alpha_value"] / 1024
        self.alpha_period = value["rp_dce_tcp_rtt"] * 1000
        self.reduce_period = value["rp_rate_reduce_monitor_period"] * 1000
        self.time_reset = value["rp_time_reset"] * 1000
        self.byte_reset = value["rp_byte_reset"] or NEVER
        self.threshold = value["rp_threshold"]
        self.additive, self.hyper = value["rp_ai_rate"] * MBIT, value["rp_hai_rate"] * MBIT
        self.min_rate = value["rp_min_rate"] * MBIT
        self.min_left = value["rp_min_dec_fac"] / 100
        self.shrink = 2 ** (10 - value["rp_gd"])
        self.clamp, self.clamp_by_time = value["rp_clamp_tgt_rate"], value["rp_clamp_tgt_rate_ati"]
        self.limited = False
        self.rate = self.target = self.line

    def run(self, now):
        """Everything that happens of itself until now."""
        while self.limited:
            cut = self.cut_at + self.reduce_period if self.cut_due else NEVER
            soonest = min(self.alpha_tick, self.timer, cut)
            if soonest > now:
                return
            if soonest == self.alpha_tick:
                self.alpha *= self.g
                if self.congested:
                    self.alpha += 1 - self.g
                self.congested = False
                self.alpha_tick += self.alpha_period
            elif soonest == cut:
                self.cut(cut)
            else:
                self.timer += self.time_reset
                self.times += 1
                self.increase()

    def cnp(self, now):
        self.run(now)
        if not self.limited:
            self.limited = True
            self.rate = self.target = min(self.first or self.line, self.line)
            self.alpha = self.initial_alpha
            self.alpha_tick = now + self.alpha_period
            self.times = self.counts = 0
            if self.first:
                self.begin(now)
            else:
                self.cut(now)
        elif now < self.cut_at + self.reduce_period:
            self.cut_due = True
        else:
            self.cut(now)
        self.congested = True

    def cut(self, now):
        # The target stays where it is until the rate has grown towards it.
        if self.clamp or self.counts or (self.times and self.clamp_by_time):
            self.target = self.rate
        fallen = self.rate * (1 - self.alpha * self.shrink)
        self.rate = min(self.rate, max(fallen, self.rate * self.min_left, self.min_rate))
        self.begin(now)

    def begin(self, now):
        self.cut_at, self.cut_due = now, False
        self.times = self.counts = self.bytes = 0
        self.timer = now + self.time_reset

    def sent(self, now, count):
        self.run(now)
        if not self.limited:
            return
        self.bytes += count
        while self.limited and self.bytes >= self.byte_reset:
            self.bytes -= self.byte_reset
            self.counts += 1
            self.increase()

    def increase(self):
        if max(self.times, self.counts) <= self.threshold:
            pass  # fast recovery
        elif min(self.times, self.counts) > self.threshold:
            self.target += self.hyper
        else:
            self.target += self.additive
        self.target = min(self.target, self.line)
        self.rate = (self.rate + self.target) / 2
        if self.line - self.rate < 1:
            self.limited = False
            self.rate = self.target = self.line


class Trace:
    """A flow, and the lines of what happens to it."""

    def __init__(self, name, line, **changes):
        self.point = ReactionPoint(line, changes)
        self.lines = [" ".join([f"trace {name} {line}", *(f"{n}={v}" for n, v in changes.items())])]

    def note(self, now, what, count="-"):
        point = self.point
        alpha = f"{point.alpha:.5f}" if point.limited else "-"
        self.lines.append(f"{now} {what} {count} {point.rate:.0f} {point.target:.0f} {alpha}")

    def cnp(self, now):
        self.point.cnp(now)
        self.note(now, "cnp")

    def sent(self, now, count):
        self.point.sent(now, count)
        self.note(now, "sent", count)

    def look(self, now):
        self.point.run(now)
        self.note(now, "look")


def storm():
    """A CNP in 4.1 us, then silence with nothing to send."""
    trace = Trace("storm", 100_000)
    for n in range(40):
        trace.cnp(10_007 + 4_100 * n)
    for n in range(40):
        trace.look(900_003 + 1_700_011 * n)
    return trace


def close():
    """CNPs that are closer than the rate may be cut."""
    trace = Trace("close", 40_000)
    for n in range(40):
        trace.cnp(1_003 + 1_301 * n)
    return trace


def sending(name, line, gap, cnps, bursts, **changes):
    """A CNP in each gap, then none, of a flow that sends a burst in 50 us."""
    trace = Trace(name, line, **changes)
    now, next_cnp, left = 5_009, 5_009, cnps
    for _ in range(bursts):
        if left and now >= next_cnp:
            trace.cnp(now)
            next_cnp += gap
            left -= 1
        now += 17
        packets = max(1, int(trace.point.rate * 50e-6 / 8 / 1068))
        trace.sent(now, min(packets, 61) * 1068)
        now += 50_003
    return trace


def noise(name, **changes):
    """CNPs and packets at times that only look random."""
    trace = Trace(name, 25_000, **changes)
    now, state = 1_001, 12345
    for _ in range(160):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        now += 37 + (state >> 8) % 200_000
        kind = (state >> 4) % 8
        if kind < 3:
            trace.cnp(now)
        elif kind < 7:
            trace.sent(now, 1068 * (1 + (state >> 12) % 40))
        else:
            trace.look(now)
    return trace


# As in the paper.
PAPER = {
    "rp_dce_tcp_rtt": 55,
    "rp_dce_tcp_g": 1020,
    "rp_rate_reduce_monitor_period": 50,
    "rp_time_reset": 55,
    "rp_byte_reset": 10_000_000,
    "rp_threshold": 5,
    "rp_ai_rate": 40,
}
# Each of the rest is another one.
OTHER = {
    "rp_clamp_tgt_rate": 1,
    "rp_clamp_tgt_rate_ati": 0,
    "rp_gd": 10,
    "rp_min_dec_fac": 30,
    "rp_min_rate": 200,
    "rp_max_rate": 8000,
    "rp_rate_to_set_on_first_cnp": 3000,
    "rp_initial_alpha_value": 700,
    "rp_hai_rate": 100,
}


def text():
    traces = [
        storm(),
        close(),
        sending("rare", 10_000, 1_000_000, 4, 120),
        sending("often", 10_000, 100_000, 40, 120),
        sending("slow", 1_000, 50_000, 60, 120),
        noise("noise"),
        sending("paper", 40_000, 50_000, 60, 120, **PAPER),
        noise("noise-paper", **PAPER),
        sending("other", 10_000, 400_000, 10, 120, **OTHER),
        noise("noise-other", **OTHER),
    ]
    return "".join(line + "\n" for trace in traces for line in trace.lines)


def main():
    if sys.argv[1:] == ["--check"]:
        stored = pathlib.Path(__file__).with_name("dcqcn.txt")
        if stored.read_text(encoding="ascii") != text():
            sys.exit("dcqcn.txt is not what make-dcqcn.py writes")
    else:
        sys.stdout.write(text())


if __name__ == "__main__":
    main()
