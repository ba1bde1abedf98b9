# SPDX-License-Identifier: GPL-2.0
"""The kernel's trace events: what of the driver ran where, and what was sent meanwhile."""

import os
import re

TRACING = "/sys/kernel/tracing"
EVENTS = [
    "timer/hrtimer_expire_entry",
    "timer/hrtimer_expire_exit",
    "net/net_dev_queue",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_execute_end",
]
LINE = re.compile(r"\[(\d+)\] \S+ +[\d.]+: (\w+): (.*)")


def control(name, text):
    with open(f"{TRACING}/{name}", "w", encoding="ascii") as file:
        file.write(text)


class Trace:
    """with Trace() as trace: afterwards trace.events has (CPU, event, its text) of the events
    meanwhile."""

    def __enter__(self):
        if not os.path.exists(f"{TRACING}/trace"):
            os.system(f"mount -t tracefs none {TRACING}")
        control("trace", "")
        control("buffer_size_kb", "16384")
        for event in EVENTS:
            control(f"events/{event}/enable", "1")
        control("tracing_on", "1")
        self.events = []
        return self

    def __exit__(self, *_):
        control("tracing_on", "0")
        for event in EVENTS:
            control(f"events/{event}/enable", "0")
        with open(f"{TRACING}/trace", encoding="ascii", errors="replace") as file:
            self.events = [found.groups() for found in map(LINE.search, file) if found]
        control("trace", "")

    def expired(self):
        """How many timers of the driver expired."""
        return sum(event == "hrtimer_expire_entry" and ours(text) for _, event, text in self.events)

    def sent(self):
        """How many packets were sent."""
        return sum(event == "net_dev_queue" for _, event, _ in self.events)

    def by_timers(self):
        """How many timers of the driver expired, and how many packets they sent themselves."""
        return self.within("hrtimer_expire_entry", "hrtimer_expire_exit", r"hrtimer=(\S+)")

    def by_work(self):
        """How many work items of the driver were done, and how many packets they sent."""
        return self.within(
            "workqueue_execute_start", "workqueue_execute_end", r"work struct (\S+?):"
        )

    def within(self, begin, end, key):
        runs, packets, inside = 0, 0, {}
        for cpu, event, text in self.events:
            name = re.search(key, text).group(1) if event in (begin, end) else None
            if event == begin and ours(text):
                inside[cpu] = name
                runs += 1
            elif event == end and inside.get(cpu) == name:
                del inside[cpu]
            elif event == "net_dev_queue" and cpu in inside:
                packets += 1
        return runs, packets


def functions_called(names, action):
    """The calls of these functions of the kernel while this process does `action`, in order. None
    if the kernel cannot trace one of them."""
    if not os.path.exists(f"{TRACING}/trace"):
        os.system(f"mount -t tracefs none {TRACING}")
    try:
        control("set_ftrace_filter", "\n".join(names) + "\n")
        control("set_ftrace_pid", str(os.getpid()))
        control("current_tracer", "function")
    except OSError:
        return None
    control("trace", "")
    control("tracing_on", "1")
    action()
    control("tracing_on", "0")
    with open(f"{TRACING}/trace", encoding="ascii", errors="replace") as file:
        calls = re.findall(r"[\d.]+: (\w+) <-(\w+)", file.read())
    control("current_tracer", "nop")
    control("set_ftrace_filter", "\n")
    control("set_ftrace_pid", "\n")
    return [name for name, caller in calls if name in names]


def ours(text):
    return "[oxe]" in text
