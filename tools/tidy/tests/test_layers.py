# SPDX-License-Identifier: GPL-2.0
"""Imports: what they lead to, circles, layers."""

import doctest
import pathlib
import unittest

from tidy import imports, layers

from .trees import TreeCase

BELOW = {f"rust/device/{name}.rs": "" for names in layers.RUST.layers for name in names}
BELOW |= {"rust/device.rs": "", "rust/rdma.rs": ""}
BELOW |= {
    f"{layers.TRANSPORT.inside}/{name}.rs": ""
    for names in layers.TRANSPORT.layers
    for name in names
}
BELOW |= {"rust/proto.rs": "", "rust/proto/transport.rs": ""}
BELOW |= {f"{layers.SIM.root}/{name}.rs": "" for names in layers.SIM.layers for name in names}


def named(path):
    return str(path.relative_to("src"))


class Paths(TreeCase):
    """Which files a file imports from."""

    def imports(self, files, name):
        crate = layers.order("src", {"lib.rs", "main.rs"})
        found = imports.Imports(self.tree(files), crate).of(pathlib.PurePosixPath("src", name))
        return sorted(map(named, found))

    def test_from_the_crate_from_around_and_from_within(self):
        files = {
            "src/lib.rs": "mod a;\nmod b;\n",
            "src/a.rs": "use crate::b::{self, c::{d, E}};\nfn f() { self::g::h() }\n",
            "src/a/g.rs": "use super::super::b::x;\n",
            "src/b.rs": "use crate::a;\n",
            "src/b/c.rs": "",
            "src/b/c/d.rs": "fn f() { crate::a::g::h(); }\n",
        }
        self.assertEqual(self.imports(files, "a.rs"), ["b.rs", "b/c.rs", "b/c/d.rs"])
        self.assertEqual(self.imports(files, "a/g.rs"), ["b.rs"])
        self.assertEqual(self.imports(files, "b.rs"), ["a.rs"])
        self.assertEqual(self.imports(files, "b/c/d.rs"), ["a/g.rs"])

    def test_a_name_that_a_folder_hands_on_is_of_its_file(self):
        files = {
            "src/lib.rs": "pub use a::b::Item;\n",
            "src/a.rs": "pub mod b;\npub use b::Item;\nuse crate::c::Other;\n",
            "src/a/b.rs": "pub struct Item;",
            "src/a/d.rs": "use super::{Item, Other};\n",
            "src/c.rs": "use crate::a::Item;\n",
            "src/e.rs": "use crate::Item;\n",
        }
        self.assertEqual(self.imports(files, "a/d.rs"), ["a/b.rs", "c.rs"])
        self.assertEqual(self.imports(files, "c.rs"), ["a/b.rs"])
        self.assertEqual(self.imports(files, "e.rs"), ["a/b.rs"])

    def test_what_a_folder_has_of_its_own(self):
        files = {
            "src/lib.rs": "pub struct Top;\nuse a::A;\npub use b::B;\n",
            "src/a.rs": "use b::C;\nuse crate::Top;\n",
            "src/a/b.rs": "use super::Own;\nuse crate::a::Own as O;\n",
        }
        self.assertEqual(self.imports(files, "a/b.rs"), ["a.rs"])
        self.assertEqual(self.imports(files, "a.rs"), ["a/b.rs", "lib.rs"])
        self.assertEqual(self.imports(files, "lib.rs"), ["a.rs"])

    def test_comments_literals_tests_and_visibilities_do_not_import(self):
        text = '// crate::a\nconst A: &str = "crate::a";\n#[cfg(test)]\nmod t { use crate::a; }\n'
        text += "pub(in crate::a) struct B;\n"
        self.assertEqual(self.imports({"src/a.rs": "", "src/b.rs": text}, "b.rs"), [])


class Circles(TreeCase):
    subject = layers

    def test_a_circle_is_named_whole_and_what_is_around_it_is_not(self):
        files = BELOW | {
            "rust/a.rs": "use crate::b::B;\n",
            "rust/b.rs": "use crate::c::C;\n",
            "rust/c.rs": "use crate::a::A;\nuse crate::below::D;\n",
            "rust/above.rs": "use crate::a::A;\n",
            "rust/below.rs": "",
        }
        self.assertSays(
            files,
            "rust/a.rs:1: is in a circle of imports: b.rs",
            "rust/b.rs:1: is in a circle of imports: c.rs",
            "rust/c.rs:1: is in a circle of imports: a.rs",
        )
        del files["rust/c.rs"]
        self.assertSays(files)

    def test_a_circle_through_a_folder_file(self):
        files = {
            "src/lib.rs": "mod a;\n",
            "src/a.rs": "mod b;\nuse b::B;\npub struct Own;\n",
            "src/a/b.rs": "use super::Own;\n",
        }
        self.assertEqual(len(self.said(files, (layers.order("src", {"lib.rs"}),))), 2)


