# SPDX-License-Identifier: GPL-2.0
"""Measure rxe, oxe, TCP and memcpy in one boot.

Most rows come from programs of other projects: perftest, iperf3 and fio (storage.sh). Programs of
our own measure WRITE (write.py), the use of keys (single.py) and MPI (osu.py).

Runs in the deterministic machine, where one instruction takes one nanosecond, so that its figures
are counts of instructions and repeat. "wire" is two network namespaces joined by veth, "loop" is
two programs on one device. Event mode throughout: a process that polls would burn the clock of its
peer.
Usage: bench.py FILE [PATTERN]	writes FILE (JSON) and prints a table; only rows whose name
       contains PATTERN.
       bench.py --profile FILE ROW	oxe's row alone, once more and for longer while its instructions
       are counted (see tools/profile); what belongs to the counts goes beside FILE.
"""

import ctypes
import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import osu

NS = ("oxp-a", "oxp-b")
VETH = ("oxpa", "oxpb")
IP = ("10.66.0.1", "10.66.0.2")
LIMIT = 600


def run(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True).stdout


def wire_up(mtu):
    for ns in NS:
        run(f"ip netns add {ns} && ip -n {ns} link set lo up")
    run(
        f"ip link add {VETH[0]} mtu {mtu} netns {NS[0]} "
        f"type veth peer name {VETH[1]} mtu {mtu} netns {NS[1]}"
    )
    for ns, veth, ip, ip6 in zip(NS, VETH, IP, osu.IP6):
        run(f"ip -n {ns} addr add {ip}/24 dev {veth} && ip -n {ns} link set {veth} up")
        run(f"ip -n {ns} addr add {ip6}/64 dev {veth} nodad")


def lossy(percent):
    """The wire loses so many percent of the packets, both ways. A queue in front segments
    super-packets, so that each packet is lost by itself; the queue has a cost of its own, also
    where nothing is lost. The receiver merges packets (GRO), as one with a network card does: veth
    does so only for a sender that does not segment."""
    for ns, veth in zip(NS, VETH):
        run(f"ip netns exec {ns} ethtool -K {veth} tso off gro on")
        run(
            f"tc -n {ns} qdisc replace dev {veth} root handle 1: "
            "tbf rate 100gbit burst 3000 limit 100m"
        )
        run(
            f"tc -n {ns} qdisc replace dev {veth} parent 1:1 "
            f"netem limit 100000 loss {percent}% seed 1"
        )


def wait_listening(server, port):
    """Waits until the process listens on the TCP port of the first host, or has ended."""
    ready = f":{port:04X} 00000000:0000 0A"
    while server.poll() is None and ready not in run(f"ip netns exec {NS[0]} cat /proc/net/tcp"):
        time.sleep(0.1)


def wire_down():
    for ns in NS:
        run(f"ip netns del {ns}", check=False)


