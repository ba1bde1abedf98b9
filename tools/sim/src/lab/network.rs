// SPDX-License-Identifier: GPL-2.0

//! Connections over one bottleneck: each host has a link of its own to a switch, and the bottleneck
//! leads from there to the hosts of the other ends. Both directions are alike.

use super::bottleneck::Bottleneck;
use super::end::End;
use super::scenario::Scenario;
use crate::api::*;
use crate::rng::Rng;
use oxe_proto::transport::{CongestionControl, Params, ReactionPoint, Standard};
use oxe_proto::wire::{Ecn, PacketRepr};
use std::collections::BTreeMap;

/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: u64 = 14 + 20 + 8;
/// Most bytes of a super-packet.
const SUPER_PACKET: u32 = 0xffff;
/// A packet of a host is late by so much at most, ns: interrupts and the scheduler.
const JITTER: u64 = 2_000;

/// A packet without its payload.
#[derive(Clone, Copy, Debug)]
struct Packet {
    header: PacketRepr,
    payload: u32,
    ecn: Ecn,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The program of an end begins to send.
    Start { end: usize },
    /// A packet to an end reaches the bottleneck.
    Queue { end: usize, packet: Packet },
    /// A packet reaches an end.
    Arrive { end: usize, packet: Packet },
    /// The timer of an end goes off.
    Timer { end: usize },
}

/// What a run has measured, from the end of the warm-up on.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes of payload that each connection has carried.
    pub goodput: Vec<u64>,
    /// Bytes of payload that were offered to the bottleneck.
    pub sent: u64,
    /// Packets offered to the bottleneck, and those that it dropped.
    pub offered: u64,
    pub dropped: u64,
    /// Packets that it marked.
    pub marked: u64,
    /// The mean length of its queue, bytes.
    pub queue: f64,
    /// The latencies of messages, ns, sorted.
    pub latencies: Vec<u64>,
    /// Messages that failed.
    pub failed: u64,
}

/// The ends: those with even numbers post requests to the next one.
pub struct Network<'a, C> {
    scenario: &'a Scenario,
    now: u64,
    ends: Vec<End<C>>,
    /// When the link of each end is free, and when its latest packet arrives.
    free_at: Vec<u64>,
    arrived: Vec<u64>,
    /// From even ends to odd ones, and back.
    links: [Bottleneck; 2],
    /// Bytes of payload offered to each.
    sent: [u64; 2],
    rng: Rng,
    events: BTreeMap<(u64, u64), Event>,
    serial: u64,
}

