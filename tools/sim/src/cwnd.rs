// SPDX-License-Identifier: GPL-2.0

//! How much a requester may have in flight, as the oracle on the wire reckons it.
//!
//! The specification leaves the number of requests in flight to the requester, and lets it go back to what was lost
//! (IBTA 9.7.5.2, 9.7.6.1): all that followed the loss was sent in vain. So each noticed loss has to make the requester
//! send less, as in RFC 5681, section 3.1. The oracle does not see all that the requester knows: what it keeps
//! here is a bound that an honest requester never passes.

/// Most request packets without acknowledgement.
pub const WINDOW: u64 = 128;
/// The least that a loss makes of the window.
const LEAST_WINDOW: u64 = 16;
/// How many packets more with each acknowledgement, above the threshold.
const INCREASE: u64 = 4;
/// PSNs of READs in flight, in pieces: to begin with, at most, and at least.
const READ_PIECE: u64 = crate::model::READ_PIECE;
const READ_BEGIN: u64 = 4 * READ_PIECE;
const READ_MOST: u64 = 32 * READ_PIECE;
/// How many PSNs more with each piece that was answered.
const READ_INCREASE: u64 = READ_PIECE / 16;

/// The bound.
#[derive(Clone, Debug)]
pub struct Cwnd {
    /// Request packets; a READ counts as one for each piece.
    window: u64,
    /// Up to this the window may double.
    ssthresh: u64,
    /// PSNs up to the end of a READ that is not the only one.
    read_window: u64,
    /// The requester may be going back already: a further sign of the same loss need not count.
    recovering: bool,
}

impl Default for Cwnd {
    fn default() -> Self {
        Cwnd {
            window: WINDOW,
            ssthresh: WINDOW,
            read_window: READ_BEGIN,
            recovering: false,
        }
    }
}

impl Cwnd {
    /// How many request packets may be in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// How many PSNs may lie between the oldest without an answer and the end of a READ after another.
    pub fn read_window(&self) -> u64 {
        self.read_window
    }

    /// Whether the next sign of a loss is one that the requester must heed.
    pub fn heeds_loss(&self) -> bool {
        !self.recovering
    }

    /// Something was acknowledged.
    pub fn acknowledged(&mut self) {
        let doubled = (2 * self.window).min(self.ssthresh);
        self.window = doubled.max(self.window + INCREASE).min(WINDOW);
        self.recovering = false;
    }

    /// A piece of a READ was answered to its end.
    pub fn answered(&mut self) {
        self.read_window = (self.read_window + READ_INCREASE).min(READ_MOST);
    }

    /// The requester has heeded a NAK for a sequence error.
    pub fn packet_lost(&mut self) {
        self.window = (self.window / 2).max(LEAST_WINDOW);
        self.ssthresh = self.window;
        self.recovering = true;
    }

    /// The requester has noticed that an answer is missing.
    pub fn answer_lost(&mut self) {
        if self.heeds_loss() {
            self.read_window = (self.read_window / 2).max(READ_PIECE);
        }
        self.recovering = true;
    }

    /// The requester goes back for another reason, or may do so: a timeout, a probe, a wait. It may begin anew with
    /// a small window and double that.
    pub fn may_go_back(&mut self) {
        self.ssthresh = WINDOW;
        self.recovering = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_and_answers_widen() {
        let mut cwnd = Cwnd::default();
        cwnd.packet_lost();
        assert_eq!((cwnd.window(), cwnd.read_window()), (64, 488));
        cwnd.acknowledged();
        assert_eq!(cwnd.window(), 68);
        for _ in 0..5 {
            cwnd.packet_lost();
        }
        assert_eq!(cwnd.window(), LEAST_WINDOW);
        for _ in 0..100 {
            cwnd.acknowledged();
        }
        assert_eq!(cwnd.window(), WINDOW);
    }

    #[test]
    fn one_loss_of_an_answer_counts_once() {
        let mut cwnd = Cwnd::default();
        cwnd.answer_lost();
        cwnd.answer_lost();
        assert_eq!((cwnd.window(), cwnd.read_window()), (128, 244));
        cwnd.acknowledged();
        cwnd.answer_lost();
        assert_eq!(cwnd.read_window(), READ_PIECE);
        cwnd.answered();
        assert_eq!(cwnd.read_window(), READ_PIECE + 7);
    }

    #[test]
    fn what_may_have_been_noticed_before_does_not_count() {
        let mut cwnd = Cwnd::default();
        cwnd.may_go_back();
        cwnd.answer_lost();
        assert_eq!(cwnd.read_window(), READ_BEGIN);
    }
}
