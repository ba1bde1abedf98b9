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
    /// Connections react to CNPs, by DCQCN.
    pub(crate) dcqcn: bool,
    /// Connections are controlled by delay.
    pub(crate) delay: bool,
    /// The least time between two CNPs of a queue pair, in nanoseconds. `None`: CNPs are not sent.
    pub(crate) cnp_interval: Option<u64>,
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
