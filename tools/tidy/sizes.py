# SPDX-License-Identifier: GPL-2.0
"""The lengths of programs and of their functions."""

import ast

from . import rust
from .source import Problem, is_python

MAX_LINES = 500
MAX_TEST_LINES = 600
MAX_FUNCTION = 80
# Tests that are outside of rust/.
TESTS = ("tools/selftests/py", "tools/sim/tests")


def check(tree):
    rust_tests = set(tree.under("rust", ".rs")) - rust.module_files(tree)
    for path in tree.programs():
        text = tree.text(path)
        is_test = path in rust_tests or any(path.is_relative_to(folder) for folder in TESTS)
        limit, count = MAX_TEST_LINES if is_test else MAX_LINES, text.count("\n")
        if count > limit:
            yield Problem(path, count, f"longer than {limit} lines: split it by subject")
        for name, first, last in functions(path, text):
            if last - first >= MAX_FUNCTION:
                yield Problem(path, first, f"{name} is longer than {MAX_FUNCTION} lines")


def functions(path, text):
    """The name of each function, its first line and its last; none of shell's."""
    if path.suffix == ".rs":
        return rust.functions(rust.without_comments(text))
    if path.suffix in (".c", ".h"):
        return c_functions(text)
    return python_functions(text) if is_python(path, text) else ()


def c_functions(text):
    """As above: a body is between braces in the first column."""
    begin, lines = 0, text.split("\n")
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number - 1
        elif line == "}" and begin:
            yield lines[begin - 1].strip(), begin, number
            begin = 0


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno
