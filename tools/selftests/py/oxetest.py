# SPDX-License-Identifier: GPL-2.0
"""What the test programs here share: devices, connected queue pairs, completions by name, and lines
for lib.sh's relay.

Devices are visible in every network namespace, so one process opens both hosts' devices and both
ends of a connection; what lies between them is still the wire.
"""

import os
import select
import signal
import sys
import time
import traceback

import enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SLOW = int(os.environ.get("SLOW", "1"))
DEV_A, DEV_B = os.environ.get("DEV_A", "oxea"), os.environ.get("DEV_B", "oxeb")
GID_A, GID_B = int(os.environ.get("GID4_A", "1")), int(os.environ.get("GID4_B", "1"))
GID6_A, GID6_B = int(os.environ.get("GID6_A", "2")), int(os.environ.get("GID6_B", "2"))

LOCAL = e.IBV_ACCESS_LOCAL_WRITE
ALL_ACCESS = (
    LOCAL | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
)
QKEY = 0x11111111
SIG = e.IBV_SEND_SIGNALED

STATUS = {
    getattr(e, n): n[len("IBV_WC_") :]
    for n in dir(e)
    if n.startswith("IBV_WC_")
    and n
    not in (
        "IBV_WC_SEND",
        "IBV_WC_RDMA_WRITE",
        "IBV_WC_RDMA_READ",
        "IBV_WC_COMP_SWAP",
        "IBV_WC_FETCH_ADD",
        "IBV_WC_BIND_MW",
        "IBV_WC_LOCAL_INV",
        "IBV_WC_TSO",
        "IBV_WC_ATOMIC_WRITE",
        "IBV_WC_FLUSH",
    )
    and (n.endswith("_ERR") or n in ("IBV_WC_SUCCESS",))
}


class Skip(Exception):
    """The case does not apply here; the text says why."""


def out(line):
    print(line, flush=True)


def case(name, function, *args):
    """Run one case and print what relay understands. True if it passed."""
    try:
        function(*args)
    except Skip as why:
        out(f"skip {name} # {why}")
    except Exception as error:  # a case may fail in any way; the next one runs all the same
        out(f"not ok {name}")
        out(f"# {type(error).__name__}: {error}")
        for line in traceback.format_exc().strip().splitlines()[-7:]:
            out(f"# {line}")
        return False
    else:
        out(f"ok {name}")
    return True


