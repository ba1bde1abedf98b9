// SPDX-License-Identifier: GPL-2.0

//! Congestion notifications: some queue pairs react to them, and the network has some for those.

use crate::api::*;
use crate::check::Violation;
use crate::host::sabotage::Sabotage;
use crate::judge::rate::Rate;
use crate::log::log;
use crate::network::frame::{self, Route};
use crate::profile::{MS, US};
use crate::run::world::{Event, World};
use oxe_proto::transport::LOOPBACK_MTU;
use oxe_proto::wire::{BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn};

/// The rate of the line that they believe to have, Mb/s.
pub const LINE: u32 = 2000;

/// Notifications of a queue pair in its life: more would leave it too slow for its deadline.
const MOST: u32 = 6;

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

    /// A queue pair is about to send packets. If it reacts, the judge sees them, and perhaps there
    /// is a notification of them.
    pub fn note_polled(&mut self, qp: usize, transmit: &Transmit) -> Result<(), Violation> {
        let Some(rate) = &mut self.rates[qp] else {
            return Ok(());
        };
        let result = rate.on_sent(self.now, transmit.segments, transmit.segment_size());
        result.map_err(|found| found.at(format_args!("qp{qp}")))?;
        let may = rate.notifications < MOST && !transmit.payload.is_empty();
        if may && self.rng.one_in(4) {
            rate.notifications += 1;
            let after = self.rng.range(1, 100 * US);
            self.after(after, Event::Notify { qp });
        }
        Ok(())
    }

    /// Packets of the queue pair are taken back.
    pub fn note_taken_back(&mut self, qp: usize) {
        if let Some(rate) = &mut self.rates[qp] {
            rate.taken_back();
        }
    }

    /// A CNP for packets of the queue pair arrives.
    pub fn notify(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        if !matches!(q.conn.state(), State::Rtr | State::Rts | State::Sqd) {
            return Ok(());
        }
        if let Some(rate) = &mut self.rates[qp] {
            rate.on_notification(self.now);
        }
        log!(self, "qp{qp} is notified");
        self.allow(200 * MS);
        if self.saboteur.strikes(Sabotage::IgnoreCnp) {
            return Ok(());
        }
        let q = &self.qps[qp];
        let mut bth = BthRepr::new(Opcode::Cnp, PKey::DEFAULT, Qpn::new(q.qpn), Psn::ZERO);
        bth.becn = true;
        let header = PacketRepr { bth, ext: Ext::Cnp };
        let route = Route {
            from: self.qps[q.peer].host,
            to: q.host,
            ipv6: self.plan.ipv6,
        };
        let host = q.host;
        self.ip_id = self.ip_id.wrapping_add(1);
        let frame = frame::build(route, self.ip_id, &header, &[])?;
        self.arrive(host, &[frame])
    }
}
