# SPDX-License-Identifier: GPL-2.0
"""Draws the pictures of the documents: a message's way, a super-packet, a ring, a loss.

Usage: pictures.py [--check]	writes them into Documentation; --check: fails if one is another
"""

import pathlib
import sys
from xml.sax.saxutils import escape

DOCUMENTATION = pathlib.Path(__file__).resolve().parent.parent.parent / "Documentation"
INK, LOST = "#333333", "#c03020"
PLAIN, OXE, NET, PAYLOAD = "#fafafa", "#dbe8d4", "#eef3fa", "#f6e3c5"


class Picture:
    """An SVG of this size: boxes, texts and lines, in the order of drawing."""

    def __init__(self, width, height):
        self.size = width, height
        self.parts = []

    def text(self, x, y, text, anchor="middle", size=13, ink=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{ink}" '
            f'font-size="{size}"{weight}>{escape(text)}</text>'
        )

    def box(self, x, y, width, height, lines=(), fill=PLAIN, size=13):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
            f'fill="{fill}" stroke="{INK}" />'
        )
        first = y + height / 2 + 5 - 8 * (len(lines) - 1)
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + 16 * i, line, size=size if i == 0 else 11)

    def line(self, x1, y1, x2, y2, ink=INK, dashed=False, arrow=True):
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        end = ' marker-end="url(#end)"' if arrow else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{ink}"{dash}{end} />'
        )

    def svg(self):
        width, height = self.size
        return "\n  ".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                'font-family="sans-serif">',
                '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
                'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8Z" '
                f'fill="{INK}" /></marker></defs>',
                '<rect width="100%" height="100%" fill="#ffffff" />',
                *self.parts,
            ]
        ) + "\n</svg>\n"


def message():
    """The way of a SEND from one program to the other, and of its ACK."""
    picture = Picture(860, 470)
    sender, receiver, width = 20, 480, 360
    steps = [
        (("ibv_post_send", "a work request in the send ring"), PLAIN),
        (("doorbell: write()", "the system call in which all below runs"), PLAIN),
        (("send_queue", "copies the request once, checks it, finds keys"), OXE),
        (("engine: poll_transmit", "headers, and which bytes follow"), OXE),
        (("tx_batch, gso", "headers, the program's bytes, the ICRC"), OXE),
        (("IP output", "UDP to port 4791"), NET),
    ]
    picture.text(sender, 20, "requester", "start", bold=True)
    for i, (lines, fill) in enumerate(steps):
        y = 32 + 64 * i
        picture.box(sender, y, width, 44, lines, fill)
        if i:
            picture.line(sender + 120, y - 20, sender + 120, y)
    steps = [
        (("completion ring", "a CQE; an event, if the CQ is armed"), PLAIN),
        (("engine: handle_segments", "the receive request, the program's memory"), OXE),
        (("rx", "parses, finds the queue pair, checks the ICRC"), OXE),
        (("LOCAL_IN hook", "behind the firewall's, super-packets whole"), NET),
    ]
    picture.text(receiver, 20, "responder", "start", bold=True)
    for i, (lines, fill) in enumerate(steps):
        y = (32, 160, 256, 352)[i]
        picture.box(receiver, y, width, 44, lines, fill)
        if i:
            picture.line(receiver + 120, y, receiver + 120, (32, 160, 256, 352)[i - 1] + 44)
    picture.line(sender + width, 366, receiver, 366)
    picture.text(430, 358, "packets", size=11)
    picture.line(receiver, 384, sender + width, 384, dashed=True)
    picture.text(430, 400, "ACK", size=11)
    picture.line(receiver + 336, 204, receiver + 336, 352, dashed=True)
    picture.text(receiver + 330, 234, "ACK", "end", size=11)
    picture.line(sender + 336, 352, sender + 336, 268, dashed=True)
    picture.text(sender + 330, 346, "ACK", "end", size=11)
    picture.text(
        430, 440, "Each side runs to completion: the sender in its system call, the receiver in the"
    )
    picture.text(430, 457, "softirq that brought the packet, which also sends the ACK.")
    return picture


