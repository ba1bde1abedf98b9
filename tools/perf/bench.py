# SPDX-License-Identifier: GPL-2.0
"""Measure rxe, oxe, siw, TCP and memcpy in one boot.

Most rows come from programs of other projects: perftest, iperf3 and fio (storage.sh). Programs of
our own measure WRITE (write.py), the use of keys (single.py) and MPI (osu.py).

Runs in the deterministic machine, where one instruction takes one nanosecond, so that its figures
are counts of instructions and repeat. "wire" is two network namespaces joined by veth, "loop" is
two programs on one device. Event mode throughout: a process that polls would burn the clock of its
peer. The counting plugin (tools/profile) gives the instructions beside it; counts.py on the host
puts both together.
Usage: bench.py FILE [PATTERN]	writes FILE (JSON); only rows whose name contains PATTERN.
       bench.py --oxe FILE [PATTERN]	oxe alone
       bench.py --traced FILE [PATTERN]	oxe alone, with each of its trace events enabled
       bench.py --profile FILE ROW [DRIVER]	a row of oxe's alone, or of another driver's, once
       more and for longer while its instructions are counted (see tools/profile); what belongs to
       the counts goes beside FILE.
"""

import json
import os
import subprocess
import sys

from driver import Driver, NotSupported, run, wire_down, wire_up
from rows import MTUS, matching, rows, selects


def profile(directory, wanted, kind="oxe"):
    """Runs a driver's row of this name twice: to learn how long it takes, and for three seconds,
    whose instructions are counted by block."""
    found = [(mtu, row[2]) for mtu in MTUS for row in rows(mtu) if row[0] == wanted]
    if not found:
        matching(wanted)
        sys.exit(f"no row has the name '{wanted}', of several that contain it")
    mtu, function = found[0]
    wire_up(mtu)
    driver = Driver(kind)
    function(driver)
    if not driver.messages or driver.together:
        sys.exit(f"'{wanted}' is no row whose messages can be made more")
    driver.longer = 1 + int(3e9 / (driver.messages * driver.each))
    function(driver)
    with open("/proc/kallsyms", encoding="ascii") as symbols, open(
        f"{directory}/kallsyms", "w", encoding="ascii"
    ) as copy:
        copy.write(symbols.read())
    with open(f"{directory}/profile.json", "w", encoding="ascii") as file:
        json.dump({"name": wanted, **driver.last_run()}, file)


def compact():
    """Makes free memory contiguous: a copy to or from memory whose pages lie side by side costs
    less, and they would lie as the rows before have left them."""
    with open("/proc/sys/vm/compact_memory", "w", encoding="ascii") as file:
        file.write("1")


def measure_row(driver, function, row):
    """Measures a row with a driver; its figure is None if that fails, and missing if the driver has
    no such thing."""
    compact()
    driver.messages, driver.whole = 0, False
    try:
        row[driver.kind] = function(driver)
    except NotSupported:
        return
    except (RuntimeError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stdout", ""), getattr(error, "stderr", "")
        print(error, *(text[-600:] for text in output), file=sys.stderr)
        row[driver.kind] = None
    if driver.messages:
        row["runs"][driver.kind] = driver.last_run()


def trace_all():
    """Enables each event of oxe's: they go into the buffers of tracefs, which nobody reads."""
    if not os.path.exists("/sys/kernel/tracing/events"):
        run("mount -t tracefs tracing /sys/kernel/tracing")
    run("echo 1 >/sys/kernel/tracing/events/oxe/enable")


def measure(kinds, pattern, traced=False):
    results = {}
    for mtu in MTUS:
        wanted = [row for row in rows(mtu) if selects(pattern, row[0])]
        if not wanted:
            continue
        wire_up(mtu)
        for name, unit, _, other in wanted:
            figure = other() if other and len(kinds) > 1 else None
            results[name] = {"unit": unit, "other": figure, "runs": {}}
        for kind in kinds:
            driver = Driver(kind)
            if traced:
                trace_all()
            for name, _, function, _ in wanted:
                measure_row(driver, function, results[name])
                figure = results[name].get(kind, "not supported")
                print(f"# {kind} {name}: {figure}", file=sys.stderr, flush=True)
            driver.unload()
        wire_down()
    return results


def main():
    arguments = sys.argv[1:]
    mode = arguments.pop(0) if arguments[0].startswith("--") else ""
    file, pattern = arguments[0], arguments[1] if len(arguments) > 1 else ""
    # Python's own hashes must not differ from run to run.
    os.environ["PYTHONHASHSEED"] = "0"
    if mode == "--profile":
        profile(os.path.dirname(file), *arguments[1:])
        return
    kinds = ("oxe",) if mode in ("--oxe", "--traced") else ("rxe", "oxe", "siw")
    found = measure(kinds, pattern, mode == "--traced")
    with open(file, "w", encoding="ascii") as out:
        json.dump(found, out, indent=1)
    sys.exit(any(row.get(kind, 0) is None for row in found.values() for kind in kinds))


if __name__ == "__main__":
    main()
