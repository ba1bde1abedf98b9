// SPDX-License-Identifier: GPL-2.0

//! Responder resources: the READs, atomics, ATOMIC WRITEs and FLUSHes whose response is due, and
//! those whose response the peer may ask for again (IBTA 9.4.4, 9.4.5, 9.7.5.1, IBTA annex A19.4:
//! as many as `max_dest_rd_atomic`).
//!
//! The resources are a ring in the order of PSNs. The response to a READ is made from its resource,
//! packet by packet. The others are carried out on arrival, and the resource of an atomic keeps its
//! result. A resource stays until a newer one takes its place, so that a duplicate request finds
//! it.

use super::common::{Attr, Pmtu};
use super::wire::{Kind, Psn};

/// The kind of request of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    /// A READ of `len` bytes at `va`.
    Read { va: u64, rkey: u32, len: u32 },
    /// An atomic, with the original value.
    Atomic { original: u64 },
    /// An ATOMIC WRITE, which has no result.
    AtomicWrite,
    /// A FLUSH, which has no result.
    Flush,
}

impl ResourceKind {
    /// Whether it is of a request of `kind` that is not carried out again for a duplicate.
    fn is_saved(self, kind: Kind) -> bool {
        match self {
            ResourceKind::Read { .. } => false,
            ResourceKind::Atomic { .. } => kind.is_atomic(),
            ResourceKind::AtomicWrite => kind == Kind::AtomicWrite,
            ResourceKind::Flush => kind == Kind::Flush,
        }
    }
}

/// The resource of one such request. Its content is private to the responder; the owner provides
/// the memory.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: ResourceKind,
    /// Packets of the response are still to be sent.
    due: bool,
    /// The current response repeats one that was sent completely.
    again: bool,
    first_psn: Psn,
    psns: u32,
    /// The MSN of the response.
    msn: u32,
    /// The packets to be sent are those from index `next` on, before `end`. The current response
    /// began with packet `start` and has `play_len` bytes in all.
    start: u32,
    next: u32,
    end: u32,
    play_len: u32,
}

impl Resource {
    /// An unused resource, to fill new storage with.
    pub const EMPTY: Resource = Resource {
        kind: ResourceKind::Atomic { original: 0 },
        due: false,
        again: false,
        first_psn: Psn::ZERO,
        psns: 0,
        msn: 0,
        start: 0,
        next: 0,
        end: 0,
        play_len: 0,
    };

    /// The resource of a new request whose PSNs begin with `first_psn`.
    pub(super) fn new(kind: ResourceKind, first_psn: Psn, msn: u32, pmtu: Pmtu) -> Self {
        let (psns, play_len) = match kind {
            ResourceKind::Read { len, .. } => (pmtu.packets(len), len),
            ResourceKind::Atomic { .. } | ResourceKind::AtomicWrite | ResourceKind::Flush => (1, 0),
        };
        Resource {
            kind,
            due: true,
            again: false,
            first_psn,
            psns,
            msn,
            start: 0,
            next: 0,
            end: psns,
            play_len,
        }
    }

    /// The response, or a part of it, is to be sent again. It still counts as the first response if
    /// that was not sent to its end.
    fn duplicate(&mut self) {
        if !self.due {
            self.due = true;
            self.again = true;
        }
    }

    /// How many PSNs the request consumes.
    pub(super) fn psns(&self) -> u32 {
        self.psns
    }
}

impl Default for Resource {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// One packet of a response, or several middle ones as segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// Index of the resource.
    pub(super) res: u8,
    /// The kind of request.
    pub(super) kind: ResourceKind,
    /// PSN of the packet.
    pub(super) psn: Psn,
    /// MSN of the packet.
    pub(super) msn: u32,
    /// The response begins with this packet.
    pub(super) starts: bool,
    /// The response ends with this packet.
    pub(super) ends: bool,
    /// The number of packets.
    pub(super) segments: u16,
    /// The offset, from the address of the READ, of the part that this response is for.
    pub(super) base: u32,
    /// The offset of the packet's payload, counted from `base`.
    pub(super) offset: u32,
    /// The length of the payload in bytes.
    pub(super) len: u32,
}

/// The part of a READ that a duplicate request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The age of the resource: 1 is the newest.
    age: usize,
    /// Its index in the storage.
    pub(super) res: u8,
    /// The index of the first packet.
    start: u32,
    /// The length in bytes.
    len: u32,
}

