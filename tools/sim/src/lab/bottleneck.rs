// SPDX-License-Identifier: GPL-2.0

//! A link with a queue before it that drops packets at its tail. It may choose others before, which
//! it marks if they are ECN-capable.

use super::codel::Codel;
use super::red::{Parameters, Red};
use crate::rng::Rng;
use std::collections::VecDeque;

/// How packets are chosen.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// None are.
    Tail,
    /// Those that find more than so many in the queue. What is not ECN-capable is let through.
    Above(usize),
    /// By [`Red`]. What is not ECN-capable is dropped.
    Red(Parameters),
    /// By [`Codel`]. What is not ECN-capable is dropped.
    Codel,
}

/// The same, with what it knows.
#[derive(Clone, Debug)]
enum Chooser {
    Tail,
    Above(usize),
    Red(Red),
    Codel(Codel),
}

/// See the module's documentation. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Bits in a second.
    rate: f64,
    /// Most bytes in the queue, the packet on the link included.
    limit: u64,
    /// The packets in the queue: when each has left the link, and its bytes.
    packets: VecDeque<(u64, u64)>,
    /// When the last of them has left.
    free_at: u64,
    /// Bytes in the queue at the time `at`, and the time integral of that before.
    queued: u64,
    at: u64,
    area: f64,
    pub offered: u64,
    pub dropped: u64,
    chooser: Chooser,
    pub marked: u64,
}

impl Bottleneck {
    /// A link that is idle.
    pub fn new(rate: f64, limit: u64) -> Bottleneck {
        Bottleneck {
            rate,
            limit,
            packets: VecDeque::new(),
            free_at: 0,
            queued: 0,
            at: 0,
            area: 0.0,
            offered: 0,
            dropped: 0,
            chooser: Chooser::Tail,
            marked: 0,
        }
    }

    /// The same, which chooses packets before its queue is full.
    pub fn choosing(self, choice: Choice) -> Bottleneck {
        let chooser = match choice {
            Choice::Tail => Chooser::Tail,
            Choice::Above(most) => Chooser::Above(most),
            Choice::Red(parameters) => Chooser::Red(Red::new(parameters)),
            Choice::Codel => Chooser::Codel(Codel::default()),
        };
        Bottleneck { chooser, ..self }
    }

    /// The time is `now`: nothing has changed since the last call but what left in between.
    fn drain(&mut self, now: u64) {
        while let Some((left, bytes)) = self.packets.front().copied() {
            if left > now {
                break;
            }
            self.advance(left);
            self.queued -= bytes;
            self.packets.pop_front();
        }
        self.advance(now);
    }

    fn advance(&mut self, to: u64) {
        self.area += self.queued as f64 * to.saturating_sub(self.at) as f64;
        self.at = self.at.max(to);
    }

    /// A packet of so many bytes comes, ECN-capable or not; gives the time when it has left the
    /// link, and whether it is marked, unless it is dropped.
    pub fn pass(
        &mut self,
        now: u64,
        bytes: u64,
        capable: bool,
        rng: &mut Rng,
    ) -> Option<(u64, bool)> {
        self.drain(now);
        let chosen = self.chooses(now, bytes, rng);
        let lenient = matches!(self.chooser, Chooser::Above(_));
        if chosen && !capable && !lenient {
            self.offered += 1;
            self.dropped += 1;
            return None;
        }
        let left = self.offer(now, bytes)?;
        let marked = chosen && capable;
        self.marked += u64::from(marked);
        Some((left, marked))
    }

    /// Whether the packet that comes now is chosen.
    fn chooses(&mut self, now: u64, bytes: u64, rng: &mut Rng) -> bool {
        let queued = self.packets.len();
        match &mut self.chooser {
            Chooser::Tail => false,
            Chooser::Above(most) => queued > *most,
            Chooser::Red(red) => {
                let idle = now.saturating_sub(self.free_at) as f64;
                let idle = idle * self.rate / (bytes as f64 * 8e9);
                red.chooses(queued, idle, rng)
            }
            // The queue keeps its order: what the packet will have waited is known already.
            Chooser::Codel(codel) => {
                let leaves = self.free_at.max(now);
                codel.chooses(leaves, leaves - now)
            }
        }
    }

