// SPDX-License-Identifier: GPL-2.0

//! Builds the world: hosts, regions and connections as the seed wants them.

use crate::api::*;
use crate::check::Violation;
use crate::host::engine::Engine;
use crate::host::machine::Host;
use crate::host::memory::{Memory, Regions, Right, ALL_RIGHTS};
use crate::host::paging::Paging;
use crate::host::qp::{by_delay, Qp, Setup};
use crate::host::queues::{Keys, Program, RecvRing, SendRing, SharedRecv};
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::judge::marks::Marks;
use crate::judge::requester_wire::Watch;
use crate::model::flow::Flow;
use crate::model::key::Fast;
use crate::model::outcome::{Fate, Pause};
use crate::peer::attr::Style;
use crate::peer::qp::Foreign;
use crate::profile::{draw_psn, Profile, MS, US};
use crate::rng::{Rng, Stream};
use crate::run::notify::{reacts, LINE};
use crate::run::world::{Event, World};
use oxe_proto::transport::{Params, ReactionPoint, RemoteAccess, Standard, LOOPBACK_MTU};

/// The path MTUs. The last one is that of loopback connections.
const MTUS: [u32; 6] = [256, 512, 1024, 2048, 4096, LOOPBACK_MTU];

/// A connection in the making.
struct Pair {
    hosts: [usize; 2],
    qpns: [u32; 2],
    /// The same QP is at both ends.
    to_itself: bool,
    /// This end is the foreign peer.
    foreign: Option<usize>,
}

/// The parameters of a connection's ends.
struct Ends {
    setups: Vec<Setup>,
    psns: Vec<u32>,
    exceeds_resources: bool,
}

/// Draws setups that fit each other, for one end or two.
fn draw_ends(plan: &crate::profile::Plan, ends: usize, pmtu: u32, rng: &mut Rng) -> Ends {
    // A limited member talks to full ones only.
    let pkeys = rng.pick(&[
        [0xffff, 0xffff],
        [0x8001, 0x8001],
        [0x8001, 0x0001],
        [0x7fff, 0xffff],
    ]);
    let mut setups: Vec<Setup> = (0..ends)
        .map(|end| draw_setup(plan, pmtu, pkeys[end], rng))
        .collect();
    let psns: Vec<u32> = (0..ends).map(|_| draw_psn(rng)).collect();
    if ends == 1 {
        setups[0].pkey |= 0x8000;
    }
    let exceeds_resources = plan.fault != 0 && rng.one_in(6);
    for end in 0..ends {
        let other = ends - 1 - end;
        if exceeds_resources {
            // Too few responder resources: a peer that uses all that it knows of is refused.
            setups[end].max_dest_rd_atomic = setups[other].max_rd_atomic / 2;
            continue;
        }
        // The responder has at least as many resources as its peer knows of.
        let extra = setups[end].max_dest_rd_atomic;
        let wanted = setups[other].max_rd_atomic.saturating_add(extra);
        setups[end].max_dest_rd_atomic = wanted;
    }
    Ends {
        setups,
        psns,
        exceeds_resources,
    }
}

fn draw_setup(plan: &crate::profile::Plan, pmtu: u32, pkey: u16, rng: &mut Rng) -> Setup {
    let timeout = rng.range(plan.timeout.0, plan.timeout.1) as u8;
    let mut access = RemoteAccess::ALL;
    if plan.fault != 0 && rng.one_in(3) {
        match rng.below(4) {
            0 => access.read = false,
            1 => access.write = false,
            2 => access.flush_global = false,
            _ => access.atomic = false,
        }
    }
    Setup {
        pmtu,
        timeout: if plan.no_timeout { 0 } else { timeout },
        retry_cnt: rng.range(plan.retry_cnt.0, plan.retry_cnt.1) as u8,
        rnr_retry: rng.range(plan.rnr_retry.0, plan.rnr_retry.1) as u8,
        min_rnr_timer: rng.range(1, 14) as u8,
        max_rd_atomic: rng.pick(if plan.large {
            &[4, 16]
        } else {
            &[1, 1, 2, 4, 16]
        }),
        max_dest_rd_atomic: rng.pick(&[0, 0, 1, 7]),
        pkey,
        access,
    }
}

/// A connection of the code under test.
fn connection(
    qpn: u32,
    pmtu: u32,
    records: usize,
    saboteur: &mut Saboteur,
) -> Connection<Vec<Resource>> {
    let mut conn = Connection::new(vec![Resource::EMPTY; records]);
    conn.keep_requests(qpn % 16 != 3);
    if reacts(qpn, pmtu) {
        conn.react(ReactionPoint::dcqcn(Params::CONNECTX, LINE));
    }
    if by_delay(qpn, pmtu) && !saboteur.strikes(Sabotage::ForgetDelay) {
        let [requests, responses] = Standard::by_delay();
        conn.control(requests, responses);
    }
    conn
}

