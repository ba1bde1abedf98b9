# SPDX-License-Identifier: GPL-2.0
"""Where the instructions went, by module and by function.

Usage: functions.py DIRECTORY [LINES]	the directory has blocks.txt and counts.txt (from count.c),
kallsyms of the same boot, and profile.json with the run of the row that was measured.
"""

import bisect
import collections
import json
import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)) + "/../perf")
import counts  # pylint: disable=wrong-import-position


def symbols(path):
    """Sorted addresses, and (name, module) of each."""
    found = []
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            word = line.split()
            if word[1] in "tTwW":
                found.append(
                    (int(word[0], 16), word[2], word[3].strip("[]") if len(word) > 3 else "kernel")
                )
    found.sort()
    return [address for address, _, _ in found], [(name, module) for _, name, module in found]


def count(path, addresses, names):
    """Instructions and entries by (name, module)."""
    spent, entered = collections.Counter(), collections.Counter()
    with open(path, encoding="ascii") as file:
        for line in file:
            address, length, times = int(line.split()[0], 16), *map(int, line.split()[1:])
            if address < 1 << 63:
                spent["", "programs"] += length * times
                continue
            at = bisect.bisect(addresses, address) - 1
            spent[names[at]] += length * times
            if addresses[at] == address:
                entered[names[at]] += times
    return spent, entered


def plain(names):
    """The demangled names of Rust functions."""
    tool = subprocess.run(
        ["llvm-cxxfilt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return dict(zip(names, tool.stdout.splitlines()))


def main():
    where, lines = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
    with open(f"{where}/profile.json", encoding="ascii") as file:
        row = json.load(file)
    with open(f"{where}/counts.txt", encoding="ascii") as events:
        points = counts.series(events)[row["series"]]
    message = counts.per_message(points, row["messages"], row["whole"])
    spent, entered = count(f"{where}/blocks.txt", *symbols(f"{where}/kallsyms"))
    total = sum(spent.values())
    each = message / total
    print(f"{row['name']}: {message:.0f} instructions a message, {total} counted")
    modules = collections.Counter()
    for (_, module), number in spent.items():
        modules[module] += number
    print(f"{'a message':>10}{'share':>8}  module")
    for module, number in modules.most_common(8):
        print(f"{number * each:10.0f}{number / total:8.1%}  {module}")
    top = spent.most_common(lines)
    written = plain([name for (name, _), _ in top])
    print(f"{'a message':>10}{'share':>8}{'calls':>8}  function")
    for key, number in top:
        print(
            f"{number * each:10.0f}{number / total:8.1%}{entered[key] * each:8.2f}  "
            f"{written[key[0]][:100]} [{key[1]}]"
        )


if __name__ == "__main__":
    main()
