# SPDX-License-Identifier: GPL-2.0
"""A tun interface in each of two network namespaces; what is sent by one arrives at the other.

tun.py NAMESPACE NAMESPACE INTERFACE
"""

import fcntl
import os
import select
import struct
import sys

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x1, 0x1000


def tun(namespace, name):
    with open("/run/netns/" + namespace) as net:
        os.setns(net.fileno(), os.CLONE_NEWNET)
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end


def main():
    one, two = tun(sys.argv[1], sys.argv[3]), tun(sys.argv[2], sys.argv[3])
    other = {one: two, two: one}
    while True:
        for end in select.select([one, two], [], [])[0]:
            packet = os.read(end, 65536)
            try:
                os.write(other[end], packet)
            except OSError:
                pass  # the interface is down


main()
