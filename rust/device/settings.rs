// SPDX-License-Identifier: GPL-2.0

//! The settings of devices: the module's parameters, which do not change while it is loaded.

use kernel::sync::SetOnce;

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// How long a port's GID table is to be.
    pub(crate) gids: u16,
    /// Messages from a device to itself go without packets, until that is switched in sysfs.
    pub(crate) loopback: bool,
    /// Super-packets may be sent.
    pub(crate) segmentation: bool,
    /// Requesters keep READ responses that come behind a missing one.
    pub(crate) keep_responses: bool,
    /// Responders keep requests that come behind a missing one, and requesters send that one alone.
    pub(crate) keep_requests: bool,
    /// The congestion controller, until that is chosen in debugfs.
    pub(crate) controller: Controller,
    /// CNPs are sent.
    pub(crate) roce_np: bool,
    /// The least time between two CNPs of a queue pair, in microseconds, until that is changed in
    /// debugfs.
    pub(crate) np_min_time_between_cnps: u32,
}

/// A congestion controller, by its number in `oxe_controllers` of `ffi/helpers.c`.
#[derive(Clone, Copy)]
pub(crate) enum Controller {
    /// Windows alone.
    Cubic = 0,
    /// Connections react to CNPs, too.
    Dcqcn = 1,
    /// Windows follow the time of round trips.
    Delay = 2,
}

impl Controller {
    /// The one of that number, if there is one.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        [Controller::Cubic, Controller::Dcqcn, Controller::Delay]
            .into_iter()
            .find(|each| *each as u32 == number)
    }
}

/// What [`Settings::provide`] was called with.
static PROVIDED: SetOnce<Settings> = SetOnce::new();

impl Settings {
    /// Has all devices get these settings. To be called before the first device is made, once: a
    /// later call changes nothing. Any context.
    pub(crate) fn provide(self) {
        let _ = PROVIDED.populate(self);
    }

    /// The settings for a device that is made now; `None` before [`Settings::provide`]. Any
    /// context.
    pub(super) fn provided() -> Option<Self> {
        PROVIDED.copy()
    }
}
