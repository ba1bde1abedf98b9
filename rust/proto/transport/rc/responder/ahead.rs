// SPDX-License-Identifier: GPL-2.0

//! The PSNs of request packets that are kept behind a missing one (see `gap`).

use super::wire::Psn;

/// Packets are kept less than so many PSNs ahead of the expected one: a whole congestion window of
/// a requester such as this one.
pub const KEPT_SPAN: u32 = 128;

/// The PSNs of the packets that are kept.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Packets are kept at all.
    enabled: bool,
    /// The packet that is expected was reported missing: what comes behind it may be kept. Not
    /// after an RNR NAK, as the requester sends everything again then.
    open: bool,
    /// The requester has asked about the packet that closed the gap, and learns how far this went
    /// and what is missing next when no more packets follow it.
    pub(super) tells: bool,
    /// Kept packets are being handed on.
    pub(super) handing_on: bool,
    /// A bit for each PSN modulo [`KEPT_SPAN`].
    bits: u128,
}

impl Ahead {
    /// Nothing is kept yet.
    pub(super) const NEW: Self = Ahead {
        enabled: true,
        open: false,
        tells: false,
        handing_on: false,
        bits: 0,
    };

    /// Whether packets are to be kept from now on.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Whether anything is kept.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.bits != 0
    }

    fn bit(psn: Psn) -> u128 {
        1 << (psn.get() % KEPT_SPAN)
    }

    /// Whether the packet with `psn` is kept, which is less than [`KEPT_SPAN`] ahead of the
    /// expected one.
    pub(super) fn has(&self, psn: Psn) -> bool {
        self.bits & Self::bit(psn) != 0
    }

    /// The expected packet was reported missing.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Whether the packet with `psn` may be kept, when `epsn` is expected.
    pub(super) fn admits(&self, psn: Psn, epsn: Psn) -> bool {
        self.enabled && self.open && psn.offset_from(epsn) < KEPT_SPAN && !self.has(psn)
    }

    /// The packet with `psn` is kept.
    pub(super) fn insert(&mut self, psn: Psn) {
        self.bits |= Self::bit(psn);
    }

    /// The packet with `psn`, a kept one, is handed on.
    pub(super) fn hand_on(&mut self, psn: Psn) {
        self.bits &= !Self::bit(psn);
        self.handing_on = true;
    }

    /// Forgets all packets.
    #[cold]
    pub(super) fn clear(&mut self) {
        self.bits = 0;
        self.open = false;
        self.tells = false;
        self.handing_on = false;
    }

    /// The packets from `from` to the one before `to` were carried out.
    pub(super) fn pass(&mut self, from: Psn, to: Psn) {
        for ahead in 0..to.offset_from(from).min(KEPT_SPAN) {
            self.bits &= !Self::bit(from.add(ahead));
        }
    }
}
