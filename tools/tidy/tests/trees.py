# SPDX-License-Identifier: GPL-2.0
"""Small trees with and without faults."""

import pathlib
import tempfile
import unittest

from tidy.source import Tree


class TreeCase(unittest.TestCase):
    """A test of a subject: `check` is that of its module."""

    subject = None

    def tree(self, files):
        """A tree of these files: their texts by their names."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        for name, text in files.items():
            path = pathlib.Path(directory.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Tree(directory.name)

    def said(self, files, *arguments):
        """What the subject says about a tree of these files."""
        return [str(problem) for problem in self.subject.check(self.tree(files), *arguments)]

    def assertSays(self, files, *complaints):
        self.assertEqual(self.said(files), list(complaints))
