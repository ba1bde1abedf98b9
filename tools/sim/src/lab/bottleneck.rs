// SPDX-License-Identifier: GPL-2.0

//! A link with a queue before it that drops packets at its tail, and may mark them before.

use std::collections::VecDeque;

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
    /// Packets that find so many in the queue are marked, and how many were.
    mark_from: usize,
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
            mark_from: usize::MAX,
            marked: 0,
        }
    }

    /// The same, which marks packets that find more than `threshold` in the queue.
    pub fn marking(self, threshold: Option<usize>) -> Bottleneck {
        Bottleneck {
            mark_from: threshold.map_or(usize::MAX, |most| most + 1),
            ..self
        }
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

    /// A packet of so many bytes comes; gives the time when it has left the link and whether it is
    /// marked, unless it is dropped.
    pub fn pass(&mut self, now: u64, bytes: u64) -> Option<(u64, bool)> {
        self.drain(now);
        let marks = self.packets.len() >= self.mark_from;
        let left = self.offer(now, bytes)?;
        self.marked += u64::from(marks);
        Some((left, marks))
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
        let mut link = Bottleneck::new(1e9, 10_000).marking(Some(2));
        let mut marks = || link.pass(0, 1000).expect("there is room").1;
        assert_eq!(
            [marks(), marks(), marks(), marks()],
            [false, false, false, true]
        );
        assert!(link.pass(8000, 1000).expect("one has left").1);
        assert!(!link.pass(24_000, 1000).expect("three have left").1);
        assert_eq!(link.marked, 2);
        let mut link = Bottleneck::new(1e9, 10_000).marking(None);
        assert!((0..10).all(|_| !link.pass(0, 1000).expect("there is room").1));
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
