// SPDX-License-Identifier: GPL-2.0

//! A lost request packet that is sent again alone, to peers that keep what came behind it and to
//! peers that do not.

use super::super::wire::{NakCode, RnrTimer, Syndrome};
use super::super::{
    ConnectedQp, DropReason, Instant, Modify, RequesterEvent, SendOp, Status, Verdict,
};
use super::pair::*;
use proptest::prelude::*;

const NOW: Instant = Instant(0);
const SEQUENCE: Syndrome = Syndrome::Nak {
    code: NakCode::PsnSequence,
};

/// A node that has sent the packets 0 to 19 of a WRITE of `count`.
fn writes(count: usize) -> Node {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, pattern(256 * count, 3), 0);
    node.transmit_all(NOW);
    node
}

fn sent(node: &mut Node, now: Instant) -> Vec<u32> {
    node.transmit_all(now).iter().map(Packet::psn).collect()
}

/// The PSNs that the node sends after the peer has reported `psn` as missing.
fn nak(node: &mut Node, psn: u32) -> Vec<u32> {
    assert_eq!(node.receive(NOW, &reply(psn, SEQUENCE)), Verdict::Accepted);
    sent(node, NOW)
}

fn cwnd(node: &Node) -> u16 {
    node.conn.requester().snapshot().cwnd
}

/// IBTA 9.7.5.2: the packet that a NAK asks for, alone and with AckReq.
#[test]
fn a_peer_that_keeps_gets_the_lost_packet_alone() {
    let mut node = writes(20);
    assert_eq!(nak(&mut node, 3), [3]);
    let _ = node.receive(NOW, &reply(8, SEQUENCE));
    let packets = node.transmit_all(NOW);
    assert_eq!((packets.len(), packets[0].psn()), (1, 8));
    assert!(packets[0].header.bth.ack_req);
    assert_eq!(packets[0].payload, pattern(256 * 20, 3)[8 * 256..9 * 256]);
    let _ = node.receive(NOW, &ack(19));
    node.settle();
    assert_eq!(node.statuses(), [Status::Success]);
    let counts = node.conn.take_counts().unwrap();
    assert_eq!(counts[RequesterEvent::Retransmit as usize], 2);
    assert_eq!(counts[RequesterEvent::SequenceNak as usize], 2);
}

/// An ACK of the packet alone: the peer has dropped the rest, and will the next time.
#[test]
fn a_peer_that_drops_the_rest_is_sent_all_of_it() {
    let mut node = writes(20);
    assert_eq!(nak(&mut node, 3), [3]);
    let _ = node.receive(NOW, &ack(3));
    assert_eq!(sent(&mut node, NOW), (4..20).collect::<Vec<_>>());
    // A late NAK is one of the same loss.
    let again = Verdict::Dropped(DropReason::RepeatedNak);
    assert_eq!(node.receive(NOW, &reply(4, SEQUENCE)), again);
    let _ = node.receive(NOW, &ack(5));
    assert_eq!(nak(&mut node, 8), (8..20).collect::<Vec<_>>());
}

/// Three in a row are sent alone, one in each round trip. A requester that goes back needs one for
/// all.
#[test]
fn many_lost_in_a_row_are_gone_back_for() {
    let mut node = writes(20);
    assert_eq!(nak(&mut node, 2), [2]);
    assert_eq!(nak(&mut node, 6), [6], "the peer keeps");
    assert_eq!(nak(&mut node, 7), [7]);
    assert_eq!(nak(&mut node, 8), [8]);
    assert_eq!(nak(&mut node, 9), (9..20).collect::<Vec<_>>());
    // In a trial a NAK for the next packet does not tell what the peer does.
    let mut node = writes(20);
    assert_eq!(nak(&mut node, 2), [2]);
    assert_eq!(nak(&mut node, 3), (3..20).collect::<Vec<_>>());
}

/// RFC 6675 5: the losses of a round trip make the window smaller once.
#[test]
fn a_round_trip_has_one_loss() {
    let mut node = writes(20);
    let before = cwnd(&node);
    nak(&mut node, 3);
    let less = cwnd(&node);
    assert!(less < before);
    nak(&mut node, 8);
    nak(&mut node, 12);
    assert_eq!(cwnd(&node), less);
    let _ = node.receive(NOW, &ack(19));
    node.post(SendOp::Write, pattern(256 * 20, 3), 0);
    sent(&mut node, NOW);
    nak(&mut node, 25);
    assert!(cwnd(&node) < less, "a new round trip");
}

