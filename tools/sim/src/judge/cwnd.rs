// SPDX-License-Identifier: GPL-2.0

//! How much a requester may have in flight, as the judge on the wire reckons it.
//!
//! The specification leaves the number of requests in flight to the requester, and lets it go back
//! to a lost packet (IBTA 9.7.5.2, 9.7.6.1): all packets after the loss were sent in vain. So each
//! noticed loss has to make the requester send less, as in RFC 9438 4.6. The judge does not know
//! all that the requester knows: it keeps a bound that an honest requester never passes.

use crate::model::op::READ_CHUNK;

/// Request packets without acknowledgement at first, and on a path that holds few.
pub const INITIAL_CWND: u64 = 32;
pub const SHORT_CWND: u64 = 128;
/// The smallest window after a loss.
const MIN_CWND: u64 = 2;
/// By how many packets each acknowledgement widens the window above the threshold.
const CWND_STEP: u64 = 2;
/// The READ window in PSNs: its smallest size after a loss; its initial size; its largest size on a
/// path that holds few packets.
const MIN_READ_WINDOW: u64 = 8;
const INITIAL_READ_WINDOW: u64 = 16;
const SHORT_READ_WINDOW: u64 = 4 * READ_CHUNK;
/// By how many PSNs each answered READ chunk widens it once a response was lost.
const READ_WINDOW_STEP: u64 = READ_CHUNK.div_ceil(16);
/// The largest window of all.
const MAX_WINDOW: u64 = 1 << 14;

/// Of a requester that is controlled by delay (`cwnd/delay.rs` of the transport): the initial
/// windows, of requests and of PSNs; the smallest ones; the growth in a round trip above the
/// threshold. A loss leaves one growth more, as the requester's round trips begin at other packets.
const DELAY_INITIAL: u64 = 8;
const DELAY_MIN: u64 = 2;
const DELAY_STEP: u64 = 1;

/// What a loss leaves of a window, as in RFC 9438 4.6: seven tenths.
pub fn reduced(window: u64) -> u64 {
    (window * 7).div_ceil(10)
}

/// The bound.
#[derive(Clone, Debug)]
pub struct Cwnd {
    /// Request packets; a READ counts as one for each READ chunk.
    cwnd: u64,
    /// The slow start threshold: up to this what is acknowledged widens the window.
    ssthresh: u64,
    /// The largest window: in each round trip it may grow by half, as the path may hold more.
    limit: u64,
    /// The READ window: PSNs up to the end of a READ that is not the only one.
    read_window: u64,
    read_limit: u64,
    /// No response was lost yet, as far as the requester must have noticed.
    lossless: bool,
    /// The requester may be going back already: a further sign of the same loss need not count.
    recovering: bool,
    /// The requester is controlled by delay.
    by_delay: bool,
}

impl Default for Cwnd {
    fn default() -> Self {
        Cwnd {
            cwnd: INITIAL_CWND,
            ssthresh: MAX_WINDOW,
            limit: SHORT_CWND,
            read_window: INITIAL_READ_WINDOW,
            read_limit: SHORT_READ_WINDOW,
            lossless: true,
            recovering: false,
            by_delay: false,
        }
    }
}

impl Cwnd {
    /// That of a requester that is controlled by delay.
    pub fn by_delay() -> Cwnd {
        Cwnd {
            cwnd: DELAY_INITIAL,
            limit: MAX_WINDOW,
            read_window: DELAY_INITIAL,
            read_limit: MAX_WINDOW,
            by_delay: true,
            ..Cwnd::default()
        }
    }

    /// How many request packets may be in flight.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// How many PSNs may lie between the oldest one without a response and the end of a READ that
    /// follows another.
    pub fn read_window(&self) -> u64 {
        self.read_window
    }

    /// Whether the next sign of a loss is one that the requester must heed.
    pub fn heeds_loss(&self) -> bool {
        !self.recovering
    }

    /// So many packets were acknowledged, and possibly a round trip ends.
    pub fn on_ack(&mut self, packets: u64, ends_round: bool) {
        if ends_round {
            self.limit = (self.limit + self.limit / 2).min(MAX_WINDOW);
            self.read_limit = (self.read_limit + self.read_limit / 2).min(MAX_WINDOW);
        }
        let started = (self.cwnd + packets).min(self.ssthresh);
        let step = match self.by_delay {
            false => CWND_STEP,
            true => DELAY_STEP * u64::from(ends_round),
        };
        self.cwnd = started.max(self.cwnd + step).min(self.limit);
        if self.by_delay && !self.lossless {
            self.read_window = (self.read_window + step).min(self.read_limit);
        }
        self.recovering = false;
    }