/// The ring of resources, in storage of type `R`.
#[derive(Debug)]
pub(super) struct ResourceRing<R> {
    slots: R,
    /// The index of the next resource.
    head: usize,
    /// How many resources there are.
    count: usize,
    /// The age of the oldest resource that has packets to send, 0 if none has.
    due: usize,
}

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> ResourceRing<R> {
    pub(super) fn new(slots: R) -> Self {
        ResourceRing {
            slots,
            head: 0,
            count: 0,
            due: 0,
        }
    }

    /// Drops all resources.
    pub(super) fn clear(&mut self) {
        self.head = 0;
        self.count = 0;
        self.due = 0;
    }

    /// No resource older than `due` has packets to send: finds the oldest one that has.
    fn settle(&mut self) {
        while self.due > 0 && !self.get(self.due).is_some_and(|slot| slot.due) {
            self.due = self.due.wrapping_sub(1);
        }
    }

    /// Whether no response is due.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.due == 0
    }

    /// How many resources may have packets to send.
    #[inline]
    pub(super) fn due(&self) -> u32 {
        self.due as u32
    }

    /// How many packets of a response are still to be sent, without the last one.
    #[inline]
    pub(super) fn middle_left(&self, res: u8) -> u32 {
        let slot = self.slots.as_ref().get(usize::from(res));
        slot.map_or(0, |slot| {
            slot.end.saturating_sub(slot.next).saturating_sub(1)
        })
    }

    /// Cancels the due responses.
    pub(super) fn quiesce(&mut self) {
        self.due = 0;
    }

    /// Marks the due responses as sent: they count as lost on the wire.
    #[cold]
    pub(super) fn lose(&mut self) {
        for age in 1..=self.due {
            if let Some(slot) = self.get_mut(age) {
                slot.due = false;
            }
        }
        self.due = 0;
    }

    /// How many resources there is room for. An index must fit in a byte.
    fn capacity(&self) -> usize {
        self.slots.as_ref().len().min(256)
    }

    /// The index of the resource of this age, 1 to `count`.
    fn index(&self, age: usize) -> usize {
        match self.head.checked_sub(age) {
            Some(index) => index,
            None => self.head.wrapping_add(self.capacity()).wrapping_sub(age),
        }
    }

    fn get(&self, age: usize) -> Option<&Resource> {
        self.slots.as_ref().get(self.index(age))
    }

    fn get_mut(&mut self, age: usize) -> Option<&mut Resource> {
        let index = self.index(age);
        self.slots.as_mut().get_mut(index)
    }

    /// The index that the next resource will have, or `None` when there is no room: the peer has
    /// more outstanding than it may.
    pub(super) fn vacancy(&self) -> Option<u8> {
        let capacity = self.capacity();
        if capacity == 0 {
            return None;
        }
        if self.due == capacity && self.count == capacity {
            // The new resource overwrites the oldest one. A response that is only repeated may be
            // cut off: the peer has received all of it, or it would not send a new request.
            let oldest = self.get(capacity)?;
            if oldest.due && !oldest.again {
                return None;
            }
        }
        u8::try_from(self.head).ok()
    }

    /// Adds a resource at the index that [`ResourceRing::vacancy`] gave.
    pub(super) fn push(&mut self, resource: Resource) {
        let capacity = self.capacity();
        let head = self.head;
        if let Some(slot) = self.slots.as_mut().get_mut(head) {
            *slot = resource;
            let next = head.wrapping_add(1);
            self.head = if next >= capacity { 0 } else { next };
            self.count = self.count.saturating_add(1).min(capacity);
            if self.due < capacity {
                self.due = self.due.wrapping_add(1);
            } else {
                // The new resource took the place of the oldest one that was due.
                self.settle();
            }
        }
    }

    /// The next packet to be sent, if there is one, or up to `max_segments` segments. They count as
    /// sent.
    #[inline]
    pub(super) fn next_response(&mut self, pmtu: Pmtu, max_segments: u16) -> Option<Response> {
        if self.due == 0 {
            return None;
        }
        let index = self.index(self.due);
        let slot = self.slots.as_mut().get_mut(index)?;
        let offset = pmtu.offset(slot.next.wrapping_sub(slot.start));
        let middle = slot.end.saturating_sub(1).saturating_sub(slot.next);
        let segments = if slot.next == slot.start {
            1
        } else {
            middle.min(max_segments.into()).max(1)
        };
        let response = Response {
            res: index as u8,
            kind: slot.kind,
            psn: slot.first_psn.add(slot.next),
            msn: slot.msn,
            starts: slot.next == slot.start,
            ends: slot.next.wrapping_add(1) >= slot.end,
            base: pmtu.offset(slot.start),
            offset,
            len: slot
                .play_len
                .saturating_sub(offset)
                .min(pmtu.offset(segments)),
            segments: segments as u16,
        };
        slot.next = slot.next.wrapping_add(segments);
        if response.ends {
            slot.due = false;
            self.due = self.due.wrapping_sub(1);
            if self.due > 0 {
                self.settle();
            }
        }
        Some(response)
    }

    /// The age of the resource that has `psn` among its PSNs, 0 if there is none. Only duplicate
    /// requests, and packets that are taken back, need this.
    #[cold]
    fn find(&self, psn: Psn) -> usize {
        (1..=self.count)
            .find(|&age| {
                self.get(age)
                    .is_some_and(|slot| psn.is_within(slot.first_psn, slot.psns))
            })
            .unwrap_or(0)
    }

    /// Finds the part of an earlier READ that a request with `psn` asks for again, or `None` when
    /// there is no resource that covers it (IBTA 9.7.5.1.3, duplicate requests).
    #[cold]
    pub(super) fn find_read(
        &self,
        psn: Psn,
        va: u64,
        rkey: u32,
        len: u32,
        attr: &Attr,
    ) -> Option<Part> {
        let age = self.find(psn);
        if age == 0 {
            return None;
        }
        let slot = self.get(age)?;
        let ResourceKind::Read {
            va: all_va,
            rkey: all_rkey,
            len: all_len,
        } = slot.kind
        else {
            return None;
        };
        let start = psn.offset_from(slot.first_psn);
        let skipped = attr.pmtu.offset(start);
        let rest = all_len.saturating_sub(skipped);
        let fits = rkey == all_rkey
            && va == all_va.wrapping_add(u64::from(skipped))
            && len <= rest
            && (len > 0 || all_len == 0);
        fits.then(|| Part {
            age,
            res: self.index(age) as u8,
            start,
            len,
        })
    }

    /// Schedules the response to this part of a READ again.
    #[cold]
    pub(super) fn replay_read(&mut self, part: Part, pmtu: Pmtu) {
        if let Some(slot) = self.get_mut(part.age) {
            slot.start = part.start;
            slot.next = part.start;
            slot.end = part.start.wrapping_add(pmtu.packets(part.len));
            slot.play_len = part.len;
            slot.duplicate();
            self.due = self.due.max(part.age);
        }
    }

    /// Schedules the response to the request of `kind` with `psn` again, which is not carried out
    /// again. Returns whether there is one.
    #[cold]
    pub(super) fn replay_saved(&mut self, psn: Psn, kind: Kind) -> bool {
        let age = self.find(psn);
        if age == 0 {
            return false;
        }
        let Some(slot) = self.get_mut(age) else {
            return false;
        };
        if !slot.kind.is_saved(kind) {
            return false;
        }
        slot.next = 0;
        slot.duplicate();
        self.due = self.due.max(age);
        true
    }

    /// Takes back the packet with `psn`, which was not sent: it is the next one again.
    #[cold]
    pub(super) fn undo(&mut self, psn: Psn) {
        let age = self.find(psn);
        if age == 0 {
            return;
        }
        if let Some(slot) = self.get_mut(age) {
            let index = psn.offset_from(slot.first_psn);
            if index < slot.start || index >= slot.end {
                return;
            }
            slot.next = index;
            slot.due = true;
            self.due = self.due.max(age);
        }
    }

    /// Gives up the response with the packet with `psn`, whose memory cannot be read. Returns
    /// whether it was the first response to that request.
    #[cold]
    pub(super) fn abandon(&mut self, psn: Psn) -> bool {
        let age = self.find(psn);
        if age == 0 {
            return false;
        }
        let Some(slot) = self.get_mut(age) else {
            return false;
        };
        slot.due = false;
        let first = !slot.again;
        self.settle();
        first
    }

    /// Moves the resources to other storage; returns the old one. If the new storage is smaller,
    /// the newest resources are kept: a peer that respects the new limit cannot ask for the others.
    /// The indices change.
    pub(super) fn replace(&mut self, slots: R) -> R {
        let old = core::mem::replace(self, ResourceRing::new(slots));
        let keep = old.count.min(self.capacity());
        for age in (1..=keep).rev() {
            if let Some(resource) = old.get(age) {
                self.push(*resource);
            }
        }
        self.due = old.due.min(keep);
        self.settle();
        old.slots
    }
}
