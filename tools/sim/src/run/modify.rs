// SPDX-License-Identifier: GPL-2.0

//! What programs do besides posting: they drain and change QPs, give up, and react to a QP that
//! fails.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::sabotage::Sabotage;
use crate::log::log;
use crate::model::outcome::Pause;
use crate::profile::MS;
use crate::run::world::{Event, World};
use oxe_proto::transport::time;

impl World {
    /// Drains the send queue.
    pub fn pause(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        if q.pause != Pause::No || q.conn.state() != State::Rts {
            return Ok(());
        }
        // A broken request is never sent, but for the protocol it may have begun.
        let begun = self.watches[qp].begun(&q.flow);
        q.pause = Pause::Draining(begun);
        log!(self, "qp{qp} pauses, {begun} requests have begun");
        let q = &mut self.qps[qp];
        let done = q.conn.modify(&Modify::to_state(State::Sqd));
        done.map_err(|e| format!("qp{qp}: to SQD: {e:?}"))?;
        self.allow_for(qp, MS);
        self.pump(qp)
    }

    /// Ends a pause.
    pub fn resume(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        if q.conn.state() != State::Sqd {
            return Ok(());
        }
        log!(self, "qp{qp} resumes");
        let q = &mut self.qps[qp];
        q.pause = Pause::No;
        let mut change = Modify::to_state(State::Rts);
        if self.rng.one_in(3) {
            q.setup.max_rd_atomic = self.rng.range(1, q.setup.max_rd_atomic.into()) as u8;
            change.max_rd_atomic = Some(q.setup.max_rd_atomic);
        }
        let done = q.conn.modify(&change);
        done.map_err(|e| format!("qp{qp}: to RTS: {e:?}"))?;
        self.allow_for(qp, MS);
        self.pump(qp)
    }

    /// The program changes the minimum RNR NAK timer.
    pub fn change_timer(&mut self, qp: usize, timer: u8) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        q.setup.min_rnr_timer = timer;
        let change = Modify {
            min_rnr_timer: Some(timer),
            ..Modify::default()
        };
        let done = q.conn.modify(&change);
        done.map_err(|e| format!("qp{qp}: {change:?}: {e:?}").into())
    }

    /// The program changes the number of responder resources.
    pub fn change_resources(&mut self, qp: usize, count: usize) {
        log!(self, "qp{qp} has {count} records from now on");
        let q = &mut self.qps[qp];
        q.conn.replace_resources(vec![Resource::EMPTY; count]);
        q.keys.resolve_again = true;
    }

    /// Moves a QP to error.
    pub fn kill(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        if q.fate.dead {
            return Ok(());
        }
        log!(self, "qp{qp} is moved to error");
        let q = &mut self.qps[qp];
        // It may have gone there by itself, and its program does not know yet.
        q.fate.killed = q.conn.state() != State::Err;
        q.conn.to_error();
        self.pump(qp)?;
        // The event comes with the release of lent payloads.
        let q = &self.qps[qp];
        ensure!(
            q.fate.dead || q.lending.is_any(),
            "qp{qp}: moved to error, and no event"
        );
        Ok(())
    }

    /// A QP has gone to error. The device flushes its receives; the program moves the peer to
    /// error.
    pub fn entered_error(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        ensure!(!q.fate.dead, "qp{qp}: went to error twice");
        q.fate.dead = true;
        let state = q.conn.state();
        ensure!(
            state == State::Err,
            "qp{qp}: went to error, and is in {state:?}"
        );
        let abandoned = q.conn.abandon_recv();
        let in_use = q.recv.current.is_some();
        ensure!(
            abandoned == in_use,
            "qp{qp}: receive in use {in_use}, abandoned {abandoned}"
        );
        self.flush_receives(qp)?;
        if self.closing {
            return Ok(());
        }
        self.view().explain_death(qp)?;
        self.view().check_refusal(qp)?;
        // The peer finds out by itself, or its program moves it to error.
        let (peer, timeout) = (self.qps[qp].peer, self.qps[qp].setup.timeout);
        let patience = time::ack_timeout(timeout).unwrap_or(MS) * self.rng.below(40);
        self.allow_for(qp, patience);
        self.after(patience, Event::Kill { qp: peer });
        self.consider_reuse(qp);
        Ok(())
    }

    /// Flushes the receives of a dead QP, each once; of a shared receive queue, the one in use
    /// (IBTA 10.2.9.3).
    pub fn flush_receives(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        let current = q.recv.current.take();
        let first = current.unwrap_or(q.recv.next);
        let mut end = q.recv.slots.len();
        let others = q.recv.next < end;
        if self.plan.srq && !(others && self.saboteur.strikes(Sabotage::FlushShared)) {
            end = q.recv.next;
        }
        if !self.plan.srq {
            q.recv.next = end;
        }
        for slot in first..end {
            let completion = RecvCompletion {
                status: Status::WrFlush,
                write_imm: false,
                byte_len: 0,
                imm: None,
                inv_rkey: None,
                solicited: false,
            };
            self.judge_receive(qp, slot, completion)?;
        }
        Ok(())
    }
}
