// SPDX-License-Identifier: GPL-2.0

//! Reasons that are counted.

/// Defines an enum of what is counted: each variant carries the name of its counter, which users
/// see (`rdma statistic show`), as `Variant = c"name"`. `COUNTERS` has the names in the order of
/// the variants, so that `COUNTERS[variant as usize]` is a variant's.
///
/// A variant without a name does not compile, and a name cannot stand beside another variant.
macro_rules! counted {
    (
        $(#[$about:meta])*
        $visible:vis enum $name:ident {
            $($(#[$variant_about:meta])* $variant:ident = $counter:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $visible enum $name {
            $($(#[$variant_about])* $variant,)*
        }

        impl $name {
            /// The names of the counters, in the order of the variants.
            $visible const COUNTERS: &'static [&'static core::ffi::CStr] = &[$($counter),*];
        }
    };
}
pub(crate) use counted;
