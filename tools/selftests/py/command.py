# SPDX-License-Identifier: GPL-2.0
"""oxe why: each way in which a queue pair fails is made, and the sentence about it is seen, with
its remedy; counters likewise."""

import json
import os
import subprocess

import pyverbs.enums as e

from oxetest import (
    DEV_A,
    DEV_B,
    SIG,
    End,
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

NOBODY = 65534


def why(*args, code=1, **run):
    done = subprocess.run(
        ["oxe", "why", *map(str, args)], capture_output=True, text=True, check=False, **run
    )
    same((done.returncode, done.stderr), (code, ""), f"exit status; it says {done.stdout}")
    return done.stdout


def says(end, cause, remedy, **run):
    """That the queue pair has failed so, and what helps: words of the remedy."""
    host = end.host.name
    text = why(end.qp.qp_num, **run).splitlines()
    sentence = f"problem: QP {end.qp.qp_num} of {host} (python3) has failed: {cause}."
    same(text[0], sentence, "the sentence")
    if remedy not in text[1]:
        raise AssertionError(f"the remedy lacks {remedy!r}: {text[1]}")


def counted(device, name, words):
    """oxe why has this counter of the device's, with these words of its remedy."""

    def found():
        lines = why().splitlines()
        heads = [n for n, line in enumerate(lines) if line.startswith(f"problem: {device} {name} ")]
        return heads and words in lines[heads[0] + 1]

    until(found, f"a problem by {name} of {device}")


def wrong_rkey():
    a, b = pair()
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=(b.mr.buf, b.mr.rkey ^ 0x10000))
    same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", "the status")
    says(a, "request: REM_ACCESS_ERR", "See to the rkey")
    says(b, "responder: refused an access of the peer (REM_ACCESS_ERR)", "The peer's rkey")
    counted(DEV_B, "refused_request", "See to the peers' rkeys")
    # Without capabilities there is the state alone.
    text = why(a.qp.qp_num, user=NOBODY)
    sentence = f"problem: QP {a.qp.qp_num} of {DEV_A} (python3) is in the state ERR."
    same(text.splitlines()[0], sentence, "what nobody sees")
    same("REM_ACCESS" in text, False, "the cause, to nobody")
    shut(a, b)


def no_receive():
    a, b = pair(rnr=1)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    cause = "request: RNR_RETRY_EXC_ERR, the peer had no receive posted"
    says(a, cause, "Let the peer post more receives")
    counted(DEV_B, "sent_rnr_err", "Post more receives")
    shut(a, b)


def dead_peer():
    a, b = pair(timeout=10, retry=1)
    b.to_state(e.IBV_QPS_RESET)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", "the status")
    says(a, "request: RETRY_EXC_ERR, the peer did not acknowledge", "See whether the peer lives")
    counted(DEV_B, "rcvd_qp_state", "tells why it is in error")
    shut(a, b)


def wrong_gid():
    """The responder is connected to another address than the requester's."""
    a, b = End(host_a()), End(host_b())
    a.to_init()
    b.to_init()
    a.to_rtr(b.host.gid_value(), b.qp.qp_num, psn=0x456)
    b.to_rtr(b.host.gid_value(), a.qp.qp_num, psn=0x123)
    a.to_rts(psn=0x123, timeout=10, retry=1)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", "the status")
    counted(DEV_B, "rcvd_wrong_address", "GID indices of both ends")
    shut(a, b)


def wrong_lkey():
    a, b = pair()
    a.send(e.IBV_WR_SEND, a.sge(8, lkey=a.mr.lkey ^ 0x10000), flags=SIG)
    same(status(poll(a.cq)[0]), "LOC_PROT_ERR", "the status")
    says(a, "request: LOC_PROT_ERR", "See to the SGEs")
    shut(a, b)


def by_the_program():
    a, b = pair()
    a.to_state(e.IBV_QPS_ERR)
    says(a, "consumer: moved it to the error state", "the program, or its library")
    shut(a, b)


def loss():
    a, b = pair(timeout=14)
    root = ["dev", os.environ["VETH_A"], "root"]
    tc = ["ip", "netns", "exec", os.environ["NS_A"], "tc", "qdisc"]
    # Few enough that no packet is lost eight times in a row, which would end the connection.
    subprocess.run([*tc, "add", *root, "netem", "loss", "10%"], check=True)
    before = counters(DEV_B)["out_of_seq_request"]
    for _ in range(500):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(65536), remote=b.remote(), flags=SIG)
        good(poll(a.cq))
        if counters(DEV_B)["out_of_seq_request"] > before:
            break
    subprocess.run([*tc, "del", *root], check=True)
    counted(DEV_B, "out_of_seq_request", "The network loses or reorders packets")
    shut(a, b)


def of_one():
    """A queue pair that is well: its details, as text and as JSON."""
    a, b = pair()
    rows = dict(line.split(maxsplit=1) for line in why(a.qp.qp_num, code=0).splitlines()[:-1])
    wanted = {"device": DEV_A, "service": "RC", "state": "RTS", "cwnd": "32", "path": "wire"}
    same({key: rows.get(key) for key in wanted}, wanted, "rows")
    found = json.loads(why("-j", a.qp.qp_num, code=0))
    same((found["problems"], found["qps"][0]["qpn"]), ([], a.qp.qp_num), "JSON")
    shut(a, b)


def unknown():
    done = subprocess.run(["oxe", "why", "77777"], capture_output=True, text=True, check=False)
    same((done.returncode, done.stderr), (3, "oxe: there is no queue pair 77777\n"), "the end")


CASES = [
    ("a queue pair that is well", of_one),
    ("one that there is not", unknown),
    ("a wrong rkey", wrong_rkey),
    ("no receive", no_receive),
    ("a dead peer", dead_peer),
    ("a wrong GID", wrong_gid),
    ("a wrong lkey", wrong_lkey),
    ("the program itself", by_the_program),
    ("loss", loss),
]

if __name__ == "__main__":
    main([(f"oxe why: {name}", function) for name, function in CASES])
