# SPDX-License-Identifier: GPL-2.0
"""How much memory of the kernel one idle object takes, in bytes: many are made, and what is free
before and after compared; the median of several rounds.

Usage: idle.py DEVICE qp|cq
"""

import statistics
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

# So many that the reserves of each CPU do not matter.
COUNT = {"qp": 400, "cq": 1000}
ROUNDS = 5


def free():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    # The counters of each CPU are summed up seldom.
    with open("/proc/sys/vm/stat_refresh", "w", encoding="ascii") as file:
        file.write("1")
    with open("/proc/meminfo", encoding="ascii") as file:
        pages = next(int(line.split()[1]) // 4 for line in file if line.startswith("MemFree"))
    # MemFree does not count the pages on the lists of each CPU.
    with open("/proc/zoneinfo", encoding="ascii") as file:
        pages += sum(int(line.split()[1]) for line in file if line.split()[:1] == ["count:"])
    return pages * 4096


def main():
    ctx = Context(name=sys.argv[1])
    pd, cq = PD(ctx), CQ(ctx, 128)
    init = QPInitAttr(
        qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=128, max_recv_wr=128)
    )
    make = {"qp": lambda: QP(pd, init), "cq": lambda: CQ(ctx, 128)}[sys.argv[2]]
    count, found = COUNT[sys.argv[2]], []
    for _ in range(ROUNDS):
        before = free()
        keep = [make() for _ in range(count)]
        found.append((before - free()) / count)
        for thing in keep:
            thing.close()
        # Much memory is given back a grace period later.
        time.sleep(0.5)
    print(statistics.median(found))


if __name__ == "__main__":
    main()
