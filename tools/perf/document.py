# SPDX-License-Identifier: GPL-2.0
"""The tables of performance.rst and README.md, made from the table (table.json), so that names and
figures are the same everywhere.

Usage: document.py		writes both
       document.py --check	fails if they, or the table's names and those of rows.py, differ
"""

import os
import sys

import rows
import table

TOP = os.path.dirname(os.path.abspath(__file__)) + "/../.."
HEADS = ("what", "unit", "rxe", "oxe", "x rxe", "other", "instructions", "spread")

# README.md's rows, and those of the table that they show.
README = {
    "wire of MTU 1500, SEND of 1 MiB": "wire 1500, send 1 MiB",
    "wire of MTU 9000, SEND of 1 MiB": "wire 9000, send 1 MiB",
    "wire by packets, 1 % lost, SEND of 1 MiB": "by packets, 1 % lost, send 1 MiB",
    "loop, SEND of 1 MiB": "loop, send 1 MiB",
    "wire, latency of 64 bytes, with its events": "wire, send latency, 64 B",
    "loop, the same": "loop, send latency, 64 B",
}


def figure(value, unit):
    """As people read it.

    >>> [figure(value, "Gb/s") for value in (0.0402, 0.72, 5.114, 11.21, 103.4, None)]
    ['0.040', '0.72', '5.11', '11.2', '103', '']
    >>> figure(55.6, "Mb/s")
    '56'
    """
    if value is None:
        return ""
    if unit == "Mb/s":
        return f"{value:.0f}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def scaled(row):
    """The row's unit and figures; small bandwidths of oxe's are in Mb/s."""
    figures = [row[key] for key in ("rxe", "oxe", "other")]
    if row["unit"] == "Gb/s" and row["oxe"] < 0.2:
        return "Mb/s", [value and value * 1000 for value in figures]
    return row["unit"], figures


def cells(name, row):
    unit, figures = scaled(row)
    rxe, oxe, other = (figure(value, unit) for value in figures)
    ratio = table.better(row)
    times = "" if ratio is None else f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    instructions = "" if unit == "kB" else f"{row['cost']:,.0f}"
    return name, unit, rxe, oxe, times, other, instructions, f"{row['spread']:.2f} %"


def rst(entries):
    lines = [HEADS] + [cells(name, row) for name, row in entries.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    rule = "  ".join("=" * width for width in widths)
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in lines
    ]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


def markdown(entries):
    width = max(map(len, README))
    lines = [
        f"| {'':{width}} |      |   rxe |  oxe | TCP or memcpy |",
        f"|-{'-' * width}-|------|------:|-----:|--------------:|",
    ]
    for label, name in README.items():
        unit, figures = scaled(entries[name])
        rxe, oxe, other = (figure(value, unit) for value in figures)
        lines.append(f"| {label:{width}} | {unit:>4} | {rxe:>5} | {oxe:>4} | {other:>13} |")
    return "\n".join(lines)


def replaced(text, after, new):
    """The text with its table made anew: that which follows the line that begins with after, and an
    empty one.

    >>> replaced("a\\n\\nMade:\\n\\nold\\nold\\n\\nb\\n", "Made", "new")
    'a\\n\\nMade:\\n\\nnew\\n\\nb\\n'
    """
    begin = text.index("\n\n", text.index("\n" + after) + 1) + 2
    end = text.index("\n\n", begin)
    return text[:begin] + new + text[end:]


DOCUMENTS = (
    ("Documentation/performance.rst", rst, ".. This table is made by tools/perf/document.py"),
    ("README.md", markdown, "From performance.rst, on kernel"),
)


def differences(entries, check):
    """Writes the documents, or says which of them would change."""
    for path, make, after in DOCUMENTS:
        with open(f"{TOP}/{path}", encoding="utf-8") as file:
            old = file.read()
        new = replaced(old, after, make(entries))
        if old != new and check:
            yield f"{path} does not show the table: run tools/perf/document.py"
        elif old != new:
            with open(f"{TOP}/{path}", "w", encoding="utf-8") as file:
                file.write(new)


def main():
    entries, known = table.load()["rows"], rows.names()
    found = [f"no row of the table: {name}" for name in known if name not in entries]
    found += [f"only in the table: {name}" for name in entries if name not in known]
    if not found and list(entries) != known:
        found.append("the table has the rows in another order than rows.py")
    found += differences(entries, "--check" in sys.argv)
    sys.exit("\n".join(found) or 0)


if __name__ == "__main__":
    main()
