# SPDX-License-Identifier: GPL-2.0
"""Datagrams that must get lost, without an error at the sender and without harm to the next one."""

import enums as e

from oxetest import (
    QKEY,
    End,
    ah_to,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    until,
)


def wrong_qkey():
    a, b = (End(h, e.IBV_QPT_UD) for h in (host_a(), host_b()))
    connect(a, b)
    b.recv(b.sge(1000), wr_id=1)
    ah = ah_to(a.host, b.host)
    a.send(e.IBV_WR_SEND, a.sge(10), ah=(ah, b.qp.qp_num, QKEY + 1))
    good(poll(a.cq))
    none_pending(b.rcq)
    a.send(e.IBV_WR_SEND, a.sge(10), ah=(ah, b.qp.qp_num, QKEY))
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def unready_datagram():
    """A datagram that finds no buffer is lost, and no other is."""
    a, b = (End(h, e.IBV_QPT_UD) for h in (host_a(), host_b()))
    connect(a, b)
    ah = ah_to(a.host, b.host)
    dropped = lambda: counters(b.host.name).get("out_of_buffer")
    before = dropped()
    a.send(e.IBV_WR_SEND, a.sge(10), ah=(ah, b.qp.qp_num, QKEY))
    good(poll(a.cq))
    until(lambda: dropped() != before or before is None, "the datagram to be dropped")
    none_pending(b.rcq)
    b.recv(b.sge(1000), wr_id=4)
    a.send(e.IBV_WR_SEND, a.sge(11), ah=(ah, b.qp.qp_num, QKEY))
    (wc,) = good(poll(b.rcq))
    same((wc.wr_id, wc.byte_len), (4, 51), "the second datagram")
    shut(a, b)


CASES = [
    ("wrong Q_Key", wrong_qkey),
    ("datagram without a buffer", unready_datagram),
]

if __name__ == "__main__":
    main(CASES)
