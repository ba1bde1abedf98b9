// SPDX-License-Identifier: GPL-2.0

//! ATOMIC WRITE and FLUSH: what they do, and how they share the limits and the order of READs and
//! atomics.

use super::super::wire::feth::{PLACEMENT_GLOBAL, SELECT_RANGE, SELECT_REGION};
use super::super::wire::{
    AethRepr, BthRepr, Ext, FethRepr, Opcode, PKey, PacketRepr, Qpn, RethRepr, Syndrome,
};
use super::super::{
    AccessError, DropReason, Flags, Flush, Instant, Modify, SendOp, Status, Verdict,
};
use super::pair::*;

pub(super) const NOW: Instant = Instant(0);
const AGAIN: Verdict = Verdict::Dropped(DropReason::Duplicate);

pub(super) fn flush(placement: u8, selectivity: u8, len: u32) -> SendOp {
    let feth = FethRepr::new(placement, selectivity).expect("fits");
    SendOp::Flush { feth, len }
}

/// A FLUSH of `len` bytes for global visibility.
pub(super) fn flush_range(len: u32) -> SendOp {
    flush(PLACEMENT_GLOBAL, SELECT_RANGE, len)
}

pub(super) fn local(op: SendOp, seed: u8) -> Vec<u8> {
    match op {
        SendOp::Flush { .. } => Vec::new(),
        SendOp::AtomicWrite => pattern(8, seed),
        _ => pattern(600, seed),
    }
}

/// An ATOMIC WRITE of `payload_len` bytes that announces `dma_len` bytes, or a FLUSH.
pub(super) fn request(
    opcode: Opcode,
    at: u32,
    va: u64,
    dma_len: u32,
    payload_len: usize,
) -> Packet {
    let reth = RethRepr {
        va,
        rkey: RKEY,
        dma_len,
    };
    let feth = FethRepr::new(PLACEMENT_GLOBAL, SELECT_RANGE).expect("fits");
    let ext = match opcode {
        Opcode::RcFlush => Ext::Flush(feth, reth),
        _ => Ext::Reth(reth),
    };
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext,
        },
        payload: pattern(payload_len, 3),
    }
}

pub(super) fn response(opcode: Opcode, at: u32, payload_len: usize) -> Packet {
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext: match opcode {
                Opcode::RcReadResponseMiddle => Ext::None,
                _ => Ext::Aeth(AethRepr {
                    syndrome: Syndrome::ACK,
                    msn: 0,
                }),
            },
        },
        payload: pattern(payload_len, 0),
    }
}

/// IBTA annex A19.4: an ATOMIC WRITE is BTH, RETH and eight bytes, a FLUSH is BTH, FETH and RETH;
/// each takes one PSN, and the response is a READ response of one packet without payload.
#[test]
fn the_packets_of_both() {
    let mut pair = Pair::with(&config(), 0, 0);
    let value = pattern(8, 9);
    pair.a.post(SendOp::Write, pattern(600, 1), 0);
    pair.a.post(SendOp::AtomicWrite, value.clone(), 16);
    pair.a.post(flush_range(1 << 15), Vec::new(), 24);
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    pair.run();
    pair.assert_all_done();
    let sent = pair.sent(Way::AtoB);
    let reth = |at, dma_len| RethRepr {
        va: BASE + at,
        rkey: RKEY,
        dma_len,
    };
    let feth = FethRepr::new(PLACEMENT_GLOBAL, SELECT_RANGE).expect("fits");
    assert_eq!(
        (sent[3].opcode(), sent[3].psn()),
        (Opcode::RcAtomicWrite, 3)
    );
    assert_eq!(sent[3].header.ext, Ext::Reth(reth(16, 8)));
    assert_eq!(sent[3].payload, value);
    assert_eq!((sent[4].opcode(), sent[4].psn()), (Opcode::RcFlush, 4));
    assert_eq!(sent[4].header.ext, Ext::Flush(feth, reth(24, 1 << 15)));
    assert!(sent[4].payload.is_empty());
    assert_eq!(sent[5].psn(), 5);
    let responses = pair.sent(Way::BtoA);
    for (packet, (at, msn)) in responses.iter().zip([(3, 2), (4, 3)]) {
        assert_eq!(packet.opcode(), Opcode::RcReadResponseOnly);
        assert_eq!((packet.psn(), packet.payload.len()), (at, 0));
        let syndrome = Syndrome::ACK;
        assert_eq!(packet.header.ext, Ext::Aeth(AethRepr { syndrome, msn }));
    }
    assert_eq!(pair.b.host.memory[16..24], value);
    assert_eq!(pair.b.host.words_stored, [BASE + 16]);
    let lens: Vec<_> = pair.a.host.completed.iter().map(|c| c.byte_len).collect();
    assert_eq!(lens, [600, 8, 0, 4]);
}

