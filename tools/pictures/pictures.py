# SPDX-License-Identifier: GPL-2.0
"""Draws the pictures of Documentation/ that explain a course of events.

Usage: pictures.py [--check]	--check: fail if the files there are not those of this script

The names in the pictures are those of the sources; nothing here is read from them.
"""

import pathlib
import sys

from canvas import BOX, GROUP, LOST, OURS, PAPER, Canvas

DOCUMENTATION = pathlib.Path(__file__).resolve().parent.parent.parent / "Documentation"


def message():
    """The way of a SEND over RC, and that of its ACK."""
    c = Canvas(860, 600, "The way of a message: send ring, engine, packets, rx, engine, completion")
    c.text(20, 24, "requester", size=14, bold=True)
    c.text(470, 24, "responder", size=14, bold=True)
    for x in (20, 470):
        c.line((x, 128), (x + 370, 128), arrow=False, dashed=True)
        c.text(x + 370, 122, "user", "end", 11)
        c.text(x + 370, 142, "kernel", "end", 11)

    c.box(20, 40, 190, 44, ("program", "ibv_post_send"), GROUP)
    c.line((60, 84), (60, 106))
    c.text(68, 100, "writes a WQE")
    c.box(20, 106, 130, 44, ("send ring", "shared"), OURS)
    c.line((176, 84), (176, 198))
    c.text(182, 112, "doorbell: write()")
    c.line((60, 150), (60, 198))
    c.box(20, 198, 250, 44, ("send queue", "snapshot, check, resolve keys"))
    c.line((145, 242), (145, 274))
    c.box(20, 274, 250, 44, ("engine", "poll_transmit: headers, byte ranges"))
    c.line((145, 318), (145, 350))
    c.box(
        20,
        350,
        250,
        60,
        ("tx_batch, gso", "headers + bytes of the regions", "+ ICRC of each packet"),
    )
    c.line((145, 410), (145, 442))
    c.box(20, 442, 250, 28, ("IP output",), bold=False)
    c.line((230, 470), (230, 540), (595, 540), (595, 472))
    c.text(460, 534, "RoCEv2 packets", "middle")
    c.box(12, 176, 266, 320, dashed=True, fill="none")
    c.text(20, 488, "in the doorbell's system call", size=11)

    c.box(470, 442, 250, 28, ("LOCAL_IN hook, behind the firewall",), bold=False)
    c.line((595, 442), (595, 410))
    c.box(470, 366, 250, 44, ("rx", "parse, find the QP, check the ICRC"))
    c.line((595, 366), (595, 318))
    c.box(470, 274, 250, 44, ("engine", "handle_segments"))
    c.box(470, 198, 150, 44, ("memory regions", "the bytes, copied once"))
    c.line((545, 274), (545, 244))
    c.line((670, 274), (670, 152))
    c.box(600, 106, 130, 44, ("CQ ring", "shared"), OURS)
    c.line((670, 106), (670, 86))
    c.box(540, 40, 190, 44, ("program", "ibv_poll_cq; an event if armed"), GROUP)
    c.box(462, 176, 266, 320, dashed=True, fill="none")
    c.text(605, 488, "in the packet's softirq", size=11)

    c.line((720, 296), (800, 296), (800, 572), (320, 572), (320, 152))
    c.text(560, 590, "ACK, sent in that softirq; it is handled in one of the requester's", "middle")
    c.line((320, 296), (272, 296))
    c.text(328, 292, "the window opens", size=11)
    c.line((320, 106), (320, 62), (212, 62))
    c.box(296, 106, 94, 44, ("CQ ring", "shared"), OURS)
    c.text(328, 176, "completion", size=11)
    return c


