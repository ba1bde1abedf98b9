// SPDX-License-Identifier: GPL-2.0

//! DCQCN, the rate control of a reaction point: Zhu et al., "Congestion Control for Large-Scale
//! RDMA Deployments", SIGCOMM 2015, section 5, with the parameters that ConnectX adds to it
//! (NVIDIA, "DCQCN Parameters").
//!
//! A congestion notification packet (CNP) cuts the rate, by more the more of the last periods had
//! one (alpha). Without CNPs the rate grows, by time and by the bytes that were sent: first back to
//! what it was, then beyond that.
//!
//! No timer runs here. Alpha and the rate follow from the time that has passed when they are looked
//! at.

mod params;

use super::Instant;
pub use params::{Param, Params};

/// Bits per second of 1 Mb/s.
const MBIT: u64 = 1_000_000;

/// An alpha of 1: it has 31 bits of fraction, so that a product of two fits 64 bits.
const ONE: u64 = 1 << 31;

/// After so many periods without a CNP nothing is left of alpha.
const MAX_PERIODS: u64 = 1 << 14;

/// After so many increases in a row the current rate is behind the target by one step. More than
/// the largest threshold.
const SINGLE_STEPS: u64 = 64;

/// A time of the parameters in nanoseconds.
fn nanos(micros: u32) -> u64 {
    u64::from(micros).saturating_mul(1000)
}

/// How many whole periods there are from `begin` to `now`.
fn periods(begin: Instant, now: Instant, period: u64) -> u64 {
    let elapsed = now.0.saturating_sub(begin.0);
    elapsed.checked_div(period).unwrap_or(elapsed)
}

/// A rate of the parameters in bits per second, or `otherwise` for 0.
fn rate_or(mbps: u32, otherwise: u64) -> u64 {
    match mbps {
        0 => otherwise,
        mbps => u64::from(mbps.min(params::MAX_MBPS)).saturating_mul(MBIT),
    }
}

/// A value of the parameters in 1/1024, as alpha has it.
fn fraction(value: u32) -> u64 {
    u64::from(value.min(1024)) << 21
}

/// `base` to the power of `n`, of numbers up to [`ONE`].
fn power(base: u64, n: u64) -> u64 {
    let (mut result, mut square, mut left) = (ONE, base, n);
    while left > 0 {
        if left & 1 == 1 {
            result = result.saturating_mul(square) / ONE;
        }
        square = square.saturating_mul(square) / ONE;
        left >>= 1;
    }
    result
}

/// The reason for an increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Time,
    Bytes,
}

/// The rate of one queue pair. Rates are in bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Dcqcn {
    params: Params,
    /// There was a CNP, and the rate is not the largest again. Without it nothing else counts.
    limited: bool,
    /// A cut is due at the end of the least time after the last one.
    owes_cut: bool,
    /// There was a CNP in the period of alpha that `alpha_at` begins.
    notified: bool,
    max: u64,
    current: u64,
    target: u64,
    alpha: u64,
    alpha_at: Instant,
    /// The last cut.
    cut_at: Instant,
    /// The last cut or increase by time, and the increases by time since the last cut.
    time_from: Instant,
    time_stage: u64,
    /// Bytes since the last cut or increase by bytes, and the increases by bytes.
    bytes: u32,
    byte_stage: u64,
}

impl Dcqcn {
    /// Of a queue pair that has got no CNP, on a line of so many Mb/s.
    pub fn new(params: Params, line: u32) -> Self {
        let line = rate_or(line.max(1), MBIT);
        let max = rate_or(params.rp_max_rate, line).min(line);
        Dcqcn {
            params,
            limited: false,
            owes_cut: false,
            notified: false,
            max,
            current: max,
            target: max,
            alpha: 0,
            alpha_at: Instant(0),
            cut_at: Instant(0),
            time_from: Instant(0),
            time_stage: 0,
            bytes: 0,
            byte_stage: 0,
        }
    }

