# SPDX-License-Identifier: GPL-2.0
"""The rules that the protocol cites, with their code, tests and judges: a line each, by section.

- Code (rust/proto) and judges (JUDGES) cite a rule in any comment: `IBTA 9.7.2`,
  `IBTA 9.7.4, 9.7.5`, `IBTA annex A17.3.1`, `RFC 6298 2.2`. "as in RFC 5681 3.1" is a likeness and
  no rule.
- A test cites in the doc comment of its `#[test]`: `/// IBTA 9.7.2: a sentence.`
- A number counts as it stands: a test of a section is no test of its subsections, nor the other way
  round. Only a chapter that just headings of files (`//!`) cite needs no test of its own: it lacks
  one as long as one of its cited subsections does.
- A citation that cannot be read, or stands elsewhere in a test, is an error.

`--rules` prints the table, and after it the rules without a test.
"""

import collections
import pathlib
import re

from .source import Problem

PROTO = pathlib.PurePosixPath("rust/proto")
SIM = pathlib.PurePosixPath("tools/sim")
# The folders of the simulator's judges, of what they know, and of their callers: its foreign peer
# is one more implementation. Without judge/cwnd.rs, which is about a policy of ours.
JUDGES = ("judge", "model", "program", "run")
NO_JUDGE = {"cwnd.rs", "tests.rs", "flow_tests.rs"}

SECTIONS = r"{0}(?:(?:, | and ){0})*"
CITATION = re.compile(
    r"IBTA (?:annex ({})|({}))|RFC (\d+) (\d+(?:\.\d+)*)".format(
        SECTIONS.format(r"A\d+(?:\.\d+)+"), SECTIONS.format(r"\d+(?:\.\d+)+")
    )
)
LIKENESS = re.compile(r"as in RFC \d+ \d+(?:\.\d+)*")
# The remains of a citation that was not read, or not to its end (READ stands for the part that
# was). A compliance statement (C10-93.1.1) is no section, and not in the table.
READ = "\0"
UNREAD = re.compile(
    r"IBTA (?:Vol|Table|annex|\d)|IBTA$|\bRFC \d|\bA\d+\.\d|\b(?<!-)[1-9]\d*(?:\.[1-9]\d*){2}"
    rf"|{READ}(?:,| and)$"
)
COMMENT = re.compile(r"(?:^|\s)//[/!]?(?: (.*))?$")
ITEM = re.compile(
    r"\s*(?:pub(?:\([a-z]+\))? )?(?:const |async |unsafe )*"
    r"(fn|struct|enum|trait|impl|mod|type|const|static|union)\b(?:<[^>]*>)? ?(?:mut )?(\w*)"
)
# A field or a variant.
MEMBER = re.compile(r"\s+(?:pub(?:\([a-z]+\))? )?(\w+)(?:[:,({ ]|$)")


def order(rule):
    """Rules in the order of the table: sections by number, then annexes, then RFCs."""
    kind = 2 if rule.startswith("RFC") else 1 if "annex" in rule else 0
    return kind, [int(number) for number in re.findall(r"\d+", rule)]


def cited(text):
    """The rules that a comment cites, and what is left of it.

    >>> cited("IBTA 9.7.4, 9.7.5: as in RFC 5681 3.1")[0]
    ['IBTA 9.7.4', 'IBTA 9.7.5']
    """
    text = LIKENESS.sub("", text)
    rules = []
    for annex, sections, rfc, section in CITATION.findall(text):
        prefix = "IBTA annex " if annex else "IBTA "
        rules += [prefix + number for number in re.findall(r"A?[\d.]+\d", annex or sections)]
        rules += [f"RFC {rfc} {section}"] if rfc else []
    return rules, CITATION.sub(READ, text)


def indent(line):
    return len(line) - len(line.lstrip())


def enclosing(lines, at):
    """The item around line `at`, as rustfmt has it: the nearest above with less indentation."""
    least = indent(lines[at])
    for line in reversed(lines[:at]):
        text = line.strip()
        # The end of a signature of several lines is no item.
        if text and not text.startswith((")", "{", "where")) and indent(line) < least:
            least = indent(line)
            if (found := ITEM.match(line)) and found.group(1) not in ("impl", "mod"):
                return found.group(2)
    return ""


