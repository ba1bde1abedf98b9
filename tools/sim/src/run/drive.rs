// SPDX-License-Identifier: GPL-2.0

//! Drives the QPs: the device's handling of packets, timers and transmission.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::{Env, Notes, Service};
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::judge::access::check_accepted;
use crate::judge::decode::Seen;
use crate::judge::lending::check_lent;
use crate::judge::marks::is_marked;
use crate::judge::placement::check_placement;
use crate::judge::requester_wire::{Limits, Watch};
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::flow::Flow;
use crate::model::outcome::Pause;
use crate::network::frame;
use crate::profile::{Profile, MS, US};
use crate::run::gaps::fill_gap;
use crate::run::kept::kept_limit;
use crate::run::send::is_sequence_nak;
use crate::run::world::{Event, World};
use oxe_proto::wire::{AethRepr, Ext, Kind, Opcode, PacketRepr, Psn, RnrTimer, Syndrome};

/// Most packets that a device sends at a time.
const BUDGET: u32 = 64;

impl World {
    /// Pumps the QP, now or soon.
    fn wake(&mut self, qp: usize) -> Result<(), Violation> {
        if self.plan.lazy == 0 || self.rng.one_in(3) {
            return self.pump(qp);
        }
        let at = self.now + self.rng.below(self.plan.lazy);
        self.pump_by(qp, at);
        Ok(())
    }

    /// Pumps the QP at the time `at`, if not before.
    pub fn pump_by(&mut self, qp: usize, at: u64) {
        if self.qps[qp].pump_at.is_none_or(|old| old > at) {
            self.qps[qp].pump_at = Some(at);
            self.at(at, Event::Pump { qp });
        }
    }

    /// The timer of the QP goes off.
    pub fn timer(&mut self, qp: usize) -> Result<(), Violation> {
        self.qps[qp].timer_at = None;
        if self.saboteur.strikes(Sabotage::DeafTimer) {
            return Ok(());
        }
        self.run_timer(qp)?;
        self.pump(qp)
    }

