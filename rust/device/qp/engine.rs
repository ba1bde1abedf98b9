// SPDX-License-Identifier: GPL-2.0

//! QP progress engine: processes one input to completion, in the context that brings the input: a
//! doorbell, a packet, the timer or queued work.
//!
//! Under the QP's lock the transport decides, packets are built and completions are put into their
//! CQs. Without the lock packets are sent and consumers are notified; both may call the engine
//! again. One context at a time sends for a QP, so that its packets stay in order (`RunState`).

use super::notification;
use super::object::{Inner, Qp, Qps};
use super::outcome::{complete, notify};
use super::progress::{Deferred, Dropped, Input, Progress};
use super::trace;
use crate::device::counters::Count;
use crate::device::packet::loopback::LoopbackQueue;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::Batch;
use crate::device::packet::wire_packet::WirePacket;
use crate::net::queue::Sent;
use crate::proto::transport::{DropReason, Instant, Rest, Trigger};
use crate::proto::wire::Ecn;
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
            qp.inner.lock().run.killed();
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
    if !takes(&mut inner, input) {
        return false;
    }
    process_input(qp, &mut inner, now, input, &mut deferred, &mut batch);
    if corks(qp, &mut inner, now, input) {
        arm(qp, &mut inner, now, Progress::Idle);
        return false;
    }
    if !inner.run.begin(matches!(input, Input::Flush)) {
        complete(qp, &mut inner, &mut deferred);
        drop(inner);
        notification::send(qp, &mut batch);
        notify(qp, deferred);
        return false;
    }
    batch.loopback.keep(&mut inner.loopback);
    loop {
        inner.run.looks();
        let progress = step(qp, &mut inner, now, &mut batch, &mut deferred);
        let send_again = progress == Progress::More;
        if batch.is_empty() && !send_again && !inner.run.is_rerun_due() {
            end(qp, &mut inner, &mut batch, Rest::None);
            arm(qp, &mut inner, now, progress);
            break;
        }
        drop(inner);
        let (packets, sent) = batch.send(&qp.ctx.port);
        let lent = flush_loopback(qp, &mut batch.loopback);
        notify(qp, core::mem::take(&mut deferred));
        batches += 1;
        inner = qp.inner.lock();
        let released = release(qp, &mut inner, now, &sent, (packets, lent));
        let flush = inner.run.take_flush();
        if inner.run.is_stopped() && !flush {
            end(qp, &mut inner, &mut batch, Rest::None);
            return false;
        }
        if released {
            complete(qp, &mut inner, &mut deferred);
            // The slots that are free now, or a local request, may be waited for.
            if inner.sq.has_unfetched() || inner.sq.has_barrier() {
                inner.run.rerun();
            }
        }
        if (batches >= max_batches(qp, input) || packets && send_again) && !flush {
            let rest = rest_for(qp, &inner, input);
            end(qp, &mut inner, &mut batch, rest);
            drop(inner);
            notify(qp, deferred);
            let continues = rest == Rest::Process || matches!(input, Input::Bulk);
            if !continues {
                work::queue_bh::<Qp, 0>(qp);
            }
            return continues;
        }
        if !send_again && !inner.run.is_rerun_due() {
            end(qp, &mut inner, &mut batch, Rest::None);
            arm(qp, &mut inner, now, progress);
            break;
        }
    }
    drop(inner);
    notify(qp, deferred);
    false
}

/// Notes that the input has come. Returns whether the QP takes it: not while it is stopped.
#[inline(always)]
fn takes(inner: &mut Inner, input: &Input<'_>) -> bool {
    match input {
        Input::Work(_) | Input::Bulk => inner.run.work_began(),
        Input::Resume => inner.run.resumed(),
        // The call of the process succeeds, so its requests count as posted.
        Input::Doorbell if inner.run.is_stopped() => inner.sq.note_posted(),
        _ => {}
    }
    !inner.run.is_stopped()
}

/// Whether this is a doorbell for requests that all wait for further ones.
#[inline(always)]
fn corks(qp: &Qp, inner: &mut Inner, now: Instant, input: &Input<'_>) -> bool {
    let may_cork = matches!(input, Input::Doorbell) && inner.transport.may_cork();
    may_cork && inner.posted_is_corked(&qp.ctx, now)
}

/// How many batches of loopback packets one call delivers.
#[inline]
fn max_batches(qp: &Qp, input: &Input<'_>) -> usize {
    match input {
        Input::Work(_) | Input::Bulk if qp.is_user => MAX_WORK_BATCHES,
        _ => MAX_BATCHES,
    }
}

