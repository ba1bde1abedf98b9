# SPDX-License-Identifier: GPL-2.0
"""The traffic of the lab: flows of RDMA and of TCP, both ends of all of them in one process.

Data go from the first host to the second. What arrives is counted where it arrives, by the kilobyte
and in the midst of a message: the memory that a message goes to is zero before, and no payload has
eight bytes of zero at the beginning of a kilobyte. Each message is compared as a whole.
"""

import collections
import ctypes
import os
import random
import select
import socket
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.wr import SGE, RecvWR, SendWR

import wire
from driver import IP, NS

sys.path.append("/oxe/selftests/py")
# pylint: disable=wrong-import-position
from oxetest import ALL_ACCESS, SIG, End, Host, async_fds, status

OPCODES = {
    "send": e.IBV_WR_SEND,
    "write": e.IBV_WR_RDMA_WRITE,
    "read": e.IBV_WR_RDMA_READ,
}
BLOCK = 1024
# Receives beyond the sends of a queue pair, so that none meets a receive queue that is empty.
MORE_RECEIVES = 4
LIBC = ctypes.CDLL(None)
LIBC.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
LIBC.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
LIBC.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


class Side:
    """A device, a CQ with its events, and one region for all messages of its end."""

    def __init__(self, device, gid, size, completions):
        self.host = Host(device, gid)
        before = async_fds()
        self.channel = CompChannel(self.host.ctx)
        (self.fd,) = async_fds() - before
        self.cq = CQ(self.host.ctx, completions, None, self.channel, 0)
        self.cq.req_notify(False)
        self.mr = MR(self.host.pd, size, ALL_ACCESS)
        self.ends, self.numbers = [], {}

    def add_end(self, depth):
        end = End(
            self.host, size=0, depth=depth, sges=1, inline=0, send_cq=self.cq, recv_cq=self.cq
        )
        self.numbers[end.qp.qp_num] = len(self.ends)
        self.ends.append(end)

    def completions(self):
        """Those that have come. The CQ is armed before it is empty, so that none is missed."""
        self.channel.get_cq_event(self.cq)
        self.cq.ack_events(1)
        self.cq.req_notify(False)
        while True:
            number, found = self.cq.poll(64)
            yield from found
            if number < 64:
                return


