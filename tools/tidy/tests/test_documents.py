# SPDX-License-Identifier: GPL-2.0
"""What documents say: counters, regressions, readers, rows of the bench."""

import json
import unittest

from tidy import bench, counters, details, pages, regressions

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


class Details(TreeCase):
    subject = details
    CODE = 'out.number(c"cwnd", requester.cwnd);\nout.text(\n    c"armed",\n    c"no",\n);\n'

    def test_each_is_described(self):
        document = "Documentation/debugging.rst"
        self.assertSays({"rust/device/a.rs": self.CODE, document: "``drv_cwnd``, ``drv_armed``\n"})
        self.assertSays(
            {"rust/device/a.rs": self.CODE, document: "``drv_cwnd``, ``drv_old``\n"},
            f"{document}:1: drv_armed is not described",
            f"{document}:1: drv_old is no detail",
        )


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


class Pages(TreeCase):
    subject = pages
    HEAD = ".. SPDX-License-Identifier: GPL-2.0\n\n===\nA b\n===\n\n"

    def test_readers_and_index(self):
        files = {
            "Documentation/index.rst": self.HEAD + "For all.\n\n`a <a.rst>`_, `b <b/c.rst>`_\n",
            "Documentation/a.rst": self.HEAD + "For someone: this.\n",
            "Documentation/b/c.rst": self.HEAD + "For someone: that.\n",
            "tools/d.rst": "More.\n",
        }
        self.assertSays(files)
        files["Documentation/b/c.rst"] = self.HEAD + "This is for someone.\n"
        files["Documentation/b/d.rst"] = self.HEAD + "For someone: that.\n"
        self.assertSays(
            files,
            "Documentation/b/c.rst:7: does not begin with 'For <whom>: ...' below its title",
            "Documentation/b/d.rst:1: Documentation/index.rst does not list it",
        )


class Bench(TreeCase):
    subject = bench
    NAME = "Documentation/performance.rst"

    def files(self, *shown, text=""):
        rows = {"rows": {"loop, send 64 B": {}, "wire, latency": {}}}
        rule = "===============  ====\n"
        table = rule + "what             unit\n" + rule
        table += "".join(f"{name:15}  us\n" for name in shown) + rule
        other = f"{rule}kernel           x\n{rule}7.3.4\n{rule}"
        document = f"{text}\n\n{table}\n{other}"
        return {"tools/perf/table.json": json.dumps(rows), self.NAME: document}

    def test_the_rows_of_the_table(self):
        self.assertSays(self.files("loop, send 64 B", "wire, latency"))
        self.assertSays(
            self.files("loop, send 64 B", "loop, latency"),
            f"{self.NAME}:7: tools/perf/table.json has no row 'loop, latency'",
            f"{self.NAME}:1: does not show the row 'wire, latency'",
        )

    def test_rows_that_are_measured_by_name(self):
        rows = ("loop, send 64 B", "wire, latency")
        self.assertSays(self.files(*rows, text="``make bench PROFILE=1 ONLY='loop, send 64 B'``"))
        self.assertSays(self.files(*rows, text="``make bench ONLY=latency``, ``ONLY=x``"))
        for only in ("'loop, read'", "speed"):
            self.assertSays(
                self.files(*rows, text=f"``make bench ONLY={only}``"),
                f"{self.NAME}:1: no row of tools/perf/table.json contains '{only.strip(chr(39))}'",
            )


if __name__ == "__main__":
    unittest.main()
