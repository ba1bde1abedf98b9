# SPDX-License-Identifier: GPL-2.0
"""Calls in which one allocation or user copy fails, the first, the second, and so on until a call
succeeds untouched.

Uses /proc/thread-self/fail-nth of a kernel with fault injection: the n-th site that could fail in
this thread does. Each failure must come back as ENOMEM or EFAULT (netlink's own sockets add
ENOBUFS), and must leave nothing behind: that is what lib.sh's finish looks for.
"""

import collections
import errno
import os

from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError

from oxetest import out, same

# More than any call has: one that never succeeds ends here.
SITES = 10000
# The errno for a lack of memory, and for the caller's memory that cannot be read; ENOBUFS is that
# of netlink.
EXPECTED = {errno.ENOMEM, errno.EFAULT, errno.ENOBUFS}


class Fault:
    """The n-th site in this thread fails, from the arming to the reading back."""

    def __init__(self):
        self.fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def arm(self, n):
        os.pwrite(self.fd, b"%d" % n, 0)

    def disarm(self):
        """True if the fault was injected."""
        # Reading and resetting copy to and from the user too, so a fault still armed may strike
        # just there.
        try:
            left = os.pread(self.fd, 20, 0).strip()
        except OSError:
            left = b"unspent"
        for _ in range(2):
            try:
                os.pwrite(self.fd, b"0", 0)
                break
            except OSError:
                pass
        return left == b"0"


def attempt(call, made):
    """The result of the call, or else its errno."""
    try:
        return call(made), None
    except PyverbsRDMAError as problem:
        return None, problem.error_code
    except OSError as problem:
        return None, problem.errno
    except (MemoryError, PyverbsError):
        return None, errno.ENOMEM  # the library's own mapping failed


def every_site(call, undo, prepare=None, also=()):
    """call(x) with x = prepare() and a fault at site 1, 2, ... until the call ends before it
    reaches the site; undo(result, x) if it succeeds. The errors allowed are those for a lack of
    memory, and those in also.
    """
    fault, codes = Fault(), collections.Counter()
    for n in range(1, SITES):
        made = prepare() if prepare else None
        fault.arm(n)
        result, error = attempt(call, made)
        injected = fault.disarm()
        if error is None:
            undo(result, made)
        elif injected:
            codes[error] += 1
        else:
            raise AssertionError(
                f"site {n}: failed with {errno.errorcode.get(error, error)} "
                "though nothing was injected"
            )
        if not injected:
            break
    else:
        raise AssertionError(f"still failing at site {n}")
    out(f"# {n - 1} sites, errors {({errno.errorcode.get(k, k): v for k, v in codes.items()})}")
    same(n > 1, True, "a site that could fail")
    strange = {errno.errorcode.get(k, k) for k in codes if k not in EXPECTED and k not in also}
    same(strange, set(), "errors that are none of memory")
