# SPDX-License-Identifier: GPL-2.0
"""The same program on the other side: the two meet on a TCP port, and tell each other what they
need to know."""

import json
import socket


def meet(port, server=None):
    """A connection to the server; without one, this is the server and waits for its client."""
    if server:
        return socket.create_connection((server, port))
    with socket.create_server(("", port)) as listener:
        return listener.accept()[0]


def swap(stream, thing):
    """Sends a value to the other side, and returns that of the other side."""
    stream.write(json.dumps(thing) + "\n")
    stream.flush()
    return json.loads(stream.readline())
