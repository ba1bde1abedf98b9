# SPDX-License-Identifier: GPL-2.0
"""Lengths of files and functions."""

import unittest

from tidy import sizes

from .trees import TreeCase


def rust(lines):
    return "fn f() {\n" + "x;\n" * (lines - 2) + "}\n"


def c(lines):
    return "int f(void)\n{\n" + "x;\n" * (lines - 3) + "}\n"


def python(lines):
    return "def f():\n" + "    pass\n" * (lines - 1)


class Sizes(TreeCase):
    subject = sizes

    def test_files(self):
        fits, long = "\n" * 500, "\n" * 501
        found = "longer than 500 lines: split it by subject"
        files = {"rust/a.rs": fits, "scripts/b": "#!/bin/sh" + fits, "tools/c.txt": long}
        self.assertSays(files)
        files = {"rust/a.rs": long, "scripts/b": "#!/bin/sh" + long, "tools/c.awk": long}
        self.assertSays(files, *(f"{name}:501: {found}" for name in files))

    def test_tests_may_be_longer(self):
        names = ("rust/a/tests.rs", "tools/selftests/py/a.py", "tools/sim/tests/b.rs")
        module = {"rust/a.rs": "#[cfg(test)]\nmod tests;\n"}
        self.assertSays(module | {name: "\n" * 600 for name in names})
        found = "longer than 600 lines: split it by subject"
        long = {name: "\n" * 601 for name in names}
        self.assertSays(module | long, *(f"{name}:601: {found}" for name in names))

    def test_functions(self):
        self.assertSays({"a.rs": rust(80), "b.c": c(80), "c.py": python(80)})
        self.assertSays(
            {"a.rs": rust(81), "b.c": c(81), "c.py": python(81)},
            "a.rs:1: f is longer than 80 lines",
            "b.c:1: int f(void) is longer than 80 lines",
            "c.py:1: f is longer than 80 lines",
        )

    def test_functions_of_a_script_without_a_suffix(self):
        text = "#!/usr/bin/env python3\n" + python(81).replace("def", "async def")
        self.assertSays({"scripts/a": text}, "scripts/a:2: f is longer than 80 lines")


if __name__ == "__main__":
    unittest.main()
