// SPDX-License-Identifier: GPL-2.0

//! The verbs: each calls the object that it is about.

use super::cq::{self, Cq, CqObject};
use super::gid_use::GidUse;
use super::mem::mkeys::MkeyObject;
use super::mem::mr::{Mr, ProcessMemory};
use super::mem::range::Range;
use super::object::Oxe;
use super::packet::ah::AhObject;
use super::pd::PdObject;
use super::qp::counter::QpCounterObject;
use super::qp::object::{Qp, QpObject};
use super::qp::progress::Input;
use super::qp::srq::{Srq, SrqObject};
use super::qp::{attr, details, engine, removal};
use super::{counters, limits, link, uabi};
use crate::net::netdev::NetDevice;
use crate::proto::transport::State;
use crate::proto::wire::{perf_mgmt, Gid};
use crate::rdma::access::Access;
use crate::rdma::attr::{AtomicCap, DeviceAttr, DeviceCaps, DriverId, OdpCaps, OdpOps, PortAttr};
use crate::rdma::details::Details;
use crate::rdma::device::Device;
use crate::rdma::driver::{CqInit, Driver};
use crate::rdma::events::{CqEvents, QpEvents, SrqEvents};
use crate::rdma::gid::AhAttr;
use crate::rdma::mr::{Advice, MrChange, MwType};
use crate::rdma::port::MAD_SIZE;
use crate::rdma::qp::{QpAttr, QpCreated, QpInit, QpQuery};
use crate::rdma::srq::{SrqAttr, SrqChange};
use crate::rdma::udata::UserCtx;
use crate::rdma::umem::KernelMemory;
use crate::rdma::wc::WcSlots;
use crate::rdma::wr::{RecvWr, SendWr};
use crate::sync::quota::{Account, Owner};
use crate::sync::registry::{Registered, Registry};
use crate::sync::{barrier, user};
use kernel::prelude::*;
use kernel::str::CStr;

/// The owner of what is made in the context of a process, or for a kernel user.
fn owner(context: Option<&Registered<Account>>) -> Owner {
    context.map_or(Owner::KERNEL, |account| Owner::process((**account).clone()))
}

/// Whether a send queue takes requests in this state (IBTA 10.8.2).
fn takes_sends(state: State) -> bool {
    matches!(state, State::Rts | State::Sqd | State::Sqe | State::Err)
}

#[vtable]
impl Driver for Oxe {
    /// The account of the user that opened the device.
    type Ucontext = Registered<Account>;
    type Pd = PdObject;
    type Cq = CqObject;
    type Srq = SrqObject;
    type Qp = QpObject;
    type Ah = AhObject;
    type Mr = MkeyObject;
    type Mw = MkeyObject;
    type Counter = QpCounterObject;
    type GidUse = GidUse;

