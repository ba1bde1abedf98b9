// SPDX-License-Identifier: GPL-2.0

//! Loopback: packets between two queue pairs of one device, as headers and a reference to the
//! payload. The receiver copies the bytes once, from the sender's memory to its own.

use super::path::Path;
use crate::device::mem::error::MemError;
use crate::device::mem::payload::PayloadRef;
use crate::net::netdev::Namespace;
use crate::proto::wire::{PacketRepr, GRH_LEN};
use crate::rdma::strided::StridedSrc;
use crate::sync::memory::Payer;
use kernel::prelude::*;

/// The most loopback packets that are queued under one hold of the sender's lock.
const ROOM: usize = 8;

/// Bytes of payload from which on the queue is full: the receiver copies them under one hold of its
/// lock.
const MAX_BYTES: u32 = 65_536;

/// The sender of a loopback packet.
pub(crate) enum LoopbackOrigin {
    /// A connected QP: the source and destination address of its packets, and its number, which a
    /// packet of a connection does not carry.
    Connected {
        /// The number of the sending QP.
        qpn: u32,
        /// The source address.
        source: [u8; 16],
        /// The destination address.
        destination: [u8; 16],
        /// The network namespace of the addresses.
        namespace: Namespace,
    },
    /// A datagram QP: what its packet on the wire would say of the way that it came. It is copied
    /// from the address handle, so that the receiver, which handles the packet under its lock, does
    /// not wait for the lock of a handle that is another process's.
    Datagram {
        /// The GRH area of the receive buffer.
        grh_area: Option<[u8; GRH_LEN]>,
        /// The IP version is 6.
        v6: bool,
        /// The id of the VLAN. Both addresses are of the same netdev.
        vlan: Option<u16>,
        /// The network namespace of that netdev.
        namespace: Namespace,
    },
}

impl LoopbackOrigin {
    /// Connected QP `qpn`, whose path is `path`.
    #[inline]
    pub(crate) fn connected(qpn: u32, path: &Path) -> Self {
        let (source, destination) = path.addresses();
        LoopbackOrigin::Connected {
            qpn,
            source: *source,
            destination: *destination,
            namespace: path.namespace(),
        }
    }

    /// A datagram QP whose packet, with `len` bytes from the BTH on, goes by `path`.
    #[inline]
    pub(crate) fn datagram(path: &Path, len: usize) -> Self {
        LoopbackOrigin::Datagram {
            grh_area: path.grh_area(len),
            v6: path.is_v6(),
            vlan: path.vlan(),
            namespace: path.namespace(),
        }
    }
}

/// See the module's documentation.
pub(crate) struct LoopbackPacket {
    pub(crate) repr: PacketRepr,
    pub(crate) sender: LoopbackOrigin,
    pub(crate) len: u32,
    pub(crate) source: PayloadRef,
}

impl LoopbackPacket {
    /// Calls `each` with the payload, chunk by chunk: the chunk's offset in the payload, and its
    /// bytes.
    ///
    /// # Errors
    ///
    /// The error of `each`; NotPresent if the sender's bytes cannot be read any more.
    #[inline]
    pub(crate) fn for_payload<E: From<MemError>>(
        &self,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let shown = self.source.for_each_chunk(self.len, |at, bytes| {
            result = each(at, bytes);
            result.is_ok().then_some(())
        });
        // The sender may have deregistered the memory since the packet was queued. The receiver is
        // not to blame: the packet counts as one that comes again or is lost, and a sender that
        // repeats it finds its own error.
        result.and(shown.map_err(|_| E::from(MemError::NotPresent)))
    }
}

/// Loopback packets of one sending QP, in order, until its lock is released.
pub(crate) struct LoopbackQueue {
    packets: KVec<LoopbackPacket>,
    /// The next one to be delivered.
    next: usize,
    bytes: u32,
}

impl LoopbackQueue {
    /// An empty queue.
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

    /// Whether the queue is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes over the memory of `other`, if it has any. A QP allocates it once and keeps it between
    /// runs of the engine.
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

    /// Adds a packet. It is lost if there is no room for it because [`LoopbackQueue::reserve`] was
    /// not called.
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

    /// Drops all packets.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.next = 0;
        self.bytes = 0;
    }
}