def super_packet():
    """An skb of several segments, and the packets that a network card makes of it."""
    c = Canvas(
        860, 330, "A super-packet: one IP and UDP header, segments with a BTH and an ICRC each"
    )
    c.text(20, 24, "in the network stack: one skb (UDP GSO), up to 64 KiB", size=14, bold=True)
    c.box(20, 40, 44, 40, ("Eth",), GROUP, bold=False)
    c.box(64, 40, 70, 40, ("IP", "ID 100"), GROUP, bold=False)
    c.box(134, 40, 56, 40, ("UDP", "4791"), GROUP, bold=False)
    segments = (
        ("MIDDLE", 7, 182),
        ("MIDDLE", 8, 182),
        ("MIDDLE", 9, 182),
        ("LAST", 10, 104),
    )
    x = 190
    for name, psn, width in segments:
        c.box(x, 40, 44, 40, ("BTH", f"{psn}"), OURS, bold=False)
        c.box(x + 44, 40, width - 82, 40, ("payload",) if width > 150 else (), BOX, bold=False)
        c.box(x + width - 38, 40, 38, 40, ("ICRC",), OURS, bold=False)
        c.text(x + width / 2, 116, f"{name}, PSN {psn}", "middle")
        c.line((x + 2, 92), (x + width - 2, 92), arrow=False)
        if name == "LAST":
            c.text(x + width / 2, 132, "may be shorter", "middle", 11)
        elif psn == 7:
            c.text(x + width / 2, 132, "gso_size bytes", "middle", 11)
        x += width
    c.line((40, 142), (40, 176))
    c.text(
        50, 163, "A network card segments it. veth does not, and GRO in a receiver merges it again."
    )

    c.text(20, 200, "on the wire: packets", size=14, bold=True)
    for at, (name, psn, width) in enumerate(segments):
        left = 20 + 212 * at
        y = 216
        c.box(left, y, 30, 40, ("Eth",), GROUP, bold=False)
        c.box(left + 30, y, 50, 40, ("IP", f"{100 + at}"), GROUP, bold=False)
        c.box(left + 80, y, 36, 40, ("UDP",), GROUP, bold=False)
        c.box(left + 116, y, 32, 40, ("BTH", f"{psn}"), OURS, bold=False)
        size = 24 if name == "MIDDLE" else 12
        c.box(left + 148, y, size, 40, (), BOX)
        c.box(left + 148 + size, y, 34, 40, ("ICRC",), OURS, bold=False)
    c.text(
        20,
        284,
        "The card counts the IPv4 identification up from packet to packet. The ICRC covers it,",
    )
    c.text(
        20,
        302,
        "so the sender computes the ICRC of each segment with the one that it will have.",
    )
    return c


def ring():
    """A send ring of eight elements: what is where, and who writes it."""
    c = Canvas(860, 400, "A shared ring: header with both indices, elements, and who writes what")
    c.text(20, 24, "send ring of 8 elements: one mapping of the process", size=14, bold=True)
    c.box(20, 40, 820, 200, fill=GROUP)
    c.text(34, 62, "byte")
    fields = (
        (0, "log2_elem_size", "driver, once"),
        (4, "index_mask", "driver, once"),
        (128, "producer_index = 5", "process"),
        (256, "consumer_index = 2", "driver"),
    )
    for at, (offset, name, writer) in enumerate(fields):
        x = 34 + 200 * at
        c.text(x, 82, f"{offset}")
        c.box(x, 88, 180, 44, (name, f"written by the {writer}"), OURS if at > 1 else BOX)
    c.text(34, 160, "384")
    for at in range(8):
        posted = 2 <= at < 5
        c.box(
            34 + 98 * at,
            166,
            98,
            40,
            (f"element {at}", "posted" if posted else "free"),
            OURS if posted else PAPER,
            bold=False,
        )
    c.line((279, 262), (279, 210))
    c.text(279, 278, "consumer index: the driver reads here next", "middle")
    c.line((573, 262), (573, 210))
    c.text(590, 278, "producer index: the process writes here next", "middle")
    c.text(840, 24, "Equal indices: empty. A ring of n elements holds n - 1.", "end")
    c.box(20, 300, 400, 84, fill=BOX)
    c.text(34, 322, "process (librxe)", bold=True, size=13)
    c.text(34, 342, "writes an element, then its index (release),")
    c.text(34, 360, "then the doorbell; may write anything, at any time")
    c.box(440, 300, 400, 84, fill=BOX)
    c.text(454, 322, "driver, in memory of its own", bold=True, size=13)
    c.text(454, 342, "stride, mask, its own index; a copy of each element,")
    c.text(454, 360, "checked after it was copied; all protocol state")
    return c


