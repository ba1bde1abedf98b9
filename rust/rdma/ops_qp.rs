// SPDX-License-Identifier: GPL-2.0

//! Operations on queue pairs, except posting.

use super::details::Details;
use super::device::Device;
use super::driver::Driver;
use super::events::QpEvents;
use super::object::Object;
use super::ops_cq::CqObject;
use super::ops_pd::PdObject;
use super::ops_srq::SrqObject;
use super::ops_ucontext::caller;
use super::post::errno;
use super::qp::{QpAttr, QpCaps, QpInit, QpQuery, QpType};
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// The Rust value behind a queue pair.
pub(super) struct QpPart<D: Driver> {
    /// The driver's part.
    pub(super) driver: D::Qp,
    /// The transport service.
    pub(super) kind: QpType,
    /// Whether a process owns it.
    pub(super) user: bool,
    events: QpEvents,
}

/// The object that ib_core allocates for a queue pair.
pub(super) type QpObject<D> = Object<ffi::ib_qp, QpPart<D>>;

/// EOPNOTSUPP for services and features that we do not have, EINVAL for a queue pair without
/// completion queues.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn create_qp<D: Driver>(
    qp: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_init_attr,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives the call's attributes, which are ours to change.
        let attr = unsafe { &mut *attr };
        let kind = QpType::from_raw(attr.qp_type)?;
        if attr.create_flags != 0 || !attr.rwq_ind_tbl.is_null() {
            return Err(super::error::unsupported());
        }
        if attr.send_cq.is_null() || attr.recv_cq.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let user = unsafe { caller::<D>(udata) }?;
        let is_user = user.is_some();
        // SAFETY: ib_core gives a queue pair under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*qp).device) };
        // SAFETY: the domain was made by `alloc_pd`, and outlives the queue pair.
        let pd = unsafe { PdObject::<D>::get((*qp).pd) };
        let init = QpInit {
            kind,
            // SAFETY: the queues are not null, were made by `create_cq`, and outlive the queue
            // pair.
            send_cq: unsafe { &CqObject::<D>::get(attr.send_cq).driver },
            // SAFETY: as above.
            recv_cq: unsafe { &CqObject::<D>::get(attr.recv_cq).driver },
            srq: if attr.srq.is_null() {
                None
            } else {
                // SAFETY: as above, by `create_srq`.
                Some(unsafe { &SrqObject::<D>::get(attr.srq).driver })
            },
            cap: QpCaps::from_raw(&attr.cap),
            sig_all: attr.sq_sig_type == ffi::ib_sig_type_IB_SIGNAL_ALL_WR,
        };
        // SAFETY: the queue pair is valid until `events` is closed: by `destroy_qp`, or by the
        // error path below.
        let events = unsafe { QpEvents::new(qp, is_user) }?;
        let (driver, created) = D::create_qp(dev, pd, &init, events.clone(), user)
            // The driver may have kept a handle, and ib_core frees the queue pair now.
            .inspect_err(|_| events.close())?;
        created.caps.fill(&mut attr.cap);
        // SAFETY: the queue pair is under construction, so this is ours to set.
        unsafe { (*qp).qp_num = created.qpn };
        let part = QpPart {
            driver,
            kind,
            user: is_user,
            events,
        };
        // SAFETY: it was allocated with `QpObject::SIZE`, and no other thread uses it yet.
        unsafe { QpObject::<D>::init(qp, part) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn modify_qp<D: Driver>(
    qp: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    mask: c_int,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives the attributes that the mask names. If there is an address vector,
        // it has a reference on the source GID's entry.
        // CAST: the mask is bits, whatever its sign.
        let attr = unsafe { QpAttr::new(&*attr, mask as u32) }?;
        // SAFETY: the queue pair was initialised by `create_qp` and is not being destroyed.
        D::modify_qp(&unsafe { QpObject::<D>::get(qp) }.driver, &attr)?;
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_qp<D: Driver>(
    qp: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    _mask: c_int,
    init: *mut ffi::ib_qp_init_attr,
) -> c_int {
    // SAFETY: ib_core gives structures to fill in.
    let (attr, init) = unsafe { (&mut *attr, &mut *init) };
    // SAFETY: the queue pair is valid, and these do not change.
    unsafe {
        init.event_handler = (*qp).event_handler;
        init.qp_context = (*qp).qp_context;
        init.send_cq = (*qp).send_cq;
        init.recv_cq = (*qp).recv_cq;
        init.srq = (*qp).srq;
        init.qp_type = (*qp).qp_type;
    }
    // SAFETY: the queue pair was initialised by `create_qp` and is not being destroyed.
    let part = unsafe { QpObject::<D>::get(qp) };
    D::query_qp(&part.driver, &mut QpQuery::new(attr, init));
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn attach_mcast<D: Driver>(
    qp: *mut ffi::ib_qp,
    gid: *mut ffi::ib_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: ib_core gives a queue pair that was initialised by `create_qp` and is not being
    // destroyed, of a device of ours.
    let (dev, part) = unsafe { (Device::<D>::from_raw((*qp).device), QpObject::<D>::get(qp)) };
    // SAFETY: ib_core gives a GID, a union of plain bytes.
    let gid = unsafe { (*gid).raw.as_ref() };
    errno(D::attach_mcast(dev, &part.driver, gid))
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn detach_mcast<D: Driver>(
    qp: *mut ffi::ib_qp,
    gid: *mut ffi::ib_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: as in `attach_mcast`.
    let (dev, part) = unsafe { (Device::<D>::from_raw((*qp).device), QpObject::<D>::get(qp)) };
    // SAFETY: as in `attach_mcast`.
    let gid = unsafe { (*gid).raw.as_ref() };
    errno(D::detach_mcast(dev, &part.driver, gid))
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn destroy_qp<D: Driver>(
    qp: *mut ffi::ib_qp,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was initialised by `create_qp`, and ib_core allows no other use of it any more.
    let part = unsafe { QpObject::<D>::get(qp) };
    D::destroy_qp(&part.driver);
    part.events.close();
    // SAFETY: as above; the reference from `get` is not used again.
    drop(unsafe { QpObject::<D>::take(qp) });
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn fill_res_qp_entry<D: Driver>(
    msg: *mut ffi::sk_buff,
    qp: *mut ffi::ib_qp,
) -> c_int {
    // SAFETY: it was initialised when it was made; ib_core's destroy waits for this call
    // (`rdma_restrack_begin_del`).
    let part = unsafe { QpObject::<D>::get(qp) };
    from_result(|| {
        // SAFETY: ib_core answers a process here.
        unsafe { Details::write(msg, |details| D::qp_details(&part.driver, details)) }?;
        Ok(0)
    })
}