    /// A packet of so many bytes comes; gives the time when it has left the link, unless it is
    /// dropped.
    pub fn offer(&mut self, now: u64, bytes: u64) -> Option<u64> {
        self.drain(now);
        self.offered += 1;
        if self.queued + bytes > self.limit {
            self.dropped += 1;
            return None;
        }
        let busy = (bytes as f64 * 8e9 / self.rate).ceil() as u64;
        self.free_at = self.free_at.max(now) + busy;
        self.queued += bytes;
        self.packets.push_back((self.free_at, bytes));
        Some(self.free_at)
    }

    /// Forgets its counts, not its queue.
    pub fn restart(&mut self, now: u64) {
        self.drain(now);
        self.area = 0.0;
        self.offered = 0;
        self.dropped = 0;
        self.marked = 0;
    }

    /// The mean length of the queue over the last `elapsed` nanoseconds, in bytes.
    pub fn mean(&mut self, now: u64, elapsed: u64) -> f64 {
        self.drain(now);
        self.area / elapsed as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_find_a_queue_are_marked() {
        let mut rng = Rng::new(1);
        let mut link = Bottleneck::new(1e9, 10_000).choosing(Choice::Above(2));
        let mut marks = || link.pass(0, 1000, true, &mut rng).expect("there is room").1;
        assert_eq!(
            [marks(), marks(), marks(), marks()],
            [false, false, false, true]
        );
        let mut pass = |now, capable| link.pass(now, 1000, capable, &mut rng);
        assert!(!pass(8000, false).expect("one has left").1);
        assert!(pass(16_000, true).expect("another has left").1);
        assert!(!pass(40_000, true).expect("three have left").1);
        assert_eq!((link.marked, link.dropped), (2, 0));
        let mut link = Bottleneck::new(1e9, 10_000);
        let mut pass = || link.pass(0, 1000, true, &mut rng);
        assert!((0..10).all(|_| !pass().expect("there is room").1));
    }

    /// A queue that stands: so many are dropped, or marked if they are ECN-capable.
    fn chosen(choice: Choice, capable: bool) -> (u64, u64) {
        let mut rng = Rng::new(1);
        let mut link = Bottleneck::new(1e9, 2_000_000).choosing(choice);
        for _ in 0..1500 {
            link.offer(0, 1000);
        }
        // 12 ms behind 1,500 packets, for 0.8 s.
        for n in 0..100_000 {
            link.pass(8000 * n, 1000, capable, &mut rng);
        }
        (link.dropped, link.marked)
    }

    #[test]
    fn what_is_chosen_is_marked_if_it_can_be() {
        let red = Choice::Red(Parameters {
            least: 1000.0,
            most: 2000.0,
            probability: 0.02,
            weight: 0.002,
        });
        for (choice, least) in [(red, 300), (Choice::Codel, 10)] {
            let (dropped, marked) = chosen(choice, true);
            assert!(dropped == 0 && marked > least, "{choice:?}: {marked}");
            let (dropped, marked) = chosen(choice, false);
            assert!(marked == 0 && dropped > least, "{choice:?}: {dropped}");
        }
        assert_eq!(chosen(Choice::Tail, true), (0, 0));
    }

    #[test]
    fn a_full_queue_drops_and_drains_at_its_rate() {
        // A byte takes 8 ns.
        let mut link = Bottleneck::new(1e9, 3000);
        assert_eq!(link.offer(0, 1000), Some(8000));
        assert_eq!(link.offer(0, 1000), Some(16_000));
        assert_eq!(link.offer(0, 1000), Some(24_000));
        assert_eq!(link.offer(7999, 1000), None);
        assert_eq!(link.offer(8000, 1000), Some(32_000));
        assert_eq!((link.offered, link.dropped), (5, 1));
        // 3000 bytes for 16 us, and 2000 and 1000 for 8 us each.
        let mean = link.mean(32_000, 32_000);
        assert!((mean - 2250.0).abs() < 1.0, "{mean}");
    }
}
