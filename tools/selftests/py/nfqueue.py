# SPDX-License-Identifier: GPL-2.0
"""Accepts every packet of the NFQUEUE whose number is given, super-packets whole, by the kernel's
netlink interface (the headers linux/netfilter/nfnetlink.h and nfnetlink_queue.h). Says "ready"; at
SIGTERM how many there were, and how long the longest was.
"""

import signal
import socket
import struct
import sys

NETLINK_NETFILTER, NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR, SOL_NETLINK, NETLINK_NO_ENOBUFS = (
    12,
    1,
    4,
    2,
    270,
    5,
)
QUEUE, MSG_PACKET, MSG_VERDICT, MSG_CONFIG = 3 << 8, 0, 1, 2
CFG_CMD, CFG_PARAMS, CFG_QUEUE_MAXLEN, CFG_MASK, CFG_FLAGS = 1, 2, 3, 4, 5
CMD_BIND, COPY_META, F_GSO, VERDICT_HDR, PACKET_HDR, CAP_LEN, ACCEPT = 1, 1, 4, 2, 1, 13, 1

number = int(sys.argv[1])
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
link.bind((0, 0))
link.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
link.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def send(kind, body, flags=0):
    body = struct.pack(">BBH", 0, 0, number) + body
    link.send(
        struct.pack("=IHHII", 16 + len(body), QUEUE | kind, NLM_F_REQUEST | flags, 1, 0) + body
    )


def configure(*attributes):
    send(MSG_CONFIG, b"".join(attributes), NLM_F_ACK)
    answer = link.recv(65536)
    (kind,) = struct.unpack_from("=H", answer, 4)
    (error,) = struct.unpack_from("=i", answer, 16)
    if kind != NLMSG_ERROR or error:
        raise OSError(-error, "NFQUEUE")


def attributes(data):
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:size]
        data = data[(size + 3) & ~3 :]


def packets(data):
    """The packets that a datagram from the kernel tells of: identifier and length of each."""
    while len(data) >= 20:
        size, kind = struct.unpack_from("=IH", data)
        if kind == QUEUE | MSG_PACKET:
            found = dict(attributes(data[20:size]))
            yield struct.unpack_from(">I", found[PACKET_HDR])[0], struct.unpack(
                ">I", found.get(CAP_LEN, b"\0" * 4)
            )[0]
        data = data[(size + 3) & ~3 :]


configure(attribute(CFG_CMD, struct.pack(">BBH", CMD_BIND, 0, 0)))
configure(
    attribute(CFG_PARAMS, struct.pack(">IB", 64, 2)),
    attribute(CFG_QUEUE_MAXLEN, struct.pack(">I", 10000)),
    attribute(CFG_MASK, struct.pack(">I", F_GSO)),
    attribute(CFG_FLAGS, struct.pack(">I", F_GSO)),
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
print("ready")
count, longest = 0, 0
try:
    while True:
        for ident, length in packets(link.recv(1 << 20)):
            count, longest = count + 1, max(longest, length)
            send(MSG_VERDICT, attribute(VERDICT_HDR, struct.pack(">II", ACCEPT, ident)))
except KeyboardInterrupt:
    print(f"{count} packets, the longest of {longest} bytes")
