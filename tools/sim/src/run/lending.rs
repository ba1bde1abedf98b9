// SPDX-License-Identifier: GPL-2.0

//! Lent payloads: a connection with the path MTU of loopback lends the payloads that it sends,
//! until the first of these packets reaches the peer, or is long lost. An honest peer acknowledges
//! a packet after that. The attacker also acknowledges packets that are still on their way.
//!
//! The judges: no request completes while its payload is lent, and nothing is flushed while any
//! payload is. And over loopback no request is sent before the messages that its sender has
//! received are acknowledged, unless a response has to go before the ACK.

use crate::api::*;
use crate::check::Violation;
use crate::host::engine::Engine;
use crate::host::lending::Lending;
use crate::host::sabotage::Sabotage;
use crate::judge::decode::Seen;
use crate::judge::lending::acknowledged;
use crate::profile::US;
use crate::run::world::{Event, World};
use oxe_proto::transport::Origin;

/// When packets that did not arrive are given up: their payloads are released.
const LONG: u64 = 20 * US;

impl World {
    /// The QP's packets were sent; it lends their payload.
    pub fn lend(&mut self, qp: usize, transmit: &Transmit) {
        if !self.qps[qp].is_loopback() || transmit.payload.is_empty() {
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

    /// A packet leaves a QP. A request needs that what came before is acknowledged.
    pub fn judge_order(&mut self, qp: usize, seen: &Seen) -> Result<(), Violation> {
        if !self.qps[qp].is_loopback() {
            return Ok(());
        }
        if !seen.is_response() {
            return self.view().check_acknowledged(qp, seen);
        }
        let peer = self.qps[qp].peer;
        let p = &mut self.qps[peer];
        let end = acknowledged(p.flow.packet(seen.psn), seen);
        p.acknowledged = p.acknowledged.max(end);
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
