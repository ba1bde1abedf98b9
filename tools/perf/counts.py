# SPDX-License-Identifier: GPL-2.0
"""Instructions per message, from what the counting plugin wrote (tools/profile).

A run has a point each time that its program learnt of completions: how many there were until then,
and how many instructions the machine had executed. The cost of a message is that of one between two
points, so the program's beginning and end are no part of it.
"""

# Of the completions of a run, those from here to here are of its steady state.
STEADY = (0.1, 0.9)


def series(lines):
    """The points of each run: {number: [(completions, instructions), ...]}.

    >>> series(["series 1 5", "tick 0 9", "tick 2 20", "series 2 30", "tick 3 33"])
    {1: [(0, 9), (2, 20)], 2: [(3, 33)]}
    """
    found, points = {}, []
    for line in lines:
        command, argument, instructions = line.split()
        if command == "series":
            points = found[int(argument)] = []
        elif command == "tick":
            before = points[-1][0] if points else 0
            points.append((before + int(argument), int(instructions)))
    return found


def per_message(points, messages, whole=False):
    """Instructions per message of a run; None if it has too few points. A completion may be that of
    several messages. With whole all of the run counts, with what it costs to begin.

    >>> points = [(0, 1000)] + [(i, 2000 + 100 * i) for i in range(1, 21)]
    >>> per_message(points, 20), per_message(points, 40), per_message(points, 20, whole=True)
    (100.0, 50.0, 150.0)
    >>> per_message([(0, 7), (50, 1007)], 50)
    20.0
    >>> per_message([(3, 7)], 3) is None
    True
    """
    if not points:
        return None
    total = points[-1][0]
    steady = [point for point in points if STEADY[0] * total <= point[0] <= STEADY[1] * total]
    if whole or len(steady) < 2:
        steady = points
    (first, begin), (last, end) = steady[0], steady[-1]
    if first == last:
        return None
    return (end - begin) / (last - first) * total / messages


def join(results, lines):
    """Adds to each row of bench.py the instructions per message of each driver: "counts"."""
    found = series(lines)
    for row in results.values():
        row["counts"] = {
            kind: per_message(found.get(run["series"]), run["messages"], run["whole"])
            for kind, run in row["runs"].items()
        }
