// SPDX-License-Identifier: GPL-2.0

//! The limits on packets in flight, and the packets that ask for an acknowledgement.

use super::super::wire::{Ext, Opcode};
use super::super::{ConnectedQp, Flags, Instant, Modify, Request, SendOp, State, Status, Verdict};
use super::pair::*;

const NOW: Instant = Instant(0);

fn response(opcode: Opcode, at: u32, len: usize) -> Packet {
    let mut packet = ack(at);
    packet.header.bth.opcode = opcode;
    if opcode == Opcode::RcReadResponseMiddle {
        packet.header.ext = Ext::None;
    }
    packet.payload = vec![3; len];
    packet
}

#[test]
fn the_window_closes_and_opens() {
    let window = WINDOW as usize;
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 256 * 1000], 0);
    let sent = node.transmit_all(NOW);
    assert_eq!(sent.len(), window);
    assert!(
        sent[window - 1].header.bth.ack_req,
        "the packet that closes it"
    );
    let asked: Vec<_> = (0..window)
        .filter(|i| sent[*i].header.bth.ack_req)
        .collect();
    assert_eq!(asked, [31, 63, 95, 127]);
    assert_eq!(node.receive(NOW, &ack(9)), Verdict::Accepted);
    assert_eq!(node.transmit_all(NOW).len(), 10);
    assert_eq!(node.receive(NOW, &ack(137)), Verdict::Accepted);
    assert_eq!(node.transmit_all(NOW).len(), window);
}

#[test]
fn a_timeout_narrows_the_window() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 256 * 1000], 0);
    let window = node.transmit_all(NOW).len() as u32;
    let now = node.conn.poll_timeout().expect("a packet is in flight");
    node.conn.handle_timeout(now, &mut node.host);
    let mut next = 0;
    // Slow start ends at seven tenths of the window.
    let end = window * 7 / 10;
    for count in [1, 2, 4, 8, 16, 32, 64, end, end + 1, end + 1] {
        let sent = node.transmit_all(now);
        assert_eq!(sent.len() as u32, count);
        assert_eq!(sent[0].psn(), next);
        assert!(sent[count as usize - 1].header.bth.ack_req, "of {count}");
        next += count;
        assert_eq!(node.receive(now, &ack(next - 1)), Verdict::Accepted);
    }
}

/// IBTA 9.7.5.1.2: a requester need not ask for an ACK of each message.
#[test]
fn small_messages_share_an_ack() {
    let mut node = Node::new(1, &config(), 0, 0);
    for _ in 0..100 {
        node.post(SendOp::Write, vec![0; 4], 0);
    }
    let asked: Vec<_> = node
        .transmit_all(NOW)
        .iter()
        .filter(|p| p.header.bth.ack_req)
        .map(Packet::psn)
        .collect();
    assert_eq!(asked, [31, 63, 95, 99]);
}

#[test]
fn whatever_stops_the_queue_the_last_packet_asks() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    type Post = fn(&mut Node, Flags);
    let cases: [(&str, Post); 4] = [
        ("the end", |_, _| {}),
        ("a fence", |node, fenced| {
            node.post_with(SendOp::Write, vec![0; 4], 0, RKEY, fenced);
        }),
        ("too many READs", |node, _| {
            node.post(SendOp::Read, vec![0; 4], 0);
        }),
        ("one with a local error", |node, _| {
            node.post_request(Request::with_local_error(Status::LocProt), vec![]);
        }),
    ];
    for (what, post) in cases {
        let config = Modify {
            max_rd_atomic: Some(1),
            ..config()
        };
        let mut node = Node::new(1, &config, 0, 0);
        node.post(SendOp::Read, vec![0; 4], 0);
        node.post(SendOp::Write, vec![0; 600], 0);
        post(&mut node, fenced);
        let sent = node.transmit_all(NOW);
        assert_eq!(sent.len(), 4, "{what}");
        assert!(sent[3].header.bth.ack_req, "{what}");
    }
}

#[test]
fn a_queue_that_stops_unforeseen_asks_once_more() {
    // A packet that expected another to follow is already sent when the next request has a local
    // error.
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert!(!node.transmit(NOW).unwrap().1.header.bth.ack_req);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    node.conn.local_error(&t, Status::LocProt, &mut node.host);
    let again = node.transmit_all(NOW);
    assert_eq!(again.len(), 1);
    assert!(again[0].header.bth.ack_req && again[0].psn() == 0);
    assert_eq!(node.receive(NOW, &ack(0)), Verdict::Accepted);
    assert!(node.transmit(NOW).is_none());
    node.settle();
    assert_eq!(node.statuses(), [Status::Success, Status::LocProt]);
}

#[test]
fn a_packet_that_asked_is_not_sent_again_to_ask() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert!(node.transmit(NOW).unwrap().1.header.bth.ack_req);
    node.post(SendOp::Write, vec![0; 4], 0);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    node.conn.local_error(&t, Status::LocProt, &mut node.host);
    assert!(node.transmit(NOW).is_none());
}

