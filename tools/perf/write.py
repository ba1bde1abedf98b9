# SPDX-License-Identifier: GPL-2.0
"""RDMA WRITE as perftest does not measure it: the sender sleeps until there are completions; over
many queue pairs, regions or SGEs. Prints Gb/s and microseconds per message.

Usage: write.py DEVICE GID-INDEX PORT [--size BYTES] [--count N] [--sges N] [--mrs N] [--qps N]
                [SERVER]

Without SERVER this is the side that is written to; the two meet on the TCP port. Message i goes
from region i of this side to region i of that one, by queue pair i, each modulo their number.
"""

import argparse
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.wr import SGE, SendWR

import ticks

sys.path.append("/oxe/selftests/py")
# pylint: disable=wrong-import-position
from oxetest import ALL_ACCESS, SIG, End, Host, good
from peer import meet, swap

# Messages under way at a time.
FLIGHT = 32


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("device")
    parser.add_argument("gid", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("server", nargs="?")
    for name, default in (("size", 65536), ("count", 100), ("sges", 1), ("mrs", 1), ("qps", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


class Side:
    """The regions and queue pairs of one side, connected when the object is made."""

    def __init__(self, args, stream):
        self.host = Host(args.device, args.gid)
        self.channel = CompChannel(self.host.ctx)
        self.cq = CQ(self.host.ctx, 2 * FLIGHT, None, self.channel, 0)
        self.cq.req_notify(False)
        self.mrs = [MR(self.host.pd, args.size, ALL_ACCESS) for _ in range(args.mrs)]
        self.ends = [
            End(self.host, size=0, sges=args.sges, depth=FLIGHT, cqe=1, send_cq=self.cq)
            for _ in range(args.qps)
        ]
        self.peer = swap(
            stream,
            {
                "gid": self.host.gid_value(),
                "qpns": [end.qp.qp_num for end in self.ends],
                "regions": [(mr.buf, mr.rkey) for mr in self.mrs],
            },
        )
        mtu = self.host.ctx.query_port(1).active_mtu
        for end, qpn in zip(self.ends, self.peer["qpns"]):
            end.to_init(ALL_ACCESS)
            end.to_rtr(self.peer["gid"], qpn, mtu=mtu)
            end.to_rts()

    def request(self, number, sges):
        """A WRITE of a whole region, in so many SGEs."""
        mr = self.mrs[number % len(self.mrs)]
        address, rkey = self.peer["regions"][number % len(self.mrs)]
        piece = mr.length // sges
        parts = [SGE(mr.buf + i * piece, piece, mr.lkey) for i in range(sges)]
        wr = SendWR(number, opcode=e.IBV_WR_RDMA_WRITE, num_sge=sges, sg=parts, send_flags=SIG)
        wr.set_wr_rdma(rkey, address)
        return wr

    def write(self, count, requests):
        """Seconds for so many WRITEs."""
        sent = done = 0
        start = time.perf_counter()
        while done < count:
            while sent < count and sent - done < FLIGHT:
                self.ends[sent % len(self.ends)].qp.post_send(requests[sent % len(requests)])
                sent += 1
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)
            self.cq.req_notify(False)
            number, found = self.cq.poll(2 * FLIGHT)
            done += number
            good(found)
        return time.perf_counter() - start


def main():
    args = arguments()
    with meet(args.port, args.server) as connection, connection.makefile("rw") as stream:
        side = Side(args, stream)
        swap(stream, "ready")
        if args.server:
            requests = [side.request(i, args.sges) for i in range(max(args.mrs, FLIGHT))]
            side.write(FLIGHT, requests)
            ticks.first()
            took = side.write(args.count, requests)
            ticks.last(args.count)
            print(args.size * args.count * 8 / took / 1e9, took / args.count * 1e6)
        swap(stream, "done")
        side.host.close()


if __name__ == "__main__":
    main()
