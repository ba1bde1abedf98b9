# SPDX-License-Identifier: GPL-2.0
"""The judge of congestion notification in a capture of both directions of a wire.

- A CNP comes after a packet with payload that was marked CE and went the other way, from the queue
  pair that it notifies; a marked packet has one CNP at most.
- A CNP is as IBTA annex A17.9.3 and a captured one of ConnectX have it, and its ICRC is right.
- A queue pair sends one in the interval at most.
- Packets with payload of connections that react are ECN-capable, ECT(0), and no others are.

Usage: cnps.py FILE PAIRS [--reacts ADDRESS]... [--rewritten ADDRESS]... [--interval US]
               [--slack US] [--needs COUNT]...

PAIRS: what partners.py wrote. --reacts: the connections of that host react. --rewritten: what the
host sends has its ECN field from a firewall, which does not heed what the sender wrote. --slack: by
how much the capture may be late. --needs: there must be some of these: capable, marked, CNPs.
Prints counts, and what is wrong. Super-packets count by their first packet.
"""

import argparse
import collections
import ipaddress
import struct
import sys

import partners
import roce

NOT_ECT, ECT_1, ECT_0, CE = range(4)
CNP_DSCP = 48
ICRC = 4
# The longest datagram of a path MTU of 4096, and the shortest but the last of a super-packet.
LONGEST, SHORTEST = 4200, 272
# Bytes of the headers after the BTH, by the operation; UC has some of these operations.
RETH, AETH, IMM, ATOMIC, DETH = 16, 4, 4, 28, 8
EXTENDED = {
    roce.SEND_LAST_IMM: IMM,
    roce.SEND_ONLY_IMM: IMM,
    roce.WRITE_FIRST: RETH,
    roce.WRITE_LAST_IMM: IMM,
    roce.WRITE_ONLY: RETH,
    roce.WRITE_ONLY_IMM: RETH + IMM,
    roce.READ_REQUEST: RETH,
    roce.READ_FIRST: AETH,
    roce.READ_LAST: AETH,
    roce.READ_ONLY: AETH,
    roce.ACK: AETH,
    roce.ATOMIC_ACK: AETH + 8,
    roce.CMP_SWAP: ATOMIC,
    roce.FETCH_ADD: ATOMIC,
    0x16: IMM,  # SENDs with invalidate
    0x17: IMM,
    roce.FLUSH: 4 + RETH,
    roce.ATOMIC_WRITE: RETH,
}
RC, UC, UD = 0, 1, 3

# These have no payload, and a super-packet may have several.
BARE = {roce.READ_REQUEST, roce.ACK, roce.ATOMIC_ACK, roce.CMP_SWAP, roce.FETCH_ADD, roce.FLUSH}

# The body is the UDP payload; it may be cut, and has so many bytes on the wire.
Packet = collections.namedtuple("Packet", "number time source to tos ip port body size")


def frames(data):
    """The frames of a capture (pcap) of Ethernet: the time in microseconds, what was kept, and how
    long it was."""
    order, unit = {
        b"\xd4\xc3\xb2\xa1": ("<", 1),
        b"\xa1\xb2\xc3\xd4": (">", 1),
        b"\x4d\x3c\xb2\xa1": ("<", 1000),
        b"\xa1\xb2\x3c\x4d": (">", 1000),
    }[data[:4]]
    (link,) = struct.unpack_from(order + "I", data, 20)
    if link != 1:
        raise ValueError(f"link type {link}")
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, kept, full = struct.unpack_from(order + "4I", data, at)
        at += 16
        yield seconds * 1e6 + fraction / unit, data[at : at + kept], full
        at += kept


def packets(data):
    """The RoCE packets of a capture."""
    for number, (time, frame, full) in enumerate(frames(data), 1):
        (kind,) = struct.unpack_from("!H", frame, 12)
        ip = frame[14:]
        if kind == 0x0800:
            head, protocol, tos = 20, ip[9], ip[1]
            source, to = ip[12:16], ip[16:20]
        elif kind == 0x86DD:
            head, protocol, tos = 40, ip[6], struct.unpack_from("!H", ip)[0] >> 4 & 0xFF
            source, to = ip[8:24], ip[24:40]
        else:
            continue
        if protocol != 17 or len(ip) < head + 8 + 12 + ICRC:
            continue
        port, dest, length = struct.unpack_from("!HHH", ip, head)
        if dest != roce.PORT:
            continue
        source, to = (str(ipaddress.ip_address(address)) for address in (source, to))
        # Of a super-packet the length may be 0.
        size = (length or full - 14 - head) - 8
        body = ip[head + 8 : head + 8 + size]
        yield Packet(number, time, source, to, tos, ip[:head], port, body, size)


