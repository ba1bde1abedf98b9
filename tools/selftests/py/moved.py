# SPDX-License-Identifier: GPL-2.0
"""Connections and datagrams from host A to an address of its own, before and after that address has
moved to host B: says "ready", and reads a line, in between."""

import os
import sys

import enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute

from oxetest import (
    DEV_A,
    QKEY,
    End,
    Host,
    connect,
    counters,
    gid_object,
    good,
    host_a,
    host_b,
    none_pending,
    poll,
    same,
    status,
)

here, moving = host_a(), Host(DEV_A, int(os.environ["GID_MOVING"]))
address = moving.gid_value()


def datagrams(host):
    end = End(host, e.IBV_QPT_UD)
    end.to_init()
    end.to_rtr(None, 0)
    end.to_rts()
    return end


def sends(end, ah, to):
    end.send(e.IBV_WR_SEND, end.sge(100), ah=(ah, to.qp.qp_num, QKEY))
    good(poll(end.cq))


a, b = End(here), End(moving)
connect(a, b, timeout=10, retry=2)
ud, near, far = datagrams(here), datagrams(here), datagrams(host_b())
route = GlobalRoute(dgid=gid_object(address), sgid_index=here.gid, hop_limit=64)
ah = AH(here.pd, attr=AHAttr(port_num=1, is_global=1, gr=route, dlid=0))

before = counters(DEV_A)
for end in (b, near, far):
    end.recv(end.sge(1000))
    end.recv(end.sge(1000))
a.send(e.IBV_WR_SEND, a.sge(100))
good(poll(a.cq) + poll(b.rcq))
sends(ud, ah, near)
good(poll(near.rcq))
same(counters(DEV_A)["sent_pkts"], before["sent_pkts"], "packets while the address is here")

print("ready")
sys.stdin.readline()

sends(ud, ah, far)
good(poll(far.rcq))
if near.qp.qp_num != far.qp.qp_num:
    sends(ud, ah, near)
none_pending(near.rcq)
a.send(e.IBV_WR_SEND, a.sge(100))
same([status(wc) for wc in poll(a.cq)], ["RETRY_EXC_ERR"], "a request of the connection")
none_pending(b.rcq)