impl World {
    /// Makes hosts and connections.
    pub fn build(&mut self) {
        let mut rng = self.rng.fork(Stream::Build);
        let large = rng.one_in(8) || self.plan.large;
        for _ in 0..self.plan.hosts {
            let mut host = build_host(large, &mut rng);
            host.srq = self.plan.srq.then(SharedRecv::default);
            self.hosts.push(host);
        }
        for _ in 0..self.plan.connections {
            let pair = self.draw_pair(&mut rng);
            self.build_pair(&pair, large, &mut rng);
        }
        self.build_datagrams(&mut rng);
        self.build_uc(&mut rng.clone().fork(Stream::UcBuild));
        if self.plan.forge != 0 {
            self.network.tapped = true;
            self.after(rng.below(100 * US), Event::Attack);
        }
    }

    fn draw_pair(&mut self, rng: &mut Rng) -> Pair {
        let first = rng.index(self.plan.hosts);
        let second = match rng.below(10) {
            0 => first,
            _ => (first + 1 + rng.index(self.plan.hosts - 1)) % self.plan.hosts,
        };
        let mut qpn = || loop {
            let qpn = (rng.next_u32() & 0xff_ffff).max(2);
            if self.qps.iter().all(|q| q.qpn != qpn) {
                break qpn;
            }
        };
        let qpns = [qpn(), qpn()];
        Pair {
            hosts: [first, second],
            qpns,
            to_itself: first == second && rng.one_in(2) && !self.plan.foreign,
            foreign: self.plan.foreign.then(|| rng.index(2)),
        }
    }

    fn build_pair(&mut self, pair: &Pair, large: bool, rng: &mut Rng) {
        let mtus = match &self.plan {
            plan if plan.large => &MTUS[..2],
            plan if plan.foreign => &MTUS[..5],
            _ => &MTUS,
        };
        let pmtu = rng.pick(mtus);
        let ends = if pair.to_itself { 1 } else { 2 };
        let base = self.qps.len();
        let Ends {
            setups,
            psns,
            exceeds_resources,
        } = draw_ends(&self.plan, ends, pmtu, rng);
        let keyed = self.plan.local && rng.one_in(2);
        for end in 0..ends {
            let other = ends - 1 - end;
            let far = &mut self.hosts[pair.hosts[other]];
            let len = if large { 96 << 10 } else { 12 << 10 };
            let at = far.memory.alloc(len, rng);
            let region = far.regions.add(at, len, ALL_RIGHTS, rng);
            let inbox = far.memory.read(at, len).to_vec();
            let setup = setups[end].clone();
            let records = setup.max_dest_rd_atomic.into();
            let foreign = pair.foreign == Some(end);
            let conn = if foreign {
                Engine::Foreign(Foreign::new(Style::draw(rng), records).into())
            } else {
                let qpn = pair.qpns[end];
                Engine::Oxe(connection(qpn, pmtu, records, &mut self.saboteur).into())
            };
            let todo = rng.range(self.plan.requests.0, self.plan.requests.1);
            let mut todo = if rng.one_in(6) { 0 } else { todo };
            if keyed && todo != 0 {
                // A key's life takes several requests of both ends.
                todo += 30;
            }
            let fault = rng.chance(self.plan.fault) && todo > 0;
            let mut flow = Flow::new(psns[end], pmtu, at, &inbox);
            flow.exceeds_resources = exceeds_resources;
            if foreign {
                flow.chunk = u64::MAX;
            }
            let initial_max_rd_atomic = setup.max_rd_atomic;
            let mut fast = Fast::default();
            if keyed && !foreign {
                fast.index = Some(rng.next_u32() >> 8);
            }
            self.qps.push(Qp {
                host: pair.hosts[end],
                qpn: pair.qpns[end],
                peer: base + other,
                conn,
                setup,
                send: SendRing::new(&self.hosts[pair.hosts[end]].program),
                recv: RecvRing::default(),
                keys: Keys::default(),
                taken_pages: Paging::new(&self.plan, rng, Stream::TakenPages),
                sent_pages: Paging::new(&self.plan, rng, Stream::SentPages),
                read_pages: Paging::of_responses(&self.plan, rng, Stream::ReadPages),
                flow,
                inbox_region: region,
                fast,
                initial_max_rd_atomic,
                pause: Pause::No,
                fate: Fate::default(),
                lending: Default::default(),
                point: Default::default(),
                kept: Default::default(),
                acknowledged: 0,
                todo,
                fault_at: fault.then(|| rng.below(todo)),
                timer_at: None,
                pump_at: None,
            });
            self.appoint_judges(base + end);
            self.schedule(base + end, rng);
        }
    }

