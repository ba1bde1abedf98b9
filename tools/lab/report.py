# SPDX-License-Identifier: GPL-2.0
"""What the boots of the lab have measured, as a table, as CSV and as curves for the charts.

Usage: report.py SCENARIO PEERS DIRECTORY SEED...

Each boot has left DIRECTORY/SEED/lab.json. Writes lab.csv, lab.rst and charts.json there. Ends with
1 if a row is missing, or if with oxe a connection failed or bytes were wrong; a figure that misses
its mark is said and is no failure.
"""

import csv
import json
import statistics
import sys

import scenarios

PEERS = {"oxe": "oxe", "base": "oxe, base", "rxe": "rdma_rxe", "tcp": "TCP"}
# Those that must not fail.
OURS = ("oxe", "base")


def figures(scenario, row, whole):
    """The figures of a row in one boot, by name; None where there is none of the kind. whole: the
    row whose goodput is the whole, where the scenario has one."""
    tcp = row["peer"] == "tcp"
    goodput = row["goodput"]
    total, count = sum(goodput), len(goodput)
    offered = row["passed"] + row["dropped"]
    payload, _ = scenarios.TCP_PACKET if tcp else scenarios.RDMA_PACKET
    found = {
        "mbits": total / 1e6,
        "share": None,
        # Of super-packets a drop is one, and what has passed is counted by the segment.
        "dropped": row["dropped"] / offered if offered and scenario.packets else None,
        "jain": total**2 / (count * sum(g * g for g in goodput)) if count > 1 and total else None,
        "poorest": min(goodput) * count / total if count > 1 and total else None,
        "beside": goodput[0] / total if scenario.tcp and not tcp and total else None,
        "queue": row["queue"] / 1000,
        # In packets.
        "waiting": row["queue"] / scenarios.RDMA_PACKET[1],
        "again": None if row["peer"] == "rxe" else row["again"],
        "busy": row["busy"],
        "latency": None,
    }
    if scenario.tcp and not tcp:
        # Packets of two kinds: in bytes of the wire.
        found["share"] = sum(
            g / scenario.ceiling(tcp=i >= scenario.flows) for i, g in enumerate(goodput)
        )
    elif whole:
        found["share"] = total / sum(whole["goodput"]) if sum(whole["goodput"]) else None
    elif scenario.has_ceiling():
        found["share"] = total / scenario.ceiling(tcp)
    # In less time than a message takes only the quick ones would be seen.
    ideal = scenario.flows * scenario.depth * scenario.length * 8 / scenario.ceiling()
    if row["latency"] and scenario.has_ceiling() and ideal < scenario.time / 2:
        found["latency"] = row["latency"] / ideal
    # Only packets of known size tell what was sent in vain.
    if scenario.packets and offered and not scenario.tcp:
        seconds = row["seconds"]
        found["vain"] = max(0.0, 1 - total / 8 * seconds / (offered * payload))
    else:
        found["vain"] = None
    return found


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def verdict(scenario, found):
    """Which marks of the done column are missed; None if the scenario has none."""
    marks = {
        "share": lambda value, mark: value >= mark,
        "dropped": lambda value, mark: value <= mark,
        "jain": lambda value, mark: value >= mark,
        "poorest": lambda value, mark: value >= mark,
        "beside": lambda value, mark: mark[0] <= value <= mark[1],
        "latency": lambda value, mark: value <= mark,
        "waiting": lambda value, mark: value <= mark,
    }
    marks = {name: f for name, f in marks.items() if getattr(scenario, name) is not None}
    if not marks:
        return None
    return [
        name
        for name, holds in marks.items()
        if found[name] is None or not holds(found[name], getattr(scenario, name))
    ]


class Line:
    """A scenario and a peer, over all boots."""

    def __init__(self, scenario, peer, rows, wholes):
        self.scenario, self.peer = scenario, peer
        self.errors = [row["error"] for row in rows if "error" in row]
        rows = [(r, w) for r, w in zip(rows, wholes) if "error" not in r]
        self.failed = [status for row, _ in rows for status in row["failed"]]
        self.wrong = sum(row["wrong"] for row, _ in rows)
        # Where the whole has not been measured there is no share.
        self.boots = [figures(scenario, row, whole) for row, whole in rows]
        names = self.boots[0] if self.boots else ()
        self.figures = {name: median(boot[name] for boot in self.boots) for name in names}
        key = "share" if self.figures.get("share") is not None else "mbits"
        spread = [boot[key] for boot in self.boots if boot[key] is not None]
        self.spread = (min(spread), max(spread)) if spread else None
        self.missed = None
        if peer in OURS and self.boots:
            self.missed = verdict(scenario, self.figures)

    def name(self):
        return self.scenario.kind() if self.peer == "tcp" else self.scenario.name

    def remark(self):
        words = []
        if self.missed is not None:
            words.append("missed: " + ", ".join(self.missed) if self.missed else "ok")
        if self.failed:
            words.append(f"{len(self.failed)} QPs failed ({self.failed[0]})")
        if self.wrong:
            words.append(f"{self.wrong} messages were wrong")
        if self.errors:
            words.append(f"not measured ({self.errors[0][:60]})")
        return "; ".join(words)

    def broken(self):
        return self.peer in OURS and bool(self.errors or self.failed or self.wrong)


def percent(value, digits=1):
    return "" if value is None else f"{100 * value:.{digits}f} %"


def number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


TITLES = ("scenario", "peer", "Mb/s", "share", "spread", "dropped", "queue/kB", "Jain", "poorest")
TITLES += ("beside", "again", "vain", "CPU", "99%", "")


