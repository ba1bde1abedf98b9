# SPDX-License-Identifier: GPL-2.0
"""The tests that Documentation/regressions.rst names exist: each case is in its file."""

import pathlib
import re

from .source import Problem

DOCUMENT = pathlib.PurePosixPath("Documentation/regressions.rst")


def check(tree):
    for number, line in tree.lines(DOCUMENT):
        if not (entry := re.fullmatch(r"    - ``(\S+)``: (.+)", line)):
            if line.startswith("    "):
                yield Problem(DOCUMENT, number, "not '- ``file``: case; case'")
            continue
        for case in entry[2].split("; "):
            if case not in tree.text(entry[1]):
                yield Problem(DOCUMENT, number, f"{entry[1]} has no {case!r}")
