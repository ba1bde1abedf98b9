# SPDX-License-Identifier: GPL-2.0
"""Fail each allocation and each user copy of link add in turn (failing.py), by netlink messages of
our own: the rdma tool would be a process, and what is to fail is counted by thread."""

import errno
import os
import socket
import struct

from failing import every_site
from oxetest import main, same

LINK_TYPE = os.environ.get("LINK_TYPE", "oxe")
NAME, NETDEV = LINK_TYPE + "f", os.environ["NETDEV"]
SYSFS = "/sys/class/infiniband/" + NAME
# From rdma/rdma_netlink.h and linux/netlink.h.
NETLINK_RDMA, RDMA_NL_NLDEV = 20, 5
GET, NEWLINK, DELLINK = 1, 3, 4
DEV_INDEX, DEV_NAME, NDEV_NAME, LINK_TYPE_NAME = 1, 2, 51, 65
REQUEST, ACK, DUMP, DONE = 1, 4, 0x300, 3


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data):
    """The attributes of a message, by kind."""
    found, at = {}, 0
    while at < len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind] = data[at + 4 : at + length]
        at += length + -length % 4
    return found


def text(value):
    return value.encode() + b"\0"


class Netlink:
    """A socket of the RDMA netlink family in this thread's network namespace."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.socket.bind((0, 0))
        self.socket.settimeout(10)

    def send(self, command, flags, body=b""):
        self.socket.send(
            struct.pack(
                "=IHHII", 16 + len(body), (RDMA_NL_NLDEV << 10) + command, REQUEST | flags, 1, 0
            )
            + body
        )

    def call(self, command, body):
        """Raises the error that the kernel answers with."""
        self.send(command, ACK, body)
        try:
            answer = self.socket.recv(65536)
        except TimeoutError:
            raise OSError(errno.ENOMEM, "no answer: the kernel could not allocate it") from None
        code = struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(-code, os.strerror(-code))

    def index_of(self, name):
        """A device's index, by which it is deleted."""
        self.send(GET, DUMP)
        while True:
            data, at = self.socket.recv(65536), 0
            while at < len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == DONE:
                    raise LookupError(name)
                found = attributes(data[at + 16 : at + length])
                if found[DEV_NAME] == text(name):
                    return found[DEV_INDEX]
                at += length + -length % 4


def delete(*_):
    netlink = Netlink()
    index = netlink.index_of(NAME)
    netlink = Netlink()  # the rest of the list went with the first socket
    netlink.call(DELLINK, attribute(DEV_INDEX, index))
    same(os.path.exists(SYSFS), False, "the device is still there")


def port_is_free():
    """No device is left here, and none of its sockets."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(family, socket.SOCK_DGRAM) as udp:
            udp.bind(("", 4791))


def link_add():
    body = (
        attribute(DEV_NAME, text(NAME))
        + attribute(LINK_TYPE_NAME, text(LINK_TYPE))
        + attribute(NDEV_NAME, text(NETDEV))
    )

    def call(netlink):
        try:
            netlink.call(NEWLINK, body)
        except OSError:
            # The answer alone may have failed.
            if not os.path.exists(SYSFS):
                raise

    def prepare():
        port_is_free()
        return Netlink()

    with open("/run/netns/" + os.environ["NETNS"], "rb") as file:
        os.setns(file.fileno(), os.CLONE_NEWNET)
    # ENFILE: the kernel's sockets say so for an inode that could not be allocated.
    every_site(call, delete, prepare, also=(errno.ENFILE,))
    port_is_free()


CASES = [("add a link", link_add)]

if __name__ == "__main__":
    main(CASES)
