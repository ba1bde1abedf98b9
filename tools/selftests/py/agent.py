# SPDX-License-Identifier: GPL-2.0
"""Carries out, on the server's machine, what the client's test orders: one order a TCP connection,
one line each.

    ping                      answers
    start READY COMMAND       starts the shell line; answers when it listens (READY: tcp:PORT,
                              cm:PORT or none)
    finish SECONDS            waits so long for its end, then kills it; answers its status and
                              output
    quit                      ends the agent
The answer's first line is a status, 0 for well; then text.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

process, output = None, "/tmp/agent.out"


def listening(ready):
    kind, _, port = ready.partition(":")
    if kind == "none":
        time.sleep(0.5)
        return True
    if kind == "tcp":
        want = re.compile(f":{int(port):04X} 0+:0000 0A")
        for name in ("tcp", "tcp6"):
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                if want.search(file.read()):
                    return True
        return False
    text = subprocess.run(
        ["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=False
    ).stdout
    return re.search(f"state LISTEN.*:{port}( |$)", text, re.M) is not None


def start(ready, command):
    global process
    if process is not None:
        finish(0)
    with open(output, "wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", command],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    end = time.monotonic() + 60 * int(os.environ.get("SLOW", "1"))
    while not listening(ready):
        if process.poll() is not None or time.monotonic() > end:
            return 1, "the server does not listen\n" + finish(0)[1]
        time.sleep(0.1)
    return 0, ""


def finish(seconds):
    global process
    if process is None:
        return 1, "nothing was started"
    try:
        status = process.wait(seconds * int(os.environ.get("SLOW", "1")))
    except subprocess.TimeoutExpired:
        status = 124
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process = None
    with open(output, encoding="utf-8", errors="replace") as file:
        return status % 256, file.read()


with socket.create_server(("", int(sys.argv[1]))) as server:
    running = True
    while running:
        peer, _ = server.accept()
        with peer:
            words = peer.makefile().readline().strip().split(" ", 2)
            if words[0] == "start":
                status, text = start(words[1], words[2])
            elif words[0] == "finish":
                status, text = finish(int(words[1]))
            else:
                status, text = 0, ""
                running = words[0] != "quit"
            peer.sendall(f"{status}\n{text}\n".encode())
