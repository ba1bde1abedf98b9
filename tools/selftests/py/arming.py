# SPDX-License-Identifier: GPL-2.0
"""Arming a CQ that holds completions already: a process gets an event at once, if it has polled or
others have come since the last event; one that arms before it polls gets none for what it knows of.
"""

import select

import enums as e
from pyverbs.cq import CQ, CompChannel

from oxetest import (
    SIG,
    SLOW,
    End,
    async_fds,
    connect,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
)


class Armable:
    """A connection on one device or over the wire; its receives complete to a CQ with a channel."""

    def __init__(self, near):
        host = host_b()
        before = async_fds()
        self.channel = CompChannel(host.ctx)
        (self.file,) = async_fds() - before
        self.cq = CQ(host.ctx, 200, None, self.channel, 0)
        self.b = End(host, recv_cq=self.cq)
        self.a = End(host_b() if near else host_a())
        connect(self.a, self.b)

    def bring(self, count, solicited=False):
        """So many completions."""
        flags = SIG | (e.IBV_SEND_SOLICITED if solicited else 0)
        for _ in range(count):
            self.b.recv(self.b.sge(8))
            self.a.send(e.IBV_WR_SEND, self.a.sge(8), flags=flags)
        good(poll(self.a.cq, count))

    def take(self, count):
        good(poll(self.cq, count))

    def events(self):
        """How many have come. One that is to come is there soon: the call that arms delivers it."""
        count = 0
        while select.select([self.file], [], [], 0.3 * SLOW)[0]:
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)
            count += 1
        return count

    def arm(self, solicited=False):
        """Arms; how many events have come after that."""
        self.cq.req_notify(solicited)
        return self.events()

    def close(self):
        shut(self.a, self.b)


def some_are_polled(cq):
    """40 CQEs; poll 16, arm, sleep: it ends."""
    cq.bring(40)
    for count, want in ((16, 1), (16, 1), (8, 0)):
        cq.take(count)
        same(cq.arm(), want, f"events after {count}")
    cq.bring(1)
    same(cq.events(), 1, "the next one's event")


def before_the_first(cq):
    cq.bring(2)
    same(cq.arm(), 1, "events")


def armed_before_polling(cq):
    same(cq.arm(), 0, "events of an empty queue")
    for _ in range(3):
        cq.bring(1)
        same(cq.events(), 1, "the completion's event")
        same(cq.arm(), 0, "more events")
        cq.take(1)


def another_came(cq):
    same(cq.arm(), 0, "events of an empty queue")
    cq.bring(2)
    same(cq.events(), 1, "the first one's event")
    same(cq.arm(), 1, "events for the second")


def armed_in_a_loop(cq):
    cq.bring(3)
    same(sum(cq.arm() for _ in range(5)), 1, "events")
    cq.bring(1)
    same(cq.events(), 1, "the next one's event")


def solicited(cq):
    cq.bring(2)
    same(cq.arm(True), 0, "events for what is not solicited")
    cq.bring(1, True)
    same(cq.events(), 1, "the solicited one's event")
    cq.take(2)
    same(cq.arm(True), 1, "events while it is there")
    cq.take(1)
    cq.bring(1)
    same(cq.arm(True), 0, "events when it is polled")


def an_error(cq):
    """An error counts as solicited."""
    cq.b.recv(cq.b.sge(8))
    cq.b.to_state(e.IBV_QPS_ERR)
    same(cq.arm(True), 1, "events")


CASES = [
    ("40 completions, 16 at a time", some_are_polled),
    ("completions before it was ever armed", before_the_first),
    ("armed between event and polls", armed_before_polling),
    ("another completion since the event", another_came),
    ("armed in a loop", armed_in_a_loop),
    ("solicited completions alone", solicited),
    ("an error", an_error),
]


def run(function, near):
    cq = Armable(near)
    function(cq)
    cq.close()


def cases():
    for near, place in ((False, "the wire"), (True, "one device")):
        for text, function in CASES:
            yield f"{text}, {place}", run, function, near


if __name__ == "__main__":
    main(cases())
