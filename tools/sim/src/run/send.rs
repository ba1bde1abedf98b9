// SPDX-License-Identifier: GPL-2.0

//! Transmission: makes frames of the packets that the protocol wants to send, and shows them to the
//! judge on the wire.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::qp::Qp;
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::judge::decode::Seen;
use crate::judge::rate::Rate;
use crate::judge::requester_wire::Limits;
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::fault::Fault;
use crate::network::frame::{self, Route};
use crate::profile::{Profile, US};
use crate::run::world::{Event, World};
use oxe_proto::transport::Origin;
use oxe_proto::wire::{Ext, FethRepr, Kind, NakCode, Opcode, PacketRepr, Psn, RnrTimer, Syndrome};

impl World {
    /// The packet could not be sent: takes it back.
    pub fn fail_transmit(&mut self, qp: usize, transmit: &Transmit) -> Result<(), Violation> {
        self.count(Observation::TakenBack);
        log!(self, "qp{qp} cannot send {transmit:?}");
        let q = &mut self.qps[qp];
        q.conn.undo(transmit, &mut q.send);
        self.note_taken_back(qp);
        let q = &mut self.qps[qp];
        if let Origin::Request { .. } = transmit.origin {
            let bth = transmit.header.bth;
            let packet = q.flow.packet(bth.psn.get());
            let len = transmit.header.ext.reth().map_or(0, |reth| reth.dma_len);
            let result = self.watches[qp].packet_taken_back(&q.flow, packet, bth.ack_req, len);
            result.map_err(|found| found.at(format_args!("qp{qp}")))?;
        }
        if self.rng.one_in(2) {
            self.poll_again(qp, transmit)?;
        }
        let at = self.now + self.rng.range(1, 20 * US);
        self.pump_by(qp, at);
        Ok(())
    }

    /// Polls until the packet that was taken back comes again, as it was, and takes it back once
    /// more. Packets of the QP's other half may come before it, which has its turn, and the request
    /// packet before it, to ask for an acknowledgement. These are sent.
    fn poll_again(&mut self, qp: usize, transmit: &Transmit) -> Result<(), Violation> {
        let is_request = |t: &Transmit| matches!(t.origin, Origin::Request { .. });
        let request = is_request(transmit);
        let mut same = *transmit;
        let (mut others, mut asked) = (0, false);
        loop {
            let q = &mut self.qps[qp];
            let again = q
                .conn
                .poll_transmit(self.now, transmit.segments, &mut q.send);
            if let Some(again) = &again {
                self.note_polled(qp, again)?;
            }
            let q = &mut self.qps[qp];
            let first = again.as_ref().map(|again| again.header.bth);
            let asks =
                first.is_some_and(|bth| bth.ack_req && bth.psn.next() == same.header.bth.psn);
            let before = |again: &&Transmit| is_request(again) != request || request && asks;
            if let Some(again) = again.as_ref().filter(before) {
                others += 1;
                asked |= is_request(again) == request;
                // The responses to all READs and atomics, but only one request, unless the rate
                // has the response wait while requests without payload go on.
                let limited = self.rates[qp].as_ref().is_some_and(Rate::is_limited);
                let most = if request || limited { 300 } else { 1 };
                ensure!(others <= most, "qp{qp}: {others} before {transmit:?}");
                self.transmit_some(qp, *again, false)?;
                continue;
            }
            // The requester may have failed, or wait for the acknowledgement that it asked for, or
            // as the packets of the other half have used up the rate.
            let rate = self.rates[qp].as_ref();
            let limited = others > 0 && rate.is_some_and(Rate::is_limited);
            let waits = (asked || limited) && again.is_none();
            if waits || q.conn.state() == State::Err && !request {
                return Ok(());
            }
            // What is left of the rate may be less than that.
            let fewer = |t: &&Transmit| {
                limited && t.segments < same.segments && t.header.bth.psn == same.header.bth.psn
            };
            if let Some(again) = again.as_ref().filter(fewer) {
                q.conn.undo(again, &mut q.send);
                self.note_taken_back(qp);
                return Ok(());
            }
            let acks = |t: &Transmit| t.header.bth.opcode == Opcode::RcAck;
            if self.qps[qp].is_loopback() && acks(transmit) && again.as_ref().is_some_and(acks) {
                // An ACK before a request is one of all messages.
                same.header.bth.psn = again.map_or(same.header.bth.psn, |t| t.header.bth.psn);
            }
            let q = &mut self.qps[qp];
            if let Some(bth) = first {
                // A later packet may ask for the ACK instead.
                same.header.bth.ack_req = bth.ack_req;
            }
            ensure!(
                again == Some(same),
                "qp{qp}: taken back {transmit:?}, then got {again:?}"
            );
            q.conn.undo(&same, &mut q.send);
            self.note_taken_back(qp);
            return Ok(());
        }
    }

