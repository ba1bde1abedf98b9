# SPDX-License-Identifier: GPL-2.0
"""Compare oxe with rxe on two CPUs, in real time: what runs in parallel there does so here. The
time is that of a machine which is emulated on a shared one, so that only the ratio of the two
drivers means something, and only the median of several rounds; each round loads one driver and then
the other.

Latencies are those of programs that poll, each on a CPU of its own, and of programs that sleep; the
99th percentile shows the waits in bad moments.
Usage: real.py FILE [PATTERN]	writes FILE (JSON) and prints a table of how many times as good as
       rxe oxe is; only rows whose name contains PATTERN.
"""

import json
import statistics
import sys

from driver import Driver, wire_down, wire_up
from rows import VERBS, amount, matching

ROUNDS = 5
# Bytes of a row of large messages.
TOTAL = 40 << 20
WAITING = {"polling": "", "sleeping": "-e"}


def latencies(driver, verb, where, how):
    driver.waiting = WAITING[how]
    try:
        return driver.latencies(verb, where)
    finally:
        del driver.waiting


def rows():
    """(name, function of a driver that gives one or two figures, whether more is better)."""
    for where in ("wire", "loop"):
        for size in (64, 65536, 1 << 20):
            for verb in VERBS[size >= 65536]:
                yield (
                    f"{where}, {verb} {amount(size)}",
                    lambda d, v=verb, w=where, s=size: (d.bandwidth_any(v, w, s, TOTAL),),
                    True,
                )
        for how in WAITING:
            for verb in ("send", "read", "atomic"):
                yield (
                    f"{where}, {verb} latency, {how}",
                    lambda d, v=verb, w=where, h=how: latencies(d, v, w, h),
                    False,
                )


def measure(wanted):
    """All figures: {name: {driver: [figures of a round, ...]}}."""
    found = {row[0]: {"rxe": [], "oxe": []} for row in wanted}
    for turn in range(ROUNDS):
        for kind in ("rxe", "oxe"):
            driver = Driver(kind)
            for name, function, _ in wanted:
                found[name][kind].append(function(driver))
                print(
                    f"# {turn} {kind} {name}: {found[name][kind][-1]}", file=sys.stderr, flush=True
                )
            driver.unload()
    return found


def ratios(rxe, oxe, more):
    """The factor by which oxe was better in each round, for each of the figures."""
    better = [
        [b / a if more else a / b for a, b in zip(one, other)] for one, other in zip(rxe, oxe)
    ]
    return zip(*better)


def main():
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    try:
        names = matching(pattern, [row[0] for row in rows()])
    except LookupError as error:
        sys.exit(str(error))
    wanted = [row for row in rows() if row[0] in names]
    wire_up(1500)
    found = measure(wanted)
    wire_down()
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(found, out, indent=1)
    print(f"{'':36}{'x rxe':>8}{'least':>8}{'most':>8}{'99 %: x rxe':>16}{'least':>8}{'most':>8}")
    for name, _, more in wanted:
        line = f"{name:36}"
        for width, all_of in zip((8, 16), ratios(found[name]["rxe"], found[name]["oxe"], more)):
            line += f"{statistics.median(all_of):{width}.2f}{min(all_of):8.2f}{max(all_of):8.2f}"
        print(line)


if __name__ == "__main__":
    main()
