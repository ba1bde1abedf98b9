# SPDX-License-Identifier: GPL-2.0
"""Documentation/layers.svg is drawn from the sources: the folders of rust/, the files in each, and
who imports from whom.

The more imports a line stands for, the thicker it is; its number says how many files they are in.
Only the places of the folders are set here.
"""

import collections
import pathlib
import re

from .imports import Imports
from .layers import RUST
from .shapes import MODULE, PART, Box, Drawing
from .source import Problem

DRAWING = pathlib.PurePosixPath("Documentation/layers.svg")
BASE = "device/base"  # the lowest layer of rust/device
WIDTH, MARGIN, GAP = 1000, 20, 34
TITLES = {"device": "driver, link, rx", BASE: "uabi, ring, port, limits ..."}
ITEM = re.compile(r"^\s*(pub\S* )?(const )?(unsafe )?(fn|struct|enum|trait)\b", re.M)


def check(tree):
    if tree.text(DRAWING) != draw(tree):
        yield Problem(DRAWING, 1, "is not that of the sources: run make fix")


def fix(tree):
    (tree.top / DRAWING).write_text(draw(tree))


def module_of(path):
    """The module of a file: a folder, or a layer of rust/device; none for oxe.rs and for files that
    are about more than one."""
    parts = path.relative_to(RUST.root).with_suffix("").parts
    if parts in (("oxe",), ("proto",), ("device",)):
        return None
    if parts[0] == "proto":
        return "/".join(parts[:2])
    if parts[0] != "device":
        return parts[0]
    layer = RUST.layer_of(path)
    if layer == len(RUST.layers):
        return "device"
    return "device/" + min(RUST.layers[layer]) if layer else BASE


def part_of(path):
    """The part of a file: device, proto, rdma ..."""
    module = module_of(path)
    return module and module.split("/")[0]


def modules(tree, files):
    """The titles of the files of each module."""
    found = collections.defaultdict(set)
    for path in files | set(tree.under(RUST.root / "ffi", ".c")):
        if (module := module_of(path)) and (title := title_of(tree, path, module)):
            found[module].add((title, path))
    return {name: [title for title, _ in titles] for name, titles in found.items()}


def title_of(tree, path, module):
    """A file's label in its module; none if the file only declares the modules of a folder."""
    if path.suffix == ".rs" and not ITEM.search(tree.text(path)):
        if path.with_suffix("") in tree:
            return None
    folder = RUST.inside if module in TITLES else RUST.root / module
    inside = path.is_relative_to(folder)
    return str(path.relative_to(folder).with_suffix("")) if inside else path.stem


def count_imports(imports, of):
    """How many files of one module import from the other, by the pair of modules. `of` gives the
    module of a file."""
    count = collections.Counter()
    for path in imports.files:
        name = of(path)
        targets = {of(other) for other in imports.of(path)}
        count.update((name, target) for target in targets - {name, None} if name)
    return count


def place(titles):
    """The boxes by name: the layers of device on the left, proto on the right, the abstractions and
    ffi below."""
    boxes, y = {}, 60

    def put(name, x, y, width):
        boxes[name] = Box(name, titles.get(name, ()), x, y, width)
        return boxes[name].bottom

    layers = ["device/" + min(layer) for layer in reversed(RUST.layers[1:])]
    for name in ["device", *layers, BASE]:
        y = put(name, 110, y, 470) + GAP
    right = boxes["device/qp"].y
    for name in ("proto/transport", "proto/wire"):
        right = put(name, 680, right, 280) + GAP
    y += 60
    below = [
        put(name, MARGIN + at * 330, y, 300) for at, name in enumerate(("rdma", "net", "sync"))
    ]
    put("ffi", MARGIN, max(below) + 50, WIDTH - 2 * MARGIN)
    return boxes


