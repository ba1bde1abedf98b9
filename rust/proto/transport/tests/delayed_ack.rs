// SPDX-License-Identifier: GPL-2.0

//! Delayed ACKs, which wait for a message to piggyback on.

use super::super::rc::responder::delayed_ack::ACK_DELAY_NS;
use super::super::wire::Opcode;
use super::super::{ConnectedQp, Flags, Instant, Modify, Request, SendOp, State, Status};
use super::pair::*;

/// Two nodes. The second has replied to so many messages at once that it will expect to reply to
/// the next one, too.
fn talkers() -> Pair {
    let mut pair = Pair::with(
        &Modify {
            timeout: Some(14),
            ..config()
        },
        10,
        20,
    );
    for node in [&mut pair.a, &mut pair.b] {
        node.host.recvs.extend([Ok(64); 100]);
    }
    for _ in 0..8 {
        pair.a.post(SendOp::Send, pattern(8, 1), 0);
        pair.exchange(|_, _, _| Fate::Deliver);
        pair.now = pair.now.after(1_000);
        pair.b.post(SendOp::Send, pattern(8, 2), 0);
        pair.exchange(|_, _, _| Fate::Deliver);
        pair.now = pair.now.after(1_000);
    }
    pair.log.clear();
    pair
}

/// Sends a message from a to b. Returns the packets that b sends at once.
fn say(pair: &mut Pair) -> Vec<Opcode> {
    pair.a.post(SendOp::Send, pattern(8, 3), 0);
    let now = pair.now;
    for packet in pair.a.transmit_all(now) {
        let _ = pair.b.receive(now, &packet);
    }
    opcodes(pair.b.transmit_all(now))
}

fn opcodes(packets: Vec<Packet>) -> Vec<Opcode> {
    packets.iter().map(Packet::opcode).collect()
}

#[test]
fn a_stranger_is_answered_at_once() {
    let mut pair = Pair::new();
    pair.b.host.recvs.push_back(Ok(64));
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
}

#[test]
fn the_ack_goes_behind_the_answer() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    assert!(!pair.b.conn.ack_is_due());
    pair.now = pair.now.after(ACK_DELAY_NS - 1);
    assert_eq!(pair.b.transmit_all(pair.now), []);
    pair.b.post(SendOp::Send, pattern(1000, 4), 0);
    let sent = opcodes(pair.b.transmit_all(pair.now));
    assert_eq!(sent[..2], [Opcode::RcSendFirst, Opcode::RcAck]);
    assert_eq!(sent.len(), 5);
}

#[test]
fn without_an_answer_it_goes_when_the_time_is_over() {
    let mut pair = talkers();
    let end = pair.now.after(ACK_DELAY_NS);
    assert_eq!(say(&mut pair), []);
    assert_eq!(pair.b.conn.poll_timeout(), Some(end));
    pair.b.conn.handle_timeout(end, &mut pair.b.host);
    assert_eq!(opcodes(pair.b.transmit_all(end)), [Opcode::RcAck]);
    assert_eq!(pair.b.conn.poll_timeout(), None);
    // From now on no ACK is delayed.
    pair.now = end;
    pair.a.conn.handle_timeout(end, &mut pair.a.host);
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
}

#[test]
fn the_timer_stops_also_while_no_packet_can_be_sent() {
    let mut pair = talkers();
    let end = pair.now.after(ACK_DELAY_NS);
    assert_eq!(say(&mut pair), []);
    for now in [end, end.after(1)] {
        pair.b.conn.handle_timeout(now, &mut pair.b.host);
        assert_eq!(pair.b.conn.poll_timeout(), None);
        assert!(pair.b.conn.may_transmit(&pair.b.host) && pair.b.conn.ack_is_due());
    }
    assert_eq!(opcodes(pair.b.transmit_all(end)), [Opcode::RcAck]);
    // It counts as expired, as if it had been sent then.
    pair.now = end;
    pair.a.conn.handle_timeout(end, &mut pair.a.host);
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
}

#[test]
fn a_second_message_ends_the_wait() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
}

#[test]
fn a_late_reply_ends_the_delay() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    pair.now = pair.now.after(ACK_DELAY_NS + 1);
    pair.b.post(SendOp::Send, pattern(8, 4), 0);
    pair.exchange(|_, _, _| Fate::Deliver);
    assert_eq!(say(&mut pair), [Opcode::RcAck]);
}

#[test]
fn a_hasty_peer_is_not_kept_waiting_twice() {
    let mut pair = talkers();
    pair.a.post(SendOp::Send, pattern(8, 3), 0);
    let packets = pair.a.transmit_all(pair.now);
    for _ in 0..2 {
        assert_eq!(pair.b.transmit_all(pair.now), []);
        let _ = pair.b.receive(pair.now, &packets[0]);
    }
    let answer = pair.b.transmit_all(pair.now);
    assert_eq!(opcodes(answer.clone()), [Opcode::RcAck]);
    let _ = pair.a.receive(pair.now, &answer[0]);
    pair.a.settle();
    for _ in 0..10 {
        pair.b.post(SendOp::Send, pattern(8, 4), 0);
        pair.exchange(|_, _, _| Fate::Deliver);
        assert_eq!(say(&mut pair), [Opcode::RcAck]);
    }
}

