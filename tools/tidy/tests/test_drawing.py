# SPDX-License-Identifier: GPL-2.0
"""The drawing of the layers."""

import unittest
import xml.etree.ElementTree as xml

from tidy import drawing, source

from .trees import TreeCase

FILES = {
    "rust/oxe.rs": "mod device;\n",
    "rust/device.rs": "mod qp;\nmod mem;\nmod link;\n",
    "rust/device/link.rs": "use super::qp::object::Qp;\nfn f() {}\n",
    "rust/device/qp.rs": "pub mod object;\n",
    "rust/device/qp/object.rs": "use crate::device::mem::Mr;\nuse crate::rdma::x;\nfn f() {}\n",
    "rust/device/mem.rs": "pub struct Mr;\n",
    "rust/rdma.rs": "pub fn x() {}\n",
    "rust/ffi/helpers.c": "",
}


class Layers(TreeCase):
    subject = drawing

    def test_the_drawing_is_that_of_the_sources(self):
        tree = self.tree(FILES | {"Documentation/layers.svg": "<svg/>"})
        found = "Documentation/layers.svg:1: is not that of the sources: run make fix"
        self.assertEqual([str(problem) for problem in drawing.check(tree)], [found])
        drawing.fix(tree)
        self.assertEqual(list(drawing.check(source.Tree(tree.top))), [])
        (tree.top / "rust/device/mem/mr.rs").parent.mkdir()
        (tree.top / "rust/device/mem/mr.rs").write_text("fn g() {}\n")
        self.assertEqual(len(list(drawing.check(source.Tree(tree.top)))), 1)

    def test_modules_and_files(self):
        tree = self.tree(FILES)
        files = drawing.Imports(tree, drawing.RUST).files
        self.assertEqual(
            drawing.modules(tree, files),
            {
                "device": ["link"],
                "device/qp": ["object"],
                "device/mem": ["mem"],
                "rdma": ["rdma"],
                "ffi": ["helpers"],
            },
        )

    def test_how_many_files_import(self):
        imports = drawing.Imports(self.tree(FILES), drawing.RUST)
        self.assertEqual(
            drawing.count_imports(imports, drawing.module_of),
            {("device", "device/qp"): 1, ("device/qp", "device/mem"): 1, ("device/qp", "rdma"): 1},
        )
        self.assertEqual(drawing.count_imports(imports, drawing.part_of), {("device", "rdma"): 1})

    def test_each_text_is_in_the_drawing(self):
        svg = xml.fromstring(drawing.draw(self.tree(FILES)))
        texts = {text.text for text in svg.iter() if text.tag.endswith("text")}
        self.assertLessEqual({"device", "qp", "object", "mem", "rdma", "ffi", "helpers"}, texts)


if __name__ == "__main__":
    unittest.main()
