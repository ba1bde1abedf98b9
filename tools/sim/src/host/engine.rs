// SPDX-License-Identifier: GPL-2.0

//! The protocol engine of a simulated QP: the code under test, or the foreign peer.

use crate::api::*;
use crate::host::env::Env;
use crate::host::queues::SendRing;
use crate::peer::qp::Foreign;
use oxe_proto::transport::Invalid;
use oxe_proto::wire::PacketRepr;

/// The protocol behind a QP.
pub enum Engine {
    Oxe(Box<Connection<Vec<Resource>>>),
    Foreign(Box<Foreign>),
}

use Engine::{Foreign as Stock, Oxe};

impl Engine {
    /// Whether it is the foreign peer, which is judged by the rules of the specification alone.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Stock(_))
    }

    pub fn state(&self) -> State {
        match self {
            Oxe(conn) => conn.state(),
            Stock(peer) => peer.state(),
        }
    }

    pub fn modify(&mut self, change: &Modify) -> Result<(), Invalid> {
        match self {
            Oxe(conn) => conn.modify(change),
            Stock(peer) => {
                peer.modify(change);
                Ok(())
            }
        }
    }

    pub fn to_error(&mut self) {
        match self {
            Oxe(conn) => conn.to_error(),
            Stock(peer) => peer.to_error(),
        }
    }

    pub fn abandon_recv(&mut self) -> bool {
        match self {
            Oxe(conn) => conn.abandon_recv(),
            Stock(peer) => peer.abandon_recv(),
        }
    }

    /// Replaces the responder resources; the foreign peer has fixed ones.
    pub fn replace_resources(&mut self, resources: Vec<Resource>) {
        if let Oxe(conn) = self {
            conn.replace_resources(resources);
        }
    }

    pub fn poll_transmit(&mut self, now: u64, most: u16, q: &mut SendRing) -> Option<Transmit> {
        match self {
            Oxe(conn) => conn.poll_transmit(Instant(now), most, q),
            Stock(peer) => peer.poll_transmit(now, q),
        }
    }

    /// The request whose turn it is, if it is a local operation. The foreign peer has none.
    pub fn poll_local(&self, q: &SendRing) -> Option<u32> {
        match self {
            Oxe(conn) => conn.poll_local(q),
            Stock(_) => None,
        }
    }

    pub fn finish_local(&mut self, result: Result<(), Status>, q: &mut SendRing) {
        if let Oxe(conn) = self {
            conn.finish_local(result, q);
        }
    }

    /// The packets were not sent; they were made by the code under test.
    pub fn undo(&mut self, transmit: &Transmit, q: &mut SendRing) {
        if let Oxe(conn) = self {
            conn.undo(transmit, q);
        }
    }

    pub fn local_error(&mut self, transmit: &Transmit, status: Status, q: &mut SendRing) {
        match self {
            Oxe(conn) => conn.local_error(transmit, status, q),
            Stock(peer) => peer.local_error(transmit, status),
        }
    }

    pub fn max_segments(&self, repr: &PacketRepr, payload_len: u32, q: &SendRing) -> u16 {
        match self {
            Oxe(conn) => conn.max_segments(repr, payload_len, q),
            Stock(_) => 1,
        }
    }

    pub fn handle_segments(
        &mut self,
        now: u64,
        repr: &PacketRepr,
        count: u16,
        payload_len: u32,
        env: &mut Env,
    ) -> Verdict {
        match self {
            Oxe(conn) => conn.handle_segments(Instant(now), repr, count, payload_len, env),
            Stock(peer) => peer.handle_packet(now, repr, payload_len, env),
        }
    }

    /// The PSN of the kept packet whose turn has come. The foreign peer keeps none.
    pub fn take_kept(&mut self) -> Option<u32> {
        match self {
            Oxe(conn) => conn.take_kept().map(|psn| psn.get()),
            Stock(_) => None,
        }
    }

    /// Whether packets are kept for it.
    pub fn keeps_requests(&self) -> bool {
        match self {
            Oxe(conn) => conn.keeps_requests(),
            Stock(_) => false,
        }
    }

    pub fn poll_send_completion(&mut self, q: &mut SendRing) -> Option<SendCompletion> {
        match self {
            Oxe(conn) => conn.poll_send_completion(q),
            Stock(peer) => peer.poll_send_completion(q),
        }
    }

    /// When the timer is to go off, ns.
    pub fn poll_timeout(&self) -> Option<u64> {
        match self {
            Oxe(conn) => conn.poll_timeout().map(|at| at.0),
            Stock(peer) => peer.poll_timeout(),
        }
    }

    pub fn handle_timeout(&mut self, now: u64, q: &mut SendRing) {
        match self {
            Oxe(conn) => conn.handle_timeout(Instant(now), q),
            Stock(peer) => peer.handle_timeout(now),
        }
    }

    pub fn take_events(&mut self) -> Events {
        match self {
            Oxe(conn) => conn.take_events(),
            Stock(peer) => peer.take_events(),
        }
    }

    /// The PSN of the oldest packet that the code under test misses a response to.
    pub fn missing_psn(&self) -> Option<u32> {
        match self {
            Oxe(conn) => Some(conn.requester().snapshot().una.get()),
            Stock(_) => None,
        }
    }

    /// The PSN that a new request will have, and the one that is expected.
    pub fn psns(&self) -> (u32, u32) {
        match self {
            Oxe(conn) => (
                conn.requester().next_psn().get(),
                conn.responder().expected_psn().get(),
            ),
            Stock(peer) => peer.psns(),
        }
    }
}
