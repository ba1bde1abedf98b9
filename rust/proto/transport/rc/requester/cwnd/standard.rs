// SPDX-License-Identifier: GPL-2.0

//! The controllers that a connection of the driver can have; which one is chosen when it is made.

use super::cubic::Cubic;
use super::delay::DelayBased;
use super::{Ack, CongestionControl, Delay, Ignored, Loss};

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub enum Standard {
    /// By losses.
    Cubic(Cubic),
    /// By the time of round trips.
    Delay(DelayBased),
}

/// Calls the controller.
macro_rules! dispatch {
    ($standard:expr, $controller:ident => $call:expr) => {
        match $standard {
            Standard::Cubic($controller) => $call,
            Standard::Delay($controller) => $call,
        }
    };
}

impl Standard {
    /// Those of a connection that is controlled by delay, of requests and of READ responses.
    pub fn by_delay() -> [Self; 2] {
        [
            Standard::Delay(DelayBased::REQUESTS),
            Standard::Delay(DelayBased::RESPONSES),
        ]
    }
}

impl CongestionControl for Standard {
    const REQUESTS: Self = Standard::Cubic(Cubic::REQUESTS);
    const RESPONSES: Self = Standard::Cubic(Cubic::RESPONSES);

    fn requests_anew(&self) -> Self {
        match self {
            Standard::Cubic(_) => Self::REQUESTS,
            Standard::Delay(_) => Standard::Delay(DelayBased::REQUESTS),
        }
    }

    fn responses_anew(&self) -> Self {
        match self {
            Standard::Cubic(_) => Self::RESPONSES,
            Standard::Delay(_) => Standard::Delay(DelayBased::RESPONSES),
        }
    }

    fn window(&self) -> u32 {
        dispatch!(self, controller => controller.window())
    }

    fn interval(&self, rtt: u64) -> Option<u64> {
        dispatch!(self, controller => controller.interval(rtt))
    }

    fn ssthresh(&self) -> u32 {
        dispatch!(self, controller => controller.ssthresh())
    }

    fn on_ack(&mut self, ack: Ack) {
        dispatch!(self, controller => controller.on_ack(ack));
    }

    fn on_loss(&mut self, loss: Loss) {
        dispatch!(self, controller => controller.on_loss(loss));
    }

    fn on_timeout(&mut self, loss: Loss) {
        dispatch!(self, controller => controller.on_timeout(loss));
    }

    fn restarts(&self) -> bool {
        dispatch!(self, controller => controller.restarts())
    }

    fn on_restart(&mut self) {
        dispatch!(self, controller => controller.on_restart());
    }

    fn ignored(&self) -> Ignored {
        dispatch!(self, controller => controller.ignored())
    }

    fn measures(&self) -> bool {
        dispatch!(self, controller => controller.measures())
    }

    fn on_delay(&mut self, delay: Delay) {
        dispatch!(self, controller => controller.on_delay(delay));
    }
}
