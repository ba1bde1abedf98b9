# SPDX-License-Identifier: GPL-2.0
"""Files as such: licences, and names of objects."""

import pathlib
import re

from .source import Problem

RUST = pathlib.PurePosixPath("rust")
LICENCE = re.compile(r"^(//|#|/\*|\.\.|--) ?SPDX-License-Identifier: GPL-2\.0")


def check(tree):
    for path in tree.programs():
        if not any(LICENCE.match(line) for line in tree.text(path).split("\n")[:3]):
            yield Problem(path, 1, "no SPDX-License-Identifier in the first three lines")
    yield from objects(tree)


def objects(tree):
    """Kbuild makes an object of each C file and of oxe.rs: their base names differ."""
    names = {}
    for path in tree.under(RUST, ".c", ".rs"):
        if path.suffix == ".c" or path == RUST / "oxe.rs":
            if (other := names.setdefault(path.stem, path)) != path:
                yield Problem(path, 1, f"has the same base name as {other}")