    /// The same without any CNP yet.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Dcqcn {
            limited: false,
            owes_cut: false,
            ..*self
        }
    }

    /// The rate at the time `now`, if it is limited.
    pub fn rate(&mut self, now: Instant) -> Option<u64> {
        self.settle(now);
        self.limited.then_some(self.current)
    }

    /// The rate as it was when it was last looked at.
    pub(super) fn last_rate(&self) -> u64 {
        self.current
    }

    /// Alpha as it was when it was last looked at, as a part of 2^31.
    #[cfg(test)]
    pub(in super::super) fn alpha(&self) -> u64 {
        self.alpha
    }

    /// The target rate.
    #[cfg(test)]
    pub(in super::super) fn target(&self) -> u64 {
        self.target
    }

    /// A CNP has come.
    pub fn on_cnp(&mut self, now: Instant) {
        self.settle(now);
        let first = !self.limited;
        if first {
            self.limited = true;
            self.current = rate_or(self.params.rp_rate_to_set_on_first_cnp, self.max).min(self.max);
            self.target = self.current;
            self.alpha = fraction(self.params.rp_initial_alpha_value);
            self.alpha_at = now;
            self.notified = false;
        }
        self.settle_alpha(now);
        let again_at = self.cut_at.after(self.reduce_period());
        if first && self.params.rp_rate_to_set_on_first_cnp > 0 {
            self.begin(now);
        } else if first || now >= again_at {
            self.cut(now);
        } else {
            self.owes_cut = true;
        }
        self.notified = true;
    }

    /// So many bytes are sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        self.settle(now);
        if !self.limited {
            return;
        }
        let all = self.bytes.saturating_add(bytes);
        let Some(count) = all.checked_div(self.params.rp_byte_reset) else {
            return;
        };
        self.bytes = all.saturating_sub(count.saturating_mul(self.params.rp_byte_reset));
        self.increase(Source::Bytes, count.into());
    }

    fn reduce_period(&self) -> u64 {
        nanos(self.params.rp_rate_reduce_monitor_period)
    }

    /// Carries out what was due by `now`.
    fn settle(&mut self, now: Instant) {
        if !self.limited {
            return;
        }
        let cut_at = self.cut_at.after(self.reduce_period());
        if self.owes_cut && now >= cut_at {
            self.cut(cut_at);
        }
        let period = nanos(self.params.rp_time_reset);
        let count = periods(self.time_from, now, period);
        if count > 0 {
            self.time_from = self.time_from.after(count.saturating_mul(period));
            self.increase(Source::Time, count);
        }
    }

    /// Alpha as it is at the time `now`: each period leaves g of it, and one with a CNP adds 1 - g
    /// (section 5.1, equations 1 and 2).
    fn settle_alpha(&mut self, now: Instant) {
        let period = nanos(self.params.rp_dce_tcp_rtt);
        let mut count = periods(self.alpha_at, now, period);
        if count == 0 {
            return;
        }
        self.alpha_at = self.alpha_at.after(count.saturating_mul(period));
        let g = fraction(self.params.rp_dce_tcp_g);
        if core::mem::take(&mut self.notified) {
            self.alpha = (self.alpha.saturating_mul(g) / ONE).saturating_add(ONE.saturating_sub(g));
            count = count.saturating_sub(1);
        }
        self.alpha = match count {
            0..MAX_PERIODS => self.alpha.saturating_mul(power(g, count)) / ONE,
            _ => 0,
        };
    }

    /// Cuts the rate (section 5.1, equation 1).
    fn cut(&mut self, now: Instant) {
        self.settle_alpha(now);
        let params = &self.params;
        let raised =
            self.byte_stage > 0 || params.rp_clamp_tgt_rate_ati != 0 && self.time_stage > 0;
        if params.rp_clamp_tgt_rate != 0 || raised {
            self.target = self.current;
        }
        // 20 bits of alpha: a rate has up to 40.
        let share = (self.alpha >> 11) >> params.rp_gd.saturating_sub(10).min(20);
        let less = self.current.saturating_mul(share) >> 20;
        let least = self
            .current
            .saturating_mul(params.rp_min_dec_fac.min(100).into())
            / 100;
        let least = least
            .max(rate_or(params.rp_min_rate, MBIT))
            .min(self.current);
        self.current = self.current.saturating_sub(less).max(least);
        self.begin(now);
    }

    /// Begins to count anew: the rate is cut, or set by the first CNP.
    fn begin(&mut self, now: Instant) {
        self.cut_at = now;
        self.owes_cut = false;
        self.time_from = now;
        self.time_stage = 0;
        self.bytes = 0;
        self.byte_stage = 0;
    }

    /// The target's step of an increase (section 5.1: fast recovery, additive and hyper increase).
    fn step(&self) -> u64 {
        let threshold = u64::from(self.params.rp_threshold);
        let mbps = if self.time_stage.max(self.byte_stage) <= threshold {
            0
        } else if self.time_stage.min(self.byte_stage) <= threshold {
            self.params.rp_ai_rate
        } else {
            self.params.rp_hai_rate
        };
        u64::from(mbps).saturating_mul(MBIT)
    }

    /// Increases the rate so many times. Once it is the largest, it is not limited any more.
    fn increase(&mut self, source: Source, count: u64) {
        let singles = count.min(SINGLE_STEPS);
        for _ in 0..singles {
            self.count(source, 1);
            let target = self.target.saturating_add(self.step());
            self.raise(target, self.current);
        }
        // From now on each step is the same, and the current rate as far behind the target.
        let rest = count.saturating_sub(singles);
        if rest > 0 {
            self.count(source, rest);
            let more = rest.saturating_mul(self.step());
            let target = self.target.saturating_add(more);
            self.raise(target, self.current.saturating_add(more));
        }
        self.limited = self.current < self.max;
    }

    fn count(&mut self, source: Source, count: u64) {
        let stage = match source {
            Source::Time => &mut self.time_stage,
            Source::Bytes => &mut self.byte_stage,
        };
        *stage = stage.saturating_add(count);
    }

    /// The target rate is `target`, and the current rate comes half of the way from `from` to it.
    /// It is rounded up, so that it arrives.
    fn raise(&mut self, target: u64, from: u64) {
        self.target = target.min(self.max);
        let sum = self.target.saturating_add(from.min(self.max));
        self.current = sum.div_ceil(2).max(self.current);
    }
}
