# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets by hand, right and wrong ones, and a socket that sends them from a host of one's choice.

Own code from the specification (IBTA Vol 1 chapter 9, annex A17), nothing of the driver: what both agree on is right.
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
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD = range(12, 21)
UD_SEND_ONLY, UD_SEND_ONLY_IMM = 0x64, 0x65


def bth(opcode, qpn, psn, pad=0, version=0, pkey=0xffff, solicited=0, ack=1, migrate=1, reserved=0):
    return struct.pack("!BBHII", opcode, solicited << 7 | migrate << 6 | pad << 4 | version, pkey, reserved << 24 | qpn,
                       ack << 31 | (psn & 0xffffff))


def reth(address, rkey, length):
    return struct.pack("!QII", address & (2**64 - 1), rkey, length)


def aeth(syndrome, msn=0):
    return struct.pack("!I", syndrome << 24 | msn)


def atomic_eth(address, rkey, swap, compare):
    return struct.pack("!QIQQ", address & (2**64 - 1), rkey, swap, compare)


def deth(qkey, qpn):
    return struct.pack("!II", qkey, qpn)


def ipv4(source, destination, length, ident=0x1234):
    """Header with its checksum zero: the kernel fills that in."""
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, ident, 0x4000, 64, 17, 0, socket.inet_aton(source),
                       socket.inet_aton(destination))


def icrc(ip, udp_payload, source_port):
    """Over ones in place of what a router may change; udp_payload without the ICRC."""
    masked = bytearray(ip)
    masked[1] = 0xff
    masked[8] = 0xff
    masked[10:12] = b"\xff\xff"
    udp = struct.pack("!HHHH", source_port, PORT, 8 + len(udp_payload) + 4, 0xffff)
    body = bytearray(udp_payload)
    if len(body) > 4:
        body[4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked) + udp + bytes(body)))


class Attacker:
    """Sends UDP datagrams to port 4791 from a network namespace, under any IPv4 source address of its own choice."""

    def __init__(self, namespace, source, destination):
        self.source, self.destination = source, destination
        made = []

        def make():
            # A namespace belongs to a thread: this one ends and takes it along, the socket stays.
            with open(f"/run/netns/{namespace}", "rb") as file:
                os.setns(file.fileno(), os.CLONE_NEWNET)
            made.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        self.socket, = made
        self.ident = 0

    def raw(self, udp_payload, port=49152, length=None):
        """The bytes as they are as payload of a datagram; length: what the UDP header says."""
        self.ident = self.ident % 65535 + 1
        udp = struct.pack("!HHHH", port, PORT, 8 + len(udp_payload) if length is None else length, 0)
        packet = ipv4(self.source, self.destination, 8 + len(udp_payload), self.ident) + udp + udp_payload
        self.socket.sendto(packet, (self.destination, 0))

    def send(self, body, port=49152, good=True):
        """BTH and what follows, with an ICRC appended, good or bad."""
        ip = ipv4(self.source, self.destination, 8 + len(body) + 4, self.ident % 65535 + 1)
        crc = icrc(ip, body, port)
        self.raw(body + (crc if good else bytes((crc[0] ^ 1,)) + crc[1:]), port)
