// SPDX-License-Identifier: GPL-2.0

//! Loopback: payloads that the receiver copies later, and the order of completions (F1).

use super::super::wire::{AethRepr, BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn, Syndrome};
use super::super::{
    ConnectedQp, DropReason, Events, Instant, Modify, Resource, SendOp, State, Status, Verdict,
    LOOPBACK_MTU,
};
use super::pair::*;

fn loopback() -> Pair {
    let config = Modify {
        pmtu: Some(LOOPBACK_MTU),
        ..config()
    };
    Pair::with(&config, 0xff_fff0, 100)
}

/// All packets of `node`, whose payload it lends.
fn lend_all(node: &mut Node) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some((t, packet)) = node.transmit(Instant(0)) {
        node.conn.lend(&t);
        packets.push(packet);
    }
    packets
}

fn ack(psn: u32) -> Packet {
    let aeth = AethRepr {
        syndrome: Syndrome::ACK,
        msn: 0,
    };
    let bth = BthRepr::new(Opcode::RcAck, PKey::DEFAULT, Qpn::new(5), Psn::new(psn));
    Packet {
        header: PacketRepr {
            bth,
            ext: Ext::Aeth(aeth),
        },
        payload: Vec::new(),
    }
}

/// IBTA 9.7.5.1.2: the peer acknowledges packets that it has not taken, as one does that takes them
/// for duplicates. The requests complete when their payload is released, and not before.
#[test]
fn acknowledged_while_lent() {
    let mut pair = loopback();
    for _ in 0..3 {
        pair.a.post(SendOp::Write, pattern(100, 1), 0);
    }
    assert_eq!(lend_all(&mut pair.a).len(), 3);
    let verdict = pair.a.receive(Instant(0), &ack(0xff_fff2));
    assert_eq!(verdict, Verdict::Accepted);
    pair.a.settle();
    assert_eq!(pair.a.statuses(), []);
    assert!(pair.a.conn.release());
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::Success; 3]);
    assert!(!pair.a.conn.release());
}

/// Requests whose packets were all released before complete, while later ones are lent.
#[test]
fn earlier_requests_complete() {
    let mut pair = loopback();
    pair.a.post(SendOp::Write, pattern(100, 1), 0);
    lend_all(&mut pair.a);
    assert!(!pair.a.conn.release());
    pair.a.post(SendOp::Write, pattern(100_000, 1), 0);
    assert_eq!(lend_all(&mut pair.a).len(), 2);
    let _ = pair.a.receive(Instant(0), &ack(0xff_fff0));
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::Success]);
    // The first packet of the second request.
    let _ = pair.a.receive(Instant(0), &ack(0xff_fff1));
    assert!(!pair.a.conn.release());
}

/// A payload of no bytes is not lent.
#[test]
fn nothing_to_lend() {
    let mut pair = loopback();
    pair.a.post(SendOp::Write, Vec::new(), 0);
    lend_all(&mut pair.a);
    let _ = pair.a.receive(Instant(0), &ack(0xff_fff0));
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::Success]);
}

/// While a completion is held, no request of that peer is carried out.
#[test]
fn requests_wait_for_held_completions() {
    let mut pair = loopback();
    pair.a.post(SendOp::Send, pattern(100, 1), 0);
    lend_all(&mut pair.a);
    pair.b.post(SendOp::Send, pattern(7, 1), 0);
    pair.a.host.recvs.push_back(Ok(100));
    let (_, reply) = pair.b.transmit(Instant(0)).unwrap();
    let _ = pair.a.receive(Instant(0), &ack(0xff_fff0));
    let verdict = pair.a.receive(Instant(0), &reply);
    assert_eq!(verdict, Verdict::Dropped(DropReason::EarlyAck));
    assert!(pair.a.host.received.is_empty());
    assert!(pair.a.conn.release());
    let verdict = pair.a.receive(Instant(0), &reply);
    assert_eq!(verdict, Verdict::Accepted);
    assert_eq!(pair.a.host.received.len(), 1);
}

