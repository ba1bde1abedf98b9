// SPDX-License-Identifier: GPL-2.0

//! Congestion notifications: some queue pairs react to them. The network marks some of their
//! packets, and the receiver notifies them. Others are controlled by delay.

use crate::api::*;
use crate::check::Violation;
use crate::host::sabotage::Sabotage;
use crate::judge::decode::Seen;
use crate::judge::marks::{is_marked, Taken};
use crate::judge::rate::Rate;
use crate::log::log;
use crate::network::frame::{self, Route};
use crate::profile::{MS, US};
use crate::run::world::World;
use oxe_proto::transport::{Arrival, NotificationPoint, LOOPBACK_MTU};
use oxe_proto::wire::{Ecn, Opcode, PacketRepr, Qpn};

/// The rate of the line that they believe to have, Mb/s.
pub const LINE: u32 = 2000;

/// Marked packets of a queue pair in its life: more would leave it too slow for its deadline.
const MOST: u32 = 6;

/// Least time between two CNPs of a queue pair, ns.
const INTERVAL: u64 = 30 * US;

/// Whether a queue pair of this number and path MTU reacts.
pub fn reacts(qpn: u32, pmtu: u32) -> bool {
    qpn % 8 == 5 && pmtu != LOOPBACK_MTU
}

impl World {
    /// The judge of a new queue pair's rate, if it reacts.
    pub fn judge_of_rate(&self, qp: usize) -> Option<Rate> {
        let q = &self.qps[qp];
        let reacts = reacts(q.qpn, q.setup.pmtu) && !q.conn.is_foreign();
        reacts.then(|| Rate::new(LINE))
    }

    /// A queue pair is about to send packets. If it reacts, the judge sees them: not the last ones
    /// of a queue pair in error, which do not wait.
    pub fn note_polled(&mut self, qp: usize, transmit: &Transmit) -> Result<(), Violation> {
        let ends = self.qps[qp].conn.state() == State::Err;
        let Some(rate) = self.rates[qp].as_mut().filter(|_| !ends) else {
            return Ok(());
        };
        let result = rate.on_sent(self.now, transmit.segments, transmit.segment_size());
        result.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    /// Packets of the queue pair are taken back.
    pub fn note_taken_back(&mut self, qp: usize) {
        if let Some(rate) = &mut self.rates[qp] {
            rate.taken_back();
        }
    }

    /// Packets with payload of a queue pair that reacts are ECN-capable, and the network marks some
    /// of them.
    pub fn mark(&mut self, qp: usize, transmit: &Transmit, frame: &mut [u8]) {
        let Some(rate) = &mut self.rates[qp] else {
            return;
        };
        if transmit.payload.is_empty() {
            return;
        }
        let marked = rate.marked < MOST && self.rng.one_in(8);
        rate.marked += u32::from(marked);
        frame::set_ecn(frame, if marked { Ecn::Ce } else { Ecn::Ect0 });
    }

    /// Packets were handled, which the queue pair took or not: it notifies their sender if they
    /// were marked.
    pub fn notify(
        &mut self,
        qp: usize,
        repr: &PacketRepr,
        frames: &[Vec<u8>],
        verdict: Verdict,
    ) -> Result<(), Violation> {
        if self.qps[qp].conn.is_foreign() {
            return Ok(());
        }
        let seen: Vec<_> = frames
            .iter()
            .filter_map(|frame| Seen::decode(frame::roce(frame)?))
            .collect();
        let taken = Taken {
            seen: &seen,
            marked: frames.first().is_some_and(|frame| is_marked(frame)),
            accepted: verdict == Verdict::Accepted,
        };
        let sent = self.cnp(qp, repr, frames, taken.accepted);
        let roce = sent.as_ref().and_then(|cnp| frame::roce(cnp));
        let dest = self.qps[self.qps[qp].peer].qpn;
        let judged = self.marks[qp].judge(self.now, INTERVAL, &taken, dest, roce);
        judged.map_err(|found| found.at(format_args!("qp{qp}")))?;
        if let Some(cnp) = sent {
            log!(self, "qp{qp} sends a CNP");
            let q = &self.qps[qp];
            self.send_frames(q.host, self.qps[q.peer].host, vec![cnp]);
        }
        Ok(())
    }

    /// The CNP that the queue pair sends for these packets, if it sends one.
    fn cnp(
        &mut self,
        qp: usize,
        repr: &PacketRepr,
        frames: &[Vec<u8>],
        mut accepted: bool,
    ) -> Option<Vec<u8>> {
        let frame = frames.first()?;
        let mut ecn = Ecn::of_header(frame);
        let payload_len = frame::payload_len(frame);
        let marked = ecn == Ecn::Ce;
        let saboteur = &mut self.saboteur;
        if payload_len > 0 && !self.marks[qp].is_quiet(self.now) {
            if !accepted && marked && saboteur.strikes(Sabotage::NotifyDropped) {
                accepted = true;
            }
            if accepted && !marked && saboteur.strikes(Sabotage::NotifyUnmarked) {
                ecn = Ecn::Ce;
            }
            if accepted && marked && saboteur.strikes(Sabotage::IgnoreMark) {
                return None;
            }
        } else if payload_len > 0 && accepted && marked && saboteur.strikes(Sabotage::NotifyOften) {
            self.qps[qp].point = NotificationPoint::default();
        }
        let arrival = Arrival {
            packet: repr,
            payload_len,
            ecn,
            accepted,
        };
        let now = Instant(self.now);
        let (host, to) = (self.qps[qp].host, self.qps[qp].peer);
        let peer = Some(Qpn::new(self.qps[to].qpn));
        let mut cnp = self.qps[qp]
            .point
            .on_packet(now, INTERVAL, &arrival, peer)?;
        if self.saboteur.strikes(Sabotage::WrongCnp) {
            cnp.bth.migrated = true;
        }
        let route = Route {
            from: host,
            to: self.qps[to].host,
            ipv6: self.plan.ipv6,
        };
        self.ip_id = self.ip_id.wrapping_add(1);
        frame::build(route, self.ip_id, &cnp, &[]).ok()
    }

    /// A packet reaches a queue pair. If it is a CNP, the judge of the rate learns of it. Gives
    /// whether it is to be ignored.
    pub fn note_cnp(&mut self, qp: usize, repr: &PacketRepr) -> bool {
        let state = self.qps[qp].conn.state();
        let heeds = matches!(state, State::Rtr | State::Rts | State::Sqd);
        if repr.bth.opcode != Opcode::Cnp || !heeds {
            return false;
        }
        let Some(rate) = &mut self.rates[qp] else {
            return false;
        };
        rate.on_notification(self.now);
        log!(self, "qp{qp} is notified");
        self.allow(200 * MS);
        self.saboteur.strikes(Sabotage::IgnoreCnp)
    }
}
