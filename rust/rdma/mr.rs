// SPDX-License-Identifier: GPL-2.0

//! Parameters of verbs on memory regions and windows.

use super::access::Access;
use crate::ffi;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// The memory of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address of its first byte in the process.
    pub(crate) start: u64,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// The address of its first byte, as work requests and peers use it.
    pub(crate) iova: u64,
}

/// The change by which a region is registered anew. Fields that are `None` stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MrChange {
    pub(crate) place: Option<Place>,
    pub(crate) access: Option<Access>,
}

impl MrChange {
    /// The change that a process requested with these flags. `place` and `access` count if their
    /// flag is set. (The domain of the new region comes apart from it.)
    pub(super) fn new(flags: c_int, place: Place, access: Access) -> Self {
        // CAST: flags are bits, whatever their sign.
        let has = |flag: u32| flags as u32 & flag != 0;
        MrChange {
            place: has(ffi::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(place),
            access: has(ffi::ib_mr_rereg_flags_IB_MR_REREG_ACCESS).then_some(access),
        }
    }
}

/// The advice of a process on memory with on-demand paging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// Pages are made present. Otherwise those that are present are looked up.
    pub(crate) fault: bool,
    /// They will be written to.
    pub(crate) write: bool,
    /// The caller waits for it.
    pub(crate) wait: bool,
}

impl Advice {
    /// EOPNOTSUPP for an advice that there is not, EINVAL for other flags.
    pub(super) fn from_raw(advice: ffi::ib_uverbs_advise_mr_advice, flags: u32) -> Result<Self> {
        use ffi::{
            ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH as READ,
            ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT as NO_FAULT,
            ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE as WRITE,
            ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH as FLUSH,
        };
        if flags & !FLUSH != 0 {
            return Err(EINVAL);
        }
        if ![READ, WRITE, NO_FAULT].contains(&advice) {
            return Err(super::error::unsupported());
        }
        Ok(Advice {
            fault: advice != NO_FAULT,
            write: advice == WRITE,
            wait: flags & FLUSH != 0,
        })
    }
}

/// The type of a memory window (IBTA 10.6.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwType {
    /// Type 1: its use goes by the protection domain.
    One,
    /// Type 2B: its use goes by protection domain and queue pair.
    TwoB,
}

impl MwType {
    /// EINVAL for any other.
    pub(super) fn from_raw(raw: ffi::ib_mw_type) -> Result<Self> {
        match raw {
            ffi::ib_mw_type_IB_MW_TYPE_1 => Ok(MwType::One),
            ffi::ib_mw_type_IB_MW_TYPE_2 => Ok(MwType::TwoB),
            _ => Err(EINVAL),
        }
    }
}
