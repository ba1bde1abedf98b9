// SPDX-License-Identifier: GPL-2.0

//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", IEEE/ACM Transactions on Networking, 1993, figure 2). The mean length of the queue
//! decides, in packets.

use crate::rng::Rng;

/// Its parameters, by the names of the paper: `min_th` and `max_th`, `max_p`, `w_q`.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Below this mean nothing is chosen, and from the other one on everything.
    pub least: f64,
    pub most: f64,
    /// The probability just below `most`.
    pub probability: f64,
    /// What the newest length adds to the mean.
    pub weight: f64,
}

/// What it knows of a queue.
#[derive(Clone, Debug)]
pub struct Red {
    parameters: Parameters,
    mean: f64,
    /// Packets since the last one that was chosen, or that came below `least`: -1 then.
    count: f64,
}

impl Red {
    /// Of a queue that was empty for long.
    pub fn new(parameters: Parameters) -> Red {
        Red {
            parameters,
            mean: 0.0,
            count: -1.0,
        }
    }

    /// Whether the packet that comes now is chosen. It finds `queued` packets; if that is none, the
    /// queue was empty for as long as `idle` packets would take.
    pub fn chooses(&mut self, queued: usize, idle: f64, rng: &mut Rng) -> bool {
        let weight = self.parameters.weight;
        if queued == 0 {
            self.mean *= (1.0 - weight).powf(idle);
        } else {
            self.mean += weight * (queued as f64 - self.mean);
        }
        let Parameters { least, most, .. } = self.parameters;
        if self.mean < least {
            self.count = -1.0;
            return false;
        }
        self.count += 1.0;
        let part = (self.mean - least) / (most - least);
        let base = self.parameters.probability * part;
        // So that the gaps between chosen packets are evenly distributed.
        let left = 1.0 - self.count * base;
        let chosen =
            part >= 1.0 || left <= 0.0 || (rng.below(1 << 20) as f64) * left < base * 1048576.0;
        if chosen {
            self.count = 0.0;
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Parameters = Parameters {
        least: 10.0,
        most: 30.0,
        probability: 0.1,
        weight: 0.01,
    };

    /// The share that is chosen of packets that find so many.
    fn share(queued: usize) -> f64 {
        let (mut red, mut rng) = (Red::new(SOME), Rng::new(1));
        for _ in 0..2000 {
            red.chooses(queued, 0.0, &mut rng);
        }
        let chosen = (0..100_000).filter(|_| red.chooses(queued, 0.0, &mut rng));
        chosen.count() as f64 / 100_000.0
    }

    /// At the probability p the gaps are up to 1/p packets, each as often: 2p are chosen.
    #[test]
    fn the_mean_decides_how_many_are_chosen() {
        assert_eq!((share(5), share(9), share(31)), (0.0, 0.0, 1.0));
        for (queued, p) in [(12, 0.01), (20, 0.05), (28, 0.09)] {
            let (expected, found) = (2.0 * p, share(queued));
            assert!((found / expected - 1.0).abs() < 0.05, "{queued}: {found}");
        }
    }

    #[test]
    fn a_burst_changes_the_mean_little_and_silence_ends_it() {
        let (mut red, mut rng) = (Red::new(SOME), Rng::new(1));
        let burst = |red: &mut Red, rng: &mut Rng, count| {
            (0..count).filter(|_| red.chooses(40, 0.0, rng)).count()
        };
        // 40 (1 - 0.99^n) is 10 for n = 29, and 30 for n = 138.
        assert_eq!(burst(&mut red, &mut rng, 28), 0);
        assert!(burst(&mut red, &mut rng, 110) < 20);
        assert_eq!(burst(&mut red, &mut rng, 100), 100);
        // From more than 30 below 10 in 120 packets' time.
        assert!(red.chooses(0, 10.0, &mut rng) || red.mean > 30.0);
        assert!(!red.chooses(0, 130.0, &mut rng));
        assert!(red.mean < 10.0, "{}", red.mean);
    }
}
