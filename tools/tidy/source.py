# SPDX-License-Identifier: GPL-2.0
"""The files of the repository, their text, and the complaints about them."""

import pathlib
import subprocess
import typing

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# What make leaves in a checkout: only where git does not say so.
MADE = {"build", "target", "__pycache__"}
MADE_FILES = {"generated.rs", ".git"}
PROGRAMS = {".rs", ".c", ".h", ".py", ".sh", ".awk"}


class Problem(typing.NamedTuple):
    """A complaint about a line of a file."""

    path: pathlib.PurePosixPath
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


def is_made(path):
    return path.name in MADE_FILES or bool(MADE & set(path.parent.parts))


class Tree:
    """A checkout. Its paths are relative to its top."""

    def __init__(self, top=TOP):
        self.top = pathlib.Path(top)
        self.files = sorted(pathlib.PurePosixPath(name) for name in self.names())
        self.texts = {}

    def names(self):
        """The names that git knows, or would add; of a tree without git all but what is made."""
        # The checkout may be another user's than the one who looks at it.
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        command += ["--cached", "--others", "--exclude-standard"]
        found = None
        if (self.top / ".git").exists():
            found = subprocess.run(command, cwd=self.top, capture_output=True, text=True)
        # The build root does not see the repository that a worktree belongs to.
        if found and found.returncode == 0:
            names = set(found.stdout.split("\0")) - {""}
        else:
            paths = (path.relative_to(self.top) for path in self.top.rglob("*"))
            names = {path.as_posix() for path in paths if not is_made(path)}
        return {name for name in names if (self.top / name).is_file()}

    def __contains__(self, path):
        return (self.top / path).exists()

    def text(self, path):
        """The text of a file; nothing if there is no such file."""
        path = pathlib.PurePosixPath(path)
        if path not in self.texts:
            file = self.top / path
            self.texts[path] = file.read_text("utf-8", "replace") if file.is_file() else ""
        return self.texts[path]

    def lines(self, path):
        """The numbered lines of a file."""
        return enumerate(self.text(path).split("\n"), 1)

    def under(self, folder, *suffixes):
        """The files in a folder, those with one of the suffixes if any are given."""
        for path in self.files:
            if path.is_relative_to(folder) and (not suffixes or path.suffix in suffixes):
                yield path

    def programs(self):
        """What is written in a language of programs: by its suffix or by its first line."""
        for path in self.files:
            if path.suffix in PROGRAMS or self.text(path).startswith("#!"):
                yield path


def is_python(path, text):
    return path.suffix == ".py" or text.startswith("#!/usr/bin/env python3")
