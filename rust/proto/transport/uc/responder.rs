// SPDX-License-Identifier: GPL-2.0

//! The responder of UC: the messages that the QP receives (IBTA 9.8.2).
//!
//! If a packet is lost, or refused, its whole message is dropped, and the first packet of the next
//! message is waited for. A receive request that a dropped message has taken is used for the next
//! one.

use super::common::reassembly::{Reassembly, Refusal};
use super::common::{Attr, DropReason, Pmtu, ResponderOps};
use super::wire::{Kind, PacketRepr, Psn};

/// A new message that begins no more than so many PSNs before the expected one is no new message,
/// but a packet that the network delivered twice, or late. The specification knows no such packets,
/// as a fabric keeps their order. There must be few such PSNs, since any number of packets may have
/// been lost. It drops the message in progress all the same: if the peer was reset and begins anew,
/// its next packets must not be taken for the rest of that message.
///
/// A second such message that follows the first one in order is taken: hardware takes any message
/// (IBTA 9.8.2.2), so a peer that was reset is to lose no more than one.
const STALE: i32 = 1024;

/// The receive side of a UC queue pair.
#[derive(Debug)]
pub(super) struct Responder {
    /// The PSN of the packet after the last one that arrived.
    epsn: Psn,
    /// The PSN after the last packet, if that was one of a message that was dropped as stale.
    stale_next: Option<Psn>,
    reassembly: Reassembly,
    /// The first packet has arrived: the expected PSN is the peer's.
    established: bool,
}

impl Responder {
    /// A responder that has received nothing.
    pub(super) const NEW: Self = Responder {
        epsn: Psn::ZERO,
        stale_next: None,
        reassembly: Reassembly::NEW,
        established: false,
    };

    /// Drops everything; [`Responder::abandon_recv`] still reports a receive request in use.
    pub(super) fn reset(&mut self) {
        let mut reassembly = core::mem::replace(&mut self.reassembly, Reassembly::NEW);
        reassembly.restart();
        *self = Responder {
            reassembly,
            ..Responder::NEW
        };
    }

    /// Expects `psn` from now on.
    pub(super) fn start(&mut self, psn: Psn) {
        self.epsn = psn;
        self.established = false;
    }

    /// The expected PSN.
    #[inline]
    pub(super) const fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Drops the message in progress. Returns whether a receive request was in use, which will not
    /// be completed: `true` once for each.
    pub(super) fn abandon_recv(&mut self) -> bool {
        self.reassembly.abandon_recv()
    }

    /// How many middle packets may be taken at a time; `psn` is that of the first.
    #[inline]
    pub(super) fn max_segments(&self, psn: Psn, pmtu: Pmtu) -> u32 {
        if psn != self.epsn {
            return 1;
        }
        self.reassembly.max_segments(pmtu)
    }

    /// Whether request packets, the first of which is `pkt`, begin or continue a message. Returns
    /// whether they are the first ones to arrive.
    #[inline]
    pub(super) fn admit(&mut self, pkt: &PacketRepr, segments: u16) -> Result<bool, DropReason> {
        let starts = pkt.bth.opcode.info().position.is_start();
        let ahead = pkt.bth.psn.distance(self.epsn);
        // IBTA 9.8.2.2: a gap in the PSNs, or a new message before the end of this one, drops this
        // one. The first packet of a message is taken whatever its PSN is.
        if starts || ahead != 0 {
            self.reassembly.restart();
        }
        // The packet follows one of a stale message: it is another of it, or begins the next.
        let stale = self.stale_next.take() == Some(pkt.bth.psn);
        let next = pkt.bth.psn.add(segments.into());
        if self.established && starts && !stale && (-STALE..0).contains(&ahead) {
            self.stale_next = Some(next);
            return Err(DropReason::Duplicate);
        }
        if !starts && self.reassembly.is_idle() {
            self.stale_next = stale.then_some(next);
            return Err(DropReason::OutOfSequence);
        }
        self.epsn = next;
        Ok(!core::mem::replace(&mut self.established, true))
    }

    /// Carries out the packet, which begins or continues a message.
    #[inline]
    pub(super) fn place<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let info = pkt.bth.opcode.info();
        // IBTA 9.8.2.2: the payload length depends on the position.
        let pmtu = attr.pmtu.bytes() as usize;
        if !info.payload.allows(payload_len as usize, pmtu) {
            return Err(Refusal::Invalid);
        }
        let payload_len = payload_len.saturating_mul(segments.into());
        match info.kind {
            Kind::Send => self.reassembly.send(pkt, payload_len, ops),
            Kind::Write => self.reassembly.write(attr.access, pkt, payload_len, ops),
            // UC has no other requests (IBTA 9.2, Table 38).
            _ => Err(Refusal::Invalid),
        }
    }

    /// The packet is refused. The message is dropped silently, unless the receive request itself is
    /// at fault: then the request completes with an error, and the QP goes to the error state
    /// (IBTA 9.9.3). Returns whether it does.
    #[cold]
    pub(super) fn refuse<T: ResponderOps>(
        &mut self,
        refusal: Refusal,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> (DropReason, bool) {
        self.reassembly.restart();
        let reason = match refusal {
            Refusal::NotReady => DropReason::NoReceive,
            Refusal::NotPresent => DropReason::NotPresent,
            Refusal::TooLong => DropReason::ReceiveTooShort,
            Refusal::Invalid | Refusal::Denied(_) | Refusal::NotInvalidated => DropReason::Refused,
            Refusal::LocalError(_) => {
                self.reassembly.fail_recv(refusal, pkt, ops);
                return (DropReason::Refused, true);
            }
        };
        (reason, false)
    }
}
