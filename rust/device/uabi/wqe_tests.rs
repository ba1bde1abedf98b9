// SPDX-License-Identifier: GPL-2.0

//! Tests of WQEs. The offsets are taken from the documented layout, not from the types.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const SEND_LEN: usize = 208;
const DMA_AT: usize = 184;
const RECV_LEN: usize = 40;

/// Bytes with their offset as value.
fn counting<const N: usize>() -> [u8; N] {
    core::array::from_fn(|at| at as u8)
}

fn u16_at(at: u8) -> u16 {
    u16::from_ne_bytes([at, at + 1])
}

fn u32_at(at: u8) -> u32 {
    u32::from_ne_bytes(core::array::from_fn(|i| at + i as u8))
}

fn u64_at(at: u8) -> u64 {
    u64::from_ne_bytes(core::array::from_fn(|i| at + i as u8))
}

/// The two parts of a send WQE, as the driver copies them out of a ring.
fn parts(wqe: &[u8]) -> (RxeSendWr, DmaHead) {
    let (wr, _) = RxeSendWr::read_from_prefix(&wqe[RxeSendWqe::WR..]).expect("long enough");
    let (dma, _) = DmaHead::read_from_prefix(&wqe[RxeSendWqe::DMA..]).expect("long enough");
    (wr, dma)
}

#[test]
fn the_sizes_are_as_documented() {
    assert_eq!(size_of::<RxeSendWqe>(), SEND_LEN);
    assert_eq!(RxeSendWqe::DATA, SEND_LEN);
    assert_eq!(RxeSendWqe::WR, 0);
    assert_eq!(RxeSendWqe::DMA, DMA_AT);
    assert_eq!(RxeRecvWqe::DATA, RECV_LEN);
    assert_eq!(size_of::<RxeSge>(), 16);
    assert_eq!(size_of::<RxeDmaInfo>(), 24);
}

/// The driver copies these parts of the 208 bytes for each send request, and no others.
#[test]
fn the_parts_that_are_read_are_small() {
    assert_eq!(size_of::<RxeSendWr>(), 56);
    assert_eq!(size_of::<DmaHead>(), 16);
}

#[test]
fn the_fields_of_a_send_wqe_are_where_the_documentation_says() {
    let bytes = counting::<SEND_LEN>();
    let wqe = RxeSendWqe::read_from_bytes(&bytes).expect("as long as one");
    assert_eq!(wqe.wr.wr_id, u64_at(0));
    assert_eq!(wqe.wr.opcode, u32_at(12));
    assert_eq!(wqe.wr.send_flags, u32_at(16));
    assert_eq!(wqe.wr.ex, [20, 21, 22, 23]);
    assert_eq!(wqe.wr.wr, counting::<56>()[24..]);
    assert_eq!(wqe.av[0], u64_at(56));
    assert_eq!(wqe.status, u32_at(144));
    assert_eq!(wqe.state, u32_at(148));
    assert_eq!(wqe.iova, u64_at(152));
    assert_eq!(wqe.mask, u32_at(160));
    assert_eq!(wqe.first_psn, u32_at(164));
    assert_eq!(wqe.last_psn, u32_at(168));
    assert_eq!(wqe.ack_length, u32_at(172));
    assert_eq!(wqe.ssn, u32_at(176));
    assert_eq!(wqe.has_rd_atomic, u32_at(180));
    assert_eq!(wqe.dma.head.length, u32_at(184));
    assert_eq!(wqe.dma.head.resid, u32_at(188));
    assert_eq!(wqe.dma.head.cur_sge, u32_at(192));
    assert_eq!(wqe.dma.head.num_sge, u32_at(196));
    assert_eq!(wqe.dma.sge_offset, u32_at(200));
    assert_eq!(parts(&bytes), (wqe.wr, wqe.dma.head));
}

