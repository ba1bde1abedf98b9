// SPDX-License-Identifier: GPL-2.0

//! Lent payloads: a connection with the path MTU of loopback lends the payloads that it sends,
//! until the first of these packets reaches the peer, or is long lost. An honest peer acknowledges
//! a packet after that. The attacker also acknowledges packets that are still on their way.
//!
//! The judges: no request completes while its payload is lent, and nothing is flushed while any
//! payload is. And over loopback no request is sent before the messages that its sender has
//! received are acknowledged, unless a response has to go before the ACK.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::engine::Engine;
use crate::host::lending::Lending;
use crate::host::sabotage::Sabotage;
use crate::judge::decode::Seen;
use crate::model::verb::Verb;
use crate::profile::US;
use crate::run::world::{Event, World};
use oxe_proto::transport::{Origin, LOOPBACK_MTU};

/// When packets that did not arrive are given up: their payloads are released.
const LONG: u64 = 20 * US;

impl World {
    /// Whether the QP's packets are loopback packets.
    pub fn is_loopback(&self, qp: usize) -> bool {
        let q = &self.qps[qp];
        q.setup.pmtu == LOOPBACK_MTU && !q.conn.is_foreign()
    }

    /// The QP's packets were sent; it lends their payload.
    pub fn lend(&mut self, qp: usize, transmit: &Transmit) {
        if !self.is_loopback(qp) || transmit.payload.is_empty() {
            return;
        }
        let q = &mut self.qps[qp];
        let Engine::Oxe(conn) = &mut q.conn else {
            return;
        };
        conn.lend(transmit);
        if self.saboteur.strikes(Sabotage::EarlyRelease) {
            conn.release();
        }
        let begins = !q.lending.any;
        q.lending.any = true;
        if let Origin::Request { n } = transmit.origin {
            q.lending.first = Some(q.lending.first.map_or(n, |first| first.min(n)));
        }
        if begins {
            self.allow(LONG);
            self.after(LONG, Event::Release { qp });
        }
    }

    /// The QP's packets have reached their receiver.
    pub fn release(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        q.lending = Lending::default();
        let held = match &mut q.conn {
            Engine::Oxe(conn) => conn.release(),
            Engine::Foreign(_) => false,
        };
        match held {
            true => self.pump(qp),
            false => Ok(()),
        }
    }

    /// A packet reaches a QP; the peer's payloads are not lent any more.
    pub fn release_peer(&mut self, qp: usize) -> Result<(), Violation> {
        let peer = self.qps[qp].peer;
        match self.qps[peer].lending.any {
            true => self.release(peer),
            false => Ok(()),
        }
    }

    /// Judges the order of a request packet that the QP sends.
    pub fn judge_order(&mut self, qp: usize, seen: &Seen) -> Result<(), Violation> {
        if !self.is_loopback(qp) {
            return Ok(());
        }
        let peer = self.qps[qp].peer;
        let p = &mut self.qps[peer];
        if seen.is_response() {
            let packet = p.flow.packet(seen.psn);
            // A NAK acknowledges the packets before it.
            p.acknowledged = p.acknowledged.max(
                packet + u64::from(seen.opcode != crate::judge::decode::op::ACK || seen.is_ack()),
            );
            return Ok(());
        }
        // One that was sent may be sent again.
        let mut open = p.flow.ops.iter().skip(p.flow.completed);
        if self.watches[peer].answers.owes_any() || open.any(|op| op.verb.is_read_like()) {
            return Ok(());
        }
        let mut done = p.flow.ops.iter().filter(|op| {
            let message = op.verb.consumes() || op.verb == Verb::Write;
            let end = op.first + op.span;
            message && end <= self.watches[peer].accepted && end > p.acknowledged
        });
        let owed = done.next();
        ensure!(
            owed.is_none(),
            "qp{qp}: sends {:x} with PSN {:x} before the ACK of packet {}",
            seen.opcode,
            seen.psn,
            owed.map_or(0, |op| op.first)
        );
        Ok(())
    }

    /// An ACK of all that the QP has sent, if it lends payloads.
    pub fn early_ack(&mut self, qp: usize) -> Option<Vec<u8>> {
        let q = &self.qps[qp];
        q.lending.first?;
        let psn = q.conn.psns().0.wrapping_sub(1) & 0xff_ffff;
        let mut out = vec![0x11, 0];
        out.extend(q.setup.pkey.to_be_bytes());
        out.extend(q.qpn.to_be_bytes());
        out.extend(psn.to_be_bytes());
        out.extend([0x1f, 0, 0, 0]);
        out.extend([0; 4]);
        Some(out)
    }
}
