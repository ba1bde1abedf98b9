// SPDX-License-Identifier: GPL-2.0

//! Dead connections are used again: both ends go to RESET and come up with other PSNs. Nothing of
//! the former life may be left.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::qp::by_delay;
use crate::host::queues::{Keys, RecvRing, SendRing};
use crate::judge::requester_wire::Watch;
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::flow::Flow;
use crate::model::outcome::{Fate, Pause};
use crate::profile::MS;
use crate::run::world::{Event, World};

/// After this time no packet of the former life is on its way.
const GRACE: u64 = 20 * MS;

impl World {
    /// A QP has died. Perhaps its connection will be used again.
    pub fn consider_reuse(&mut self, qp: usize) {
        let peer = self.qps[qp].peer;
        let both = self.qps[qp].fate.dead && self.qps[peer].fate.dead;
        let before = self.reuses;
        if both && self.programs().draw_reuse(before) {
            self.reuses += 1;
            self.count(Observation::Reused);
            self.allow_for(qp, 2 * GRACE);
            self.after(GRACE, Event::QpReuse { qp });
        }
    }

    /// Brings a dead connection up again.
    pub fn qp_reuse(&mut self, qp: usize) -> Result<(), Violation> {
        log!(self, "qp{qp} and its peer are reset");
        let peer = self.qps[qp].peer;
        let ends = if peer == qp { vec![qp] } else { vec![qp, peer] };
        for end in &ends {
            self.settle(*end)?;
        }
        for end in &ends {
            self.reset(*end)?;
        }
        for end in &ends {
            let connect = self.rng.below(2) * self.rng.below(MS);
            self.allow_for(*end, connect + 2 * MS);
            self.after(connect, Event::Connect { qp: *end });
            let tick = connect + self.rng.below(MS);
            self.after(tick, Event::Tick { qp: *end });
        }
        Ok(())
    }

    /// Resets a QP and forgets what the judges know of it.
    fn reset(&mut self, qp: usize) -> Result<(), Violation> {
        if let Some(rate) = &mut self.rates[qp] {
            rate.reset();
        }
        // Reset waits until the device has delivered the QP's packets.
        self.release(qp)?;
        let q = &mut self.qps[qp];
        let done = q.conn.modify(&Modify::to_state(State::Reset));
        ensure!(done.is_ok(), "qp{qp}: to RESET: {done:?}");
        q.send = SendRing::new(&self.hosts[q.host].program);
        let silent = q.conn.state() == State::Reset
            && q.conn.poll_transmit(self.now, 1, &mut q.send).is_none()
            && q.conn.poll_local(&q.send).is_none()
            && q.conn.poll_send_completion(&mut q.send).is_none()
            && q.conn.poll_timeout().is_none()
            && q.conn.take_events().is_empty()
            && !q.conn.abandon_recv();
        ensure!(silent, "qp{qp}: does something in RESET");
        self.programs().forget_keys(qp);
        let life = self.programs().draw_life();
        let peer = &self.hosts[self.qps[self.qps[qp].peer].host];
        let q = &mut self.qps[qp];
        let inbox = peer.memory.read(q.flow.inbox_at, q.flow.inbox_len());
        let (exceeds_resources, chunk) = (q.flow.exceeds_resources, q.flow.chunk);
        q.flow = Flow::new(life.start_psn, q.flow.pmtu, q.flow.inbox_at, inbox);
        q.flow.exceeds_resources = exceeds_resources;
        q.flow.chunk = chunk;
        q.recv = RecvRing::default();
        q.keys = Keys::default();
        self.watches[qp] = Watch::new(by_delay(q.qpn, q.setup.pmtu));
        q.pause = Pause::No;
        q.fate = Fate::default();
        q.acknowledged = 0;
        q.todo = life.todo;
        q.fault_at = None;
        q.timer_at = None;
        q.pump_at = None;
        // A pause of the former life may have lowered it.
        q.setup.max_rd_atomic = q.initial_max_rd_atomic;
        Ok(())
    }
}
