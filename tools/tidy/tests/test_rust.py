# SPDX-License-Identifier: GPL-2.0
"""Rust as text."""

import pathlib
import unittest

from tidy import rust

from .trees import TreeCase


class Text(unittest.TestCase):
    def test_comments_and_literals_are_blank(self):
        code = 'a // unsafe\nb /* x\ny */ "p\\"q" c r#"d"e"# \'{\' \'a b\n'
        bare = rust.without_comments(code)
        self.assertEqual(bare.split(), ["a", "b", "c", "'a", "b"])
        self.assertEqual((len(bare), bare.count("\n")), (len(code), code.count("\n")))

    def test_items_for_tests_are_blank(self):
        code = "a\n#[cfg(test)]\nmod t { fn x() { {} } }\nb\n#[cfg(test)]\nmod u;\nc\n"
        self.assertEqual(rust.without_tests(code).split(), ["a", "b", "c"])
        self.assertEqual(rust.without_tests("#[cfg(all(test, x))]\nfn f() {}\nb").split(), ["b"])
        self.assertEqual(rust.without_tests("#![cfg(test)]\na b").split(), [])
        self.assertEqual(rust.without_tests("#[cfg(not_test)] a"), "#[cfg(not_test)] a")

    def test_functions(self):
        code = "fn a(x: [u8; 2]) -> B {\n  if c {\n  }\n}\ntrait T {\n  fn b();\n  fn c() {}\n}\n"
        self.assertEqual(list(rust.functions(code)), [("a", 1, 4), ("c", 7, 7)])


class TestFiles(TreeCase):
    def test_files_that_are_compiled_for_tests_alone(self):
        tree = self.tree(
            {
                "rust/oxe.rs": "mod a;\n#[cfg(test)]\nmod helper;\n",
                "rust/helper.rs": "",
                "rust/helper/deep.rs": "",
                "rust/a.rs": (
                    '#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = "b_tests.rs"]\nmod x;'
                ),
                "rust/a/tests.rs": "",
                "rust/a/kept.rs": "",
                "rust/b_tests.rs": "",
            }
        )
        kept = {str(path) for path in rust.module_files(tree)}
        self.assertEqual(kept, {"rust/oxe.rs", "rust/a.rs", "rust/a/kept.rs"})
        tests = rust.test_files(tree, "rust", {pathlib.PurePosixPath("rust/oxe.rs")})
        self.assertEqual(len(tests), 4)


if __name__ == "__main__":
    unittest.main()
