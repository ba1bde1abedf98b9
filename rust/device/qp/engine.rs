// SPDX-License-Identifier: GPL-2.0

//! QP progress engine: processes one input to completion, in the context that brings the input: a
//! doorbell, a packet, the timer or queued work.
//!
//! Under the QP's lock the transport decides, packets are built and completions are put into their
//! CQs. Without the lock packets are sent and consumers are notified; both may call the engine
//! again. One context at a time sends for a QP, so that its packets stay in order; a context that
//! finds another one sending sets `rerun`.

use super::flush;
use super::object::{Inner, Qp};
use super::progress::{Deferred, Input, Progress};
use super::service::Transport;
use crate::device::counters::Count;
use crate::device::packet::loopback::LoopbackQueue;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::Batch;
use crate::proto::transport::{ConnectedQp, Events, Instant};
use crate::rdma::events::QpEvent;
use crate::sync::bh::{self, BhGuard};
use crate::sync::{timer, work};
use kernel::sync::atomic::{Acquire, Relaxed, Release};
use kernel::sync::Arc;

/// Batches of loopback packets that one call delivers before it defers the rest to work. It sends
/// only one batch of packets for the wire, so that receivers on this CPU, and the responses, have
/// their turn then.
const MAX_BATCHES: usize = 16;

/// The same for queued work of a process's QP: other work on this CPU has its turn between.
const MAX_WORK_BATCHES: usize = 4;

/// How often work in process context continues before other QPs' work has its turn: its queue has a
/// worker for each CPU alone.
const MAX_TURNS: usize = 16;

/// How often completed requests make room for others under one hold of the lock, as a process may
/// post as fast as the engine completes.
const MAX_ROUNDS: usize = 4;

/// When to try again after there was no memory for a packet, in nanoseconds.
const STALL: u64 = 1_000_000;

/// When to try again after a page was missing, in nanoseconds: about as long as a fault takes. The
/// memory manager may take the page back soon. A page that does not come is looked for less and
/// less often, down to once in [`MAX_PAGE_STALL`].
const PAGE_STALL: u64 = 100_000;

/// See [`PAGE_STALL`].
const MAX_PAGE_STALL: u64 = 5_000_000;

/// Runs `qp`: processes the input, sends due packets, and completes requests.
///
/// Softirq or process context, with no lock held that the network stack or a consumer may take. A
/// process with a doorbell of its own may sleep.
pub(crate) fn run(qp: &Arc<Qp>, mut input: Input<'_>) {
    let mut turns = 0;
    while turn(qp, &mut input) {
        // The context continues, so that its own CPU time pays for the packets. Bottom halves, and
        // receivers with them, had their turn meanwhile.
        let killed = bh::cond_resched_killable();
        if matches!(input, Input::Bulk) {
            turns += 1;
            if turns == MAX_TURNS {
                work::queue_bulk::<Qp, 1>(qp);
                return;
            }
            continue;
        }
        if killed {
            let mut inner = qp.inner.lock();
            inner.posting = false;
            inner.queued = true;
            drop(inner);
            work::queue_bh::<Qp, 0>(qp);
            return;
        }
        input = Input::Resume;
    }
}

