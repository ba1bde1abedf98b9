# SPDX-License-Identifier: GPL-2.0
"""Links, sections and paths in documents."""

import unittest

from tidy import links

from .trees import TreeCase


class Links(TreeCase):
    subject = links

    def test_links_to_files(self):
        files = {
            "README.md": "[a](b/c.md), [d](https://e.f/g), ![h](i.svg), [j](k.md)\n",
            "b/c.md": "",
        }
        self.assertSays(files | {"i.svg": ""}, "README.md:1: there is no k.md")
        rst = (
            "`a <c.rst>`_ `b <../README.md>`_\n`d <gone.rst>`_\n\n.. image:: x.svg\n.. _e: f.rst\n"
        )
        self.assertSays(
            {"D/a.rst": rst, "D/c.rst": "", "README.md": ""},
            "D/a.rst:2: there is no gone.rst",
            "D/a.rst:4: there is no x.svg",
            "D/a.rst:5: there is no f.rst",
        )

    def test_a_link_out_of_the_repository(self):
        self.assertSays({"a.md": "[b](../c.md)\n"}, "a.md:1: there is no ../c.md")

    def test_links_to_sections(self):
        text = "[a](#its-name) [b](#other)\n\n## Its name\n"
        self.assertSays({"a.md": text}, "a.md:1: a.md has no section other")
        files = {
            "a.md": "[b](b.md#it)\n[c](c.rst#it-too)\n",
            "b.md": "# It\n",
            "c.rst": "It too\n======\n",
        }
        self.assertSays(files)
        files["c.rst"] = "It three\n========\n"
        self.assertSays(files, "a.md:2: c.rst has no section it-too")

    def test_references_inside_of_a_document(self):
        text = "See `Its name`_, below_, `other`_.\n\n.. _below:\n\nIts name\n========\n\nA b_ c.\n"
        self.assertSays(
            {"a.rst": text},
            "a.rst:1: nothing here is called other",
            "a.rst:8: nothing here is called b",
        )
        self.assertSays({"a.rst": "`x <b.rst>`_ and x_\n", "b.rst": ""})

    def test_code_is_no_text(self):
        self.assertSays({"a.rst": "So::\n\n    a_ `b <c>`_\n\n``d_`` and ``e <f>``\n"})
        self.assertSays({"a.rst": "So::\n\n    a_\n\nb_\n"}, "a.rst:5: nothing here is called b")


class Literals(TreeCase):
    subject = links

    def test_paths_in_folders_of_the_repository(self):
        files = {"rust/net/a.rs": "", "rust/sync/b.rs": "", "scripts/vm": ""}
        good = "``rust/net/a.rs`` ``rust/net`` ``rust/net/`` ``rust/*/b.rs`` ``scripts/vm --det``"
        self.assertSays(files | {"a.rst": good, "b.md": "`rust/{net,sync}`, `rust/net`\n"})
        self.assertSays(
            files
            | {"a.rst": "``rust/ne``\n``scripts/v X``\n``rust/*/c.rs``\n", "b.md": "`rust/c.rs`"},
            "a.rst:1: there is no rust/ne",
            "a.rst:2: there is no scripts/v",
            "a.rst:3: there is no rust/*/c.rs",
            "b.md:1: there is no rust/c.rs",
        )

    def test_names_of_files_alone(self):
        files = {"rust/net/a.rs": "", "tools/x-y.sh": ""}
        self.assertSays(files | {"a.rst": "``a.rs`` ``net/a.rs`` ``x-*.sh`` ``wr.wr`` ``b.bin``"})
        self.assertSays(
            files | {"a.rst": "``b.rs`` ``et/a.rs``\n``y-*.sh``"},
            "a.rst:1: there is no b.rs",
            "a.rst:1: there is no et/a.rs",
            "a.rst:2: there is no y-*.sh",
        )

    def test_paths_in_folders_of_the_code(self):
        files = {"rust/net/a/b.rs": "", "rust/sync.rs": "", "tools/x.sh": ""}
        self.assertSays(files | {"a.rst": "``net/a`` ``net/a/`` ``net/*/b.rs`` ``sync/b`` ``net``"})
        self.assertSays(
            files | {"a.rst": "``net/b``\n``net/a/c <- sync``\n``tools/x``\n", "b.md": "`net/c.d`"},
            "a.rst:1: there is no net/b",
            "a.rst:2: there is no net/a/c",
            "a.rst:3: there is no tools/x",
            "b.md:1: there is no net/c.d",
        )

    def test_files_elsewhere(self):
        self.assertSays({"a.rst": "``/etc/a.sh`` ``~/b.py`` ``build/c.rs`` ``<d>/e.rs``"})
        tree = self.tree({"a.rst": "``mm/hmm.rst``"})
        self.assertEqual(list(links.check(tree)), [])
        self.assertEqual(len(list(links.check(tree, {}))), 1)


if __name__ == "__main__":
    unittest.main()