/// The lost packet is lost again: the probe or the timeout goes back, as for the last packet.
#[test]
fn a_lost_repair_is_gone_back_for() {
    let mut node = writes(20);
    nak(&mut node, 3);
    let due = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(due, &mut node.host);
    assert_eq!(sent(&mut node, due).first(), Some(&3));
    let _ = node.receive(due, &ack(19));
    node.settle();
    assert_eq!(node.statuses(), [Status::Success]);
}

#[test]
fn a_nak_that_comes_twice_repairs_once() {
    let mut node = writes(20);
    assert_eq!(nak(&mut node, 3), [3]);
    let again = Verdict::Dropped(DropReason::RepeatedNak);
    assert_eq!(node.receive(NOW, &reply(3, SEQUENCE)), again);
    assert!(sent(&mut node, NOW).is_empty());
    // Before it was sent, too.
    let _ = node.receive(NOW, &reply(9, SEQUENCE));
    assert_eq!(node.receive(NOW, &reply(9, SEQUENCE)), again);
    assert_eq!(sent(&mut node, NOW), [9]);
}

/// IBTA 9.9.2.1: a packet that is sent again is a retry.
#[test]
fn a_requester_without_retries_fails() {
    let config = Modify {
        retry_cnt: Some(0),
        ..config()
    };
    let mut node = Node::new(1, &config, 0, 0);
    node.post(SendOp::Write, pattern(256 * 9, 3), 0);
    node.transmit_all(NOW);
    let _ = node.receive(NOW, &reply(3, SEQUENCE));
    node.settle();
    assert_eq!(node.statuses(), [Status::RetryExc]);
}

/// IBTA 9.7.5.2.8: an RNR NAK in answer to it has the requester wait, and go back.
#[test]
fn an_rnr_nak_ends_the_repair() {
    let mut node = writes(20);
    nak(&mut node, 3);
    let timer = RnrTimer::new(1);
    let _ = node.receive(NOW, &reply(3, Syndrome::RnrNak { timer }));
    assert!(sent(&mut node, NOW).is_empty());
    let due = node.conn.poll_timeout().unwrap();
    assert_eq!(sent(&mut node, due), (3..20).collect::<Vec<_>>());
}

/// A NAK for the packet that is about to be sent, as the requester has gone back, is no loss.
#[test]
fn a_nak_for_what_comes_next_is_no_news() {
    let mut node = writes(20);
    nak(&mut node, 3);
    // The probe goes back, and the ACK timeout after it leaves a window of one packet.
    let mut now = NOW;
    for _ in 0..4 {
        now = node.conn.poll_timeout().unwrap();
        node.conn.handle_timeout(now, &mut node.host);
        if cwnd(&node) == 1 {
            break;
        }
        sent(&mut node, now);
    }
    assert_eq!(sent(&mut node, now), [3]);
    let before = cwnd(&node);
    let _ = node.receive(now, &reply(4, SEQUENCE));
    assert!(cwnd(&node) >= before);
    assert_eq!(node.conn.requester().snapshot().retries, 0);
}

#[test]
fn a_repair_that_is_taken_back_comes_again() {
    let mut node = writes(20);
    let _ = node.receive(NOW, &reply(3, SEQUENCE));
    for _ in 0..3 {
        let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
        assert_eq!(t.header.bth.psn.get(), 3);
        node.conn.undo(&t, &mut node.host);
    }
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    let _ = node.receive(NOW, &ack(10));
    node.conn.undo(&t, &mut node.host);
    assert!(sent(&mut node, NOW).is_empty());
    let counts = node.conn.take_counts().unwrap();
    assert_eq!(counts[RequesterEvent::Retransmit as usize], 0);
}

/// The memory of the lost packet is gone: the request ends there.
#[test]
fn a_repair_that_cannot_be_read_fails_the_request() {
    let mut node = writes(20);
    let _ = node.receive(NOW, &reply(3, SEQUENCE));
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    node.conn.local_error(&t, Status::LocProt, &mut node.host);
    assert!(sent(&mut node, NOW).is_empty());
    node.settle();
    assert_eq!(node.statuses(), [Status::LocProt]);
}

