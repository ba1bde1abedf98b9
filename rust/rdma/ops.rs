// SPDX-License-Identifier: GPL-2.0

//! The operations table of a driver.
//!
//! Only ib_core calls the functions in it, by the rules that `ib_verbs.h` and ib_core's code show:
//! pointers are valid for the call, objects are of a device with this table and have been through
//! their create.

use super::driver::Driver;
use super::{
    device, mmap, ops_ah, ops_counter, ops_cq, ops_device, ops_gid, ops_mad, ops_mr, ops_mw,
    ops_pd, ops_post, ops_qp, ops_srq, ops_ucontext,
};
use crate::ffi;

/// Commands of processes that ib_core does not enable by itself: the doorbell, and arming a
/// completion queue.
pub(super) const COMMANDS: u64 = 1 << ffi::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
    | 1 << ffi::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

/// Holds the operations table of each driver.
struct Table<D>(core::marker::PhantomData<D>);

impl<D: Driver> Table<D> {
    const OPS: ffi::ib_device_ops = ffi::ib_device_ops {
        driver_id: D::DRIVER_ID.0,
        uverbs_abi_ver: D::ABI_VERSION,

        query_device: Some(ops_device::query_device::<D>),
        modify_device: Some(ops_device::modify_device),
        query_port: Some(ops_device::query_port::<D>),
        query_pkey: Some(ops_device::query_pkey),
        get_port_immutable: Some(ops_device::get_port_immutable::<D>),
        get_link_layer: Some(ops_device::get_link_layer),
        get_dev_fw_str: Some(ffi::oxe_ib_fw_str),
        alloc_hw_port_stats: if D::COUNTERS.is_empty() {
            None
        } else {
            Some(ops_device::alloc_hw_port_stats::<D>)
        },
        get_hw_stats: if D::COUNTERS.is_empty() {
            None
        } else {
            Some(ops_device::get_hw_stats::<D>)
        },
        counter_init: Some(ops_counter::counter_init::<D>),
        counter_alloc_stats: Some(ops_counter::counter_alloc_stats::<D>),
        counter_bind_qp: Some(ops_counter::counter_bind_qp::<D>),
        counter_unbind_qp: Some(ops_counter::counter_unbind_qp::<D>),
        counter_update_stats: Some(ops_counter::counter_update_stats::<D>),
        counter_dealloc: Some(ops_counter::counter_dealloc::<D>),
        process_mad: Some(ops_mad::process_mad::<D>),
        add_gid: Some(ops_gid::add_gid::<D>),
        del_gid: Some(ops_gid::del_gid::<D>),
        dealloc_driver: Some(device::dealloc_driver::<D>),

        alloc_ucontext: Some(ops_ucontext::alloc_ucontext::<D>),
        dealloc_ucontext: Some(ops_ucontext::dealloc_ucontext::<D>),
        disassociate_ucontext: Some(ops_ucontext::disassociate_ucontext),
        mmap: Some(mmap::mmap),
        mmap_free: Some(mmap::mmap_free),
        alloc_pd: Some(ops_pd::alloc_pd::<D>),
        dealloc_pd: Some(ops_pd::dealloc_pd::<D>),

        create_ah: Some(ops_ah::create_ah::<D>),
        create_user_ah: Some(ops_ah::create_user_ah::<D>),
        modify_ah: if D::HAS_MODIFY_AH {
            Some(ops_ah::modify_ah::<D>)
        } else {
            None
        },
        query_ah: if D::HAS_QUERY_AH {
            Some(ops_ah::query_ah::<D>)
        } else {
            None
        },
        destroy_ah: Some(ops_ah::destroy_ah::<D>),

        create_cq: Some(ops_cq::create_cq::<D>),
        resize_user_cq: if D::HAS_RESIZE_CQ {
            Some(ops_cq::resize_cq::<D>)
        } else {
            None
        },
        modify_cq: if D::HAS_MODIFY_CQ {
            Some(ops_cq::modify_cq::<D>)
        } else {
            None
        },
        pre_destroy_cq: Some(ops_cq::pre_destroy_cq::<D>),
        destroy_cq: Some(ops_cq::destroy_cq::<D>),
        fill_res_cq_entry: Some(ops_cq::fill_res_cq_entry::<D>),
        poll_cq: Some(ops_cq::poll_cq::<D>),
        req_notify_cq: Some(ops_cq::req_notify_cq::<D>),

        create_qp: Some(ops_qp::create_qp::<D>),
        modify_qp: Some(ops_qp::modify_qp::<D>),
        attach_mcast: Some(ops_qp::attach_mcast::<D>),
        detach_mcast: Some(ops_qp::detach_mcast::<D>),
        query_qp: Some(ops_qp::query_qp::<D>),
        fill_res_qp_entry: Some(ops_qp::fill_res_qp_entry::<D>),
        destroy_qp: Some(ops_qp::destroy_qp::<D>),
        post_send: Some(ops_post::post_send::<D>),
        post_recv: Some(ops_post::post_recv::<D>),

        create_srq: Some(ops_srq::create_srq::<D>),
        modify_srq: Some(ops_srq::modify_srq::<D>),
        query_srq: Some(ops_srq::query_srq::<D>),
        destroy_srq: Some(ops_srq::destroy_srq::<D>),
        fill_res_srq_entry: Some(ops_srq::fill_res_srq_entry::<D>),
        post_srq_recv: Some(ops_srq::post_srq_recv::<D>),

        get_dma_mr: Some(ops_mr::get_dma_mr::<D>),
        reg_user_mr: Some(ops_mr::reg_user_mr::<D>),
        rereg_user_mr: Some(ops_mr::rereg_user_mr::<D>),
        alloc_mr: Some(ops_mr::alloc_mr::<D>),
        map_mr_sg: Some(ops_mr::map_mr_sg::<D>),
        advise_mr: Some(ops_mr::advise_mr::<D>),
        fill_res_mr_entry: Some(ops_mr::fill_res_mr_entry::<D>),
        dereg_mr: Some(ops_mr::dereg_mr::<D>),
        alloc_mw: Some(ops_mw::alloc_mw::<D>),
        dealloc_mw: Some(ops_mw::dealloc_mw::<D>),

        size_ib_ah: ops_ah::AhObject::<D>::SIZE,
        size_ib_cq: ops_cq::CqObject::<D>::SIZE,
        size_ib_mw: ops_mw::MwObject::<D>::SIZE,
        size_ib_pd: ops_pd::PdObject::<D>::SIZE,
        size_ib_qp: ops_qp::QpObject::<D>::SIZE,
        size_ib_srq: ops_srq::SrqObject::<D>::SIZE,
        size_ib_ucontext: ops_ucontext::ContextObject::<D>::SIZE,
        size_rdma_counter: ops_counter::CounterObject::<D>::SIZE,
        ..pin_init::zeroed()
    };
}

/// The table for `D`. The owner is left out (see `owner`).
pub(super) fn table<D: Driver>() -> &'static ffi::ib_device_ops {
    const { &Table::<D>::OPS }
}