class Driver:
    """One of the two RDMA drivers, loaded, with a device on each end of the wire."""

    # How perftest's programs wait for completions.
    waiting = "-e"

    def __init__(self, kind):
        self.kind = kind
        self.dev = (kind + "0", kind + "1")
        run("modprobe -a ib_uverbs rdma_ucm udp_tunnel ip6_udp_tunnel")
        run("insmod /oxe/oxe.ko" if kind == "oxe" else "modprobe rdma_rxe")
        for ns, dev, veth in zip(NS, self.dev, VETH):
            run(f"ip netns exec {ns} rdma link add {dev} type {kind} netdev {veth}")
        self.gid = [self.find_gid(dev, ip) for dev, ip in zip(self.dev, IP)]
        self.port = 19000
        # The last run's messages, and nanoseconds for each; the factor by which the next run has
        # more messages.
        self.messages, self.each, self.longer = 0, 0, 1
        # What storage.sh measured, by its kind.
        self.stored = {}

    def find_gid(self, dev, ip):
        address = ipaddress.ip_address(ip)
        if address.version == 4:
            address = ipaddress.ip_address(f"::ffff:{ip}")
        want = ":".join(re.findall("....", address.packed.hex()))
        where = f"/sys/class/infiniband/{dev}/ports/1/gids"
        for _ in range(100):
            for index in range(8):
                with open(f"{where}/{index}", encoding="ascii") as file:
                    if file.read().strip() == want:
                        return index
            time.sleep(0.1)
        raise RuntimeError(f"{dev} has no GID for {ip}")

    def unload(self):
        for dev in self.dev:
            run(f"rdma link del {dev}", check=False)
        run("rmmod oxe" if self.kind == "oxe" else "rmmod rdma_rxe")

    def perftest(self, tool, where, options):
        """The last row of results that the client prints, as numbers."""
        self.port += 1
        options = re.sub(r"-n (\d+)", lambda n: f"-n {int(n[1]) * self.longer}", options)
        end = 0 if where == "loop" else 1
        base = f"timeout {LIMIT} {tool} -F {self.waiting} -p {self.port} {options}"
        # Into a file: with a thousand queue pairs the output is longer than a pipe holds.
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen(
                f"ip netns exec {NS[0]} {base} -d {self.dev[0]} -x {self.gid[0]}",
                shell=True,
                stdout=log,
                stderr=log,
            )
            wait_listening(server, self.port)
            client = subprocess.run(
                f"ip netns exec {NS[end]} {base} -d {self.dev[end]} -x {self.gid[end]} {IP[0]}",
                shell=True,
                capture_output=True,
                text=True,
                check=False,
            )
            server.wait()
            log.seek(0)
            text = log.read()
        rows = re.findall(r"^ *\d+ +\d+ +[\d.]+.*$", client.stdout, re.M)
        if client.returncode or server.returncode or not rows:
            raise RuntimeError(
                f"{self.kind}: {tool} {options}: "
                f"{client.stdout[-300:]} {client.stderr[-300:]} {text[-300:]}"
            )
        row = [float(number) for number in rows[-1].split()]
        self.messages, self.each = row[1], (
            row[4] * 1000 if tool.endswith("lat") else row[0] * 8 / row[3]
        )
        return row

    def bandwidth(self, verb, where, size, options="", count=20000, total=160 << 20):
        """Gb/s; count and total bound the messages and bytes that a QP sends; it sends a few
        messages in any case."""
        count = max(20, min(count, total // size))
        return self.perftest(
            f"ib_{verb}_bw", where, f"-s {size} -n {count} --report_gbits {options}"
        )[3]

    def write(self, where, size, count=400, **scale):
        """Gb/s and microseconds per message of WRITEs."""
        self.port += 1
        options = "".join(
            f" --{name} {value}"
            for name, value in {"size": size, "count": count * self.longer, **scale}.items()
        )
        end = 0 if where == "loop" else 1
        ends = [
            f"ip netns exec {NS[i]} timeout {LIMIT} "
            f"python3 /oxe/perf/write.py {self.dev[i]} {self.gid[i]} {self.port} {options}"
            for i in (0, end)
        ]
        with subprocess.Popen(
            ends[0], shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            wait_listening(server, self.port)
            client = subprocess.run(
                f"{ends[1]} {IP[0]}", shell=True, capture_output=True, text=True, check=False
            )
            text, _ = server.communicate()
        if client.returncode or server.returncode:
            raise RuntimeError(
                f"{self.kind}: write {options}: {client.stderr[-300:]} {text[-300:]}"
            )
        gbits, micros = (float(word) for word in client.stdout.split())
        self.messages, self.each = count * self.longer, micros * 1000
        return gbits, micros

    def bandwidth_any(self, verb, where, size, total=160 << 20):
        """Gb/s, for WRITE too."""
        if verb == "write":
            return self.write(where, size, max(40, total // size))[0]
        return self.bandwidth(verb, where, size, total=total)

    def bandwidth_lossy(self, verb, size, percent):
        """Gb/s on a wire that loses packets."""
        lossy(percent)
        try:
            return self.bandwidth_any(verb, "wire", size, 40 << 20)
        finally:
            for ns, veth in zip(NS, VETH):
                run(f"tc -n {ns} qdisc del dev {veth} root")
                run(f"ip netns exec {ns} ethtool -K {veth} tso on gro off")

    def latency(self, verb, where, size=64):
        """Microseconds, median."""
        return self.latencies(verb, where, size)[0]

    def latencies(self, verb, where, size=64):
        """Microseconds: median and 99th percentile."""
        size = "" if verb == "atomic" else f"-s {size}"
        row = self.perftest(f"ib_{verb}_lat", where, f"{size} -n 1000")
        return row[4], row[7]

    def single(self, name, count=400):
        """Microseconds for one round of single.py."""
        count *= self.longer
        code = f"/oxe/perf/single.py {self.dev[0]} {self.gid[0]} {name} {count}"
        micros = float(run(f"ip netns exec {NS[0]} timeout {LIMIT} python3 {code}"))
        self.messages, self.each = count, micros * 1000
        return micros

    def storage(self, kind, name):
        """A figure of storage.sh, which measures all of a kind at once."""
        if kind not in self.stored:
            text = run(f"LINK_TYPE={self.kind} timeout {LIMIT} bash /oxe/perf/storage.sh {kind}")
            lines = (line.rsplit(" ", 1) for line in text.splitlines())
            self.stored[kind] = {key: float(value) for key, value in lines}
        return self.stored[kind][name]

    def memory(self, what):
        """Bytes of kernel memory that one idle object takes."""
        code = f"/oxe/perf/idle.py {self.dev[0]} {what}"
        return float(run(f"ip netns exec {NS[0]} python3 {code}"))


def tcp(where, size):
    """Gb/s of iperf3."""
    end = 0 if where == "loop" else 1
    server = subprocess.Popen(
        f"ip netns exec {NS[0]} iperf3 -s -1 -B {IP[0]}", shell=True, stdout=subprocess.DEVNULL
    )
    wait_listening(server, 5201)
    text = run(f"ip netns exec {NS[end]} iperf3 -J -c {IP[0]} -t 2 -l {size}")
    server.wait()
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9


def memcpy(size):
    """Gb/s of libc's memcpy within the cache."""
    a, b = (ctypes.create_string_buffer(size) for _ in range(2))
    count = max(1, (64 << 20) // size)
    copy, start = ctypes.memmove, time.perf_counter()
    for _ in range(count):
        copy(a, b, size)
    return size * count * 8 / (time.perf_counter() - start) / 1e9


# With small WRITEs the figures would be those of write.py itself.
VERBS = {False: ("send", "read"), True: ("send", "write", "read")}


def scale():
    """Rows that show the cost of many QPs, regions or SGEs."""
    # The receives of all queue pairs have to fit into one completion queue.
    for count, receives in ((1, 128), (10, 128), (100, 128), (1000, 16)):
        yield (
            f"wire 1500, send 64 B, {count} QP, 16 deep",
            "Gb/s",
            lambda d, c=count, r=receives: d.bandwidth(
                "send", "wire", 64, f"-q {c} -t 16 -r {r}", max(64, 6000 // c)
            ),
            None,
        )
    yield (
        "wire 1500, send 64 B, 10 QP, SRQ",
        "Gb/s",
        lambda d: d.bandwidth("send", "wire", 64, "-q 10 -t 16 -r 512 --use-srq", 600),
        None,
    )
    for name, counts in (("qps", (1, 100, 1000)), ("mrs", (1, 100, 10000)), ("sges", (1, 8, 32))):
        for count in counts:
            yield (
                f"loop, write 4096 B, {count} {name[:-1].upper()}",
                "us each",
                lambda d, n=name, c=count: d.write("loop", 4096, 2000, **{n: c})[1],
                None,
            )


def unreliable():
    """Rows of UC. There is a receive for each message, as one that finds none is lost. With a
    thousand messages of 64 bytes the beginning and end were a third of the time."""
    for where, size in (("wire", 64), ("wire", 1 << 20), ("loop", 64), ("loop", 1 << 20)):
        yield (
            f"{where}{' 1500' if where == 'wire' else ''}, UC send {size} B",
            "Gb/s",
            lambda d, w=where, s=size: d.bandwidth("send", w, s, "-c UC -r 10000", 10000, 100 << 20),
            None,
        )


def rows(mtu):
    """The rows at this MTU: (name, unit, function of a driver, value to compare with or None)."""
    for size in (64, 4096, 65536, 1 << 20):
        if mtu == 9000 and size != 1 << 20:
            continue
        for verb in VERBS[size >= 65536]:
            yield (
                f"wire {mtu}, {verb} {size} B",
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
            yield f"{where}, {verb} latency", "us", lambda d, v=verb, w=where: d.latency(v, w), None
    for size in (64, 1 << 20):
        for verb in VERBS[size >= 65536]:
            yield (
                f"loop, {verb} {size} B",
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
    for what in ("qp", "cq"):
        yield f"memory of an idle {what.upper()}", "bytes", lambda d, w=what: d.memory(w), None


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


def count_for_a_while(counting):
    """Counts instructions for half a second of a run that has begun."""
    time.sleep(1.5)
    with open(counting, "w", encoding="ascii"):
        time.sleep(0.5)
    os.remove(counting)


def profile(directory, wanted):
    """Runs oxe's row of this name for three seconds while its instructions are counted."""
    found = [(mtu, row[2]) for mtu in (1500, 9000) for row in rows(mtu) if row[0] == wanted]
    if not found:
        sys.exit(f"there is no row '{wanted}'")
    mtu, function = found[0]
    wire_up(mtu)
    driver = Driver("oxe")
    function(driver)
    if not driver.messages:
        sys.exit(f"'{wanted}' is no row of messages")
    driver.longer = 1 + int(3e9 / (driver.messages * driver.each))
    counter = threading.Thread(target=count_for_a_while, args=(f"{directory}/counting",))
    counter.start()
    function(driver)
    counter.join()
    with open("/proc/kallsyms", encoding="ascii") as names, open(
        f"{directory}/kallsyms", "w", encoding="ascii"
    ) as copy:
        copy.write(names.read())
    with open(f"{directory}/profile.json", "w", encoding="ascii") as file:
        json.dump({"name": wanted, "instructions": driver.each}, file)


def measure(pattern):
    results = {}
    for mtu in (1500, 9000):
        wanted = [row for row in rows(mtu) if pattern in row[0]]
        if not wanted:
            continue
        wire_up(mtu)
        for name, unit, _, other in wanted:
            results[name] = {"unit": unit, "other": other() if other else None}
        for kind in ("rxe", "oxe"):
            driver = Driver(kind)
            for name, _, function, _ in wanted:
                try:
                    results[name][kind] = function(driver)
                except (RuntimeError, subprocess.CalledProcessError) as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    results[name][kind] = None
                print(f"# {kind} {name}: {results[name][kind]}", file=sys.stderr, flush=True)
            driver.unload()
        wire_down()
    return results


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.2 else f"{value:.4f}"


def table(results):
    print(f"{'':40}{'unit':>8}{'rxe':>10}{'oxe':>10}{'x rxe':>8}{'TCP/memcpy':>12}")
    for name, row in results.items():
        rxe, oxe = row.get("rxe"), row.get("oxe")
        ratio = None
        if rxe and oxe:
            ratio = oxe / rxe if row["unit"] == "Gb/s" else rxe / oxe
        print(
            f"{name:40}{row['unit']:>8}{number(rxe):>10}{number(oxe):>10}"
            f"{number(ratio):>8}{number(row['other']):>12}"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--profile":
        profile(os.path.dirname(sys.argv[2]), sys.argv[3])
        sys.exit()
    found = measure(sys.argv[2] if len(sys.argv) > 2 else "")
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(found, out, indent=1)
    table(found)
    sys.exit(any(row.get(kind) is None for row in found.values() for kind in ("rxe", "oxe")))
