// SPDX-License-Identifier: GPL-2.0

//! The world of one run: hosts, connections, the network and virtual time. It holds the state and
//! the coming events.

use crate::host::datagram::Datagrams;
use crate::host::machine::Host;
use crate::host::qp::Qp;
use crate::host::sabotage::Saboteur;
use crate::host::uc::End;
use crate::judge::marks::Marks;
use crate::judge::rate::Rate;
use crate::judge::requester_wire::Watch;
use crate::judge::stats::{uc, Observation, Stats};
use crate::judge::uc::arrival::Responder;
use crate::log::Log;
use crate::network::wire::Network;
use crate::profile::uc::Habits;
use crate::profile::{Plan, Profile};
use crate::rng::Rng;
use std::collections::BTreeMap;

/// Something that happens at a moment.
#[derive(Debug)]
pub enum Event {
    /// Frames reach a host: one, or an intact super-packet.
    Arrive { host: usize, frames: Vec<Vec<u8>> },
    /// The timer of a QP goes off.
    Timer { qp: usize },
    /// The device looks after a QP.
    Pump { qp: usize },
    /// The program behind a QP does something.
    Tick { qp: usize },
    /// The program behind a QP answers a message.
    Respond { qp: usize },
    /// The program posts the receives that its peer's requests need by then.
    Receives { qp: usize, count: usize },
    /// The program brings a QP into the state RTR, and into RTS at once or soon.
    Connect { qp: usize },
    /// The program brings a QP from RTR to RTS.
    Ready { qp: usize },
    /// The program moves a QP to error.
    Kill { qp: usize },
    /// The program ends a pause.
    Resume { qp: usize },
    /// The program uses a dead connection again.
    QpReuse { qp: usize },
    /// Memory that the QP's requests use is deregistered.
    Deregister { qp: usize },
    /// A datagram is to be sent.
    Datagram { host: usize },
    /// Something happens to a UC QP.
    Uc { end: usize, event: UcEvent },
    /// Packets of a QP that lends their payloads are lost, if they have not arrived.
    Release { qp: usize },
    /// The attacker does something.
    Attack,
}

/// Something that happens to a UC QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UcEvent {
    /// The program does something.
    Tick,
    /// The device looks after the QP.
    Pump,
    /// The device copies payloads.
    Copy,
    /// The program brings the QP from RESET to RTR, and to RTS at once or soon.
    Connect,
    /// The program brings the QP to RTS: from RTR, SQD or SQE.
    Ready,
    /// The program resets a QP in error.
    Reset,
}

/// All UC QPs.
#[derive(Default)]
pub struct Connections {
    pub ends: Vec<End>,
    /// The judges of what their responders take.
    pub responders: Vec<Responder>,
    pub habits: Habits,
}

impl Connections {
    /// The QP with this number at a host.
    pub fn find(&self, host: usize, qpn: u32) -> Option<usize> {
        let here = |e: &End| e.host == host && e.qpn == qpn;
        self.ends.iter().position(here)
    }

    /// When the device is to look after the QP.
    pub fn pump_at(&self, end: usize) -> Option<u64> {
        self.ends[end].pump_at
    }
}

/// The seed and profile of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    pub profile: Profile,
}

/// The run.
pub struct World {
    pub run: Run,
    pub plan: Plan,
    pub now: u64,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub qps: Vec<Qp>,
    /// The judge's records of their requests on the wire.
    pub watches: Vec<Watch>,
    /// The judges of the rates of those that react to notifications.
    pub rates: Vec<Option<Rate>>,
    /// The judges of their notifications.
    pub marks: Vec<Marks>,
    pub network: Network,
    pub datagrams: Datagrams,
    pub uc: Connections,
    pub saboteur: Saboteur,
    /// The judge that counts.
    pub stats: Stats,
    /// Events that were processed, connections that were used again, packets that were forged.
    pub handled: u64,
    pub reuses: u64,
    pub forged: u64,
    /// When everything must have come to rest.
    pub deadline: u64,
    /// All work is done, QPs are being closed.
    pub closing: bool,
    pub log: Log,
    pub ip_id: u16,
    pub events: BTreeMap<(u64, u64), Event>,
    pub serial: u64,
}

impl World {
    /// The judge that counts sees something.
    pub fn count(&mut self, observation: Observation) {
        self.stats.observe(observation);
    }

    /// The same of a UC QP.
    pub fn uc_count(&mut self, observation: uc::Observation) {
        self.stats.observe(Observation::Uc(observation));
    }

    /// Schedules an event `after` nanoseconds from now.
    pub fn after(&mut self, after: u64, event: Event) {
        self.at(self.now + after, event);
    }

    /// Schedules an event. Those of one moment happen in the order in which they were scheduled.
    pub fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.events.insert((time.max(self.now), self.serial), event);
    }

    /// Extends the deadline: an action of the program takes `ns` at most once the network is well.
    pub fn allow(&mut self, ns: u64) {
        let from = self.now.max(self.plan.heal_at);
        self.deadline = self.deadline.max(from + ns);
    }
}
