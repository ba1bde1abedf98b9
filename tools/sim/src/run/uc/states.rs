// SPDX-License-Identifier: GPL-2.0

//! The states of a UC QP, as its program changes them (IBTA 10.3.1).

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::queues::{Keys, RecvRing, SendRing};
use crate::judge::stats::uc::Observation;
use crate::judge::uc::arrival::Responder;
use crate::log::log;
use crate::model::uc::Phase;
use crate::profile::MS;
use crate::run::world::{UcEvent, World};
use oxe_proto::transport::RemoteAccess;

/// Most resets of a QP.
const MOST_RESETS: u32 = 3;

impl World {
    fn uc_modify(&mut self, end: usize, change: &Modify) -> Result<(), Violation> {
        let done = self.uc.ends[end].qp.modify(change);
        done.map_err(|e| format!("uc{end}: {change:?}: {e:?}").into())
    }

    /// The rights of the peer.
    fn uc_access(&self, end: usize) -> RemoteAccess {
        RemoteAccess {
            write: self.uc.ends[end].permits_write,
            ..RemoteAccess::ALL
        }
    }

    /// The program brings the QP from RESET to RTR, and to RTS at once or soon. The first message
    /// of the peer is taken whatever its PSN is (IBTA 9.8.2.2), so the expected PSN is any.
    pub fn uc_connect(&mut self, end: usize) -> Result<(), Violation> {
        let e = &self.uc.ends[end];
        if e.phase != Phase::Down {
            return Ok(());
        }
        let near = self.uc.ends[e.peer].flow.psn;
        let rq_psn = match self.rng.below(3) {
            0 => near,
            1 => near.wrapping_add(self.rng.below(1024) as u32),
            _ => self.rng.next_u32(),
        };
        let e = &self.uc.ends[end];
        let init = Modify {
            state: Some(State::Init),
            pkey: Some(e.pkey),
            access: Some(self.uc_access(end)),
            ..Modify::default()
        };
        let rtr = Modify {
            state: Some(State::Rtr),
            dest_qpn: Some(self.uc.ends[e.peer].qpn),
            pmtu: Some(e.pmtu),
            rq_psn: Some(rq_psn),
            ..Modify::default()
        };
        self.uc_modify(end, &init)?;
        self.uc_modify(end, &rtr)?;
        self.uc.ends[end].phase = Phase::Half;
        if self.rng.one_in(2) {
            return self.uc_ready(end);
        }
        let pause = self.rng.below(MS);
        self.uc_later(end, pause, UcEvent::Ready);
        Ok(())
    }

    /// The program brings the QP to RTS.
    pub fn uc_ready(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        let from = match e.phase {
            Phase::Half => State::Rtr,
            Phase::Failed => State::Sqe,
            Phase::Drained => State::Sqd,
            // It did not live so long.
            _ => return Ok(()),
        };
        let state = e.qp.state();
        ensure!(state == from, "uc{end}: in {state:?}, not {from:?}");
        e.phase = Phase::Up;
        let change = Modify {
            state: Some(State::Rts),
            sq_psn: (from == State::Rtr).then_some(e.flow.psn),
            ..Modify::default()
        };
        self.uc_modify(end, &change)?;
        let psn = self.uc.ends[end].qp.next_psn().get();
        let wanted = self.uc.ends[end].flow.psn;
        ensure!(psn == wanted, "uc{end}: PSN {psn:#x}, not {wanted:#x}");
        self.pump_uc(end)
    }

    /// The program pauses the send queue.
    pub fn uc_pause(&mut self, end: usize) -> Result<(), Violation> {
        if self.uc.ends[end].phase != Phase::Up {
            return Ok(());
        }
        log!(self, "uc{end} pauses");
        self.uc.ends[end].phase = Phase::Draining;
        self.uc_modify(end, &Modify::to_state(State::Sqd))?;
        self.pump_uc(end)
    }

    /// The program permits WRITEs, or does not any more. It may do so at any time (IBTA 11.2.5.2).
    pub fn uc_change(&mut self, end: usize) -> Result<(), Violation> {
        if matches!(self.uc.ends[end].phase, Phase::Down | Phase::Dead) {
            return Ok(());
        }
        self.uc.ends[end].permits_write ^= true;
        let change = Modify {
            access: Some(self.uc_access(end)),
            ..Modify::default()
        };
        self.uc_modify(end, &change)
    }

