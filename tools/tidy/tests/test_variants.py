# SPDX-License-Identifier: GPL-2.0
"""Variants that nothing makes."""

import unittest

from tidy import variants

from .trees import TreeCase


class Variants(TreeCase):
    subject = variants

    def said(self, files, unseen=None):
        return super().said(files, unseen or {})

    def unmade(self, use):
        """The variants of an enum that code does not make."""
        enum = "pub enum Fruit {\nApple,\n#[x(y)]\nPear { a: u8 },\nFig(u8, B<C>),\n}\n"
        found = self.said({"rust/a.rs": enum, "rust/b.rs": use})
        return [text.split()[1].split("::")[1] for text in found]

    def test_the_complaint(self):
        files = {"rust/a.rs": "enum A {\n    B,\n    C = 3,\n}\nfn f() { A::B }\n"}
        self.assertSays(files, "rust/a.rs:3: A::C is never made")

    def test_values(self):
        made = "f(Fruit::Apple, b);\nlet c = Fruit::Pear { a };\nd.map(Fruit::Fig)"
        self.assertEqual(self.unmade(made), [])
        self.assertEqual(self.unmade("match x { 1 => Fruit::Apple, _ => Fruit::Fig(1) }"), ["Pear"])

    def test_patterns_are_no_values(self):
        for use in (
            "match x { Fruit::Apple => 1, Fruit::Pear { .. } => 2, Fruit::Fig(a, _) => 3 }",
            "match x { Fruit::Apple | Fruit::Pear { a } => 1, Some(Fruit::Fig(1)) if a => 2 }",
            "if let Some(Fruit::Pear { a }) = x {}\nlet Fruit::Fig(b) = y else {};",
            "matches!(x.y(1, 2), Fruit::Apple | Fruit::Fig(..))",
            "match x { (Fruit::Apple, b) => 1 }",
            "if x == Fruit::Apple {} else if y != Fruit::Apple {}",
            "const ALL: [Fruit; 2] = [Fruit::Apple, Fruit::Apple];",
            "// Fruit::Apple\n#[cfg(test)]\nmod tests { fn f() { Fruit::Apple } }",
        ):
            self.assertEqual(self.unmade(use), ["Apple", "Pear", "Fig"], use)

    def test_self_is_the_type_of_the_impl(self):
        use = "impl Other { fn f() { Self::Apple } }\n\n"
        use += "impl<T> From<A> for Fruit { fn g() { Self::Fig } }\n"
        self.assertEqual(self.unmade(use), ["Apple", "Pear"])

    def test_arguments_of_a_macro_that_makes_them(self):
        call = "rows! {\n    a: Apple;\n}\n"
        self.assertEqual(self.unmade(call), ["Apple", "Pear", "Fig"])
        macro = "macro_rules! rows { ($name:ident) => { Fruit::$name } }\n"
        self.assertEqual(self.unmade(macro + call), ["Pear", "Fig"])

    def test_an_enum_of_numbers(self):
        enum = "numbers! {\n    pub enum A {\n        B = 1 => b,\n        C = 2 => c,\n    }\n}\n"
        self.assertSays({"rust/a.rs": enum})
        found = self.said({"rust/a.rs": enum + "enum D {\n    B,\n}\n"})
        self.assertEqual(found, ["rust/a.rs:8: D::B is never made"])

    def test_the_default(self):
        self.assertSays({"rust/a.rs": "enum A {\n    /// No.\n    #[default]\n    B,\n}\n"})

    def test_the_list(self):
        files = {"rust/a.rs": "enum A {\n    B,\n}\n"}
        self.assertEqual(self.said(files, {"A::B": "as it is"}), [])
        found = self.said({}, {"A::B": "as it is"})
        self.assertEqual(found, ["tools/tidy/variants.py:1: A::B is in UNSEEN, and is no variant"])
        files["rust/b.rs"] = "fn f() { A::B }\n"
        found = self.said(files, {"A::B": "as it is"})
        self.assertEqual(found, ["tools/tidy/variants.py:1: A::B is in UNSEEN, and is made"])


if __name__ == "__main__":
    unittest.main()
