// SPDX-License-Identifier: GPL-2.0

//! Loopback: packets between two queue pairs of one device, as headers and a reference to the payload. The
//! receiver copies the bytes once, from the sender's memory to its own.

use super::ah::Ah;
use super::mr::Mr;
use super::ring::Ring;
use crate::proto::wire::PacketRepr;
use crate::rdma::strided::StridedSrc;
use crate::sync::memory::Payer;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Loopback packets that are queued under one hold of the sender's lock.
const ROOM: usize = 8;

/// Bytes of payload that are queued: the receiver copies them under one hold of its lock.
const MAX_BYTES: u32 = 65_536;

/// How much inline data is copied at a time: to the stack, and on from there.
const INLINE_PART: usize = 128;

/// A part of a region.
pub(crate) struct Segment {
    pub(crate) mr: Arc<Mr>,
    pub(crate) va: u64,
    pub(crate) len: u32,
}

/// Where the payload is.
pub(crate) enum PayloadRef {
    /// Nowhere: it is empty.
    None,
    /// In one region.
    Region(Segment),
    /// In several, or in several places of one.
    List(KVec<Segment>),
    /// In the sender's ring: inline data.
    Inline {
        /// The ring.
        ring: Ring,
        /// The element.
        index: u32,
        /// Where in the element.
        at: usize,
    },
}

impl PayloadRef {
    /// Whether the regions are still open. Any context.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        match self {
            PayloadRef::None | PayloadRef::Inline { .. } => true,
            PayloadRef::Region(segment) => segment.mr.is_open(),
            PayloadRef::List(list) => list.iter().all(|segment| segment.mr.is_open()),
        }
    }

    /// Shows `each` the `len` bytes, piece by piece, and how many came before. `None` if some are not there,
    /// or `each` says so.
    ///
    /// Any context.
    #[inline]
    fn for_each_chunk(
        &self,
        len: u32,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Option<()>,
    ) -> Option<()> {
        let mut before = 0_u32;
        let mut each = |bytes: StridedSrc<'_>| {
            let at = before;
            before = before.wrapping_add(bytes.len() as u32);
            each(at, bytes)
        };
        match self {
            PayloadRef::None => Some(()),
            PayloadRef::Region(segment) => {
                segment.mr.for_each_chunk(segment.va, len as usize, each)
            }
            PayloadRef::List(list) => list.iter().try_for_each(|segment| {
                segment
                    .mr
                    .for_each_chunk(segment.va, segment.len as usize, &mut each)
            }),
            PayloadRef::Inline { ring, index, at } => {
                let mut part = [0; INLINE_PART];
                let mut done = 0;
                while done < len as usize {
                    let n = INLINE_PART.min((len as usize).saturating_sub(done));
                    let part = part.get_mut(..n)?;
                    ring.read(*index, at.checked_add(done)?, part)?;
                    each(StridedSrc::new(part))?;
                    done = done.saturating_add(n);
                }
                Some(())
            }
        }
    }
}

/// The sender of a loopback packet.
pub(crate) enum LoopbackOrigin {
    /// A connected QP: the addresses that its packets would come from and go to, and its number, which no packet
    /// of a connection tells.
    Connected {
        /// The sender.
        qpn: u32,
        /// From here.
        source: [u8; 16],
        /// To here.
        destination: [u8; 16],
    },
    /// A datagram QP, by this address handle.
    Datagram(Arc<Ah>),
}

/// See the module's documentation.
pub(crate) struct LoopbackPacket {
    pub(crate) repr: PacketRepr,
    pub(crate) sender: LoopbackOrigin,
    pub(crate) len: u32,
    pub(crate) source: PayloadRef,
}

impl LoopbackPacket {
    /// Calls `each` with the pieces of the payload: its offset in the payload, and the bytes. `gone` is the
    /// error for bytes which are not there any more.
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        gone: E,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let shown = self.source.for_each_chunk(self.len, |at, bytes| {
            result = each(at, bytes);
            result.is_ok().then_some(())
        });
        result.and(shown.ok_or(gone))
    }
}

/// Loopback packets of one sending QP, in order, until its lock is released.
pub(crate) struct LoopbackQueue {
    packets: KVec<LoopbackPacket>,
    /// The next one to be handed over.
    next: usize,
    bytes: u32,
}

impl LoopbackQueue {
    /// An empty one.
    #[inline]
    pub(crate) const fn new() -> Self {
        LoopbackQueue {
            packets: KVec::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// Whether the queue is to be delivered before more is added.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= ROOM || self.bytes >= MAX_BYTES
    }

    /// Whether there is nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes over the memory of `other`, if it has any: a QP allocates it once and keeps it from run to run.
    #[inline]
    pub(crate) fn keep(&mut self, other: &mut LoopbackQueue) {
        if other.packets.capacity() != 0 {
            core::mem::swap(self, other);
        }
    }

    /// Allocates room for a full queue, charged to `payer`. Softirq or process context.
    /// ENOMEM.
    #[inline]
    pub(crate) fn reserve(&mut self, payer: &Payer) -> Result {
        if self.packets.capacity() == 0 {
            payer.charge(|flags| self.packets.reserve(ROOM, flags))?;
        }
        Ok(())
    }

    /// Adds a packet. Without room ([`LoopbackQueue::reserve`] was not called) it is lost.
    #[inline]
    pub(crate) fn put(&mut self, packet: LoopbackPacket) {
        self.bytes = self.bytes.saturating_add(packet.len);
        let _ = self.packets.push_within_capacity(packet);
    }

    /// The destination QP of the next packet.
    #[inline]
    pub(crate) fn dest(&self) -> Option<u32> {
        Some(self.packets.get(self.next)?.repr.bth.dest_qp.get())
    }

    /// Takes the next packet, if QP `qpn` is its destination.
    #[inline]
    pub(crate) fn next_for(&mut self, qpn: u32) -> Option<&LoopbackPacket> {
        let packet = self.packets.get(self.next)?;
        if packet.repr.bth.dest_qp.get() != qpn {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        Some(packet)
    }

    /// Lets go of all packets.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.next = 0;
        self.bytes = 0;
    }
}