#[test]
fn packets_out_of_order_are_answered_at_once() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    for _ in 0..2 {
        pair.a.post(SendOp::Send, pattern(8, 3), 0);
    }
    let packets = pair.a.transmit_all(pair.now);
    let _ = pair.b.receive(pair.now, &packets[1]);
    assert_eq!(opcodes(pair.b.transmit_all(pair.now)), [Opcode::RcAck]);
}

#[test]
fn an_ack_that_waits_survives_the_error_state() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    pair.b
        .conn
        .modify(&Modify::to_state(State::Err))
        .expect("any state may become ERR");
    let answer = pair.b.transmit_all(pair.now);
    assert_eq!(opcodes(answer.clone()), [Opcode::RcAck]);
    let _ = pair.a.receive(pair.now, &answer[0]);
    pair.a.settle();
    assert_eq!(pair.a.statuses().last(), Some(&Status::Success));
    assert_eq!(pair.b.transmit_all(pair.now), []);
}

#[test]
fn a_due_ack_survives_the_error_state() {
    let mut pair = Pair::new();
    pair.b.host.recvs.push_back(Ok(64));
    pair.a.post(SendOp::Send, pattern(8, 3), 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    // The consumer has the completion, and ends the connection before the ACK is sent.
    assert!(pair.b.conn.ack_is_due());
    pair.b.conn.to_error();
    let acks = pair.b.transmit_all(pair.now);
    assert_eq!(opcodes(acks.clone()), [Opcode::RcAck]);
    let _ = pair.a.receive(pair.now, &acks[0]);
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::Success]);
    assert_eq!(pair.b.transmit_all(pair.now), []);
}

#[test]
fn a_due_nak_does_not_survive_the_error_state() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Send, pattern(8, 3), 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    assert!(pair.b.conn.ack_is_due(), "an RNR NAK");
    pair.b.conn.to_error();
    assert_eq!(pair.b.transmit_all(pair.now), []);
}

/// IBTA 9.7.5.1.1: an ACK acknowledges what is before it, a READ whose response is dropped
/// included.
#[test]
fn an_ack_that_waits_is_dropped_with_the_response_before_it() {
    let mut pair = talkers();
    pair.a.post(SendOp::Read, vec![0; 8], 0);
    pair.a.post(SendOp::Send, pattern(8, 3), 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    let error = Modify::to_state(State::Err);
    pair.b
        .conn
        .modify(&error)
        .expect("any state may become ERR");
    assert_eq!(opcodes(pair.b.transmit_all(pair.now)), []);
}

#[test]
fn an_ack_that_waits_survives_a_request_that_cannot_begin() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    let long = Request::new(SendOp::Send, (1 << 31) + 1, 0, 0, Flags::default());
    pair.b.post_request(long, vec![]);
    assert_eq!(opcodes(pair.b.transmit_all(pair.now)), [Opcode::RcAck]);
    pair.b.settle();
    assert_eq!(pair.b.conn.state(), State::Err);
    assert_eq!(pair.b.statuses().last(), Some(&Status::LocLen));
}

#[test]
fn a_flush_ends_the_delay() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    pair.b.conn.flush_delayed();
    assert!(pair.b.conn.ack_is_due());
    assert_eq!(opcodes(pair.b.transmit_all(pair.now)), [Opcode::RcAck]);
}

#[test]
fn an_ack_that_was_not_sent_does_not_wait_again() {
    let mut pair = talkers();
    assert_eq!(say(&mut pair), []);
    pair.b.conn.flush_delayed();
    let now = Instant(pair.now.0);
    let (ack, _) = pair.b.transmit(now).expect("the ACK");
    pair.b.conn.undo(&ack, &mut pair.b.host);
    assert_eq!(opcodes(pair.b.transmit_all(now)), [Opcode::RcAck]);
}

/// In a dialogue packets go in pairs, and all messages succeed.
#[test]
fn a_dialogue() {
    let mut pair = talkers();
    for round in 0..20 {
        pair.a.post(SendOp::Send, pattern(8, 1), 0);
        pair.exchange(|_, _, _| Fate::Deliver);
        pair.b.post(SendOp::WriteImm([round; 4]), pattern(8, 2), 0);
        pair.exchange(|_, _, _| Fate::Deliver);
    }
    for (at, (way, packet)) in pair.log.iter().enumerate() {
        assert_eq!(*way == Way::AtoB, at % 4 < 2, "{at}");
        assert_eq!(packet.opcode() == Opcode::RcAck, at % 2 == 1, "{at}");
    }
    assert_eq!(pair.log.len(), 80);
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.b.statuses(), [Status::Success; 28]);
}
