# SPDX-License-Identifier: GPL-2.0
"""Which files a Rust file imports from, by its `use` lines and the paths in its code."""

import functools
import re

from . import rust


def expand(names):
    """The paths of a `use` tree.

    >>> expand("a::{b, c::{d, e}}")
    ['a::b', 'a::c::d', 'a::c::e']
    """
    before, brace, rest = names.partition("{")
    if not brace:
        return [names.split(" as ")[0].strip()]
    paths, depth, item = [], 0, ""
    for char in rest[: rest.rindex("}")] + ",":
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            paths += expand(before + item.strip()) if item.strip() else []
            item = ""
        else:
            item += char
    return paths


def used(pattern, code):
    """The paths of the `use` items of this pattern, each a list of names."""
    for tree in re.findall(pattern, code):
        for path in expand(" ".join(tree.split())):
            yield [name.strip() for name in path.split("::")]


class Imports:
    """The imports between the files of one crate.

    A folder's file (device.rs of device/) declares the modules of the folder, and hands names on
    to them: such a name counts as an import of the file that it comes from.
    """

    def __init__(self, tree, order):
        self.tree, self.root, self.crates = tree, order.root, order.crates
        self.files = order.files(tree)
        self.code = functools.cache(self.code)
        self.exports = functools.cache(self.exports)
        self.of = functools.cache(self.of)

    def code(self, path):
        code = rust.without_tests(rust.without_comments(self.tree.text(path)))
        # A visibility is no import.
        return re.sub(r"\bpub\(in [\w:]+\)", "pub", code)

    def folder_of(self, path):
        """The folder in which the modules lie that a file declares."""
        return path.parent if path in self.crates else path.with_suffix("")

    def file_of_folder(self, folder):
        """The file that declares the modules in a folder."""
        if folder == self.root:
            return next(iter(sorted(self.crates)), None)
        return folder.with_suffix(".rs")

    def file_of(self, path, names):
        """The file that `names` lead to, seen from the file `path`; `path` itself for its own
        things."""
        folder, found = self.folder_of(path), path
        while names and names[0] in ("crate", "super", "self"):
            if names[0] != "self":
                folder = self.root if names[0] == "crate" else folder.parent
                found = self.file_of_folder(folder)
            names = names[1:]
        for name in names:
            if folder / f"{name}.rs" not in self.files:
                return self.exported(self.file_of_folder(folder), name) or found
            found = folder / f"{name}.rs"
            folder /= name
        return found

    def exports(self, path):
        """The imports of a folder's file, which the files in the folder may take from there: the
        path to each, by name."""
        paths = used(r"\buse\s+([^;]+);", self.code(path))
        return {names[-1]: names for names in paths}

    def exported(self, path, name):
        """The file from which `name` comes, which a folder's file exports or imports."""
        if path not in self.files or name not in self.exports(path):
            return None
        names = [part for part in self.exports(path)[name] if part != "self"]
        if names[0] in ("crate", "super"):
            return self.file_of(path, names)
        if self.folder_of(path) / f"{names[0]}.rs" not in self.files:
            return None
        return self.file_of(path, ["self", *names])

    def of(self, path):
        """The files that `path` imports from."""
        code = self.code(path)
        paths = [names.split("::") for names in re.findall(r"\b(?:crate|super)(?:::\w+)+", code)]
        paths += used(r"\buse\s+((?:crate|super|self)::[^;]+);", code)
        # A folder's file that uses what is in the folder; what it only hands on is `pub`.
        paths += (["self", *names] for names in used(r"(?m)^use\s+([^;]+);", code))
        return {self.file_of(path, names) for names in paths} & self.files - {path}