/// IBTA 10.3.1.7: in the error state nothing is flushed while memory is lent, be it for a response.
#[test]
fn no_flush_while_lent() {
    for op in [SendOp::Write, SendOp::Read] {
        let mut pair = loopback();
        pair.b.host.memory = pattern(100, 3);
        let sender = match op {
            SendOp::Read => {
                pair.a.post(op, pattern(100, 1), 0);
                let read = pair.a.transmit_all(Instant(0));
                let _ = pair.b.receive(Instant(0), &read[0]);
                &mut pair.b
            }
            _ => {
                pair.a.post(op, pattern(100, 1), 0);
                &mut pair.a
            }
        };
        assert_eq!(lend_all(sender).len(), 1);
        sender.post(SendOp::Write, pattern(100, 1), 0);
        sender.conn.to_error();
        sender.settle();
        assert_eq!(sender.statuses(), []);
        assert!(sender.conn.release());
        sender.settle();
        assert!(sender.statuses().iter().all(|s| *s == Status::WrFlush));
        assert_eq!(sender.statuses().len(), sender.host.requests.len());
    }
}

/// IBTA 11.6.3.2: the send queue is drained once the memory of its requests is the consumer's.
#[test]
fn drained_once_released() {
    let mut pair = loopback();
    pair.a.post(SendOp::Write, pattern(100, 1), 0);
    lend_all(&mut pair.a);
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    let _ = pair.a.receive(Instant(0), &ack(0xff_fff0));
    pair.a.settle();
    assert!(pair.a.conn.is_draining());
    assert!(!pair.a.saw(Events::SQ_DRAINED));
    assert!(pair.a.conn.release());
    pair.a.settle();
    assert!(pair.a.saw(Events::SQ_DRAINED));
    assert_eq!(pair.a.statuses(), [Status::Success]);
}

/// IBTA 9.7.5.1.2: over loopback an ACK of all messages that were received precedes the next
/// request, whether it is delayed, or was not asked for.
#[test]
fn ack_precedes_reply() {
    let mut pair = loopback();
    for round in 0..20 {
        pair.b.host.recvs.push_back(Ok(100));
        pair.a.host.recvs.push_back(Ok(100));
        pair.a.post(SendOp::Send, pattern(64, 1), 0);
        let mut message = pair.a.transmit_all(Instant(0));
        let message = message.last_mut().unwrap();
        assert_eq!(message.header.bth.opcode, Opcode::RcSendOnly);
        message.header.bth.ack_req &= round % 3 != 0;
        let _ = pair.b.receive(Instant(0), message);
        pair.b.post(SendOp::Send, pattern(64, 1), 0);
        let replies = pair.b.transmit_all(Instant(0));
        let opcodes: Vec<_> = replies.iter().map(Packet::opcode).collect();
        assert_eq!(opcodes, [Opcode::RcAck, Opcode::RcSendOnly], "{round}");
        assert_eq!(replies[0].psn(), message.psn());
        for packet in &replies {
            let _ = pair.a.receive(Instant(0), packet);
            pair.a.settle();
        }
        assert_eq!(pair.a.statuses().len(), round + 1);
        for packet in pair.a.transmit_all(Instant(0)) {
            let _ = pair.b.receive(Instant(0), &packet);
            pair.b.settle();
        }
    }
    // One ACK for each message.
    assert!(pair.b.transmit_all(Instant(0)).is_empty());
}

/// IBTA 9.7.5.1.2: so it does where responses were sent before: to READs, to a duplicate of an
/// older one, and before the number of responder resources changed.
#[test]
fn ack_precedes_reply_after_responses() {
    for (duplicate, resize) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut pair = loopback();
        pair.b.host.memory = pattern(200, 3);
        pair.b.host.recvs.push_back(Ok(100));
        for _ in 0..2 {
            pair.a.post(SendOp::Read, vec![0; 100], 0);
        }
        let reads = pair.a.transmit_all(Instant(0));
        for read in &reads {
            let _ = pair.b.receive(Instant(0), read);
        }
        assert_eq!(pair.b.transmit_all(Instant(0)).len(), 2);
        if duplicate {
            let _ = pair.b.receive(Instant(0), &reads[0]);
            assert_eq!(pair.b.transmit_all(Instant(0)).len(), 1);
        }
        if resize {
            pair.b.conn.replace_resources(vec![Resource::EMPTY; 4]);
        }
        pair.a.post(SendOp::Send, pattern(64, 1), 0);
        let mut message = pair.a.transmit_all(Instant(0));
        message[0].header.bth.ack_req = false;
        let _ = pair.b.receive(Instant(0), &message[0]);
        pair.b.post(SendOp::Send, pattern(64, 1), 0);
        let replies = pair.b.transmit_all(Instant(0));
        let opcodes: Vec<_> = replies.iter().map(Packet::opcode).collect();
        let expected = [Opcode::RcAck, Opcode::RcSendOnly];
        assert_eq!(opcodes, expected, "duplicate {duplicate}, resize {resize}");
    }
}
