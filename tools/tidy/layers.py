# SPDX-License-Identifier: GPL-2.0
"""Imports between the files of a crate: they form no circle, go down by layers, and not across
modules that do not know each other. The map in a folder's file has the modules in the order of the
layers.

An `Order` says so of one crate; another crate is one more line in ORDERS.
"""

import dataclasses
import pathlib
import re

from . import rust
from .imports import Imports
from .source import Problem


@dataclasses.dataclass(frozen=True)
class Order:
    """The order of the files of one crate."""

    root: pathlib.PurePosixPath
    # The files whose modules lie beside them: lib.rs, main.rs.
    crates: frozenset
    # The modules in the folder `inside`, files and folders, by layers, the lowest first. Modules
    # that are not named are on the highest.
    inside: pathlib.PurePosixPath
    layers: tuple = ()
    # Sets of modules in that folder, by their paths, that do not know each other.
    apart: tuple = ()

    def files(self, tree):
        """The files of the crate, without those for tests alone."""
        return set(tree.under(self.root, ".rs")) - rust.test_files(tree, self.root, self.crates)

    def layer_of(self, path):
        """The number of a file's layer."""
        if not path.is_relative_to(self.inside):
            return len(self.layers)
        module = path.relative_to(self.inside).parts[0].removesuffix(".rs")
        numbers = (number for number, names in enumerate(self.layers) if module in names)
        return next(numbers, len(self.layers))

    def one_of(self, names, path):
        """The module of these that a file belongs to, or None."""
        if not path.is_relative_to(self.inside):
            return None
        module = path.relative_to(self.inside).with_suffix("")
        return next((name for name in names if module.is_relative_to(name)), None)


def order(root, crates, inside="", **more):
    """An order whose files are named relative to its root."""
    root = pathlib.PurePosixPath(root)
    return Order(root, frozenset(root / name for name in crates), root / inside, **more)


RUST = order(
    "rust",
    {"oxe.rs"},
    "device",
    layers=(
        {"uabi", "limits", "counters", "settings", "tuning"}
        | {"ring", "recv_ring", "port", "pd", "gid_rescan", "mcast"},
        {"mem"},
        {"cq"},
        {"packet"},
        {"qp"},
    ),
)
SIM = order(
    "tools/sim/src",
    {"lib.rs", "main.rs"},
    layers=(
        {"api", "check", "log", "rng"},
        {"profile"},
        {"model"},
        {"network", "peer"},
        {"host"},
        {"program"},
        {"judge"},
        {"run", "lab"},
    ),
)
TRANSPORT = order(
    "rust/proto",
    (),
    "transport",
    layers=({"common"}, {"cq", "rc", "uc", "ud"}),
    apart=(
        ("cq", "rc", "uc", "ud"),
        ("rc/requester", "rc/responder"),
        ("uc/requester", "uc/responder"),
    ),
)
ORDERS = (RUST, SIM, TRANSPORT)
# A line of the map in the comment of a folder's file: modules, the highest first.
MAPPED = re.compile(r"^//!   (\w+(?:, \w+)*)(?:  |$)", re.M)


def check(tree, orders=ORDERS):
    for each in orders:
        imports = Imports(tree, each)
        yield from circles(each, imports)
        yield from rising(each, imports)
        yield from across(each, imports)
        yield from unknown(each, imports)
        yield from undeclared(each, imports)
        yield from mapped(each, imports, tree)


def circles(each, imports):
    """The files in a circle. Those that import none of the files left are taken away, again and
    again, and then those that none of the files left imports."""
    left = {path: imports.of(path) - {path} for path in imports.files}
    while free := {path for path, others in left.items() if not others & left.keys()}:
        for path in free:
            del left[path]
    while top := {path for path in left if not any(path in others for others in left.values())}:
        for path in top:
            del left[path]
    for path in sorted(left):
        names = sorted(str(file.relative_to(each.root)) for file in left[path] & left.keys())
        yield Problem(path, 1, f"is in a circle of imports: {' '.join(names)}")


def rising(each, imports):
    """Imports of files on a higher layer."""
    folder_file = each.inside.with_suffix(".rs")
    inside = {path for path in imports.files if path.is_relative_to(each.inside)}
    others = inside | {folder_file}
    for path in sorted(inside):
        for other in sorted(imports.of(path) & others):
            if each.layer_of(other) > each.layer_of(path):
                name = other.relative_to(each.root)
                yield Problem(path, 1, f"must not import {name}, which is on a higher layer")


def across(each, imports):
    """Imports between modules that do not know each other."""
    for names in each.apart:
        for path in sorted(path for path in imports.files if each.one_of(names, path)):
            for other in sorted(imports.of(path)):
                if each.one_of(names, other) not in (None, each.one_of(names, path)):
                    name = other.relative_to(each.root)
                    yield Problem(path, 1, f"must not import {name}, of another part")


def unknown(each, imports):
    """Layers that name no module."""
    for name in sorted(name for names in each.layers for name in names):
        if each.inside / f"{name}.rs" not in imports.files:
            yield Problem(each.inside, 1, f"the layers name {name}, which is no module of it")


def undeclared(each, imports):
    """Folders whose files no import would lead to: there is no a.rs beside a/."""
    for folder in sorted({path.parent for path in imports.files} - {each.root}):
        if folder.with_suffix(".rs") not in imports.files:
            text = f"its modules are declared by no {folder.with_suffix('.rs')}"
            yield Problem(folder, 1, text)


def mapped(each, imports, tree):
    """What the map in the folder's file, if it has one, lacks or has in another order."""
    file = each.inside.with_suffix(".rs")
    lines = MAPPED.finditer(tree.text(file)) if file in imports.files else ()
    names = [name for line in lines for name in line[1].split(", ")]
    if not names:
        return
    numbers = [each.layer_of(each.inside / name) for name in names]
    if numbers != sorted(numbers, reverse=True):
        yield Problem(file, 1, "its map is not in the order of the layers")
    modules = {path.stem for path in imports.files if path.parent == each.inside}
    for name in sorted(modules ^ set(names)):
        if name in modules:
            yield Problem(file, 1, f"its map lacks {name}")
        else:
            yield Problem(file, 1, f"has no {name}, which its map names")
