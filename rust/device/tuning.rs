// SPDX-License-Identifier: GPL-2.0

//! Root tunes a device in debugfs: the congestion controller of new connections and its parameters,
//! and the least time between two CNPs.

use super::settings::{Controller, Settings};
use crate::proto::transport::{Param, Params, ReactionPoint};
use crate::rdma::debugfs::Tunable;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{Atomic, Relaxed};

/// See the module's documentation.
#[pin_data]
pub(crate) struct Tuning {
    #[pin]
    reaction: SpinLockBh<Reaction>,
    /// In microseconds.
    cnp_interval: Atomic<u32>,
}

/// The congestion control of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Control {
    /// Its rate.
    pub(crate) reaction: ReactionPoint,
    /// Its windows follow the time of round trips, and not losses alone.
    pub(crate) by_delay: bool,
}

#[derive(Clone, Copy)]
struct Reaction {
    controller: Controller,
    params: Params,
}

impl Tuning {
    /// As the module's parameters say.
    pub(super) fn new(settings: Settings) -> impl PinInit<Self> {
        let reaction = Reaction {
            controller: settings.controller,
            params: Params::CONNECTX,
        };
        pin_init!(Self {
            reaction <- new_spinlock_bh!(reaction, "oxe_tuning"),
            cnp_interval: Atomic::new(settings.np_min_time_between_cnps),
        })
    }

    /// The congestion control of a new connection, on a line of so many Mb/s. Softirq or process
    /// context.
    pub(super) fn control(&self, line: u32) -> Control {
        let Reaction { controller, params } = *self.reaction.lock();
        Control {
            reaction: match controller {
                Controller::Cubic | Controller::Delay => ReactionPoint::NONE,
                Controller::Dcqcn => ReactionPoint::dcqcn(params, line),
            },
            by_delay: matches!(controller, Controller::Delay),
        }
    }

    /// The least time between two CNPs of a queue pair, in nanoseconds. Any context.
    pub(super) fn cnp_interval(&self) -> u64 {
        u64::from(self.cnp_interval.load(Relaxed)).saturating_mul(1000)
    }
}

/// How many files there are in `cc_params`: the last one is the notification point's.
const COUNT: usize = Param::ALL.len() + 1;

impl Tunable for Tuning {
    const PARAMS: &'static [&'static CStr] = &{
        let mut names = [c"np_min_time_between_cnps"; COUNT];
        let mut i = 0;
        while i < Param::ALL.len() {
            names[i] = Param::ALL[i].name;
            i += 1;
        }
        names
    };

    fn get(&self, index: usize) -> u32 {
        let reaction = self.reaction.lock();
        match index.checked_sub(1) {
            None => reaction.controller as u32,
            Some(at) => match Param::ALL.get(at) {
                Some(param) => param.get(&reaction.params),
                None => self.cnp_interval.load(Relaxed),
            },
        }
    }

    fn set(&self, index: usize, value: u32) -> Result {
        let mut reaction = self.reaction.lock();
        match index.checked_sub(1) {
            None => reaction.controller = Controller::numbered(value).ok_or(EINVAL)?,
            Some(at) => match Param::ALL.get(at) {
                Some(param) if !param.set(&mut reaction.params, value) => return Err(EINVAL),
                Some(_) => (),
                None => self.cnp_interval.store(value, Relaxed),
            },
        }
        Ok(())
    }
}