def same(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, expected {want!r}")


def errno_of(function, *args, **kwargs):
    """The errno with which a call fails, 0 if it does not. pyverbs raises it, or returns nothing of
    use."""
    try:
        function(*args, **kwargs)
    except PyverbsRDMAError as error:
        return error.error_code
    except OSError as error:
        return error.errno
    return 0


def child(function, meanwhile=lambda: None):
    """Runs in a process of its own, which may die in its library; if it lives it must not find a
    fault. Another function runs here meanwhile."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        code = 0
        try:
            function()
        except BaseException as error:
            os.write(write_end, f"{type(error).__name__}: {error}".encode())
            code = 3 if isinstance(error, Skip) else 1
        os._exit(code)
    os.close(write_end)
    meanwhile()
    with os.fdopen(read_end, errors="replace") as file:
        text = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 3:
        raise Skip(text)
    if status not in (0, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGABRT):
        raise AssertionError(text or f"status {status}")
    return status == 0


class Host:
    """An opened device with a PD, and the index of its RoCE v2 GID."""

    def __init__(self, name, gid):
        self.name, self.gid = name, gid
        self.ctx = Context(name=name)
        self.pd = PD(self.ctx)

    def gid_value(self):
        return self.ctx.query_gid(1, self.gid).gid

    def close(self):
        self.ctx.close()


def host_a(gid=None):
    return Host(DEV_A, GID_A if gid is None else gid)


def host_b(gid=None):
    return Host(DEV_B, GID_B if gid is None else gid)


class End:
    """A queue pair with CQs of its own and one registered buffer."""

    def __init__(
        self,
        host,
        qp_type=e.IBV_QPT_RC,
        size=65536,
        access=ALL_ACCESS,
        depth=64,
        sges=4,
        inline=64,
        cqe=256,
        sig_all=True,
        send_cq=None,
        recv_cq=None,
        srq=None,
    ):
        self.host = host
        self.cq = send_cq or CQ(host.ctx, cqe)
        self.rcq = recv_cq or CQ(host.ctx, cqe)
        self.srq = srq
        cap = QPCap(
            max_send_wr=depth,
            max_recv_wr=depth,
            max_send_sge=sges,
            max_recv_sge=sges,
            max_inline_data=inline,
        )
        init = QPInitAttr(
            qp_type=qp_type,
            scq=self.cq,
            rcq=self.rcq,
            srq=srq,
            cap=cap,
            sq_sig_all=int(sig_all),
        )
        self.type = qp_type
        self.qp = QP(host.pd, init)
        self.mr = MR(host.pd, size, access) if size else None
        self.access = access

    # ---- the way to RTS, one step each, so that a test can stop in between

    def to_init(self, access=None):
        attr = QPAttr(port_num=1)
        attr.qp_state = e.IBV_QPS_INIT
        if self.type == e.IBV_QPT_UD:
            attr.qkey = QKEY
            mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY
        else:
            attr.qp_access_flags = self.access if access is None else access
            mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
        self.qp.modify(attr, mask)

    def to_rtr(self, peer_gid, peer_qpn, psn=0, mtu=e.IBV_MTU_1024, rd_atomic=16, min_rnr=12):
        attr = QPAttr(port_num=1)
        attr.qp_state = e.IBV_QPS_RTR
        mask = e.IBV_QP_STATE
        if self.type != e.IBV_QPT_UD:
            route = GlobalRoute(dgid=gid_object(peer_gid), sgid_index=self.host.gid)
            attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route, dlid=0)
            attr.path_mtu, attr.dest_qp_num, attr.rq_psn = mtu, peer_qpn, psn
            mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        if self.type == e.IBV_QPT_RC:
            attr.max_dest_rd_atomic, attr.min_rnr_timer = rd_atomic, min_rnr
            mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        self.qp.modify(attr, mask)

    def to_rts(self, psn=0, timeout=14, retry=7, rnr=7, rd_atomic=16):
        attr = QPAttr(port_num=1)
        attr.qp_state = e.IBV_QPS_RTS
        attr.sq_psn = psn
        mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        if self.type == e.IBV_QPT_RC:
            attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = (
                timeout,
                retry,
                rnr,
                rd_atomic,
            )
            mask |= (
                e.IBV_QP_TIMEOUT
                | e.IBV_QP_RETRY_CNT
                | e.IBV_QP_RNR_RETRY
                | e.IBV_QP_MAX_QP_RD_ATOMIC
            )
        self.qp.modify(attr, mask)

    def to_state(self, state):
        attr = QPAttr(port_num=1)
        attr.qp_state = state
        self.qp.modify(attr, e.IBV_QP_STATE)

    def state(self):
        attr, _ = self.qp.query(e.IBV_QP_STATE)
        return attr.qp_state

    # ---- work

    def sge(self, length=None, offset=0, lkey=None):
        length = self.mr.length - offset if length is None else length
        return SGE(self.mr.buf + offset, length, self.mr.lkey if lkey is None else lkey)

    def recv(self, *sges, wr_id=0):
        (self.srq or self.qp).post_recv(RecvWR(wr_id, len(sges), list(sges)))

    def send(
        self,
        opcode,
        *sges,
        wr_id=0,
        flags=e.IBV_SEND_SIGNALED,
        remote=None,
        imm=None,
        atomic=None,
        ah=None,
        inv=None,
    ):
        """remote: (address, rkey); atomic: (compare or add, swap)."""
        wr = SendWR(
            wr_id, opcode=opcode, num_sge=len(sges), sg=list(sges) or None, send_flags=flags
        )
        if atomic is not None:
            wr.set_wr_atomic(remote[1], remote[0], *atomic)
        elif remote is not None:
            wr.set_wr_rdma(remote[1], remote[0])
        if imm is not None:
            wr.imm_data = imm
        if ah is not None:
            wr.set_wr_ud(*ah)
        self.qp.post_send(wr)

    def remote(self, offset=0):
        return (self.mr.buf + offset, self.mr.rkey)

    def close(self):
        self.qp.close()
        if self.mr is not None:
            self.mr.close()
        self.cq.close()
        self.rcq.close()


def async_fds():
    """The files of asynchronous events that this process has open, from /proc, as pyverbs does not
    name them."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{fd}"):
                found.add(int(fd))
        except FileNotFoundError:
            pass  # the directory's own
    return found


