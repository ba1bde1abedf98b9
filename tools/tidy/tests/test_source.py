# SPDX-License-Identifier: GPL-2.0
"""The files of a tree, with git and without."""

import subprocess
import unittest

from tidy import source

from .trees import TreeCase


class Files(TreeCase):
    FILES = {".gitignore": "*.o\n", "a.rs": "", "b/build": "", "b/x.o": "", "build/d.rs": ""}

    def names(self, tree):
        return [str(path) for path in tree.files]

    def test_without_git_all_that_is_not_made(self):
        self.assertEqual(
            self.names(self.tree(self.FILES)), [".gitignore", "a.rs", "b/build", "b/x.o"]
        )

    def test_git_ignores_and_new_files_count(self):
        tree = self.tree(self.FILES)
        subprocess.run(["git", "init", "-q", tree.top], check=True)
        subprocess.run(["git", "-C", tree.top, "add", "a.rs"], check=True)
        found = self.names(source.Tree(tree.top))
        self.assertEqual(found, [".gitignore", "a.rs", "b/build", "build/d.rs"])
        (tree.top / "a.rs").unlink()
        self.assertNotIn("a.rs", self.names(source.Tree(tree.top)))

    def test_a_worktree_whose_repository_is_not_seen(self):
        tree = self.tree(self.FILES | {".git": "gitdir: /nowhere\n"})
        self.assertEqual(self.names(tree), [".gitignore", "a.rs", "b/build", "b/x.o"])

    def test_under(self):
        tree = self.tree({"a/b.rs": "", "a/c/d.py": "", "ab/e.rs": ""})
        self.assertEqual([str(path) for path in tree.under("a")], ["a/b.rs", "a/c/d.py"])
        self.assertEqual([str(path) for path in tree.under("a", ".rs")], ["a/b.rs"])

    def test_programs_by_suffix_and_by_first_line(self):
        tree = self.tree({"a.rs": "", "run": "#!/bin/sh\n", "note": "words\n", "b.txt": ""})
        self.assertEqual([str(path) for path in tree.programs()], ["a.rs", "run"])

    def test_a_missing_file_is_empty(self):
        tree = self.tree({"a": "b\nc\n"})
        self.assertEqual(list(tree.lines("a")), [(1, "b"), (2, "c"), (3, "")])
        self.assertEqual(tree.text("no"), "")


if __name__ == "__main__":
    unittest.main()