    /// Makes frames of the protocol's packets, and hands them to the network.
    pub fn transmit(&mut self, qp: usize, transmit: Transmit) -> Result<(), Violation> {
        self.transmit_some(qp, transmit, true)
    }

    /// As `transmit`; with `may_fail` perhaps only of the first.
    fn transmit_some(
        &mut self,
        qp: usize,
        transmit: Transmit,
        may_fail: bool,
    ) -> Result<(), Violation> {
        let mut frames = Vec::new();
        let mut rest = Some(transmit);
        if transmit.origin == Origin::Response {
            frames.extend(self.acknowledge_unanswered(qp, &transmit)?);
        }
        while let Some(run) = rest {
            let later = may_fail && !frames.is_empty();
            if later && (self.rng.chance(self.plan.tx_fail) || self.is_payload_missing(qp, &run)) {
                self.fail_transmit(qp, &run)?;
                break;
            }
            let Some(mut frame) = self.frame_of(qp, run.first())? else {
                break;
            };
            self.mark(qp, &run, &mut frame);
            frames.push(frame);
            rest = run.rest(1);
            if is_sequence_nak(&run.header) && self.saboteur.strikes(Sabotage::RepeatNak) {
                frames.extend(self.frame_of(qp, run.first())?);
            }
        }
        let (from, peer) = (self.qps[qp].host, self.qps[qp].peer);
        let before = self.network.tally.harmed();
        self.send_frames(from, self.qps[peer].host, frames);
        let harmed = self.network.tally.harmed() - before;
        let kind = transmit.header.bth.opcode.kind();
        let requester = if kind.is_response() { peer } else { qp };
        self.watches[requester].packets_harmed(harmed);
        self.lend(qp, &transmit);
        Ok(())
    }

    /// Sabotage: an ACK of a request ahead of its own response, if no later request was accepted.
    fn acknowledge_unanswered(
        &mut self,
        qp: usize,
        transmit: &Transmit,
    ) -> Result<Option<Vec<u8>>, Violation> {
        let q = &self.qps[qp];
        let asker = &self.qps[q.peer];
        let newest = self.watches[q.peer].accepted.saturating_sub(1);
        let packet = asker.flow.packet(transmit.header.bth.psn.get());
        let Some(aeth) = transmit.header.ext.aeth() else {
            return Ok(None);
        };
        let about_newest = asker.flow.op_at(packet) == asker.flow.op_at(newest);
        if !about_newest || !self.saboteur.strikes(Sabotage::AckUnanswered) {
            return Ok(None);
        }
        let mut ack = *transmit;
        ack.header.bth.opcode = Opcode::RcAck;
        ack.header.bth.psn = Psn::new(asker.flow.psn(newest));
        ack.header.bth.pad = 0;
        ack.header.ext = Ext::Aeth(aeth);
        ack.payload = Payload::None;
        self.frame_of(qp, ack)
    }

    /// The frame of a packet; `None` if its payload cannot be read.
    fn frame_of(
        &mut self,
        qp: usize,
        mut transmit: Transmit,
    ) -> Result<Option<Vec<u8>>, Violation> {
        let Some(at) = self.locate(qp, &transmit)? else {
            return Ok(None);
        };
        tamper(&mut self.saboteur, &mut transmit);
        self.tamper_with_gap(qp, &mut transmit);
        let q = &self.qps[qp];
        let (from, peer) = (q.host, q.peer);
        let route = Route {
            from,
            to: self.qps[peer].host,
            ipv6: self.plan.ipv6,
        };
        self.ip_id = self.ip_id.wrapping_add(1);
        let len = transmit.payload.len() as usize;
        let payload = self.hosts[from].memory.read(at, len);
        let mut frame = frame::build(route, self.ip_id, &transmit.header, payload)?;
        let lie = lie(q, &transmit);
        let lie = lie.map(|header| frame::build(route, self.ip_id, &header, payload));
        self.watch_transmit(qp, &frame)?;
        if let Some(lie) = lie {
            frame = lie?;
        }
        Ok(Some(frame))
    }

