# SPDX-License-Identifier: GPL-2.0
"""The drivers on a wire in the guest, and how one row of bench.py is measured."""

import ctypes
import ipaddress
import json
import os
import re
import subprocess
import tempfile
import time

import ticks

NS = ("oxp-a", "oxp-b")
VETH = ("oxpa", "oxpb")
IP = ("10.66.0.1", "10.66.0.2")
IP6 = ("fd66::1", "fd66::2")
LIMIT = 600
PROGRAMS = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
    "/usr/lib/x86_64-linux-gnu",
    os.path.dirname(os.__file__),
    "/usr/lib/python3/dist-packages",
    f"/usr/lib/modules/{os.uname().release}/kernel",
)


def run(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True).stdout


def wire_up(mtu):
    for ns in NS:
        run(f"ip netns add {ns} && ip -n {ns} link set lo up")
    # siw listens on each netdev by its number, in the namespace of the program, whatever the
    # namespace of the netdev: equal numbers would be one address.
    run(
        f"ip link add {VETH[0]} index 101 mtu {mtu} netns {NS[0]} "
        f"type veth peer name {VETH[1]} index 102 mtu {mtu} netns {NS[1]}"
    )
    for ns, veth, ip, ip6 in zip(NS, VETH, IP, IP6):
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


def read_ahead():
    """Brings what the programs need into memory. While the machine waits for its disk, which takes
    as long as the host pleases, its clock jumps from one timer to the next: so a row that reads the
    disk has an arbitrary time, and timeouts of minutes may strike."""
    for place in PROGRAMS:
        for directory, _, files in os.walk(place):
            for name in files:
                path = f"{directory}/{name}"
                if os.path.islink(path):
                    continue
                file = os.open(path, os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(file)


class NotSupported(Exception):
    """The driver, or a program over it, has no such thing."""


class Driver:
    """One of the RDMA drivers, loaded, with a device on each end of the wire. siw is iWARP's: its
    queue pairs are connected by the connection manager alone, and there is RC alone."""

    LOAD = {
        "oxe": "insmod /oxe/oxe.ko",
        "rxe": "modprobe rdma_rxe",
        "siw": "insmod /oxe/siw.ko",
    }
    MODULE = {"oxe": "oxe", "rxe": "rdma_rxe", "siw": "siw"}

    # How perftest's programs wait for completions.
    waiting = "-e"
    next_series = 1

    def __init__(self, kind):
        self.kind = kind
        self.dev = (kind + "0", kind + "1")
        read_ahead()
        run("modprobe -a ib_uverbs rdma_ucm udp_tunnel ip6_udp_tunnel")
        run(self.LOAD[kind])
        for ns, dev, veth in zip(NS, self.dev, VETH):
            run(f"ip netns exec {ns} rdma link add {dev} type {kind} netdev {veth}")
        if kind == "siw":
            self.gid = [0, 0]
        else:
            self.gid = [self.find_gid(dev, ip) for dev, ip in zip(self.dev, IP)]
        self.port = 19000
        # The last run: its messages, nanoseconds for each, and the number under which its
        # instructions are counted (0: they are not); the factor by which the next run has more
        # messages.
        self.messages, self.each, self.series, self.longer = 0, 0, 0, 1
        # There is no steady state in its midst: all of it counts.
        self.whole = False
        # What was measured together, by its kind: name -> (figure, messages, series).
        self.together = {}

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

    def counted(self, preload=False, runs=1):
        """The beginning of a command whose instructions are counted, as those of a series of their
        own; of so many series, if it has so many runs. Programs of other projects need their ticks
        preloaded."""
        self.series = Driver.next_series
        Driver.next_series += runs
        words = f"env OXE_SERIES={self.series}"
        if preload and os.path.exists(ticks.PRELOAD):
            words += f" LD_PRELOAD={ticks.PRELOAD}"
        return words

    def last_run(self):
        """What counts.py needs to know of the last run."""
        return {"messages": self.messages, "series": self.series, "whole": self.whole}

    def unload(self):
        for dev in self.dev:
            run(f"rdma link del {dev}", check=False)
        run(f"rmmod {self.MODULE[self.kind]}")

    def needs_roce(self):
        """What follows is not for siw."""
        if self.kind == "siw":
            raise NotSupported

    def perftest(self, tool, where, options):
        """The last row of results that the client prints, as numbers."""
        if "UC" in options or "--use-srq" in options or "atomic" in tool:
            self.needs_roce()
        self.port += 1
        connected = ["-R" if self.kind == "siw" else f"-x {gid}" for gid in self.gid]
        options = re.sub(r"-n (\d+)", lambda n: f"-n {int(n[1]) * self.longer}", options)
        end = 0 if where == "loop" else 1
        base = f"{tool} -F {self.waiting} -p {self.port} {options}"
        counted = self.counted(preload=True)
        # Each of many queue pairs sends a few bursts, and of large messages there are few: the
        # program learns of most completions near the end.
        self.whole = re.search(r"-q \d{3}|-s \d{5}", options) is not None
        # Into a file: with a thousand queue pairs the output is longer than a pipe holds.
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen(
                f"ip netns exec {NS[0]} timeout {LIMIT} "
                f"{base} -d {self.dev[0]} {connected[0]}",
                shell=True,
                stdout=log,
                stderr=log,
            )
            wait_listening(server, self.port)
            client = subprocess.run(
                f"ip netns exec {NS[end]} timeout {LIMIT} "
                f"{counted} {base} -d {self.dev[end]} {connected[end]} {IP[0]}",
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
            # It refuses a hundred queue pairs with this many receives.
            if self.kind == "siw" and "Operation not supported" in client.stdout + text:
                raise NotSupported
            raise RuntimeError(
                f"{self.kind}: {tool} {options}: "
                f"{client.stdout[-300:]} {client.stderr[-300:]} {text[-300:]}"
            )
        row = [float(number) for number in rows[-1].split()]
        if tool.endswith("bw"):
            self.messages, self.each = row[1], row[0] * 8 / row[3]
        else:
            # A round of SENDs has a message each way.
            self.messages, self.each = row[1] * (2 if "send" in tool else 1), row[4] * 1000
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
        self.needs_roce()
        self.port += 1
        options = "".join(
            f" --{name} {value}"
            for name, value in {"size": size, "count": count * self.longer, **scale}.items()
        )
        end = 0 if where == "loop" else 1
        ends = [
            f"ip netns exec {NS[i]} timeout {LIMIT} {counted}"
            f"python3 /oxe/perf/write.py {self.dev[i]} {self.gid[i]} {self.port} {options}"
            for i, counted in ((0, ""), (end, self.counted() + " "))
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
        self.needs_roce()
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
        self.needs_roce()
        count *= self.longer
        code = f"/oxe/perf/single.py {self.dev[0]} {self.gid[0]} {name} {count}"
        command = f"timeout {LIMIT} {self.counted()} python3 {code}"
        micros = float(run(f"ip netns exec {NS[0]} {command}"))
        self.messages, self.each = count, micros * 1000
        return micros

    def one_of(self, kind, name, measure, runs):
        """A figure of many that are measured together, in so many runs; measure gives a list of
        (name, figure, messages), one for each of them."""
        self.needs_roce()
        if kind not in self.together:
            counted = self.counted(preload=kind != "mpi", runs=runs)
            first = self.series
            self.together[kind] = {
                found[0]: (*found[1:], first + i) for i, found in enumerate(measure(counted))
            }
        figure, self.messages, self.series = self.together[kind][name]
        self.whole = True
        return figure

    def storage(self, kind, name):
        """A figure of storage.sh, which measures all of a kind at once."""

        def measure(counted):
            text = run(
                f"{counted.replace('LD_PRELOAD', 'PRELOAD')} LINK_TYPE={self.kind} "
                f"timeout {LIMIT} bash /oxe/perf/storage.sh {kind}"
            )
            for line in text.splitlines():
                found, *figures = line.rsplit(" ", 2)
                yield found, *map(float, figures)

        return self.one_of(kind, name, measure, 4)

    def memory(self, what):
        """Kilobytes of kernel memory that one idle object takes."""
        self.needs_roce()
        code = f"/oxe/perf/idle.py {self.dev[0]} {what}"
        return float(run(f"ip netns exec {NS[0]} python3 {code}")) / 1000


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
