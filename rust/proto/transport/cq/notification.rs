// SPDX-License-Identifier: GPL-2.0

//! Completion events: when the consumer of a CQ gets the one that it has asked for.
//!
//! A request for notification is about the completions that come after it (IBTA 11.4.2.2). For the
//! consumer in a process there is more: an event at once, if completions that it has not polled are
//! there already, and either it has polled or another one has come since the last event. ConnectX
//! does so, and programs that were written there rely on it: they poll some completions, request
//! the notification, and sleep. A program that requests it between the event and its polls gets no
//! event for what that event was about.
//!
//! Positions count the completions that were ever added; they wrap around.

/// The notification that the consumer has requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Armed {
    /// None.
    #[default]
    Not,
    /// Solicited completions and errors.
    Solicited,
    /// Any.
    Any,
}

/// The ends of a CQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The position after the newest completion.
    pub tail: u32,
    /// How many completions before it are not polled.
    pub unpolled: u32,
}

impl Ends {
    /// The position of the oldest completion that is not polled.
    #[inline]
    const fn head(self) -> u32 {
        self.tail.wrapping_sub(self.unpolled)
    }
}

/// The state of one CQ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notification {
    armed: Armed,
    /// The position after the newest completion that is solicited or an error, if there was one.
    solicited: Option<u32>,
    /// Where the ends were at the last event, if there was one and the position is known.
    told: Option<Ends>,
}

impl Notification {
    /// A completion was added, which `ends` includes. Returns whether an event is due.
    #[inline]
    #[must_use]
    pub fn on_completion(&mut self, solicited: bool, ends: impl Fn() -> Ends) -> bool {
        if solicited {
            self.solicited = Some(ends().tail);
        }
        let due = match self.armed {
            Armed::Not => false,
            Armed::Solicited => solicited,
            Armed::Any => true,
        };
        if due {
            self.tell(ends());
        }
        due
    }

    /// The consumer requests a notification: of a solicited completion or an error, or of any. A
    /// request for any outlasts a later one for solicited ones (IBTA 11.4.2.2).
    #[inline]
    pub fn arm(&mut self, solicited_only: bool) {
        if !solicited_only {
            self.armed = Armed::Any;
        } else if self.armed == Armed::Not {
            self.armed = Armed::Solicited;
        }
    }

    /// Which completions the consumer waits for.
    pub fn armed(&self) -> Armed {
        self.armed
    }

    /// The same, of a process. Returns whether an event is due at once, by which the request is
    /// done.
    #[must_use]
    pub fn arm_process(&mut self, solicited_only: bool, ends: Ends) -> bool {
        self.arm(solicited_only);
        let known = self.told.is_some_and(|told| {
            let (polled, added) = (told.head() != ends.head(), told.tail != ends.tail);
            !polled && !added
        });
        let wanted = match self.armed {
            Armed::Solicited => self.solicited.is_some_and(|solicited| {
                // It is among those that are not polled.
                ends.tail.wrapping_sub(solicited) < ends.unpolled
            }),
            _ => ends.unpolled != 0,
        };
        let due = wanted && !known;
        if due {
            self.tell(ends);
        }
        due
    }

    /// The positions change, as the completions move to another ring: `from` is `to` now.
    pub fn move_ends(&mut self, from: Ends, to: Ends) {
        let moved = |position: u32| position.wrapping_sub(from.tail).wrapping_add(to.tail);
        self.solicited = self.solicited.map(moved);
        // A consumer that has polled since then may get an event.
        self.told = self
            .told
            .filter(|told| told.head() == from.head())
            .map(|told| Ends {
                tail: moved(told.tail),
                ..told
            });
    }

