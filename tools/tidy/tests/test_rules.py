# SPDX-License-Identifier: GPL-2.0
"""Citations, and the table of rules."""

import contextlib
import doctest
import io
import unittest

from tidy import rules

from .trees import TreeCase

JUDGES = {f"tools/sim/src/{name}/a.rs": "" for name in rules.JUDGES}


class Citations(TreeCase):
    subject = rules

    def test_citations_that_can_be_read(self):
        code = (
            "//! IBTA 9.7.2, 9.7.3 and 9.7.4: words.\n// IBTA annex A17.3.1. RFC 6298 2.2\n"
            "// as in RFC 5681 3.1; C10-93.1.1; version 1.2\nfn f() {}\n"
        )
        test = (
            "#[cfg(test)]\nmod tests {\n    /// IBTA 9.7.2: yes.\n    #[test]\n    fn t() {}\n}\n"
        )
        self.assertSays(JUDGES | {"rust/proto/a.rs": code, "rust/proto/b.rs": test})

    def test_citations_that_cannot(self):
        for text in ("IBTA Vol 1 9.7", "IBTA 9", "RFC 6298", "see 9.7.2", "IBTA 9.7.2,", "A17.3"):
            found = f"rust/proto/a.rs:1: this citation cannot be read: {text}"
            self.assertSays(JUDGES | {"rust/proto/a.rs": f"// {text}\n"}, found)

    def test_tests_cite_in_their_doc_comment(self):
        text = "fn t() {\n    // IBTA 9.7.2\n}\n/// IBTA 9.7.3: no test.\nfn helper() {}\n"
        found = "a test cites in the doc comment of its #[test]:"
        for name in ("rust/proto/a_tests.rs", "rust/proto/transport/tests/a.rs"):
            self.assertSays(
                JUDGES | {name: text},
                f"{name}:2: {found} IBTA 9.7.2",
                f"{name}:4: {found} IBTA 9.7.3: no test.",
            )

    def test_judges_are_there(self):
        files = dict(JUDGES)
        del files["tools/sim/src/run/a.rs"]
        files["tools/sim/src/run/tests.rs"] = ""
        self.assertSays(files, "tools/sim/src/run:1: is one of JUDGES, and has no judge")


class Table(TreeCase):
    FILES = JUDGES | {
        "rust/proto/a.rs": (
            "//! IBTA 9.7\n\n/// IBTA 9.7.1\npub struct S {\n    /// IBTA 9.7.2\n    f: u8,\n}\n"
            "fn g() {\n    // RFC 6298 2.2\n}\n"
        ),
        "rust/proto/a_tests.rs": "/// IBTA 9.7.1: so.\n#[test]\nfn is_so() {}\n",
        "tools/sim/src/run/send.rs": "fn judge() {\n    // IBTA 9.8.1\n}\n",
        "tools/sim/tests/seeds.rs": "/// IBTA annex A17.1: this too.\n#[test]\nfn all() {}\n",
    }

    def test_what_is_printed(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rules.Rules(self.tree(self.FILES)).print()
        self.assertEqual(
            out.getvalue().split("\n"),
            [
                "IBTA 9.7; code: a.rs; tests: -; judge: -",
                "IBTA 9.7.1; code: a.rs:S; tests: a_tests.rs::is_so; judge: -",
                "IBTA 9.7.2; code: a.rs:S::f; tests: -; judge: -",
                "IBTA 9.8.1; code: -; tests: -; judge: sim/src/run/send.rs:judge",
                "IBTA annex A17.1; code: -; tests: sim/tests/seeds.rs::all; judge: -",
                "RFC 6298 2.2; code: a.rs:g; tests: -; judge: -",
                "",
                "Without a test: 3",
                "IBTA 9.7; a.rs",
                "IBTA 9.7.2; a.rs:S::f",
                "RFC 6298 2.2; a.rs:g",
                "",
                "Cited by tests and judges alone: 2",
                "IBTA 9.8.1; sim/src/run/send.rs:judge",
                "IBTA annex A17.1; sim/tests/seeds.rs::all",
                "",
                "6 rules, 4 of them cited by code, 1 of these with a test",
                "",
            ],
        )

    def test_a_chapter_of_headings_needs_its_sections_tests_alone(self):
        files = self.FILES | {"rust/proto/a.rs": "//! IBTA 9.7\n\n/// IBTA 9.7.1\nfn f() {}\n"}
        table = rules.Rules(self.tree(files))
        self.assertFalse(table.lacks_test("IBTA 9.7"))
        files["rust/proto/b.rs"] = "/// IBTA 9.7\nfn f() {}\n"
        self.assertTrue(rules.Rules(self.tree(files)).lacks_test("IBTA 9.7"))


def load_tests(_loader, tests, _pattern):
    tests.addTests(doctest.DocTestSuite(rules))
    return tests


if __name__ == "__main__":
    unittest.main()
