#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The files that a test is made of, a line each: its script, the libraries that it reads, the
programs of py/ that these name, the modules that those import, and the kernel's consumer if it is
loaded; the scripts of tools/bpftrace for their test.

Usage: parts.py NAME
"""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
# What a script names: a library or a list, a program by relay_py or by its file; what a program
# names.
OTHER = re.compile(r"\blib/\w+\.sh|[\w-]+\.txt")
PROGRAM = re.compile(r"\brelay_py (\w+)|\b(\w+)\.py\b")
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.M)


def named_in(path):
    """The files here that one of them names."""
    text = path.read_text()
    if path.suffix == ".py":
        return [HERE / "py" / f"{module}.py" for module in IMPORT.findall(text)]
    found = [HERE / other for other in OTHER.findall(text)]
    return found + [HERE / "py" / f"{a or b}.py" for a, b in PROGRAM.findall(text)]


def parts(name):
    wanted, found = {HERE / f"{name}.sh", HERE / "lib.sh"}, {HERE / "known.awk"}
    while wanted:
        path = wanted.pop()
        found.add(path)
        wanted |= {other for other in named_in(path) if other.is_file()} - found
    if HERE / "lib" / "ktest.sh" in found:
        found |= {path for path in (HERE / "kernel").iterdir() if path.suffix in ("", ".c", ".h")}
    if name == "bpftrace":
        found |= set((HERE.parent / "bpftrace").iterdir())
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(os.path.relpath(path, HERE) for path in parts(sys.argv[1])))