    /// The payload's place in the memory of the QP's host. `None` when it cannot be read: the
    /// protocol learns of it.
    fn locate(&mut self, qp: usize, transmit: &Transmit) -> Result<Option<usize>, Violation> {
        let q = &mut self.qps[qp];
        let regions = &self.hosts[q.host].regions;
        let empty = transmit.payload.is_empty() && transmit.payload != Payload::None;
        ensure!(!empty, "qp{qp}: empty payload in {transmit:?}");
        let (at, readable) = match transmit.payload {
            Payload::None => (0, true),
            Payload::Request { n, offset, len } => {
                let live = q.send.get(n).is_some();
                ensure!(live, "qp{qp}: payload of request {n}, which is done");
                let slot = &q.send.slots[n as usize];
                let inside = u64::from(offset) + u64::from(len) <= slot.len.into();
                ensure!(inside, "qp{qp}: {transmit:?} of {} bytes", slot.len);
                (slot.local + offset as usize, !slot.unusable)
            }
            Payload::Read { rkey, .. } => {
                let gone = regions.is_gone(rkey);
                let mut unreadable = regions.0.iter().filter(|r| r.unreadable);
                let unreadable = unreadable.any(|r| r.rkey == rkey);
                match gone {
                    true => (0, false),
                    false => (q.keys.read(&transmit.payload, regions)?, !unreadable),
                }
            }
        };
        if readable {
            return Ok(Some(at));
        }
        let answer = transmit.origin == Origin::Response;
        let due = !answer || self.is_owed(qp, transmit);
        let ignore = due && self.saboteur.strikes(Sabotage::IgnoreLocalError);
        let q = &mut self.qps[qp];
        if !ignore {
            q.conn.local_error(transmit, Status::LocProt, &mut q.send);
            if !answer {
                let packet = q.flow.packet(transmit.header.bth.psn.get());
                self.watches[qp].packet_given_back(packet);
            }
        }
        // Unless the response is a repetition, the peer is owed a NAK (IBTA 9.9.3).
        let refused = q.conn.state() == State::Err || self.plan.profile == Profile::Hostile;
        ensure!(
            "IBTA 9.9.3",
            refused || !answer || !due,
            "qp{qp}: goes on where an answer cannot be sent, {transmit:?}"
        );
        Ok(None)
    }

    /// Whether the packet belongs to a response, and was not sent before.
    fn is_owed(&self, qp: usize, transmit: &Transmit) -> bool {
        let asker = &self.qps[self.qps[qp].peer];
        let packet = asker.flow.packet(transmit.header.bth.psn.get());
        self.watches[self.qps[qp].peer].answers.owes(packet)
    }

