# SPDX-License-Identifier: GPL-2.0
"""Tests of the judge of congestion notification: it sees each thing that may be wrong.

Usage: python3 -m unittest discover -s tools/selftests/py
"""

import contextlib
import io
import os
import struct
import sys
import tempfile
import unittest
from unittest import mock

import cnps
import partners
import roce

# A is notified of what B sends to it.
A, B = ("10.0.0.1", 17), ("10.0.0.2", 34)
SIX_A, SIX_B = ("fd00::1", 18), ("fd00::2", 35)
PARTNERS = {A: {B}, B: {A}, SIX_A: {SIX_B}, SIX_B: {SIX_A}}
CNP_TOS = 48 << 2
ECT_1, ECT_0, CE = 1, 2, 3


def frame(source, to, body, tos=0, bad_icrc=False):
    """A frame around a BTH and what follows."""
    length = 8 + len(body) + 4
    if ":" in source:
        ip, kind = roce.ipv6(source, to, length, tos), 0x86DD
    else:
        ip, kind = roce.ipv4(source, to, length, tclass=tos), 0x0800
    crc = roce.icrc(ip, body, 49152)
    if bad_icrc:
        crc = bytes((crc[0] ^ 1,)) + crc[1:]
    udp = struct.pack("!HHHH", 49152, roce.PORT, length, 0)
    return bytes(12) + struct.pack("!H", kind) + ip + udp + body + crc


def data(a=A, b=B, tos=CE, opcode=roce.WRITE_MIDDLE, payload=64, **more):
    """A packet of B with payload."""
    return frame(b[0], a[0], roce.bth(opcode, a[1], 9, **more) + bytes(payload), tos)


def cnp(a=A, b=B, tos=CNP_TOS, zeros=bytes(16), bad_icrc=False, **more):
    """A CNP of A."""
    bits = {"psn": 0, "ack": 0, "migrate": 0, "reserved": 0x40} | more
    body = roce.bth(roce.CNP, b[1], **bits) + zeros
    return frame(a[0], b[0], body, tos, bad_icrc)


def ack(a=A, b=B, tos=0):
    return frame(a[0], b[0], roce.bth(roce.ACK, b[1], 9, ack=0) + roce.aeth(0), tos)


