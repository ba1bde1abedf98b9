// SPDX-License-Identifier: GPL-2.0

//! Access rights of memory regions and queue pairs.

use crate::ffi;

/// A set of access rights and registration flags: `enum ib_access_flags`, which processes share.
///
/// ib_core has checked the rights that a process requests (`ib_check_mr_access`): remote write and
/// remote atomic imply local write, unknown mandatory flags are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// No right beyond local read, which every region grants.
    pub(crate) const NONE: Self = Access(0);
    /// The device may write on behalf of the owner: receive buffers, sinks of reads and atomics.
    pub(crate) const LOCAL_WRITE: Self = Access(ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    /// Peers may write.
    pub(crate) const REMOTE_WRITE: Self = Access(ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    /// Peers may read.
    pub(crate) const REMOTE_READ: Self = Access(ffi::ib_access_flags_IB_ACCESS_REMOTE_READ);
    /// Peers may do atomic operations.
    pub(crate) const REMOTE_ATOMIC: Self = Access(ffi::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    /// Peers may ask for the global visibility of accesses to the memory (FLUSH).
    pub(crate) const FLUSH_GLOBAL: Self = Access(ffi::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL);
    /// Peers may ask for the persistence of accesses to the memory (FLUSH).
    pub(crate) const FLUSH_PERSISTENT: Self =
        Access(ffi::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT);
    /// Memory windows may be bound to the region.
    pub(crate) const MW_BIND: Self = Access(ffi::ib_access_flags_IB_ACCESS_MW_BIND);
    /// A window's addresses begin at 0.
    pub(crate) const ZERO_BASED: Self = Access(ffi::ib_access_flags_IB_ZERO_BASED);
    /// A hint that the memory is of huge pages.
    pub(crate) const HUGETLB: Self = Access(ffi::ib_access_flags_IB_ACCESS_HUGETLB);
    /// The memory is not pinned: a page is made present when it is accessed.
    pub(crate) const ON_DEMAND: Self = Access(ffi::ib_access_flags_IB_ACCESS_ON_DEMAND);
    /// All flags that a device may ignore, also those that have no meaning yet. One is that writes
    /// may become visible out of order (relaxed ordering).
    pub(crate) const OPTIONAL: Self = Access(ffi::ib_access_flags_IB_ACCESS_OPTIONAL);

    /// The flags in `enum ib_access_flags`'s numbering.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Access(bits)
    }

    /// The flags in `enum ib_access_flags`'s numbering.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// As [`Access::from_bits`], of the type that they have in C.
    pub(super) const fn from_raw(flags: kernel::ffi::c_int) -> Self {
        // CAST: flags are bits, whatever their sign.
        Access(flags as u32)
    }

    /// As [`Access::bits`], of the type that they have in C.
    pub(super) const fn raw(self) -> kernel::ffi::c_int {
        // CAST: as in `from_raw`.
        self.0 as kernel::ffi::c_int
    }

    /// Whether all of `other` is granted.
    #[inline]
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is granted.
    #[inline]
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the device may write to the memory: it binds windows only where it may.
    pub(crate) const fn is_writable(self) -> bool {
        self.intersects(
            Self::LOCAL_WRITE
                .union(Self::REMOTE_WRITE)
                .union(Self::REMOTE_ATOMIC)
                .union(Self::MW_BIND),
        )
    }

    /// The flags that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Access(self.0 & !other.0)
    }

    /// Both sets together.
    pub(crate) const fn union(self, other: Self) -> Self {
        Access(self.0 | other.0)
    }
}

impl core::ops::BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}
