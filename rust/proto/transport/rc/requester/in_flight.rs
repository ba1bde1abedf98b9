// SPDX-License-Identifier: GPL-2.0

//! The packets in flight: those between `una` and the cursor, which the windows limit.

/// Counts what is in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Packets; a READ counts as one.
    packets: u16,
    /// READs and atomics among them.
    rd_atomic: u16,
}

impl InFlight {
    /// Nothing.
    pub(super) const NONE: Self = InFlight {
        packets: 0,
        rd_atomic: 0,
    };

    /// How many packets.
    #[inline]
    pub(super) fn packets(&self) -> u16 {
        self.packets
    }

    /// How many READs and atomics.
    #[inline]
    pub(super) fn rd_atomic(&self) -> u16 {
        self.rd_atomic
    }

    /// So many packets of a SEND or WRITE are sent.
    #[inline]
    pub(super) fn add(&mut self, packets: u16) {
        self.packets = self.packets.saturating_add(packets);
    }

    /// The packet of a READ or atomic is sent.
    #[inline]
    pub(super) fn add_rd_atomic(&mut self) {
        self.rd_atomic = self.rd_atomic.saturating_add(1);
        self.add(1);
    }

    /// So many packets of SENDs and WRITEs are acknowledged, or taken back.
    #[inline]
    pub(super) fn remove(&mut self, packets: u16) {
        self.packets = self.packets.saturating_sub(packets);
    }

    /// The response to a READ or atomic is complete, or its packet is taken back.
    #[inline]
    pub(super) fn remove_rd_atomic(&mut self) {
        self.rd_atomic = self.rd_atomic.saturating_sub(1);
        self.remove(1);
    }
}
