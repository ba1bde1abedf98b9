// SPDX-License-Identifier: GPL-2.0

//! The controller that oxe had before: its window grows by a fixed step with each acknowledgement,
//! and is halved by a loss. After a timeout it doubles with each acknowledgement, as in
//! RFC 5681 3.1.

use crate::model::op;
use oxe_proto::transport::{Ack, CongestionControl, Loss};

/// Its largest window of request packets.
const MAX_CWND: u32 = 128;

/// Response packets of a READ chunk.
const READ_CHUNK: u32 = op::READ_CHUNK as u32;

/// Congestion window after a timeout, in packets. It doubles with each acknowledgement. The lost
/// packets may only be queued at a slow receiver, which a full window of retransmissions would keep
/// busy.
const RESTART_CWND: u32 = 4;

/// Smallest congestion window after a loss, in packets.
const MIN_CWND: u32 = 16;

/// Growth of the congestion window per acknowledgement above `ssthresh`, in packets.
const CWND_STEP: u32 = 4;

/// Largest window of outstanding READ responses, in PSNs.
const MAX_READ_WINDOW: u32 = 32 * READ_CHUNK;

/// Initial window of outstanding READ responses, in PSNs: NICs queue some hundreds of packets.
const INITIAL_READ_WINDOW: u32 = 4 * READ_CHUNK;

/// Growth of that window per chunk whose response is complete, in PSNs.
const READ_WINDOW_STEP: u32 = READ_CHUNK / 16;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct AckClocked {
    window: u32,
    /// Below it the window doubles.
    ssthresh: u32,
    /// The largest window, and the smallest one after a loss.
    max: u32,
    min: u32,
    /// The window and `ssthresh` after a timeout.
    restart: u32,
    restart_ssthresh: u32,
    /// Growth per acknowledgement above `ssthresh`.
    step: u32,
    /// A loss halves the packets in flight, if they are less than the window.
    halves_flight: bool,
}

impl CongestionControl for AckClocked {
    const REQUESTS: Self = AckClocked {
        window: MAX_CWND,
        ssthresh: MAX_CWND,
        max: MAX_CWND,
        min: MIN_CWND,
        restart: RESTART_CWND,
        restart_ssthresh: MAX_CWND,
        step: CWND_STEP,
        halves_flight: false,
    };
    const RESPONSES: Self = AckClocked {
        window: INITIAL_READ_WINDOW,
        ssthresh: READ_CHUNK,
        max: MAX_READ_WINDOW,
        min: READ_CHUNK,
        restart: READ_CHUNK,
        restart_ssthresh: READ_CHUNK,
        step: READ_WINDOW_STEP,
        halves_flight: true,
    };

    #[inline]
    fn window(&self) -> u32 {
        self.window
    }

    fn interval(&self, _: u64) -> Option<u64> {
        None
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    #[inline]
    fn on_ack(&mut self, ack: Ack) {
        if self.halves_flight && ack.packets == 0 {
            return; // no READ chunk is complete
        }
        self.window = if self.window < self.ssthresh {
            self.window.saturating_mul(2).min(self.ssthresh)
        } else {
            self.window.saturating_add(self.step).min(self.max)
        };
    }

    fn on_loss(&mut self, loss: Loss) {
        let in_flight = match self.halves_flight {
            true => loss.in_flight.min(self.window),
            false => self.window,
        };
        self.window = (in_flight / 2).max(self.min);
        self.ssthresh = self.window;
    }

    fn on_timeout(&mut self, _: Loss) {
        self.window = self.restart;
        self.ssthresh = self.restart_ssthresh;
    }

    fn restarts(&self) -> bool {
        false
    }

    fn on_restart(&mut self) {}
}
