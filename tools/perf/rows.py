# SPDX-License-Identifier: GPL-2.0
"""The rows of bench.py: what is measured, and under which name.

Usage: rows.py [PATTERN]	the names that contain PATTERN; if none does, an error with the
       nearest
"""

import difflib
import sys

import osu
from driver import IP, NS, memcpy, tcp

# With small WRITEs the figures would be those of write.py itself.
VERBS = {False: ("send", "read"), True: ("send", "write", "read")}
MTUS = (1500, 9000)


def amount(size):
    """A number of bytes, as names have it."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def several(count, what):
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def scale():
    """Rows that show the cost of many QPs, regions or SGEs."""
    # The receives of all queue pairs have to fit into one completion queue.
    for count, receives in ((1, 128), (10, 128), (100, 128), (1000, 16)):
        yield (
            f"wire 1500, send 64 B, {several(count, 'QP')}, 16 deep",
            "Gb/s",
            lambda d, c=count, r=receives: d.bandwidth(
                "send", "wire", 64, f"-q {c} -t 16 -r {r}", max(64, 6000 // c)
            ),
            None,
        )
    yield (
        "wire 1500, send 64 B, 10 QPs, SRQ",
        "Gb/s",
        lambda d: d.bandwidth("send", "wire", 64, "-q 10 -t 16 -r 512 --use-srq", 600),
        None,
    )
    for name, counts in (("qps", (1, 100, 1000)), ("mrs", (1, 100, 10000)), ("sges", (1, 8, 32))):
        for count in counts:
            yield (
                f"loop, write 4 KiB, {several(count, name[:-1].upper())}",
                "us each",
                lambda d, n=name, c=count: d.write("loop", 4096, 2000, **{n: c})[1],
                None,
            )


def unreliable():
    """Rows of UC. There is a receive for each message, as one that finds none is lost. With a
    thousand messages of 64 bytes the beginning and end were a third of the time."""
    for where, size in (("wire", 64), ("wire", 1 << 20), ("loop", 64), ("loop", 1 << 20)):
        yield (
            f"{where}{' 1500' if where == 'wire' else ''}, UC send {amount(size)}",
            "Gb/s",
            lambda d, w=where, s=size: d.bandwidth(
                "send", w, s, "-c UC -r 10000", 10000, 100 << 20
            ),
            None,
        )


def rows(mtu):
    """The rows at this MTU: (name, unit, function of a driver, value to compare with or None)."""
    for size in (64, 4096, 65536, 1 << 20):
        if mtu == 9000 and size != 1 << 20:
            continue
        for verb in VERBS[size >= 65536]:
            yield (
                f"wire {mtu}, {verb} {amount(size)}",
                "Gb/s",
                lambda d, v=verb, s=size: d.bandwidth_any(v, "wire", s),
                lambda s=size: tcp("wire", s),
            )
    if mtu == 9000:
        return
    for percent in (0, 1):
        for verb in VERBS[True]:
            yield (
                f"by packets, {percent} % lost, {verb} 1 MiB",
                "Gb/s",
                lambda d, v=verb, p=percent: d.bandwidth_lossy(v, 1 << 20, p),
                None,
            )
    for where in ("wire", "loop"):
        for verb in ("send", "read", "atomic"):
            name = f"{where}, {verb} latency{', 64 B' if verb != 'atomic' else ''}"
            yield name, "us", lambda d, v=verb, w=where: d.latency(v, w), None
    for size in (64, 1 << 20):
        for verb in VERBS[size >= 65536]:
            yield (
                f"loop, {verb} {amount(size)}",
                "Gb/s",
                lambda d, v=verb, s=size: d.bandwidth_any(v, "loop", s),
                lambda s=size: memcpy(s),
            )
    yield from unreliable()
    yield from scale()
    yield "register and deregister 1 MiB", "us each", lambda d: d.single("register"), None
    yield "bind window, write 4 KiB, invalidate", "us each", lambda d: d.single("window"), None
    yield from storage()
    yield from osu.rows(NS, IP)
    for what, name in (("qp", "RC QP, 128+128"), ("cq", "CQ of 128")):
        yield f"memory of an idle {name}", "kB", lambda d, w=what: d.memory(w), None


def storage():
    """Rows of the kernel's own users."""
    for kind in ("nvme", "nfs"):
        for name, unit in (
            ("4 KiB random read", "us each"),
            ("4 KiB random write", "us each"),
            ("1 MiB read", "Gb/s"),
            ("1 MiB write", "Gb/s"),
        ):
            title = {"nvme": "NVMe", "nfs": "NFS"}[kind]
            yield f"loop, {title}, {name}", unit, lambda d, k=kind, n=name: d.storage(k, n), None


def names():
    return [row[0] for mtu in MTUS for row in rows(mtu)]


def exactly(wanted):
    """The pattern of these names alone; it is empty if there are none."""
    wanted = list(wanted)
    return "=" + "|".join(wanted) if wanted else ""


def selects(pattern, name):
    """Whether the name contains the pattern, or is one of those of exactly().

    >>> selects("send", "loop, send 64 B"), selects("=a|b", "a"), selects("=a|b", "ab")
    (True, True, False)
    """
    if pattern.startswith("="):
        return name in pattern[1:].split("|")
    return pattern in name


def matching(pattern, known=None):
    """The names, of these or of all rows, that the pattern selects; if it selects none, a
    LookupError names the nearest.

    >>> matching("NFS, 1 MiB r")
    ['loop, NFS, 1 MiB read']
    """
    known = known or names()
    found = [name for name in known if selects(pattern, name)]
    if found:
        return found
    near = difflib.get_close_matches(pattern, known, 5, 0.3)
    raise LookupError(
        f"no row's name contains '{pattern}'. "
        f"The nearest: {', '.join(repr(name) for name in near) or 'none'}"
    )


if __name__ == "__main__":
    try:
        print("\n".join(matching(sys.argv[1] if len(sys.argv) > 1 else "")))
    except LookupError as error:
        sys.exit(f"oxe: error: {error}")
