// SPDX-License-Identifier: GPL-2.0

//! Operations on address handles.

use super::device::Device;
use super::driver::Driver;
use super::gid::AhAttr;
use super::object::Object;
use super::ops_pd::PdObject;
use super::ops_ucontext::caller;
use crate::ffi;
use core::mem::{offset_of, size_of};
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// The object that ib_core allocates for an address handle.
pub(super) type AhObject<D> = Object<ffi::ib_ah, <D as Driver>::Ah>;

/// `struct rxe_create_ah_resp`: the number, and a reserved word.
type CreateAhResp = [u32; 2];
const _: () = assert!(size_of::<CreateAhResp>() == size_of::<ffi::rxe_create_ah_resp>());
const _: () = assert!(offset_of!(ffi::rxe_create_ah_resp, ah_num) == 0);

/// For processes: the response holds the handle's number. EINVAL if the process has no room for the
/// response.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn create_user_ah<D: Driver>(
    ah: *mut ffi::ib_ah,
    init: *mut ffi::rdma_ah_init_attr,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives the call's own `udata`, in a context of our device.
        let user = unsafe { caller::<D>(udata) }?.ok_or(EINVAL)?;
        // SAFETY: ib_core gives a handle under construction and its attributes.
        let (value, number) = unsafe { create::<D>(ah, init, true) }?;
        let resp: CreateAhResp = [number, 0];
        user.respond(&resp)?;
        // SAFETY: it was allocated with `AhObject::SIZE`, and no other thread can access it yet.
        unsafe { AhObject::<D>::init(ah, value) };
        Ok(0)
    })
}

/// For kernel users: possibly in atomic context.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn create_ah<D: Driver>(
    ah: *mut ffi::ib_ah,
    init: *mut ffi::rdma_ah_init_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a handle under construction and its attributes.
        let (value, _) = unsafe { create::<D>(ah, init, false) }?;
        // SAFETY: it was allocated with `AhObject::SIZE`, and no other thread can access it yet.
        unsafe { AhObject::<D>::init(ah, value) };
        Ok(0)
    })
}

/// # Safety
///
/// `ah` is under construction for a device driven by `D`, with its domain and the attributes
/// `init`.
unsafe fn create<D: Driver>(
    ah: *mut ffi::ib_ah,
    init: *mut ffi::rdma_ah_init_attr,
    user: bool,
) -> Result<(D::Ah, u32)> {
    // SAFETY: by the requirement of this function.
    let dev = unsafe { Device::<D>::from_raw((*ah).device) };
    // SAFETY: likewise; the domain was made by `alloc_pd` and outlives the handle.
    let pd = unsafe { PdObject::<D>::get((*ah).pd) };
    // SAFETY: likewise; ib_core has filled in the source GID's entry with a reference.
    let attr = unsafe { AhAttr::from_raw(&*(*init).ah_attr) }?;
    D::create_ah(dev, pd, &attr, user)
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn modify_ah<D: Driver>(
    ah: *mut ffi::ib_ah,
    attr: *mut ffi::rdma_ah_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives attributes with a reference on the source GID's entry.
        let attr = unsafe { AhAttr::from_raw(&*attr) }?;
        // SAFETY: the handle was initialised by create and is not being destroyed.
        D::modify_ah(unsafe { AhObject::<D>::get(ah) }, &attr)?;
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_ah<D: Driver>(
    ah: *mut ffi::ib_ah,
    attr: *mut ffi::rdma_ah_attr,
) -> c_int {
    // SAFETY: the handle was initialised by create and is not being destroyed.
    let value = D::query_ah(unsafe { AhObject::<D>::get(ah) });
    // SAFETY: ib_core gives attributes to fill in.
    value.fill(unsafe { &mut *attr });
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn destroy_ah<D: Driver>(ah: *mut ffi::ib_ah, _flags: u32) -> c_int {
    // SAFETY: it was initialised by create, and it has no users any more.
    drop(unsafe { AhObject::<D>::take(ah) });
    0
}