    /// The judges of a QP, the newest one.
    fn appoint_judges(&mut self, qp: usize) {
        let (qpn, pmtu) = (self.qps[qp].qpn, self.qps[qp].setup.pmtu);
        self.watches.push(Watch::new(by_delay(qpn, pmtu)));
        self.marks.push(Marks::default());
        self.rates.push(self.judge_of_rate(qp));
    }

    /// Schedules the actions of the program behind a QP.
    fn schedule(&mut self, qp: usize, rng: &mut Rng) {
        let connect = if self.plan.staggered {
            rng.below(3 * MS)
        } else {
            0
        };
        self.at(connect, Event::Connect { qp });
        self.at(connect + rng.below(MS), Event::Tick { qp });
        if rng.chance(self.plan.kill) {
            let at = rng.below(self.plan.heal_at * 3 / 2);
            self.deadline = self.deadline.max(at + 20 * MS);
            self.at(at, Event::Kill { qp });
        }
        if rng.chance(self.plan.deregister) {
            let at = connect + rng.below(3 * MS);
            self.deadline = self.deadline.max(at + 20 * MS);
            self.at(at, Event::Deregister { qp });
        }
        if self.plan.profile == Profile::Hostile {
            // Forged packets may leave a connection hanging: the program ends it.
            let at = self.plan.heal_at * 2 + rng.below(100 * MS);
            self.deadline = self.deadline.max(at + 20 * MS);
            self.at(at, Event::Kill { qp });
        }
    }

    /// The program brings a QP from RESET to RTR, and RTS at once or soon.
    pub fn connect(&mut self, qp: usize) -> Result<(), Violation> {
        let peer = self.qps[qp].peer;
        let (dest_qpn, rq_psn) = (self.qps[peer].qpn, self.qps[peer].flow.start_psn);
        let q = &mut self.qps[qp];
        let setup = &q.setup;
        let steps = [
            Modify {
                state: Some(State::Init),
                pkey: Some(setup.pkey),
                access: Some(setup.access),
                ..Modify::default()
            },
            Modify {
                state: Some(State::Rtr),
                dest_qpn: Some(dest_qpn),
                pmtu: Some(setup.pmtu),
                rq_psn: Some(rq_psn),
                min_rnr_timer: Some(setup.min_rnr_timer),
                ..Modify::default()
            },
        ];
        if q.fate.dead {
            return Ok(()); // killed before it was connected
        }
        for step in steps {
            let done = q.conn.modify(&step);
            done.map_err(|e| format!("qp{qp}: {step:?}: {e:?}"))?;
        }
        if self.rng.one_in(2) {
            return self.ready(qp);
        }
        let pause = self.rng.below(MS);
        self.allow_for(qp, pause);
        self.after(pause, Event::Ready { qp });
        self.pump(qp)
    }

    /// The program brings a QP from RTR to RTS.
    pub fn ready(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &mut self.qps[qp];
        if q.conn.state() != State::Rtr {
            return Ok(()); // it did not live so long
        }
        let setup = &q.setup;
        let step = Modify {
            state: Some(State::Rts),
            sq_psn: Some(q.flow.start_psn),
            timeout: Some(setup.timeout),
            retry_cnt: Some(setup.retry_cnt),
            rnr_retry: Some(setup.rnr_retry),
            max_rd_atomic: Some(setup.max_rd_atomic),
            ..Modify::default()
        };
        let done = q.conn.modify(&step);
        done.map_err(|e| format!("qp{qp}: {step:?}: {e:?}"))?;
        self.pump(qp)
    }
}

fn build_host(large: bool, rng: &mut Rng) -> Host {
    let mut memory = Memory::new(rng);
    let mut regions = Regions::default();
    let len = if large { 192 << 10 } else { 24 << 10 };
    let at = memory.alloc(len, rng);
    let source = regions.add(at, len, &[Right::Read], rng);
    let at = memory.alloc(8192, rng);
    let defective = regions.add(at, 8192, ALL_RIGHTS, rng);
    regions.0[defective].defective = true;
    let at = memory.alloc(8192, rng);
    let unreadable = regions.add(at, 8192, &[Right::Read], rng);
    regions.0[unreadable].unreadable = true;
    Host {
        memory,
        regions,
        source,
        defective,
        unreadable,
        srq: None,
        program: Program::default(),
    }
}
