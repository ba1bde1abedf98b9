# SPDX-License-Identifier: GPL-2.0
"""Variants of enums in rust/ that no code makes: matched, compared, shown perhaps, never a value.

The search is textual. A variant is made where `Enum::Variant` or `Self::Variant` stands outside of
patterns, comparisons and tables of the enum itself (`ALL: [Enum; 3]`), in code that is not test
code; or where the bare name is an argument of a macro and a macro makes `Enum::$name`; or by the
function of `numbers!` that makes each of its enum's. So it does not see that two enums of one name
differ, nor that code which makes a variant is never run.
"""

import pathlib
import re

from . import rust
from .source import Problem

# The debt: variants that nothing makes, to be deleted when rust/ changes next, with the reason why
# they are there.
UNSEEN = {
    "QpEvent::PathMig": "of the list of ib_core; there are no alternate paths in oxe",
    "QpEvent::PathMigErr": "as PathMig",
    "Status::RemAbort": "of the list of IBTA 11.6.2; the completer never gives it",
}
OPEN, CLOSE = "([{", ")]}"


def check(tree, unseen=UNSEEN):
    codes = {
        path: rust.without_tests(rust.without_comments(tree.text(path)))
        for path in sorted(rust.module_files(tree))
    }
    made = set()
    filled = {name for code in codes.values() for name in re.findall(r"\b(\w+)::\$", code)}
    for code in codes.values():
        made.update(values(code))
        made.update((name, word) for word in arguments(code) for name in filled)
        made.update(numbered(code))
    known = set()
    for path, code in codes.items():
        for name, variant, line in variants(code):
            known.add(f"{name}::{variant}")
            if (name, variant) not in made and f"{name}::{variant}" not in unseen:
                yield Problem(path, line, f"{name}::{variant} is never made")
    for name in sorted(unseen):
        if name not in known or tuple(name.split("::")) in made:
            what = "made" if name in known else "no variant"
            place = pathlib.PurePosixPath("tools/tidy/variants.py")
            yield Problem(place, 1, f"{name} is in UNSEEN, and is {what}")


def group_end(code, at):
    """Where the group ends that is open at `at`: behind its closing brace."""
    depth = 1
    while at < len(code) and depth:
        depth += (code[at] in OPEN) - (code[at] in CLOSE)
        at += 1
    return at


def enums(code):
    """The name of each enum, and where its body begins and ends."""
    for found in re.finditer(r"\benum (\w+)(?:<[^{]*>)?(?:\s+where[^{]*)?\s*\{", code):
        yield found[1], found.end(), group_end(code, found.end()) - 1


def variants(code):
    """The name of each enum, its variant and the variant's line; `#[default]` is made by that."""
    for name, begin, end in enums(code):
        at = begin
        while found := re.compile(r"\s*((?:#\[[^\]]*\]\s*)*)(\w+)").match(code, at, end):
            if "#[default]" not in found[1]:
                yield name, found[2], code.count("\n", 0, found.start(2)) + 1
            at = found.end()
            while at < end and code[at] != ",":
                at = group_end(code, at + 1) if code[at] in OPEN else at + 1
            at += 1


def values(code):
    """The variants that are made, each with its enum."""
    code = without_matches(without_tables(code))
    for found in re.finditer(r"\b(\w+)(?:::<[^>]*>)?::([A-Z]\w*)\b", code):
        compared = code[: found.start()].rstrip().endswith(("==", "!="))
        if not compared and not is_pattern(code, found.end()):
            name = self_type(code, found.start()) if found[1] == "Self" else found[1]
            yield name, found[2]


def arguments(code):
    """Names that macros get which make items."""
    for found in re.finditer(r"^(?!counted!|macro_rules!)\w+! \{", code, re.M):
        yield from re.findall(r"\b[A-Z]\w*", code[found.end() : group_end(code, found.end())])


def numbered(code):
    """The variants of enums that `numbers!` makes, each with its enum."""
    for found in re.finditer(r"^numbers! \{", code, re.M):
        inside = code[found.end() : group_end(code, found.end())]
        yield from ((name, variant) for name, variant, _ in variants(inside))


def without_tables(code):
    """Constants that list variants of one enum are blanked out."""
    for found in re.finditer(
        r"\b(?:const|static) \w+: (?:&(?:'static )?)?\[\w+(?:;[^\]]*)?\] =", code
    ):
        end = code.index(";", found.end())
        code = code[: found.start()] + rust.blank(code[found.start() : end]) + code[end:]
    return code


def without_matches(code):
    """The patterns of matches!() are blanked out."""
    for found in re.finditer(r"\bmatches!\(", code):
        begin, end = found.end(), group_end(code, found.end())
        while begin < end and code[begin] != ",":
            begin = group_end(code, begin + 1) if code[begin] in OPEN else begin + 1
        code = code[:begin] + rust.blank(code[begin:end]) + code[end:]
    return code


def self_type(code, at):
    """What `Self` is at `at`: the type of the nearest `impl` or enum above."""
    begin = r"(?m)^[ ]*(?:unsafe )?impl\b(?:<[^{]*?>)?\s+(?:[^{]*?\bfor\s+)?(?:\w+::)*(\w+)"
    found = list(re.finditer(begin, code[:at]))
    return found[-1][1] if found else ""


def is_pattern(code, at):
    """Whether what ends at `at` is in a pattern: before `=>`, `|`, `if` or `=`, perhaps with what
    is in its parentheses, or as part of a larger pattern."""
    if code[at : at + 1] == "(" or code[at : at + 2] == " {":
        at = group_end(code, code.index(code[at].strip() or "{", at) + 1)
    while at < len(code):
        if re.compile(r"\s*(?:=(?!=)|\|(?!\|)|if\b|@)").match(code, at):
            return True
        while at < len(code) and code[at] not in CLOSE and code[at] != ";":
            at = group_end(code, at + 1) if code[at] in OPEN else at + 1
        if at < len(code) and code[at] in "};":
            return False
        at += 1
    return False
