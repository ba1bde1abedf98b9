# SPDX-License-Identifier: GPL-2.0
"""Rust as text: what is code, what is test, where functions begin and end.

This is no parser. It knows comments, literals, braces and attributes, and relies on rustfmt.
"""

import pathlib
import re

LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]{1,8}?|[^\'\\\n])\'',
    re.S,
)
TEST = re.compile(r"#!?\[cfg\((?:all\()?test\b[^\]]*\]")
TEST_MODULE = re.compile(
    r'#\[cfg\(test\)\]\s*(?:#\[path = "([^"]+)"\]\s*)?(?:pub(?:\([a-z]+\))?\s+)?mod (\w+);'
)


def blank(text):
    """Spaces in the place of text, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """Comments and literals are blanked out."""
    return LITERAL.sub(lambda found: blank(found.group()), text)


def item_end(code, at):
    """Where the item ends that begins before `at`: at its last brace, or its semicolon."""
    depth = 0
    while at < len(code):
        char = code[at]
        at += 1
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                break
        elif char == ";" and depth == 0:
            break
    return at


def without_tests(code):
    """`#[cfg(test)]` items are blanked out; a file that begins with `#![cfg(test)]` is, whole."""
    while found := TEST.search(code):
        whole = found.group().startswith("#!")
        end = len(code) if whole else item_end(code, found.end())
        code = code[: found.start()] + blank(code[found.start() : end]) + code[end:]
    return code


def matches(pattern, code):
    """The first match in each line, with the line's number."""
    for number, line in enumerate(code.split("\n"), 1):
        if found := re.search(pattern, line):
            yield number, found


def test_files(tree, root, crates):
    """Files that are compiled for tests alone: `#[cfg(test)] mod x;`, all that is under x/, and
    `#[path]`s of these. `crates` are the files whose modules lie beside them."""
    found = set()
    for path in tree.under(root, ".rs"):
        home = path.parent if path in crates else path.with_suffix("")
        for other, name in TEST_MODULE.findall(tree.text(path)):
            found.add(path.parent / other if other else home / f"{name}.rs")
            found.update(tree.under(home / name, ".rs"))
    return found


def functions(code):
    """The name of each function, its first line and its last, in code without comments."""
    for found in re.finditer(r"\bfn\s+(\w+)", code):
        if end := body_end(code, found.end()):
            first = code.count("\n", 0, found.start()) + 1
            yield found.group(1), first, code.count("\n", 0, end) + 1


def body_end(code, at):
    """Where a function's body ends; None if it has none."""
    depth, body = 0, False
    while at < len(code):
        if code[at] in "([{":
            body = body or (code[at] == "{" and depth == 0)
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
            if depth == 0 and body and code[at] == "}":
                return at
        elif code[at] == ";" and depth == 0:
            return None
        at += 1
    return None


def module_files(tree):
    """The Rust files of the kernel module, those for tests alone left out."""
    oxe = pathlib.PurePosixPath("rust/oxe.rs")
    return set(tree.under("rust", ".rs")) - test_files(tree, "rust", {oxe})