/// IBTA annex A19.4.1: a FLUSH names a range, or a region, for which address and length mean
/// nothing.
#[test]
fn what_a_flush_is_about() {
    let mut pair = Pair::new();
    let region = flush(PLACEMENT_GLOBAL, SELECT_REGION, u32::MAX);
    pair.a.post(flush_range(100), Vec::new(), 8);
    pair.a.post(flush_range(0), Vec::new(), 8);
    pair.a.post(region, Vec::new(), u64::MAX / 2);
    pair.run();
    pair.assert_all_done();
    let flushes: Vec<_> = pair.b.host.flushes.iter().map(|f| f.range).collect();
    let want = [Some((BASE + 8, 100)), Some((BASE + 8, 0)), None];
    assert_eq!(flushes, want);
    let expected = Flush {
        rkey: RKEY,
        range: None,
        global: true,
        persistent: false,
    };
    assert_eq!(pair.b.host.flushes[2], expected);
}

/// IBTA annex A19.4: a FLUSH or ATOMIC WRITE takes effect after the WRITEs before it.
#[test]
fn earlier_writes_are_carried_out_first() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(900, 1), 0);
    pair.a.post(SendOp::AtomicWrite, pattern(8, 2), 0);
    pair.a.post(SendOp::Write, pattern(3, 3), 1);
    pair.run();
    pair.assert_all_done();
    let mut want = pattern(900, 1);
    want[..8].copy_from_slice(&pattern(8, 2));
    want[1..4].copy_from_slice(&pattern(3, 3));
    assert_eq!(pair.b.host.memory[..900], want);
}

/// IBTA 9.7.7.2.2, IBTA annex A19.4: both count against the READs and atomics that a requester may
/// have outstanding.
#[test]
fn both_count_as_outstanding() {
    for op in [SendOp::AtomicWrite, flush_range(8)] {
        let config = Modify {
            max_rd_atomic: Some(2),
            ..config()
        };
        let mut node = Node::new(1, &config, 0, 0);
        for _ in 0..4 {
            node.post(op, local(op, 1), 0);
        }
        assert_eq!(node.transmit_all(NOW).len(), 2);
        let only = response(Opcode::RcReadResponseOnly, 0, 0);
        assert_eq!(node.receive(NOW, &only), Verdict::Accepted);
        assert_eq!(node.transmit_all(NOW).len(), 1);
        let config = Modify {
            max_rd_atomic: Some(0),
            ..config
        };
        let mut node = Node::new(1, &config, 0, 0);
        node.post(op, local(op, 1), 0);
        assert!(node.transmit(NOW).is_none());
        node.settle();
        assert_eq!(node.statuses(), [Status::LocQpOp]);
    }
}

/// IBTA 10.8.3.3, IBTA annex A19.4: a fenced request waits for ATOMIC WRITEs and FLUSHes before it,
/// and a fenced one of these for READs.
#[test]
fn fences() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    for op in [SendOp::AtomicWrite, flush_range(8)] {
        let mut node = Node::new(1, &config(), 0, 0);
        node.post(op, local(op, 1), 0);
        node.post_with(SendOp::Write, vec![0; 4], 0, RKEY, fenced);
        assert_eq!(node.transmit_all(NOW).len(), 1);
        let _ = node.receive(NOW, &response(Opcode::RcReadResponseOnly, 0, 0));
        assert_eq!(node.transmit_all(NOW).len(), 1);

        let mut node = Node::new(1, &config(), 0, 0);
        node.post(SendOp::Read, vec![0; 4], 0);
        node.post_with(op, local(op, 1), 0, RKEY, fenced);
        assert_eq!(node.transmit_all(NOW).len(), 1);
        let _ = node.receive(NOW, &response(Opcode::RcReadResponseOnly, 0, 4));
        assert_eq!(node.transmit_all(NOW).len(), 1);
    }
}