def loss():
    """Three losses on a time axis, and how the requester recovers."""
    c = Canvas(860, 480, "Loss and recovery: a NAK, a tail loss probe, an ACK timeout")

    def panel(x, title, requester, responder):
        c.text(x, 24, title, size=14, bold=True)
        c.text(x + 30, 48, requester, "middle", 11)
        c.text(x + 200, 48, responder, "middle", 11)
        c.line((x + 30, 56), (x + 30, 466), dashed=True)
        c.line((x + 200, 56), (x + 200, 466), dashed=True)

    def packet(x, y, text, lost=False):
        """One of the requester; a lost one ends half-way."""
        end = (x + 112, y + 17) if lost else (x + 198, y + 34)
        c.line((x + 30, y), end, lost=lost)
        if lost:
            c.text(x + 118, y + 24, "lost", fill=LOST)
        c.text(x + 36, y - 3, text, size=11)

    def answer(x, y, text):
        c.line((x + 200, y), (x + 32, y + 34))
        c.text(x + 196, y - 3, text, "end", 11)

    def note(x, y, *lines):
        for at, line in enumerate(lines):
            c.text(x, y + 14 * at, line, size=11)

    panel(20, "a packet is lost", "requester", "responder")
    packet(20, 76, "PSN 1")
    packet(20, 96, "2", lost=True)
    packet(20, 116, "3")
    packet(20, 136, "4")
    answer(20, 154, "")
    note(226, 150, "3: a gap,", "NAK 2", "drops 3, 4")
    note(56, 206, "NAK, PSN sequence error:", "cuts cwnd,", "goes back to 2")
    packet(20, 272, "2")
    packet(20, 292, "3")
    packet(20, 312, "4, AckReq")
    answer(20, 366, "ACK 4")
    note(56, 420, "cwnd grows again")

    panel(310, "the last packet is lost", "requester", "responder")
    packet(310, 76, "PSN 1")
    packet(310, 96, "2, AckReq", lost=True)
    note(346, 164, "no answer for", "several round trips")
    packet(310, 214, "2 again: tail loss probe")
    answer(310, 268, "ACK 2")
    note(346, 330, "No retry is counted, and", "the ACK timeout runs on.")

    panel(600, "nothing comes through", "requester", "responder")
    packet(600, 76, "PSN 1, AckReq", lost=True)
    packet(600, 126, "tail loss probes", lost=True)
    packet(600, 146, "", lost=True)
    packet(600, 186, "", lost=True)
    note(636, 236, "ACK timeout: a retry is", "counted; cwnd is 4")
    packet(600, 280, "1 again", lost=True)
    note(636, 336, "the timeouts from now on", "are twice the first")
    packet(600, 384, "1 again", lost=True)
    note(636, 430, "retry_cnt is used up:", "IBV_WC_RETRY_EXC_ERR")
    c.line((845, 60), (845, 466))
    c.text(838, 266, "time", "end", 11)
    return c


def machines():
    """What oxe-run starts on a user's machine."""
    c = Canvas(860, 430, "oxe-run: two virtual machines, joined by a wire, on a host without RDMA")
    c.group(10, 10, 840, 410, "any Linux on x86-64: no root, no RDMA hardware, no kernel module")
    c.box(
        290,
        40,
        280,
        58,
        ("oxe-run", "starts two QEMUs, waits, judges,", "ends with their status"),
        OURS,
    )
    c.box(30, 44, 200, 50, ("bundle", "kernel, root file system, oxe.ko"))
    c.line((230, 69), (288, 69))
    c.box(630, 44, 200, 50, ("current directory", "program, input files"))
    c.line((630, 60), (572, 60))
    c.line((570, 80), (628, 80))
    c.text(600, 110, "new files, logs", "middle", 11)
    for x, name, address in ((30, "server", "10.99.0.1"), (480, "client", "10.99.0.2")):
        c.line((430, 98), (430, 116), (x + 175, 116), (x + 175, 136))
        c.group(x, 138, 350, 206, f"QEMU, KVM or emulated: {name}")
        line = f"--{name} 'LINE': your program, unmodified"
        c.box(x + 20, 168, 310, 28, (line,), PAPER, bold=False)
        c.line((x + 175, 196), (x + 175, 208), arrow=False)
        c.box(x + 20, 208, 310, 28, ("libibverbs, librxe of Debian 13",), bold=False)
        c.line((x + 175, 236), (x + 175, 248), arrow=False)
        line = f"{address}, on eth0; Debian's kernel as shipped"
        c.box(x + 20, 248, 310, 40, ("oxe0", line), OURS)
        c.line((x + 175, 288), (x + 175, 300), arrow=False)
        c.box(x + 20, 300, 310, 28, ("eth0: virtio-net",), bold=False)
    c.line((205, 328), (205, 376), (655, 376), (655, 328), arrow=False)
    c.text(430, 368, "wire: a Unix socket (QEMU's netdev stream)", "middle")
    c.text(430, 396, "--netem delays and drops at either end; --pcap writes it all", "middle", 11)
    return c


PICTURES = {
    "message.svg": message,
    "superpacket.svg": super_packet,
    "ring.svg": ring,
    "recovery.svg": loss,
    "oxe-run.svg": machines,
}


def main():
    for name, draw in PICTURES.items():
        path, new = DOCUMENTATION / name, draw().svg()
        if sys.argv[1:] != ["--check"]:
            path.write_text(new)
        elif not path.exists() or path.read_text() != new:
            sys.exit(f"Documentation/{name} is out of date: run python3 tools/pictures/pictures.py")


if __name__ == "__main__":
    main()
