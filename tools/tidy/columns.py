# SPDX-License-Identifier: GPL-2.0
"""No line has more than 100 columns, a tab being as wide as it is shown: to the next multiple of 8.

Exempt are kinds of files whose lines others decide on (KINDS), tables of documents, and lines of
one word, such as a URL.
"""

import re

from .source import Problem

MAX_COLUMNS = 100
# Pictures and tables that are made (nightly.rst by scripts/test-nightly), lists of fixed form, and
# the licence.
KINDS = re.compile(
    r".*\.(svg|tsv|csv|json|lock|proptest-regressions|lintian-overrides)|COPYING|tools/vectors/.*"
    r"|Documentation/nightly\.rst"
)
RULE = re.compile(r"=+(\s+=+)+\s*|[+]([-=]+[+])+")
# Files with lines that are too long, and how many. Those of tools/selftests wait for the next
# change of their kind there; the others name a stage of the set-up by their content (hash_of in
# scripts/common.sh), so that any change of one has all machines make it again.
DEBT = {
    "scripts/debug-kernel.config": 3,
    "scripts/mmdebstrap.sh": 8,
    "scripts/setup-boot": 4,
    "scripts/setup-buildroot": 2,
    "scripts/setup-bundle": 2,
    "scripts/setup-debug": 7,
    "scripts/setup-linux": 1,
    "scripts/setup-packaging": 3,
    "scripts/setup-plain": 1,
    "tools/selftests/README": 1,
    "tools/selftests/addr.sh": 6,
    "tools/selftests/addresses.sh": 7,
    "tools/selftests/capture.sh": 3,
    "tools/selftests/cm.sh": 1,
    "tools/selftests/gro.sh": 3,
    "tools/selftests/headers.sh": 2,
    "tools/selftests/interop.sh": 1,
    "tools/selftests/kernel.sh": 2,
    "tools/selftests/kernel/events.c": 1,
    "tools/selftests/kernel/global.c": 1,
    "tools/selftests/kernel/lent.c": 1,
    "tools/selftests/kernel/post.c": 1,
    "tools/selftests/kernel/reuse.c": 2,
    "tools/selftests/lib.sh": 5,
    "tools/selftests/lib/mpi.sh": 1,
    "tools/selftests/lib/storage.sh": 6,
    "tools/selftests/libfabric.sh": 5,
    "tools/selftests/link.sh": 17,
    "tools/selftests/mpi-wire.sh": 2,
    "tools/selftests/mpi.sh": 1,
    "tools/selftests/netns.sh": 1,
    "tools/selftests/nfs.sh": 1,
    "tools/selftests/noipv6.sh": 2,
    "tools/selftests/nvme.sh": 1,
    "tools/selftests/path.sh": 2,
    "tools/selftests/pods.sh": 3,
    "tools/selftests/py/away.py": 1,
    "tools/selftests/py/faults.py": 1,
    "tools/selftests/py/mcast.py": 1,
    "tools/selftests/py/odp.py": 1,
    "tools/selftests/py/pods.py": 1,
    "tools/selftests/py/rereg.py": 1,
    "tools/selftests/py/retries.py": 2,
    "tools/selftests/py/sizes.py": 1,
    "tools/selftests/py/srq.py": 2,
    "tools/selftests/py/unused.py": 1,
    "tools/selftests/remove.sh": 5,
    "tools/selftests/removed.sh": 1,
    "tools/selftests/segmentation.sh": 1,
    "tools/selftests/storage-wire.sh": 3,
    "tools/selftests/ucx.sh": 5,
    "tools/selftests/verbs-rc.sh": 1,
}


def check(tree, debt=None):
    debt = DEBT if debt is None else debt
    for path in tree.files:
        found = [] if KINDS.fullmatch(str(path)) else list(long_lines(tree, path))
        if len(found) > debt.get(str(path), 0):
            yield from found
    for name in sorted(debt):
        if not any(long_lines(tree, name)):
            yield Problem(name, 1, "has no long line: take it out of DEBT in tidy/columns.py")


def long_lines(tree, path):
    in_table, name = False, str(path)
    for number, line in tree.lines(path):
        is_rule = name.endswith(".rst") and RULE.fullmatch(line)
        in_table = bool(is_rule or in_table and line)
        width = len(line.expandtabs(8))
        if width <= MAX_COLUMNS or in_table or len(line.split()) == 1:
            continue
        if not (name.endswith(".md") and line.startswith("|")):
            yield Problem(path, number, f"has {width} columns, not {MAX_COLUMNS}")