/// IBTA 9.7.5.1.3, IBTA annex A19.4: a duplicate ATOMIC WRITE gets its response again and is not
/// carried out again, as another store may have followed; nor is a duplicate FLUSH.
#[test]
fn duplicates_are_answered_and_not_carried_out_again() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::AtomicWrite, pattern(8, 1), 0);
    pair.a.post(flush_range(8), Vec::new(), 0);
    pair.a.post(SendOp::AtomicWrite, pattern(8, 2), 0);
    let requests = pair.a.transmit_all(NOW);
    for packet in &requests {
        assert_eq!(pair.b.receive(NOW, packet), Verdict::Accepted);
    }
    let answers = pair.b.transmit_all(NOW);
    assert_eq!(answers.len(), 3);
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(pair.b.receive(NOW, request), AGAIN);
        assert_eq!(pair.b.transmit_all(NOW), [answer.clone()]);
    }
    // The key may be gone by then.
    pair.b.host.deny = Some(AccessError::Access);
    assert_eq!(pair.b.receive(NOW, &requests[0]), AGAIN);
    assert_eq!(pair.b.host.memory[..8], pattern(8, 2));
    assert_eq!(pair.b.host.words_stored.len(), 2);
    assert_eq!(pair.b.host.flushes.len(), 1);
}

/// IBTA 9.7.5.1.3: a duplicate of which the responder knows nothing gets no response.
#[test]
fn duplicates_of_requests_that_were_never_made() {
    let mut pair = Pair::with(&config(), 0, 0);
    for op in [SendOp::AtomicWrite, flush_range(8), SendOp::Write] {
        pair.a.post(op, local(op, 1), 0);
    }
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    pair.run();
    pair.assert_all_done();
    let stored = pair.b.host.words_stored.len();
    for (opcode, len, own) in [(Opcode::RcAtomicWrite, 8, 0), (Opcode::RcFlush, 0, 1)] {
        for at in 0..6 {
            let packet = request(opcode, at, BASE, 8, len);
            let unknown = Verdict::Dropped(DropReason::UnknownDuplicate);
            let want = if at == own { AGAIN } else { unknown };
            assert_eq!(pair.b.receive(NOW, &packet), want, "{opcode:?} {at}");
            assert_eq!(pair.b.transmit_all(NOW).len(), usize::from(at == own));
        }
    }
    let fetch = SendOp::FetchAdd { add: 1 };
    let mut other = Pair::with(&config(), 0, 0);
    other.a.post(fetch, vec![0; 8], 0);
    let (_, atomic) = other.a.transmit(NOW).unwrap();
    let unknown = Verdict::Dropped(DropReason::UnknownDuplicate);
    assert_eq!(pair.b.receive(NOW, &atomic), unknown);
    assert_eq!(pair.b.host.words_stored.len(), stored);
    assert_eq!(pair.b.host.atomics_done, 0);
}

/// IBTA 9.7.5.1.1: responses come in the order of the requests, and each acknowledges all before.
#[test]
fn responses_stay_in_order() {
    let mut pair = Pair::with(&config(), 0, 0);
    let ops = [
        (SendOp::Read, 600),
        (SendOp::AtomicWrite, 8),
        (SendOp::Write, 4),
        (flush_range(8), 0),
        (SendOp::FetchAdd { add: 1 }, 8),
        (SendOp::AtomicWrite, 8),
        (SendOp::Write, 4),
    ];
    for (op, len) in ops {
        pair.a.post(op, vec![1; len], 64);
    }
    for packet in pair.a.transmit_all(NOW) {
        assert_eq!(pair.b.receive(NOW, &packet), Verdict::Accepted);
    }
    let answers = pair.b.transmit_all(NOW);
    let psns: Vec<_> = answers.iter().map(Packet::psn).collect();
    assert_eq!(psns, [0, 1, 2, 3, 5, 6, 7, 8]);
    for packet in &answers {
        assert_eq!(pair.a.receive(NOW, packet), Verdict::Accepted);
    }
    pair.a.settle();
    pair.assert_all_done();
}

/// IBTA 9.7.5.1.1, 9.7.6.1: a later response shows that that to an ATOMIC WRITE or FLUSH was lost,
/// and an ACK does not stand for it: the requester asks again.
#[test]
fn a_lost_response_is_asked_for_again() {
    for op in [SendOp::AtomicWrite, flush_range(8)] {
        let mut pair = Pair::with(&config(), 0, 0);
        pair.a.post(op, local(op, 1), 0);
        pair.a.post(SendOp::Write, vec![0; 4], 0);
        pair.a.post(SendOp::AtomicWrite, pattern(8, 7), 8);
        let mut lost = false;
        pair.run_with(|_, way, packet| {
            let first = way == Way::BtoA && packet.psn() == 0 && !lost;
            lost |= first;
            if first {
                Fate::Lose
            } else {
                Fate::Deliver
            }
        });
        assert!(lost);
        pair.assert_all_done();
        let stores = 1 + usize::from(op == SendOp::AtomicWrite);
        assert_eq!(pair.b.host.words_stored.len(), stores);
        assert_eq!(pair.b.host.flushes.len(), 2 - stores);
    }
}
