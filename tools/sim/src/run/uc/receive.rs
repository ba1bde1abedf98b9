// SPDX-License-Identifier: GPL-2.0

//! The receive half of a UC QP: packets that arrive, receives that complete or are flushed.

use crate::api::*;
use crate::check::ensure;
use crate::host::env::{Env, Notes, Service};
use crate::host::queues::RecvSlot;
use crate::host::sabotage::Sabotage;
use crate::judge::decode::Seen;
use crate::judge::uc_arrival::{Arrival, Place, Ruling};
use crate::log::tell;
use crate::model::uc::{Action, Phase};
use crate::network::frame;
use crate::run::world::{Event, World};
use oxe_proto::wire::{PacketRepr, Position, Psn};

impl World {
    /// Segments of a super-packet reach a UC QP; `repr` is the header of the first. Gives the
    /// number of those that it took at a time.
    pub fn deliver_uc(
        &mut self,
        end: usize,
        repr: &PacketRepr,
        segments: &[Vec<u8>],
    ) -> Result<usize, String> {
        let mut payload = Vec::new();
        let (m, k) = self.uc_identify(end, &segments[0])?;
        let (_, first) = frame::read_unchecked(&segments[0]).map_err(|why| format!("{why:?}"))?;
        let len = first.len() as u32;
        let e = &self.uc.ends[end];
        let limit = e.qp.max_segments(repr, len, &e.send);
        let middle = repr.bth.opcode.info().position == Position::Middle;
        let due = self.uc.responders[end].in_progress() == Some((m, k)) && middle && len == e.pmtu;
        ensure!(limit == 1 || due, "uc{end}: takes {limit} of {repr:?}");
        let most = segments.len().min(limit.into());
        let mut count = 0;
        for (i, frame) in segments[..most].iter().enumerate() {
            let (_, bytes) = frame::read_unchecked(frame).map_err(|why| format!("{why:?}"))?;
            if bytes.len() != first.len() {
                break;
            }
            let this = self.uc_identify(end, frame)?;
            ensure!(this == (m, k + i as u32), "uc{end}: mixed segments");
            payload.extend_from_slice(bytes);
            count += 1;
        }
        self.stats.uc.together += count as u64 - 1;
        let header = self.uc_hide_gap(end, (m, k), repr);
        let absent = self.uc.ends[end].taken_pages.is_absent(self.now);
        let ruling = self.uc_rule(end, (m, k), count as u32, payload.len() as u32, absent)?;
        let header = self.uc_hide_duplicate(end, &ruling, header);
        let (verdict, notes) =
            self.uc_handle(end, &header, &ruling, count as u16, &payload, absent);
        tell!(self, "uc{end} <- {m}.{k}*{count}+{len} {verdict:?}");
        if let Some(text) = notes.violation {
            return Err(format!("uc{end}: {text}, message {m} packet {k}"));
        }
        ensure!(
            verdict == ruling.verdict,
            "uc{end}: {verdict:?} for packet {k} of message {m}, not {:?}",
            ruling.verdict
        );
        self.stats.uc.duplicates += u64::from(verdict == Verdict::Dropped(DropReason::Duplicate));
        self.stats.uc.missing += u64::from(verdict == Verdict::Dropped(DropReason::NotPresent));
        self.stats.uc.reused += u64::from(notes.again);
        self.uc_judge_effect(end, (m, k), &ruling, &payload, &notes.received)?;
        self.uc_acknowledge(end)?;
        if ruling.fails() {
            self.stats.uc.unusable += 1;
            self.uc_report(end)?;
        }
        self.uc_wake(end);
        Ok(count)
    }

    /// The message and the packet of it that a frame is. Its bytes are those that were sent.
    fn uc_identify(&self, end: usize, frame: &[u8]) -> Result<(usize, u32), String> {
        let seen = frame::roce(frame).and_then(Seen::decode_uc);
        let seen = seen.ok_or_else(|| format!("uc{end}: gets no UC packet"))?;
        let sender = &self.uc.ends[self.uc.ends[end].peer];
        let mut sent = sender.messages.iter().enumerate().rev();
        let found = sent.find_map(|(m, message)| Some((m, message.packet(seen.psn)?)));
        let (m, k) = found.ok_or_else(|| format!("uc{end}: packet never sent, {seen:x?}"))?;
        let message = &sender.messages[m];
        let same = seen.payload == message.payload(k, sender.pmtu);
        ensure!(same, "uc{end}: packet {k} of {m} changed on its way");
        Ok((m, k))
    }

