# SPDX-License-Identifier: GPL-2.0
"""Columns."""

import unittest

from tidy import columns

from .trees import TreeCase

FITS = "a " * 50
LONG = "b " * 50 + "c"


class Columns(TreeCase):
    subject = columns

    def said(self, files, debt=None):
        return super().said(files, debt or {})

    def test_a_hundred_columns(self):
        self.assertSays({"a.rs": f"{FITS}\n", "b.rst": FITS, "c.md": FITS})
        files = {"a.rs": f"\n{LONG}\n", "b.rst": LONG, "c": LONG}
        found = "has 101 columns, not 100"
        self.assertSays(files, f"a.rs:2: {found}", f"b.rst:1: {found}", f"c:1: {found}")

    def test_a_tab_is_as_wide_as_it_is_shown(self):
        self.assertSays({"a.sh": "\t" + "a " * 46 + "\n"})
        self.assertSays({"a.sh": "b\t" + "a " * 46 + "c\n"}, "a.sh:1: has 101 columns, not 100")

    def test_kinds_that_are_exempt(self):
        names = ("a.svg", "b/c.tsv", "Cargo.lock", "COPYING", "tools/vectors/a.txt", "table.json")
        self.assertSays({name: LONG for name in names})
        self.assertSays({"Documentation/nightly.rst": LONG})

    def test_tables_of_documents(self):
        table = f"====  ====\nhead  two\n====  ====\n{LONG}\n====  ====\n\n"
        grid = f"+---+---+\n| {LONG} |\n+---+---+\n\n"
        self.assertSays({"a.rst": table + grid, "b.md": f"| {LONG} |\n"})
        found = "has 101 columns, not 100"
        self.assertSays({"a.rst": f"Title\n=====\n{LONG}\n"}, f"a.rst:3: {found}")
        self.assertSays({"a.rst": table + LONG}, f"a.rst:7: {found}")
        self.assertSays({"a.sh": f"| {LONG}\n"}, "a.sh:1: has 103 columns, not 100")

    def test_a_line_of_one_word(self):
        self.assertSays({"a.md": "https://" + "a" * 100})

    def test_the_debt(self):
        files = {"a.rs": f"{LONG}\n{LONG}\n"}
        self.assertEqual(self.said(files, {"a.rs": 2}), [])
        self.assertEqual(len(self.said(files, {"a.rs": 1})), 2)
        paid = "a.rs:1: has no long line: take it out of DEBT in tidy/columns.py"
        self.assertEqual(self.said({"a.rs": FITS}, {"a.rs": 1}), [paid])
        self.assertEqual(self.said({}, {"a.rs": 1}), [paid])


if __name__ == "__main__":
    unittest.main()
