// SPDX-License-Identifier: GPL-2.0

//! What goes from one queue pair to another of the same device: no packet, but what its headers would say,
//! and where its payload lies. The bytes are copied once, from the sender's memory to the receiver's.

use super::ah::Ah;
use super::mr::Mr;
use super::ring::Ring;
use crate::proto::wire::PacketRepr;
use crate::rdma::bytes::Bytes;
use crate::sync::memory::Payer;
use kernel::prelude::*;
use kernel::sync::Arc;

/// How many parcels are made before they are handed over, under one hold of the sender's lock.
const ROOM: usize = 8;

/// How many bytes they may have before they are handed over: they are copied under one hold of the
/// receiver's lock.
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
pub(crate) enum Source {
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

impl Source {
    /// Whether the regions are still open. Any context.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Source::None | Source::Inline { .. } => true,
            Source::Region(segment) => segment.mr.is_open(),
            Source::List(list) => list.iter().all(|segment| segment.mr.is_open()),
        }
    }

    /// Shows `each` the `len` bytes, piece by piece, and how many came before. `None` if some are not there,
    /// or `each` says so.
    ///
    /// Any context.
    #[inline]
    fn show(&self, len: u32, mut each: impl FnMut(u32, Bytes<'_>) -> Option<()>) -> Option<()> {
        let mut before = 0_u32;
        let mut each = |bytes: Bytes<'_>| {
            let at = before;
            before = before.wrapping_add(bytes.len() as u32);
            each(at, bytes)
        };
        match self {
            Source::None => Some(()),
            Source::Region(segment) => segment.mr.show(segment.va, len as usize, each),
            Source::List(list) => list.iter().try_for_each(|segment| {
                segment.mr.show(segment.va, segment.len as usize, &mut each)
            }),
            Source::Inline { ring, index, at } => {
                let mut part = [0; INLINE_PART];
                let mut done = 0;
                while done < len as usize {
                    let n = INLINE_PART.min((len as usize).saturating_sub(done));
                    let part = part.get_mut(..n)?;
                    ring.read(*index, at.checked_add(done)?, part)?;
                    each(Bytes::new(part))?;
                    done = done.saturating_add(n);
                }
                Some(())
            }
        }
    }
}

/// Who sent a parcel.
pub(crate) enum Sender {
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
pub(crate) struct Parcel {
    pub(crate) repr: PacketRepr,
    pub(crate) sender: Sender,
    pub(crate) len: u32,
    pub(crate) source: Source,
}

impl Parcel {
    /// Calls `each` with the pieces of the payload: its offset in the payload, and the bytes. `gone` is the
    /// error for bytes which are not there any more.
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        gone: E,
        mut each: impl FnMut(u32, Bytes<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let shown = self.source.show(self.len, |at, bytes| {
            result = each(at, bytes);
            result.is_ok().then_some(())
        });
        result.and(shown.ok_or(gone))
    }
}

/// Parcels of one QP which wait until its lock is free, in order.
pub(crate) struct Mail {
    parcels: KVec<Parcel>,
    /// The next one to be handed over.
    next: usize,
    bytes: u32,
}

impl Mail {
    /// An empty one.
    #[inline]
    pub(crate) const fn new() -> Self {
        Mail {
            parcels: KVec::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// Whether it is time to hand it over.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.parcels.len() >= ROOM || self.bytes >= MAX_BYTES
    }

    /// Whether there is nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Takes over what `mail` has allocated, if anything: what one run of a QP allocated serves the next.
    #[inline]
    pub(crate) fn keep(&mut self, mail: &mut Mail) {
        if mail.parcels.capacity() != 0 {
            core::mem::swap(self, mail);
        }
    }

    /// Makes room for as many parcels as it takes to be full, at the cost of `payer`. Softirq or process context.
    /// ENOMEM.
    #[inline]
    pub(crate) fn reserve(&mut self, payer: &Payer) -> Result {
        if self.parcels.capacity() == 0 {
            payer.charge(|flags| self.parcels.reserve(ROOM, flags))?;
        }
        Ok(())
    }

    /// Adds a parcel. One that finds no room, for which [`Mail::reserve`] was not asked, is lost.
    #[inline]
    pub(crate) fn put(&mut self, parcel: Parcel) {
        self.bytes = self.bytes.saturating_add(parcel.len);
        let _ = self.parcels.push_within_capacity(parcel);
    }

    /// The QP that the next parcel is for.
    #[inline]
    pub(crate) fn dest(&self) -> Option<u32> {
        Some(self.parcels.get(self.next)?.repr.bth.dest_qp.get())
    }

    /// Takes the next parcel, if it is for QP `qpn`.
    #[inline]
    pub(crate) fn next_for(&mut self, qpn: u32) -> Option<&Parcel> {
        let parcel = self.parcels.get(self.next)?;
        if parcel.repr.bth.dest_qp.get() != qpn {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        Some(parcel)
    }

    /// Lets go of all parcels.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.parcels.clear();
        self.next = 0;
        self.bytes = 0;
    }
}