    /// Shows a frame that a QP sends to the judges.
    fn watch_transmit(&mut self, qp: usize, frame: &[u8]) -> Result<(), Violation> {
        if self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        let seen = frame::roce(frame).and_then(Seen::decode);
        let seen = seen.ok_or_else(|| format!("qp{qp}: sends no RC packet"))?;
        let q = &self.qps[qp];
        let peer = q.peer;
        let index = q.flow.op_at(q.flow.packet(seen.psn));
        let index = index.filter(|_| !seen.is_response());
        log!(self, "qp{qp} -> {seen:x?}");
        self.view().check_silence(qp, &seen)?;
        self.judge_order(qp, &seen)?;
        self.view().check_sent(qp, &seen)?;
        if seen.is_rnr_nak() {
            self.count(Observation::RnrNak);
        }
        let foreign = self.qps[qp].conn.is_foreign();
        if let Some(index) = index {
            self.view().check_begin(qp, index)?;
        }
        let result = if seen.is_response() {
            let p = &mut self.qps[peer];
            self.watches[peer].response_sent(self.now, &p.flow, foreign, &seen)
        } else {
            let q = &mut self.qps[qp];
            if let (Some(index), false) = (index, foreign) {
                self.watches[qp].read_sent(&mut q.flow, index, &seen)?;
            }
            self.watches[qp].request_sent(self.now, &q.flow, Limits::of(q), &seen)
        };
        result.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    /// Hands frames to the network. They arrive as one super-packet if none of them is impaired.
    pub fn send_frames(&mut self, from: usize, to: usize, frames: Vec<Vec<u8>>) {
        let before = self.network.tally.harmed();
        let mut arrivals = Vec::new();
        for frame in frames {
            self.count(Observation::Sent);
            arrivals.extend(self.network.carry(self.now, from, to, frame));
        }
        let last = arrivals.iter().map(|(time, _)| *time).max();
        if let (Some(last), true) = (last, self.network.tally.harmed() == before) {
            let frames = arrivals.into_iter().map(|(_, frame)| frame).collect();
            self.at(last, Event::Arrive { host: to, frames });
            return;
        }
        for (time, frame) in arrivals {
            let frames = vec![frame];
            self.at(time, Event::Arrive { host: to, frames });
        }
    }
}

/// Other headers for the first packet of a WRITE with a forged length.
fn lie(q: &Qp, transmit: &Transmit) -> Option<PacketRepr> {
    let Origin::Request { n } = transmit.origin else {
        return None;
    };
    let op = q.flow.ops.get(n as usize)?;
    if op.fault != Some(Fault::Lie) {
        return None;
    }
    let mut header = transmit.header;
    if let Ext::Reth(reth) | Ext::RethImm(reth, _) = &mut header.ext {
        // Within the inbox, so that only the length is wrong.
        let end = op.inbox? + op.len as usize;
        let room = end < q.flow.inbox_len();
        reth.dma_len = if room { op.len + 1 } else { op.len - 1 };
    }
    Some(header)
}

/// Whether the packet is a NAK for a PSN sequence error.
pub fn is_sequence_nak(header: &PacketRepr) -> bool {
    let code = NakCode::PsnSequence;
    let aeth = header.ext.aeth();
    aeth.is_some_and(|aeth| aeth.syndrome == Syndrome::Nak { code })
}

/// Sabotage of packets to be sent.
fn tamper(saboteur: &mut Saboteur, transmit: &mut Transmit) {
    let bth = &mut transmit.header.bth;
    if bth.ack_req && saboteur.strikes(Sabotage::DropAckReq) {
        bth.ack_req = false;
    }
    let empty = bth.opcode == Opcode::RcReadResponseOnly && transmit.payload.is_empty();
    if empty && saboteur.strikes(Sabotage::AckPlacement) {
        bth.opcode = Opcode::RcAck;
    }
    if bth.opcode.kind() == Kind::Ack && saboteur.strikes(Sabotage::AckTooMuch) {
        bth.psn = bth.psn.next();
    }
    if let Ext::Aeth(aeth) | Ext::AtomicAck(aeth, _) = &mut transmit.header.ext {
        let code = match aeth.syndrome {
            Syndrome::RnrNak { timer } => timer.get(),
            _ => 1,
        };
        if code != 1 && saboteur.strikes(Sabotage::ShortRnrTimer) {
            aeth.syndrome = Syndrome::RnrNak {
                timer: RnrTimer::new(1),
            };
        }
        if aeth.msn > 0 && saboteur.strikes(Sabotage::LowMsn) {
            aeth.msn -= 1;
        }
    }
    if let Ext::Flush(feth, _) = &mut transmit.header.ext {
        let level = u8::from(!feth.is_whole_region());
        if let Some(other) = FethRepr::new(1, level) {
            if saboteur.strikes(Sabotage::WrongFlush) {
                *feth = other;
            }
        }
    }
    if bth.opcode.kind() == Kind::ReadRequest {
        if let Ext::Reth(reth) = &mut transmit.header.ext {
            if saboteur.strikes(Sabotage::WrongRange) {
                reth.dma_len ^= 1;
            }
        }
    }
}
