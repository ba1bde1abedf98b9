// SPDX-License-Identifier: GPL-2.0

//! A queue of packets that are ready to be sent, in order.

use super::skb::TxSkb;
use crate::ffi;
use crate::sync::bh::BhGuard;
use core::marker::PhantomData;
use core::ptr::null_mut;
use kernel::prelude::*;

/// The result of sending packets.
pub(crate) struct Sent {
    /// How many were sent.
    pub(crate) packets: u32,
    /// Their UDP payload in bytes.
    pub(crate) bytes: u32,
    /// How many were not sent: they are as good as lost on the wire.
    pub(crate) failed: u32,
}

/// Packets that wait to be sent together. They are sent once the code that built them holds no lock
/// any more.
///
/// # Invariants
///
/// `head` is null, or the first of a list of prepared packets that are owned; then `tail` is the
/// last. Bottom halves are off from the time a packet is prepared, so the routes that the packets
/// point to are there: a route is freed a grace period after it is given up.
pub(crate) struct TxQueue<'bh> {
    head: *mut ffi::sk_buff,
    tail: *mut ffi::sk_buff,
    _bh: PhantomData<&'bh BhGuard>,
}

impl<'bh> TxQueue<'bh> {
    /// An empty queue.
    #[inline]
    pub(crate) fn new(_bh: &'bh BhGuard) -> Self {
        Self {
            head: null_mut(),
            tail: null_mut(),
            _bh: PhantomData,
        }
    }

    /// Adds `skb`; see [`TxSkb::finish`].
    #[inline]
    pub(crate) fn push(&mut self, skb: TxSkb<'bh>, len: usize, gso_size: usize) -> Result {
        let raw = skb.finish(len, gso_size)?;
        if self.head.is_null() {
            self.head = raw;
        } else {
            // SAFETY: by the invariants, `tail` is the last packet of our list.
            unsafe { ffi::oxe_tx_link(self.tail, raw) };
        }
        // INVARIANT: `raw` is prepared, ours, and the last.
        self.tail = raw;
        Ok(())
    }

    /// Sends all packets.
    ///
    /// No packet reaches a receiver on this CPU before bottom halves are enabled again, not even a
    /// packet to this machine itself.
    #[inline]
    pub(crate) fn send(&mut self) -> Sent {
        let mut count = ffi::oxe_sent::default();
        // INVARIANT: the packets are given away, and the list is empty.
        let list = core::mem::replace(&mut self.head, null_mut());
        // The call is made for an empty list too: the selftests' probe of it holds up packets that
        // are delivered over the loopback.
        // SAFETY: `list` is a list of prepared packets that we alone own, or null.
        unsafe { ffi::oxe_tx_send(list, &mut count) };
        Sent {
            packets: count.sent,
            bytes: count.bytes,
            failed: count.failed,
        }
    }
}

impl Drop for TxQueue<'_> {
    fn drop(&mut self) {
        if !self.head.is_null() {
            // SAFETY: the packets are ours, and not used again.
            unsafe { ffi::oxe_tx_drop(self.head) };
        }
    }
}
