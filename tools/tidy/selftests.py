# SPDX-License-Identifier: GPL-2.0
"""Documentation/testing.rst has the table of the tests in virtual machines, as their headers are.

A header is the comment at the top of a script of tools/selftests. Its first sentence is
`<subject>: <what the test proves>.`; its `# vm:` line has the limit and where the test runs.
"""

import pathlib
import re
import textwrap
import typing

from .source import Problem

SCRIPTS = pathlib.PurePosixPath("tools/selftests")
# No test, but what tests share.
SHARED = {"lib.sh"}
DOCUMENT = pathlib.PurePosixPath("Documentation/testing.rst")
BEGIN = ".. The table is made of the headers of tools/selftests/*.sh by make fix.\n\n"
END = "\n.. end of the table\n"
SUBJECTS = ("verbs", "wire", "device", "process", "kernel", "program", "storage")
NO_HEADER = (
    "its comment does not begin with '<subject>: <what it proves>.', where <subject> is one of "
    + ", ".join(SUBJECTS)
)
TITLES = ("Test", "Subject", "It proves that", "Limit", "Where")
PROVES = TITLES.index("It proves that")
COLUMNS = 100


class Test(typing.NamedTuple):
    """A row of the table."""

    name: str
    subject: str
    proves: str
    minutes: int
    where: str


def scripts(tree):
    for path in tree.under(SCRIPTS, ".sh"):
        if path.parent == SCRIPTS and path.name not in SHARED:
            yield path


def header(text):
    """The first paragraph of the comment at the top of a script, and the settings there."""
    comment = re.match(r"(?:#.*\n)*", text)[0]
    settings = re.search(r"^# vm:(.*)", comment, re.M)
    settings = dict(re.findall(r"(\w+)=(\S+)", settings[1] if settings else ""))
    lines = [line for line in comment.split("\n")[2:] if not re.match("# (vm:|shellcheck)", line)]
    paragraphs = "\n".join(line[2:] for line in lines).strip("\n").split("\n\n")
    return " ".join(paragraphs[0].split()), settings


def read(text, name):
    """The test of a script, or nothing if its header does not say what it proves."""
    said, settings = header(text)
    sentence = re.match(rf"({'|'.join(SUBJECTS)}): (.+?)\.(?: |$)", said)
    if not sentence:
        return None
    seconds = int(settings.get("time", 600))
    return Test(name, sentence[1], sentence[2], -(-seconds // 60), where(settings))


def where(settings):
    """The target of make that has it, and what is special about its machine."""
    place = "debug" if settings.get("only") == "debug" else "test"
    if settings.get("nightly") == "1":
        place = "nightly"
    machines = ["det"] if settings.get("det") == "1" else []
    machines += ["pair"] if "peers" in settings else []
    return ", ".join([place] + machines)


def table(tests):
    """The table as text: a row for each test, by subject."""
    rows = [TITLES]
    for test in sorted(tests, key=lambda test: (SUBJECTS.index(test.subject), test.name)):
        rows.append((test.name, test.subject, test.proves, str(test.minutes), test.where))
    widths = [max(map(len, column)) for column in zip(*rows)]
    widths[PROVES] = COLUMNS - sum(widths) + widths[PROVES] - (len(widths) - 1)
    rule = " ".join("=" * width for width in widths) + "\n"
    lines = ["".join(lines_of(row, widths)) for row in rows]
    return rule + lines[0] + rule + "".join(lines[1:]) + rule


def lines_of(row, widths):
    """The lines of a row: what a test proves may take several."""
    proves = textwrap.wrap(row[PROVES], widths[PROVES], break_on_hyphens=False)
    for at, part in enumerate(proves):
        cells = [cell if at == 0 else "" for cell in row]
        cells[PROVES] = part
        yield " ".join(map(str.ljust, cells, widths)).rstrip() + "\n"


def made(tree):
    """The document with the table as it should be; nothing if there is no place for it."""
    text = tree.text(DOCUMENT)
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    tests = (read(tree.text(path), path.stem) for path in scripts(tree))
    return before + begin + table(filter(None, tests)) + end + after if end else None


def check(tree):
    for path in scripts(tree):
        if not read(tree.text(path), path.stem):
            yield Problem(path, 3, NO_HEADER)
    if (text := made(tree)) is None:
        yield Problem(DOCUMENT, 1, "has no place for the table of the tests")
    elif text != tree.text(DOCUMENT):
        yield Problem(DOCUMENT, 1, "the table of the tests is out of date: make fix")


def fix(tree):
    """Writes the table anew."""
    if text := made(tree):
        (tree.top / DOCUMENT).write_text(text, "utf-8")