/// Who sends what is left: the process that rang the doorbell, if it is to send all of it itself,
/// or else work. Where this is work in process context, that is the caller, which continues.
#[inline]
fn rest_for(qp: &Qp, inner: &Inner, input: &Input<'_>) -> Rest {
    let is_callers = matches!(input, Input::Doorbell | Input::Resume);
    match is_callers && inner.is_callers_work(qp) {
        true => Rest::Process,
        false => Rest::Work,
    }
}

/// The `packets` of a batch are sent, or delivered; `lent` if there were loopback packets, which do
/// not count. Returns as [`Transport::release`] does.
#[inline]
fn release(
    qp: &Qp,
    inner: &mut Inner,
    now: Instant,
    sent: &Sent,
    (packets, lent): (bool, bool),
) -> bool {
    if packets || lent {
        inner.last_sent = Some(now);
    }
    if let Some(counter) = &inner.counter {
        counter.sent(sent);
    }
    if lent {
        qp.delivered.store(0, Relaxed);
    }
    inner.transport.release()
}

/// This context no longer sends for the QP; `rest` sends what is left.
#[inline]
fn end(qp: &Qp, inner: &mut Inner, batch: &mut Batch<'_, Qp>, rest: Rest) {
    inner.loopback.keep(&mut batch.loopback);
    if inner.run.end(rest) {
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

/// Passes the input to the transport. `batch`, which is empty, gets the CNPs that are due for it.
#[inline]
fn process_input(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    input: &mut Input<'_>,
    deferred: &mut Deferred,
    batch: &mut Batch<'_, Qp>,
) {
    if inner.is_in_error() {
        inner.flush_poll.begin(now, input);
    }
    match input {
        Input::Doorbell => inner.sq.note_posted(),
        Input::Resume | Input::Sweep => {}
        Input::Work(_) | Input::Bulk => {
            let before = trace::before(|| inner.transport.snapshot());
            inner.transport.handle_timeout(now, &mut inner.sq);
            let snapshot = || inner.transport.snapshot();
            trace::after(&qp.ctx, before, snapshot, Trigger::Timeout);
        }
        Input::Flush => inner.transport.flush_delayed(),
        // The sender of a packet to a group is not notified: each member would do so.
        Input::Multicast(packet) => {
            handle_wire(qp, inner, now, packet, deferred);
        }
        Input::Packets(group) => {
            while let Some(packet) = group.next(&qp.ctx.port.counters) {
                if packet.skb.is_gso() {
                    let (repr, len) = (&packet.repr, packet.payload_len);
                    let limit = inner.transport.max_segments(repr, len, &inner.sq);
                    packet.extend(&qp.ctx.port.counters, limit);
                }
                let accepted = handle_wire(qp, inner, now, packet, deferred);
                if packet.ecn == Ecn::Ce {
                    notification::notify(qp, inner, now, packet, accepted, batch);
                }
                if inner.transport.keeps_any() {
                    hand_on_kept(qp, inner, now, deferred);
                }
            }
        }
    }
    // This counts the events of the previous turn, too: an input follows each retransmission.
    inner.count_events(&qp.ctx);
}

/// As [`handle`], for a packet from the wire.
#[inline(always)]
fn handle_wire(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    packet: &WirePacket,
    deferred: &mut Deferred,
) -> bool {
    if let Some(counter) = &inner.counter {
        counter.received(packet.count, packet.skb.len());
    }
    handle(qp, inner, now, RxPacket::Wire(packet), deferred)
}

/// Passes on the kept packets whose turn has come with the packet before: all of them, since no
/// later input may follow, and those are fewer than [`KEPT_SPAN`].
///
/// [`KEPT_SPAN`]: crate::proto::transport::KEPT_SPAN
#[cold]
fn hand_on_kept(qp: &Arc<Qp>, inner: &mut Inner, now: Instant, deferred: &mut Deferred) {
    while let Some(packet) = inner.transport.take_kept() {
        handle(qp, inner, now, RxPacket::Kept(&packet), deferred);
    }
}

/// Passes a received packet to the transport, and counts it if it is dropped. Returns whether it
/// was accepted. Requests that an earlier packet completed have their completions before a receive
/// that this one completes.
#[inline(always)]
fn handle(
    qp: &Arc<Qp>,
    inner: &mut Inner,
    now: Instant,
    packet: RxPacket<'_>,
    deferred: &mut Deferred,
) -> bool {
    if inner.transport.has_completion() && packet.repr().bth.opcode.kind().is_request() {
        complete(qp, inner, deferred);
    }
    trace::receive(&qp.ctx, &packet);
    let before = trace::before(|| inner.transport.snapshot());
    let queues = (&mut inner.sq, &mut inner.rq);
    let handled = inner
        .transport
        .handle(&qp.ctx, queues, now, packet, deferred);
    let cause = handled
        .err()
        .and_then(|dropped| count_dropped(qp, inner, dropped));
    let trigger = Trigger::Packet(packet.repr(), cause);
    trace::after(&qp.ctx, before, || inner.transport.snapshot(), trigger);
    handled.is_ok()
}

/// Counts a packet that was dropped. Returns the transport's reason, if it was that.
#[cold]
fn count_dropped(qp: &Qp, inner: &Inner, dropped: Dropped) -> Option<DropReason> {
    match dropped {
        Dropped::Transport(cause) => {
            qp.ctx.port.counters.dropped_by(qp.ctx.qpn, cause);
            if let Some(counter) = &inner.counter {
                counter.dropped(cause);
            }
            Some(cause)
        }
        Dropped::Address(count) => {
            qp.ctx.port.counters.lost(count, qp.ctx.qpn);
            None
        }
    }
}

/// Delivers all loopback packets of `from` to their queue pairs of this device. No lock held.
/// Returns whether there were any.
#[inline]
fn flush_loopback(from: &Qp, loopback: &mut LoopbackQueue) -> bool {
    if loopback.is_empty() {
        return false;
    }
    while let Some(qpn) = loopback.dest() {
        match from.qps.get(qpn) {
            Some(qp) => deliver_loopback(from, &qp, loopback),
            None => {
                from.ctx.port.counters.lost(Count::NoQp, qpn);
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
    let mut due = false;
    if qp.delivered.load(Acquire) != 0 && inner.transport.release() {
        complete(qp, inner, &mut deferred);
        due = inner.sq.has_barrier();
    }
    while let Some(packet) = loopback.next_for(qp.ctx.qpn) {
        if !inner.run.is_stopped() {
            handle(qp, inner, now, RxPacket::Loopback(packet), &mut deferred);
        }
    }
    inner.count_events(&qp.ctx);
    // Before the receiver's lock is released: after that it may respond.
    if loopback.dest().is_none() {
        from.delivered.store(1, Release);
    }
    if inner.run.is_stopped() {
        return;
    }
    due |= complete(qp, inner, &mut deferred).more || inner.may_transmit();
    let queue = due && !inner.run.is_sending();
    if due {
        inner.run.rerun();
    } else if !inner.run.is_sending() {
        arm(qp, inner, now, Progress::Idle);
    }
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
        inner.fetch(&qp.ctx);
        let progress = inner.transport.transmit(&qp.ctx, &mut inner.sq, now, batch);
        let released = complete(qp, inner, deferred).released;
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

/// Arms the timer if the transport has a timeout, or a process may post receives that must be
/// flushed. A timer that is armed for an earlier time is left alone. It then finds nothing due and
/// is armed again, which is cheaper than to modify it with every ACK.
#[inline]
fn arm(qp: &Arc<Qp>, inner: &mut Inner, now: Instant, progress: Progress) {
    inner.page_stalls = match progress {
        Progress::PageFault => inner.page_stalls.saturating_add(1),
        _ => 0,
    };
    let due = match progress {
        Progress::Stalled => Some(now.after(STALL)),
        Progress::PageFault => Some(now.after(page_stall(inner.page_stalls))),
        _ if inner.is_in_error() && (!qp.is_user || inner.rq.is_shared()) => None,
        _ if inner.is_in_error() => {
            let due = inner.flush_poll.next(now);
            if due.is_none() {
                Qps::start_sweep(&qp.qps);
            }
            due
        }
        _ => inner.transport.poll_timeout(),
    };
    let Some(due) = due else { return };
    qp.timer.arm_at(qp.as_arc_borrow(), due.0);
}

/// How long to wait for a page that was missing `stalls` times in a row, in nanoseconds.
fn page_stall(stalls: u16) -> u64 {
    let times = u64::from(stalls / 8).saturating_add(1);
    PAGE_STALL.saturating_mul(times).min(MAX_PAGE_STALL)
}
