// SPDX-License-Identifier: GPL-2.0

//! Moderation of completion events: an event waits for further completions, which it then reports
//! together.
//!
//! The consumer sets a count and a period. An event is held until as many completions as the count
//! have come, or until the period after the first one has passed, whatever is first. A completion
//! that is urgent ends the wait at once: its sender asked for a solicited event, or it is an error.
//! An event that is held is owed until it is delivered, whatever the consumer does meanwhile.

use super::common::Instant;

/// The state of one completion queue: which event is held, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventModeration {
    /// Completions that an event waits for; 0 and 1: it waits for none.
    count: u32,
    /// How long an event is held at most, in nanoseconds; 0: not at all.
    period: u64,
    /// The completions that the held event has to report; 0: no event is held.
    held: u32,
    /// When the held event is due.
    due: Instant,
}

/// The step that follows a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moderated {
    /// No event is due.
    Nothing,
    /// Deliver the event now.
    Deliver,
    /// From this completion on an event is held: call [`EventModeration::poll`] at that time.
    Hold(Instant),
}

impl EventModeration {
    /// Sets count and period (in microseconds). Events are not held if either is zero, or the count
    /// is one. Returns whether an event was held, which is to be delivered now.
    #[must_use]
    pub fn set(&mut self, count: u16, period: u16) -> bool {
        self.count = count.into();
        self.period = u64::from(period).saturating_mul(1000);
        core::mem::take(&mut self.held) != 0
    }

    /// A completion came. `wanted`: the consumer has asked for an event for it.
    #[inline]
    #[must_use]
    pub fn on_completion(&mut self, now: Instant, wanted: bool, urgent: bool) -> Moderated {
        if self.held == 0 && !wanted {
            return Moderated::Nothing;
        }
        let first = self.held == 0;
        self.held = self.held.saturating_add(1);
        if urgent || self.period == 0 || self.held >= self.count {
            self.held = 0;
            return Moderated::Deliver;
        }
        if !first {
            return Moderated::Nothing;
        }
        self.due = now.after(self.period);
        Moderated::Hold(self.due)
    }

    /// It is time to look at the held event: [`Moderated::Hold`] if it is due later only.
    #[must_use]
    pub fn poll(&mut self, now: Instant) -> Moderated {
        if self.held == 0 {
            return Moderated::Nothing;
        }
        if now < self.due {
            return Moderated::Hold(self.due);
        }
        self.held = 0;
        Moderated::Deliver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(count: u16, period: u16) -> EventModeration {
        let mut moderation = EventModeration::default();
        assert!(!moderation.set(count, period));
        moderation
    }

    #[test]
    fn off_delivers_each_event() {
        for (count, period) in [(0, 0), (0, 9), (1, 9), (9, 0)] {
            let mut moderation = set(count, period);
            for _ in 0..3 {
                let step = moderation.on_completion(Instant(5), true, false);
                assert_eq!(step, Moderated::Deliver);
                let step = moderation.on_completion(Instant(5), false, true);
                assert_eq!(step, Moderated::Nothing);
                assert_eq!(moderation.poll(Instant(u64::MAX)), Moderated::Nothing);
            }
        }
    }

    #[test]
    fn the_count_delivers() {
        let mut moderation = set(3, 10);
        for at in [0, 100, 200] {
            let step = moderation.on_completion(Instant(at), true, false);
            assert_eq!(step, Moderated::Hold(Instant(at + 10_000)));
            // The consumer is not armed any more, and these count all the same.
            let step = moderation.on_completion(Instant(at + 1), false, false);
            assert_eq!(step, Moderated::Nothing);
            let step = moderation.on_completion(Instant(at + 2), false, false);
            assert_eq!(step, Moderated::Deliver);
            let step = moderation.on_completion(Instant(at + 3), false, false);
            assert_eq!(step, Moderated::Nothing);
        }
    }

    #[test]
    fn the_period_delivers_counted_from_the_first_completion() {
        let mut moderation = set(100, 10);
        let step = moderation.on_completion(Instant(0), true, false);
        assert_eq!(step, Moderated::Hold(Instant(10_000)));
        // A consumer that polls by itself and arms again does not defer the event.
        for at in [1, 5000, 9999] {
            let step = moderation.on_completion(Instant(at), true, false);
            assert_eq!(step, Moderated::Nothing);
            let step = moderation.poll(Instant(at));
            assert_eq!(step, Moderated::Hold(Instant(10_000)));
        }
        assert_eq!(moderation.poll(Instant(10_000)), Moderated::Deliver);
        assert_eq!(moderation.poll(Instant(10_001)), Moderated::Nothing);
    }

    #[test]
    fn urgent_completions_do_not_wait() {
        let mut moderation = set(100, 10);
        let step = moderation.on_completion(Instant(0), true, true);
        assert_eq!(step, Moderated::Deliver);
        let _ = moderation.on_completion(Instant(0), true, false);
        let step = moderation.on_completion(Instant(1), false, true);
        assert_eq!(step, Moderated::Deliver);
        assert_eq!(moderation.poll(Instant(10_000)), Moderated::Nothing);
    }

    #[test]
    fn another_setting_delivers_a_held_event() {
        let mut moderation = set(100, 10);
        let _ = moderation.on_completion(Instant(0), true, false);
        assert!(moderation.set(100, 20));
        assert!(!moderation.set(0, 0));
        assert_eq!(moderation.poll(Instant(u64::MAX)), Moderated::Nothing);
    }
}