def cells(line):
    f = line.figures
    if not f:
        return [line.name(), PEERS[line.peer], *[""] * 12, line.remark()]
    spread = ""
    if line.spread:
        digits = 3 if f["share"] is not None else 0
        spread = "-".join(f"{value:.{digits}f}" for value in line.spread)
    return [
        line.name(),
        PEERS[line.peer],
        number(f["mbits"], 1),
        number(f["share"], 3),
        spread,
        percent(f["dropped"], 2),
        number(f["queue"], 1),
        number(f["jain"], 3),
        number(f["poorest"], 2),
        percent(f["beside"], 0),
        number(f["again"], 0),
        percent(f["vain"]),
        percent(f["busy"], 0),
        number(f["latency"], 2),
        line.remark(),
    ]


def show(lines):
    table = [TITLES, *map(cells, lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(TITLES))]
    for row in table:
        text = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        text += [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:-1])]
        print("  ".join((*text, row[-1])).rstrip())


def write_csv(lines, path):
    names = ("mbits share dropped queue jain poorest beside again vain busy latency").split()
    with open(path, "w", encoding="ascii", newline="") as file:
        out = csv.writer(file)
        out.writerow(["scenario", "peer", "boot", *names, "remark"])
        for line in lines:
            for boot, found in enumerate(line.boots, 1):
                values = ["" if found[n] is None else f"{found[n]:.6g}" for n in names]
                out.writerow([line.name(), line.peer, boot, *values, ""])
            values = [line.figures.get(n) for n in names]
            values = ["" if v is None else f"{v:.6g}" for v in values]
            out.writerow([line.name(), line.peer, "median", *values, line.remark()])


RST_TITLES = ("scenario", "of", "goodput", "spread", "dropped", "Jain", "least", "99 %", "mark")


def rst_cells(line):
    f = line.figures
    if not f:
        return [f"``{line.name()}``", PEERS[line.peer], "failed", *[".."] * 6]
    whole = f["share"] is not None
    scale, digits = (1, 2) if whole else (1000, 2)
    key, unit = ("share", "") if whole else ("mbits", " Gb/s")
    spread = "-".join(f"{value / scale:.{digits}f}" for value in line.spread)
    least = percent(f["beside"], 0) or number(f["poorest"], 2)
    marks = "" if line.missed is None else "missed" if line.missed else "ok"
    failed = f"{len(line.failed)} failed" if line.failed else marks
    found = [
        f"``{line.name()}``",
        PEERS[line.peer],
        f"{f[key] / scale:.{digits}f}{unit}",
        spread,
        percent(f["dropped"]),
        number(f["jain"], 2),
        least,
        number(f["latency"], 1),
        failed,
    ]
    return [cell or ".." for cell in found]


def write_rst(lines, path):
    """The table as a document has it."""
    table = [RST_TITLES, *map(rst_cells, lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(RST_TITLES))]
    rule = " ".join("=" * width for width in widths)
    text = [" ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join((rule, text[0], rule, *text[1:], rule)) + "\n")


def write_charts(rows, wanted, path):
    """The samples of the first boot, for oxe-chart."""
    charts = []
    for scenario in wanted:
        curves = []
        for row in rows:
            mine = row["scenario"] == scenario.name or (
                row["peer"] == "tcp" and row["scenario"].rpartition("-")[0] == scenario.kind()
            )
            if mine and "error" not in row:
                curves.append(
                    {
                        "peer": row["peer"],
                        "label": PEERS[row["peer"]],
                        "queue": row["queues"],
                        "flows": rates(row["arrived"]),
                    }
                )
        limit = scenario.queue / 1000 if scenario.has_ceiling() else None
        charts.append({"name": scenario.name, "limit": limit, "curves": curves})
    with open(path, "w", encoding="ascii") as file:
        json.dump(charts, file)


def rates(samples):
    """From bytes that have arrived to Mb/s, for each flow a list of (second, rate)."""
    if len(samples) < 2:
        return []
    flows = [[] for _ in samples[0][1]]
    for (before, first), (at, second) in zip(samples, samples[1:]):
        for flow, a, b in zip(flows, first, second):
            flow.append((at, (b - a) * 8 / 1e6 / (at - before)))
    return flows


def collect(boots, wanted, peers):
    """The lines of the table, and the names of rows that a boot lacks."""
    lines, missing = [], []
    by_key = [{(row["scenario"], row["peer"]): row for row in boot} for boot in boots]
    asked = {peer: {s.name for s in scenarios.measured(wanted, peer)} for peer in peers}
    for scenario in wanted:
        for peer in peers:
            if scenario.name not in asked[peer]:
                continue
            rows = [boot.get((scenario.name, peer)) for boot in by_key]
            if None in rows:
                missing.append(f"{scenario.name}, {PEERS[peer]}")
                continue
            wholes = [boot.get((scenario.whole, peer)) for boot in by_key]
            wholes = [w if w and "error" not in w else None for w in wholes]
            lines.append(Line(scenario, peer, rows, wholes))
    return lines, missing


def main():
    group, peers, directory, *seeds = sys.argv[1:]
    wanted, boots = scenarios.selected(group), []
    for seed in seeds:
        with open(f"{directory}/{seed}/lab.json", encoding="ascii") as file:
            boots.append(json.load(file))
    lines, missing = collect(boots, wanted, peers.split())
    show(lines)
    write_csv(lines, f"{directory}/lab.csv")
    write_rst(lines, f"{directory}/lab.rst")
    write_charts(boots[0], wanted, f"{directory}/charts.json")
    judged = [line for line in lines if line.missed is not None]
    kept = sum(not line.missed for line in judged)
    print(f"{kept} of {len(judged)} rows of oxe reach what they are to")
    for name in missing:
        print(f"not measured: {name}")
    return bool(missing or any(line.broken() for line in lines))


if __name__ == "__main__":
    sys.exit(main())