    /// The judge says what has to become of packets.
    fn uc_rule(
        &mut self,
        end: usize,
        (m, k): (usize, u32),
        count: u32,
        len: u32,
        absent: bool,
    ) -> Result<Ruling, String> {
        let mut responder = self.uc.responders[end].clone();
        let e = &self.uc.ends[end];
        let sender = &self.uc.ends[e.peer];
        let arrival = Arrival {
            message: &sender.messages[m],
            m,
            k,
            count,
            len,
            sender_pkey: sender.pkey,
            absent,
        };
        let place = Place {
            state: e.qp.state(),
            pkey: e.pkey,
            pmtu: e.pmtu,
            permits_write: e.permits_write,
            recv: &e.recv,
            regions: &self.hosts[e.host].regions,
        };
        let ruling = responder.rule(&arrival, &place);
        self.uc.responders[end] = responder;
        ruling.map_err(|text| format!("uc{end}: {text}"))
    }

    /// Passes packets to the protocol.
    fn uc_handle(
        &mut self,
        end: usize,
        repr: &PacketRepr,
        ruling: &Ruling,
        count: u16,
        payload: &[u8],
        absent: bool,
    ) -> (Verdict, Notes) {
        let mut notes = Notes::default();
        let e = &mut self.uc.ends[end];
        let host = &mut self.hosts[e.host];
        let mut env = Env {
            service: Service::Uc,
            send: &mut e.send,
            recv: &mut e.recv,
            srq: None,
            keys: &mut e.keys,
            memory: &mut host.memory,
            regions: &mut host.regions,
            psn: repr.bth.psn.get(),
            payload,
            absent,
            notes: &mut notes,
            saboteur: &mut self.saboteur,
        };
        let good = ruling.verdict == Verdict::Accepted;
        if good && env.saboteur.strikes(Sabotage::UcDropPacket) {
            return (Verdict::Dropped(DropReason::OutOfSequence), notes);
        }
        let len = payload.len() as u32 / u32::from(count);
        let now = Instant(self.now);
        let verdict = e.qp.handle_segments(now, repr, count, len, &mut env);
        if notes.touched {
            e.taken_pages.settle(absent);
        }
        (verdict, notes)
    }

    /// Packets have changed the memory that they may change, completed the right receive, and done
    /// nothing else (IBTA 9.7.4.1.5, 9.8.2.2, 9.9.3).
    fn uc_judge_effect(
        &mut self,
        end: usize,
        (m, k): (usize, u32),
        ruling: &Ruling,
        payload: &[u8],
        received: &[(usize, RecvCompletion)],
    ) -> Result<(), String> {
        let e = &self.uc.ends[end];
        let (host, peer) = (e.host, e.peer);
        let memory = &mut self.hosts[host].memory;
        if let Some(at) = ruling.place {
            let same = memory.read(at, payload.len()) == payload;
            ensure!(same, "uc{end}: packet {k} of {m} is stored wrong");
            // The guard zones and what else is near are untouched.
            let near = memory.unaccepted(at - 8, 8);
            ensure!(near.is_none(), "uc{end}: written before packet {k} of {m}");
            memory.accept(at, payload.len());
        }
        let one = received.len() == usize::from(ruling.completes.is_some());
        ensure!(
            one,
            "uc{end}: packet {k} of {m} completes {received:?}, not {:?}",
            ruling.completes
        );
        if let (Some((slot, wanted)), Some((done, got))) = (ruling.completes, received.first()) {
            // Of an error the status alone counts (IBTA 11.4.2.1).
            let same = match wanted.status {
                Status::Success => *got == wanted,
                status => got.status == status,
            };
            ensure!(
                *done == slot && same,
                "uc{end}: receive {done} completes as {got:?}, not {slot} as {wanted:?}"
            );
            self.uc_receive_done(end, slot, got.status)?;
        }
        if ruling.whole {
            self.uc_judge_whole(end, m, ruling)?;
            self.uc.ends[peer].messages[m].arrived += 1;
            self.stats.uc.arrived += 1;
        }
        Ok(())
    }

    /// A message is whole: its own bytes are where they belong (IBTA 9.8.2).
    fn uc_judge_whole(&self, end: usize, m: usize, ruling: &Ruling) -> Result<(), String> {
        let e = &self.uc.ends[end];
        let message = &self.uc.ends[e.peer].messages[m];
        let receive = ruling.completes.map(|(slot, _)| e.recv.slots[slot].at);
        let at = match message.place {
            Some(at) => Some(at),
            None => receive,
        };
        let (Some(at), false) = (at, message.data.is_empty()) else {
            return Ok(());
        };
        let got = self.hosts[e.host].memory.read(at, message.data.len());
        let same = got == message.data;
        ensure!(same, "uc{end}: message {m} arrives with other bytes");
        Ok(())
    }

