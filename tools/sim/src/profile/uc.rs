// SPDX-License-Identifier: GPL-2.0

//! What programs and devices do with UC QPs.

use super::Profile;
use crate::rng::{Ppm, Rng};

/// The behaviour of programs and devices in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// A packet cannot be sent now, or there is no route for it.
    pub tx_fail: Ppm,
    pub no_route: Ppm,
    /// Payloads are copied some time after the packets were built.
    pub late_release: Ppm,
    /// A peer sends packets of wrong lengths.
    pub flaw: Ppm,
    /// A request has a fault; a WRITE is to memory that the peer may not write to.
    pub fault: Ppm,
    pub bad_key: Ppm,
    /// A receive is too short or not usable.
    pub short: Ppm,
    pub unusable: Ppm,
    /// Receives are posted that often only.
    pub scarce: bool,
    /// A request is a local operation.
    pub local: Ppm,
    /// A tick pauses the send queue, moves the QP to error or resets it, changes what it permits.
    pub pause: Ppm,
    pub kill: Ppm,
    pub reset: Ppm,
    pub change: Ppm,
}

impl Habits {
    /// Whether each message arrives on a network without faults.
    pub fn are_good(&self) -> bool {
        let harm = [self.no_route, self.fault, self.bad_key, self.short];
        let more = [self.flaw, self.unusable, self.kill, self.reset, self.change];
        !self.scarce && harm.iter().chain(&more).all(|ppm| *ppm == 0)
    }
}

/// The behaviour of programs and devices: often without anything that makes messages fail.
pub fn draw_habits(profile: Profile, rng: &mut Rng) -> Habits {
    let mut habits = Habits {
        tx_fail: rng.pick(&[0, 20_000, 200_000]),
        late_release: rng.pick(&[0, 200_000, 800_000]),
        local: rng.pick(&[0, 50_000, 300_000]),
        pause: rng.pick(&[0, 50_000, 200_000]),
        ..Habits::default()
    };
    if profile == Profile::Uc && !rng.one_in(4) {
        habits.no_route = rng.pick(&[0, 0, 5_000, 50_000]);
        habits.flaw = rng.pick(&[0, 0, 50_000]);
        habits.fault = rng.pick(&[0, 20_000, 100_000]);
        habits.bad_key = rng.pick(&[0, 50_000, 200_000]);
        habits.short = rng.pick(&[0, 100_000, 300_000]);
        habits.unusable = rng.pick(&[0, 0, 10_000, 50_000]);
        habits.scarce = rng.one_in(4);
        habits.kill = rng.pick(&[0, 0, 10_000, 50_000]);
        habits.reset = rng.pick(&[0, 0, 10_000, 50_000]);
        habits.change = rng.pick(&[0, 0, 50_000]);
    }
    habits
}
