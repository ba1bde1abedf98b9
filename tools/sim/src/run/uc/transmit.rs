// SPDX-License-Identifier: GPL-2.0

//! The send half of a UC QP: makes frames of the packets that the protocol wants to send, and shows
//! each to the judge.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::host::uc::Uncopied;
use crate::judge::decode::Seen;
use crate::judge::stats::uc::Observation;
use crate::log::log;
use crate::model::uc::Fault;
use crate::network::frame::{self, Route};
use crate::profile::US;
use crate::run::world::{Event, UcEvent, World};
use oxe_proto::transport::Origin;
use oxe_proto::wire::{AethRepr, BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn, Syndrome};

/// Most packets that a device sends at a time.
const BUDGET: u64 = 64;

impl World {
    /// The device sends the QP's pending packets, reports its completions and events.
    pub fn pump_uc(&mut self, end: usize) -> Result<(), Violation> {
        let mut budget = self.rng.range(1, BUDGET);
        self.uc_run_timer(end)?;
        loop {
            if budget == 0 {
                let at = self.now + self.rng.range(1, 2 * US);
                self.uc_pump_by(end, at);
                break;
            }
            budget -= 1;
            let most = self.rng.range(1, self.plan.segments + 1) as u16;
            self.uc_begin_in_sqd(end);
            let Some(transmit) = self.uc_poll(end, most)? else {
                if self.run_uc_local(end)? {
                    continue;
                }
                break;
            };
            ensure!(transmit.segments <= most, "uc{end}: {transmit:?} at once");
            if !self.uc_transmit(end, transmit)? {
                let at = self.now + self.rng.range(1, 20 * US);
                self.uc_pump_by(end, at);
                break;
            }
        }
        if let Some(due) = self.uc.ends[end].qp.poll_timeout() {
            self.uc_pump_by(end, due.0.max(self.now));
        }
        let waits = !self.uc.ends[end].uncopied.is_empty();
        if waits && self.rng.chance(self.uc.habits.late_release) {
            let pause = self.rng.below(30 * US);
            self.allow(pause);
            let event = UcEvent::Copy;
            self.after(pause, Event::Uc { end, event });
            let e = &self.uc.ends[end];
            let done = e.flow.completed < e.flow.current;
            if done && self.saboteur.strikes(Sabotage::UcEarlyRelease) {
                self.uc.ends[end].qp.release();
            }
            return self.uc_report(end);
        }
        self.copy_uc(end)
    }

    /// The timer of the QP goes off, perhaps too early, or late: the protocol uncorks by itself.
    fn uc_run_timer(&mut self, end: usize) -> Result<(), Violation> {
        if self.rng.one_in(2) {
            return Ok(());
        }
        let now = Instant(self.now);
        let e = &mut self.uc.ends[end];
        e.qp.handle_timeout(now, &e.send);
        let next = e.qp.poll_timeout();
        let past = next.is_some_and(|at| at <= now);
        ensure!(!past, "uc{end}: the timer goes off again at {next:?}");
        Ok(())
    }

    fn uc_poll(&mut self, end: usize, most: u16) -> Result<Option<Transmit>, Violation> {
        let now = Instant(self.now);
        let e = &mut self.uc.ends[end];
        let may = e.qp.may_transmit(&e.send);
        let transmit = e.qp.poll_transmit(now, most, &mut e.send);
        ensure!(may || transmit.is_none(), "uc{end}: sends what it may not");
        if let Some(transmit) = &transmit {
            let _ = e.qp.followers(transmit, &e.send);
        }
        Ok(transmit)
    }

    /// The device copies the payloads of all packets, and hands the packets to the network.
    pub fn copy_uc(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        let uncopied = std::mem::take(&mut e.uncopied);
        e.flow.copy();
        let (from, peer) = (e.host, e.peer);
        let to = self.uc.ends[peer].host;
        for Uncopied { m, frames } in uncopied {
            self.uc_view().check_payload(end, m)?;
            self.send_frames(from, to, frames);
        }
        self.uc.ends[end].qp.release();
        self.uc_report(end)?;
        let e = &self.uc.ends[end];
        if e.qp.poll_local(&e.send).is_some() {
            self.uc_pump_by(end, self.now);
        }
        Ok(())
    }