def payload_of(packet):
    """Bytes of the payload, padding included."""
    service, operation = divmod(packet.body[0], 0x20)
    if operation in BARE:
        return 0
    extended = EXTENDED.get(operation, 0) + (DETH if service == UD else 0)
    return packet.size - 12 - extended - ICRC


class Judge:
    """Sees the packets in their order, and keeps what is wrong."""

    def __init__(self, known, reacts=(), rewritten=(), interval=4, slack=1000):
        self.partners, self.reacts, self.rewritten = known, set(reacts), set(rewritten)
        self.interval, self.slack = interval, slack
        # Marked packets without a CNP, and when the next CNP is due at the earliest: by the host
        # that notifies, and the queue pair that is notified.
        self.marked, self.due = collections.Counter(), {}
        self.counts, self.wrong = collections.Counter(), []

    def see(self, packet):
        self.counts["packets"] += 1
        if packet.body[0] == roce.CNP:
            self.see_cnp(packet)
            self.see_ecn(packet, False)
            return
        payload = payload_of(packet) > 0
        self.see_ecn(packet, payload and packet.body[0] // 0x20 == RC)
        if packet.tos & 3 == CE and payload:
            self.see_mark(packet)

    def blame(self, packet, text):
        self.wrong.append(
            f"packet {packet.number} {packet.source} > {packet.to} "
            f"opcode {packet.body[0]:#04x}: {text}"
        )

    def see_ecn(self, packet, connection_payload):
        field = packet.tos & 3
        if packet.source in self.rewritten:
            return
        capable = connection_payload and packet.source in self.reacts
        if not capable and field != NOT_ECT:
            self.blame(packet, f"ECN field {field}, and nothing reacts")
        elif capable and field not in (ECT_0, CE):
            self.blame(packet, f"ECN field {field}, and its connection reacts")
        self.counts["capable"] += capable

    def see_mark(self, packet):
        self.counts["marked"] += 1
        dest = int.from_bytes(packet.body[5:8], "big")
        if packet.body[0] // 0x20 == UD:
            senders = {(packet.source, int.from_bytes(packet.body[17:20], "big"))}
        else:
            senders = self.partners.get((packet.to, dest), ())
        most = packet.size // SHORTEST if packet.size > LONGEST else 1
        for sender in senders:
            self.marked[packet.to, sender] += most

    def see_cnp(self, packet):
        self.counts["CNPs"] += 1
        body, tos = packet.body, packet.tos
        notified = packet.source, (packet.to, int.from_bytes(body[5:8], "big"))
        if body[:5] != bytes.fromhex("81 00 ff ff 40"):
            self.blame(packet, f"begins with {body[:5].hex(' ')}")
        if body[8:-ICRC] != bytes(20):
            self.blame(packet, f"AckReq, PSN and reserved bytes are {body[8:-ICRC].hex(' ')}")
        if tos >> 2 != CNP_DSCP:
            self.blame(packet, f"DSCP {tos >> 2}")
        if body[-ICRC:] != roce.icrc(packet.ip, body[:-ICRC], packet.port):
            self.blame(packet, "ICRC")
        if not self.marked[notified]:
            self.blame(packet, "no marked packet has come that has no CNP yet")
        else:
            self.marked[notified] -= 1
        due = self.due.get(notified, packet.time)
        if packet.time + self.slack < due:
            self.blame(packet, f"{due - packet.time:.0f} us too early")
        self.due[notified] = max(due, packet.time) + self.interval


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("pairs")
    parser.add_argument("--reacts", action="append", default=[])
    parser.add_argument("--rewritten", action="append", default=[])
    parser.add_argument("--interval", type=float, default=4)
    parser.add_argument("--slack", type=float, default=1000)
    parser.add_argument("--needs", action="append", default=["packets"])
    options = parser.parse_args()
    judge = Judge(
        partners.read(options.pairs),
        options.reacts,
        options.rewritten,
        options.interval,
        options.slack,
    )
    with open(options.file, "rb") as file:
        for packet in packets(file.read()):
            judge.see(packet)
    print(*(f"{judge.counts[name]} {name}" for name in ("packets", "capable", "marked", "CNPs")))
    for line in judge.wrong[:20]:
        print(line)
    missing = [name for name in options.needs if not judge.counts[name]]
    if missing:
        print("there are no", *missing)
    return bool(judge.wrong or missing)


if __name__ == "__main__":
    sys.exit(main())
