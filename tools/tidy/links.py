# SPDX-License-Identifier: GPL-2.0
"""What the documents point to is there: files, sections of files, and the paths in ``literals``."""

import posixpath
import re

from .source import Problem

MARKDOWN_LINK = re.compile(r"\]\(\s*([^()\s]+)\s*\)")
RST_LINK = re.compile(r"<([^<>`\s]+)>`__?|^\.\. (?:_[^:]+:|image::|figure::|include::) (\S+)", re.M)
RST_REFERENCE = re.compile(
    r"(?<![`\w<])`([^`<>]+)`_(?!\w)|(?<![`\w./-])([A-Za-z](?:[\w.-]*\w)?)_(?![\w`])"
)
RST_TARGET = re.compile(r"^\.\. _([^:]+):|(?<!`)`[^`<]*?([^`<>]+?)\s*<[^<>`]+>`_(?!_)", re.M)
LITERAL = {".rst": re.compile(r"``([^`]+)``"), ".md": re.compile(r"(?<!`)`([^`]+)`(?!`)")}
# The suffixes by which a literal without a folder is known as a file of ours.
SUFFIXES = (".rs", ".py", ".sh", ".c", ".awk", ".rst", ".tsv", ".yml")
# Files of others, and of the reader's.
FOREIGN = {
    "mm/hmm.rst": "a document of the kernel's",
    "rdma/rdma_user_rxe.h": "a header of the kernel's",
    "rdma/ib_user_verbs.h": "a header of the kernel's",
}


def check(tree, foreign=None):
    foreign = FOREIGN if foreign is None else foreign
    names = {str(path) for path in tree.files}
    for path in tree.files:
        if path.suffix in LITERAL:
            yield from links(tree, path)
            yield from literals(tree, path, names, foreign)
        if path.suffix == ".rst":
            yield from references(tree, path)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def prose(tree, path):
    """The text of a document; its blocks of code and the literals in it are blanked out."""
    text = tree.text(path)
    lines, code = text.split("\n"), None
    for at, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if code is not None and line.strip() and indent <= code:
            code = None
        if code is not None:
            lines[at] = ""
        elif path.suffix == ".rst" and re.search(r"(^|[^.:\s])\s*::$|^\.\. code", line):
            code = indent
    return LITERAL[path.suffix].sub(lambda found: re.sub(r"\S", "x", found[0]), "\n".join(lines))


def links(tree, path):
    """Links to other files, and to sections."""
    text = prose(tree, path)
    pattern = MARKDOWN_LINK if path.suffix == ".md" else RST_LINK
    for found in pattern.finditer(text):
        target = next(filter(None, found.groups()))
        if re.match(r"\w+:", target) or target.startswith("<"):
            continue
        name, _, anchor = target.partition("#")
        file = posixpath.normpath(path.parent / name) if name else str(path)
        if file.startswith("../") or file not in tree:
            yield Problem(path, line_of(text, found.start()), f"there is no {target}")
        elif anchor and anchor not in anchors(tree, file):
            yield Problem(path, line_of(text, found.start()), f"{file} has no section {anchor}")


def anchors(tree, file):
    """The sections of a document, as links name them."""
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles(tree, file)}


def titles(tree, file):
    """The titles of a document's sections."""
    text = tree.text(file)
    if str(file).endswith(".md"):
        return re.findall(r"^#+ (.+?)\s*$", text, re.M)
    lines = text.split("\n")
    return [
        line.strip()
        for line, below in zip(lines, lines[1:])
        if line.strip() and re.fullmatch(r"([=~^\"'-])\1+", below) and len(below) >= len(line)
    ]


def references(tree, path):
    """References to a section, or to a link that the document defines elsewhere."""
    text = prose(tree, path)
    known = {" ".join(title.lower().split()) for title in titles(tree, path)}
    for found in RST_TARGET.finditer(text):
        known.add(" ".join((found[1] or found[2]).lower().split()).strip("`"))
    for found in RST_REFERENCE.finditer(text):
        name = " ".join((found[1] or found[2]).split())
        if name.lower() not in known:
            yield Problem(path, line_of(text, found.start()), f"nothing here is called {name}")


def literals(tree, path, names, foreign):
    """Paths in literals that look like files of the repository."""
    text = tree.text(path)
    folders = {name.split("/")[0] + "/" for name in names if "/" in name}
    # The code's documents leave the first folder out: `device/qp`, `proto/transport`.
    parts = {name.split("/")[1] + "/" for name in names if re.match(r"rust/\w+/", name)}
    for found in LITERAL[path.suffix].finditer(text):
        word = found[1].split()[0] if found[1].split() else ""
        if word in foreign or word.startswith(("/", "~", "build/", "$")) or "<" in word:
            continue
        if word.startswith(tuple(folders)):
            known = any(whole(word, names))
        elif re.fullmatch(r"[\w./*-]+", word) and (
            word.endswith(SUFFIXES) or word.startswith(tuple(parts))
        ):
            known = any(whole("*/" + word, {"/" + name for name in names}))
        else:
            continue
        if not known:
            yield Problem(path, line_of(text, found.start()), f"there is no {word}")


def whole(word, names):
    """The files that a path names, or that are in the folder that it names. `*` stands for part of
    a name, {a,b} for one of the two."""
    pattern = re.escape(word.rstrip("/")).replace(r"\*/", "(.*/)?", 1 if word[:2] == "*/" else 0)
    pattern = pattern.replace(r"\*", "[^/]*")
    pattern = re.sub(r"\\{([^}]*)\\}", lambda found: f"({found[1].replace(',', '|')})", pattern)
    return (name for name in names if re.match(pattern + "(/|$)", name))
