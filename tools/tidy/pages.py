# SPDX-License-Identifier: GPL-2.0
"""Each page of Documentation says for whom it is, and the index lists it."""

import pathlib
import re

from .source import Problem

FOLDER = pathlib.PurePosixPath("Documentation")
INDEX = FOLDER / "index.rst"
# The licence, the title, and the first words.
READER = re.compile(r"\.\. SPDX[^\n]*\n\n(=+)\n[^\n]+\n\1\n\nFor \w")


def check(tree):
    listed = re.findall(r"<([^<>\s]+)>`_", tree.text(INDEX))
    for path in tree.under(FOLDER, ".rst"):
        if not READER.match(tree.text(path)):
            yield Problem(path, 7, "does not begin with 'For <whom>: ...' below its title")
        if path != INDEX and str(path.relative_to(FOLDER)) not in listed:
            yield Problem(path, 1, f"{INDEX} does not list it")