    const DRIVER_ID: DriverId = limits::DRIVER_ID;
    const ABI_VERSION: u32 = uabi::VERSION;
    const COUNTERS: &'static [&'static CStr] = &counters::NAMES;
    const QP_COUNTERS: usize = counters::QP_TOTAL;

    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr) {
        let (vendor_id, vendor_part_id) = match dev.compat {
            true => (limits::RXE_VENDOR_ID, 0),
            false => (limits::VENDOR_ID, limits::PART_ID),
        };
        *attr = DeviceAttr {
            sys_image_guid: dev.node_guid(),
            max_mr_size: u64::MAX,
            page_size_cap: 0xffff_f000,
            vendor_id,
            vendor_part_id,
            max_qp: limits::MAX_QP,
            max_qp_wr: limits::MAX_QP_WR,
            device_cap_flags: DeviceCaps::BAD_PKEY_CNTR
                | DeviceCaps::BAD_QKEY_CNTR
                | DeviceCaps::UD_AV_PORT_ENFORCE
                | DeviceCaps::PORT_ACTIVE_EVENT
                | DeviceCaps::SYS_IMAGE_GUID
                | DeviceCaps::RC_RNR_NAK_GEN
                | DeviceCaps::SRQ_RESIZE
                | DeviceCaps::MEM_MGT_EXTENSIONS
                | DeviceCaps::MEM_WINDOW
                | DeviceCaps::MEM_WINDOW_TYPE_2B
                | DeviceCaps::FLUSH_GLOBAL
                | DeviceCaps::ATOMIC_WRITE,
            max_send_sge: limits::MAX_SGE,
            max_recv_sge: limits::MAX_SGE,
            max_sge_rd: limits::MAX_SGE,
            max_cq: limits::MAX_CQ,
            max_cqe: limits::MAX_CQE,
            max_srq: limits::MAX_SRQ,
            max_srq_wr: limits::MAX_SRQ_WR,
            max_srq_sge: limits::MAX_SGE,
            max_mr: limits::MAX_MR,
            max_mw: limits::MAX_MW,
            max_fast_reg_page_list_len: limits::MAX_FAST_REG_PAGES,
            max_pd: limits::MAX_PD,
            max_qp_rd_atom: limits::MAX_RD_ATOMIC,
            max_res_rd_atom: limits::MAX_QP.saturating_mul(limits::MAX_RD_ATOMIC),
            max_qp_init_rd_atom: limits::MAX_RD_ATOMIC,
            atomic_cap: AtomicCap::Glob,
            max_mcast_grp: limits::MAX_MCAST_GRP,
            max_mcast_qp_attach: limits::MAX_MCAST_QP_ATTACH,
            max_total_mcast_qp_attach: limits::MAX_MCAST_GRP
                .saturating_mul(limits::MAX_MCAST_QP_ATTACH),
            max_ah: limits::MAX_AH,
            max_cq_moderation_count: u16::MAX,
            max_cq_moderation_period: u16::MAX,
            local_ca_ack_delay: limits::LOCAL_CA_ACK_DELAY,
            // A receiver of UC and UD cannot make the sender wait: see OdpMr.
            odp: Some(OdpCaps {
                rc: OdpOps::ALL,
                uc: OdpOps::SEND,
                ud: OdpOps::SEND,
            }),
            ..*attr
        };
    }

    fn gid_table_len(dev: &Device<Self>) -> u16 {
        let gids = dev.port.settings().gids;
        gids.clamp(limits::MIN_GIDS, limits::MAX_GIDS)
    }

    fn query_port(dev: &Device<Self>, attr: &mut PortAttr) -> Result {
        dev.port.query(attr)
    }

    fn counters(dev: &Device<Self>, out: &mut [u64]) {
        dev.port.counters.read_unbound(out);
    }

    fn loopback(dev: &Device<Self>) -> bool {
        dev.port.loopback()
    }

    fn set_loopback(dev: &Device<Self>, on: bool) {
        dev.port.set_loopback(on);
    }

    fn reply_to_mad(dev: &Device<Self>, request: &[u8; MAD_SIZE]) -> Option<[u8; MAD_SIZE]> {
        perf_mgmt::reply(request, &dev.port.counters.of_port())
    }

    fn added(dev: &Device<Self>) {
        removal::cancel(&dev.qps);
        dev.port.publish(dev);
    }

    fn renamed(dev: &Device<Self>) {
        dev.port.rename(dev);
    }

    fn removing(dev: &Device<Self>) {
        dev.port.withdraw();
        removal::begin(&dev.qps);
    }

    fn add_gid(dev: &Device<Self>, netdev: &NetDevice) -> Option<GidUse> {
        GidUse::new(&dev.port, &dev.qps, netdev)
    }

    fn alloc_ucontext(dev: &Device<Self>) -> Result<Registered<Account>> {
        let id = user::current_id();
        Registry::get(&dev.accounts, id, || Account::new(id))
    }

    fn alloc_pd(dev: &Device<Self>, context: Option<&Registered<Account>>) -> Result<PdObject> {
        dev.pds.alloc(owner(context))
    }

    fn create_ah(
        dev: &Device<Self>,
        pd: &PdObject,
        attr: &AhAttr,
        user: bool,
    ) -> Result<(Self::Ah, u32)> {
        if user {
            dev.port.check_source(attr)?;
        }
        let ah = AhObject::new(&dev.ahs, pd, attr, user)?;
        let number = ah.number();
        Ok((ah, number))
    }

    fn modify_ah(ah: &AhObject, attr: &AhAttr) -> Result {
        ah.modify(attr)
    }

    fn query_ah(ah: &AhObject) -> AhAttr {
        ah.query()
    }

    fn create_cq(
        dev: &Device<Self>,
        init: CqInit,
        events: CqEvents,
        user: Option<UserCtx<'_>>,
        context: Option<&Registered<Account>>,
    ) -> Result<(CqObject, u32)> {
        Cq::create(&dev.cqs, &init, events, user, &owner(context))
    }

    fn resize_cq(cq: &CqObject, cqe: u32, user: UserCtx<'_>) -> Result<u32> {
        cq.cq.resize(cqe, &user)
    }

    fn modify_cq(cq: &CqObject, count: u16, period: u16) -> Result {
        cq.cq.moderate(count, period)
    }

    fn cq_details(cq: &CqObject, out: &mut Details) {
        cq::details(&cq.cq, out);
    }

    fn destroy_cq(cq: &CqObject) {
        cq.cq.close();
    }

    fn poll_cq(cq: &CqObject, out: &mut WcSlots<'_>) {
        cq.cq.poll(out);
    }

    fn req_notify(cq: &CqObject, solicited_only: bool, report_missed: bool) -> bool {
        cq.cq.arm(solicited_only) && report_missed
    }

    fn create_srq(
        dev: &Device<Self>,
        pd: &PdObject,
        wanted: &SrqAttr,
        events: SrqEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<(SrqObject, SrqAttr)> {
        Srq::create(&dev.srqs, pd, wanted, events, user)
    }

    fn modify_srq(srq: &SrqObject, change: &SrqChange, user: Option<UserCtx<'_>>) -> Result {
        srq.srq.modify(change, user)
    }

    fn query_srq(srq: &SrqObject) -> SrqAttr {
        srq.srq.query()
    }

    fn srq_details(srq: &SrqObject, out: &mut Details) {
        srq.srq.details(out);
    }

    fn destroy_srq(srq: &SrqObject) {
        srq.srq.close();
    }

    fn post_srq_recv(srq: &SrqObject, wr: &RecvWr<'_>) -> Result {
        srq.srq.post(wr)
    }

    fn create_qp(
        dev: &Device<Self>,
        pd: &PdObject,
        init: &QpInit<'_, CqObject, SrqObject>,
        events: QpEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<(QpObject, QpCreated)> {
        let object = Qp::create(&dev.qps, pd, init, events, user)?;
        let created = QpCreated {
            qpn: object.qp.ctx.qpn,
            caps: object.qp.caps,
        };
        Ok((object, created))
    }

    fn modify_qp(qp: &QpObject, attr: &QpAttr<'_>) -> Result {
        attr::modify(&qp.qp, attr)
    }

    fn query_qp(qp: &QpObject, out: &mut QpQuery<'_>) {
        attr::query(&qp.qp, out);
    }

    fn qp_details(qp: &QpObject, out: &mut Details) {
        details::write(&qp.qp, out);
    }

    fn destroy_qp(qp: &QpObject) {
        engine::run(&qp.qp, Input::Flush);
        removal::destroying(&qp.qp);
        qp.qp.close();
    }

    fn alloc_counter(dev: &Device<Self>) -> Result<(QpCounterObject, u32)> {
        let counter = QpCounterObject::new(&dev.counter_numbers, &dev.port)?;
        let number = counter.number();
        Ok((counter, number))
    }

    fn bind_counter(counter: &QpCounterObject, qp: &QpObject) {
        qp.qp.set_counter(Some(counter.counter()));
    }

    fn unbind_counter(qp: &QpObject) {
        qp.qp.set_counter(None);
    }

    fn counter_value(counter: &QpCounterObject, index: usize) -> u64 {
        counter.value(index)
    }

    fn post_send(qp: &QpObject, wr: &SendWr<'_, AhObject>) -> Result {
        let qp = &qp.qp;
        if !takes_sends(qp.state()) {
            return Err(EINVAL);
        }
        qp.send_producer.send(wr)
    }

    fn doorbell(qp: &QpObject) -> Result {
        if !qp.qp.is_user {
            engine::schedule(&qp.qp);
        } else if takes_sends(qp.qp.state()) {
            engine::run(&qp.qp, Input::Doorbell);
        } else {
            qp.qp.discard_sends();
            return Err(EINVAL);
        }
        Ok(())
    }

    fn post_recv(qp: &QpObject, wr: &RecvWr<'_>) -> Result {
        if qp.qp.state() == State::Reset {
            return Err(EINVAL);
        }
        qp.qp.recv_producer.as_ref().ok_or(EINVAL)?.recv(wr)
    }

    fn posted_recv(qp: &QpObject) {
        // A posted receive waits for a packet, except in the error state, which flushes it. Pairs
        // with `Inner::publish_state`.
        barrier::full();
        if qp.qp.state() == State::Err {
            engine::schedule(&qp.qp);
        }
    }

    fn attach_mcast(dev: &Device<Self>, qp: &QpObject, gid: &[u8; 16]) -> Result {
        let ctx = &qp.qp.ctx;
        let groups = &dev.delivery.groups;
        groups.attach(&dev.port, &Gid::new(*gid), ctx.qpn, &ctx.owner)
    }

    fn detach_mcast(dev: &Device<Self>, qp: &QpObject, gid: &[u8; 16]) -> Result {
        let groups = &dev.delivery.groups;
        groups.detach(&dev.port, &Gid::new(*gid), qp.qp.ctx.qpn)
    }

    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &PdObject,
        start: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<(Self::Mr, u32)> {
        let memory = ProcessMemory::new(dev, start, length, access)?;
        let range = Range { iova, length };
        let mr = MkeyObject::user_mr(&dev.mkeys, pd, memory, range, access)?;
        let key = mr.key;
        Ok((mr, key))
    }

    fn rereg_user_mr(
        dev: &Device<Self>,
        mr: &MkeyObject,
        pd: &PdObject,
        change: &MrChange,
    ) -> Result<(Self::Mr, u32)> {
        let access = change.access.unwrap_or(mr.as_mr()?.access());
        let (start, range) = match &change.place {
            Some(place) => (
                place.start,
                Range {
                    iova: place.iova,
                    length: place.length,
                },
            ),
            None => (mr.as_mr()?.start()?, mr.as_mr()?.range()),
        };
        mr.as_mr()?.refuse_windows()?;
        ProcessMemory::new(dev, start, range.length, access)
            .and_then(|memory| MkeyObject::user_mr(&dev.mkeys, pd, memory, range, access))
            .inspect_err(|_| mr.as_mr().map_or((), Mr::admit_windows))
            .map(|mr| {
                let key = mr.key;
                (mr, key)
            })
    }

    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &PdObject,
        memory: KernelMemory,
        access: Access,
    ) -> Result<(Self::Mr, u32)> {
        let mr = MkeyObject::dma_mr(&dev.mkeys, pd.id, memory, access)?;
        let key = mr.key;
        Ok((mr, key))
    }

    fn alloc_mr(
        dev: &Device<Self>,
        pd: &PdObject,
        memory: KernelMemory,
        pages: u32,
    ) -> Result<(Self::Mr, u32)> {
        if pages > limits::MAX_FAST_REG_PAGES {
            return Err(EINVAL);
        }
        let mr = MkeyObject::fast_mr(&dev.mkeys, pd.id, memory, pages as usize)?;
        let key = mr.key;
        Ok((mr, key))
    }

    fn start_mapping(mr: &MkeyObject, page_size: u32) -> Result {
        mr.as_fast_mr()?.start_mapping(page_size)
    }

    fn map_page(mr: &MkeyObject, address: u64) -> Result {
        mr.as_fast_mr()?.map_page(address)
    }

    fn mr_details(mr: &MkeyObject, out: &mut Details) {
        mr.details(out);
    }

    fn dereg_mr(mr: &MkeyObject) -> Result {
        mr.close()
    }

    fn advise_mr(
        dev: &Device<Self>,
        pd: &PdObject,
        advice: Advice,
        key: u32,
        va: u64,
        len: u32,
    ) -> Result {
        dev.mkeys.advise(pd.id, advice, key, (va, len))
    }

    fn alloc_mw(dev: &Device<Self>, pd: &PdObject, kind: MwType) -> Result<(Self::Mw, u32)> {
        let mw = MkeyObject::window(&dev.mkeys, pd, kind)?;
        let key = mw.key;
        Ok((mw, key))
    }

    fn dealloc_mw(mw: &MkeyObject) -> Result {
        mw.close()
    }

    fn new_link(name: &CStr, ndev: &NetDevice, compat: bool) -> Result {
        link::add(name, ndev, compat)
    }
}
