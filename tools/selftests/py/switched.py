# SPDX-License-Identifier: GPL-2.0
"""The file loopback of a device in sysfs: messages of a device to itself as packets, and without,
switched while queue pairs are there."""

import ctypes
import errno
import os

import enums as e

from details import of_qp
from oxetest import (
    DEV_A,
    QKEY,
    End,
    ah_to,
    child,
    connect,
    counters,
    good,
    host_a,
    main,
    poll,
    same,
    shut,
    until,
)

FILE = f"/sys/class/infiniband/{DEV_A}/loopback"
NOBODY = 65534


def switch(value):
    with open(FILE, "w", encoding="ascii") as file:
        file.write(value)


def switched():
    with open(FILE, encoding="ascii") as file:
        return file.read().strip()


def connected(qp_type=e.IBV_QPT_RC):
    a, b = End(host_a(), qp_type), End(host_a(), qp_type)
    connect(a, b)
    return a, b


def sent():
    return counters(DEV_A)["sent_pkts"]


def message(a, b, **how):
    b.recv(b.sge(2000))
    a.send(e.IBV_WR_SEND, a.sge(1500 if not how else 100), **how)
    good(poll(a.cq) + poll(b.rcq))


def goes_by(path, a, b, **how):
    """A message by packets moves the counter, one by loopback does not."""
    before = sent()
    message(a, b, **how)
    if path == "wire":
        until(lambda: sent() > before, "packets")
    else:
        same(sent(), before, "packets")
    if not how:
        same([of_qp(end)["path"] for end in (a, b)], [path] * 2, "the path")


def of_connections():
    """A connection stays what it is."""
    same(switched(), "1", "the file")
    near = [connected(kind) for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC)]
    switch("0")
    same(switched(), "0", "the file")
    for pair in near:
        goes_by("loopback", *pair)
    far = [connected(kind) for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC)]
    for pair in far:
        goes_by("wire", *pair)
    switch("1")
    for pair in far:
        goes_by("wire", *pair)
    for pair in near:
        goes_by("loopback", *pair)
    # After a reset it is decided anew.
    for end in far[0]:
        end.to_state(e.IBV_QPS_RESET)
    connect(*far[0])
    goes_by("loopback", *far[0])
    for pair in near + far:
        shut(*pair)


def half_way():
    """One end is connected before the switch, and the other one after: they agree."""
    for first, path in ("1", "loopback"), ("0", "wire"):
        switch(first)
        a, b = End(host_a()), End(host_a())
        a.to_init()
        b.to_init()
        a.to_rtr(b.host.gid_value(), b.qp.qp_num)
        switch("0" if first == "1" else "1")
        b.to_rtr(a.host.gid_value(), a.qp.qp_num)
        a.to_rts()
        b.to_rts()
        goes_by(path, a, b)
        goes_by(path, b, a)
        shut(a, b)
    switch("1")


def of_datagrams():
    """An address handle stays what it is."""
    a, b = connected(e.IBV_QPT_UD)

    def to_b():
        return {"ah": (ah_to(a.host, b.host), b.qp.qp_num, QKEY)}

    near = to_b()
    switch("0")
    goes_by("loopback", a, b, **near)
    far = to_b()
    goes_by("wire", a, b, **far)
    switch("1")
    goes_by("wire", a, b, **far)
    shut(a, b)


def under_way():
    """Switched again and again beside traffic: all messages come, in order."""
    pairs = []
    for turn in range(12):
        switch(str(turn % 2))
        pairs.append(connected())
        for n, (a, b) in enumerate(pairs):
            for index in range(8):
                ctypes.memset(a.mr.buf + index, turn * 8 + index, 1)
                b.recv(b.sge(1, 100 + index))
            switch(str((turn + n) % 2))
            for index in range(8):
                a.send(e.IBV_WR_SEND, a.sge(1, index))
            good(poll(a.cq, 8) + poll(b.rcq, 8))
            want = bytes(turn * 8 + index for index in range(8))
            same(ctypes.string_at(b.mr.buf + 100, 8), want, "messages")
    switch("1")
    for pair in pairs:
        shut(*pair)


def who_may():
    """Root alone, and one of two values."""
    try:
        switch("x")
    except OSError as error:
        same(error.errno, errno.EINVAL, "the error")
    else:
        raise AssertionError("the file takes an x")

    def program():
        os.setuid(NOBODY)
        same(switched(), "1", "the file")
        try:
            switch("0")
        except OSError as error:
            same(error.errno, errno.EACCES, "the error")
        else:
            raise AssertionError("any process may switch")

    child(program)
    same(switched(), "1", "the file")


CASES = [
    ("connections", of_connections),
    ("connected half way", half_way),
    ("datagrams", of_datagrams),
    ("under way", under_way),
    ("who may", who_may),
]

if __name__ == "__main__":
    main([(f"loopback by packets: {name}", function) for name, function in CASES])
