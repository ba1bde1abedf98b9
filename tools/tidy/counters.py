# SPDX-License-Identifier: GPL-2.0
"""Documentation/counters.rst tells of each counter, and of no other.

A counter is a name in a `counted!` of rust/, and no two have one name.
"""

import pathlib
import re

from .source import Problem

DOCUMENT = pathlib.PurePosixPath("Documentation/counters.rst")


def check(tree):
    names = []
    for path in tree.under("rust", ".rs"):
        for enum in re.findall(r"^counted! {\n.*?^}\n", tree.text(path), re.M | re.S):
            names += re.findall(r'= c"(\w+)",', enum)
    described = set(re.findall(r"^``(\w+)`` ", tree.text(DOCUMENT), re.M))
    for name in sorted(set(names) ^ described):
        what = "not described" if name in names else "no counter"
        yield Problem(DOCUMENT, 1, f"{name} is {what}")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(DOCUMENT, 1, f"two counters are named {name}")
