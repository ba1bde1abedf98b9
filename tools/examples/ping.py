#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""RDMA ping by pyverbs: the client writes a message into the server's memory by RDMA WRITE, reads
it back by RDMA READ and compares. The two tell each other over TCP where their queue pairs are.

Role, device, GID and addresses are in the environment: run-in-vm sets them.
"""

import json
import os
import socket
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PORT = 18515
SIZE = 4096
ROUNDS = 20
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


def meet():
    """A TCP connection to the other host. The server may begin to listen after the client came."""
    if os.environ["OXE_ROLE"] == "server":
        with socket.create_server(("", PORT)) as listener:
            return listener.accept()[0]
    for _ in range(300):
        try:
            return socket.create_connection((os.environ["OXE_PEER_ADDR"], PORT))
        except ConnectionRefusedError:
            time.sleep(0.2)
    raise SystemExit("the server does not listen")


def swap(stream, thing):
    """Sends a value to the other host and returns that of the other host."""
    stream.write(json.dumps(thing) + "\n")
    stream.flush()
    return json.loads(stream.readline())


def connect(qp, gid_index, peer):
    """Takes the queue pair to RTS, connected to the peer's."""
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=gid_index)
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route, dlid=0)
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = peer["qpn"]
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
    attr.min_rnr_timer = 12
    # An ACK may take 4.096 us * 2^18 = 1 s: the machine is slow.
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 18, 7, 7
    qp.to_rts(attr)


def transfer(qp, cq, opcode, sge, peer):
    """One RDMA operation on the peer's memory, to its completion."""
    request = SendWR(num_sge=1, sg=[sge], opcode=opcode, send_flags=e.IBV_SEND_SIGNALED)
    request.set_wr_rdma(peer["rkey"], peer["address"])
    qp.post_send(request)
    while True:
        count, completions = cq.poll(1)
        if count:
            break
    if completions[0].status != e.IBV_WC_SUCCESS:
        raise SystemExit(f"opcode {opcode} failed with status {completions[0].status}")


def ping(qp, cq, mr, peer):
    """The first half of the memory is written to the peer, the second half read from there."""
    first, second = SGE(mr.buf, SIZE, mr.lkey), SGE(mr.buf + SIZE, SIZE, mr.lkey)
    for number in range(ROUNDS):
        message = bytes((number + i) % 256 for i in range(SIZE))
        mr.write(message, SIZE)
        transfer(qp, cq, e.IBV_WR_RDMA_WRITE, first, peer)
        transfer(qp, cq, e.IBV_WR_RDMA_READ, second, peer)
        if mr.read(SIZE, SIZE) != message:
            raise SystemExit(f"message {number} came back with other bytes")
    print(f"{ROUNDS} messages of {SIZE} bytes were written, and read back as they were")


def main():
    gid_index = int(os.environ["OXE_GID_INDEX"])
    context = Context(name=os.environ["OXE_DEVICE"])
    pd, cq = PD(context), CQ(context, 16)
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))
    mr = MR(pd, 2 * SIZE, ACCESS)
    with meet() as connection, connection.makefile("rw") as stream:
        here = {"gid": context.query_gid(1, gid_index).gid, "qpn": qp.qp_num}
        here |= {"rkey": mr.rkey, "address": mr.buf}
        peer = swap(stream, here)
        connect(qp, gid_index, peer)
        swap(stream, "connected")
        if os.environ["OXE_ROLE"] == "client":
            ping(qp, cq, mr, peer)
        # The server's memory stays until the client is done.
        swap(stream, "done")
    for thing in (qp, mr, cq, pd, context):
        thing.close()


if __name__ == "__main__":
    main()