class Rdma:
    """Connections whose messages follow each other: so many are under way at a time."""

    def __init__(self, driver, scenario, seed):
        self.op, self.depth = scenario.op, scenario.depth
        self.length, self.count = scenario.length, scenario.flows
        self.slots = self.depth + (MORE_RECEIVES if self.op == "send" else 0)
        completions = min(30000, self.count * (self.depth + self.slots) + 16)
        self.source, self.sink = (
            Side(driver.dev[i], driver.gid[i], self.count * slots * self.length, completions)
            for i, slots in ((0, self.depth), (1, self.slots))
        )
        # Who posts the requests.
        self.requester = self.sink if self.op == "read" else self.source
        for _ in range(self.count):
            self.source.add_end(self.slots)
            self.sink.add_end(self.slots)
        self.fill(seed)
        self.connect(seed)
        self.requests = [
            [self.request(flow, slot) for slot in range(self.depth)] for flow in range(self.count)
        ]
        self.receives = [
            [self.receive(flow, slot) for slot in range(self.slots)] for flow in range(self.count)
        ]
        # For each flow: messages that were compared, when those under way were posted, whether it
        # goes on.
        self.done = [0] * self.count
        self.posted = [[0.0] * self.depth for _ in range(self.count)]
        self.latencies, self.wrong, self.failed = [], 0, {}
        self.stopped = False

    def fill(self, seed):
        """Each message that is under way has contents of its own."""
        pool = random.Random(seed).randbytes(1 << 20)
        pool = ctypes.create_string_buffer(pool + pool[: self.length])
        where = ctypes.addressof(pool)
        for number in range(self.count * self.depth):
            LIBC.memcpy(
                self.source.mr.buf + number * self.length,
                where + (number * 7 % 1021) * BLOCK,
                self.length,
            )
        LIBC.memset(self.sink.mr.buf, 0, self.sink.mr.length)

    def connect(self, seed):
        numbers = random.Random(seed)
        for a, b in zip(self.source.ends, self.sink.ends):
            a.to_init(ALL_ACCESS)
            b.to_init(ALL_ACCESS)
            psns = numbers.randrange(1 << 24), numbers.randrange(1 << 24)
            for end, peer, psn, own in ((a, b, psns[1], psns[0]), (b, a, psns[0], psns[1])):
                end.to_rtr(peer.host.gid_value(), peer.qp.qp_num, psn=psn)
                end.to_rts(psn=own)

    def at_source(self, flow, slot):
        return self.source.mr.buf + (flow * self.depth + slot) * self.length

    def at_sink(self, flow, slot):
        return self.sink.mr.buf + (flow * self.slots + slot) * self.length

    def request(self, flow, slot):
        own, other = self.at_source(flow, slot), self.at_sink(flow, slot)
        if self.op == "read":
            own, other = other, own
        peer = self.source if self.op == "read" else self.sink
        sge = SGE(own, self.length, self.requester.mr.lkey)
        wr = SendWR(slot, opcode=OPCODES[self.op], num_sge=1, sg=[sge], send_flags=SIG)
        if self.op != "send":
            wr.set_wr_rdma(peer.mr.rkey, other)
        return wr

    def receive(self, flow, slot):
        return RecvWR(
            slot, 1, [SGE(self.at_sink(flow, slot), self.length, self.sink.mr.lkey)]
        )

    # ---- while it runs

    def handlers(self):
        return {
            self.sink.fd: (select.EPOLLIN, self.at_completions(self.sink)),
            self.source.fd: (select.EPOLLIN, self.at_completions(self.source)),
        }

    def start(self, flow):
        if self.op == "send":
            for wr in self.receives[flow]:
                self.sink.ends[flow].qp.post_recv(wr)
        for slot in range(self.depth):
            self.post(flow, slot)

    def post(self, flow, slot):
        self.posted[flow][slot] = time.monotonic()
        self.requester.ends[flow].qp.post_send(self.requests[flow][slot])

    def at_completions(self, side):
        def handle(_):
            for wc in side.completions():
                self.complete(side, wc)

        return handle

    def complete(self, side, wc):
        flow = side.numbers[wc.qp_num]
        if wc.status != e.IBV_WC_SUCCESS:
            if not self.stopped:
                self.failed.setdefault(flow, status(wc))
            return
        slot = wc.wr_id
        if self.op == "send" and side is self.sink:
            # Messages arrive in the order of the requests, which is that of their slots.
            self.compare(flow, self.done[flow] % self.depth, slot)
            if not self.stopped:
                side.ends[flow].qp.post_recv(self.receives[flow][slot])
            return
        self.latencies.append((time.monotonic(), time.monotonic() - self.posted[flow][slot]))
        if self.op != "send":
            self.compare(flow, slot, slot)
        if not self.stopped and flow not in self.failed:
            self.post(flow, slot)

    def compare(self, flow, source, sink):
        own = self.at_sink(flow, sink)
        self.wrong += LIBC.memcmp(own, self.at_source(flow, source), self.length) != 0
        LIBC.memset(own, 0, self.length)
        self.done[flow] += 1

    def received(self):
        """For each flow when it was looked at, and the bytes that had arrived. With a hundred of
        them the first and the last are far apart."""
        size = self.slots * self.length
        found = []
        for flow, done in enumerate(self.done):
            memory = (ctypes.c_ubyte * size).from_address(self.at_sink(flow, 0))
            words = memoryview(memory).cast("B").cast("Q")[:: BLOCK // 8].tolist()
            arrived = done * self.length + (len(words) - words.count(0)) * BLOCK
            found.append((time.monotonic(), arrived))
        return found

    def sent_again(self):
        return 0

    def stop(self):
        self.stopped = True
        for side in (self.source, self.sink):
            for end in side.ends:
                end.to_state(e.IBV_QPS_ERR)

    def close(self):
        for side in (self.source, self.sink):
            side.host.close()


class Tcp:
    """Connections of TCP, with the kernel's own congestion control (CUBIC)."""

    PORT = 17001
    next_port = PORT
    CHUNK = bytes(1 << 16)

    def __init__(self, count):
        self.count, self.stopped = count, False
        self.senders, self.receivers = [], []
        self.bytes = [0] * count
        self.buffer = bytearray(1 << 18)
        for _ in range(count):
            self.open()
        self.flow_of = {s.fileno(): i for i, s in enumerate(self.receivers)}
        self.by_fd = {s.fileno(): s for s in (*self.senders, *self.receivers)}
        self.going = set()
        self.latencies, self.wrong, self.failed = [], 0, {}

    def open(self):
        Tcp.next_port += 1
        address = (IP[1], Tcp.next_port)
        listener = wire.in_namespace(NS[1], lambda: socket.create_server(address))
        sender = wire.in_namespace(NS[0], lambda: socket.create_connection(address))
        receiver, _ = listener.accept()
        listener.close()
        for each, ends in ((sender, self.senders), (receiver, self.receivers)):
            each.setblocking(False)
            ends.append(each)

    def handlers(self):
        found = {s.fileno(): (select.EPOLLIN, self.receive) for s in self.receivers}
        # Edge-triggered: a sender that does not go yet has nothing to say.
        writable = select.EPOLLOUT | select.EPOLLET
        return found | {s.fileno(): (writable, self.send) for s in self.senders}

    def start(self, flow):
        fd = self.senders[flow].fileno()
        self.going.add(fd)
        self.send(fd)

    def send(self, fd):
        if fd not in self.going or self.stopped:
            return
        try:
            while True:
                self.by_fd[fd].send(self.CHUNK)
        except BlockingIOError:
            pass

    def receive(self, fd):
        try:
            self.bytes[self.flow_of[fd]] += self.by_fd[fd].recv_into(self.buffer)
        except BlockingIOError:
            pass

    def received(self):
        now = time.monotonic()
        return [(now, count) for count in self.bytes]

    def sent_again(self):
        """Segments (tcpi_total_retrans)."""
        return sum(
            struct.unpack_from("=I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]
            for s in self.senders
        )

    def stop(self):
        self.stopped = True

    def close(self):
        reset = struct.pack("ii", 1, 0)
        for each in (*self.senders, *self.receivers):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            each.close()


def read_file(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def counter(devices, name):
    """The sum of a counter over these devices; None where the driver has no such counter."""
    where = "/sys/class/infiniband/{}/ports/1/hw_counters/" + name
    files = [where.format(device) for device in devices]
    if not all(os.path.exists(file) for file in files):
        return None
    return sum(int(read_file(file)) for file in files)


Loop = collections.namedtuple("Loop", "epoll handlers")


def make_loop(flows):
    """An event loop for all these flows."""
    loop = Loop(select.epoll(), {})
    for each in flows:
        for fd, (events, handler) in each.handlers().items():
            loop.epoll.register(fd, events)
            loop.handlers[fd] = handler
    return loop


def run_until(loop, when):
    """Handles events until that time."""
    while (left := when - time.monotonic()) > 0:
        for fd, _ in loop.epoll.poll(left):
            loop.handlers[fd](fd)
