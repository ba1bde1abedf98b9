# SPDX-License-Identifier: GPL-2.0
"""Licences, names of objects."""

import unittest

from tidy import files

from .trees import TreeCase

SPDX = "SPDX-License-Identifier: GPL-2.0\n"


class Files(TreeCase):
    subject = files

    def test_licences(self):
        self.assertSays(
            {"a.rs": f"// {SPDX}", "b.py": f"# {SPDX}", "c.c": f"/* {SPDX}", "d.rst": ""}
        )
        found = "no SPDX-License-Identifier in the first three lines"
        self.assertSays(
            {"a.rs": f"\n\n\n// {SPDX}", "b.sh": "", "c.h": f"// {SPDX}".replace("2.0", "3.0")},
            f"a.rs:1: {found}",
            f"b.sh:1: {found}",
            f"c.h:1: {found}",
        )

    def test_names_of_objects(self):
        names = ("rust/ffi/a.c", "rust/net/a.c", "rust/net/oxe.c", "rust/oxe.rs", "rust/net/b.rs")
        self.assertSays(
            {name: f"// {SPDX}" for name in names} | {"tools/a.c": f"// {SPDX}"},
            "rust/net/a.c:1: has the same base name as rust/ffi/a.c",
            "rust/oxe.rs:1: has the same base name as rust/net/oxe.c",
        )


if __name__ == "__main__":
    unittest.main()
