// SPDX-License-Identifier: GPL-2.0

//! ATOMIC WRITEs and FLUSHes that are refused, and responses to them that are none.

use super::super::wire::feth::{
    PLACEMENT_GLOBAL, PLACEMENT_PERSISTENT, SELECT_RANGE, SELECT_REGION,
};
use super::super::wire::{NakCode, Opcode, Syndrome};
use super::super::{
    ConnectedQp, DropReason, Events, Modify, RemoteAccess, SendOp, State, Status, Verdict,
};
use super::pair::*;
use super::placement::{flush, flush_range, local, request, response, NOW};

const REFUSED: Verdict = Verdict::Dropped(DropReason::Refused);

fn nak(code: NakCode) -> Option<Syndrome> {
    Some(Syndrome::Nak { code })
}

/// Sends `op` to a node whose peer allows `access`; returns its end.
fn refused(op: SendOp, at: u64, rkey: u32, access: RemoteAccess) -> (Pair, Status) {
    let mut pair = Pair::new();
    let change = Modify {
        access: Some(access),
        ..Modify::default()
    };
    pair.b.conn.modify(&change).unwrap();
    let before = pair.b.host.memory.clone();
    pair.a.post_with(op, local(op, 1), at, rkey, signaled());
    pair.run();
    assert_eq!(pair.b.host.memory, before);
    assert!(pair.b.host.words_stored.is_empty() && pair.b.host.flushes.is_empty());
    assert_eq!(pair.b.conn.state(), State::Err);
    let status = pair.a.statuses()[0];
    (pair, status)
}

/// IBTA annex A19.4: the key needs the right to write, or to flush; the range has to be inside.
#[test]
fn keys_ranges_and_rights() {
    let top = MEMORY as u64;
    let all = RemoteAccess::ALL;
    for (op, at, rkey) in [
        (SendOp::AtomicWrite, 0, RKEY + 1),
        (SendOp::AtomicWrite, top, RKEY),
        (SendOp::AtomicWrite, 0u64.wrapping_sub(BASE + 8), RKEY),
        (flush_range(8), 0, RKEY + 1),
        (flush_range(0), 0, RKEY + 1),
        (flush_range(9), top - 8, RKEY),
        (flush_range(1), 0u64.wrapping_sub(BASE + 1), RKEY),
        (flush_range(u32::MAX), 0, RKEY),
        (flush(PLACEMENT_GLOBAL, SELECT_REGION, 0), 0, RKEY + 1),
        // No region here grants persistence.
        (flush(PLACEMENT_PERSISTENT, SELECT_RANGE, 8), 0, RKEY),
        (flush(3, SELECT_REGION, 8), 0, RKEY),
    ] {
        let (pair, status) = refused(op, at, rkey, all);
        assert_eq!(status, Status::RemAccess, "{op:?}");
        assert!(pair.b.saw(Events::ACCESS_ERR));
    }
}

/// IBTA 9.7.4.1, IBTA annex A19.4: operations and placement types that the QP does not allow are
/// invalid requests.
#[test]
fn what_the_queue_pair_does_not_allow() {
    let all = RemoteAccess::ALL;
    for (op, access) in [
        (
            SendOp::AtomicWrite,
            RemoteAccess {
                write: false,
                ..all
            },
        ),
        (
            flush_range(8),
            RemoteAccess {
                flush_global: false,
                ..all
            },
        ),
        (
            flush(3, SELECT_RANGE, 8),
            RemoteAccess {
                flush_persistent: false,
                ..all
            },
        ),
    ] {
        let (pair, status) = refused(op, 0, RKEY, access);
        assert_eq!(status, Status::RemInvReq, "{op:?}");
        assert!(pair.b.saw(Events::REQ_ERR));
    }
}

/// IBTA annex A19.4.1: a FLUSH for nothing, or with a reserved value, is an invalid request.
#[test]
fn reserved_values_of_a_flush() {
    for placement in 0..16 {
        for selectivity in 0..4 {
            let valid = (1..4).contains(&placement) && selectivity < 2;
            if !valid {
                let op = flush(placement, selectivity, 8);
                let (_, status) = refused(op, 0, RKEY, RemoteAccess::ALL);
                assert_eq!(status, Status::RemInvReq, "{op:?}");
            }
        }
    }
}

/// IBTA annex A19.4.2: the address of an ATOMIC WRITE is a multiple of eight.
#[test]
fn a_misaligned_atomic_write_is_an_invalid_request() {
    for at in 1..8 {
        let (_, status) = refused(SendOp::AtomicWrite, at, RKEY, RemoteAccess::ALL);
        assert_eq!(status, Status::RemInvReq);
    }
}

