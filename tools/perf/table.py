# SPDX-License-Identifier: GPL-2.0
"""The table (table.json): what each row costs today. `make bench-compare` sets a measurement beside
it, performance.rst and README.md show it.

A row has the figures of rxe, oxe and TCP or memcpy (of one boot), and oxe's cost: instructions per
message, or per operation; for memory of the kernel, kilobytes. The cost is the median of several
boots, whose random numbers differ; the spread is the difference between the most and the least of
them, in percent.
Usage: table.py write KERNEL RUN...	replaces the rows that were measured; a RUN is a directory
       of one boot (see scripts/bench), the first of which has all drivers
       table.py figures RUN	prints what was measured in one boot
       table.py rows	the rows as JSON, for the charts
"""

import json
import os
import statistics
import sys

import counts

# The drivers, in the order of columns.
KINDS = ("rxe", "siw", "oxe")
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "table.json")


def load_run(directory):
    """The rows of one boot, with their costs."""
    with open(f"{directory}/bench.json", encoding="ascii") as file:
        found = json.load(file)
    with open(f"{directory}/counts.txt", encoding="ascii") as lines:
        counts.join(found, lines)
    return found


def cost(row, kind="oxe"):
    """What is compared: instructions per message, or the memory of an object."""
    return row.get(kind) if row["unit"] == "kB" else row["counts"].get(kind)


def load():
    with open(PATH, encoding="ascii") as file:
        return json.load(file)


def save(table):
    """One line for each row, so that a change shows what it changes."""
    lines = (f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table["rows"].items())
    with open(PATH, "w", encoding="ascii") as file:
        file.write(f'{{"kernel": {json.dumps(table["kernel"])}, "rows": {{\n')
        file.write(",\n".join(lines) + "\n}}\n")


def significant(figure, digits=4):
    """The figure with so many digits; none are lost before the decimal point.

    >>> significant(0.0558512), significant(2139871.3), significant(53.46679), significant(None)
    (0.05585, 2139871, 53.47, None)
    """
    if figure is None:
        return None
    rounded = float(f"{figure:.{digits}g}")
    return round(figure) if abs(figure) >= 10**digits else rounded


def spread(costs):
    """Percent between the least and the most.

    >>> spread([101, 100, 102])
    2.0
    """
    return round((max(costs) - min(costs)) / min(costs) * 100, 2)


def row_of(runs, name):
    """The table's row for one that was measured in these boots."""
    first, costs = runs[0][name], [cost(run[name]) for run in runs]
    if None in costs:
        raise ValueError(f"'{name}' was not measured in each boot")
    return {
        "unit": first["unit"],
        **{key: significant(first.get(key)) for key in (*KINDS, "other")},
        "cost": significant(statistics.median(costs)),
        "spread": spread(costs),
    }


def write(kernel, directories):
    import rows

    runs = [load_run(directory) for directory in directories]
    old = load()["rows"] if os.path.exists(PATH) else {}
    new = {name: row_of(runs, name) for name in runs[0]}
    both = {**old, **new}
    save({"kernel": kernel, "rows": {name: both[name] for name in rows.names() if name in both}})


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.2 else f"{value:.4f}"


def better(row):
    """How many times as good as rxe oxe is."""
    if not row.get("rxe") or not row.get("oxe"):
        return None
    return row["oxe"] / row["rxe"] if row["unit"] == "Gb/s" else row["rxe"] / row["oxe"]


def print_figures(found):
    print(f"{'':96}{'instructions':>17}")
    print(
        f"{'':40}{'unit':>8}{'rxe':>10}{'siw':>10}{'oxe':>10}{'x rxe':>8}{'TCP/memcpy':>12}"
        f"{'rxe':>10}{'siw':>10}{'oxe':>10}"
    )
    for name, row in found.items():
        print(
            f"{name:40}{row['unit']:>8}"
            + "".join(f"{number(row.get(kind)):>10}" for kind in KINDS)
            + f"{number(better(row)):>8}{number(row['other']):>12}"
            + "".join(f"{number(row['counts'].get(kind)):>10}" for kind in KINDS)
        )


def main():
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode == "write":
        write(arguments[0], arguments[1:])
    elif mode == "figures":
        print_figures(load_run(arguments[0]))
    else:
        json.dump(load()["rows"], sys.stdout)


if __name__ == "__main__":
    main()
