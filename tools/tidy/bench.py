# SPDX-License-Identifier: GPL-2.0
"""The rows of the bench: Documentation/performance.rst shows those of tools/perf/table.json, and
the rows that documents measure by ONLY= exist."""

import json
import pathlib
import re

from .source import Problem

DOCUMENT = pathlib.PurePosixPath("Documentation/performance.rst")
TABLE = pathlib.PurePosixPath("tools/perf/table.json")
RULE = re.compile(r"=+(\s+=+)+")
ONLY = re.compile(r"make bench\b[^`\n]*?\bONLY=(?:'([^'`]+)'|([^\s`'.]+))")


def check(tree):
    rows = list(json.loads(tree.text(TABLE) or '{"rows": {}}')["rows"])
    shown = dict(shown_rows(tree))
    for name in sorted(set(shown) - set(rows)):
        yield Problem(DOCUMENT, shown[name], f"{TABLE} has no row {name!r}")
    for name in rows:
        if name not in shown:
            yield Problem(DOCUMENT, 1, f"does not show the row {name!r}")
    for path in tree.files:
        if path.suffix in (".rst", ".md"):
            yield from measured(tree, path, rows)


def shown_rows(tree):
    """The names in the tables whose first column is called `what`, and their lines."""
    width, named = 0, False
    for number, line in tree.lines(DOCUMENT):
        if RULE.fullmatch(line):
            width = len(line.split()[0])
        elif not line.strip():
            width, named = 0, False
        elif width and line[:width].strip() == "what":
            named = True
        elif width and named:
            yield line[:width].strip(), number


def measured(tree, path, rows):
    """The commands of a document that measure some rows."""
    for number, line in tree.lines(path):
        for found in ONLY.finditer(line):
            name = found[1] or found[2]
            if not any(name in row for row in rows):
                yield Problem(path, number, f"no row of {TABLE} contains {name!r}")
