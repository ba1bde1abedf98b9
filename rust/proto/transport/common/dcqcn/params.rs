// SPDX-License-Identifier: GPL-2.0

//! The parameters of DCQCN, by the names that mlx5 gives them in `cc_params` (the kernel's
//! `drivers/infiniband/hw/mlx5/cong.c`).
//!
//! The ranges of alpha's parameters and of the cuts' are those of NVIDIA's "DCQCN Parameters". But
//! a rate may be up to 1 Tb/s, and not the line's, which may change.

use core::ffi::CStr;

/// The rates that DCQCN can compute with, in Mb/s, are up to 1 Tb/s.
pub(super) const MAX_MBPS: u32 = 1_000_000;

/// The longest period of alpha, or between two increases by time, in microseconds.
const MAX_PERIOD: u32 = 131_071;

/// The parameters. Rates are in Mb/s, times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// 1: each cut sets the target rate to the current one.
    pub rp_clamp_tgt_rate: u32,
    /// 1: a cut sets the target rate if time has increased the rate since the last cut. That bytes
    /// have done so always counts.
    pub rp_clamp_tgt_rate_ati: u32,
    /// Time between two increases.
    pub rp_time_reset: u32,
    /// Bytes sent between two increases; 0: bytes do not count.
    pub rp_byte_reset: u32,
    /// So many increases by time, and so many by bytes, are fast recovery.
    pub rp_threshold: u32,
    /// Step of the target rate in additive increase.
    pub rp_ai_rate: u32,
    /// Step of the target rate in hyper increase.
    pub rp_hai_rate: u32,
    /// A rate that has grown so far is not limited any more; 0: the line's.
    pub rp_max_rate: u32,
    /// No cut leaves a smaller rate.
    pub rp_min_rate: u32,
    /// The least part of the rate that is left after a cut, in percent.
    pub rp_min_dec_fac: u32,
    /// The first CNP sets the rate, and the target, to this; 0: it cuts the largest rate.
    pub rp_rate_to_set_on_first_cnp: u32,
    /// A cut takes alpha of the rate, divided by 2 to the power of this less 10.
    pub rp_gd: u32,
    /// The factor of alpha in each period, in 1/1024.
    pub rp_dce_tcp_g: u32,
    /// The period of alpha.
    pub rp_dce_tcp_rtt: u32,
    /// Alpha at the first CNP, in 1/1024.
    pub rp_initial_alpha_value: u32,
    /// Least time between two cuts.
    pub rp_rate_reduce_monitor_period: u32,
}

impl Params {
    /// ConnectX's defaults.
    pub const CONNECTX: Params = Params {
        rp_clamp_tgt_rate: 0,
        rp_clamp_tgt_rate_ati: 1,
        rp_time_reset: 300,
        rp_byte_reset: 32_767,
        rp_threshold: 1,
        rp_ai_rate: 5,
        rp_hai_rate: 50,
        rp_max_rate: 0,
        rp_min_rate: 1,
        rp_min_dec_fac: 50,
        rp_rate_to_set_on_first_cnp: 0,
        rp_gd: 11,
        rp_dce_tcp_g: 1019,
        rp_dce_tcp_rtt: 1,
        rp_initial_alpha_value: 1023,
        rp_rate_reduce_monitor_period: 4,
    };
}

/// How one parameter is called, and what it may be.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static CStr,
    least: u32,
    most: u32,
    get: fn(&Params) -> u32,
    place: fn(&mut Params) -> &mut u32,
}

/// A [`Param`] of this field.
macro_rules! param {
    ($name:literal, $field:ident, $least:expr, $most:expr) => {
        Param {
            name: $name,
            least: $least,
            most: $most,
            get: |params| params.$field,
            place: |params| &mut params.$field,
        }
    };
}

impl Param {
    /// All of them, in mlx5's order.
    pub const ALL: [Param; 16] = [
        param!(c"rp_clamp_tgt_rate", rp_clamp_tgt_rate, 0, 1),
        param!(c"rp_clamp_tgt_rate_ati", rp_clamp_tgt_rate_ati, 0, 1),
        param!(c"rp_time_reset", rp_time_reset, 1, MAX_PERIOD),
        param!(c"rp_byte_reset", rp_byte_reset, 0, u32::MAX),
        param!(c"rp_threshold", rp_threshold, 1, 31),
        param!(c"rp_ai_rate", rp_ai_rate, 1, MAX_MBPS),
        param!(c"rp_max_rate", rp_max_rate, 0, MAX_MBPS),
        param!(c"rp_hai_rate", rp_hai_rate, 1, MAX_MBPS),
        param!(c"rp_min_dec_fac", rp_min_dec_fac, 0, 100),
        param!(c"rp_min_rate", rp_min_rate, 1, MAX_MBPS),
        param!(
            c"rp_rate_to_set_on_first_cnp",
            rp_rate_to_set_on_first_cnp,
            0,
            MAX_MBPS
        ),
        param!(c"rp_dce_tcp_g", rp_dce_tcp_g, 0, 1023),
        param!(c"rp_dce_tcp_rtt", rp_dce_tcp_rtt, 1, MAX_PERIOD),
        param!(
            c"rp_rate_reduce_monitor_period",
            rp_rate_reduce_monitor_period,
            1,
            u32::MAX
        ),
        param!(c"rp_initial_alpha_value", rp_initial_alpha_value, 1, 1023),
        param!(c"rp_gd", rp_gd, 10, 11),
    ];

    /// Its value.
    pub fn get(&self, params: &Params) -> u32 {
        (self.get)(params)
    }

    /// Sets it. Returns false, and changes nothing, if `value` is out of range.
    #[must_use]
    pub fn set(&self, params: &mut Params, value: u32) -> bool {
        let valid = (self.least..=self.most).contains(&value);
        if valid {
            *(self.place)(params) = value;
        }
        valid
    }
}
