// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions. Their objects are allocated here, not by ib_core.

use super::access::Access;
use super::details::Details;
use super::device::Device;
use super::driver::Driver;
use super::mr::{Advice, MrChange, Place};
use super::object::Object;
use super::ops_pd::PdObject;
use super::post::errno;
use super::umem::KernelMemory;
use crate::ffi;
use crate::sync::memory::GFP_CHARGED;
use core::mem::MaybeUninit;
use kernel::alloc::flags::__GFP_ZERO;
use kernel::error::{from_result, to_result};
use kernel::ffi::c_int;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// The object for a memory region.
type MrObject<D> = Object<ffi::ib_mr, <D as Driver>::Mr>;

/// Makes the object around a region. `make` registers the region, and returns it with its key.
fn create<D: Driver>(make: impl FnOnce() -> Result<(D::Mr, u32)>) -> *mut ffi::ib_mr {
    let result = || -> Result<*mut ffi::ib_mr> {
        let object = KBox::<MrObject<D>>::new_uninit(GFP_CHARGED | __GFP_ZERO)?;
        let (value, key) = make()?;
        let raw = KBox::into_raw(object).cast::<ffi::ib_mr>();
        // SAFETY: it is a zeroed object whose C part, where zeroes are valid, comes first; no other
        // thread can access it yet.
        unsafe {
            (*raw).lkey = key;
            (*raw).rkey = key;
            // CAST: pages have 64 KiB at most.
            (*raw).page_size = PAGE_SIZE as u32;
            MrObject::<D>::init(raw, value);
        }
        Ok(raw)
    };
    result().unwrap_or_else(|error| error.to_ptr())
}

/// EOPNOTSUPP for DMA handles, and for driver-private input that the driver does not know.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn reg_user_mr<D: Driver>(
    pd: *mut ffi::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut ffi::ib_dmah,
    udata: *mut ffi::ib_udata,
) -> *mut ffi::ib_mr {
    create::<D>(|| {
        if !dmah.is_null() {
            return Err(super::error::unsupported());
        }
        // SAFETY: ib_core gives null or the call's own `udata`.
        to_result(unsafe { ffi::oxe_udata_in_empty(udata) })?;
        // SAFETY: ib_core gives a domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe { (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd)) };
        D::reg_user_mr(dev, pd, start, length, iova, Access::from_raw(access))
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn get_dma_mr<D: Driver>(
    pd: *mut ffi::ib_pd,
    access: c_int,
) -> *mut ffi::ib_mr {
    create::<D>(|| {
        // SAFETY: ib_core gives a domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe { (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd)) };
        // SAFETY: ib_core calls this for a kernel user's domain alone; `Driver` has the condition.
        let memory = unsafe { KernelMemory::new() };
        D::get_dma_mr(dev, pd, memory, Access::from_raw(access))
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn rereg_user_mr<D: Driver>(
    mr: *mut ffi::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    pd: *mut ffi::ib_pd,
    udata: *mut ffi::ib_udata,
) -> *mut ffi::ib_mr {
    create::<D>(|| {
        // SAFETY: ib_core gives null or the call's own `udata`.
        to_result(unsafe { ffi::oxe_udata_in_empty(udata) })?;
        // SAFETY: ib_core gives a domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe { (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd)) };
        // SAFETY: the region was made by `create`, and is not destroyed meanwhile.
        let mr = unsafe { MrObject::<D>::get(mr) };
        let place = Place {
            start,
            length,
            iova,
        };
        let change = MrChange::new(flags, place, Access::from_raw(access));
        D::rereg_user_mr(dev, mr, pd, &change)
    })
}

/// EINVAL for types other than that for fast registration of pages.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_mr<D: Driver>(
    pd: *mut ffi::ib_pd,
    kind: ffi::ib_mr_type,
    pages: u32,
) -> *mut ffi::ib_mr {
    create::<D>(|| {
        if kind != ffi::ib_mr_type_IB_MR_TYPE_MEM_REG {
            return Err(EINVAL);
        }
        // SAFETY: ib_core gives a domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe { (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd)) };
        // SAFETY: ib_core calls this for a kernel user alone; `Driver` has the condition.
        let memory = unsafe { KernelMemory::new() };
        D::alloc_mr(dev, pd, memory, pages)
    })
}

/// Maps the pages of a scatter list, as far as they form one range of addresses and there is room.
/// Returns the number of elements, or a negative errno. Any context.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn map_mr_sg<D: Driver>(
    mr: *mut ffi::ib_mr,
    list: *mut ffi::scatterlist,
    count: c_int,
    offset: *mut kernel::ffi::c_uint,
) -> c_int {
    // SAFETY: it was made by `create`, and is not destroyed meanwhile. ib_core has set the size.
    let (part, page_size) = unsafe { (MrObject::<D>::get(mr), (*mr).page_size) };
    if let Err(error) = D::start_mapping(part, page_size) {
        return error.to_errno();
    }
    // SAFETY: the kernel user gives a list that is mapped for the device, with `count` elements.
    unsafe { ffi::ib_sg_to_pages(mr, list, count, offset, Some(map_page::<D>)) }
}

/// # Safety
///
/// Only ib_core calls this, for [`map_mr_sg`].
unsafe extern "C" fn map_page<D: Driver>(mr: *mut ffi::ib_mr, address: u64) -> c_int {
    // SAFETY: `map_mr_sg` was called for it, and has not returned.
    errno(D::map_page(unsafe { MrObject::<D>::get(mr) }, address))
}

/// EOPNOTSUPP for an advice, and EINVAL for flags, that there are not.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn advise_mr<D: Driver>(
    pd: *mut ffi::ib_pd,
    advice: ffi::ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut ffi::ib_sge,
    count: u32,
    _attrs: *mut ffi::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        let advice = Advice::from_raw(advice, flags)?;
        // SAFETY: ib_core gives a domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe { (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd)) };
        for index in 0..count as usize {
            // SAFETY: ib_core gives a list of `count` elements.
            let sge = unsafe { &*list.add(index) };
            D::advise_mr(dev, pd, advice, sge.lkey, sge.addr, sge.length)?;
        }
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dereg_mr<D: Driver>(
    mr: *mut ffi::ib_mr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was made by `create`, and ib_core allows no other use of it any more.
    let done = D::dereg_mr(unsafe { MrObject::<D>::get(mr) });
    if done.is_ok() {
        // SAFETY: as above.
        drop(unsafe { MrObject::<D>::take(mr) });
        // SAFETY: `create` took it out of a box of this type.
        drop(unsafe { KBox::from_raw(mr.cast::<MaybeUninit<MrObject<D>>>()) });
    }
    errno(done)
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn fill_res_mr_entry<D: Driver>(
    msg: *mut ffi::sk_buff,
    mr: *mut ffi::ib_mr,
) -> c_int {
    // SAFETY: it was initialised when it was made; ib_core's destroy waits for this call
    // (`rdma_restrack_del`).
    let mr = unsafe { MrObject::<D>::get(mr) };
    from_result(|| {
        // SAFETY: ib_core answers a process here.
        unsafe { Details::write(msg, |details| D::mr_details(mr, details)) }?;
        Ok(0)
    })
}