/// IBTA annex A19.4.2: an ATOMIC WRITE has eight bytes, and says so.
/// Regression: an ATOMIC WRITE without payload must not store bytes that it did not bring.
#[test]
fn a_zero_length_atomic_write_stores_nothing() {
    let lens = [
        (0, 0),
        (8, 0),
        (8, 7),
        (8, 9),
        (8, 16),
        (0, 8),
        (16, 8),
        (16, 16),
    ];
    for (dma_len, payload_len) in lens {
        let mut node = Node::new(1, &config(), 0, 0);
        let before = node.host.memory.clone();
        let packet = request(Opcode::RcAtomicWrite, 0, BASE, dma_len, payload_len);
        assert_eq!(node.receive(NOW, &packet), REFUSED);
        assert_eq!(node.host.memory, before);
        assert!(node.host.words_stored.is_empty());
        let answers = node.transmit_all(NOW);
        assert_eq!(answers[0].syndrome(), nak(NakCode::InvalidRequest));
    }
    let mut node = Node::new(1, &config(), 0, 0);
    let packet = request(Opcode::RcAtomicWrite, 0, BASE, 8, 8);
    assert_eq!(node.receive(NOW, &packet), Verdict::Accepted);
}

/// IBTA annex A19.4.1: a FLUSH has no payload.
#[test]
fn a_flush_with_a_payload_is_refused() {
    let mut node = Node::new(1, &config(), 0, 0);
    let packet = request(Opcode::RcFlush, 0, BASE, 8, 4);
    assert_eq!(node.receive(NOW, &packet), REFUSED);
    assert!(node.host.flushes.is_empty());
}

/// IBTA 9.7.4.1.3: neither begins within a message.
#[test]
fn neither_interrupts_a_message() {
    for opcode in [Opcode::RcAtomicWrite, Opcode::RcFlush] {
        let mut pair = Pair::with(&config(), 0, 0);
        pair.a.post(SendOp::Write, pattern(600, 1), 0);
        let (_, first) = pair.a.transmit(NOW).unwrap();
        assert_eq!(pair.b.receive(NOW, &first), Verdict::Accepted);
        let payload_len = if opcode == Opcode::RcFlush { 0 } else { 8 };
        let packet = request(opcode, 1, BASE, 8, payload_len);
        assert_eq!(pair.b.receive(NOW, &packet), REFUSED);
        assert!(pair.b.host.words_stored.is_empty() && pair.b.host.flushes.is_empty());
    }
}

/// IBTA 9.7.4.1.4, IBTA annex A19.4: both take responder resources. A requester that has more
/// outstanding than there are makes an invalid request.
#[test]
fn more_outstanding_than_there_are_resources() {
    let mut node = Node::with_resources(2, 1, &config(), 0, 0);
    let packets = [
        request(Opcode::RcAtomicWrite, 0, BASE, 8, 8),
        request(Opcode::RcFlush, 1, BASE, 8, 0),
        request(Opcode::RcAtomicWrite, 2, BASE + 8, 8, 8),
    ];
    for packet in &packets[..2] {
        assert_eq!(node.receive(NOW, packet), Verdict::Accepted);
    }
    assert_eq!(node.receive(NOW, &packets[2]), REFUSED);
    assert_eq!(node.host.words_stored, [BASE]);
    let sent = node.transmit_all(NOW);
    let opcodes: Vec<_> = sent.iter().map(Packet::opcode).collect();
    let only = Opcode::RcReadResponseOnly;
    assert_eq!(opcodes, [only, only, Opcode::RcAck]);
    let mut none = Node::with_resources(0, 1, &config(), 0, 0);
    assert_eq!(none.receive(NOW, &packets[0]), REFUSED);
}

/// IBTA 9.7.6.1: the response of a READ, or none at all, is a bad response.
#[test]
fn responses_that_do_not_fit() {
    use Opcode::*;
    for op in [SendOp::AtomicWrite, flush_range(8)] {
        for (opcode, len) in [
            (RcReadResponseOnly, 4),
            (RcReadResponseOnly, 8),
            (RcReadResponseFirst, 256),
            (RcReadResponseMiddle, 256),
            (RcReadResponseLast, 0),
            (RcReadResponseLast, 8),
        ] {
            let mut node = Node::new(1, &config(), 0, 0);
            node.post(op, local(op, 1), 0);
            let _ = node.transmit_all(NOW);
            let verdict = node.receive(NOW, &response(opcode, 0, len));
            assert_eq!(verdict, Verdict::Dropped(DropReason::BadResponse));
            node.settle();
            assert_eq!(node.statuses(), [Status::BadResp], "{opcode:?} {len}");
        }
    }
}

/// IBTA 11.6.2: an ATOMIC WRITE whose value cannot be read completes with that error, after those
/// before it.
#[test]
fn a_value_that_cannot_be_read() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::Write, vec![0; 4], 0);
    pair.a.post(SendOp::AtomicWrite, pattern(8, 1), 0);
    let _ = pair.a.transmit(NOW).unwrap();
    let t = pair.a.conn.poll_transmit(NOW, 1, &mut pair.a.host).unwrap();
    assert_eq!(t.payload.len(), 8);
    let host = &mut pair.a.host;
    pair.a.conn.local_error(&t, Status::LocProt, host);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success, Status::LocProt]);
    assert!(pair.b.host.words_stored.is_empty());
}
