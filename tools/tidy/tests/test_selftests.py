# SPDX-License-Identifier: GPL-2.0
"""The table of the tests in virtual machines."""

import unittest

from tidy import selftests

from .trees import TreeCase

HEAD = "#!/bin/bash\n# SPDX-License-Identifier: GPL-2.0\n"
DOCUMENT = str(selftests.DOCUMENT)
PLACE = f"Tests\n=====\n\n{selftests.BEGIN}{selftests.END}\nMore.\n"


def script(comment):
    return HEAD + comment + '. "$(dirname "$0")/lib.sh"\n# verbs: no header.\n'


class Header(unittest.TestCase):
    def read(self, comment):
        return selftests.read(script(comment), "a")

    def test_first_sentence(self):
        test = self.read("#\n# wire: bytes of py/a.py\n# arrive. All of\n# them.\n#\n# More.\n")
        self.assertEqual(test, ("a", "wire", "bytes of py/a.py arrive", 10, "test"))

    def test_settings(self):
        for settings, minutes, where in (
            ("time=900 smp=4", 15, "test"),
            ("nightly=1 det=1 time=601", 11, "nightly, det"),
            ("peers=oxe:rxe short_peers=oxe:rxe", 10, "test, pair"),
            ("only=debug", 10, "debug"),
            ("only=stock nightly=0 det=0", 10, "test"),
        ):
            for order in ("# vm: {}\n#\n{}", "#\n{1}# vm: {0}\n"):
                test = self.read(order.format(settings, "# wire: it works.\n"))
                self.assertEqual(test[1:], ("wire", "it works", minutes, where))

    def test_none(self):
        for comment in ("", "#\n# It works.\n", "#\n# wires: it works.\n", "#\n# wire: it works\n"):
            self.assertIsNone(self.read(comment))


class Table(TreeCase):
    subject = selftests
    SCRIPTS = {
        "tools/selftests/lib.sh": HEAD,
        "tools/selftests/lib/b.sh": HEAD,
        "tools/selftests/a.sh": script("#\n# wire: it works.\n"),
        "tools/selftests/c.sh": script("#\n# verbs: " + "word " * 20 + "end.\n"),
    }

    def mended(self, files):
        tree = self.tree(files)
        selftests.fix(tree)
        return (tree.top / DOCUMENT).read_text("utf-8")

    def test_out_of_date(self):
        stale = f"{DOCUMENT}:1: the table of the tests is out of date: make fix"
        self.assertSays(self.SCRIPTS | {DOCUMENT: PLACE}, stale)
        text = self.mended(self.SCRIPTS | {DOCUMENT: PLACE})
        self.assertSays(self.SCRIPTS | {DOCUMENT: text})
        self.assertEqual(self.mended(self.SCRIPTS | {DOCUMENT: text}), text)
        other = {"tools/selftests/a.sh": script("# wire: it fails.\n")}
        self.assertSays(self.SCRIPTS | other | {DOCUMENT: text}, stale)

    def test_rows(self):
        text = self.mended(self.SCRIPTS | {DOCUMENT: PLACE})
        self.assertTrue(text.startswith("Tests\n=====\n\n..") and text.endswith("\n\nMore.\n"))
        rows = [line.split()[:2] for line in text.split("\n")[8:11]]
        self.assertEqual(rows, [["c", "verbs"], ["word", "word"], ["a", "wire"]])
        self.assertRegex(text, r"(?m)^a +wire +it works +10 +test$")
        self.assertTrue(all(len(line) <= 100 for line in text.split("\n")))

    def test_a_test_without_a_header(self):
        files = {"tools/selftests/a.sh": script("# It works.\n"), DOCUMENT: PLACE}
        files[DOCUMENT] = self.mended(files)
        self.assertSays(files, f"tools/selftests/a.sh:3: {selftests.NO_HEADER}")

    def test_no_place(self):
        lost = f"{DOCUMENT}:1: has no place for the table of the tests"
        self.assertSays({DOCUMENT: "A.\n"}, lost)
        self.assertEqual(self.mended({DOCUMENT: "A.\n"}), "A.\n")


if __name__ == "__main__":
    unittest.main()
