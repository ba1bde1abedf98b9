# SPDX-License-Identifier: GPL-2.0
"""Who may say `unsafe`, each block under a `// SAFETY:` comment; and kernel code does not panic."""

import re

from . import rust
from .parts import part_of
from .source import Problem

UNSAFE_PARTS = {"ffi", "rdma", "net", "sync"}
# As many lines may a statement have between its comment and `unsafe`.
DISTANCE = 12
PANICS = re.compile(r"\.unwrap\(\)|\.expect\(|\b(?:panic|todo|unimplemented|unreachable)!")


def check(tree):
    modules = rust.module_files(tree)
    for path in tree.under("rust", ".rs"):
        text = tree.text(path)
        code = rust.without_comments(text)
        yield from outside(path, code)
        yield from uncommented(path, text.split("\n"), code)
        if path in modules:
            for number, found in rust.matches(PANICS, rust.without_tests(code)):
                yield Problem(path, number, f"kernel code must not panic: {found.group()}")


def outside(path, code):
    if part_of(path) not in UNSAFE_PARTS:
        for number, _ in rust.matches(r"\bunsafe\b", code):
            yield Problem(path, number, "`unsafe` outside rust/{ffi,rdma,net,sync}")


def uncommented(path, lines, code):
    code_lines = code.split("\n")
    for number, _ in rust.matches(r"\bunsafe\s*(\{|impl\b)", code):
        if not has_comment(lines, code_lines, number):
            yield Problem(path, number, "`unsafe` without a `// SAFETY:` comment")


def has_comment(lines, code_lines, number):
    """Whether `SAFETY:` is on the line itself, or above it: the statement's other lines and
    attributes may stand between."""
    if "SAFETY:" in lines[number - 1]:
        return True
    for at in range(number - 2, max(number - 2 - DISTANCE, -1), -1):
        if "SAFETY:" in lines[at]:
            return True
        code = code_lines[at].rstrip()
        if code.endswith((";", "}")) and not code.lstrip().startswith("#"):
            return False
    return False