impl<'a, C: CongestionControl> Network<'a, C> {
    /// Hosts that have not begun.
    pub fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let count = 2 * scenario.flows;
        let link = Bottleneck::new(scenario.rate, scenario.queue).choosing(scenario.choice);
        let mut ends: Vec<_> = (0..count).map(|_| End::new(scenario.pmtu)).collect();
        if scenario.reacts {
            for end in &mut ends {
                let mbps = (scenario.link / 1e6) as u32;
                end.conn.react(ReactionPoint::dcqcn(Params::CONNECTX, mbps));
            }
        }
        let mut network = Network {
            scenario,
            now: 0,
            ends,
            free_at: vec![0; count],
            arrived: vec![0; count],
            links: [link.clone(), link],
            sent: [0; 2],
            rng: Rng::new(seed),
            events: BTreeMap::new(),
            serial: 0,
        };
        for flow in 0..scenario.flows {
            let begin = scenario.stagger * flow as u64;
            let at = begin + network.rng.below(2 * scenario.delay + 1000);
            network.at(at, Event::Start { end: 2 * flow });
        }
        network
    }

    fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.events.insert((time.max(self.now), self.serial), event);
    }

    /// Runs through the warm-up and the time of the measurement.
    pub fn run(mut self) -> Measured {
        let (warm_up, time) = (self.scenario.warm_up, self.scenario.time);
        self.run_until(warm_up);
        for link in &mut self.links {
            link.restart(warm_up);
        }
        self.sent = [0; 2];
        for end in &mut self.ends {
            end.queue.placed = 0;
            end.queue.latencies.clear();
        }
        self.run_until(warm_up + time);
        let way = self.scenario.data_way();
        let link = &mut self.links[way];
        let pairs = self.ends.chunks(2);
        let placed = pairs.map(|pair| pair[0].queue.placed + pair[1].queue.placed);
        let mut latencies: Vec<_> = self
            .ends
            .iter()
            .flat_map(|end| end.queue.latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        Measured {
            goodput: placed.collect(),
            sent: self.sent[way],
            offered: link.offered,
            dropped: link.dropped,
            marked: link.marked,
            queue: link.mean(warm_up + time, time),
            latencies,
            failed: self.ends.iter().map(|end| end.queue.failed).sum(),
        }
    }

    fn run_until(&mut self, time: u64) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > time {
                break;
            }
            self.now = entry.key().0;
            let event = entry.remove();
            self.step(event);
        }
        self.now = time;
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Start { end } => self.pump(end),
            Event::Queue { end, packet } => self.enqueue(end, packet),
            Event::Arrive { end, packet } => {
                let now = Instant(self.now);
                let e = &mut self.ends[end];
                let cnp = e.take(now, packet.header, packet.payload, packet.ecn);
                if let Some(header) = cnp {
                    let cnp = Packet {
                        header,
                        payload: 0,
                        ecn: Ecn::NotEct,
                    };
                    self.put(end, cnp);
                }
                self.pump(end);
            }
            Event::Timer { end } if self.ends[end].timer_at == Some(self.now) => {
                let e = &mut self.ends[end];
                e.timer_at = None;
                e.conn.handle_timeout(Instant(self.now), &mut e.queue);
                self.pump(end);
            }
            Event::Timer { .. } => {}
        }
    }

    /// A packet to the end `end` reaches the bottleneck.
    fn enqueue(&mut self, end: usize, packet: Packet) {
        let way = 1 - end % 2;
        self.sent[way] += u64::from(packet.payload);
        let bytes = HEADERS + packet.header.wire_len(packet.payload as usize) as u64;
        let capable = packet.ecn != Ecn::NotEct;
        let passed = self.links[way].pass(self.now, bytes, capable, &mut self.rng);
        let Some((left, marked)) = passed else {
            return;
        };
        let mut packet = packet;
        if marked {
            packet.ecn = Ecn::Ce;
        }
        if self.rng.chance(self.scenario.loss) {
            return;
        }
        let at = left + self.scenario.delay + self.rng.below(JITTER);
        self.arrived[end] = self.arrived[end].max(at);
        self.at(self.arrived[end], Event::Arrive { end, packet });
    }

    /// Sends all that an end may send, posts anew, and arms its timer.
    fn pump(&mut self, end: usize) {
        let now = Instant(self.now);
        loop {
            let e = &mut self.ends[end];
            if end % 2 == 0 {
                e.post(self.now, self.scenario.work);
            }
            let most = (SUPER_PACKET / self.scenario.pmtu).max(1) as u16;
            while let Some(transmit) = self.ends[end].poll(now, most) {
                self.send(end, &transmit);
            }
            if !self.ends[end].complete(self.now) {
                break;
            }
        }
        let wanted = self.ends[end].conn.poll_timeout().map(|at| at.0);
        let armed = self.ends[end].timer_at;
        if let Some(at) = wanted.filter(|at| armed != Some(*at)) {
            self.at(at, Event::Timer { end });
        }
        self.ends[end].timer_at = wanted.map(|at| at.max(self.now));
    }

    /// Puts the packets on the link of the end, one after the other.
    fn send(&mut self, end: usize, transmit: &Transmit) {
        let mut rest = Some(*transmit);
        while let Some(some) = rest {
            let first = some.first();
            let capable = self.ends[end].conn.reacts() && !first.payload.is_empty();
            let packet = Packet {
                header: first.header,
                payload: first.payload.len(),
                ecn: if capable { Ecn::Ect0 } else { Ecn::NotEct },
            };
            self.put(end, packet);
            rest = some.rest(1);
        }
    }

    /// Puts a packet on the link of the end.
    fn put(&mut self, end: usize, packet: Packet) {
        let bytes = HEADERS + packet.header.wire_len(packet.payload as usize) as u64;
        let busy = (bytes as f64 * 8e9 / self.scenario.link).ceil() as u64;
        self.free_at[end] = self.free_at[end].max(self.now) + busy;
        let peer = end ^ 1;
        self.at(self.free_at[end], Event::Queue { end: peer, packet });
    }
}

impl<'a> Network<'a, Standard> {
    /// Hosts that have not begun, with the driver's controllers.
    pub fn standard(scenario: &'a Scenario, seed: u64) -> Self {
        let mut network = Self::new(scenario, seed);
        for end in &mut network.ends[..2 * scenario.by_delay] {
            let [requests, responses] = Standard::by_delay();
            end.conn.control(requests, responses);
        }
        network
    }
}

impl<C: CongestionControl> End<C> {
    fn poll(&mut self, now: Instant, most: u16) -> Option<Transmit> {
        self.conn.poll_transmit(now, most, &mut self.queue)
    }
}
