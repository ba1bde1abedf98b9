# SPDX-License-Identifier: GPL-2.0
"""Draws Documentation/house.svg: the folders of rust/, the files in each, and who imports from
whom.

Usage: house.py [--check]	--check: fail if the drawing is not that of the sources

The more imports a line stands for, the thicker it is; its number says how many files they are in.
Everything comes from the sources, by the functions of scripts/check-layers; only the places of the
folders are set here.
"""

import collections
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree as xml

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
DRAWING = TOP / "Documentation" / "house.svg"


def load_layers():
    """scripts/check-layers as a module: it has no suffix."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("layers", str(TOP / "scripts" / "check-layers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("layers", loader))
    loader.exec_module(module)
    return module


layers = load_layers()
RUST = layers.RUST
BASE = "base"  # the lowest floor of rust/device
WIDTH, MARGIN, LINE, GAP = 1000, 20, 16, 34
INK, PAPER, ROOM, CLUSTER = "#333333", "#ffffff", "#eef3fa", "#fafafa"


def modules():
    """The Rust files of the module, those for tests alone left out."""
    tests = layers.test_files()
    return {
        path
        for path in RUST.rglob("*.rs")
        if path not in tests and path.name not in layers.GENERATED
    }


def rooms(files):
    """The files of each room, by its name; a room is a folder, or a floor of rust/device."""
    found = collections.defaultdict(set)
    for path in files | set((RUST / "ffi").glob("*.c")):
        if name := room_of(path):
            found[name].add(path)
    return found


def room_of(path):
    """The room of a file; none for oxe.rs and for files that are about more than one room."""
    parts = path.relative_to(RUST).with_suffix("").parts
    if parts in (("oxe",), ("proto",), ("device",)):
        return None
    if parts[0] == "proto":
        return "/".join(parts[:2])
    if parts[0] != "device":
        return parts[0]
    floor = layers.floor_of(path)
    if floor == len(layers.FLOORS):
        return "device"
    return "device/" + (BASE if floor == 0 else min(layers.FLOORS[floor]))


def title_of(path, room):
    """A file's label in its room; none if the file only declares the modules of a folder."""
    if path.suffix == ".rs" and not re.search(
        r"^\s*(pub\S* )?(const )?(unsafe )?(fn|struct|enum|trait)\b", path.read_text(), re.M
    ):
        if path.with_suffix("").is_dir():
            return None
    folder = RUST / "device" if room in ("device", "device/" + BASE) else RUST / room
    inside = path.is_relative_to(folder)
    return str(path.relative_to(folder).with_suffix("")) if inside else path.stem


def lines_between(files, of):
    """How many files of one room import from the other, by the pair of rooms. `of` gives the room
    of a file."""
    count = collections.Counter()
    for path in files:
        name = of(path)
        targets = {of(other) for other in layers.imports_of(path, files) if other in files}
        count.update((name, target) for target in targets - {name, None} if name)
    return count


def part_of(path):
    """The part of a file: device, proto, rdma ..."""
    room = room_of(path)
    return room and room.split("/")[0]


class Box:
    """A room's place."""

    def __init__(self, name, paths, x, y, width):
        titles = sorted(filter(None, (title_of(path, name) for path in paths)))
        self.lines = textwrap.wrap(
            ", ".join(titles), int((width - 20) / 6.7), break_on_hyphens=False
        )
        self.name, self.x, self.y, self.width = name, x, y, width
        self.height = LINE * (len(self.lines) + 1) + 14

    @property
    def bottom(self):
        return self.y + self.height

    @property
    def middle(self):
        return self.x + self.width / 2


def place(found):
    """The boxes by name: the floors of device on the left, proto on the right, the abstractions and
    ffi below."""
    boxes, y = {}, 60
    names = (
        ["device"]
        + ["device/" + min(floor) for floor in reversed(layers.FLOORS[1:])]
        + ["device/" + BASE]
    )
    for name in names:
        boxes[name] = Box(name, found[name], 110, y, 470)
        y = boxes[name].bottom + GAP
    right = boxes["device/qp"].y
    for name in ("proto/transport", "proto/wire"):
        boxes[name] = Box(name, found[name], 680, right, 280)
        right = boxes[name].bottom + GAP
    y += 60
    for at, name in enumerate(("rdma", "net", "sync")):
        boxes[name] = Box(name, found[name], MARGIN + at * 330, y, 300)
    y = max(boxes[name].bottom for name in ("rdma", "net", "sync")) + 50
    boxes["ffi"] = Box("ffi", found["ffi"], MARGIN, y, WIDTH - 2 * MARGIN)
    return boxes


def clusters(boxes):
    """The frames around the rooms of device, and around those of proto."""
    found = {}
    for name, x, width in (("device", 40, 560), ("proto", 660, 320)):
        inside = [box for key, box in boxes.items() if key.split("/")[0] == name]
        box = Box("", [], x, min(box.y for box in inside) - 34, width)
        box.height = max(box.bottom for box in inside) + 14 - box.y
        found[name] = box
    return found


def draw_line(svg, path, count, at):
    """A line with its arrow and its number."""
    width = 1 + min(count, 24) / 8
    xml.SubElement(
        svg,
        "path",
        d=path,
        fill="none",
        stroke=INK,
        **{"stroke-width": f"{width:.1f}", "marker-end": "url(#a)"},
    )
    text = xml.SubElement(
        svg,
        "text",
        x=f"{at[0]:.0f}",
        y=f"{at[1]:.0f}",
        fill=INK,
        stroke=CLUSTER,
        **{"font-size": "11", "stroke-width": "3", "paint-order": "stroke"},
    )
    text.text = str(count)


