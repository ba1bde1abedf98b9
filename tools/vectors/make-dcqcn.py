#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes dcqcn.txt: the rate of a DCQCN reaction point under trains of CNPs.

Usage: make-dcqcn.py > dcqcn.txt, or make-dcqcn.py --check

It computes in floating point and in steps of each period, by the formulas of Zhu et al.,
"Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 5, and the defaults of
NVIDIA's "DCQCN Parameters". The driver computes otherwise, and a test of it compares the two.

The output is checked in; --check says whether it is that of this program. A trace begins with

    trace name line-rate-in-Mb/s

and has one event a line, of which bytes is empty ("-") unless packets were sent:

    time-in-ns cnp|sent|look bytes rate target alpha

Rates are in bits per second, after the event; alpha is "-" when the rate is not limited.
"""

import pathlib
import sys

MBIT = 1e6
G = 1019 / 1024  # what stays of alpha
INITIAL_ALPHA = 1023 / 1024
ALPHA_PERIOD = 1_000
REDUCE_PERIOD = 4_000
TIME_RESET = 300_000
BYTE_RESET = 32_767
THRESHOLD = 1
AI, HAI = 5 * MBIT, 50 * MBIT
MIN_RATE = 1 * MBIT
MIN_DEC_FAC = 0.5
NEVER = float("inf")


class ReactionPoint:
    """The state of one flow, moved on from event to event."""

    def __init__(self, line):
        self.line = line * MBIT
        self.limited = False
        self.rate = self.target = self.line

    def run(self, now):
        """Everything that happens of itself until now."""
        while self.limited:
            cut = self.cut_at + REDUCE_PERIOD if self.cut_due else NEVER
            soonest = min(self.alpha_tick, self.timer, cut)
            if soonest > now:
                return
            if soonest == self.alpha_tick:
                self.alpha *= G
                if self.congested:
                    self.alpha += 1 - G
                self.congested = False
                self.alpha_tick += ALPHA_PERIOD
            elif soonest == cut:
                self.cut(cut)
            else:
                self.timer += TIME_RESET
                self.times += 1
                self.increase()

    def cnp(self, now):
        self.run(now)
        if not self.limited:
            self.limited = True
            self.rate = self.target = self.line
            self.alpha = INITIAL_ALPHA
            self.alpha_tick = now + ALPHA_PERIOD
            self.times = self.counts = 0
            self.cut(now)
        elif now < self.cut_at + REDUCE_PERIOD:
            self.cut_due = True
        else:
            self.cut(now)
        self.congested = True

    def cut(self, now):
        # The target stays where it is until the rate has grown towards it.
        if self.times or self.counts:
            self.target = self.rate
        fallen = max(self.rate * (1 - self.alpha / 2), self.rate * MIN_DEC_FAC, MIN_RATE)
        self.rate = min(self.rate, fallen)
        self.cut_at, self.cut_due = now, False
        self.times = self.counts = self.bytes = 0
        self.timer = now + TIME_RESET

    def sent(self, now, count):
        self.run(now)
        if not self.limited:
            return
        self.bytes += count
        while self.limited and self.bytes >= BYTE_RESET:
            self.bytes -= BYTE_RESET
            self.counts += 1
            self.increase()

    def increase(self):
        if max(self.times, self.counts) <= THRESHOLD:
            pass  # fast recovery
        elif min(self.times, self.counts) > THRESHOLD:
            self.target += HAI
        else:
            self.target += AI
        self.target = min(self.target, self.line)
        self.rate = (self.rate + self.target) / 2
        if self.line - self.rate < 1:
            self.limited = False
            self.rate = self.target = self.line


class Trace:
    """A flow, and the lines of what happens to it."""

    def __init__(self, name, line):
        self.point = ReactionPoint(line)
        self.lines = [f"trace {name} {line}"]

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


def sending(name, line, gap, cnps, bursts):
    """A CNP in each gap, then none, of a flow that sends a burst in 50 us."""
    trace = Trace(name, line)
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


def noise():
    """CNPs and packets at times that only look random."""
    trace = Trace("noise", 25_000)
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


def text():
    traces = [
        storm(),
        close(),
        sending("rare", 10_000, 1_000_000, 4, 120),
        sending("often", 10_000, 100_000, 40, 120),
        sending("slow", 1_000, 50_000, 60, 120),
        noise(),
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
