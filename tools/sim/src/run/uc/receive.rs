// SPDX-License-Identifier: GPL-2.0

//! The receive half of a UC QP: packets that arrive, receives that complete or are flushed.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::{Env, Notes, Service};
use crate::host::sabotage::Sabotage;
use crate::judge::stats::uc::Observation;
use crate::judge::uc::arrival::{Arrival, Place, Treatment};
use crate::judge::uc::receive::PacketOf;
use crate::log::log;
use crate::model::uc::Phase;
use crate::network::frame;
use crate::run::world::{Event, UcEvent, World};
use oxe_proto::wire::{PacketRepr, Position, Psn};

impl World {
    /// Segments of a super-packet reach a UC QP; `repr` is the header of the first. Gives the
    /// number of those that it took at a time.
    pub fn deliver_uc(
        &mut self,
        end: usize,
        repr: &PacketRepr,
        segments: &[Vec<u8>],
    ) -> Result<usize, Violation> {
        let mut payload = Vec::new();
        let (m, k) = self.uc_view().identify(end, &segments[0])?;
        let (_, first) = frame::read_unchecked(&segments[0]).map_err(|why| format!("{why:?}"))?;
        let len = first.len() as u32;
        let e = &self.uc.ends[end];
        let limit = e.qp.max_segments(repr, len, &e.send);
        let middle = repr.bth.opcode.info().position == Position::Middle;
        self.uc_view()
            .check_limit(end, (m, k), limit, middle, len)?;
        let most = segments.len().min(limit.into());
        let mut count = 0;
        for (i, frame) in segments[..most].iter().enumerate() {
            let (_, bytes) = frame::read_unchecked(frame).map_err(|why| format!("{why:?}"))?;
            if bytes.len() != first.len() {
                break;
            }
            let this = self.uc_view().identify(end, frame)?;
            ensure!(this == (m, k + i as u32), "uc{end}: mixed segments");
            payload.extend_from_slice(bytes);
            count += 1;
        }
        self.uc_count(Observation::Taken(count as u16));
        let header = self.uc_hide_gap(end, (m, k), repr);
        let absent = self.uc.ends[end].taken_pages.is_absent(self.now);
        let right = self.uc_treatment(end, (m, k), count as u32, payload.len() as u32, absent)?;
        let header = self.uc_hide_duplicate(end, &right, header);
        let (verdict, notes) = self.uc_handle(end, &header, &right, count as u16, &payload, absent);
        log!(self, "uc{end} <- {m}.{k}*{count}+{len} {verdict:?}");
        if let Some(text) = notes.violation {
            return Err(format!("uc{end}: {text}, message {m} packet {k}").into());
        }
        self.uc_view().check_verdict(end, (m, k), &right, verdict)?;
        self.uc_count(Observation::Verdict(verdict));
        if notes.again {
            self.uc_count(Observation::ReceiveAgain);
        }
        self.uc_take_effect(end, (m, k), &right, &payload, &notes.received)?;
        self.uc_acknowledge(end)?;
        if right.fails() {
            self.uc_count(Observation::Unusable);
            self.uc_report(end)?;
        }
        self.uc_wake(end);
        Ok(count)
    }

    /// The judge says what has to become of packets.
    fn uc_treatment(
        &mut self,
        end: usize,
        (m, k): (usize, u32),
        count: u32,
        len: u32,
        absent: bool,
    ) -> Result<Treatment, Violation> {
        let mut responder = self.uc.responders[end].clone();
        let e = &self.uc.ends[end];
        let sender = &self.uc.ends[e.peer];
        let arrival = Arrival {
            message: &sender.flow.messages[m],
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
        let right = responder.treatment(&arrival, &place);
        self.uc.responders[end] = responder;
        right.map_err(|found| found.at(format_args!("uc{end}")))
    }

    /// Passes packets to the protocol.
    fn uc_handle(
        &mut self,
        end: usize,
        repr: &PacketRepr,
        right: &Treatment,
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
            keeps: false,
            absent,
            notes: &mut notes,
            saboteur: &mut self.saboteur,
        };
        let good = right.verdict == Verdict::Accepted;
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

    /// The judge sees the effect of packets. What they have stored belongs to the memory.
    fn uc_take_effect(
        &mut self,
        end: usize,
        packet: PacketOf,
        right: &Treatment,
        payload: &[u8],
        received: &[(usize, RecvCompletion)],
    ) -> Result<(), Violation> {
        let view = self.uc_view();
        view.check_effect(end, packet, right, payload, received)?;
        let e = &mut self.uc.ends[end];
        if let Some(at) = right.place {
            self.hosts[e.host].memory.accept(at, payload.len());
        }
        if let Some((slot, completion)) = received.first() {
            e.recv.slots[*slot].done = Some(completion.status);
        }
        if right.whole {
            let peer = e.peer;
            self.uc.ends[peer].flow.messages[packet.0].arrived += 1;
            self.uc_count(Observation::Arrived);
        }
        Ok(())
    }

    /// A receive is flushed.
    fn uc_flush(&mut self, end: usize, slot: usize) -> Result<(), Violation> {
        let status = Status::WrFlush;
        self.uc_view().check_receive_once(end, slot, status)?;
        self.uc.ends[end].recv.slots[slot].done = Some(status);
        Ok(())
    }

    /// The QP is in error: flushes its receives, the one in use first (IBTA 10.3.1).
    pub fn uc_flush_receives(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        let mut in_use = e.qp.abandon_recv();
        self.uc_view().check_in_use(end, in_use)?;
        let e = &mut self.uc.ends[end];
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
            self.uc_flush(end, slot)?;
            if self.saboteur.strikes(Sabotage::UcFlushTwice) {
                self.uc_flush(end, slot)?;
            }
        }
        Ok(())
    }

    /// The program posts receives.
    pub fn uc_post_receives(&mut self, end: usize, count: u64) -> Result<(), Violation> {
        for _ in 0..count {
            let slot = self.uc_programs().draw_receive(end);
            self.uc.ends[end].recv.slots.push(slot);
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
            let event = UcEvent::Pump;
            self.at(at, Event::Uc { end, event });
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
        right: &Treatment,
        mut header: PacketRepr,
    ) -> PacketRepr {
        let duplicate = right.verdict == Verdict::Dropped(DropReason::Duplicate);
        if let (true, Some(psn)) = (duplicate, self.uc.responders[end].expected()) {
            if self.saboteur.strikes(Sabotage::UcTakeDuplicate) {
                header.bth.psn = Psn::new(psn);
            }
        }
        header
    }
}
