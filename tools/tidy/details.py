# SPDX-License-Identifier: GPL-2.0
"""Documentation/debugging.rst describes each detail of `rdma resource show`, and no other.

A detail is a name that a function of rust/device puts into the answer, which writes drv_ before it.
"""

import pathlib
import re

from .source import Problem

DOCUMENT = pathlib.PurePosixPath("Documentation/debugging.rst")


def check(tree):
    names = set()
    for path in tree.under("rust/device", ".rs"):
        names.update(re.findall(r'\bout\.(?:number|text)\(\s*c"(\w+)"', tree.text(path)))
    described = set(re.findall(r"``drv_(\w+)``", tree.text(DOCUMENT)))
    for name in sorted(names ^ described):
        what = "not described" if name in names else "no detail"
        yield Problem(DOCUMENT, 1, f"drv_{name} is {what}")
