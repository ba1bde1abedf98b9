// SPDX-License-Identifier: GPL-2.0

//! The network: carries frames between hosts, and impairs them as its settings say until it heals.

use crate::profile::Impairment;
use crate::rng::Rng;

/// Nanoseconds that a link is busy with 16 bytes: about 64 Gb/s.
const NS_PER_16_BYTES: u64 = 2;

/// Counts of frames, by their fate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub sent: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub held: u64,
    pub corrupted: u64,
}

impl Tally {
    /// How many frames were impaired.
    pub fn harmed(&self) -> u64 {
        self.lost + self.duplicated + self.held + self.corrupted
    }
}

/// One direction between two hosts.
#[derive(Clone, Debug, Default)]
struct Link {
    /// When the last frame has left the sender.
    free_at: u64,
    /// When the last frame that was not held back arrives.
    last_arrival: u64,
    dark_from: u64,
    dark_until: u64,
}

/// All links.
pub struct Network {
    impairment: Impairment,
    heal_at: u64,
    hosts: usize,
    links: Vec<Link>,
    rng: Rng,
    pub tally: Tally,
    /// Some of the frames that went by lately.
    memory: Vec<Vec<u8>>,
    /// Whether the attacker listens.
    pub tapped: bool,
}

impl Network {
    /// A network between so many hosts.
    pub fn new(impairment: Impairment, heal_at: u64, hosts: usize, rng: Rng) -> Self {
        let mut network = Network {
            impairment,
            heal_at,
            hosts,
            links: vec![Link::default(); hosts * hosts],
            rng,
            tally: Tally::default(),
            memory: Vec::new(),
            tapped: false,
        };
        for i in 0..hosts * hosts {
            network.schedule_blackout(i, 0);
        }
        network
    }

    fn schedule_blackout(&mut self, link: usize, now: u64) {
        let (every, longest) = (self.impairment.blackout_every, self.impairment.blackout);
        if every == 0 {
            self.links[link].dark_from = u64::MAX;
            return;
        }
        let from = now + self.rng.below(2 * every);
        self.links[link].dark_from = from;
        self.links[link].dark_until = from + self.rng.below(longest);
    }

    /// Whether faults are over.
    pub fn healed(&self, now: u64) -> bool {
        now >= self.heal_at
    }

    /// Takes a frame; gives the copies that arrive, and when.
    pub fn carry(
        &mut self,
        now: u64,
        from: usize,
        to: usize,
        frame: Vec<u8>,
    ) -> Vec<(u64, Vec<u8>)> {
        self.tally.sent += 1;
        self.remember(&frame);
        let index = from * self.hosts + to;
        let busy = frame.len() as u64 * NS_PER_16_BYTES / 16 + 1;
        let healed = self.healed(now);
        let link = &mut self.links[index];
        link.free_at = link.free_at.max(now) + busy;
        let mut arrival = link.free_at + self.impairment.delay;
        if healed {
            link.last_arrival = link.last_arrival.max(arrival);
            return vec![(link.last_arrival, frame)];
        }
        if self.is_dark(index, now) || self.rng.chance(self.impairment.loss) {
            self.tally.lost += 1;
            return Vec::new();
        }
        if self.impairment.jitter != 0 {
            arrival += self.rng.below(self.impairment.jitter);
        }
        let mut out = Vec::with_capacity(1);
        if self.rng.chance(self.impairment.duplicate) {
            self.tally.duplicated += 1;
            let late = arrival + self.rng.below(self.impairment.hold.max(1));
            let copy = self.harm(frame.clone());
            out.push((late, copy));
        }
        if self.rng.chance(self.impairment.reorder) {
            self.tally.held += 1;
            arrival += self.rng.below(self.impairment.hold.max(1));
        } else {
            let link = &mut self.links[index];
            link.last_arrival = link.last_arrival.max(arrival);
            arrival = link.last_arrival;
        }
        let frame = self.harm(frame);
        out.push((arrival, frame));
        out
    }

    fn remember(&mut self, frame: &[u8]) {
        if !self.tapped {
            return;
        }
        if self.memory.len() < 64 {
            self.memory.push(frame.to_vec());
        } else if self.rng.one_in(4) {
            let at = self.rng.index(64);
            self.memory[at] = frame.to_vec();
        }
    }

    /// A frame that was sent before, if the network is tapped.
    pub fn overheard(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        if self.memory.is_empty() {
            return None;
        }
        Some(self.memory[rng.index(self.memory.len())].clone())
    }

    fn is_dark(&mut self, index: usize, now: u64) -> bool {
        while self.links[index].dark_until <= now && self.links[index].dark_from <= now {
            self.schedule_blackout(index, now);
        }
        (self.links[index].dark_from..self.links[index].dark_until).contains(&now)
    }

    /// Flips bits, if the settings say so: few enough for CRC-32 to find them all, or one burst.
    fn harm(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        if frame.is_empty() || !self.rng.chance(self.impairment.corrupt) {
            return frame;
        }
        self.tally.corrupted += 1;
        let at = self.rng.index(frame.len());
        if self.rng.one_in(4) {
            frame.truncate(at);
        } else if self.rng.one_in(2) {
            frame[at] ^= 1 << self.rng.below(8);
        } else {
            for byte in frame.iter_mut().skip(at).take(4) {
                *byte ^= self.rng.next() as u8;
            }
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(impairment: Impairment, heal_at: u64) -> (Vec<(u64, Vec<u8>)>, Tally) {
        let mut network = Network::new(impairment, heal_at, 2, Rng::new(5));
        let mut out = Vec::new();
        for i in 0..1000u64 {
            out.extend(network.carry(i * 100, 0, 1, i.to_be_bytes().to_vec()));
        }
        (out, network.tally)
    }

    fn storm() -> Impairment {
        Impairment {
            loss: 100_000,
            duplicate: 100_000,
            reorder: 100_000,
            corrupt: 100_000,
            delay: 1000,
            jitter: 500,
            hold: 10_000,
            blackout_every: 20_000,
            blackout: 2_000,
        }
    }

    #[test]
    fn a_network_that_is_well_harms_nothing() {
        for (impairment, heal_at) in [(Impairment::default(), u64::MAX), (storm(), 0)] {
            let (out, tally) = run(impairment, heal_at);
            assert_eq!(out.len(), 1000);
            assert!(out.windows(2).all(|w| w[0].0 <= w[1].0));
            assert!(out
                .iter()
                .enumerate()
                .all(|(i, f)| f.1 == (i as u64).to_be_bytes()));
            assert_eq!(
                tally.lost + tally.duplicated + tally.held + tally.corrupted,
                0
            );
        }
    }

    #[test]
    fn an_impaired_network_does_all_it_says() {
        let (out, tally) = run(storm(), u64::MAX);
        assert!(
            tally.lost > 50 && tally.duplicated > 30 && tally.held > 30,
            "{tally:?}"
        );
        assert!(tally.corrupted > 30, "{tally:?}");
        assert_eq!(out.len() as u64, 1000 - tally.lost + tally.duplicated);
        assert!(out.windows(2).any(|w| w[0].0 > w[1].0), "nothing overtaken");
    }
}
