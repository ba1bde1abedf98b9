# SPDX-License-Identifier: GPL-2.0
"""The rules that hold the repository together, checked on its text.

Usage: python3 -m tidy [SUBJECT...]		what is not in order, of these subjects or of all
       python3 -m tidy --fix [SUBJECT...]	mends what can be: modes, the drawing, the table
       python3 -m tidy --list			the subjects
       python3 -m tidy --rules			the rules that the protocol cites, with their tests
"""

import sys

from . import bench, columns, counters, details, drawing, files, layers, links, pages
from . import parts, regressions, rules, selftests, sizes, unsafe, variants
from .source import Tree

CODE = (layers, parts, unsafe, variants, rules)
FILES = (sizes, columns, files)
DOCUMENTS = (drawing, counters, details, regressions, selftests, pages, links, bench)
SUBJECTS = {module.__name__.split(".")[-1]: module for module in CODE + FILES + DOCUMENTS}


def main(arguments, tree):
    mend = arguments[:1] == ["--fix"]
    if arguments == ["--list"]:
        for name, module in SUBJECTS.items():
            print(f"{name:12} {' '.join(module.__doc__.partition(chr(10) * 2)[0].split())}")
        return 0
    if arguments == ["--rules"]:
        return print_rules(tree)
    names = arguments[mend:] or list(SUBJECTS)
    if unknown := set(names) - set(SUBJECTS):
        print(f"no such subject: {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if mend:
        for name in names:
            getattr(SUBJECTS[name], "fix", lambda _: None)(tree)
        return 0
    problems = [problem for name in names for problem in SUBJECTS[name].check(tree)]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(tree.files)} files in order: {', '.join(names)}")
    return 1 if problems else 0


def print_rules(tree):
    found = rules.Rules(tree)
    if found.problems:
        print(*found.problems, sep="\n")
        return 1
    found.print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Tree()))
