// SPDX-License-Identifier: GPL-2.0

//! Pacing of request packets where the congestion window is small.

use super::super::wire::Opcode;
use super::super::{ConnectedQp, Instant, Modify, SendOp, Verdict};
use super::pair::*;

const MS: u64 = 1_000_000;

/// The packets that the node sends now. Each asks for an acknowledgement, or has another response.
fn psns(node: &mut Node, now: Instant) -> Vec<u32> {
    let sent = node.transmit_all(now);
    let answered = |packet: &Packet| {
        let bth = &packet.header.bth;
        bth.ack_req || bth.opcode == Opcode::RcReadRequest
    };
    assert!(sent.iter().all(answered));
    sent.iter().map(Packet::psn).collect()
}

fn cwnd(node: &Node) -> u16 {
    node.conn.requester().details(node.conn.attr()).cwnd
}

/// A node that knows a round trip time of 1 ms, and whose window is one packet: at the time that is
/// returned its WRITE of so many packets, which begins with PSN 1, has timed out.
fn timed_out(packets: u32) -> (Node, Instant) {
    timed_out_with(&config(), MS, packets)
}

fn timed_out_with(config: &Modify, rtt: u64, packets: u32) -> (Node, Instant) {
    let mut node = Node::new(1, config, 0, 0);
    node.post(SendOp::Write, vec![0; 1], 0);
    assert_eq!(node.transmit_all(Instant(0)).len(), 1);
    let mut now = Instant(rtt);
    assert_eq!(node.receive(now, &ack(0)), Verdict::Accepted);
    node.post(SendOp::Write, vec![0; 256 * packets as usize], 0);
    assert!(node.transmit_all(now).len() > 1);
    // Probes come first.
    while cwnd(&node) > 1 {
        node.transmit_all(now);
        now = node.conn.poll_timeout().expect("packets are in flight");
        node.conn.handle_timeout(now, &mut node.host);
    }
    (node, now)
}

/// Advances the time to when the packet that waits may be sent. Nothing is sent before.
fn wait(node: &mut Node, now: &mut Instant) {
    assert!(node.transmit_all(*now).is_empty());
    let next = node.conn.poll_timeout().expect("a packet waits");
    let before = Instant(next.0 - 1);
    node.conn.handle_timeout(before, &mut node.host);
    assert!(node.transmit_all(before).is_empty());
    node.conn.handle_timeout(next, &mut node.host);
    *now = next;
}

#[test]
fn packets_of_a_small_window_are_spread_over_a_round_trip() {
    let (mut node, begin) = timed_out(1000);
    assert_eq!(psns(&mut node, begin), [1]);
    let mut now = begin.after(MS);
    assert_eq!(node.receive(now, &ack(1)), Verdict::Accepted);
    // A packet in 1.25 ms, and then two.
    wait(&mut node, &mut now);
    assert_eq!(now, begin.after(MS * 5 / 4));
    assert_eq!(psns(&mut node, now), [2]);
    wait(&mut node, &mut now);
    assert_eq!(now, begin.after(MS * 5 / 4 + MS * 5 / 8));
    assert_eq!(psns(&mut node, now), [3]);
    // The window is full: nothing waits for pacing.
    now = now.after(MS * 5 / 8);
    assert!(node.transmit_all(now).is_empty());
    assert!(node
        .conn
        .poll_timeout()
        .is_some_and(|due| due > now.after(MS)));
}

/// A wait for pacing that is longer than the ACK timeout does not delay a retry.
#[test]
fn a_retry_does_not_wait() {
    let config = Modify {
        timeout: Some(10),
        ..config()
    };
    let (mut node, now) = timed_out_with(&config, 120 * MS, 1000);
    assert_eq!(psns(&mut node, now), [1]);
    // 4.096 us * 2^10, twice after the first retry.
    let due = node.conn.poll_timeout().expect("a packet is in flight");
    assert!(due < now.after(10 * MS), "before the next packet is due");
    node.conn.handle_timeout(due, &mut node.host);
    assert_eq!(psns(&mut node, due), [1]);
}

/// Where the READ window is not small, a READ follows a paced packet at once.
#[test]
fn a_read_does_not_wait() {
    let (mut node, begin) = timed_out(34);
    for _ in 0..3 {
        node.conn.open_windows(0, 16);
    }
    node.post(SendOp::Read, vec![0; 1], 0);
    assert_eq!(psns(&mut node, begin), [1]);
    let mut now = begin.after(MS / 2);
    // Those of before the timeout had arrived.
    assert_eq!(node.receive(now, &ack(32)), Verdict::Accepted);
    wait(&mut node, &mut now);
    assert_eq!(psns(&mut node, now), [33]);
    assert_eq!(node.receive(now, &ack(33)), Verdict::Accepted);
    wait(&mut node, &mut now);
    assert_eq!(psns(&mut node, now), [34, 35], "the READ follows at once");
}

/// Where it is small, READ requests are spread as their responses are to be.
#[test]
fn reads_of_a_small_window_are_spread_over_a_round_trip() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 1], 0);
    assert_eq!(psns(&mut node, Instant(0)), [0]);
    let mut now = Instant(MS);
    let mut only = read_response(0, 0, 1);
    only.payload.truncate(1);
    assert_eq!(node.receive(now, &only), Verdict::Accepted);
    node.post(SendOp::Read, vec![0; 256 * 8], 0);
    assert_eq!(psns(&mut node, now), [1]);
    let window = |node: &Node| node.conn.requester().details(node.conn.attr()).read_window;
    while window(&node) > 1 {
        node.transmit_all(now);
        now = node.conn.poll_timeout().expect("a READ is in flight");
        node.conn.handle_timeout(now, &mut node.host);
    }
    let begin = now;
    let asks = |node: &mut Node, now| reads_asked(&node.transmit_all(now));
    // It is asked for again at once: eight packets in 10 ms.
    assert_eq!(asks(&mut node, now), [(1, 9)]);
    now = begin.after(MS);
    for at in 1..9 {
        let verdict = node.receive(now, &read_response(at, 1, 9));
        assert_eq!(verdict, Verdict::Accepted, "{at}");
    }
    assert_eq!(window(&node), 2);
    node.post(SendOp::Read, vec![0; 256 * 100], 0);
    wait(&mut node, &mut now);
    assert_eq!(now, begin.after(10 * MS));
    assert_eq!(asks(&mut node, now), [(9, 10)]);
    wait(&mut node, &mut now);
    assert_eq!(now, begin.after(10 * MS + MS * 5 / 8));
    assert_eq!(asks(&mut node, now), [(10, 11)]);
}

#[test]
fn a_packet_that_was_not_sent_does_not_wait() {
    let (mut node, now) = timed_out(1000);
    let (transmit, _) = node.transmit(now).expect("the retry");
    node.conn.undo(&transmit, &mut node.host);
    assert_eq!(psns(&mut node, now), [1]);
}
