# SPDX-License-Identifier: GPL-2.0
"""What was measured, set against the table (table.json).

A row is worse if its cost is more than one percent above the table's. Where the row's spread in the
table is larger, that is its tolerance.
Usage: compare.py RUN PATTERN [RUN...]	each RUN is a directory of one boot (see scripts/bench). The
       first has the rows whose names contain PATTERN, the others some of them once more: the median
       counts. Ends with 1 if a row is worse, is missing or has no entry.
       compare.py --again RUN PATTERN	prints the names of the rows that seem to differ, for
       further boots: as a pattern
"""

import dataclasses
import statistics
import sys

import rows
import table

TOLERANCE = 1.0


@dataclasses.dataclass
class Verdict:
    name: str
    # "worse", "better", "same", "not measured", "no entry"
    kind: str
    before: float | None = None
    now: float | None = None
    change: float = 0.0
    tolerance: float = TOLERANCE


def judge(name, entry, costs):
    """The verdict on one row; entry is the table's, costs are those of the boots that had it."""
    if entry is None:
        return Verdict(name, "no entry", now=statistics.median(costs) if costs else None)
    if not costs:
        return Verdict(name, "not measured", before=entry["cost"])
    before, now = entry["cost"], statistics.median(costs)
    change = (now / before - 1) * 100
    tolerance = max(TOLERANCE, entry["spread"])
    kind = "worse" if change > tolerance else "better" if change < -tolerance else "same"
    return Verdict(name, kind, before, now, change, tolerance)


def compare(entries, runs, pattern=""):
    """The verdicts on all rows that the pattern selects, of the table and of the first run."""
    names = [name for name in (*entries, *(n for n in runs[0] if n not in entries))]
    names = [name for name in names if rows.selects(pattern, name)]
    verdicts = []
    for name in names:
        costs = [table.cost(run[name]) for run in runs if name in run]
        verdicts.append(judge(name, entries.get(name), [c for c in costs if c is not None]))
    return verdicts


def line(verdict):
    if verdict.kind == "not measured":
        return f"not measured: {verdict.name}"
    if verdict.kind == "no entry":
        return f"not in the table: {verdict.name}"
    tolerance = f" (tolerance {verdict.tolerance:.1f} %)" if verdict.tolerance > TOLERANCE else ""
    return (
        f"{verdict.kind:8}{verdict.name:42}{verdict.before:12.6g}{verdict.now:12.6g}"
        f"{verdict.change:+8.1f} %{tolerance}"
    )


def show(verdicts):
    """Prints what differs, and whether it is well: the exit status."""
    found = {kind: [v for v in verdicts if v.kind == kind] for kind in ORDER}
    differing = [v for kind in ORDER if kind != "same" for v in found[kind]]
    if any(v.kind in ("worse", "better") for v in differing):
        print(f"{'':50}{'table':>12}{'now':>12}{'change':>10}")
    for verdict in differing:
        print(line(verdict))
    print(", ".join(f"{len(found[kind])} {kind}" for kind in ORDER))
    return any(found[kind] for kind in ("worse", "not measured", "no entry"))


ORDER = ("worse", "better", "not measured", "no entry", "same")


def main():
    again = sys.argv[1] == "--again"
    first, pattern, *others = sys.argv[2 if again else 1 :]
    runs = [table.load_run(directory) for directory in (first, *others)]
    verdicts = compare(table.load()["rows"], runs, pattern)
    if not again:
        return show(verdicts)
    print(rows.exactly(v.name for v in verdicts if v.kind in ("worse", "better")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
