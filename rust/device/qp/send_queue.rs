// SPDX-License-Identifier: GPL-2.0

//! The send queue: the posted ring, and private slots for the requests at its front.
//!
//! A WQE is copied out of the ring once and checked, and its keys are resolved. From then on only
//! the slot counts. The ring's element is released to the consumer when the request is complete.
//! There are fewer slots than elements of the ring: other requests wait in the ring. A queue begins
//! with very few slots and gets more when it needs them, as most of a thousand queue pairs have
//! little to send at a time.

mod send_data;

use super::context::QpContext;
use super::operation::{Form, Operation, Response};
use super::send_slot::{storage, Slot};
use super::send_wqe::SqLimits;
use super::trace;
use crate::device::cq::completion::Completion;
use crate::device::cq::{Cq, Wake};
use crate::device::limits;
use crate::device::mem::grant::MkeyCache;
use crate::device::mem::mkeys::Mkeys;
use crate::device::mem::sge::{self, Purpose, Sge};
use crate::device::packet::ah::Ah;
use crate::device::ring::Ring;
use crate::device::uabi::wqe::{send_flag, DmaHead, Op, RxeSendWqe, RxeSendWr, RxeSge};
use crate::proto::transport::{
    Request, RequestQueue, SendCompletion, Status, Streaks, UdDest, UdRequestQueue, ATOMIC_LEN,
};
use crate::sync::memory::{Payer, GFP_CHARGED};
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The number of slots that a queue begins with, and the factor by which it grows. Powers of two.
const INITIAL_SLOTS: u32 = 2;
const GROWTH: usize = 4;

/// The send queue of one QP; the QP's lock guards it.
pub(crate) struct SendQueue {
    ring: Ring,
    limits: SqLimits,
    /// The CQ of its completions.
    cq: Arc<Cq>,
    /// A process posts: requests count as posted from its doorbell on.
    user: bool,
    /// The producer's index at the latest doorbell.
    posted: u32,
    /// The ring's index of request 0.
    base: u32,
    /// The oldest request that is not complete.
    head: u32,
    /// One past the last request that was fetched.
    tail: u32,
    slots: KVVec<Slot>,
    sges: KVVec<Sge>,
    /// The most slots that there may be. A power of two, like the current number of slots.
    most: usize,
    /// A request that sends nothing is not carried out yet. Later ones may name a key that it makes
    /// valid or invalid, so they wait in the ring.
    barrier: Option<u32>,
    /// The result of the latest lookup of a key.
    mkey_cache: MkeyCache,
    /// Charged for the memory that the queue allocates while it works.
    payer: Payer,
}

impl SendQueue {
    /// Makes an empty queue.
    ///
    /// Process context. ENOMEM.
    pub(crate) fn new(limits: SqLimits, cq: Arc<Cq>, user: bool) -> Result<Self> {
        let sges = limits.max_sge as usize * size_of::<RxeSge>();
        let room = sges.max(limits.max_inline as usize);
        let ring = Ring::new(limits.max_wr, RxeSendWqe::DATA + room, user)?;
        let most = ring.capacity().min(limits::MAX_ACTIVE).next_power_of_two();
        let (slots, sges) = storage(
            most.min(INITIAL_SLOTS) as usize,
            limits.max_sge,
            GFP_CHARGED,
        )?;
        Ok(SendQueue {
            ring,
            limits,
            cq,
            user,
            posted: 0,
            base: 0,
            head: 0,
            tail: 0,
            slots,
            sges,
            most: most as usize,
            barrier: None,
            mkey_cache: None,
            payer: Payer::new(user),
        })
    }

    /// The payer for the memory that sending allocates.
    #[inline]
    pub(crate) fn payer(&self) -> &Payer {
        &self.payer
    }

    /// The ring, for mapping and for posting by the kernel.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The limits of the queue.
    pub(crate) fn limits(&self) -> &SqLimits {
        &self.limits
    }

    /// How many WQEs are posted, and not complete.
    pub(crate) fn posted(&self) -> u32 {
        let oldest = self.base.wrapping_add(self.head);
        self.ring.distance(oldest, self.ring.producer())
    }

    /// Drops everything, posted WQEs included. The consumer keeps its index over a reset.
    pub(crate) fn reset(&mut self) {
        while self.head != self.tail {
            self.clear(self.head);
            self.head = self.head.wrapping_add(1);
        }
        self.barrier = None;
        self.mkey_cache = None;
        self.base = self.ring.producer();
        self.posted = self.base;
        self.ring.set_consumer(self.base);
        self.head = 0;
        self.tail = 0;
    }

    /// The doorbell has rung: all requests that are posted by now may be fetched. Requests that a
    /// process posts without a doorbell are left alone. Otherwise other contexts, whose CPU time it
    /// is not charged for, might have to work for it for ever.
    #[inline]
    pub(crate) fn note_posted(&mut self) {
        self.posted = self.ring.producer();
    }

    /// Whether something is posted that has no slot yet, and may have one.
    #[inline]
    pub(crate) fn has_unfetched(&self) -> bool {
        if self.barrier.is_some() {
            return false;
        }
        let index = self.base.wrapping_add(self.tail);
        let end = if self.user {
            self.posted
        } else {
            self.ring.producer()
        };
        self.ring.distance(index, end) != 0
    }