    /// Makes frames of the protocol's packets. Gives whether the device can send more.
    fn uc_transmit(&mut self, end: usize, transmit: Transmit) -> Result<bool, Violation> {
        let habits = self.uc.habits;
        let e = &self.uc.ends[end];
        let m = match transmit.origin {
            Origin::Request { n } => e.flow.base + n as usize,
            other => return Err(format!("uc{end}: packets of {other:?}").into()),
        };
        ensure!(
            m == e.flow.current,
            "uc{end}: sends message {m}, not {}",
            e.flow.current
        );
        let mut frames = Vec::new();
        let (mut rest, mut more) = (Some(transmit), true);
        while let Some(part) = rest {
            if self.rng.chance(habits.no_route) {
                self.uc_lose(end, m, &part)?;
                break;
            }
            if self.rng.chance(habits.tx_fail) || self.uc_is_payload_missing(end, &part) {
                self.uc_undo(end, &part)?;
                more = false;
                break;
            }
            if self.uc_is_unreadable(end, m, &part.first()) {
                log!(self, "uc{end} cannot read the payload of {part:?}");
                let e = &mut self.uc.ends[end];
                e.qp.local_error(&part, Status::LocProt, &mut e.send);
                e.flow.messages[m].failed = true;
                break;
            }
            frames.extend(self.uc_frames_of(end, m, part.first())?);
            rest = part.rest(1);
        }
        if !frames.is_empty() {
            self.uc.ends[end].uncopied.push(Uncopied { m, frames });
        }
        Ok(more)
    }

    /// There is no route to the peer: the message ends here, and counts as sent.
    fn uc_lose(&mut self, end: usize, m: usize, part: &Transmit) -> Result<(), Violation> {
        log!(self, "uc{end} has no route for {part:?}");
        self.uc_count(Observation::Unrouted);
        self.uc_view().check_begins(end, m)?;
        let e = &mut self.uc.ends[end];
        let _ = e.qp.lose(part, &e.send);
        e.flow.lose(m);
        Ok(())
    }

    /// The packets could not be sent: takes them back. They come again as they were.
    fn uc_undo(&mut self, end: usize, part: &Transmit) -> Result<(), Violation> {
        log!(self, "uc{end} cannot send {part:?}");
        self.uc_count(Observation::TakenBack);
        if self.saboteur.strikes(Sabotage::UcForgetUndo) {
            return Ok(());
        }
        let e = &mut self.uc.ends[end];
        e.qp.undo(part, &mut e.send);
        let again = self.uc_poll(end, part.segments)?;
        ensure!(
            again == Some(*part),
            "uc{end}: taken back {part:?}, then got {again:?}"
        );
        let e = &mut self.uc.ends[end];
        e.qp.undo(part, &mut e.send);
        Ok(())
    }

    /// Whether the payload of packets cannot be read now.
    fn uc_is_payload_missing(&mut self, end: usize, part: &Transmit) -> bool {
        let pages = &mut self.uc.ends[end].sent_pages;
        let missing = pages.is_payload_missing(self.now, &part.payload);
        if missing {
            self.uc_count(Observation::PayloadMissing);
        }
        missing
    }

    /// Whether the payload of a packet lies in memory that cannot be read.
    fn uc_is_unreadable(&mut self, end: usize, m: usize, packet: &Transmit) -> bool {
        let message = &self.uc.ends[end].flow.messages[m];
        let Payload::Request { offset, len, .. } = packet.payload else {
            return false;
        };
        let bad = match message.fault {
            Some(Fault::Unreadable(from)) => (offset + len) as usize > from,
            _ => false,
        };
        bad && !self.saboteur.strikes(Sabotage::UcIgnoreUnreadable)
    }

