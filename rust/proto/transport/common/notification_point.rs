// SPDX-License-Identifier: GPL-2.0

//! The notification point of a queue pair: tells the sender of packets that a router has marked, by
//! congestion notification packets (CNP, IBTA annex A17.9.3).
//!
//! The sender is the reaction point. It is told by the queue pair that the marked packet was for,
//! so a CNP goes the way that a response would. It is no response: it has no PSN, it is sent once,
//! and it may be lost.

use super::wire::{BthRepr, Ecn, Ext, Opcode, PKey, PacketRepr, Psn, Qpn};
use super::Instant;

/// A received packet, or segments that differ in PSN and payload alone.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its headers.
    pub packet: &'a PacketRepr,
    /// Bytes of its payload.
    pub payload_len: u32,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// The queue pair took it ([`Verdict::Accepted`](super::Verdict::Accepted)): it came from the
    /// peer, in its order, to a queue pair that receives.
    pub accepted: bool,
}

/// See the module's documentation. By default no CNP was sent yet.
#[derive(Debug, Default)]
pub struct NotificationPoint {
    /// When the last CNP was sent.
    sent: Option<Instant>,
}

impl NotificationPoint {
    /// The headers of the CNP that is due for `arrival`, if one is: for payload that was marked CE
    /// and accepted, and only one in `interval` nanoseconds. A CNP that was returned counts as
    /// sent. It has no payload; 16 reserved bytes, all zero, are its extended header.
    ///
    /// `peer` is the destination QP of a connection. Without it the source QP of the datagram is
    /// told. The special queue pairs do not send at a rate, and are not told; nor do they tell: any
    /// host may send datagrams to them, which name a source QP as they like.
    ///
    /// A packet gets one CNP at most, so a sender of forged packets gains nothing by them. A packet
    /// that is dropped gets none: a lost packet before it, or the state of this end, is no
    /// congestion, and a duplicate was notified when it came first.
    pub fn on_packet(
        &mut self,
        now: Instant,
        interval: u64,
        arrival: &Arrival<'_>,
        peer: Option<Qpn>,
    ) -> Option<PacketRepr> {
        if arrival.ecn != Ecn::Ce || !arrival.accepted || arrival.payload_len == 0 {
            return None;
        }
        let source = || arrival.packet.ext.deth().map(|deth| deth.src_qp);
        let dest = peer.or_else(source).filter(|dest| *dest > Qpn::GSI)?;
        let is_special = arrival.packet.bth.dest_qp <= Qpn::GSI;
        let is_early = self.sent.is_some_and(|sent| now < sent.after(interval));
        if is_special || is_early {
            return None;
        }
        self.sent = Some(now);
        Some(cnp(dest))
    }
}

/// The headers of a CNP to queue pair `dest`. MigReq is 0 and the partition the default one, as in
/// the CNPs of ConnectX.
fn cnp(dest: Qpn) -> PacketRepr {
    let mut bth = BthRepr::new(Opcode::Cnp, PKey::DEFAULT, dest, Psn::ZERO);
    bth.migrated = false;
    bth.becn = true;
    PacketRepr { bth, ext: Ext::Cnp }
}
