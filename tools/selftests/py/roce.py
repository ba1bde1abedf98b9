# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets by hand, right and wrong ones, and a socket that sends them from a host of one's
choice.

Written from the specification (IBTA Vol 1 chapter 9, annexes A17 and A19), without code of the
driver: a result of both is right.
"""

import os
import socket
import struct
import threading
import zlib

PORT = 4791
# Length of the headers after the BTH by opcode (low five bits), for the RC service.
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
(
    READ_REQUEST,
    READ_FIRST,
    READ_MIDDLE,
    READ_LAST,
    READ_ONLY,
    ACK,
    ATOMIC_ACK,
    CMP_SWAP,
    FETCH_ADD,
) = range(12, 21)
FLUSH, ATOMIC_WRITE = 0x1C, 0x1D
UD_SEND_ONLY, UD_SEND_ONLY_IMM, CNP = 0x64, 0x65, 0x81


def bth(opcode, qpn, psn, pad=0, version=0, pkey=0xFFFF, solicited=0, ack=1, migrate=1, reserved=0):
    return struct.pack(
        "!BBHII",
        opcode,
        solicited << 7 | migrate << 6 | pad << 4 | version,
        pkey,
        reserved << 24 | qpn,
        ack << 31 | (psn & 0xFFFFFF),
    )


def reth(address, rkey, length):
    return struct.pack("!QII", address & (2**64 - 1), rkey, length)


def feth(placement, level):
    return struct.pack("!I", level << 4 | placement)


def aeth(syndrome, msn=0):
    return struct.pack("!I", syndrome << 24 | msn)


def atomic_eth(address, rkey, swap, compare):
    return struct.pack("!QIQQ", address & (2**64 - 1), rkey, swap, compare)


def deth(qkey, qpn):
    return struct.pack("!II", qkey, qpn)


def ipv4(source, destination, length, ident=0x1234, tclass=0):
    """Header with its checksum zero: the kernel fills that in."""
    return struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        tclass,
        20 + length,
        ident,
        0x4000,
        64,
        17,
        0,
        socket.inet_aton(source),
        socket.inet_aton(destination),
    )


def ipv6(source, destination, length, tclass=0):
    return struct.pack(
        "!IHBB16s16s",
        6 << 28 | tclass << 20,
        length,
        17,
        64,
        socket.inet_pton(socket.AF_INET6, source),
        socket.inet_pton(socket.AF_INET6, destination),
    )


def icrc(ip, udp_payload, source_port):
    """The ICRC: over ones in place of the fields that a router may change; udp_payload without the
    ICRC."""
    masked = bytearray(ip)
    if ip[0] >> 4 == 6:
        masked[0:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xFF
    else:
        masked[1] = 0xFF
        masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    udp = struct.pack("!HHHH", source_port, PORT, 8 + len(udp_payload) + 4, 0xFFFF)
    body = bytearray(udp_payload)
    if len(body) > 4:
        body[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked) + udp + bytes(body)))


def in_namespace(namespace, function, *args):
    """The result of the function, run in a network namespace. A thread of its own enters the
    namespace, and ends."""
    made = []

    def run():
        with open(f"/run/netns/{namespace}", "rb") as file:
            os.setns(file.fileno(), os.CLONE_NEWNET)
        made.append(function(*args))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (result,) = made
    return result


class Sender:
    """Sends UDP datagrams to port 4791 from a network namespace, under any source address of its
    own choice, IPv4 or IPv6."""

    def __init__(self, namespace, source, destination, tclass=0):
        self.source, self.destination, self.tclass = source, destination, tclass
        self.v6 = ":" in source
        family = socket.AF_INET6 if self.v6 else socket.AF_INET
        self.socket = in_namespace(
            namespace, socket.socket, family, socket.SOCK_RAW, socket.IPPROTO_RAW
        )
        self.ident = 0

    def header(self, length, ident):
        """The IP header before so many bytes."""
        if self.v6:
            return ipv6(self.source, self.destination, length, self.tclass)
        return ipv4(self.source, self.destination, length, ident, self.tclass)

    def raw(self, udp_payload, port=49152, length=None):
        """Sends the bytes as they are as the payload of a datagram; length: that in the UDP
        header."""
        self.ident = self.ident % 65535 + 1
        full = 8 + len(udp_payload)
        udp = struct.pack("!HHHH", port, PORT, full if length is None else length, 0)
        packet = self.header(full, self.ident) + udp + udp_payload
        self.socket.sendto(packet, (self.destination, 0))

    def send(self, body, port=49152, good=True):
        """BTH and what follows, with an ICRC appended, good or bad."""
        ip = self.header(8 + len(body) + 4, self.ident % 65535 + 1)
        crc = icrc(ip, body, port)
        self.raw(body + (crc if good else bytes((crc[0] ^ 1,)) + crc[1:]), port)


def ones_sum(data):
    """The Internet checksum (RFC 1071) before it is inverted."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class GsoSocket:
    """Sends UDP GSO super-packets that are segmented later, as those of a virtual machine: the
    kernel does not trust them (DODGY)."""

    PACKET_VNET_HDR, NEEDS_CSUM, GSO_UDP_L4 = 15, 1, 5

    def __init__(self, namespace, netdev, mac, source, destination):
        def make():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.setsockopt(263, self.PACKET_VNET_HDR, 1)  # 263: SOL_PACKET
            made.bind((netdev, 0x0800))
            return made

        self.socket = in_namespace(namespace, make)
        self.source, self.destination, self.ident = source, destination, 1
        self.ether = (
            bytes.fromhex(mac.replace(":", "")) + self.socket.getsockname()[4] + b"\x08\x00"
        )

    def raw(self, payload, each, port=49152):
        """Sends the bytes as they are, to be cut into datagrams with `each` bytes."""
        ip = bytearray(ipv4(self.source, self.destination, 8 + len(payload), self.ident))
        ip[10:12] = struct.pack("!H", ones_sum(ip) ^ 0xFFFF)
        pseudo = bytes(ip[12:20]) + struct.pack("!HH", 17, 8 + len(payload))
        udp = struct.pack("!HHHH", port, PORT, 8 + len(payload), ones_sum(pseudo))
        wanted = struct.pack("=BBHHHH", self.NEEDS_CSUM, self.GSO_UDP_L4, 42, each, 34, 6)
        self.socket.send(wanted + self.ether + ip + udp + payload)
        self.ident = (self.ident + len(payload) // max(each, 1) + 1) % 0xF000

    def send(self, bodies, port=49152, bad=()):
        """BTHs and what follows, an ICRC appended to each, a bad one to those whose number is in
        bad. All have one length, but the last may have less."""
        super_packet = b""
        for n, body in enumerate(bodies):
            crc = icrc(
                ipv4(self.source, self.destination, 8 + len(body) + 4, self.ident + n), body, port
            )
            super_packet += body + (bytes((crc[0] ^ 1,)) + crc[1:] if n in bad else crc)
        self.raw(super_packet, len(bodies[0]) + 4, port)