def below(lines, at):
    """The first line of code below the comment at `at`, and whether `#[test]` stands between."""
    is_test = False
    for line in lines[at + 1 :]:
        text = line.strip()
        if text and not text.startswith(("//", "#[")):
            return line, is_test
        is_test |= text == "#[test]"
    return "", is_test


def symbol(lines, at):
    """The item that the comment at line `at` is about, and whether that is a test."""
    comment = lines[at].strip()
    if comment.startswith("//!"):
        return "", False
    code, is_test = below(lines, at)
    if not comment.startswith("///") and (around := enclosing(lines, at)):
        return around, False
    if found := ITEM.match(code):
        return found.group(2), is_test
    member = MEMBER.match(code)
    return f"{enclosing(lines, at)}::{member.group(1) if member else ''}", False


def tests_begin(path, lines):
    """The line from which on the file is tests."""
    if path.parent in (PROTO / "transport" / "tests", SIM / "tests"):
        return 0
    if path.stem.endswith("_tests"):
        return 0
    return lines.index("mod tests {") if "mod tests {" in lines else len(lines)


class Rules:
    """All rules that a tree cites."""

    def __init__(self, tree):
        self.tree, self.problems = tree, []
        # For each rule the places that cite it, by kind; and whether those in code are all
        # headings.
        self.table = collections.defaultdict(lambda: {"code": [], "tests": [], "judge": []})
        self.is_heading = collections.defaultdict(lambda: True)
        for path in tree.under(PROTO, ".rs"):
            self.read(path, "code")
        for name in JUDGES:
            folder = SIM / "src" / name
            judges = [path for path in tree.under(folder, ".rs") if path.name not in NO_JUDGE]
            if not judges:
                self.problems.append(Problem(folder, 1, "is one of JUDGES, and has no judge"))
            for path in judges:
                self.read(path, "judge")
        for path in tree.under(SIM / "tests", ".rs"):
            self.read(path, "tests")

    def note(self, rule, kind, place):
        if place not in self.table[rule][kind]:
            self.table[rule][kind].append(place)

    def read(self, path, kind):
        """Notes the citations of a file. They are of this kind, except those of tests."""
        short = path.relative_to(PROTO if path.is_relative_to(PROTO) else SIM.parent)
        lines = self.tree.text(path).split("\n")
        begin = tests_begin(path, lines)
        for at, line in enumerate(lines):
            found = COMMENT.search(line)
            text = found and found.group(1) or ""
            rules, rest = cited(text)
            if UNREAD.search(rest):
                self.complain(path, at, f"this citation cannot be read: {text}")
            if not rules:
                continue
            name, is_test = symbol(lines, at)
            if at >= begin and not is_test:
                self.complain(path, at, f"a test cites in the doc comment of its #[test]: {text}")
            for rule in rules:
                if at >= begin:
                    self.note(rule, "tests", f"{short}::{name}")
                else:
                    self.note(rule, kind, f"{short}:{name}" if name else f"{short}")
                    self.is_heading[rule] &= kind == "judge" or not name

    def complain(self, path, at, text):
        self.problems.append(Problem(path, at + 1, text))

    def lacks_test(self, rule):
        table = self.table
        if table[rule]["tests"] or table[rule]["judge"]:
            return False
        inside = [name for name in table if name.startswith(f"{rule}.") and table[name]["code"]]
        is_chapter = self.is_heading[rule] and inside
        return not is_chapter or any(map(self.lacks_test, inside))

    def show(self, title, rules):
        print(f"\n{title}: {len(rules)}")
        for rule in rules:
            places = (place for places in self.table[rule].values() for place in places)
            print(f"{rule}; " + ", ".join(places))

    def print(self):
        rules = sorted(self.table, key=order)
        for rule in rules:
            kinds = self.table[rule].items()
            cells = (f"{kind}: {', '.join(places) or '-'}" for kind, places in kinds)
            print(f"{rule}; " + "; ".join(cells))
        code = [rule for rule in rules if self.table[rule]["code"]]
        lacking = [rule for rule in code if self.lacks_test(rule)]
        self.show("Without a test", lacking)
        self.show("Cited by tests and judges alone", [rule for rule in rules if rule not in code])
        print(
            f"\n{len(rules)} rules, {len(code)} of them cited by code, "
            f"{len(code) - len(lacking)} of these with a test"
        )


def check(tree):
    return Rules(tree).problems