    /// A READ chunk of so many packets was answered to its end.
    pub fn on_read_response(&mut self, packets: u64) {
        let step = match (self.lossless, self.by_delay) {
            (true, _) => packets,
            (false, false) => READ_WINDOW_STEP,
            (false, true) => 0,
        };
        self.read_window = (self.read_window + step).min(self.read_limit);
    }

    /// The requester has heeded a NAK for a sequence error.
    pub fn on_loss(&mut self) {
        self.cwnd = match self.by_delay {
            false => reduced(self.cwnd).max(MIN_CWND),
            true => self.cwnd.div_ceil(2).max(DELAY_MIN) + DELAY_STEP,
        };
        self.ssthresh = self.cwnd;
        self.recovering = true;
    }

    /// It has heeded a further one of the same round trip.
    pub fn on_known_loss(&mut self) {
        self.recovering = true;
    }

    /// The requester has noticed that a response is missing.
    pub fn on_response_loss(&mut self) {
        if self.heeds_loss() {
            self.read_window = match self.by_delay {
                false => reduced(self.read_window).max(MIN_READ_WINDOW),
                true => self.read_window.div_ceil(2).max(DELAY_MIN) + DELAY_STEP,
            };
            self.lossless = false;
        }
        self.recovering = true;
    }

    /// The requester goes back for another reason, or may do so: a timeout, a probe, an RNR NAK. It
    /// may start again with a small window and double it.
    pub fn may_go_back(&mut self) {
        self.ssthresh = MAX_WINDOW;
        self.recovering = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_widens_up_to_the_limit() {
        let mut cwnd = Cwnd::default();
        let mut windows = Vec::new();
        for (packets, ends_round) in [
            (20, false),
            (52, false),
            (104, false),
            (9, true),
            (99, true),
        ] {
            cwnd.on_ack(packets, ends_round);
            windows.push(cwnd.cwnd());
        }
        assert_eq!(windows, [52, 104, 128, 137, 236]);
    }

    #[test]
    fn a_loss_reduces_and_answers_widen() {
        let mut cwnd = Cwnd::default();
        cwnd.on_ack(96, false);
        cwnd.on_loss();
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (90, 16));
        cwnd.on_ack(90, false);
        assert_eq!(cwnd.cwnd(), 92);
        for _ in 0..20 {
            cwnd.on_loss();
        }
        assert_eq!(cwnd.cwnd(), 3);
        for _ in 0..100 {
            cwnd.on_ack(1, false);
        }
        assert_eq!(cwnd.cwnd(), SHORT_CWND);
    }

    #[test]
    fn one_loss_of_an_answer_counts_once() {
        let mut cwnd = Cwnd::default();
        for (packets, window) in [(8, 24), (24, 48), (440, 488), (8, 488)] {
            cwnd.on_read_response(packets);
            assert_eq!(cwnd.read_window(), window);
        }
        cwnd.on_ack(0, true);
        cwnd.on_read_response(8);
        cwnd.on_response_loss();
        cwnd.on_response_loss();
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (34, 348));
        cwnd.on_ack(1, false);
        cwnd.on_response_loss();
        assert_eq!(cwnd.read_window(), 244);
        cwnd.on_read_response(122);
        assert_eq!(cwnd.read_window(), 252);
    }

    #[test]
    fn what_may_have_been_noticed_before_does_not_count() {
        let mut cwnd = Cwnd::default();
        cwnd.may_go_back();
        cwnd.on_response_loss();
        assert_eq!(cwnd.read_window(), INITIAL_READ_WINDOW);
    }

    #[test]
    fn by_delay_it_grows_by_a_packet_in_a_round_trip() {
        let mut cwnd = Cwnd::by_delay();
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (8, 8));
        cwnd.on_ack(40, false);
        cwnd.on_read_response(8);
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (48, 16));
        cwnd.on_loss();
        cwnd.on_ack(1, false);
        cwnd.on_response_loss();
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (25, 9));
        for ends_round in [false, true, false, true] {
            cwnd.on_ack(20, ends_round);
            cwnd.on_read_response(4);
        }
        assert_eq!((cwnd.cwnd(), cwnd.read_window()), (27, 11));
        for _ in 0..20 {
            cwnd.on_loss();
        }
        assert_eq!(cwnd.cwnd(), 3);
    }
}