#[test]
fn the_fields_of_the_union_are_where_the_documentation_says() {
    let (wr, _) = parts(&counting::<SEND_LEN>());
    let rdma: RdmaWr = wr.form();
    assert_eq!((rdma.remote_addr, rdma.rkey), (u64_at(24), u32_at(32)));
    let atomic: AtomicWr = wr.form();
    assert_eq!(atomic.remote_addr, u64_at(24));
    assert_eq!(atomic.compare_add, u64_at(32));
    assert_eq!(atomic.swap, u64_at(40));
    assert_eq!(atomic.rkey, u32_at(48));
    let flush: FlushWr = wr.form();
    assert_eq!(flush.remote_addr, u64_at(24));
    assert_eq!((flush.length, flush.rkey), (u32_at(32), u32_at(36)));
    assert_eq!((flush.kind, flush.level), (40, 41));
    let mw: MwWr = wr.form();
    assert_eq!((mw.addr, mw.length), (u64_at(24), u64_at(32)));
    assert_eq!((mw.mr_lkey, mw.mw_rkey), (u32_at(40), u32_at(44)));
    assert_eq!((mw.rkey, mw.access), (u32_at(48), u32_at(52)));
    let ud: UdWr = wr.form();
    assert_eq!((ud.remote_qpn, ud.remote_qkey), (u32_at(24), u32_at(28)));
    assert_eq!((ud.pkey_index, ud.ah_num), (u16_at(32), u32_at(36)));
}

#[test]
fn the_fields_of_a_receive_wqe_are_where_the_documentation_says() {
    let wqe = RxeRecvWqe::read_from_bytes(&counting::<RECV_LEN>()).expect("as long as one");
    assert_eq!(wqe.wr_id, u64_at(0));
    assert_eq!(wqe.dma.head.length, u32_at(16));
    assert_eq!(wqe.dma.head.num_sge, u32_at(28));
}

#[test]
fn the_fields_of_an_sge_are_where_the_documentation_says() {
    let sge = RxeSge::read_from_bytes(&counting::<16>()).expect("as long as one");
    assert_eq!(
        (sge.addr, sge.length, sge.lkey),
        (u64_at(0), u32_at(8), u32_at(12))
    );
}

#[test]
fn no_other_length_is_read() {
    let bytes = [0; SEND_LEN + 1];
    for len in 0..=bytes.len() {
        let bytes = &bytes[..len];
        assert_eq!(RxeSendWqe::read_from_bytes(bytes).is_ok(), len == SEND_LEN);
        assert_eq!(RxeRecvWqe::read_from_bytes(bytes).is_ok(), len == RECV_LEN);
        assert_eq!(RxeSge::read_from_bytes(bytes).is_ok(), len == 16);
    }
}

#[test]
fn the_numbers_of_operations_are_libibverbs() {
    let known: [(u32, Op); 14] = [
        (0, Op::Write),
        (1, Op::WriteImm),
        (2, Op::Send),
        (3, Op::SendImm),
        (4, Op::Read),
        (5, Op::CompareSwap),
        (6, Op::FetchAdd),
        (7, Op::LocalInv),
        (8, Op::BindMw),
        (9, Op::SendInv),
        (11, Op::ReadInv),
        (14, Op::Flush),
        (15, Op::AtomicWrite),
        (32, Op::RegMr),
    ];
    for number in (0..=u16::MAX.into()).chain([1 << 31, u32::MAX]) {
        let op = known.iter().find(|(n, _)| *n == number).map(|(_, op)| *op);
        assert_eq!(Op::from_u32(number), op);
        assert!(op.is_none_or(|op| op as u32 == number));
    }
}

#[test]
fn a_new_receive_wqe_has_a_wr_id_and_sges_alone() {
    let wqe = RxeRecvWqe::new(0x1122_3344_5566_7788, 3);
    let mut expected = [0; RECV_LEN];
    expected[..8].copy_from_slice(&0x1122_3344_5566_7788_u64.to_ne_bytes());
    expected[28..32].copy_from_slice(&3_u32.to_ne_bytes());
    assert_eq!(wqe.as_bytes(), expected);
}

fn op() -> impl Strategy<Value = Op> {
    (0..0x24_u32).prop_filter_map("no operation", Op::from_u32)
}

prop_compose! {
    fn rdma()(remote_addr: u64, rkey: u32) -> RdmaWr {
        RdmaWr { remote_addr, rkey, reserved: 0 }
    }
}

prop_compose! {
    fn atomic()(remote_addr: u64, compare_add: u64, swap: u64, rkey: u32) -> AtomicWr {
        AtomicWr { remote_addr, compare_add, swap, rkey, reserved: 0 }
    }
}

prop_compose! {
    fn mw()(addr: u64, length: u64, keys: [u32; 3], access: u32) -> MwWr {
        let [mr_lkey, mw_rkey, rkey] = keys;
        MwWr { addr, length, mr_lkey, mw_rkey, rkey, access }
    }
}

