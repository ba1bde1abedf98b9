# SPDX-License-Identifier: GPL-2.0
"""The scripts of tools/bpftrace, each beside traffic that it is about.

bpftrace runs this program again, as its child, for the traffic: it does so when it traces already,
and ends with it.
"""

import os
import re
import subprocess
import sys
import time

import enums as e

from oxetest import (
    DEV_A,
    SIG,
    SLOW,
    End,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    pair,
    poll,
    same,
    shut,
    status,
    until,
)
from statistic import netem

SCRIPTS, OUT = os.environ.get("SCRIPTS", ""), os.environ.get("OXE_OUT")


# ---- the traffic: each prints the numbers of its queue pairs


def number(*ends):
    print(*(end.qp.qp_num for end in ends), flush=True)


def requests():
    """A hundred WRITEs that succeed, and a SEND that fails."""
    a, b = pair(rnr=1)
    number(a)
    for each in range(100):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(64), wr_id=each << 12, remote=b.remote(), flags=SIG)
        good(poll(a.cq))
    a.send(e.IBV_WR_SEND, a.sge(8), wr_id=7, flags=SIG)
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    shut(a, b)


def lost_packets():
    """A SEND without a receive, and a packet to a queue pair that is gone."""
    a, b = pair(rnr=1)
    c, d = pair(timeout=8, retry=2)
    number(b, d)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    d.qp.close()
    c.send(e.IBV_WR_SEND, c.sge(8), flags=SIG)
    same(status(poll(c.cq)[0]), "RETRY_EXC_ERR", "the status")
    time.sleep(3)  # The script prints each second.
    shut(a, b, c)


def again():
    """An RNR NAK, a timeout, a packet that the responder misses."""
    a, b = pair(rnr=1)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    c, d = End(host_a()), End(host_b())
    connect(c, d, timeout=16)
    number(a, c)
    before = counters(DEV_A)["ack_timeouts"]
    netem("loss", "100%", side="A")
    c.send(e.IBV_WR_RDMA_WRITE, c.sge(8), remote=d.remote(), flags=SIG)
    until(lambda: counters(DEV_A)["ack_timeouts"] > before, "a timeout")
    netem("loss", "0", side="A")
    good(poll(c.cq))
    shut(a, b, c, d)


def with_loss():
    """64 packets at a time, while one of twenty is lost."""
    a, b = pair()
    number(a)
    netem("loss", "5%", side="A")
    for _ in range(20):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(), remote=b.remote(), flags=SIG)
        good(poll(a.cq))
    netem("loss", "0", side="A")
    shut(a, b)


# ---- the scripts


def run(script, traffic, *arguments):
    """What the script prints while that traffic goes, and the numbers of its queue pairs."""
    output = "-".join([f"{OUT or '/tmp'}/{script}", *arguments])
    child = f"{sys.executable} -u {__file__} {traffic.__name__}"
    done = subprocess.run(
        ["bpftrace", "-q", "-o", output, f"{SCRIPTS}/{script}.bt", "-c", child, *arguments],
        capture_output=True,
        text=True,
        timeout=120 * SLOW,
    )
    with open(output, encoding="utf-8") as file:
        text = file.read()
    # Beside the child's line bpftrace prints empty ones.
    problems = re.sub(r"^[\d ]*\n", "", done.stdout, flags=re.M) + done.stderr
    assert not done.returncode and not problems, f"status {done.returncode}: {problems}{text}"
    return text, [int(word) for word in done.stdout.split()]


def value(text, name, *keys):
    """A number of a map, by its keys; the keys that are not known are patterns."""
    (found,) = re.findall(rf"^@{name}\[{', '.join(map(str, keys))}\]: (\d+)$", text, re.M)
    return int(found)


def latency():
    text, (qpn,) = run("latency", requests)
    netdev = os.environ["VETH_A"]
    histogram = text.split(f"@microseconds[{netdev}, {qpn}]:")[1]
    counts = re.findall(r"^\[[^)\]]+[)\]] +(\d+) \|", histogram, re.M)
    same(sum(map(int, counts)), 100, "requests")
    same(value(text, "failed", netdev, qpn, e.IBV_WC_RNR_RETRY_EXC_ERR), 1, "failures")
    assert "@posted" not in text, text


def drops():
    text, (not_ready, gone) = run("drops", lost_packets)
    same(value(text, "dropped", "sent_rnr_err", os.environ["VETH_B"], not_ready), 2, "SENDs")
    same(value(text, "dropped", "rcvd_no_qp", os.environ["VETH_B"], gone) >= 3, True, "to no QP")
    assert text.rindex("@now") < text.index("@dropped"), text


def retransmits():
    text, (not_ready, lossy) = run("retransmits", again)
    netdev = os.environ["VETH_A"]
    same(value(text, "went_back", "rnr_nak", netdev, not_ready), 1, "waits")
    assert value(text, "went_back", "timeout", netdev, lossy) >= 1, text
    assert value(text, "most_retries", netdev, lossy) >= 1, text
    same(value(text, "most_rnr_retries", netdev, not_ready), 1, "RNR retries")
    assert "@name" not in text, text


def windows():
    text, (qpn,) = run("windows", with_loss)
    titles, *lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = [dict(zip(titles, line)) for line in lines]
    same({(row["netdev"], row["qp"]) for row in rows}, {(os.environ["VETH_A"], str(qpn))}, "QPs")
    times = [int(row["ms"]) for row in rows]
    same(times, sorted(times), "times")
    assert any(int(row["cwnd"]) < 128 for row in rows), text
    causes = {row["cause"] for row in rows}
    assert "ack" in causes and causes & {"sequence_nak", "probe", "timeout"}, causes


def of_another():
    text, _ = run("latency", requests, "4242424")
    same(text.strip(), "", "what is shown of a queue pair without traffic")


def names():
    """The causes in the scripts are those of the events."""
    with open(f"{os.environ['TRACING']}/events/oxe/oxe_window/format", encoding="ascii") as file:
        causes = dict(re.findall(r'\{ (\d+), "(\w+)" \}', file.read()))
    for script, without in (("windows", ()), ("retransmits", ("ack",))):
        with open(f"{SCRIPTS}/{script}.bt", encoding="ascii") as file:
            said = dict(re.findall(r'@name\[(\d+)\] = "(\w+)"', file.read()))
        wanted = {key: name for key, name in causes.items() if name not in without}
        same(said, wanted, f"names in {script}.bt")


TRAFFIC = (requests, lost_packets, again, with_loss)

if __name__ == "__main__":
    for each in TRAFFIC:
        if sys.argv[1:] == [each.__name__]:
            each()
            sys.exit()
    main(
        [
            ("latency by queue pair", latency),
            ("drops by reason", drops),
            ("retransmissions by cause", retransmits),
            ("windows over time", windows),
            ("a queue pair without traffic", of_another),
            ("the names of causes", names),
        ]
    )