def with_events(open_host):
    """The host that open_host opens, and the file of its asynchronous events."""
    before = async_fds()
    host = open_host()
    (events,) = async_fds() - before
    return host, events


def next_event(host, events, seconds=60):
    """The type of the next asynchronous event; None if there is none within this time."""
    if not select.select([events], [], [], seconds * SLOW)[0]:
        return None
    event = host.ctx.get_async_event()
    event.ack()
    return event.event_type


def gid_object(text):
    from pyverbs.addr import GID

    return text if isinstance(text, GID) else GID(text)


def connect(a, b, psn_a=0x123, psn_b=0x456, mtu=e.IBV_MTU_1024, **rts):
    """Brings both ends to RTS, connected to each other; rts goes to both."""
    rtr = {k: rts.pop(k) for k in ("min_rnr", "rd_dest") if k in rts}
    rtr["rd_atomic"] = rtr.pop("rd_dest", 16)
    a.to_init()
    b.to_init()
    if a.type == e.IBV_QPT_UD:
        a.to_rtr(None, 0)
        b.to_rtr(None, 0)
    else:
        a.to_rtr(b.host.gid_value(), b.qp.qp_num, psn=psn_b, mtu=mtu, **rtr)
        b.to_rtr(a.host.gid_value(), a.qp.qp_num, psn=psn_a, mtu=mtu, **rtr)
    a.to_rts(psn=psn_a, **rts)
    b.to_rts(psn=psn_b, **rts)


def pair(**kw):
    """Two connected ends on the two hosts. Options of End go there, the rest to connect."""
    args = {k: kw.pop(k) for k in ("depth", "size", "access", "sig_all", "cqe") if k in kw}
    a, b = End(host_a(), **args), End(host_b(), **args)
    connect(a, b, **kw)
    return a, b


def shut(*ends):
    for end in ends:
        end.host.close()


def ah_to(host, peer, pd=None):
    """An address handle from one host to another."""
    route = GlobalRoute(dgid=gid_object(peer.gid_value()), sgid_index=host.gid, hop_limit=64)
    return AH(pd or host.pd, attr=AHAttr(port_num=1, is_global=1, gr=route, dlid=0))


def until(true, what, seconds=60):
    """Waits until true() holds; fails if it does not within this time. The limit is far above the
    usual time, for a machine that is busy with other work."""
    end = time.monotonic() + seconds * SLOW
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.01)


def poll(cq, count=1, seconds=60):
    """The next completions of a CQ; fewer than count is a failure."""
    found, end = [], time.monotonic() + seconds * SLOW
    while len(found) < count:
        n, wcs = cq.poll(count - len(found))
        found += wcs
        if not n:
            if time.monotonic() > end:
                raise AssertionError(
                    f"{len(found)} completions in {seconds * SLOW} s, expected {count}: "
                    f"{[(wc.wr_id, STATUS.get(wc.status, wc.status)) for wc in found]}"
                )
            time.sleep(0.002)
    return found


def none_pending(cq, seconds=0.2):
    """No further completion comes within this time."""
    time.sleep(seconds)
    n, wcs = cq.poll(16)
    same(
        [(wc.wr_id, STATUS.get(wc.status, wc.status)) for wc in wcs] if n else [],
        [],
        "completions left over",
    )


def status(wc):
    return STATUS.get(wc.status, wc.status)


def good(wcs):
    for wc in wcs:
        same(status(wc), "SUCCESS", f"completion of request {wc.wr_id}")
    return wcs


def counters(device):
    """The device's hardware counters by name."""
    where = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
    found = {}
    for name in sorted(os.listdir(where)):
        if name != "lifespan":
            with open(f"{where}/{name}", encoding="ascii") as file:
                found[name] = int(file.read())
    return found


def main(cases):
    """cases: (name, function) pairs; names given as arguments restrict them. Exit status 0: the
    program itself ran well."""
    wanted = sys.argv[1:]
    for name, function, *args in cases:
        if not wanted or name in wanted:
            case(name, function, *args)