    /// The program moves the QP to error.
    pub fn uc_kill(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        if matches!(e.phase, Phase::Down | Phase::Dead) {
            return Ok(());
        }
        log!(self, "uc{end} is moved to error");
        self.uc.responders[end].events =
            self.uc.responders[end].events.union(Events::ENTERED_ERROR);
        self.uc_modify(end, &Modify::to_state(State::Err))?;
        self.pump_uc(end)
    }

    /// The QP is in error.
    pub fn uc_dead(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        ensure!(
            e.qp.state() == State::Err && e.phase != Phase::Dead,
            "uc{end}: an error in {:?}, {:?}",
            e.qp.state(),
            e.phase
        );
        e.phase = Phase::Dead;
        self.uc.responders[end].drop_message();
        self.uc_flush_receives(end)?;
        if !self.closing {
            let pause = self.rng.below(2 * MS);
            self.uc_later(end, pause, UcEvent::Reset);
        }
        Ok(())
    }

    /// The program resets the QP, and connects it again. Posted requests and receives are forgotten
    /// (IBTA 10.3.1.1). The peer goes on; its messages arrive again once this end is connected.
    pub fn uc_reset(&mut self, end: usize) -> Result<(), Violation> {
        let e = &self.uc.ends[end];
        let over = e.phase == Phase::Down || e.resets >= MOST_RESETS || self.closing;
        if over {
            return Ok(());
        }
        log!(self, "uc{end} is reset");
        self.uc_count(Observation::Reset);
        if self.uc.ends[end].phase == Phase::Dead {
            self.uc_view().check_receives_done(end)?;
        }
        self.uc_modify(end, &Modify::to_state(State::Reset))?;
        let e = &mut self.uc.ends[end];
        let in_use = e.qp.abandon_recv();
        self.uc_view().check_in_use(end, in_use)?;
        let e = &mut self.uc.ends[end];
        let silent = e.qp.take_events().is_empty();
        ensure!(silent, "uc{end}: events after a reset");
        self.uc.responders[end].drop_message();
        self.uc_responder_ends(end);
        self.uc.responders[end] = Responder::NEW;
        let e = &mut self.uc.ends[end];
        e.send = SendRing::new(&self.hosts[e.host].program);
        e.recv = RecvRing::default();
        e.keys = Keys::default();
        e.flow.reset();
        e.uncopied.clear();
        e.phase = Phase::Down;
        e.resets += 1;
        self.uc_poll_nothing(end)?;
        let mut pause = self.rng.below(MS);
        if !self.plan.impairment.is_ill() && self.rng.one_in(2) {
            // No packet with one of these PSNs is under way by then.
            pause += 3 * MS;
            self.uc_start_late(end);
        } else {
            // The peer takes the new PSNs: none is shortly before the one that it expects.
            let skip = self.rng.pick(&[0, 1, 100, 5_000, 1 << 21]);
            let e = &mut self.uc.ends[end];
            e.flow.psn = (e.flow.psn + skip) & 0xff_ffff;
        }
        self.uc_later(end, pause, UcEvent::Connect);
        Ok(())
    }

    /// The first PSN is one that the peer takes for that of a duplicate, or just not.
    fn uc_start_late(&mut self, end: usize) {
        let peer = self.uc.ends[end].peer;
        let expected = self.uc.responders[peer].expected();
        let before = self.rng.pick(&[1, 2, 500, 1_023, 1_024, 1_025, 1_026]);
        let e = &mut self.uc.ends[end];
        e.flow.psn = expected.unwrap_or(e.flow.psn).wrapping_sub(before) & 0xff_ffff;
    }

    /// A QP that was reset has nothing to send and nothing to report.
    fn uc_poll_nothing(&mut self, end: usize) -> Result<(), Violation> {
        let now = Instant(self.now);
        let e = &mut self.uc.ends[end];
        let packet = e.qp.poll_transmit(now, 1, &mut e.send);
        let completion = e.qp.poll_send_completion(&mut e.send);
        let local = e.qp.poll_local(&e.send);
        let nothing = packet.is_none() && completion.is_none() && local.is_none();
        ensure!(nothing, "uc{end}: works on after a reset");
        let released = e.qp.release();
        ensure!(!released, "uc{end}: waits for payloads after a reset");
        Ok(())
    }
}