/// IBTA 9.7.2, 9.7.7.2.2: a READ takes a PSN for each response packet, and no more READs and
/// atomics than allowed are outstanding.
#[test]
fn reads_and_atomics_are_limited() {
    let config = Modify {
        max_rd_atomic: Some(2),
        ..config()
    };
    let mut node = Node::new(1, &config, 0, 0);
    node.post(SendOp::Read, vec![0; 600], 0);
    node.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    let psns = |node: &mut Node| {
        node.transmit_all(NOW)
            .iter()
            .map(Packet::psn)
            .collect::<Vec<_>>()
    };
    assert_eq!(psns(&mut node), [0, 3]);
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseFirst, 0, 256));
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseMiddle, 1, 256));
    assert!(psns(&mut node).is_empty(), "the READ is not complete");
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseLast, 2, 88));
    assert_eq!(psns(&mut node), [4, 5]);
}

#[test]
fn a_read_is_finished_under_a_limit_that_went_to_zero() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a.transmit_all(NOW);
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    let none = Modify {
        max_rd_atomic: Some(0),
        ..Modify::default()
    };
    pair.a.conn.modify(&none).unwrap();
    pair.run();
    pair.assert_all_done();
}

/// IBTA 10.8.3.3: a fenced request waits for the READs and atomics before it.
#[test]
fn a_fence_waits_for_reads_and_for_nothing_else() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post_with(SendOp::Send, vec![0; 4], 0, 0, fenced);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post_with(SendOp::Read, vec![0; 4], 0, RKEY, fenced);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert_eq!(node.transmit_all(NOW).len(), 4);
    let _ = node.receive(NOW, &ack(1));
    assert!(node.transmit(NOW).is_none());
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseOnly, 2, 4));
    assert_eq!(
        node.transmit_all(NOW).len(),
        2,
        "the WRITE before it need not be complete"
    );
}

/// IBTA 10.8.3.3: a fenced request waits for READs that are sent again, too.
#[test]
fn a_fence_holds_when_all_is_sent_again() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post_with(SendOp::Write, vec![0; 4], 0, RKEY, fenced);
    assert_eq!(node.transmit_all(NOW).len(), 1);
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut node.host);
    let again: Vec<_> = node.transmit_all(end).iter().map(Packet::psn).collect();
    assert_eq!(again, [0]);
}

#[test]
fn taking_a_packet_back() {
    let mut pair = Pair::new();
    pair.b.host.recvs.push_back(Ok(1000));
    pair.a.post(SendOp::Send, pattern(1000, 3), 0);
    pair.a.post(SendOp::Read, vec![0; 1000], 0);
    pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 4096);
    // Each packet of either side is taken back before it is really sent. (A second time the packet
    // before it may go first, see `page_faults`.)
    let mut all = Vec::new();
    for _ in 0..20 {
        for way in [Way::AtoB, Way::BtoA] {
            let (from, to) = match way {
                Way::AtoB => (&mut pair.a, &mut pair.b),
                Way::BtoA => (&mut pair.b, &mut pair.a),
            };
            let mut sent = Vec::new();
            while let Some((t, packet)) = from.transmit(NOW) {
                from.conn.undo(&t, &mut from.host);
                let (u, again) = from.transmit(NOW).unwrap();
                // The packet is the same again, also at the beginning of a response.
                assert_eq!((u, &again), (t, &packet));
                sent.push(packet);
            }
            for packet in sent {
                let verdict = to.receive(NOW, &packet);
                assert_eq!(verdict, Verdict::Accepted, "{packet:?}");
                to.settle();
                all.push(packet);
            }
        }
    }
    pair.assert_all_done();
    // The response to the READ acknowledges the SEND.
    assert_eq!(all.len(), 4 + 1 + 1 + 4 + 1);
    assert_eq!(pair.a.conn.poll_timeout(), None);
}

#[test]
fn nothing_in_flight_needs_no_timer() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    assert!(node.conn.poll_timeout().is_some());
    node.conn.undo(&t, &mut node.host);
    assert_eq!(node.conn.poll_timeout(), None);
    // Taking a packet back costs no retry, however often.
    for _ in 0..100 {
        let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
        node.conn.undo(&t, &mut node.host);
    }
    assert_eq!(node.transmit_all(NOW).len(), 1);
    assert!(node.statuses().is_empty());
}

#[test]
fn a_read_taken_back_while_late_answers_come() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.conn.keep_responses(false);
    node.post(SendOp::Read, vec![0; 1000], 0);
    node.transmit_all(NOW);
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseMiddle, 2, 256));
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseFirst, 0, 256));
    node.conn.undo(&t, &mut node.host);
    let again: Vec<_> = node.transmit_all(NOW).iter().map(Packet::psn).collect();
    assert_eq!(again, [1], "the rest is asked for, not forgotten");
}