def superpacket():
    """Datagrams of a message as they are on the wire, and as one skb."""
    picture = Picture(860, 258)
    colours = {"IP, UDP": NET, "BTH": OXE, "bytes": PAYLOAD, "ICRC": OXE}

    def fields(x, y, widths):
        for name, width in widths:
            picture.box(x, y, width, 36, (name,), colours[name], 11)
            x += width
        return x

    segment = [("BTH", 40), ("bytes", 130), ("ICRC", 44)]
    picture.text(20, 24, "in the network stack: one super-packet, with one IP header", "start")
    x = fields(20, 34, [("IP, UDP", 70)])
    for _ in range(3):
        x = fields(x, 34, segment)
    picture.text(20, 202, "on a wire: a datagram for each segment (UDP GSO)", "start")
    for i in range(3):
        x = 20 + 284 * i
        fields(x, 124, [("IP, UDP", 70), *segment[:1], ("bytes", 104), ("ICRC", 44)])
        picture.line(175 + 214 * i, 72, x + 162, 122, dashed=True)
        number = f"n + {i}" if i else "n"
        picture.text(x + 130, 178, f"IPv4 identification {number}", size=11)
    for y, text in (
        (228, "Each segment has its own PSN in its BTH, and its own ICRC, which covers the IPv4"),
        (246, "identification: so the sender has to foresee the one that each datagram will get."),
    ):
        picture.text(20, y, text, "start", 12)
    return picture


def ring():
    """The memory that a process and the driver share."""
    picture = Picture(860, 220)
    x = 20
    for name, offset, width, fill in (
        (("log2_elem_size,", "index_mask"), 0, 130, PLAIN),
        (("producer_index",), 128, 130, PAYLOAD),
        (("consumer_index",), 256, 130, OXE),
    ):
        picture.box(x, 50, width, 44, name, fill, 12)
        picture.text(x, 44, str(offset), "start", 11)
        x += width + 8
    picture.text(x, 44, "384: elements", "start", 11)
    for i in range(8):
        filled = 2 <= i < 5
        picture.box(x + 50 * i, 50, 50, 44, (str(i),), PAYLOAD if filled else PLAIN, 12)
    picture.line(x + 125, 130, x + 125, 96)
    picture.text(x + 125, 146, "consumer", size=12)
    picture.text(x + 125, 162, "reads element 2 next", size=11)
    picture.line(x + 275, 130, x + 275, 96)
    picture.text(x + 275, 146, "producer", size=12)
    picture.text(x + 275, 162, "writes element 5 next", size=11)
    picture.text(20, 130, "The send ring and the receive ring: the process", "start", 12)
    picture.text(20, 146, "produces, the driver consumes. The completion", "start", 12)
    picture.text(20, 162, "ring: the other way round.", "start", 12)
    text = "Equal indices: empty. A ring of 8 elements holds 7 entries. The driver believes nothing"
    picture.text(20, 200, text + " that it reads here.", "start", 12)
    return picture


def recovery():
    """A lost packet, and how the requester goes back."""
    picture = Picture(860, 330)
    top, bottom = 60, 270
    picture.text(20, top + 4, "requester", "start", bold=True)
    picture.text(20, bottom + 4, "responder", "start", bold=True)
    for y in (top, bottom):
        picture.line(110, y, 840, y)
    picture.text(838, top - 10, "time", "end", 11)
    for i, psn in enumerate((1, 2, 3, 4)):
        x = 140 + 50 * i
        picture.text(x, top - 8, str(psn), size=12)
        if psn == 2:
            picture.line(x, top, x + 45, 165, LOST, arrow=False)
            picture.text(x + 45, 182, "lost", ink=LOST, size=12)
        else:
            picture.line(x, top, x + 90, bottom)
    picture.text(230, bottom + 22, "1 taken", size=11)
    picture.text(330, bottom + 22, "3: a gap", size=11)
    picture.text(392, bottom + 38, "4: dropped, no second NAK", size=11)
    picture.line(332, bottom, 420, top, dashed=True)
    picture.text(398, 190, "NAK: 2 is", "start", 11)
    picture.text(398, 204, "expected", "start", 11)
    picture.text(436, top - 26, "again from 2 on, cwnd halved", "start", 11)
    for i, psn in enumerate((2, 3, 4)):
        x = 450 + 50 * i
        picture.text(x, top - 8, str(psn), size=12)
        picture.line(x, top, x + 90, bottom)
    picture.text(640, bottom + 22, "2, 3, 4 taken", "middle", 11)
    picture.line(642, bottom, 730, top, dashed=True)
    picture.text(712, 190, "ACK 4", "start", 11)
    return picture


PICTURES = {"message": message, "superpacket": superpacket, "ring": ring, "recovery": recovery}


def main():
    stale = []
    for name, draw in PICTURES.items():
        path = DOCUMENTATION / f"{name}.svg"
        new = draw().svg()
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"{', '.join(stale)}: other than tools/pictures/pictures.py draws them; run it")


if __name__ == "__main__":
    main()
