# SPDX-License-Identifier: GPL-2.0
"""The parts of the driver, and which of them a part may name.

Imports point one way: proto/wire <- proto/transport <- device -> rdma, net, sync -> ffi. A pure
part names neither the kernel nor another part, and forbids unsafe code.
"""

import pathlib
import re

from . import rust
from .imports import expand
from .source import Problem

RUST = pathlib.PurePosixPath("rust")
# The parts that a part may name by `crate::<part>`.
ALLOWED = {
    "proto": {"proto"},
    "device": {"proto", "device", "rdma", "net", "sync"},
    "rdma": {"rdma", "net", "sync", "ffi"},
    "net": {"net", "sync", "ffi"},
    "sync": {"sync", "ffi"},
    "ffi": {"ffi"},
}
# Pure: core and zerocopy alone. They are crates of their own on the host, too.
PURE = (RUST / "proto.rs", RUST / "device" / "uabi.rs")
# Words that a part must not use, with the complaint.
FORBIDDEN = (
    ("proto/wire", r"\btransport::", "proto/wire must not know proto/transport"),
    ("device", r"\bbindings::", "device must not see raw bindings"),
    ("rdma", r"\bproto::", "rdma knows no protocol"),
    ("net", r"\bproto::", "net knows no protocol"),
    ("sync", r"\bproto::", "sync knows no protocol"),
)


def part_of(path):
    """The part of a file: rust/net.rs and rust/net/skb.rs are both of `net`."""
    return path.relative_to(RUST).parts[0].split(".")[0]


def belongs(path, root):
    """Whether a file is `root`, or in its folder."""
    return path == root or path.is_relative_to(root.with_suffix(""))


def check(tree):
    for root in PURE:
        if "#![forbid(unsafe_code)]" not in tree.text(root):
            yield Problem(root, 1, "lacks #![forbid(unsafe_code)]")
    for path in sorted(rust.module_files(tree)):
        code = rust.without_tests(rust.without_comments(tree.text(path)))
        yield from named_parts(path, code)
        yield from pure(path, code)
        for part, pattern, text in FORBIDDEN:
            if belongs(path, RUST / f"{part}.rs"):
                yield from (Problem(path, at, text) for at, _ in rust.matches(pattern, code))


def named_parts(path, code):
    """Names of parts that this part must not know."""
    part = part_of(path)
    for found in re.finditer(r"\bcrate::(\w+|\{)", code):
        names = [found[1]]
        if found[1] == "{":
            paths = expand(code[found.start(1) : code.find(";", found.end())])
            names = sorted({name.split("::")[0] for name in paths})
        for name in names:
            if name in ALLOWED and name not in ALLOWED.get(part, set(ALLOWED)):
                number = code.count("\n", 0, found.start()) + 1
                yield Problem(path, number, f"{part} must not import crate::{name}")


def pure(path, code):
    """Whatever a pure part imports from outside: another crate, or `super` above its root."""
    for root in PURE:
        if not belongs(path, root):
            continue
        name, folder = root.relative_to(RUST).with_suffix(""), root.with_suffix("")
        depth = 0 if path == root else len(path.relative_to(folder).parts)
        relative = f"{name} names things by relative paths (it is a crate of its own on the host)"
        for number, _ in rust.matches(r"\bcrate::", code):
            yield Problem(path, number, relative)
        for number, found in rust.matches(r"\b(?:super::)+", code):
            if found.group().count("super") > depth:
                yield Problem(path, number, f"{name} must not know what is around it")
        for number, _ in rust.matches(r"\bkernel::|\bstd::|\balloc::", code):
            yield Problem(path, number, f"{name} is core and zerocopy alone")