/// Runs `qp` until nothing is due, or until other contexts are to have their turn. Returns whether
/// the caller is to continue then; otherwise queued work does, if anything is left.
#[inline]
fn turn(qp: &Arc<Qp>, input: &mut Input<'_>) -> bool {
    let bh = BhGuard::new();
    let now = match input {
        Input::Work(now) => *now,
        _ => Instant(timer::now_ns()),
    };
    let mut batch = Batch::new(&bh, qp, &qp.tx_limit);
    let mut batches = 0;
    let mut inner = qp.inner.lock();
    let mut deferred = Deferred::default();
    match input {
        Input::Work(_) | Input::Bulk => inner.queued = false,
        Input::Resume => inner.posting = false,
        // The call of the process succeeds, so its requests count as posted.
        Input::Doorbell if inner.stopped => inner.sq.note_posted(),
        _ => {}
    }
    if inner.stopped {
        return false;
    }
    if inner.is_in_error() {
        inner.flush_poll.begin(now, input);
    }
    process_input(qp, &mut inner, now, input, &mut deferred);
    let later = (inner.queued || inner.posting) && !matches!(input, Input::Flush);
    if inner.sending || later {
        inner.rerun = true;
        inner.flush_due |= matches!(input, Input::Flush);
        complete(qp, &mut inner, &mut deferred);
        drop(inner);
        notify(qp, deferred);
        return false;
    }
    begin(&mut inner, &mut batch);
    loop {
        inner.rerun = false;
        let progress = step(qp, &mut inner, now, &mut batch, &mut deferred);
        let send_again = progress == Progress::More;
        if batch.is_empty() && !send_again && !inner.rerun {
            end(qp, &mut inner, &mut batch);
            arm(qp, &mut inner, now, progress);
            break;
        }
        drop(inner);
        let packets = batch.send(&qp.ctx.core);
        let lent = flush_loopback(qp, &mut batch.loopback);
        notify(qp, core::mem::take(&mut deferred));
        batches += 1;
        inner = qp.inner.lock();
        let released = release(qp, &mut inner, lent);
        let flush = core::mem::take(&mut inner.flush_due);
        if inner.stopped && !flush {
            end(qp, &mut inner, &mut batch);
            return false;
        }
        if released {
            complete(qp, &mut inner, &mut deferred);
            // The slots that are free now, or a local request, may be waited for.
            inner.rerun |= inner.sq.has_unfetched() || inner.sq.has_barrier();
        }
        if (batches >= max_batches(qp, input) || packets && send_again) && !flush {
            end(qp, &mut inner, &mut batch);
            let continues = leave_rest(qp, &mut inner, input);
            drop(inner);
            notify(qp, deferred);
            if !continues {
                work::queue_bh::<Qp, 0>(qp);
            }
            return continues;
        }
        if !send_again && !inner.rerun {
            end(qp, &mut inner, &mut batch);
            arm(qp, &mut inner, now, progress);
            break;
        }
    }
    drop(inner);
    notify(qp, deferred);
    false
}

/// How many batches of loopback packets one call delivers.
#[inline]
fn max_batches(qp: &Qp, input: &Input<'_>) -> usize {
    match input {
        Input::Work(_) | Input::Bulk if qp.is_user => MAX_WORK_BATCHES,
        _ => MAX_BATCHES,
    }
}

/// Leaves what is due to the process that rang the doorbell, if it is to send that itself, or to
/// the work in process context that this is: returns true then, as the caller continues. Else to
/// work, which the caller queues.
#[inline]
fn leave_rest(qp: &Qp, inner: &mut Inner, input: &Input<'_>) -> bool {
    let callers = matches!(input, Input::Doorbell | Input::Resume);
    if callers && inner.is_callers_work(qp) {
        inner.posting = true;
        return true;
    }
    inner.queued = true;
    matches!(input, Input::Bulk)
}

/// The packets of a batch are sent or delivered; `lent` if they were loopback packets. Returns as
/// [`Transport::release`] does.
#[inline]
fn release(qp: &Qp, inner: &mut Inner, lent: bool) -> bool {
    if lent {
        qp.delivered.store(0, Relaxed);
    }
    inner.transport.release()
}

/// From now on this context sends for the QP.
#[inline]
fn begin(inner: &mut Inner, batch: &mut Batch<'_, Qp>) {
    inner.sending = true;
    batch.loopback.keep(&mut inner.loopback);
}

/// This context no longer sends for the QP.
#[inline]
fn end(qp: &Qp, inner: &mut Inner, batch: &mut Batch<'_, Qp>) {
    inner.sending = false;
    inner.loopback.keep(&mut batch.loopback);
    if inner.stopped {
        qp.idle.notify_all();
    }
}

/// Schedules `qp` to run in softirq context: before this returns if the caller's context allows
/// that.
///
/// Any context, hard irqs included. A kernel user may post in any context, and may hold a lock that
/// its completion handler takes, too: the handler must not run from within the post.
pub(crate) fn schedule(qp: &Arc<Qp>) {
    if bh::irqs_disabled() {
        work::queue_bh::<Qp, 0>(qp);
    } else {
        let _bh = BhGuard::new();
        work::queue_bh::<Qp, 0>(qp);
    }
}

