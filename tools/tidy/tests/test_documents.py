# SPDX-License-Identifier: GPL-2.0
"""What documents say of the code: counters, regressions."""

import unittest

from tidy import counters, regressions

from .trees import TreeCase


class Counters(TreeCase):
    subject = counters
    CODE = 'counted! {\nenum Count {\n    Lost = c"lost",\n    Late = c"late",\n}\n}\n'

    def test_each_is_described(self):
        document = "Documentation/counters.rst"
        self.assertSays({"rust/a.rs": self.CODE, document: "``lost`` is.\n``late`` is.\n"})
        self.assertSays(
            {"rust/a.rs": self.CODE, document: "``late`` is.\n``old`` is.\n"},
            f"{document}:1: lost is not described",
            f"{document}:1: old is no counter",
        )

    def test_each_is_one_alone(self):
        files = {"rust/a.rs": self.CODE, "rust/b.rs": self.CODE.replace("lost", "new")}
        document = "Documentation/counters.rst"
        files[document] = "``lost`` is.\n``late`` is.\n``new`` is.\n"
        self.assertSays(files, f"{document}:1: two counters are named late")


class Regressions(TreeCase):
    subject = regressions
    NAME = "Documentation/regressions.rst"

    def test_cases_are_in_their_files(self):
        files = {"tools/a.py": "case one\ncase two\n"}
        files[self.NAME] = "A bug\n    - ``tools/a.py``: case one; case two\n"
        self.assertSays(files)
        files[self.NAME] += "    - ``tools/a.py``: case one; case 3\n    - ``tools/b.py``: x\n"
        self.assertSays(
            files,
            f"{self.NAME}:3: tools/a.py has no 'case 3'",
            f"{self.NAME}:4: tools/b.py has no 'x'",
        )

    def test_lines_that_cannot_be_read(self):
        found = f"{self.NAME}:1: not '- ``file``: case; case'"
        self.assertSays({self.NAME: "    - tools/a.py: case\n"}, found)


if __name__ == "__main__":
    unittest.main()