    #[inline]
    fn tell(&mut self, ends: Ends) {
        self.armed = Armed::Not;
        self.told = Some(ends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CQ of a process, and how many events it got.
    #[derive(Default)]
    struct Cq {
        state: Notification,
        tail: u32,
        unpolled: u32,
        events: usize,
    }

    impl Cq {
        fn at(tail: u32) -> Self {
            Cq {
                tail,
                ..Cq::default()
            }
        }
        fn ends(&self) -> Ends {
            Ends {
                tail: self.tail,
                unpolled: self.unpolled,
            }
        }
        fn add(&mut self, solicited: &[bool]) {
            for solicited in solicited {
                self.tail = self.tail.wrapping_add(1);
                self.unpolled += 1;
                let ends = self.ends();
                self.events += usize::from(self.state.on_completion(*solicited, || ends));
            }
        }
        fn poll(&mut self, count: u32) {
            self.unpolled -= count;
        }
        fn arm(&mut self, solicited_only: bool) {
            let ends = self.ends();
            self.events += usize::from(self.state.arm_process(solicited_only, ends));
        }
        /// The events since the last call.
        fn events(&mut self) -> usize {
            std::mem::take(&mut self.events)
        }
    }

    /// Programs that were written on ConnectX poll some completions, arm the queue and sleep.
    #[test]
    fn some_are_polled_and_the_queue_is_armed() {
        for start in [0, u32::MAX - 20] {
            let mut cq = Cq::at(start);
            cq.add(&[false; 40]);
            let mut left = 40;
            while left > 0 {
                let now = left.min(16);
                cq.poll(now);
                left -= now;
                cq.arm(false);
                assert_eq!(cq.events(), usize::from(left > 0), "{left} are left");
            }
            cq.add(&[false]);
            assert_eq!(cq.events(), 1);
        }
    }

    #[test]
    fn what_was_there_before_the_first_request() {
        let mut cq = Cq::default();
        cq.arm(false);
        assert_eq!(cq.events(), 0);
        let mut cq = Cq::default();
        cq.add(&[false; 2]);
        cq.arm(false);
        assert_eq!(cq.events(), 1);
    }

    /// perftest and the pingpongs: get the event, arm, poll.
    #[test]
    fn armed_before_it_is_polled() {
        let mut cq = Cq::default();
        cq.arm(false);
        for _ in 0..5 {
            cq.add(&[false]);
            assert_eq!(cq.events(), 1, "the completion's own");
            cq.arm(false);
            cq.poll(1);
            assert_eq!(cq.events(), 0, "no other");
        }
    }

    /// One that came after the event may be one that the consumer does not look for.
    #[test]
    fn another_one_has_come_since_the_event() {
        let mut cq = Cq::default();
        cq.arm(false);
        cq.add(&[false; 2]);
        assert_eq!(cq.events(), 1);
        cq.arm(false);
        assert_eq!(cq.events(), 1);
        cq.poll(1);
        cq.arm(false);
        assert_eq!(cq.events(), 1);
    }

    #[test]
    fn armed_again_and_again() {
        let mut cq = Cq::default();
        cq.add(&[false; 3]);
        for _ in 0..10 {
            cq.arm(false);
        }
        assert_eq!(cq.events(), 1);
        // It is armed still.
        cq.add(&[false; 2]);
        assert_eq!(cq.events(), 1);
    }

    /// IBTA 11.4.2.2: a request for solicited completions is about them and errors alone.
    #[test]
    fn solicited_ones_alone() {
        let mut cq = Cq::default();
        cq.add(&[false, true, false]);
        cq.arm(true);
        assert_eq!(cq.events(), 1, "the second");
        cq.poll(1);
        cq.arm(true);
        assert_eq!(cq.events(), 1, "still there");
        cq.poll(1);
        cq.arm(true);
        assert_eq!(cq.events(), 0, "the third is none");
        cq.add(&[false]);
        assert_eq!(cq.events(), 0);
        cq.add(&[true]);
        assert_eq!(cq.events(), 1);
    }

    /// IBTA 11.4.2.2: a request for any completion outlasts one for solicited ones.
    #[test]
    fn a_request_for_any_outlasts_the_other() {
        let mut cq = Cq::default();
        cq.arm(false);
        cq.arm(true);
        cq.add(&[false]);
        assert_eq!(cq.events(), 1);
    }

    #[test]
    fn a_consumer_in_the_kernel_gets_none_at_once() {
        let mut state = Notification::default();
        let ends = |tail| Ends {
            tail,
            unpolled: tail,
        };
        assert!(!state.on_completion(false, || ends(1)));
        state.arm(false);
        assert!(state.on_completion(false, || ends(2)));
        assert!(!state.on_completion(false, || ends(3)));
    }

    #[test]
    fn completions_move_to_another_ring() {
        for polled in [0, 1] {
            let mut cq = Cq::at(1000);
            cq.arm(false);
            cq.add(&[true, true, true]);
            assert_eq!(cq.events(), 1);
            cq.arm(false);
            assert_eq!(cq.events(), 1);
            cq.poll(polled);
            let from = cq.ends();
            cq.tail = cq.unpolled;
            cq.state.move_ends(from, cq.ends());
            cq.arm(true);
            assert_eq!(cq.events(), polled as usize);
            cq.poll(cq.unpolled);
            cq.arm(true);
            assert_eq!(cq.events(), 0);
        }
    }
}
