# SPDX-License-Identifier: GPL-2.0
"""Files as such: licences, names of objects, and who is executable."""

import pathlib
import re

from .source import Problem

RUST = pathlib.PurePosixPath("rust")
LICENCE = re.compile(r"^(//|#|/\*|\.\.|--) ?SPDX-License-Identifier: GPL-2\.0")
# Scripts that others make executable: dpkg does that with the scripts of a package.
MADE_EXECUTABLE = re.compile(r"tools/packaging/debian/.*\.(preinst|postinst|prerm|postrm)")
# The debt: folders with files whose modes are wrong, until all files there may change.
MODES_LATER = {pathlib.PurePosixPath("tools/selftests")}


def check(tree, later=frozenset(MODES_LATER)):
    for path in tree.programs():
        if not any(LICENCE.match(line) for line in tree.text(path).split("\n")[:3]):
            yield Problem(path, 1, "no SPDX-License-Identifier in the first three lines")
    yield from objects(tree)
    wrong = list(modes(tree))
    yield from (problem for problem in wrong if problem.path.parent not in later)
    for folder in sorted(later - {problem.path.parent for problem in wrong}):
        yield Problem(folder, 1, "has right modes: take it out of MODES_LATER in tidy/files.py")


def objects(tree):
    """Kbuild makes an object of each C file and of oxe.rs: their base names differ."""
    names = {}
    for path in tree.under(RUST, ".c", ".rs"):
        if path.suffix == ".c" or path == RUST / "oxe.rs":
            if (other := names.setdefault(path.stem, path)) != path:
                yield Problem(path, 1, f"has the same base name as {other}")


def modes(tree):
    """A file that begins with `#!` is executable, and no other."""
    for path in tree.files:
        is_script, can_run = begins_as_script(tree, path), is_executable(tree, path)
        if is_script and not can_run:
            yield Problem(path, 1, "begins with #!, but is not executable")
        elif can_run and not is_script:
            yield Problem(path, 1, "is executable, but does not begin with #!")


def begins_as_script(tree, path):
    return tree.text(path).startswith("#!") and not MADE_EXECUTABLE.fullmatch(str(path))


def is_executable(tree, path):
    return bool((tree.top / path).stat().st_mode & 0o100)


def fix(tree):
    """Gives files the modes that they should have."""
    for path in {problem.path for problem in modes(tree)}:
        if path.parent in MODES_LATER:
            continue
        file = tree.top / path
        file.chmod(file.stat().st_mode ^ 0o111)