    fn run_timer(&mut self, qp: usize) -> Result<(), Violation> {
        let now = self.now;
        let q = &mut self.qps[qp];
        let due = q.conn.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.watches[qp].timed_out();
        }
        if due {
            self.count(Observation::TimedOut);
        }
        log!(self, "qp{qp} timer, due {due}");
        let q = &mut self.qps[qp];
        q.conn.handle_timeout(now, &mut q.send);
        let next = q.conn.poll_timeout();
        let past = next.is_some_and(|at| at <= now) && !q.conn.is_foreign();
        ensure!(!past, "qp{qp}: the timer goes off again at {next:?}");
        Ok(())
    }

    /// Sends the QP's pending packets, reports its completions, arms the timer.
    pub fn pump(&mut self, qp: usize) -> Result<(), Violation> {
        if self.rng.one_in(50) {
            self.run_timer(qp)?; // too early: must do nothing
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
            let most = self.rng.range(1, self.plan.segments + 1) as u16;
            let q = &mut self.qps[qp];
            let Some(transmit) = q.conn.poll_transmit(self.now, most, &mut q.send) else {
                self.view().check_asked(qp)?;
                if self.run_local(qp)? {
                    continue;
                }
                break;
            };
            self.note_polled(qp, &transmit)?;
            self.repeat_local(qp, &transmit)?;
            let fails = self.rng.chance(self.plan.tx_fail) && !self.qps[qp].conn.is_foreign();
            if fails || self.is_payload_missing(qp, &transmit) {
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

    /// Frames reach a host: one, or an intact super-packet.
    pub fn arrive(&mut self, host: usize, frames: &[Vec<u8>]) -> Result<(), Violation> {
        let mut rest = frames;
        while let Some(first) = rest.first() {
            let taken = self.arrive_some(host, first, rest)?;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Takes the first frame of a super-packet, and as many others as the protocol takes at a time.
    /// Gives the number of frames taken.
    fn arrive_some(
        &mut self,
        host: usize,
        frame: &[u8],
        segments: &[Vec<u8>],
    ) -> Result<usize, Violation> {
        let read = match frame::read(frame) {
            Err(frame::Drop::BadIcrc) if self.saboteur.strikes(Sabotage::IgnoreIcrc) => {
                frame::read_unchecked(frame)
            }
            other => other,
        };
        let (parsed, payload) = match read {
            Ok(good) => good,
            Err(why) => {
                log!(self, "host{host} drops {why:?}");
                self.count(Observation::Unreadable);
                return Ok(1);
            }
        };
        let dest = parsed.repr.bth.dest_qp.get();
        if let Some(qp) = self
            .qps
            .iter()
            .position(|q| q.host == host && q.qpn == dest)
        {
            let q = &self.qps[qp];
            let len = payload.len() as u32;
            let limit = q.conn.max_segments(&parsed.repr, len, &q.send);
            // GRO merges no packets with different ECN fields.
            let alike = |other: &&Vec<u8>| is_marked(other) == is_marked(frame);
            let alike = segments.iter().take_while(alike).count();
            let taken = alike.min(limit.into());
            self.release_peer(qp)?;
            self.deliver(qp, &parsed.repr, &segments[..taken])?;
            return Ok(taken);
        }
        if let Some(end) = self.uc.find(host, dest) {
            return self.deliver_uc(end, &parsed.repr, segments);
        }
        self.deliver_datagram(host, &parsed.repr, payload)?;
        Ok(1)
    }

    /// Segments of a super-packet reach a QP; `repr` is the header of the first. Packets that were
    /// kept behind them have their turn.
    fn deliver(
        &mut self,
        qp: usize,
        repr: &PacketRepr,
        frames: &[Vec<u8>],
    ) -> Result<(), Violation> {
        if self.note_cnp(qp, repr) {
            return Ok(());
        }
        let verdict = self.deliver_one(qp, repr, frames)?;
        self.notify(qp, repr, frames, verdict)?;
        self.hand_on_kept(qp)?;
        self.wake(qp)
    }

    /// As `deliver`, without what follows. Gives the verdict.
    pub fn deliver_one(
        &mut self,
        qp: usize,
        repr: &PacketRepr,
        frames: &[Vec<u8>],
    ) -> Result<Verdict, Violation> {
        let mut repr = *repr;
        let mut payload = Vec::new();
        for frame in frames {
            let (parsed, bytes) = frame::read_unchecked(frame).map_err(|why| format!("{why:?}"))?;
            repr.bth.ack_req |= parsed.repr.bth.ack_req;
            payload.extend_from_slice(bytes);
        }
        let seen: Vec<_> = frames
            .iter()
            .filter_map(|frame| Seen::decode(frame::roce(frame)?))
            .collect();
        let count = frames.len() as u16;
        self.count(Observation::Taken(count));
        let mut notes = Notes::default();
        let q = &mut self.qps[qp];
        let host = &mut self.hosts[q.host];
        for seen in seen.iter().filter(|s| s.is_response()) {
            self.watches[qp].response_delivered(&q.flow, seen);
        }
        let mut env = Env {
            service: Service::Rc,
            send: &mut q.send,
            recv: &mut q.recv,
            srq: host.srq.as_mut(),
            keys: &mut q.keys,
            memory: &mut host.memory,
            regions: &mut host.regions,
            psn: repr.bth.psn.get(),
            payload: &payload,
            absent: q.taken_pages.is_absent(self.now),
            keeps: q.kept.len() < kept_limit(q.qpn),
            notes: &mut notes,
            saboteur: &mut self.saboteur,
        };
        let len = payload.len() as u32 / u32::from(count);
        let hides_gap = hide_loss(env.saboteur, &self.watches[qp], &q.flow, &seen, &mut repr);
        fill_gap(env.saboteur, &self.watches[qp], &q.flow, &seen, &mut repr);
        if is_sequence_nak(&repr) && env.saboteur.strikes(Sabotage::SkipMissing) {
            repr.bth.psn = repr.bth.psn.next();
        }
        let mut verdict = q
            .conn
            .handle_segments(self.now, &repr, count, len, &mut env);
        if hides_gap {
            verdict = Verdict::Dropped(DropReason::Gap);
        }
        let request = repr.bth.opcode.kind().is_request() && verdict == Verdict::Accepted;
        if request && env.saboteur.strikes(Sabotage::RepeatRequest) {
            let mut again = repr;
            again.bth.psn = again.bth.psn.add(count.into());
            let _ = q
                .conn
                .handle_segments(self.now, &again, count, len, &mut env);
        }
        repeat_atomic_write(&mut env, &repr, verdict);
        log!(self, "qp{qp} <- {:?}*{count}+{len} {verdict:?}", repr.bth);
        if let Some(text) = notes.violation {
            return Err(format!("qp{qp}: {text}, packet {repr:x?}").into());
        }
        let kept = notes.kept;
        self.judge_packets(qp, &seen, verdict, notes)?;
        if repr.bth.opcode.kind().is_request() {
            self.note_forgotten(qp, verdict);
        }
        if let Some(seen) = seen.first().filter(|_| kept) {
            self.note_kept(qp, seen, &frames[0])?;
        }
        Ok(verdict)
    }

    /// Shows the judges what a QP has done with packets.
    fn judge_packets(
        &mut self,
        qp: usize,
        seen: &[Seen],
        verdict: Verdict,
        notes: Notes,
    ) -> Result<(), Violation> {
        self.judge_verdict(qp, verdict, notes.empty)?;
        self.judge_missing(qp, seen.first(), verdict, &notes)?;
        if !self.view().is_hostile() {
            let checked = check_placement(seen.first(), verdict, &notes);
            checked.map_err(|found| found.at(format_args!("qp{qp}")))?;
        }
        if verdict == Verdict::Accepted {
            let q = &mut self.qps[qp];
            let checked = check_accepted(&q.setup, seen);
            checked.map_err(|found| found.at(format_args!("qp{qp}")))?;
            q.fate.early |= q.conn.state() == State::Rtr;
        }
        for (i, answer) in seen.iter().enumerate().filter(|(_, s)| s.is_response()) {
            self.note_answer(qp, answer, verdict, i + 1 == seen.len())?;
        }
        let again = verdict == Verdict::Dropped(DropReason::Duplicate);
        if again
            && seen
                .first()
                .is_some_and(|seen| seen.reth.is_some() || seen.atomic.is_some())
        {
            self.watches[self.qps[qp].peer].answers.repeated();
        }
        let alive = self.qps[qp].conn.state() != State::Err;
        if verdict == Verdict::Accepted && !notes.empty && alive {
            self.note_executed(qp, seen);
        }
        for (slot, completion) in notes.received {
            self.judge_receive(qp, slot, completion)?;
        }
        Ok(())
    }

    /// Shows the judge on the wire that the responder has executed requests.
    fn note_executed(&mut self, qp: usize, seen: &[Seen]) {
        let peer = self.qps[qp].peer;
        let p = &self.qps[peer];
        for seen in seen.iter().filter(|s| !s.is_response()) {
            self.watches[peer].request_executed(self.now, &p.flow, seen);
        }
    }

    /// Shows the judge on the wire whether the requester has heeded a response, which is the last
    /// of those that it took together or not.
    fn note_answer(
        &mut self,
        qp: usize,
        seen: &Seen,
        verdict: Verdict,
        last: bool,
    ) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        let alive = matches!(q.conn.state(), State::Rts | State::Sqd);
        let free = q.conn.is_foreign() || self.plan.profile == Profile::Hostile;
        if !alive || free {
            return Ok(());
        }
        let result = match verdict {
            Verdict::Accepted => {
                let missing = q
                    .conn
                    .missing_psn()
                    .filter(|_| last)
                    .unwrap_or(seen.psn + 1);
                let una = q.flow.packet(missing & 0xff_ffff);
                self.watches[qp].answer_heeded(self.now, &q.flow, Limits::of(q), seen, una)
            }
            Verdict::Dropped(DropReason::Gap) => {
                self.watches[qp].gap_noticed(self.now, &q.flow, seen);
                Ok(())
            }
            Verdict::Dropped(DropReason::Ghost) => {
                self.watches[qp].answer_known(&q.flow, seen);
                Ok(())
            }
            Verdict::Dropped(_) => Ok(()),
        };
        result.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    /// Takes the send completions.
    fn take_completions(&mut self, qp: usize) -> Result<(), Violation> {
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
            let lent = check_lent(self.qps[qp].lending, &completion);
            lent.map_err(|found| found.at(format_args!("qp{qp}")))?;
            self.judge_completion(qp, completion)?;
            if self.saboteur.strikes(Sabotage::RepeatCompletion) {
                self.judge_completion(qp, completion)?;
            }
        }
    }

    /// Takes the events.
    fn take_events(&mut self, qp: usize) -> Result<(), Violation> {
        if self.qps[qp].lending.is_any() && self.qps[qp].conn.state() == State::Err {
            return Ok(()); // the completion of what failed is held
        }
        let events = self.qps[qp].conn.take_events();
        let events = lose_event(&mut self.saboteur, events);
        if events.is_empty() {
            return Ok(());
        }
        log!(self, "qp{qp} events {events:?}");
        self.judge_events(qp, events)?;
        if events.contains(Events::SQ_DRAINED) {
            self.drained(qp);
        }
        if events.contains(Events::ENTERED_ERROR) {
            self.entered_error(qp)?;
        }
        Ok(())
    }

    /// The send queue is drained: the program resumes it after some time.
    fn drained(&mut self, qp: usize) {
        self.count(Observation::Drained);
        if let Pause::Draining(begun) = self.qps[qp].pause {
            self.qps[qp].pause = Pause::Drained(begun);
            let pause = self.rng.below(MS);
            self.allow_for(qp, pause);
            self.after(pause, Event::Resume { qp });
        }
    }

    /// Arms the timer for when the connection wants it, or a little later.
    fn arm(&mut self, qp: usize) {
        let wanted = self.qps[qp].conn.poll_timeout();
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

/// Sabotage: the device carries out a duplicate ATOMIC WRITE again.
fn repeat_atomic_write(env: &mut Env, repr: &PacketRepr, verdict: Verdict) {
    let again = verdict == Verdict::Dropped(DropReason::Duplicate);
    let word = repr.bth.opcode.kind() == Kind::AtomicWrite;
    let reth = repr.ext.reth().filter(|_| again && word);
    if let Some(reth) = reth.filter(|_| env.saboteur.strikes(Sabotage::RepeatAtomicWrite)) {
        let _ = env.atomic_write(reth.va, reth.rkey);
    }
}

/// Sabotage: drops events that the device does not act upon.
fn lose_event(saboteur: &mut Saboteur, events: Events) -> Events {
    let needed = [Events::SQ_DRAINED, Events::ENTERED_ERROR];
    let needed = needed.into_iter().filter(|event| events.contains(*event));
    let rest = needed.fold(Events::NONE, Events::union);
    if rest != events && saboteur.strikes(Sabotage::LoseEvent) {
        return rest;
    }
    events
}

/// Sabotage of received packets: a sign of a loss becomes an RNR NAK, which makes the requester go
/// back as well, but not send less. Gives whether the sign was a response that shows a gap before
/// it.
fn hide_loss(
    saboteur: &mut Saboteur,
    watch: &Watch,
    flow: &Flow,
    seen: &[Seen],
    repr: &mut PacketRepr,
) -> bool {
    let (Some(first), true) = (seen.first(), repr.bth.opcode.kind().is_response()) else {
        return false;
    };
    let gap = watch.gap_before(flow, first);
    let gap = gap.filter(|_| saboteur.strikes(Sabotage::WideReads));
    let wide = gap.is_none() && is_sequence_nak(repr) && watch.is_wide(flow, first);
    if gap.is_none() && !(wide && saboteur.strikes(Sabotage::WideWindow)) {
        return false;
    }
    if let Some(missing) = gap {
        repr.bth.psn = Psn::new(flow.psn(missing));
    }
    repr.bth.opcode = Opcode::RcAck;
    repr.ext = Ext::Aeth(AethRepr {
        syndrome: Syndrome::RnrNak {
            timer: RnrTimer::new(1),
        },
        msn: 0,
    });
    gap.is_some()
}
