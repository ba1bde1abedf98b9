// SPDX-License-Identifier: GPL-2.0

//! CoDel (RFC 8289): the time that packets have waited decides, and not how many wait. Times are in
//! nanoseconds.

/// What waits no longer than this is well (RFC 8289 4.3).
const TARGET: u64 = 5_000_000;
/// A queue that was not well for so long is a standing one (RFC 8289 4.2).
const INTERVAL: u64 = 100_000_000;

/// What it knows of a queue.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    /// When a queue that is not well will have been so for the interval.
    first_above: Option<u64>,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl Codel {
    /// Whether the packet that leaves the queue at the time `now` is chosen: dropped or marked. The
    /// RFC lets the last one in a queue pass, too: one that has waited so long is seldom the last.
    pub fn chooses(&mut self, now: u64, waited: u64) -> bool {
        let standing = self.is_standing(now, waited);
        if !standing {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next = control_law(self.drop_next, self.count);
            return true;
        }
        // It begins where it ended, if that was lately (RFC 8289 5.4).
        self.dropping = true;
        let delta = self.count - self.last_count;
        let lately = now.saturating_sub(self.drop_next) < 16 * INTERVAL;
        self.count = if delta > 1 && lately { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = control_law(now, self.count);
        true
    }

    fn is_standing(&mut self, now: u64, waited: u64) -> bool {
        if waited < TARGET {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + INTERVAL);
        now >= since
    }
}

/// The time of the next drop (RFC 8289 5.5).
fn control_law(at: u64, count: u32) -> u64 {
    at + (INTERVAL as f64 / f64::from(count).sqrt()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times in milliseconds at which a packet is chosen, one a millisecond.
    fn chosen(codel: &mut Codel, times: std::ops::Range<u64>, waited: u64) -> Vec<u64> {
        times.filter(|ms| codel.chooses(ms * MS, waited)).collect()
    }

    #[test]
    fn a_standing_queue_is_cut_ever_more_often() {
        let mut codel = Codel::default();
        assert_eq!(chosen(&mut codel, 0..500, 4 * MS), []);
        // 100 ms, and then 100 / sqrt(n) later.
        let times = chosen(&mut codel, 500..900, 6 * MS);
        assert_eq!(times, [600, 700, 771, 829, 879]);
        assert_eq!(chosen(&mut codel, 900..1000, 4 * MS), []);
        // It goes on at the rate that it had come to: 5 - 1.
        let times = chosen(&mut codel, 1000..1200, 6 * MS);
        assert_eq!(times, [1100, 1150, 1195]);
    }

    #[test]
    fn a_queue_that_is_not_standing_is_left_alone() {
        let mut codel = Codel::default();
        for round in 0..10 {
            let at = 100 * round;
            assert_eq!(chosen(&mut codel, at..at + 99, 50 * MS), []);
            assert!(!codel.chooses((at + 99) * MS, MS));
        }
    }
}
