# SPDX-License-Identifier: GPL-2.0
"""How much memory of the kernel one idle object takes, in bytes: many are made, and what is free before and after compared.

Usage: idle.py DEVICE qp|cq
"""
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

# So many that what each CPU keeps in reserve does not count.
COUNT = {"qp": 500, "cq": 2000}


def free():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    # The counters of each CPU are summed up seldom.
    with open("/proc/sys/vm/stat_refresh", "w", encoding="ascii") as file:
        file.write("1")
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemFree"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no MemFree")


def main():
    ctx = Context(name=sys.argv[1])
    pd, cq = PD(ctx), CQ(ctx, 128)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=128, max_recv_wr=128))
    make = {"qp": lambda: QP(pd, init), "cq": lambda: CQ(ctx, 128)}[sys.argv[2]]
    count = COUNT[sys.argv[2]]
    keep = [make() for _ in range(20)]
    before = free()
    keep += [make() for _ in range(count)]
    print((before - free()) / count)
    for thing in keep:
        thing.close()


if __name__ == "__main__":
    main()
