// SPDX-License-Identifier: GPL-2.0

//! The user ABI: the structures that librxe and the driver share, of rdma_user_rxe.h and
//! ib_user_verbs.h. Documentation/uabi.rst is the contract.
//!
//! - [`ring`]: the header of a ring; [`wqe`], [`cqe`]: its elements.
//! - [`resp`]: responses to the create verbs.
//!
//! The module is pure: plain structures in the processor's byte order, no `unsafe`, nothing beyond
//! `core` and `zerocopy`. It only turns bytes into values: the fields of a copy from a ring are not
//! checked here. Structures and fields are named after those in C. The macros `abi!` and `numbers!`
//! make them, and pass the same lists on to `same_layout!` and `same_numbers!` of `ffi/rxe_abi.rs`,
//! which compare them with the kernel's headers. On the host the same files are in a crate of their
//! own (`tools/uabi`) and are tested there.

#![forbid(unsafe_code)]

/// The version of this ABI. librxe takes no other.
pub(crate) const VERSION: u32 = 2;

/// Makes structures that are shared, and compares their layout with that of C.
///
/// `struct Name = c_name { ... }` is as long as `struct c_name`; `struct Name = c_name..field` ends
/// where `field` of it begins, and `struct Name = c_name..` anywhere in it. Each field is where the
/// field of the same name is in C; or, with a place behind its type, elsewhere: `=> [a]` is where
/// `a` is, `=> [a..b]` is from `a` to the end of `b`, and of `=> [a..]` and `=> [..b]` the other
/// end is not compared. `=> _` is no field in C.
macro_rules! abi {
    ($(
        $(#[$attr:meta])*
        $vis:vis struct $name:ident = $c:ident $(.. $($end:ident)?)? {
            $($(#[$field_attr:meta])* $field_vis:vis $field:ident: $type:ty $(=> $place:tt)?,)*
        }
    )*) => {$(
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(
            zerocopy_derive::FromBytes,
            zerocopy_derive::IntoBytes,
            zerocopy_derive::KnownLayout,
            zerocopy_derive::Immutable,
        )]
        #[repr(C)]
        $vis struct $name {
            $($(#[$field_attr])* $field_vis $field: $type,)*
        }

        same_layout! { $name = $c $(.. $($end)?)? { $($field $(=> $place)?,)* } }
    )*};
}

/// Makes an enum of numbers that are shared, and compares them with those of C.
macro_rules! numbers {
    (
        $(#[$attr:meta])*
        $vis:vis enum $name:ident {
            $($variant:ident = $number:literal => $c:ident,)*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        $vis enum $name {
            $($variant = $number,)*
        }

        impl $name {
            /// The value with this number, if the driver supports it.
            $vis fn from_u32(value: u32) -> Option<Self> {
                Some(match value {
                    $($number => $name::$variant,)*
                    _ => return None,
                })
            }
        }

        same_numbers! { $($name::$variant => $c,)* }
    };
}

pub(crate) mod cqe;
pub(crate) mod resp;
pub(crate) mod ring;
pub(crate) mod wqe;
