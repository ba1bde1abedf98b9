// SPDX-License-Identifier: GPL-2.0

//! The trait that an RDMA provider implements.

use super::access::Access;
use super::attr::{DeviceAttr, DriverId, PortAttr};
use super::details::Details;
use super::device::Device;
use super::events::{CqEvents, QpEvents, SrqEvents};
use super::gid::AhAttr;
use super::mr::{Advice, MrChange, MwType};
use super::port::MAD_SIZE;
use super::qp::{QpAttr, QpCreated, QpInit, QpQuery};
use super::srq::{SrqAttr, SrqChange};
use super::udata::UserCtx;
use super::umem::KernelMemory;
use super::wc::WcSlots;
use super::wr::{RecvWr, SendWr};
use crate::net::netdev::NetDevice;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;

/// The attributes that a process or a kernel user requests for a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqInit {
    /// The minimum number of entries; not zero.
    pub(crate) cqe: u32,
}

/// An RDMA provider: the Rust data behind an ib_device.
///
/// Functions run in process context and may sleep unless they say otherwise. Associated types are
/// the Rust parts of verbs objects; ib_core frees an object right after destroy, so data that
/// timers, packets and work need belong in an `Arc` inside. Values are dropped in process context,
/// except address handles of kernel users.
///
/// ib_core guarantees that no function runs on an object while it is created or destroyed.
/// Otherwise functions may run on one object concurrently.
///
/// A verb with `VTABLE_DEFAULT_ERROR` as its body is optional: if the driver does not have it, the
/// table of operations has no entry, and ib_core answers EOPNOTSUPP.
#[vtable]
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    /// A process's context: one for each time it opens the device.
    type Ucontext: Send + Sync;
    /// A protection domain.
    type Pd: Send + Sync;
    /// A completion queue.
    type Cq: Send + Sync;
    /// A shared receive queue.
    type Srq: Send + Sync;
    /// A queue pair.
    type Qp: Send + Sync;
    /// An address handle.
    type Ah: Send + Sync;
    /// A memory region.
    type Mr: Send + Sync;
    /// A memory window.
    type Mw: Send + Sync;

    /// A counter that queue pairs are bound to (`rdma statistic qp`).
    type Counter: Send + Sync;

    /// What the driver keeps for each GID. Dropped in process context, perhaps under RTNL.
    type GidUse: Send + Sync;

    /// The kernel's number of the driver, by which libibverbs finds the provider.
    const DRIVER_ID: DriverId;

    /// The version of what the provider and the driver share, by which libibverbs judges whether
    /// they fit together.
    const ABI_VERSION: u32;

    /// The names of the port's counters; at most 64.
    const COUNTERS: &'static [&'static CStr];

    /// How many of these a [`Driver::Counter`] has, the first ones.
    const QP_COUNTERS: usize;

    /// Fills in limits and capabilities. Called while the device is being registered and later.
    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr);

    /// The length of the port's GID table. It does not change while the device exists.
    fn gid_table_len(dev: &Device<Self>) -> u16;

    /// Fills in the state of the port. See [`PortAttr`] for what is preset.
    fn query_port(dev: &Device<Self>, attr: &mut PortAttr) -> Result;

    /// Writes the counters' values, in the order of [`Driver::COUNTERS`]. `out` has the same
    /// length. ib_core adds the values of each [`Driver::Counter`] that there is, or was.
    fn counters(dev: &Device<Self>, out: &mut [u64]);

    /// Whether messages of the device to itself go without packets, from now on. The file
    /// `loopback` of the device in sysfs shows it.
    fn loopback(dev: &Device<Self>) -> bool;

    /// Sets that.
    fn set_loopback(dev: &Device<Self>, on: bool);

    /// The reply to a management datagram, if the driver has one: to a request for the performance
    /// counters. Called while the device is being registered and later; process context.
    fn reply_to_mad(dev: &Device<Self>, request: &[u8; MAD_SIZE]) -> Option<[u8; MAD_SIZE]>;

    /// The device is there for its users: for the first time, or again after it has moved to
    /// another network namespace. Must not call ib_core.
    fn added(dev: &Device<Self>);

    /// The device, which is there for its users, has another name. Must not call ib_core.
    fn renamed(dev: &Device<Self>);

    /// The device is about to go, or to move. Processes still have it, and lose it when this has
    /// returned. They may call verbs meanwhile and shortly afterwards.
    fn removing(dev: &Device<Self>);

    /// The device is about to get a GID, an address of `netdev`. Process context, perhaps under
    /// RTNL. The value is dropped when look-ups no longer find the GID.
    fn add_gid(dev: &Device<Self>, netdev: &NetDevice) -> Option<Self::GidUse>;

    /// A process opens the device.
    fn alloc_ucontext(dev: &Device<Self>) -> Result<Self::Ucontext>;

    /// Makes a protection domain, in the context of a process or for a kernel user.
    fn alloc_pd(dev: &Device<Self>, context: Option<&Self::Ucontext>) -> Result<Self::Pd>;

    /// Makes an address handle. Also returns its number for the response to the process (not zero).
    ///
    /// With `user` false the handle is for a kernel user: the number is ignored, and the handle may
    /// be made and dropped in atomic context.
    fn create_ah(
        dev: &Device<Self>,
        pd: &Self::Pd,
        attr: &AhAttr,
        user: bool,
    ) -> Result<(Self::Ah, u32)>;

    /// Changes the address vector of an address handle. Any context.
    fn modify_ah(ah: &Self::Ah, attr: &AhAttr) -> Result {
        let _ = (ah, attr);
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The address vector of an address handle. Any context.
    fn query_ah(ah: &Self::Ah) -> AhAttr {
        let _ = ah;
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a completion queue. Also returns the number of its entries. `user` and `context` are
    /// `Some` if a process is the caller.
    fn create_cq(
        dev: &Device<Self>,
        init: CqInit,
        events: CqEvents,
        user: Option<UserCtx<'_>>,
        context: Option<&Self::Ucontext>,
    ) -> Result<(Self::Cq, u32)>;

    /// Resizes the completion queue of a process. Returns the number of its entries. ib_core does
    /// not serialise calls.
    fn resize_cq(cq: &Self::Cq, cqe: u32, user: UserCtx<'_>) -> Result<u32> {
        let _ = (cq, cqe, user);
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Sets the moderation of a completion queue's events: how many completions an event waits for,
    /// and for how many microseconds at most.
    fn modify_cq(cq: &Self::Cq, count: u16, period: u16) -> Result {
        let _ = (cq, count, period);
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Writes details of a completion queue, as those of a queue pair.
    fn cq_details(cq: &Self::Cq, out: &mut Details);

    /// Called before a completion queue is destroyed, when no queue pair uses it; perhaps twice.
    /// Once this returns, the queue's events are closed and it is dropped.
    fn destroy_cq(cq: &Self::Cq);

    /// Hands completions to a kernel user until there are no more, or no slots. Any context.
    fn poll_cq(cq: &Self::Cq, out: &mut WcSlots<'_>);

    /// Arms a completion queue. If `report_missed`, returns whether it holds completions already.
    /// Any context.
    fn req_notify(cq: &Self::Cq, solicited_only: bool, report_missed: bool) -> bool;

    /// Makes a shared receive queue. Also returns its attributes: no size is less than that wanted.
    fn create_srq(
        dev: &Device<Self>,
        pd: &Self::Pd,
        wanted: &SrqAttr,
        events: SrqEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<(Self::Srq, SrqAttr)>;

    /// Changes attributes: all or none. ib_core does not serialise calls.
    fn modify_srq(srq: &Self::Srq, change: &SrqChange, user: Option<UserCtx<'_>>) -> Result;

    /// Reports the attributes.
    fn query_srq(srq: &Self::Srq) -> SrqAttr;

    /// Writes details of a shared receive queue, as those of a queue pair.
    fn srq_details(srq: &Self::Srq, out: &mut Details);

    /// Called before a shared receive queue is destroyed, when no queue pair uses it. Once this
    /// returns, the queue's events are closed and it is dropped.
    fn destroy_srq(srq: &Self::Srq);

    /// Posts one receive request of a kernel user. Any context.
    fn post_srq_recv(srq: &Self::Srq, wr: &RecvWr<'_>) -> Result;

    /// Makes a queue pair in the reset state.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Self::Pd,
        init: &QpInit<'_, Self::Cq, Self::Srq>,
        events: QpEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<(Self::Qp, QpCreated)>;

    /// Changes attributes and state. ib_core does not serialise calls.
    fn modify_qp(qp: &Self::Qp, attr: &QpAttr<'_>) -> Result;

    /// Reports attributes and state.
    fn query_qp(qp: &Self::Qp, out: &mut QpQuery<'_>);

    /// Writes details of a queue pair for `rdma resource show`. Process context.
    fn qp_details(qp: &Self::Qp, out: &mut Details);

    /// Called before a queue pair is destroyed. Once this returns, its events are closed and it is
    /// dropped.
    fn destroy_qp(qp: &Self::Qp);

    /// Makes a counter, without queue pairs. Also returns its number, not zero and no other's.
    fn alloc_counter(dev: &Device<Self>) -> Result<(Self::Counter, u32)>;

    /// Binds a queue pair, which is bound to no counter, to this one.
    fn bind_counter(counter: &Self::Counter, qp: &Self::Qp);

    /// Takes [`Driver::bind_counter`] back: nothing is added to the counter after this. ib_core
    /// does so before it destroys a queue pair.
    fn unbind_counter(qp: &Self::Qp);

    /// The value of a counter that [`Driver::COUNTERS`] names at `index`, one of the first
    /// [`Driver::QP_COUNTERS`].
    fn counter_value(counter: &Self::Counter, index: usize) -> u64;

    /// Posts one send request of a kernel user. [`Driver::doorbell`] follows after the last one.
    /// Any context.
    fn post_send(qp: &Self::Qp, wr: &SendWr<'_, Self::Ah>) -> Result;

    /// Starts the posted requests: after those of a kernel user (any context), and when a process
    /// rings the doorbell for the requests in its ring (process context).
    ///
    /// An error is returned to a process; a kernel user had its result from [`Driver::post_send`].
    fn doorbell(qp: &Self::Qp) -> Result;

    /// Posts one receive request of a kernel user. [`Driver::posted_recv`] follows after the last
    /// one. Any context.
    fn post_recv(qp: &Self::Qp, wr: &RecvWr<'_>) -> Result;

    /// Receive requests were posted. Any context.
    fn posted_recv(qp: &Self::Qp);

    /// Attaches a datagram queue pair to the multicast group of this GID. EINVAL if it is attached
    /// already; ENOMEM beyond the limits that the device reports.
    fn attach_mcast(dev: &Device<Self>, qp: &Self::Qp, gid: &[u8; 16]) -> Result;

    /// Takes [`Driver::attach_mcast`] back. EINVAL if the queue pair is not attached. ib_core does
    /// so before it destroys a queue pair.
    fn detach_mcast(dev: &Device<Self>, qp: &Self::Qp, gid: &[u8; 16]) -> Result;

    /// Registers memory of the calling process (see [`super::umem::UserMemory::pin`]). Also returns
    /// the key, which is lkey and rkey.
    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Self::Pd,
        start: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<(Self::Mr, u32)>;

    /// Registers the memory of `mr` anew, with this change, in `pd`. Also returns the key of the
    /// new region. ib_core deregisters `mr` then; on an error it stays as it is.
    fn rereg_user_mr(
        dev: &Device<Self>,
        mr: &Self::Mr,
        pd: &Self::Pd,
        change: &MrChange,
    ) -> Result<(Self::Mr, u32)>;

    /// Registers all of the kernel's memory for a kernel user, which names it by virtual addresses.
    /// Also returns the key. The driver keeps the invariant of [`KernelMemory`].
    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &Self::Pd,
        memory: KernelMemory,
        access: Access,
    ) -> Result<(Self::Mr, u32)>;

    /// Allocates a region of at most `pages` pages for fast registration by a kernel user. Also
    /// returns its first key. The driver keeps the invariant of [`KernelMemory`].
    fn alloc_mr(
        dev: &Device<Self>,
        pd: &Self::Pd,
        memory: KernelMemory,
        pages: u32,
    ) -> Result<(Self::Mr, u32)>;

    /// The kernel user maps pages of this size for the next fast registration. Any context.
    fn start_mapping(mr: &Self::Mr, page_size: u32) -> Result;

    /// Maps one more page. Any context. ENOMEM when there is no room for it.
    fn map_page(mr: &Self::Mr, address: u64) -> Result;

    /// Writes details of a memory region, as those of a queue pair.
    fn mr_details(mr: &Self::Mr, out: &mut Details);

    /// Called before a memory region is destroyed. Once this returns, nothing may access its
    /// memory, and it is dropped. On an error it stays.
    fn dereg_mr(mr: &Self::Mr) -> Result;

    /// A process or kernel user advises on `len` bytes at `va` of the region with this key.
    ///
    /// EFAULT if there is no such region in `pd`, if it does not have all of the bytes or must not
    /// be written to, and if the process does not have them.
    fn advise_mr(
        dev: &Device<Self>,
        pd: &Self::Pd,
        advice: Advice,
        key: u32,
        va: u64,
        len: u32,
    ) -> Result;

    /// Allocates a memory window for a process. Also returns its first key.
    fn alloc_mw(dev: &Device<Self>, pd: &Self::Pd, kind: MwType) -> Result<(Self::Mw, u32)>;

    /// As [`Driver::dereg_mr`], for a memory window.
    fn dealloc_mw(mw: &Self::Mw) -> Result;

    /// `rdma link add NAME type TYPE netdev NDEV`: registers a device (see [`Device::register`]).
    /// `compat` tells whether TYPE is the compatible link type.
    fn new_link(name: &CStr, ndev: &NetDevice, compat: bool) -> Result;
}
