// SPDX-License-Identifier: GPL-2.0

//! One run: makes the world that a seed wants, and lets happen in it what is scheduled.

mod attack;
mod build;
mod datagram;
mod deregister;
mod drive;
mod end;
mod gaps;
mod judge;
mod kept;
mod lending;
mod local;
mod modify;
mod notify;
mod paging;
mod post;
mod reuse;
mod send;
mod uc;
pub mod world;

use crate::check::Violation;
use crate::host::datagram::Datagrams;
use crate::host::sabotage::Saboteur;
use crate::judge::stats::{Observation, Stats};
use crate::log::{log, Log};
use crate::network::wire::Network;
use crate::profile::{Plan, MS};
use crate::rng::{Rng, Stream};
use std::collections::BTreeMap;
use world::{Connections, Event, Run, UcEvent, World};

/// Most events of a run; more means an endless loop.
const MAX_EVENTS: u64 = 3_000_000;

impl World {
    /// The world that a seed makes, before anything happens.
    pub fn new(run: Run, saboteur: Saboteur, log: Log) -> World {
        let mut rng = Rng::new(run.seed ^ ((run.profile as u64) << 56));
        let plan = Plan::draw(run.profile, &mut rng);
        let network = Network::new(
            plan.impairment.clone(),
            plan.heal_at,
            plan.hosts,
            rng.fork(Stream::Network),
        );
        let mut world = World {
            run,
            now: 0,
            rng: rng.fork(Stream::Run),
            hosts: Vec::new(),
            qps: Vec::new(),
            watches: Vec::new(),
            rates: Vec::new(),
            marks: Vec::new(),
            network,
            datagrams: Datagrams::default(),
            uc: Connections::default(),
            saboteur,
            stats: Stats::default(),
            handled: 0,
            reuses: 0,
            forged: 0,
            deadline: 0,
            closing: false,
            log,
            ip_id: rng.next() as u16,
            events: BTreeMap::new(),
            serial: 0,
            plan,
        };
        log!(world, "{:?}", world.plan);
        world.build();
        world
    }

    /// Runs to the end, or to the first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let result = self.run_all();
        if let Err(found) = &result {
            log!(self, "{found}");
        }
        result
    }

    fn run_all(&mut self) -> Result<(), Violation> {
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
                event: UcEvent::Pump,
            } => self.uc.pump_at(*end) != Some(time),
            _ => false,
        }
    }

    fn run_events(&mut self) -> Result<(), Violation> {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if self.is_stale(time, &event) {
                continue;
            }
            self.now = time;
            self.stats.observe(Observation::Event);
            self.handled += 1;
            if self.handled > MAX_EVENTS {
                return Err("far too many events: something turns in circles".into());
            }
            if time > self.deadline + 10 * MS {
                return Err(format!(
                    "not at rest {} ns after the deadline, {event:?}",
                    time - self.deadline
                )
                .into());
            }
            self.step(event)?;
        }
        Ok(())
    }

    /// Processes an event.
    fn step(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Arrive { host, frames } => self.arrive(host, &frames),
            Event::Timer { qp } => self.timer(qp),
            Event::Pump { qp } => {
                self.qps[qp].pump_at = None;
                self.pump(qp)
            }
            Event::Tick { qp } => self.tick(qp),
            Event::Respond { qp } => self.answer(qp),
            Event::Receives { qp, count } => self.post_receives(qp, count),
            Event::Connect { qp } => self.connect(qp),
            Event::Ready { qp } => self.ready(qp),
            Event::Kill { qp } => self.kill(qp),
            Event::Resume { qp } => self.resume(qp),
            Event::QpReuse { qp } => self.qp_reuse(qp),
            Event::Deregister { qp } => self.deregister(qp),
            Event::Datagram { host } => self.send_datagram(host),
            Event::Uc { end, event } => self.uc_step(end, event),
            Event::Release { qp } => self.release(qp),
            Event::Attack => self.attack(),
        }
    }
}