/// Where READs are in flight the requester goes back.
#[test]
fn with_reads_in_flight_it_goes_back() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, pattern(256 * 4, 3), 0);
    node.post(SendOp::Read, vec![0; 256], 0);
    node.transmit_all(NOW);
    assert_eq!(nak(&mut node, 1), [1, 2, 3, 4]);
}

#[test]
fn a_pair_repairs_each_loss_by_one_packet() {
    let mut pair = Pair::with(&config(), 0xff_fff8, 3);
    pair.a.post(SendOp::Write, pattern(256 * 60, 5), 0);
    let lost = [5, 9, 10, 31, 57];
    pair.run_with(|i, way, _| match way {
        Way::AtoB if lost.contains(&i) => Fate::Lose,
        _ => Fate::Deliver,
    });
    pair.assert_all_done();
    assert_eq!(pair.b.host.memory[..256 * 60], pattern(256 * 60, 5));
    assert_eq!(pair.now.0, 0, "no timeout");
    assert_eq!(pair.sent(Way::AtoB).len(), 60 + lost.len());
    assert!(pair.b.host.kept.is_empty());
}

/// A peer that keeps nothing costs a round trip now and then, and no packet: each loss has what
/// came behind sent again once.
#[test]
fn a_peer_that_drops_everything_costs_no_packet() {
    let mut pair = Pair::with(&config(), 0xff_fff8, 3);
    pair.b.host.kept_most = 0;
    for round in 1..=132 {
        pair.a.post(SendOp::Write, pattern(256 * 10, 5), 0);
        let mut first = 0;
        pair.run_with(|_, way, _| {
            first += usize::from(way == Way::AtoB);
            match way {
                Way::AtoB if first == 4 => Fate::Lose,
                _ => Fate::Deliver,
            }
        });
        let sent = pair.sent(Way::AtoB).len();
        assert!(sent <= 17 * round, "{sent} packets after {round} losses");
    }
    pair.assert_all_done();
    let counts = pair.a.conn.take_counts().unwrap();
    // A window of one packet has none behind a lost one.
    assert!(counts[RequesterEvent::SequenceNak as usize] > 100);
    assert_eq!(counts[RequesterEvent::AckTimeout as usize], 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost of whatever requests, and however much the peer keeps, each message arrives
    /// once and in order.
    #[test]
    fn any_losses(
        kinds in prop::collection::vec((0u8..6, 1usize..30 * 256), 1..8),
        losses in prop::collection::vec(any::<u8>(), 1..200),
        percent in 0u32..40,
        most in prop_oneof![Just(0usize), 1usize..6, Just(usize::MAX)],
    ) {
        let mut pair = Pair::with(&config(), 0xff_fff0, 3);
        pair.b.host.kept_most = most;
        let mut messages = Vec::new();
        for (n, (kind, len)) in kinds.into_iter().enumerate() {
            let data = pattern(len, n as u8);
            match kind {
                0 => drop(pair.a.post(SendOp::FetchAdd { add: 0 }, vec![0; 8], 8)),
                1 => drop(pair.a.post(SendOp::Write, data, 30_000)),
                _ => {
                    pair.b.host.recvs.push_back(Ok(len));
                    pair.a.post(SendOp::Send, data.clone(), 0);
                    messages.push(data);
                }
            }
        }
        pair.run_with(|i, _, _| {
            let hit = u32::from(losses[i % losses.len()]) % 100 < percent && i < 2000;
            if hit { Fate::Lose } else { Fate::Deliver }
        });
        prop_assert_eq!(pair.a.statuses().len(), pair.a.host.requests.len());
        let got: Vec<_> = pair.b.host.received.iter().map(|r| r.data.clone()).collect();
        if !pair.a.statuses().contains(&Status::RetryExc) {
            pair.assert_all_done();
            prop_assert_eq!(got, messages);
            prop_assert!(pair.b.host.kept.is_empty());
        } else {
            prop_assert!(messages.starts_with(&got[..got.len().min(messages.len())]));
        }
    }
}