def frames(boxes):
    """The frames around the boxes of device, and around those of proto."""
    found = {}
    for name, x, width in (("device", 40, 560), ("proto", 660, 320)):
        inside = [box for key, box in boxes.items() if key.split("/")[0] == name]
        box = Box("", [], x, min(box.y for box in inside) - 34, width)
        box.height = max(box.bottom for box in inside) + 14 - box.y
        found[name] = box
    return found


def draw_layers(drawing, boxes, count):
    """The lines inside device and inside proto: straight to the next box, curved beside it to
    others."""
    order = sorted(boxes.values(), key=lambda box: box.y)
    for (above, below), number in sorted(count.items()):
        a, b = boxes.get(above), boxes.get(below)
        if not a or not b or above.split("/")[0] != below.split("/")[0]:
            continue
        column = [box for box in order if box.x == a.x]
        distance = column.index(b) - column.index(a)
        if distance == 1:
            path = f"M{a.middle:.0f} {a.bottom:.0f}V{b.y - 8:.0f}"
            drawing.line(path, number, (a.middle + 8, (a.bottom + b.y) / 2 + 3))
        else:
            far = a.x - 12 * abs(distance)
            y1, y2 = a.y + a.height / 2 + 4 * distance, b.y + b.height / 2 - 4 * distance
            path = f"M{a.x} {y1:.0f}C{far} {y1:.0f} {far} {y2:.0f} {b.x - 8} {y2:.0f}"
            drawing.line(path, number, (far + 6, (y1 + y2) / 2))


def draw_parts(drawing, boxes, around, parts):
    """The lines between device, proto, the abstractions and ffi."""
    device, proto, ffi = around["device"], around["proto"], boxes["ffi"]
    right, y = device.x + device.width, boxes["device/qp"].y + 40
    path = f"M{right} {y:.0f}H{proto.x - 8}"
    drawing.line(path, parts["device", "proto"], (right + 12, y - 8))
    for at, name in enumerate(("rdma", "net", "sync")):
        box, start = boxes[name], device.x + 120 + 160 * at
        path = f"M{start} {device.bottom:.0f}L{box.middle:.0f} {box.y - 9:.0f}"
        label = (start + box.middle) / 2 + 10, (device.bottom + box.y) / 2
        drawing.line(path, parts["device", name], label)
        path = f"M{box.middle:.0f} {box.bottom:.0f}V{ffi.y - 8:.0f}"
        drawing.line(path, parts[name, "ffi"], (box.middle + 8, ffi.y - 20))
    draw_abstractions(drawing, boxes, parts)


def draw_abstractions(drawing, boxes, parts):
    """The lines between rdma, net and sync."""
    for a, b in (("rdma", "net"), ("net", "sync")):
        left, right = boxes[a], boxes[b]
        end, y = left.x + left.width, left.y + 22
        drawing.line(f"M{end} {y:.0f}H{right.x - 8}", parts[a, b], (end + 8, y - 6))
    left, right = boxes["rdma"], boxes["sync"]
    y = max(boxes[name].bottom for name in ("rdma", "net")) + 16
    path = (
        f"M{left.middle + 60:.0f} {left.bottom:.0f}V{y:.0f}"
        f"H{right.middle - 60:.0f}V{right.bottom + 8:.0f}"
    )
    drawing.line(path, parts["rdma", "sync"], (boxes["net"].middle - 80, y - 4))


def draw(tree):
    """The drawing, as text."""
    imports = Imports(tree, RUST)
    boxes = place(modules(tree, imports.files))
    around = frames(boxes)
    drawing = Drawing(WIDTH, boxes["ffi"].bottom + MARGIN)
    for name, box in around.items():
        drawing.box(box, PART, name)
    for name, box in sorted(boxes.items()):
        drawing.box(box, MODULE, TITLES.get(name, name.split("/")[-1]))
    draw_layers(drawing, boxes, count_imports(imports, module_of))
    draw_parts(drawing, boxes, around, count_imports(imports, part_of))
    return str(drawing)