/// Passes the input to the transport.
#[inline]
fn process_input(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    input: &mut Input<'_>,
    deferred: &mut Deferred,
) {
    match input {
        Input::Doorbell => inner.sq.note_posted(),
        Input::Resume | Input::Sweep => {}
        Input::Work(_) | Input::Bulk => match &mut inner.transport {
            Transport::Rc(rc) => rc.conn.handle_timeout(now, &mut inner.sq),
            Transport::Uc(uc) => uc.conn.handle_timeout(now, &inner.sq),
            Transport::Datagram(_) => {}
        },
        Input::Flush => match &mut inner.transport {
            Transport::Rc(rc) => rc.conn.flush_delayed(),
            Transport::Uc(uc) => uc.conn.flush_delayed(),
            Transport::Datagram(_) => {}
        },
        Input::Multicast(packet) => handle(qp, inner, now, RxPacket::Wire(packet), deferred),
        Input::Packets(group) => {
            while let Some(packet) = group.next(&qp.ctx.core) {
                if packet.skb.is_gso() {
                    let (repr, len) = (&packet.repr, packet.payload_len);
                    let limit = match &inner.transport {
                        Transport::Rc(rc) => rc.conn.max_segments(repr, len, &inner.sq),
                        Transport::Uc(uc) => uc.conn.max_segments(repr, len, &inner.sq),
                        Transport::Datagram(_) => 1,
                    };
                    packet.extend(&qp.ctx.core, limit);
                }
                handle(qp, inner, now, RxPacket::Wire(packet), deferred);
            }
        }
    }
}

/// Passes a received packet to the transport, and counts it if it is dropped. Requests that an
/// earlier packet completed have their completions before a receive that this one completes.
#[inline]
fn handle(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    packet: RxPacket<'_>,
    deferred: &mut Deferred,
) {
    if inner.transport.has_completion() && packet.repr().bth.opcode.kind().is_request() {
        complete(qp, inner, deferred);
    }
    let (sq, rq) = (&mut inner.sq, &mut inner.rq);
    let handled = match &mut inner.transport {
        Transport::Rc(rc) => rc.handle(&qp.ctx, sq, rq, now, packet, deferred),
        Transport::Uc(uc) => uc.handle(&qp.ctx, sq, rq, now, packet, deferred),
        Transport::Datagram(ud) => ud.handle(&qp.ctx, rq, packet, deferred),
    };
    if let Err(cause) = handled {
        qp.ctx.core.counters.dropped(cause);
    }
}

/// Delivers all loopback packets of `from` to their queue pairs of this device. No lock held.
/// Returns whether there were any.
#[inline]
fn flush_loopback(from: &Qp, loopback: &mut LoopbackQueue) -> bool {
    if loopback.is_empty() {
        return false;
    }
    let core = &from.ctx.core;
    while let Some(qpn) = loopback.dest() {
        match core.qps.get(qpn) {
            Some(qp) => deliver_loopback(from, &qp, loopback),
            None => {
                core.counters.count(Count::NoQp);
                let _ = loopback.next_for(qpn);
            }
        }
    }
    loopback.clear();
    true
}

/// Delivers the next loopback packets of `from` to `qp`. Queued work sends the packets of `qp`
/// itself: this runs on behalf of another QP, and a chain of QPs that send to each other must not
/// recurse.
fn deliver_loopback(from: &Qp, qp: &Arc<Qp>, loopback: &mut LoopbackQueue) {
    let now = Instant(timer::now_ns());
    let mut deferred = Deferred::default();
    let mut guard = qp.inner.lock();
    let inner = &mut *guard;
    // The packets that the peer replies to are delivered, though the context that sends for `qp`
    // may not have noticed yet.
    if qp.delivered.load(Acquire) != 0 && inner.transport.release() {
        complete(qp, inner, &mut deferred);
        inner.rerun |= inner.sq.has_barrier();
    }
    while let Some(packet) = loopback.next_for(qp.ctx.qpn) {
        if !inner.stopped {
            handle(qp, inner, now, RxPacket::Loopback(packet), &mut deferred);
        }
    }
    // Before the receiver's lock is released: after that it may respond.
    if loopback.dest().is_none() {
        from.delivered.store(1, Release);
    }
    if inner.stopped {
        return;
    }
    complete(qp, inner, &mut deferred);
    let due = inner.may_transmit();
    if inner.sending {
        inner.rerun |= due;
    } else if !due {
        arm(qp, inner, now, Progress::Idle);
    }
    let queue = due && !inner.sending;
    drop(guard);
    if queue {
        work::queue_bh::<Qp, 0>(qp);
    }
    notify(qp, deferred);
}

/// Fetches, transmits and completes until nothing is due or the batch is full.
#[inline]
fn step(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    batch: &mut Batch<'_, Qp>,
    deferred: &mut Deferred,
) -> Progress {
    for _ in 0..MAX_ROUNDS {
        inner.fetch(&qp.ctx.core);
        let progress = match &mut inner.transport {
            Transport::Rc(rc) => rc.transmit(&qp.ctx, &mut inner.sq, now, batch),
            _ => transmit_unreliable(qp, inner, now, batch),
        };
        let released = complete(qp, inner, deferred);
        match progress {
            Progress::Idle => {}
            Progress::Refetch => continue,
            Progress::More | Progress::Stalled | Progress::PageFault => return progress,
        }
        if !released || !inner.sq.has_unfetched() {
            return Progress::Idle;
        }
    }
    Progress::More
}

