// SPDX-License-Identifier: GPL-2.0

//! The judge of a queue pair that reacts to congestion notifications: it sends no faster than they
//! leave it.
//!
//! The rate is reckoned anew here, in steps of a microsecond and in floating point, by the rules of
//! DCQCN (Zhu et al., SIGCOMM 2015, section 5) with ConnectX's parameters, with some tolerance.

use crate::check::{ensure, Violation};
use crate::profile::US;

/// Bits in a second of 1 Mb/s.
const MBIT: f64 = 1e6;
/// Bytes of a packet besides its payload.
const OVERHEAD: u64 = 44;
/// A burst is what the rate sends in this time, ns.
const BURST: f64 = 60_000.0;
/// Rates may be off by so much.
const TOLERANCE: f64 = 1.02;

/// What the notifications leave.
#[derive(Clone, Debug)]
struct Limit {
    rate: f64,
    target: f64,
    alpha: f64,
    /// The ends of the current periods: of alpha, and of growth by time.
    alpha_ends: u64,
    time_ends: u64,
    /// There was a notification in the period of alpha.
    notified: bool,
    cut_at: u64,
    owes_cut: bool,
    /// Steps of growth since the cut, and bytes towards the next one.
    by_time: u32,
    by_bytes: u32,
    bytes: u64,
}

/// A queue pair that reacts.
#[derive(Clone, Debug)]
pub struct Rate {
    line: f64,
    limit: Option<Limit>,
    /// When the rate has sent what was sent, ns.
    free_at: f64,
    /// How many of its packets were marked.
    pub marked: u32,
}

impl Rate {
    /// One that was not notified, on a line of so many Mb/s.
    pub fn new(mbps: u32) -> Rate {
        Rate {
            line: f64::from(mbps) * MBIT,
            limit: None,
            free_at: 0.0,
            marked: 0,
        }
    }

    /// The rate at the time `now`, if it is limited.
    fn rate(&mut self, now: u64) -> Option<f64> {
        let line = self.line;
        let limit = self.limit.as_mut()?;
        limit.go_on(now, line);
        let rate = limit.rate;
        if line - rate < 1.0 {
            self.limit = None;
            return None;
        }
        Some(rate)
    }

    /// Whether its rate was limited when it was last looked at.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// A notification reaches the queue pair.
    pub fn on_notification(&mut self, now: u64) {
        if self.rate(now).is_none() {
            let mut limit = Limit {
                rate: self.line,
                target: self.line,
                alpha: 1023.0 / 1024.0,
                alpha_ends: now + US,
                time_ends: 0,
                notified: true,
                cut_at: now,
                owes_cut: false,
                by_time: 0,
                by_bytes: 0,
                bytes: 0,
            };
            limit.cut(now);
            self.limit = Some(limit);
        } else if let Some(limit) = &mut self.limit {
            if now < limit.cut_at + 4 * US {
                limit.owes_cut = true;
            } else {
                limit.cut(now);
            }
            limit.notified = true;
        }
    }

    /// Packets with so many bytes of payload each are to be sent.
    pub fn on_sent(&mut self, now: u64, packets: u16, payload: u32) -> Result<(), Violation> {
        let Some(rate) = self.rate(now).filter(|_| payload > 0) else {
            return Ok(());
        };
        let each = u64::from(payload) + OVERHEAD;
        let bytes = each * u64::from(packets);
        let nanos = |bytes: u64| bytes as f64 * 8e9 / rate / TOLERANCE;
        let at = now as f64;
        self.free_at = self.free_at.max(at - BURST) + nanos(bytes);
        // A burst, and the packet that does not fit into it.
        let most = at + BURST * TOLERANCE + nanos(each) * TOLERANCE + 2000.0;
        let early = self.free_at > most;
        ensure!(
            "DCQCN 5",
            !early,
            "sends {packets} packets of {each} bytes at {rate} b/s, {} ns too early",
            self.free_at - most
        );
        if let Some(limit) = &mut self.limit {
            limit.count(bytes, self.line);
        }
        Ok(())
    }

    /// Packets were taken back: those that come instead may be sent at once.
    pub fn taken_back(&mut self) {
        self.free_at = 0.0;
    }

    /// The queue pair was reset.
    pub fn reset(&mut self) {
        self.limit = None;
        self.free_at = 0.0;
    }
}

impl Limit {
    /// Everything that happens of itself until `now`.
    fn go_on(&mut self, now: u64, line: f64) {
        loop {
            let cut_due = self.cut_at + 4 * US;
            let cuts = self.owes_cut && cut_due <= now;
            let next = self.alpha_ends.min(self.time_ends);
            if cuts && cut_due < next {
                self.cut(cut_due);
            } else if next > now {
                return;
            } else if next == self.alpha_ends {
                self.alpha *= 1019.0 / 1024.0;
                if std::mem::take(&mut self.notified) {
                    self.alpha += 5.0 / 1024.0;
                }
                self.alpha_ends += US;
            } else {
                self.time_ends += 300 * US;
                self.by_time += 1;
                self.grow(line);
            }
        }
    }

    fn cut(&mut self, now: u64) {
        if self.by_time + self.by_bytes > 0 {
            self.target = self.rate;
        }
        self.rate = (self.rate * (1.0 - self.alpha / 2.0).max(0.5)).max(MBIT);
        self.cut_at = now;
        self.owes_cut = false;
        self.time_ends = now + 300 * US;
        (self.by_time, self.by_bytes, self.bytes) = (0, 0, 0);
    }

    fn count(&mut self, bytes: u64, line: f64) {
        self.bytes += bytes;
        while self.bytes >= 32_767 {
            self.bytes -= 32_767;
            self.by_bytes += 1;
            self.grow(line);
        }
    }

    fn grow(&mut self, line: f64) {
        let step = match (self.by_time > 1, self.by_bytes > 1) {
            (true, true) => 50.0,
            (false, false) => 0.0,
            _ => 5.0,
        };
        self.target = (self.target + step * MBIT).min(line);
        self.rate = (self.rate + self.target) / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000 * US;

    #[test]
    fn a_notification_halves_the_rate() {
        let mut rate = Rate::new(1000);
        rate.on_sent(MS, 1000, 1024).expect("there is no limit");
        rate.on_notification(MS);
        // 120 us at 500 Mb/s, as it may be late: 7500 bytes.
        rate.on_sent(MS, 7, 1024).expect("a burst");
        rate.on_sent(MS, 1, 1024).expect("the last packet of it");
        assert!(rate.clone().on_sent(MS, 1, 1024).is_err());
        assert!(rate.clone().on_sent(MS, 1, 0).is_ok(), "no payload");
        rate.on_sent(MS + 72 * US, 4, 1024).expect("the next burst");
        assert!(rate.on_sent(MS + 72 * US, 1, 1024).is_err());
        rate.taken_back();
        rate.on_sent(MS + 72 * US, 4, 1024).expect("anew");
        rate.reset();
        rate.on_sent(MS + 72 * US, 1000, 1024).expect("no limit");
    }

    #[test]
    fn the_limit_ends() {
        let mut rate = Rate::new(1000);
        rate.on_notification(MS);
        assert!(rate.rate(3 * MS).is_some());
        assert_eq!(rate.rate(500 * MS), None);
    }
}
