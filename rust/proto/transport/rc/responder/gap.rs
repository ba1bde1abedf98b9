// SPDX-License-Identifier: GPL-2.0

//! Request packets that came behind a missing one. A responder need not carry them out, and reports
//! the gap (IBTA 9.7.4.1.2, 9.7.5.2). It may have its owner keep them all the same, as packets:
//! once the missing one has come they are handed on in order, as if they arrived then. To a
//! requester that goes back this is an ACK of more than it has sent again; one that knows of it
//! sends the missing packet alone (see `requester/repair.rs`).
//!
//! Nothing of a kept packet is looked at but its PSN, kind and length: keys, ranges and the
//! sequence of opcodes are checked when its turn comes, and so is whether there is a receive for
//! it.

use super::common::{Attr, DropReason, ResponderOps, Verdict};
use super::resource::Resource;
use super::wire::{Kind, PacketRepr, Psn, Syndrome};
use super::Responder;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// See [`Connection::keep_requests`](super::super::Connection::keep_requests).
    pub(in super::super) fn keep_requests(&mut self, keeps: bool) {
        self.ahead.enable(keeps);
    }

    /// Whether the owner keeps packets for this responder.
    #[inline]
    pub(in super::super) fn keeps_any(&self) -> bool {
        self.ahead.is_any()
    }

    /// A packet before this one is missing: reports it once (IBTA 9.7.5.2, PSN sequence error), and
    /// has this one kept if it is of a SEND or WRITE. A READ or an atomic is not worth it: the
    /// packet is short.
    #[cold]
    pub(super) fn out_of_sequence<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Verdict {
        let psn = pkt.bth.psn;
        if !self.nak_sent {
            self.report_gap();
        }
        if self.furthest.is_none_or(|furthest| psn.is_after(furthest)) {
            self.furthest = Some(psn);
        }
        let message = matches!(pkt.bth.opcode.kind(), Kind::Send | Kind::Write);
        let may_keep = message
            && self.ahead.admits(psn, self.epsn)
            && payload_len <= attr.pmtu.bytes()
            && !attr.pmtu.is_loopback();
        if may_keep && ops.keep(pkt) {
            self.ahead.insert(psn);
        }
        Verdict::Dropped(DropReason::OutOfSequence)
    }

    /// The packets from `from` on were carried out, of which a gap was known before or behind, and
    /// another one is expected now. `asked` says whether the requester wants an ACK of them, `due`
    /// whether the NAK that asked for them was not sent yet.
    ///
    /// When no kept packet is next, the requester learns what is missing now by a NAK, if it does
    /// not learn it otherwise: as the NAK was not sent, or as the requester sent the missing packet
    /// alone and asked. A requester that goes back sends all the rest by itself.
    #[cold]
    pub(super) fn close_gap(&mut self, from: Psn, asked: bool, due: bool) {
        let alone = asked && self.ahead.is_any() && !self.ahead.handing_on;
        self.ahead.pass(from, self.epsn);
        self.nak_sent = false;
        if self.ahead.tells {
            self.ack.set(Syndrome::ACK, self.epsn.prev());
        }
        let tells = self.ahead.tells || due || alone;
        if self.ahead.has(self.epsn) {
            self.ahead.tells = tells;
            return;
        }
        self.ahead.tells = false;
        self.ahead.handing_on = false;
        let any = self.ahead.is_any();
        let behind = |psn: &Psn| (tells || any) && psn.distance(self.epsn) >= 0;
        self.furthest = self.furthest.filter(behind);
        self.gap_known = any;
        if tells && self.furthest.is_some() {
            self.report_gap();
        }
    }

    /// Whether there is a gap before kept packets that was not reported. A requester that asks
    /// about a packet before it waits for that.
    pub(super) fn owes_report(&self) -> bool {
        self.ahead.is_any() && !self.nak_sent
    }

    /// The next kept packet that is expected now, if there is one: its owner hands it on, and asks
    /// again.
    pub(in super::super) fn take_kept(&mut self) -> Option<Psn> {
        let next = Some(self.epsn).filter(|psn| self.ahead.has(*psn))?;
        self.ahead.hand_on(next);
        Some(next)
    }
}
