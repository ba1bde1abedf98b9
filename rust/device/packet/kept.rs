// SPDX-License-Identifier: GPL-2.0

//! Packets that are kept until a missing one before them comes, as copies: an skb would hold the
//! memory of a whole super-packet, or of a ring of its driver.
//!
//! Their memory is bounded, since it is the peer that causes it: by the span of PSNs for each queue
//! pair, by a quota for each user and device, and it is charged to the memory cgroup of the queue
//! pair. A packet that is not kept is dropped, and comes again.

use super::wire_packet::WirePacket;
use crate::net::netdev::Namespace;
use crate::proto::transport::KEPT_SPAN;
use crate::proto::wire::{PacketRepr, Psn};
use crate::rdma::strided::StridedSrc;
use crate::sync::memory::Payer;
use crate::sync::quota::{Counted, Owner, Quota};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A copy of a packet from the wire, which passed every check below the transport when it arrived,
/// and was one from the queue pair's peer.
pub(crate) struct KeptPacket {
    pub(crate) repr: PacketRepr,
    /// The network namespace in which it arrived.
    pub(crate) namespace: Namespace,
    payload: KVec<u8>,
    /// Part of the quota.
    _counted: Counted,
}

impl KeptPacket {
    /// The bytes of payload.
    #[inline]
    pub(crate) fn payload_len(&self) -> u32 {
        self.payload.len() as u32
    }

    /// As [`WirePacket::for_payload`].
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        each(0, StridedSrc::new(&self.payload))
    }

    /// Copies a packet, charged to `payer`. Softirq or process context. ENOMEM.
    fn copy(counted: Counted, payer: &Payer, packet: &WirePacket) -> Result<KBox<Self>> {
        let len = packet.payload_len as usize;
        payer.charge(|flags| {
            let mut payload = KVec::with_capacity(len, flags)?;
            packet.for_payload(|_, bytes| bytes.append_to(&mut payload).ok_or(EFAULT))?;
            let kept = KeptPacket {
                repr: packet.repr,
                namespace: packet.skb.namespace(),
                payload,
                _counted: counted,
            };
            Ok(KBox::new(kept, flags)?)
        })
    }
}

/// The packets that a queue pair keeps.
pub(crate) struct KeptPackets {
    /// The packet with a PSN is in the slot of that PSN modulo [`KEPT_SPAN`]. No memory as long as
    /// there was none.
    slots: KVec<Option<KBox<KeptPacket>>>,
}

impl KeptPackets {
    /// None.
    pub(crate) const fn new() -> Self {
        KeptPackets { slots: KVec::new() }
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Frees all. Softirq or process context.
    pub(crate) fn clear(&mut self) {
        if !self.slots.is_empty() {
            self.slots = KVec::new();
        }
    }

    /// Keeps a copy of `packet`, a single one, counted by `quota` for `owner`. Softirq or process
    /// context. ENOMEM; EINVAL for several packets.
    pub(crate) fn keep(
        &mut self,
        (quota, owner): (&Arc<Quota>, &Owner),
        payer: &Payer,
        packet: &WirePacket,
    ) -> Result {
        if packet.count != 1 {
            return Err(EINVAL);
        }
        let kept = KeptPacket::copy(Counted::new(quota, owner)?, payer, packet)?;
        if self.slots.is_empty() {
            let mut slots = payer.charge(|flags| KVec::with_capacity(KEPT_SPAN as usize, flags))?;
            for _ in 0..KEPT_SPAN {
                slots.push_within_capacity(None).map_err(|_| ENOMEM)?;
            }
            self.slots = slots;
        }
        let slot = self.slots.get_mut(slot(kept.repr.bth.psn)).ok_or(EINVAL)?;
        *slot = Some(kept);
        Ok(())
    }

    /// Takes the packet with this PSN, if there is one.
    pub(crate) fn take(&mut self, psn: Psn) -> Option<KBox<KeptPacket>> {
        let same = |kept: &mut KBox<KeptPacket>| kept.repr.bth.psn == psn;
        self.slots.get_mut(slot(psn))?.take_if(same)
    }
}

/// The slot of the packet with this PSN.
fn slot(psn: Psn) -> usize {
    (psn.get() % KEPT_SPAN) as usize
}
