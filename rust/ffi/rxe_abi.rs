// SPDX-License-Identifier: GPL-2.0

//! Compares structures and numbers that librxe and the driver share with those of the kernel's
//! headers (rdma_user_rxe.h, ib_user_verbs.h, ib_verbs.h), when the driver is compiled.
//!
//! `device/uabi` has each list of fields. It passes the names on to the macros of this module,
//! which it finds by their textual scope, as it knows no module of the kernel. On the host, where
//! there are no such headers, `tools/uabi` has macros of these names that do nothing.

/// The forms of the union `wr` in a `struct rxe_send_wr`, by the numbers that bindgen gives them.
pub(crate) type rxe_flush_wr = super::rxe_send_wr__bindgen_ty_2__bindgen_ty_1;
pub(crate) type rxe_rdma_wr = super::rxe_send_wr__bindgen_ty_2__bindgen_ty_2;
pub(crate) type rxe_atomic_wr = super::rxe_send_wr__bindgen_ty_2__bindgen_ty_3;
pub(crate) type rxe_ud_wr = super::rxe_send_wr__bindgen_ty_2__bindgen_ty_4;
pub(crate) type rxe_mw_wr = super::rxe_send_wr__bindgen_ty_2__bindgen_ty_5;

// The numbers are right.
const _: () = {
    use super::__BindgenUnionField as Form;
    type Union = super::rxe_send_wr__bindgen_ty_2;

    let _: fn(&Union) -> &Form<rxe_flush_wr> = |wr| &wr.flush;
    let _: fn(&Union) -> &Form<rxe_rdma_wr> = |wr| &wr.rdma;
    let _: fn(&Union) -> &Form<rxe_atomic_wr> = |wr| &wr.atomic;
    let _: fn(&Union) -> &Form<rxe_ud_wr> = |wr| &wr.ud;
    let _: fn(&Union) -> &Form<rxe_mw_wr> = |wr| &wr.mw;
};

/// The size of the field that the function returns, in bytes.
pub(crate) const fn size_of_field<T, F>(_field: fn(&T) -> &F) -> usize {
    core::mem::size_of::<F>()
}

/// Asserts that a structure is laid out as one of C: see `abi!` in `device/uabi.rs` for the places.
macro_rules! same_layout {
    ($type:ident = $c:ident $(.. $($end:ident)?)? { $($field:ident $(=> $place:tt)?,)* }) => {
        const _: () = assert!(
            same_layout!(@size $type, $c $(.. $($end)?)?),
            concat!(stringify!($type), " has not the size of the kernel's structure"),
        );
        $(const _: () = assert!(
            same_layout!(@same $type, $c, $field $(, $place)?),
            concat!(stringify!($type), "::", stringify!($field), " is elsewhere in the kernel's"),
        );)*
    };

    (@size $type:ident, $c:ident) => {
        core::mem::size_of::<$type>() == core::mem::size_of::<$crate::ffi::$c>()
    };
    (@size $type:ident, $c:ident ..) => {
        core::mem::size_of::<$type>() <= core::mem::size_of::<$crate::ffi::$c>()
    };
    (@size $type:ident, $c:ident .. $end:ident) => {
        core::mem::size_of::<$type>() == core::mem::offset_of!($crate::ffi::$c, $end)
    };

    (@same $type:ident, $c:ident, $field:ident) => {
        same_layout!(@same $type, $c, $field, [$field])
    };
    (@same $type:ident, $c:ident, $field:ident, _) => { true };
    (@same $type:ident, $c:ident, $field:ident, [$only:ident]) => {
        same_layout!(@same $type, $c, $field, [$only..$only])
    };
    (@same $type:ident, $c:ident, $field:ident, [$first:ident .. $last:ident]) => {
        same_layout!(@same $type, $c, $field, [$first..])
            && same_layout!(@same $type, $c, $field, [..$last])
    };
    (@same $type:ident, $c:ident, $field:ident, [$first:ident ..]) => {
        core::mem::offset_of!($type, $field) == core::mem::offset_of!($crate::ffi::$c, $first)
    };
    (@same $type:ident, $c:ident, $field:ident, [.. $last:ident]) => {
        same_layout!(@end $type, $field) == same_layout!(@end $crate::ffi::$c, $last)
    };

    (@end $type:ty, $field:ident) => {
        core::mem::offset_of!($type, $field)
            + $crate::ffi::rxe_abi::size_of_field(|value: &$type| &value.$field)
    };
}

/// Asserts that numbers are those of C.
macro_rules! same_numbers {
    ($($number:expr => $c:ident,)*) => {$(
        const _: () = assert!(
            $number as i64 == $crate::ffi::$c as i64,
            concat!(stringify!($number), " differs from the kernel's ", stringify!($c)),
        );
    )*};
}
