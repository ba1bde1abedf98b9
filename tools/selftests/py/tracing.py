# SPDX-License-Identifier: GPL-2.0
"""The driver's trace events, as a test reads them from tracefs."""

import collections
import os
import re
import subprocess

from oxetest import until

# A line: task, CPU and time; then the event's name and text.
LINE = re.compile(r": oxe_(?P<event>\w+): (?:\S+ qp (?P<qpn>\d+): )?(?P<text>.*)$")
Event = collections.namedtuple("Event", "name qpn text")
TRACING = os.environ.get("TRACING", "/sys/kernel/tracing")


class Trace:
    """The events that the driver traces meanwhile, in an instance of its own: all, or one kind."""

    def __init__(self, kind=None):
        self.enable = f"events/oxe/oxe_{kind}/enable" if kind else "events/oxe/enable"

    def __enter__(self):
        if not os.path.exists(f"{TRACING}/instances"):
            subprocess.run(["mount", "-t", "tracefs", "tracing", TRACING], check=True)
        self.at = f"{TRACING}/instances/oxe-test-{os.getpid()}"
        os.mkdir(self.at)
        self.write("buffer_size_kb", "4096")
        self.write(self.enable, "1")
        return self

    def __exit__(self, *_):
        self.write(self.enable, "0")
        os.rmdir(self.at)

    def write(self, name, text):
        with open(f"{self.at}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def text(self):
        with open(f"{self.at}/trace", encoding="ascii") as file:
            return file.read()

    def events(self, end=None):
        """The events so far, or those of this end's QP."""
        found = [match for match in map(LINE.search, self.text().splitlines()) if match]
        qpn = None if end is None else end.qp.qp_num
        return [
            Event(match["event"], int(match["qpn"] or 0), match["text"])
            for match in found
            if qpn in (None, int(match["qpn"] or 0))
        ]

    def has(self, end, name, part):
        """Waits for an event of the end with this text in it."""

        def seen():
            return any(each.name == name and part in each.text for each in self.events(end))

        try:
            until(seen, f"{name} with {part!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; events: {self.events()}") from None

    def names(self, end):
        return [each.name for each in self.events(end)]