class Layers(TreeCase):
    subject = layers

    def test_imports_go_down(self):
        up = {
            "rust/device/mem.rs": "mod mr;\n",
            "rust/device/mem/mr.rs": "use crate::device::cq;\n",
        }
        text = "must not import device/cq.rs, which is on a higher layer"
        self.assertSays(BELOW | up, f"rust/device/mem/mr.rs:1: {text}")
        self.assertSays(BELOW | {"rust/device/cq.rs": "use super::mem::Mr;\n"})

    def test_a_module_that_is_not_named_is_on_the_highest(self):
        files = BELOW | {"rust/device/link.rs": "use super::qp::Qp;\n"}
        self.assertSays(files)
        files["rust/device/uabi.rs"] = "use super::link::L;\n"
        text = "must not import device/link.rs, which is on a higher layer"
        files["rust/device/link.rs"] = ""
        self.assertSays(files, f"rust/device/uabi.rs:1: {text}")

    def test_the_folder_file_is_on_the_highest(self):
        files = {"src/a.rs": "pub struct Own;\n", "src/a/b.rs": "use super::Own;\n"}
        strict = layers.order("src", {"lib.rs"}, "a", layers=({"b"},))
        text = "must not import a.rs, which is on a higher layer"
        self.assertEqual(self.said(files, (strict,)), [f"src/a/b.rs:1: {text}"])

    def test_each_folder_has_a_file_that_declares_its_modules(self):
        text = "its modules are declared by no src/a.rs"
        files = {"src/lib.rs": "mod a;\n", "src/a/mod.rs": "mod b;\n", "src/a/b.rs": ""}
        crate = layers.order("src", {"lib.rs"})
        self.assertEqual(self.said(files, (crate,)), [f"src/a:1: {text}"])

    def test_the_map_has_all_modules_in_the_order_of_the_layers(self):
        crate = layers.order("src", {"lib.rs"}, "a", layers=({"b", "c"}, {"d"}))
        files = {f"src/a/{name}.rs": "" for name in "bcde"}
        files["src/a.rs"] = "//! A map:\n//!   e\n//!   d   what d is\n//!       d/x\n//!   c, b\n"
        self.assertEqual(self.said(files, (crate,)), [])
        files["src/a.rs"] = "//! A map:\n//!   c, d, e\n//!   f\n//!   no ─> line\n"
        said = [
            "src/a.rs:1: its map is not in the order of the layers",
            "src/a.rs:1: its map lacks b",
            "src/a.rs:1: has no f, which its map names",
        ]
        self.assertEqual(self.said(files, (crate,)), said)

    def test_modules_that_do_not_know_each_other(self):
        crate = layers.order("src", {"lib.rs"}, "a", apart=(("b/c", "b/d"),))
        files = {
            "src/lib.rs": "mod a;\n",
            "src/a.rs": "mod b;\n",
            "src/a/b.rs": "mod c;\nmod d;\nmod e;\npub use d::D;\n",
            "src/a/b/c.rs": "mod f;\nuse super::e::E;\nuse f::F;\n",
            "src/a/b/c/f.rs": "",
            "src/a/b/d.rs": "use super::e::E;\npub struct D;\n",
            "src/a/b/e.rs": "",
        }
        self.assertEqual(self.said(files, (crate,)), [])
        files["src/a/b/c/f.rs"] = "use super::super::D;\n"
        text = "must not import a/b/d.rs, of another part"
        self.assertEqual(self.said(files, (crate,)), [f"src/a/b/c/f.rs:1: {text}"])

    def test_layers_name_modules_that_are_there(self):
        files = dict(BELOW)
        del files["rust/device/pd.rs"]
        self.assertSays(files, "rust/device:1: the layers name pd, which is no module of it")


def load_tests(_loader, tests, _pattern):
    tests.addTests(doctest.DocTestSuite(imports))
    return tests


if __name__ == "__main__":
    unittest.main()