/// As [`step`], transmits for a service without acknowledgements. Apart from `step` so that the
/// compiler does not make one large function of all services.
#[inline(never)]
fn transmit_unreliable(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    batch: &mut Batch<'_, Qp>,
) -> Progress {
    let progress = match &mut inner.transport {
        Transport::Rc(_) => Progress::Idle,
        Transport::Uc(uc) => uc.transmit(&qp.ctx, &mut inner.sq, now, batch),
        Transport::Datagram(ud) => ud.transmit(&qp.ctx, &mut inner.sq, batch),
    };
    // Packets for the wire have their payload; a loopback packet refers to it.
    let waited = batch.loopback.is_empty() && inner.transport.release();
    match progress {
        // A local request may have waited for that.
        Progress::Idle if waited && inner.sq.has_barrier() => Progress::Refetch,
        progress => progress,
    }
}

/// Pushes completions to their CQs and collects events. Returns whether slots became free.
#[inline]
pub(super) fn complete(qp: &Arc<Qp>, inner: &mut Inner, deferred: &mut Deferred) -> bool {
    let mut released = false;
    while let Some(done) = inner.transport.poll_send_completion(&mut inner.sq) {
        released = true;
        deferred.send.merge(inner.sq.complete(&qp.ctx, &done));
    }
    deferred.events = deferred.events.union(inner.transport.take_events());
    // Before the flush: see there.
    inner.publish_state(qp);
    if inner.is_in_error() && inner.flush_receives(qp, deferred) {
        inner.rerun = true;
    }
    released
}

/// Arms the timer if the transport has a timeout, or a process may post receives that must be
/// flushed. A timer that is armed for an earlier time is left alone. It then finds nothing due and
/// is armed again, which is cheaper than to modify it with every ACK.
#[inline]
fn arm(qp: &Arc<Qp>, inner: &mut Inner, now: Instant, progress: Progress) {
    inner.page_stalls = match progress {
        Progress::PageFault => inner.page_stalls.saturating_add(1),
        _ => 0,
    };
    let due = match (&inner.transport, progress) {
        (_, Progress::Stalled) => Some(now.after(STALL)),
        (_, Progress::PageFault) => Some(now.after(page_stall(inner.page_stalls))),
        _ if inner.is_in_error() && (!qp.is_user || inner.rq.is_shared()) => None,
        _ if inner.is_in_error() => {
            let due = inner.flush_poll.next(now);
            if due.is_none() {
                flush::start(&qp.ctx.core);
            }
            due
        }
        (Transport::Rc(rc), _) => rc.conn.poll_timeout(),
        (Transport::Uc(uc), _) => uc.conn.poll_timeout(),
        (Transport::Datagram(_), _) => None,
    };
    let Some(due) = due else { return };
    qp.timer.arm_at(qp.as_arc_borrow(), due.0);
}

/// How long to wait for a page that was missing `stalls` times in a row, in nanoseconds.
fn page_stall(stalls: u16) -> u64 {
    let times = u64::from(stalls / 8).saturating_add(1);
    PAGE_STALL.saturating_mul(times).min(MAX_PAGE_STALL)
}

/// Notifies CQ consumers and reports events. No lock held.
#[inline]
pub(super) fn notify(qp: &Arc<Qp>, deferred: Deferred) {
    qp.ctx.send_cq.wake(deferred.send);
    qp.ctx.recv_cq.wake(deferred.recv);
    if deferred.srq_limit {
        if let Some(srq) = &qp.ctx.srq {
            srq.report_limit();
        }
    }
    if !deferred.events.is_empty() {
        report(qp, deferred.events);
    }
}

#[cold]
fn report(qp: &Arc<Qp>, events: Events) {
    let table = [
        (Events::COMM_EST, QpEvent::CommEst),
        (Events::SQ_DRAINED, QpEvent::SqDrained),
        (Events::REQ_ERR, QpEvent::ReqErr),
        (Events::ACCESS_ERR, QpEvent::AccessErr),
        (Events::FATAL, QpEvent::Fatal),
        (Events::LAST_WQE, QpEvent::LastWqe),
    ];
    for (flag, event) in table {
        if events.contains(flag) {
            qp.events.raise(event);
        }
    }
}