    /// Takes one more posted WQE into a slot. `false` when none is posted or no slot is free.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, qp: &QpContext) -> bool {
        if !self.has_unfetched() {
            return false;
        }
        let under_way = self.tail.wrapping_sub(self.head) as usize;
        if under_way >= self.slots.len() && !self.grow() {
            return false;
        }
        let n = self.tail;
        self.tail = self.tail.wrapping_add(1);
        if let Err((wr_id, op, status)) = self.load(qp, n) {
            self.clear(n);
            if let Some(slot) = self.slot_mut(n) {
                slot.request = Request::with_local_error(status);
                slot.wr_id = wr_id;
                slot.op = op;
            }
        }
        self.trace(qp, n);
        true
    }

    #[inline(always)]
    fn trace(&self, qp: &QpContext, n: u32) {
        if let Some(slot) = self.slot(n) {
            trace::post(qp, slot.wr_id, slot.op, slot.request.len);
        }
    }

    /// Allocates more slots, if there may be more. Without memory, requests wait for the existing
    /// slots.
    #[cold]
    fn grow(&mut self) -> bool {
        let old = self.slots.len();
        let count = old.saturating_mul(GROWTH).min(self.most);
        if count <= old {
            return false;
        }
        let max_sge = self.limits.max_sge;
        let made = self.payer.charge(|flags| storage(count, max_sge, flags));
        let Ok((mut slots, mut sges)) = made else {
            return false;
        };
        // All slots are in use. Request n moves to its index in the larger array.
        for i in 0..old as u32 {
            let n = self.head.wrapping_add(i) as usize;
            let (from, to) = (n & old.wrapping_sub(1), n & count.wrapping_sub(1));
            if let (Some(a), Some(b)) = (self.slots.get_mut(from), slots.get_mut(to)) {
                core::mem::swap(a, b);
            }
            let max_sge = max_sge as usize;
            let from = self.sges.iter_mut().skip(from.wrapping_mul(max_sge));
            let to = sges.iter_mut().skip(to.wrapping_mul(max_sge));
            for (a, b) in from.zip(to).take(max_sge) {
                core::mem::swap(a, b);
            }
        }
        self.slots = slots;
        self.sges = sges;
        true
    }

    /// Copies and checks WQE `n`.
    #[inline(always)]
    fn load(&mut self, qp: &QpContext, n: u32) -> Result<(), (u64, Op, Status)> {
        let index = self.base.wrapping_add(n);
        let unread = (0, Op::Send, Status::General);
        let wr: RxeSendWr = self.ring.load(index, RxeSendWqe::WR).ok_or(unread)?;
        let dma: DmaHead = self.ring.load(index, RxeSendWqe::DMA).ok_or(unread)?;
        let op = Op::from_u32(wr.opcode).ok_or((wr.wr_id, Op::Send, Status::LocQpOp))?;
        let fail = |status| (wr.wr_id, op, status);
        let request = self.limits.request(&wr, &dma, op);
        let dest = self.limits.dest(&qp.ahs, &wr, op).map_err(fail)?;
        let operation = Operation::of(op);
        let inline = wr.has(send_flag::INLINE) || operation.word && dma.num_sge == 0;
        if operation.form == Form::Register && self.user {
            return Err(fail(Status::LocQpOp));
        }
        let (sges, len) = if operation.bare {
            if operation.local {
                self.barrier = Some(n);
            }
            (0, 0)
        } else if inline {
            (0, self.limits.inline_len(&dma, op).map_err(fail)?)
        } else {
            self.load_sges(&qp.mkeys, n, index, &dma, op)
                .map_err(fail)?
        };
        let wrong = match operation.response {
            // An atomic stores its original value, eight bytes (IBTA 9.4.5).
            Response::Atomic => len != ATOMIC_LEN,
            Response::Nothing | Response::Message => operation.word && len != ATOMIC_LEN,
        };
        if wrong {
            return Err(fail(Status::LocLen));
        }
        if let Some(slot) = self.slot_mut(n) {
            slot.request = request;
            slot.request.len = len;
            slot.wr_id = wr.wr_id;
            slot.op = op;
            slot.sges = sges;
            slot.inline = inline;
            slot.dest = dest;
        }
        Ok(())
    }

    /// Copies and resolves the SGEs of request `n`. Returns how many they are, and their length in
    /// bytes.
    #[inline(always)]
    fn load_sges(
        &mut self,
        mkeys: &Mkeys,
        n: u32,
        index: u32,
        dma: &DmaHead,
        op: Op,
    ) -> Result<(u32, u32), Status> {
        if dma.num_sge > self.limits.max_sge {
            return Err(Status::LocQpOp);
        }
        let purpose = match Operation::of(op).response {
            Response::Nothing => Purpose::Source,
            Response::Message | Response::Atomic => Purpose::Response,
        };
        let pd = self.limits.pd;
        let first = self.first_sge(n);
        let places = self.sges.get_mut(first..).unwrap_or_default();
        let mut at = RxeSendWqe::DATA;
        let mut total = 0_u32;
        for place in places.iter_mut().take(dma.num_sge as usize) {
            let raw: RxeSge = self.ring.load(index, at).ok_or(Status::LocQpOp)?;
            at = at.wrapping_add(size_of::<RxeSge>());
            place.resolve(mkeys, pd, &raw, purpose, &mut self.mkey_cache)?;
            total = total.checked_add(place.len()).ok_or(Status::LocLen)?;
        }
        Ok((dma.num_sge, total))
    }

    #[inline]
    fn first_sge(&self, n: u32) -> usize {
        let mask = self.slots.len().wrapping_sub(1);
        (n as usize & mask).wrapping_mul(self.limits.max_sge as usize)
    }

    #[inline]
    fn sges_of(&self, n: u32, count: u32) -> &[Sge] {
        let first = self.first_sge(n);
        self.sges
            .get(first..first.wrapping_add(count as usize))
            .unwrap_or_default()
    }

    /// Whether the memory of requests `n` and `other` may have bytes in common.
    pub(crate) fn overlap(&self, n: u32, other: u32) -> bool {
        let list = |n| self.slot(n).map(|slot| self.sges_of(n, slot.sges));
        match (list(n), list(other)) {
            (Some(list), Some(other)) => sge::overlap(list, other),
            _ => true,
        }
    }

    #[inline]
    fn slot(&self, n: u32) -> Option<&Slot> {
        if n.wrapping_sub(self.head) >= self.tail.wrapping_sub(self.head) {
            return None;
        }
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get(n as usize & mask)
    }

    #[inline]
    fn slot_mut(&mut self, n: u32) -> Option<&mut Slot> {
        if n.wrapping_sub(self.head) >= self.tail.wrapping_sub(self.head) {
            return None;
        }
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get_mut(n as usize & mask)
    }

    /// The operation of request `n`.
    #[inline]
    pub(crate) fn op(&self, n: u32) -> Option<Op> {
        Some(self.slot(n)?.op)
    }

    /// The operation of request `n`, and its work request as the ring has it now.
    pub(crate) fn wr(&self, n: u32) -> Option<(Op, RxeSendWr)> {
        let op = self.op(n)?;
        let wr = self.ring.load(self.base.wrapping_add(n), RxeSendWqe::WR)?;
        Some((op, wr))
    }

    /// Whether a request that sends nothing is not carried out yet.
    #[inline]
    pub(crate) fn has_barrier(&self) -> bool {
        self.barrier.is_some()
    }

    /// Request `n` was carried out: later ones may be fetched.
    pub(crate) fn lift_barrier(&mut self, n: u32) {
        if self.barrier == Some(n) {
            self.barrier = None;
        }
    }

    /// The address handle of datagram `n`.
    #[inline]
    pub(crate) fn ah(&self, n: u32) -> Option<&Arc<Ah>> {
        Some(&self.slot(n)?.dest.as_ref()?.ah)
    }

    /// Completes the oldest request, which `done` is about: releases its element to the consumer,
    /// and pushes its completion to the send CQ, if it is signaled or failed.
    #[inline]
    pub(crate) fn complete(&mut self, qp: &QpContext, done: &SendCompletion) -> Wake {
        let Some(slot) = self.slot(done.n).filter(|_| done.n == self.head) else {
            return Wake::default();
        };
        let (wr_id, op) = (slot.wr_id, slot.op);
        self.clear(done.n);
        self.lift_barrier(done.n);
        self.head = self.head.wrapping_add(1);
        self.ring.set_consumer(self.base.wrapping_add(self.head));
        if !done.signaled && done.status == Status::Success {
            return Wake::default();
        }
        let opcode = Operation::of(op).completion;
        let wc = Completion::send(qp.id(), wr_id, opcode, done.status, done.byte_len);
        qp.complete_send(&self.cq, &wc)
    }

    /// Drops the references that slot `n` holds.
    #[inline]
    fn clear(&mut self, n: u32) {
        let first = self.first_sge(n);
        let max = self.limits.max_sge as usize;
        if let Some(slot) = self.slot_mut(n) {
            slot.dest = None;
            slot.sges = 0;
            slot.inline = false;
        }
        for sge in self
            .sges
            .get_mut(first..)
            .unwrap_or_default()
            .iter_mut()
            .take(max)
        {
            *sge = Sge::default();
        }
    }
}

impl RequestQueue for SendQueue {
    #[inline]
    fn tail(&self) -> u32 {
        self.tail
    }

    #[inline]
    fn get(&self, n: u32) -> Option<&Request> {
        Some(&self.slot(n)?.request)
    }

    #[inline]
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        Some(&mut self.slot_mut(n)?.request)
    }

    #[inline]
    fn streaks(&self) -> Streaks {
        self.cq.streaks()
    }

    #[inline]
    fn set_streaks(&self, streaks: Streaks) {
        self.cq.set_streaks(streaks);
    }
}

impl UdRequestQueue for SendQueue {
    #[inline]
    fn dest(&self, n: u32) -> Option<UdDest> {
        Some(self.slot(n)?.dest.as_ref()?.dest)
    }
}
