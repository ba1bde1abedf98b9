// SPDX-License-Identifier: GPL-2.0

//! A controller that controls nothing: a window of eight packets, whatever happens. It must miss
//! some of the lab's measures.

use oxe_proto::transport::{Ack, CongestionControl, Loss};

/// Its window, in packets.
const WINDOW: u32 = 8;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl CongestionControl for Fixed {
    const REQUESTS: Self = Fixed;
    const RESPONSES: Self = Fixed;

    fn window(&self) -> u32 {
        WINDOW
    }

    fn interval(&self, _: u64) -> Option<u64> {
        None
    }

    fn ssthresh(&self) -> u32 {
        WINDOW
    }

    fn on_ack(&mut self, _: Ack) {}

    fn on_loss(&mut self, _: Loss) {}

    fn on_timeout(&mut self, _: Loss) {}

    fn restarts(&self) -> bool {
        false
    }

    fn on_restart(&mut self) {}
}