    /// A receive completes, once.
    fn uc_receive_done(&mut self, end: usize, slot: usize, status: Status) -> Result<(), String> {
        let receive = &mut self.uc.ends[end].recv.slots[slot];
        let before = receive.done.replace(status);
        ensure!(
            before.is_none(),
            "uc{end}: receive {slot} completes as {status:?} after {before:?}"
        );
        Ok(())
    }

    /// The QP is in error: flushes its receives, the one in use first (IBTA 10.3.1).
    pub fn uc_flush_receives(&mut self, end: usize) -> Result<(), String> {
        let e = &mut self.uc.ends[end];
        let mut in_use = e.qp.abandon_recv();
        ensure!(
            in_use == self.uc.responders[end].recv_in_use,
            "uc{end}: a receive in use: {in_use}, not {}",
            self.uc.responders[end].recv_in_use
        );
        let again = e.qp.abandon_recv();
        ensure!(!again, "uc{end}: a receive in use is given up twice");
        self.uc.responders[end].recv_in_use = false;
        let current = e.recv.current.take();
        let from = std::mem::replace(&mut e.recv.next, e.recv.slots.len());
        let rest = from..e.recv.next;
        if in_use && self.saboteur.strikes(Sabotage::UcForgetFlush) {
            in_use = false;
        }
        for slot in current.filter(|_| in_use).into_iter().chain(rest) {
            self.uc_receive_done(end, slot, Status::WrFlush)?;
            if self.saboteur.strikes(Sabotage::UcFlushTwice) {
                self.uc_receive_done(end, slot, Status::WrFlush)?;
            }
        }
        Ok(())
    }

    /// The program posts receives.
    pub fn uc_post_receives(&mut self, end: usize, count: u64) -> Result<(), String> {
        let habits = self.uc.habits;
        let (host, max) = (self.uc.ends[end].host, self.uc.ends[end].max_len);
        for _ in 0..count {
            let cap = match self.rng.chance(habits.short) {
                true => self.rng.below(max),
                false => max,
            };
            let at = self.hosts[host].memory.alloc(cap as usize, &mut self.rng);
            let receive = RecvSlot {
                at,
                cap: cap as u32,
                garbage: self.rng.chance(habits.unusable),
                unusable: self.rng.chance(habits.unusable),
                done: None,
            };
            self.uc.ends[end].recv.slots.push(receive);
        }
        match self.uc.ends[end].phase {
            Phase::Dead => self.uc_flush_receives(end),
            _ => Ok(()),
        }
    }

    /// The device looks after the QP, now or soon.
    pub fn uc_wake(&mut self, end: usize) {
        let lazy = self.plan.lazy.max(1);
        let at = self.now + self.rng.below(lazy);
        self.uc_pump_by(end, at);
    }

    /// The device looks after the QP at the time `at`, if not before.
    pub fn uc_pump_by(&mut self, end: usize, at: u64) {
        let e = &mut self.uc.ends[end];
        if e.pump_at.is_none_or(|old| old > at) {
            e.pump_at = Some(at);
            let action = Action::Pump;
            self.at(at, Event::Uc { end, action });
        }
    }

    /// Sabotage: a packet after a gap is taken for the next of the message in progress.
    fn uc_hide_gap(&mut self, end: usize, (m, k): (usize, u32), repr: &PacketRepr) -> PacketRepr {
        let mut header = *repr;
        let e = &self.uc.ends[end];
        let next = self.uc.responders[end]
            .in_progress()
            .filter(|(n, _)| *n == m);
        let gap = e.qp.state().responds() && next.is_some_and(|(_, next)| next < k);
        if let (true, Some(psn)) = (gap, self.uc.responders[end].expected()) {
            if self.saboteur.strikes(Sabotage::UcTakeGap) {
                header.bth.psn = Psn::new(psn);
            }
        }
        header
    }

    /// Sabotage: a duplicate is taken for a new message.
    fn uc_hide_duplicate(
        &mut self,
        end: usize,
        ruling: &Ruling,
        mut header: PacketRepr,
    ) -> PacketRepr {
        let duplicate = ruling.verdict == Verdict::Dropped(DropReason::Duplicate);
        if let (true, Some(psn)) = (duplicate, self.uc.responders[end].expected()) {
            if self.saboteur.strikes(Sabotage::UcTakeDuplicate) {
                header.bth.psn = Psn::new(psn);
            }
        }
        header
    }
}
