# SPDX-License-Identifier: GPL-2.0
"""The command."""

import contextlib
import io
import unittest

from tidy import __main__ as command

from .trees import TreeCase


class Command(TreeCase):
    def run_on(self, files, *arguments):
        """The status, and what is printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = command.main(list(arguments), self.tree(files))
        return status, out.getvalue()

    def test_in_order(self):
        status, text = self.run_on({"a.md": "a\n"}, "sizes", "links")
        self.assertEqual((status, text), (0, "1 files in order: sizes, links\n"))

    def test_faults(self):
        status, text = self.run_on({"a.sh": "\n" * 501}, "sizes")
        long = "longer than 500 lines: split it by subject"
        self.assertEqual((status, text), (1, f"a.sh:501: {long}\n"))

    def test_all_subjects_without_a_name(self):
        status, text = self.run_on({"a.sh": "b\n"})
        self.assertEqual(status, 1)
        for word in ("SPDX", "forbid(unsafe_code)", "the layers name pd", "layers.svg"):
            self.assertIn(word, text)

    def test_unknown_subjects(self):
        self.assertEqual(self.run_on({}, "size"), (2, "no such subject: size\n"))

    def test_the_list_has_each_subject(self):
        status, text = self.run_on({}, "--list")
        self.assertEqual(status, 0)
        for name in command.SUBJECTS:
            self.assertRegex(text, rf"(?m)^{name} +\S")

    def test_fix_mends_and_says_nothing(self):
        self.assertEqual(self.run_on({"Documentation/a.rst": ""}, "--fix"), (0, ""))
        self.assertEqual(self.run_on({"a.sh": "b\n"}, "--fix", "nothing")[0], 2)


if __name__ == "__main__":
    unittest.main()
