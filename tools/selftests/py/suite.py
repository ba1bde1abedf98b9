# SPDX-License-Identifier: GPL-2.0
"""rdma-core's own test suite, each test in a process of its own.

Usage: suite.py DIRECTORY DEVICE GID-INDEX ALLOWED-FILE. The libraries are imported once, then a
process is forked per test, which saves minutes on a slow machine. ALLOWED-FILE lists tests that may
fail, each with its reason.
"""

import io
import os
import select
import signal
import sys
import time
import unittest

directory, device, gid, allowed_file = sys.argv[1:5]
wanted = sys.argv[5:]
sys.argv = ["run_tests.py", "--dev", device, "--gid", gid, "--port", "1"]
sys.path[:0] = [os.path.dirname(directory), directory]
LIMIT = 120 * int(os.environ.get("SLOW", "1"))

# The providers of other hardware test nothing here.
FOREIGN = ("mlx5", "efa", "irdma", "cuda")

from args_parser import parser  # noqa: E402

parser.parse_args()
allowed = {}
with open(allowed_file, encoding="ascii") as file:
    for line in file:
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.strip().partition(" ")
            allowed[name] = reason.strip()


def tests():
    for name in sorted(os.listdir(directory)):
        if (
            not name.startswith("test_")
            or not name.endswith(".py")
            or any(f in name for f in FOREIGN)
        ):
            continue
        suite = unittest.defaultTestLoader.loadTestsFromName("tests." + name[:-3])
        stack = [suite]
        while stack:
            item = stack.pop()
            if isinstance(item, unittest.TestSuite):
                stack.extend(reversed(list(item)))
            else:
                yield item


def run(test):
    """In the child: 0 passed, 4 skipped, 1 failed; the report goes to stdout."""
    stream = io.StringIO()
    result = unittest.TextTestRunner(stream=stream, verbosity=2).run(unittest.TestSuite([test]))
    if result.skipped:
        print(result.skipped[0][1].replace("\n", " "))
        return 4
    print(stream.getvalue())
    return 0 if result.wasSuccessful() and result.testsRun else 1


def one(test):
    """Forks, waits for at most LIMIT seconds, reports the result."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read_end)
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        code = 1
        try:
            code = run(test)
        except BaseException as error:  # whatever it is, the test has failed
            print(f"{type(error).__name__}: {error}")
        sys.stdout.flush()
        os._exit(code)
    os.close(write_end)
    text, end, status = b"", time.monotonic() + LIMIT, None
    while status is None:
        if select.select([read_end], [], [], 0.2)[0]:
            text += os.read(read_end, 65536)
        pid, code = os.waitpid(child, os.WNOHANG)
        if pid:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            status = 124
    try:
        os.killpg(child, signal.SIGKILL)  # what it may have left running
    except ProcessLookupError:
        pass
    while select.select([read_end], [], [], 0)[0]:
        more = os.read(read_end, 65536)
        if not more:
            break
        text += more
    os.close(read_end)
    return status, text.decode(errors="replace")


for test in tests():
    name = test.id().removeprefix("tests.")
    if wanted and not any(w in name for w in wanted):
        continue
    status, text = one(test)
    lines = [x for x in text.strip().splitlines() if x.strip()]
    if status == 0:
        print(f"ok {name}", flush=True)
        if name in allowed:
            print(
                f"# {name} passes though it is listed as allowed to fail: {allowed[name]}",
                flush=True,
            )
    elif status == 4:
        print(f"skip {name} # {lines[-1] if lines else 'no reason given'}", flush=True)
    elif name in allowed:
        print(f"skip {name} # fails, as allowed: {allowed[name]}", flush=True)
    else:
        print(
            f"not ok {name} ({'time limit' if status == 124 else f'status {status}'})", flush=True
        )
        for line in lines[-15:]:
            print(f"# {line}", flush=True)
