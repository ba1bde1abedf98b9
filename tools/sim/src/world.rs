// SPDX-License-Identifier: GPL-2.0

//! The world of one run: hosts, connections, the network and virtual time. It holds the state and
//! the coming events; [`crate::drive`] drives the QPs.

use crate::fast::Fast;
use crate::host::engine::Engine;
use crate::host::memory::{Memory, Regions};
use crate::host::paging::Paging;
use crate::host::queues::{Keys, RecvRing, SendRing, SharedRecv};
use crate::host::sabotage::Saboteur;
use crate::log::{tell, Log};
use crate::model::flow::Flow;
use crate::model::outcome::Fate;
use crate::model::outcome::Pause;
use crate::network::wire::Network;
use crate::profile::{Plan, Profile, MS};
use crate::rng::Rng;
use crate::stats::Stats;
use crate::watch::{Limits, Watch};
use std::collections::BTreeMap;

/// Most events of a run; more means an endless loop.
const MAX_EVENTS: u64 = 3_000_000;

/// The seed and profile of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    pub profile: Profile,
}

/// A host.
pub struct Host {
    pub memory: Memory,
    pub regions: Regions,
    /// Index of the region that peers may read and that is never written.
    pub source: usize,
    /// Index of a region of which every access fails.
    pub defective: usize,
    /// Index of a region of which READs are granted, but the bytes cannot be read.
    pub unreadable: usize,
    /// The shared receive queue of its QPs, if they have one.
    pub srq: Option<SharedRecv>,
}

/// How a QP is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    pub pmtu: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub pkey: u16,
    pub access: oxe_proto::transport::RemoteAccess,
}

impl Qp {
    /// The limits that the judge on the wire needs.
    pub fn limits(&self) -> Limits {
        Limits {
            max_rd_atomic: self.setup.max_rd_atomic.into(),
            retry_cnt: self.setup.retry_cnt.into(),
            rnr_retry: self.setup.rnr_retry.into(),
            foreign: self.conn.is_foreign(),
        }
    }
}

/// A QP with all that belongs to it.
pub struct Qp {
    pub host: usize,
    pub qpn: u32,
    pub peer: usize,
    pub conn: Engine,
    pub setup: Setup,
    pub send: SendRing,
    pub recv: RecvRing,
    pub keys: Keys,
    /// The pages that packets taken, requests sent, and READ responses sent find missing.
    pub taken_pages: Paging,
    pub sent_pages: Paging,
    pub read_pages: Paging,
    /// Its requests to its peer.
    pub flow: Flow,
    /// The judge's record of them on the wire.
    pub watch: Watch,
    /// Its inbox, as a region of the peer's host: index.
    pub inbox_region: usize,
    pub fast: Fast,
    /// The most READs and atomics it ever has under way.
    pub initial_max_rd_atomic: u8,
    pub pause: Pause,
    pub fate: Fate,
    pub lending: crate::host::lending::Lending,
    /// The packets of its flow before this one are acknowledged on the wire.
    pub acknowledged: u64,
    /// Requests that it has still to post.
    pub todo: u64,
    /// Which request is to have a fault.
    pub fault_at: Option<u64>,
    /// Timer events that are scheduled for the connection.
    pub timer_at: Option<u64>,
    pub pump_at: Option<u64>,
}

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
    Uc {
        end: usize,
        action: crate::uc::Action,
    },
    /// Packets of a QP that lends their payloads are lost, if they have not arrived.
    Release { qp: usize },
    /// The attacker does something.
    Attack,
}

/// The run.
pub struct World {
    pub run: Run,
    pub plan: Plan,
    pub now: u64,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub qps: Vec<Qp>,
    pub network: Network,
    pub datagrams: crate::datagram::Datagrams,
    pub uc: crate::uc::Connections,
    pub saboteur: Saboteur,
    pub stats: Stats,
    /// When everything must have come to rest.
    pub deadline: u64,
    /// All work is done, QPs are being closed.
    pub closing: bool,
    pub log: Log,
    pub ip_id: u16,
    events: BTreeMap<(u64, u64), Event>,
    serial: u64,
}

impl World {
    /// The world that a seed makes, before anything happens.
    pub fn new(run: Run, saboteur: Saboteur, log: Log) -> World {
        let mut rng = Rng::new(run.seed ^ ((run.profile as u64) << 56));
        let plan = Plan::draw(run.profile, &mut rng);
        let network = Network::new(
            plan.impairment.clone(),
            plan.heal_at,
            plan.hosts,
            rng.fork(1),
        );
        let mut world = World {
            run,
            now: 0,
            rng: rng.fork(2),
            hosts: Vec::new(),
            qps: Vec::new(),
            network,
            datagrams: crate::datagram::Datagrams::default(),
            uc: crate::uc::Connections::default(),
            saboteur,
            stats: Stats::default(),
            deadline: 0,
            closing: false,
            log,
            ip_id: rng.next() as u16,
            events: BTreeMap::new(),
            serial: 0,
            plan,
        };
        tell!(world, "{:?}", world.plan);
        world.build();
        world
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

    /// Runs to the end; the error says which judge found what.
    pub fn run(&mut self) -> Result<(), String> {
        self.run_events()?;
        self.at_rest()?;
        self.close()?;
        self.run_events()?;
        self.at_end()
    }

    /// Whether the event is a timer or a wake-up that was replaced by another.
    fn is_stale(&self, time: u64, event: &Event) -> bool {
        match event {
            Event::Timer { qp } => self.qps[*qp].timer_at != Some(time),
            Event::Pump { qp } => self.qps[*qp].pump_at != Some(time),
            Event::Uc {
                end,
                action: crate::uc::Action::Pump,
            } => self.uc.pump_at(*end) != Some(time),
            _ => false,
        }
    }

    fn run_events(&mut self) -> Result<(), String> {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if self.is_stale(time, &event) {
                continue;
            }
            self.now = time;
            self.stats.events += 1;
            if self.stats.events > MAX_EVENTS {
                return Err("far too many events: something turns in circles".into());
            }
            if time > self.deadline + 10 * MS {
                return Err(format!(
                    "not at rest {} ns after the deadline, {event:?}",
                    time - self.deadline
                ));
            }
            self.step(event)?;
        }
        Ok(())
    }
}
