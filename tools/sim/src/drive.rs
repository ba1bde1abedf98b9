// SPDX-License-Identifier: GPL-2.0

//! Drives the QPs: what a device does with packets, timers and what the protocol wants to send.

use crate::api::*;
use crate::decode::Seen;
use crate::device::{Hand, Notes};
use crate::frame::{self, Route};
use crate::profile::{Profile, MS, US};
use crate::sabotage::Sabotage;
use crate::watch::ensure;
use crate::world::{tell, Event, Pause, World};

/// Most packets that a device sends at a time.
const BUDGET: u32 = 64;

impl World {
    /// Lets an event happen.
    pub fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive { host, frame } => self.arrive(host, frame),
            Event::Timer { qp } => self.timer(qp),
            Event::Pump { qp } => {
                self.qps[qp].pump_at = None;
                self.pump(qp)
            }
            Event::Tick { qp } => self.tick(qp),
            Event::Receives { qp, count } => self.post_receives(qp, count),
            Event::Connect { qp } => self.connect(qp),
            Event::Kill { qp } => self.kill(qp),
            Event::Resume { qp } => self.resume(qp),
            Event::Rebirth { qp } => self.rebirth(qp),
            Event::Datagram { host } => self.send_datagram(host),
            Event::Attack => self.attack(),
        }
    }

    /// The device is to look after the QP, now or soon.
    fn wake(&mut self, qp: usize) -> Result<(), String> {
        if self.plan.lazy == 0 || self.rng.one_in(3) {
            return self.pump(qp);
        }
        let at = self.now + self.rng.below(self.plan.lazy);
        self.pump_by(qp, at);
        Ok(())
    }

    /// The device is to look after the QP at a moment, if not before.
    fn pump_by(&mut self, qp: usize, at: u64) {
        if self.qps[qp].pump_at.is_none_or(|old| old > at) {
            self.qps[qp].pump_at = Some(at);
            self.at(at, Event::Pump { qp });
        }
    }

    /// The timer of the QP goes off.
    fn timer(&mut self, qp: usize) -> Result<(), String> {
        self.qps[qp].timer_at = None;
        if self.saboteur.strikes(Sabotage::DeafTimer) {
            return Ok(());
        }
        self.run_timer(qp);
        self.pump(qp)
    }

    fn run_timer(&mut self, qp: usize) {
        let now = Instant(self.now);
        let q = &mut self.qps[qp];
        let due = q.conn.poll_timeout().is_some_and(|at| at <= now);
        if due {
            q.watch.timed_out();
        }
        self.stats.timeouts += u64::from(due);
        tell!(self, "qp{qp} timer, due {due}");
        let q = &mut self.qps[qp];
        q.conn.handle_timeout(now, &mut q.send);
    }

    /// Sends what the QP has to send, reports what is complete, arms the timer.
    pub fn pump(&mut self, qp: usize) -> Result<(), String> {
        if self.rng.one_in(50) {
            self.run_timer(qp); // too early: must do nothing
        }
        let mut budget = if self.rng.one_in(8) {
            self.rng.range(1, 5) as u32
        } else {
            BUDGET
        };
        loop {
            if budget == 0 {
                let at = self.now + self.rng.range(1, 2 * US);
                self.pump_by(qp, at);
                break;
            }
            budget -= 1;
            let q = &mut self.qps[qp];
            let Some(transmit) = q.conn.poll_transmit(Instant(self.now), &mut q.send) else {
                self.check_asked(qp)?;
                break;
            };
            if self.rng.chance(self.plan.tx_fail) {
                self.fail_transmit(qp, &transmit)?;
                break;
            }
            self.transmit(qp, transmit)?;
        }
        self.take_completions(qp)?;
        self.take_events(qp)?;
        self.arm(qp);
        Ok(())
    }

    fn check_asked(&self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        if q.conn.state() != State::Rts || self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        q.watch
            .check_asked()
            .map_err(|text| format!("qp{qp}: {text}"))
    }

    /// The packet could not be sent: takes it back.
    fn fail_transmit(&mut self, qp: usize, transmit: &Transmit) -> Result<(), String> {
        self.stats.undone += 1;
        tell!(self, "qp{qp} cannot send {transmit:?}");
        let now = Instant(self.now);
        let q = &mut self.qps[qp];
        q.conn.undo(transmit, &mut q.send);
        if self.rng.one_in(2) {
            let q = &mut self.qps[qp];
            let again = q.conn.poll_transmit(now, &mut q.send);
            let mut same = *transmit;
            if let Some(again) = &again {
                // May be asked for later instead.
                same.header.bth.ack_req = again.header.bth.ack_req;
            }
            ensure!(
                again == Some(same),
                "qp{qp}: taken back {transmit:?}, then got {again:?}"
            );
            q.conn.undo(&same, &mut q.send);
        }
        let at = self.now + self.rng.range(1, 20 * US);
        self.pump_by(qp, at);
        Ok(())
    }

    /// Makes a frame and hands it to the network.
    fn transmit(&mut self, qp: usize, mut transmit: Transmit) -> Result<(), String> {
        let q = &mut self.qps[qp];
        let host = &self.hosts[q.host];
        let payload = match transmit.payload {
            Payload::None => &[][..],
            Payload::Request { n, offset, len } => {
                ensure!(
                    q.send.get(n).is_some(),
                    "qp{qp}: payload of request {n}, which is done"
                );
                let slot = &q.send.slots[n as usize];
                let end = u64::from(offset) + u64::from(len);
                ensure!(
                    end <= slot.len.into(),
                    "qp{qp}: {transmit:?} of {} bytes",
                    slot.len
                );
                if slot.unusable {
                    q.conn.local_error(&transmit, Status::LocProt, &mut q.send);
                    q.watch.packet_given_back();
                    return Ok(());
                }
                host.memory.read(slot.local + offset as usize, len as usize)
            }
            Payload::Read { len, rkey, .. } => {
                let at = q.keys.read(&transmit.payload, &host.regions)?;
                if host
                    .regions
                    .0
                    .iter()
                    .any(|r| r.rkey == rkey && r.unreadable)
                {
                    q.conn.local_error(&transmit, Status::LocProt, &mut q.send);
                    return Ok(());
                }
                host.memory.read(at, len as usize)
            }
        };
        ensure!(
            !transmit.payload.is_empty() || transmit.payload == Payload::None,
            "qp{qp}: empty payload in {transmit:?}"
        );
        tamper(&mut self.saboteur, &mut transmit);
        let (from, peer) = (q.host, q.peer);
        let to = self.qps[peer].host;
        let route = Route {
            from,
            to,
            ipv6: self.plan.ipv6,
        };
        self.ip_id = self.ip_id.wrapping_add(1);
        let frame = frame::build(route, self.ip_id, &transmit.header, payload)?;
        self.watch_transmit(qp, &frame)?;
        let before = self.network.tally.harmed();
        self.send_frame(from, to, frame);
        let harmed = self.network.tally.harmed() - before;
        let kind = transmit.header.bth.opcode.kind();
        let requester = if kind.is_response() { peer } else { qp };
        self.qps[requester].watch.packets_harmed(harmed);
        Ok(())
    }

    /// Shows a frame that a QP sends to the oracle on the wire.
    fn watch_transmit(&mut self, qp: usize, frame: &[u8]) -> Result<(), String> {
        if self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        let seen = frame::roce(frame).and_then(Seen::decode);
        let seen = seen.ok_or_else(|| format!("qp{qp}: sends no RC packet"))?;
        let peer = self.qps[qp].peer;
        let dest = self.qps[peer].qpn;
        tell!(self, "qp{qp} -> {seen:x?}");
        self.check_silence(qp, &seen)?;
        let result = if seen.is_response() {
            let p = &mut self.qps[peer];
            p.watch.response_sent(&p.flow, &seen)
        } else {
            let q = &mut self.qps[qp];
            q.watch
                .request_sent(self.now, &q.flow, q.setup.limits(), &seen)
        };
        let q = &self.qps[qp];
        ensure!(seen.dest_qp == dest, "qp{qp}: sends to {:#x}", seen.dest_qp);
        ensure!(seen.pkey == q.setup.pkey, "qp{qp}: P_Key {:#x}", seen.pkey);
        ensure!(
            seen.payload.len() <= q.setup.pmtu as usize,
            "qp{qp}: longer than the path MTU"
        );
        ensure!(
            seen.pad == seen.payload.len().wrapping_neg() as u8 & 3,
            "qp{qp}: pad {}",
            seen.pad
        );
        if let (false, Pause::Draining(begun) | Pause::Drained(begun)) =
            (seen.is_response(), q.pause)
        {
            let index = q.flow.op_at(q.flow.packet(seen.psn));
            ensure!(
                index.is_some_and(|i| i < begun),
                "qp{qp}: request {index:?} begins in SQD"
            );
        }
        result.map_err(|text| format!("qp{qp}: {text}"))
    }

    /// A QP in error sends the last answers and a NAK, if it was its peer who was wrong, and nothing
    /// otherwise.
    fn check_silence(&self, qp: usize, seen: &Seen) -> Result<(), String> {
        let q = &self.qps[qp];
        let dead = q.conn.state() == State::Err;
        let own = q.fate.first_error.is_some_and(|s| s != Status::WrFlush);
        let mute = dead && (q.fate.killed || own || !seen.is_response());
        ensure!(!mute, "qp{qp}: in error, and sends {seen:x?}");
        Ok(())
    }

    /// Hands a frame to the network.
    pub fn send_frame(&mut self, from: usize, to: usize, frame: Vec<u8>) {
        self.stats.packets += 1;
        for (time, frame) in self.network.carry(self.now, from, to, frame) {
            self.at(time, Event::Arrive { host: to, frame });
        }
    }

    /// A frame reaches a host.
    fn arrive(&mut self, host: usize, frame: Vec<u8>) -> Result<(), String> {
        let read = match frame::read(&frame) {
            Err(frame::Drop::BadIcrc) if self.saboteur.strikes(Sabotage::IgnoreIcrc) => {
                frame::read_unchecked(&frame)
            }
            other => other,
        };
        let (parsed, payload) = match read {
            Ok(good) => good,
            Err(why) => {
                tell!(self, "host{host} drops {why:?}");
                self.stats.dropped += 1;
                return Ok(());
            }
        };
        let dest = parsed.repr.bth.dest_qp.get();
        if let Some(qp) = self
            .qps
            .iter()
            .position(|q| q.host == host && q.qpn == dest)
        {
            let seen = frame::roce(&frame).and_then(Seen::decode);
            return self.deliver(qp, &parsed.repr, payload, seen);
        }
        self.deliver_datagram(host, &parsed.repr, payload)
    }

    /// A packet reaches a QP.
    fn deliver(
        &mut self,
        qp: usize,
        repr: &oxe_proto::wire::PacketRepr,
        payload: &[u8],
        seen: Option<Seen>,
    ) -> Result<(), String> {
        let mut notes = Notes::default();
        let q = &mut self.qps[qp];
        let host = &mut self.hosts[q.host];
        if let Some(seen) = seen.as_ref().filter(|s| s.is_response()) {
            q.watch.response_delivered(&q.flow, seen);
        }
        let mut hand = Hand {
            send: &mut q.send,
            recv: &mut q.recv,
            keys: &mut q.keys,
            memory: &mut host.memory,
            regions: &mut host.regions,
            payload,
            notes: &mut notes,
            saboteur: &mut self.saboteur,
        };
        let len = payload.len() as u32;
        let verdict = q
            .conn
            .handle_packet(Instant(self.now), repr, len, &mut hand);
        let request = repr.bth.opcode.kind().is_request() && verdict == Verdict::Accepted;
        if request && hand.saboteur.strikes(Sabotage::RepeatRequest) {
            let mut again = *repr;
            again.bth.psn = again.bth.psn.next();
            let _ = q
                .conn
                .handle_packet(Instant(self.now), &again, len, &mut hand);
        }
        tell!(self, "qp{qp} <- {:?}+{len} {verdict:?}", repr.bth);
        if let Some(text) = notes.violation {
            return Err(format!("qp{qp}: {text}, packet {repr:x?}"));
        }
        self.judge_verdict(qp, verdict, notes.empty)?;
        if let Some(seen) = seen.as_ref().filter(|s| s.is_response()) {
            self.note_answer(qp, seen, verdict)?;
        }
        if let Some(seen) = seen.filter(|s| !s.is_response()) {
            let alive = self.qps[qp].conn.state() != State::Err;
            if verdict == Verdict::Accepted && !notes.empty && alive {
                let peer = self.qps[qp].peer;
                let p = &mut self.qps[peer];
                p.watch.request_executed(&p.flow, seen.psn);
            }
        }
        for (slot, completion) in notes.received {
            self.judge_receive(qp, slot, completion)?;
        }
        self.wake(qp)
    }

    /// A response was heeded, or not: tells the oracle on the wire.
    fn note_answer(&mut self, qp: usize, seen: &Seen, verdict: Verdict) -> Result<(), String> {
        let q = &mut self.qps[qp];
        let alive = matches!(q.conn.state(), State::Rts | State::Sqd);
        if !alive || self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        let result = match verdict {
            Verdict::Accepted => q
                .watch
                .answer_heeded(self.now, &q.flow, q.setup.limits(), seen),
            Verdict::Dropped(Cause::Gap) => {
                q.watch.gap_noticed();
                Ok(())
            }
            Verdict::Dropped(_) => Ok(()),
        };
        result.map_err(|text| format!("qp{qp}: {text}"))
    }

    /// Takes the send completions.
    fn take_completions(&mut self, qp: usize) -> Result<(), String> {
        loop {
            let q = &mut self.qps[qp];
            let Some(mut completion) = q.conn.poll_send_completion(&mut q.send) else {
                return Ok(());
            };
            q.send.retired += 1;
            if self.saboteur.strikes(Sabotage::LoseCompletion) {
                continue;
            }
            if completion.status == Status::Success && self.saboteur.strikes(Sabotage::WrongStatus)
            {
                completion.status = Status::WrFlush;
            }
            if self.saboteur.strikes(Sabotage::WrongSignal) {
                completion.signaled = !completion.signaled;
            }
            self.judge_completion(qp, completion)?;
            if self.saboteur.strikes(Sabotage::RepeatCompletion) {
                self.judge_completion(qp, completion)?;
            }
        }
    }

    /// Takes the events.
    fn take_events(&mut self, qp: usize) -> Result<(), String> {
        let events = self.qps[qp].conn.take_events();
        if events.is_empty() {
            return Ok(());
        }
        tell!(self, "qp{qp} events {events:?}");
        self.judge_events(qp, events)?;
        if events.contains(Events::SQ_DRAINED) {
            self.drained(qp);
        }
        if events.contains(Events::ENTERED_ERROR) {
            self.entered_error(qp)?;
        }
        Ok(())
    }

    /// The send queue is drained: the program resumes it some time.
    fn drained(&mut self, qp: usize) {
        self.stats.drained += 1;
        if let Pause::Draining(begun) = self.qps[qp].pause {
            self.qps[qp].pause = Pause::Drained(begun);
            let pause = self.rng.below(MS);
            self.allow_for(qp, pause);
            self.after(pause, Event::Resume { qp });
        }
    }

    /// Arms the timer for when the connection wants it, or a little later.
    fn arm(&mut self, qp: usize) {
        let wanted = self.qps[qp].conn.poll_timeout().map(|at| at.0);
        let Some(wanted) = wanted else {
            self.qps[qp].timer_at = None;
            return;
        };
        if self.qps[qp]
            .timer_at
            .is_some_and(|at| at >= wanted && at <= wanted + self.plan.timer_slack)
        {
            return;
        }
        let slack = if self.plan.timer_slack == 0 {
            0
        } else {
            self.rng.below(self.plan.timer_slack)
        };
        let at = (wanted + slack).max(self.now);
        self.qps[qp].timer_at = Some(at);
        self.at(at, Event::Timer { qp });
    }
}

/// Sabotage of what goes out.
fn tamper(saboteur: &mut crate::sabotage::Saboteur, transmit: &mut Transmit) {
    use oxe_proto::wire::{Ext, Kind};
    let bth = &mut transmit.header.bth;
    if bth.ack_req && saboteur.strikes(Sabotage::DropAckReq) {
        bth.ack_req = false;
    }
    if bth.opcode.kind() == Kind::Ack && saboteur.strikes(Sabotage::AckTooMuch) {
        bth.psn = bth.psn.next();
    }
    if bth.opcode.kind() == Kind::ReadRequest {
        if let Ext::Reth(reth) = &mut transmit.header.ext {
            if saboteur.strikes(Sabotage::WrongRange) {
                reth.dma_len ^= 1;
            }
        }
    }
}