prop_compose! {
    fn reg()(iova: u64, length: u64, key: u32, access: u32) -> RegWr {
        RegWr { iova, length, key, access }
    }
}

prop_compose! {
    fn ud()(remote_qpn: u32, remote_qkey: u32, pkey_index: u16, ah_num: u32) -> UdWr {
        UdWr { remote_qpn, remote_qkey, pkey_index, reserved: 0, ah_num, pad: [0; 4] }
    }
}

/// `form` is written to a WQE, and the WQE is read as the driver reads it.
fn written_and_read<F: WrForm>(mut wqe: RxeSendWqe, form: &F) -> F {
    wqe.wr.set_form(form);
    let (wr, dma) = parts(wqe.as_bytes());
    assert_eq!((wr, dma), (wqe.wr, wqe.dma.head));
    wr.form()
}

proptest! {
    #[test]
    fn a_send_wqe_that_is_written_is_read(
        (wr_id, op, flags, ex) in (any::<u64>(), op(), 0..16_u32, any::<[u8; 4]>()),
        (length, num_sge) in any::<(u32, u32)>(),
        (rdma, atomic, mw, reg, ud) in (rdma(), atomic(), mw(), reg(), ud()),
    ) {
        let mut wqe = RxeSendWqe::new(wr_id, op, flags, ex);
        wqe.dma.head.length = length;
        wqe.dma.head.num_sge = num_sge;
        prop_assert_eq!(written_and_read(wqe, &rdma), rdma);
        prop_assert_eq!(written_and_read(wqe, &atomic), atomic);
        prop_assert_eq!(written_and_read(wqe, &mw), mw);
        prop_assert_eq!(written_and_read(wqe, &reg), reg);
        prop_assert_eq!(written_and_read(wqe, &ud), ud);

        let (wr, dma) = parts(wqe.as_bytes());
        prop_assert_eq!((wr.wr_id, Op::from_u32(wr.opcode)), (wr_id, Some(op)));
        prop_assert_eq!((wr.send_flags, wr.ex), (flags, ex));
        prop_assert_eq!((dma.length, dma.num_sge), (length, num_sge));
        for flag in [
            send_flag::FENCE,
            send_flag::SIGNALED,
            send_flag::SOLICITED,
            send_flag::INLINE,
        ] {
            prop_assert_eq!(wr.has(flag), flags & flag != 0);
        }
        // No kernel memory may leak to a process there.
        prop_assert_eq!(wqe, RxeSendWqe { wr, dma: wqe.dma, ..RxeSendWqe::new_zeroed() });
        prop_assert_eq!((dma.resid, dma.cur_sge, wqe.dma.sge_offset), (0, 0, 0));
    }

    #[test]
    fn hostile_bytes_are_read_as_they_are(bytes in vec(any::<u8>(), SEND_LEN)) {
        let (wr, dma) = parts(&bytes);
        prop_assert_eq!(wr.as_bytes(), &bytes[..56]);
        prop_assert_eq!(dma.as_bytes(), &bytes[DMA_AT..DMA_AT + 16]);
        let (rdma, atomic, ud): (RdmaWr, AtomicWr, UdWr) = (wr.form(), wr.form(), wr.form());
        prop_assert_eq!(rdma.as_bytes(), &bytes[24..40]);
        prop_assert_eq!(atomic.as_bytes(), &bytes[24..56]);
        prop_assert_eq!(ud.as_bytes(), &bytes[24..56]);
        let wqe = RxeSendWqe::read_from_bytes(&bytes).expect("as long as one");
        prop_assert_eq!(wqe.as_bytes(), &bytes[..]);
    }

    #[test]
    fn a_receive_wqe_and_an_sge_that_are_written_are_read(
        (wr_id, num_sge) in any::<(u64, u32)>(),
        (addr, length, lkey) in any::<(u64, u32, u32)>(),
    ) {
        let wqe = RxeRecvWqe::new(wr_id, num_sge);
        prop_assert_eq!(RxeRecvWqe::read_from_bytes(wqe.as_bytes()), Ok(wqe));
        prop_assert_eq!((wqe.wr_id, wqe.dma.head.num_sge), (wr_id, num_sge));
        let sge = RxeSge { addr, length, lkey };
        prop_assert_eq!(RxeSge::read_from_bytes(sge.as_bytes()), Ok(sge));
    }
}