def capture(frames, step=10, kept=192):
    """A file of the beginnings of them, so many microseconds apart."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for n, each in enumerate(frames):
        head += struct.pack("<II", *divmod(step * n, 10**6))
        head += struct.pack("<II", min(len(each), kept), len(each)) + each[:kept]
    return head


def judged(*frames, step=10, **options):
    judge = cnps.Judge(PARTNERS, **{"reacts": [B[0], SIX_B[0]], "slack": 0} | options)
    for packet in cnps.packets(capture(frames, step)):
        judge.see(packet)
    return judge


class Cnps(unittest.TestCase):
    def blames(self, text, *frames, **options):
        judge = judged(*frames, **options)
        self.assertEqual(len(judge.wrong), 1, judge.wrong)
        self.assertIn(text, judge.wrong[0])

    def passes(self, *frames, **options):
        judge = judged(*frames, **options)
        self.assertEqual(judge.wrong, [])
        return judge.counts

    def test_marked_packets_have_a_cnp_each(self):
        counts = self.passes(data(), cnp(), data(), data(tos=ECT_0), cnp(), ack())
        expected = {"packets": 6, "capable": 3, "marked": 2, "CNPs": 2}
        self.assertEqual(counts, expected)
        self.passes(data(SIX_A, SIX_B), cnp(SIX_A, SIX_B))

    def test_no_mark_no_cnp(self):
        text = "no marked packet"
        self.blames(text, data(tos=ECT_0), cnp())
        self.blames(text, cnp(), data())
        self.blames(text, data(), cnp(), cnp())

    def test_a_mark_of_another_queue_pair_is_none(self):
        other = (A[0], 99)
        self.blames("no marked packet", data(other), cnp())
        self.blames("no marked packet", data(B, A), cnp(), reacts=[A[0]])
        self.blames("no marked packet", data(), cnp(A, (B[0], 35)))

    def test_marks_of_packets_without_payload_are_none(self):
        rewritten = {"rewritten": [B[0]]}
        self.blames("no marked packet", data(payload=0), cnp(), **rewritten)
        request = roce.bth(roce.READ_REQUEST, A[1], 9) + roce.reth(0, 1, 100)
        self.passes(frame(B[0], A[0], request + bytes(4) + request))
        self.blames("no marked packet", frame(B[0], A[0], request, CE), cnp(), **rewritten)
        self.passes(data(payload=4), cnp())

    def test_each_bit_of_a_cnp(self):
        self.blames("begins with", data(), cnp(migrate=1))
        self.blames("begins with", data(), cnp(pkey=0x7FFF))
        self.blames("begins with", data(), cnp(pad=1))
        self.blames("begins with", data(), cnp(solicited=1))
        for text, wrong in [
            ("reserved bytes", cnp(psn=1)),
            ("reserved bytes", cnp(ack=1)),
            ("reserved bytes", cnp(zeros=bytes(15) + b"\x01")),
            ("reserved bytes", cnp(zeros=bytes(12))),
            ("DSCP 0", cnp(tos=0)),
            ("ICRC", cnp(bad_icrc=True)),
            ("ECN field 2", cnp(tos=CNP_TOS | ECT_0)),
        ]:
            self.blames(text, data(), wrong)

    def test_one_in_the_interval(self):
        frames = [data(), data(), cnp(), cnp()]
        self.passes(*frames, interval=10)
        self.blames("1 us too early", *frames, interval=11)
        self.passes(*frames, interval=11, slack=1)
        # Lateness is no credit for ever.
        many = [data()] * 4 + [cnp()] * 4
        self.assertEqual(len(judged(*many, interval=20, slack=10).wrong), 2)
        other = (A[0], 18), (B[0], 35)
        with mock.patch.dict(PARTNERS, {other[0]: {other[1]}}):
            self.passes(data(), data(*other), cnp(), cnp(*other), interval=1000)

    def test_a_super_packet_may_have_several(self):
        self.passes(data(payload=10000), *[cnp()] * 9)
        self.assertTrue(judged(data(payload=10000), *[cnp()] * 40).wrong)

    def test_datagrams_name_their_sender(self):
        body = roce.bth(roce.UD_SEND_ONLY, 77, 9) + roce.deth(1, B[1]) + bytes(64)
        marked = frame(B[0], A[0], body, CE)
        self.passes(marked, cnp(), rewritten=[B[0]])
        self.blames("no marked packet", marked, cnp(A, (B[0], 35)), rewritten=[B[0]])
        self.blames("ECN field 3", marked)
        self.passes(
            frame(B[0], A[0], roce.bth(roce.UD_SEND_ONLY, 77, 9) + roce.deth(1, 5), 0),
        )

    def test_what_is_capable(self):
        self.blames("its connection reacts", data(tos=0))
        self.blames("its connection reacts", data(tos=ECT_1))
        self.blames("nothing reacts", data(B, A, tos=ECT_0))
        self.blames("nothing reacts", data(B, A, tos=CE))
        self.blames("nothing reacts", ack(tos=ECT_0), reacts=[A[0]])
        self.blames("nothing reacts", data(payload=0, tos=ECT_0))
        self.blames("nothing reacts", data(opcode=0x20 | roce.SEND_ONLY, tos=ECT_0))
        self.passes(data(opcode=0x20 | roce.SEND_ONLY, tos=0))
        self.passes(ack(tos=CE), data(B, A, tos=ECT_1), rewritten=[A[0]])


class Files(unittest.TestCase):
    def run_on(self, *frames, needs="packets"):
        with tempfile.TemporaryDirectory() as where:
            file, connections = os.path.join(where, "pcap"), os.path.join(where, "pairs")
            with open(file, "wb") as out:
                out.write(capture(frames))
            with mock.patch.dict(os.environ, {"PAIRS": connections}):
                partners.note("::ffff:10.0.0.1", A[1], "::ffff:10.0.0.2", B[1])
                partners.note(*SIX_A, *SIX_B)
            self.assertEqual(partners.read(connections), PARTNERS)
            arguments = ["cnps.py", file, connections, "--reacts", B[0], "--needs", needs]
            with mock.patch.object(sys, "argv", arguments):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    return cnps.main(), out.getvalue()

    def test_the_status_says_whether_something_is_wrong(self):
        status, text = self.run_on(data(), cnp())
        self.assertEqual((status, text), (False, "2 packets 1 capable 1 marked 1 CNPs\n"))
        status, text = self.run_on(cnp())
        self.assertTrue(status)
        self.assertIn("packet 1 10.0.0.1 > 10.0.0.2 opcode 0x81: no marked packet", text)
        self.assertTrue(self.run_on()[0])
        self.assertFalse(self.run_on(data(tos=ECT_0), needs="capable")[0])
        self.assertTrue(self.run_on(data(tos=ECT_0), needs="CNPs")[0])
        self.assertTrue(self.run_on(bytes(60))[0])


if __name__ == "__main__":
    unittest.main()
