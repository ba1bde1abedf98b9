# SPDX-License-Identifier: GPL-2.0
"""Fail each allocation of the verbs' calls of a consumer in the kernel in turn (failing.py): the
module oxe_ktest makes an object for each write to its file (kernel/create.c).

Usage: kernel_faults.py [case...]
"""

import os

from failing import every_site
from oxetest import main

RUN = "/sys/kernel/debug/oxe_ktest/run"


def create(kind):
    run = os.open(RUN, os.O_WRONLY)
    command = f"create {kind} wire".encode()
    os.write(run, command)
    every_site(lambda _: os.write(run, command), lambda *_: None)
    os.close(run)


CASES = [
    (f"kernel consumer: {name}", create, kind)
    for name, kind in (
        ("allocate a PD", "pd"),
        ("allocate a PD with a key for all memory", "pd_rkey"),
        ("create a CQ", "cq"),
        ("allocate a CQ that ib_core polls", "cq_polled"),
        ("moderate a CQ", "cq_moderated"),
        ("create an SRQ", "srq"),
        ("set the limit of an SRQ", "srq_limit"),
        ("create an RC QP", "rc"),
        ("create a UD QP", "ud"),
        ("create an RC QP on an SRQ", "rc_srq"),
        ("create a UD QP on an SRQ", "ud_srq"),
        ("attach to a multicast group", "mcast"),
        ("connect two QPs", "connection"),
        ("allocate a region", "mr"),
        ("map, register and invalidate a region", "mr_registered"),
        ("create an AH", "ah"),
    )
]

if __name__ == "__main__":
    main(CASES)