    /// The frame of a packet; sabotage may add another.
    fn uc_frames_of(
        &mut self,
        end: usize,
        m: usize,
        mut packet: Transmit,
    ) -> Result<Vec<Vec<u8>>, Violation> {
        let e = &self.uc.ends[end];
        let (from, to) = (e.host, self.uc.ends[e.peer].host);
        let message = &e.flow.messages[m];
        let range = match packet.payload {
            Payload::None => 0..0,
            Payload::Request { offset, len, .. } => {
                let (from, end) = (offset as usize, (offset + len) as usize);
                from..end
            }
            Payload::Read { .. } => return Err(format!("uc{end}: the payload of a READ").into()),
        };
        let inside = range.end <= message.data.len();
        ensure!(
            inside,
            "uc{end}: {packet:?} of {} bytes",
            message.data.len()
        );
        if let Some(Fault::Unreadable(from)) = message.fault {
            ensure!(range.end <= from, "uc{end}: {packet:?} cannot be read");
        }
        let payload = self.hosts[from]
            .memory
            .read(message.at + range.start, range.len());
        tamper(&mut self.saboteur, &mut packet.header);
        let route = Route {
            from,
            to,
            ipv6: self.plan.ipv6,
        };
        self.ip_id = self.ip_id.wrapping_add(1);
        let mut frame = frame::build(route, self.ip_id, &packet.header, payload)?;
        let k = message.sent;
        self.uc_packet_sent(end, m, &frame)?;
        if self.uc.ends[end].flow.messages[m].flaw.is_some() {
            frame = self.uc_flawed(end, (m, k), &packet.header, route)?;
        }
        let mut frames = vec![frame.clone()];
        if self.saboteur.strikes(Sabotage::UcRepeatPacket) {
            self.uc_packet_sent(end, m, &frame)?;
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Another frame for packet `k`, as a peer may send it.
    fn uc_flawed(
        &self,
        end: usize,
        (m, k): (usize, u32),
        header: &PacketRepr,
        route: Route,
    ) -> Result<Vec<u8>, Violation> {
        let e = &self.uc.ends[end];
        let message = &e.flow.messages[m];
        let payload = message.payload(k, e.pmtu);
        let mut header = *header;
        header.bth.pad = payload.len().wrapping_neg() as u8 & 3;
        if let Ext::Reth(reth) | Ext::RethImm(reth, _) = &mut header.ext {
            reth.dma_len = message.reth_len();
        }
        Ok(frame::build(route, self.ip_id, &header, &payload)?)
    }

    /// The judge sees a packet of message `m` that is sent.
    fn uc_packet_sent(&mut self, end: usize, m: usize, frame: &[u8]) -> Result<(), Violation> {
        let seen = frame::roce(frame).and_then(Seen::decode_uc);
        let seen = seen.ok_or_else(|| format!("uc{end}: sends what is no UC request"))?;
        log!(self, "uc{end} -> {m} {seen:x?}");
        self.uc_view().check_packet(end, m, &seen)?;
        self.uc.ends[end].flow.packet_sent(m);
        Ok(())
    }

    /// Sabotage: a responder acknowledges a message.
    pub fn uc_acknowledge(&mut self, end: usize) -> Result<(), Violation> {
        if !self.saboteur.strikes(Sabotage::UcAcknowledge) {
            return Ok(());
        }
        let e = &self.uc.ends[end];
        let peer = &self.uc.ends[e.peer];
        let (pkey, dest) = (PKey::new(e.pkey), Qpn::new(peer.qpn));
        let psn = Psn::new(peer.flow.psn.wrapping_sub(1));
        let ack = PacketRepr {
            bth: BthRepr::new(Opcode::RcAck, pkey, dest, psn),
            ext: Ext::Aeth(AethRepr {
                syndrome: Syndrome::Ack { credit: 0x1f },
                msn: 0,
            }),
        };
        let route = Route {
            from: e.host,
            to: peer.host,
            ipv6: self.plan.ipv6,
        };
        let frame = frame::build(route, self.ip_id, &ack, &[])?;
        self.uc_packet_sent(end, self.uc.ends[end].flow.current, &frame)
    }

    /// Sabotage: a message begins in SQD.
    fn uc_begin_in_sqd(&mut self, end: usize) {
        let e = &mut self.uc.ends[end];
        let next = e.flow.messages.get(e.flow.current);
        let fresh = next.is_some_and(|next| next.sent == 0 && !next.is_local());
        let fine = next.is_some_and(|next| next.fault.is_none());
        let occasion = e.qp.state() == State::Sqd && fresh && fine;
        if occasion && self.saboteur.strikes(Sabotage::UcBeginInSqd) {
            let _ = e.qp.modify(&Modify::to_state(State::Rts));
        }
    }
}

/// Sabotage of packets to be sent.
fn tamper(saboteur: &mut Saboteur, header: &mut PacketRepr) {
    let info = header.bth.opcode.info();
    if saboteur.strikes(Sabotage::UcAskAck) {
        header.bth.ack_req = true;
    }
    if !info.position.is_end() && saboteur.strikes(Sabotage::UcEarlySolicited) {
        header.bth.solicited = true;
    }
    if saboteur.strikes(Sabotage::UcSkipPsn) {
        header.bth.psn = header.bth.psn.next();
    }
    if let Ext::Reth(reth) | Ext::RethImm(reth, _) = &mut header.ext {
        if saboteur.strikes(Sabotage::UcWrongLength) {
            reth.dma_len ^= 1;
        }
    }
}
