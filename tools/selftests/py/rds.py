# SPDX-License-Identifier: GPL-2.0
"""RDS: datagrams that arrive once and in order, between the addresses of two machines.

rds.py echo ADDRESS          sends each datagram back to its sender; one of no bytes ends it
rds.py ask ADDRESS PEER      random datagrams of many sizes go to the peer, some at a time, and
                             are compared when they come back
"""

import os
import select
import socket
import sys

PORT = 4000
SIZES = (1, 2, 63, 1000, 4096, 4097, 65536, 100001, 1 << 20)
AT_ONCE = 8


def bound(address, port):
    rds = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        rds.setsockopt(socket.SOL_SOCKET, option, 16 << 20)
    rds.bind((address, port))
    return rds


def received(rds, seconds):
    poller = select.poll()
    poller.register(rds, select.POLLIN)
    if not poller.poll(seconds * 1000):
        sys.exit("no datagram came")
    return rds.recvfrom(2 << 20)


def echo(address):
    with bound(address, PORT) as rds:
        while True:
            data, sender = received(rds, 600)
            rds.sendto(data, sender)
            if not data:
                # The answer to this is on its way until the peer has it.
                received(rds, 600)
                return


def ask(address, peer):
    limit = 120 * int(os.environ.get("SLOW", "1"))
    with bound(address, 0) as rds:
        for size in SIZES:
            for _ in range(3):
                sent = [os.urandom(size) for _ in range(AT_ONCE if size < 1 << 17 else 2)]
                for data in sent:
                    rds.sendto(data, (peer, PORT))
                for number, data in enumerate(sent):
                    got, sender = received(rds, limit)
                    if sender != (peer, PORT) or got != data:
                        sys.exit(f"datagram {number} of {size} bytes came back as another one")
            print(f"{size} bytes: as they were sent")
        rds.sendto(b"", (peer, PORT))
        received(rds, limit)
        rds.sendto(b"", (peer, PORT))
        received_nothing = select.select([rds], [], [], 1)[0]
        if received_nothing:
            sys.exit("a datagram too many")


if sys.argv[1] == "echo":
    echo(sys.argv[2])
else:
    ask(sys.argv[2], sys.argv[3])
