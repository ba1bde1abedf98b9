// SPDX-License-Identifier: GPL-2.0

//! The checks of the judges.

/// Returns an error if a condition does not hold.
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {
        if !$cond { return Err(format!($($arg)+)); }
    };
}
pub(crate) use ensure;
