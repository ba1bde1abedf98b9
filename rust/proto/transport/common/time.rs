// SPDX-License-Identifier: GPL-2.0

//! Time in the transport: a monotonic clock that the owner reads, and the specification's two
//! encodings of waiting times.

use super::wire::RnrTimer;

/// A moment: nanoseconds on a monotonic clock of the owner's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The moment `nanos` nanoseconds later, or the end of time.
    #[inline]
    #[must_use]
    pub const fn after(self, nanos: u64) -> Self {
        Instant(self.0.saturating_add(nanos))
    }
}

/// The earlier of two times, either of which may be absent.
#[inline]
pub(in super::super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// How long a requester waits after an RNR NAK with this 5-bit timer code, in nanoseconds
/// (IBTA 9.7.5.2.8, Table 45). Only the low five bits of `code` count.
#[inline]
pub const fn rnr_delay(code: u8) -> u64 {
    RnrTimer::new(code).as_nanos()
}

/// The smallest effective exponent of the local ACK timeout: 4.096 us * 2^10 = 4.2 ms.
///
/// A software peer responds in tens of microseconds when its CPU is idle, but not reliably: it may
/// delay an ACK for half a millisecond (see `delayed_ack`), and work that it defers to a thread may
/// wait for a scheduler tick, 4 ms at 250 Hz. A shorter timeout would expire needlessly, until the
/// retries are used up.
const LEAST_EXPONENT: u8 = 10;

/// The local ACK timeout for this 5-bit exponent, in nanoseconds: 4.096 us * 2^exp, and no less
/// than 4.2 ms. 0 means that there is no timeout. IBTA 9.7.6.1.3 asks for a timeout of at least the
/// configured length. Only the low five bits of `exp` count.
#[inline]
pub const fn ack_timeout(exp: u8) -> Option<u64> {
    match exp & 0x1f {
        0 => None,
        exp if exp < LEAST_EXPONENT => Some(4096 << LEAST_EXPONENT),
        exp => Some(4096 << exp),
    }
}

/// How long to wait for a response, in nanoseconds, after `retries` retries without progress. The
/// first wait is the ACK timeout. Later ones are twice as long, since the receiver may be slow
/// rather than the network lossy.
///
/// IBTA 9.7.6.1.3 allows each wait four timeouts. Programs plan for less: with a `retry_cnt` of 7 a
/// dead peer is reported after 15 timeouts. What congestion asks beyond that is the window's matter
/// (see `cwnd`).
#[inline]
pub(in super::super) const fn ack_wait(exp: u8, retries: u8) -> Option<u64> {
    match ack_timeout(exp) {
        Some(nanos) if retries > 0 => Some(2 * nanos),
        timeout => timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IBTA 9.7.6.1.3: a requester waits no longer than four ACK timeouts, and this one no longer
    /// than two.
    #[test]
    fn patience_doubles_once() {
        assert_eq!(ack_wait(0, 7), None);
        let waits = [0, 1, 2, 3, 255].map(|retries| ack_wait(14, retries));
        let base = 67_108_864;
        let want = [base, 2 * base, 2 * base, 2 * base, 2 * base];
        assert_eq!(waits, want.map(Some));
        assert_eq!(ack_wait(31, 7), Some(4096 << 32));
    }

    /// IBTA 9.7.6.1.3: the ACK timeout is 4.096 us * 2^n, and 0 switches it off.
    #[test]
    fn timeouts_double_and_zero_is_none() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(11), Some(8_388_608));
        assert_eq!(ack_timeout(14), Some(67_108_864));
        assert_eq!(ack_timeout(31), Some(4096 << 31));
        assert_eq!(ack_timeout(32), None);
    }

    /// IBTA 9.7.6.1.3: a requester waits at least the ACK timeout that its program asked for.
    #[test]
    fn an_ack_timeout_is_one_that_software_can_meet() {
        for exp in 1..32 {
            let asked = 4096 << exp;
            let (timeout, longest) = (ack_timeout(exp).unwrap(), ack_wait(exp, 7).unwrap());
            assert!(timeout >= asked && timeout >= 4_000_000, "{exp}");
            assert_eq!(longest, 2 * timeout, "{exp}");
        }
        assert_eq!([1, 2, 9, 10].map(ack_timeout), [Some(4_194_304); 4]);
    }

    /// IBTA 9.7.5.2.8: the timer code of an RNR NAK stands for a time, and 0 for the longest one.
    #[test]
    fn the_zero_rnr_code_is_the_longest() {
        assert_eq!(rnr_delay(0), 655_360_000);
        assert_eq!(rnr_delay(1), 10_000);
        assert_eq!(rnr_delay(31), 491_520_000);
    }

    #[test]
    fn moments_do_not_wrap() {
        assert_eq!(Instant(u64::MAX).after(1), Instant(u64::MAX));
        assert_eq!(Instant(1).after(2), Instant(3));
    }
}