def draw_box(svg, box, fill, title=None):
    xml.SubElement(
        svg,
        "rect",
        x=f"{box.x:.0f}",
        y=f"{box.y:.0f}",
        width=f"{box.width:.0f}",
        height=f"{box.height:.0f}",
        rx="6",
        fill=fill,
        stroke=INK,
    )
    for at, line in enumerate([title or box.name] + box.lines):
        style = {"font-weight": "bold"} if at == 0 else {}
        text = xml.SubElement(
            svg,
            "text",
            x=f"{box.x + 10:.0f}",
            y=f"{box.y + LINE * (at + 1) + 2:.0f}",
            fill=INK,
            **{"font-size": "13" if at == 0 else "12"},
            **style,
        )
        text.text = line


def draw_floors(svg, boxes, count):
    """The lines inside device and inside proto: straight to the next room, curved beside it to
    others."""
    order = sorted(boxes.values(), key=lambda box: box.y)
    for (above, below), number in sorted(count.items()):
        a, b = boxes.get(above), boxes.get(below)
        if not a or not b or above.split("/")[0] != below.split("/")[0]:
            continue
        column = [box for box in order if box.x == a.x]
        distance = column.index(b) - column.index(a)
        if distance == 1:
            draw_line(
                svg,
                f"M{a.middle:.0f} {a.bottom:.0f}V{b.y - 8:.0f}",
                number,
                (a.middle + 8, (a.bottom + b.y) / 2 + 3),
            )
        else:
            far, y1, y2 = (
                a.x - 12 * abs(distance),
                a.y + a.height / 2 + 4 * distance,
                b.y + b.height / 2 - 4 * distance,
            )
            draw_line(
                svg,
                f"M{a.x} {y1:.0f}C{far} {y1:.0f} {far} {y2:.0f} {b.x - 8} {y2:.0f}",
                number,
                (far + 6, (y1 + y2) / 2),
            )


def draw_parts(svg, boxes, around, parts):
    """The lines between device, proto, the abstractions and ffi."""
    device, proto = around["device"], around["proto"]
    y = boxes["device/qp"].y + 40
    draw_line(
        svg,
        f"M{device.x + device.width} {y:.0f}H{proto.x - 8}",
        parts["device", "proto"],
        (device.x + device.width + 12, y - 8),
    )
    for at, name in enumerate(("rdma", "net", "sync")):
        box = boxes[name]
        start = device.x + 120 + 160 * at
        draw_line(
            svg,
            f"M{start} {device.bottom:.0f}L{box.middle:.0f} {box.y - 9:.0f}",
            parts["device", name],
            ((start + box.middle) / 2 + 10, (device.bottom + box.y) / 2),
        )
        draw_line(
            svg,
            f"M{box.middle:.0f} {box.bottom:.0f}V{boxes['ffi'].y - 8:.0f}",
            parts[name, "ffi"],
            (box.middle + 8, boxes["ffi"].y - 20),
        )
    for a, b in (("rdma", "net"), ("net", "sync")):
        left, right = boxes[a], boxes[b]
        y = left.y + 22
        draw_line(
            svg,
            f"M{left.x + left.width} {y:.0f}H{right.x - 8}",
            parts[a, b],
            (left.x + left.width + 8, y - 6),
        )
    left, right = boxes["rdma"], boxes["sync"]
    y = max(boxes[name].bottom for name in ("rdma", "net")) + 16
    draw_line(
        svg,
        f"M{left.middle + 60:.0f} {left.bottom:.0f}V{y:.0f}"
        f"H{right.middle - 60:.0f}V{right.bottom + 8:.0f}",
        parts["rdma", "sync"],
        (boxes["net"].middle - 80, y - 4),
    )


def drawing():
    files = modules()
    boxes = place(rooms(files))
    around = clusters(boxes)
    height = boxes["ffi"].bottom + MARGIN
    svg = xml.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        **{"font-family": "sans-serif"},
    )
    marker = xml.SubElement(
        xml.SubElement(svg, "defs"),
        "marker",
        id="a",
        markerWidth="8",
        markerHeight="8",
        refX="2",
        refY="4",
        orient="auto",
        markerUnits="userSpaceOnUse",
    )
    xml.SubElement(marker, "path", d="M0 0L8 4L0 8z", fill=INK)
    xml.SubElement(svg, "rect", width="100%", height="100%", fill=PAPER)
    for name, box in around.items():
        draw_box(svg, box, CLUSTER, name)
    for name, box in sorted(boxes.items()):
        title = {
            "device": "driver, link, rx",
            "device/" + BASE: "uabi, ring, port, limits ...",
        }.get(name, name.split("/")[-1])
        draw_box(svg, box, ROOM, title)
    draw_floors(svg, boxes, lines_between(files, room_of))
    draw_parts(svg, boxes, around, lines_between(files, part_of))
    xml.indent(svg)
    return xml.tostring(svg, encoding="unicode") + "\n"


def main():
    new = drawing()
    if sys.argv[1:] == ["--check"]:
        if not DRAWING.exists() or DRAWING.read_text() != new:
            sys.exit(
                "Documentation/house.svg is not that of the sources: "
                "run python3 tools/house/house.py"
            )
        return
    DRAWING.write_text(new)


if __name__ == "__main__":
    main()
