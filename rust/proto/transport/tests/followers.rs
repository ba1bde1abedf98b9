// SPDX-License-Identifier: GPL-2.0

//! The estimate of how many packets follow one that is sent.

use super::super::{ConnectedQp, Instant, SendOp, Verdict};
use super::pair::*;

const NOW: Instant = Instant(0);

/// The estimate with each packet of these requests, which are sent at once.
fn followers(requests: &[(SendOp, usize)]) -> Vec<u32> {
    let mut pair = Pair::with(&config(), 0, 0);
    for (op, len) in requests {
        pair.a.post(*op, pattern(*len, 1), 0);
    }
    collect(&mut pair.a)
}

fn collect(node: &mut Node) -> Vec<u32> {
    let mut said = Vec::new();
    while let Some((transmit, _)) = node.transmit(NOW) {
        said.push(node.conn.followers(&transmit, &node.host));
    }
    said
}

#[test]
fn requests_of_one_kind_and_length_follow() {
    assert_eq!(followers(&[(SendOp::Send, 8); 4]), [3, 2, 1, 0]);
    assert_eq!(followers(&[(SendOp::Write, 8); 3]), [2, 1, 0]);
    assert_eq!(followers(&[(SendOp::Read, 8); 3]), [2, 1, 0]);
    assert_eq!(followers(&[(SendOp::Send, 0); 3]), [2, 1, 0]);
}

#[test]
fn other_requests_do_not() {
    let mixed = [(SendOp::Send, 8), (SendOp::Write, 8), (SendOp::Write, 9)];
    assert_eq!(followers(&mixed), [0, 0, 0]);
    // Immediate data differ between requests, but have the same length. The estimate looks at the
    // next request alone, and assumes that the one after it is alike.
    let imm = |byte| (SendOp::SendImm([byte; 4]), 8);
    assert_eq!(followers(&[imm(1), imm(2), (SendOp::Send, 8)]), [2, 0, 0]);
}

#[test]
fn the_rest_of_a_message_follows() {
    assert_eq!(followers(&[(SendOp::Send, 1000)]), [3, 2, 1, 0]);
    // The first packet of a WRITE is longer, with its RETH.
    assert_eq!(followers(&[(SendOp::Write, 1000)]), [0, 2, 1, 0]);
}

#[test]
fn further_messages_follow_one_of_full_packets() {
    assert_eq!(followers(&[(SendOp::Send, 512); 2]), [3, 2, 1, 0]);
    // The last packet of the first one is shorter.
    assert_eq!(followers(&[(SendOp::Send, 500); 2])[..2], [1, 0]);
}

#[test]
fn responses_follow() {
    let mut pair = Pair::with(&config(), 0, 0);
    for len in [8, 1000, 512, 8] {
        pair.a.post(SendOp::Read, pattern(len, 1), 0);
    }
    for packet in pair.a.transmit_all(NOW) {
        assert_eq!(pair.b.receive(NOW, &packet), Verdict::Accepted);
    }
    // The responses have 1, 4, 2 and 1 packets. Of the 4, the first and the last have an AETH.
    assert_eq!(collect(&mut pair.b), [3, 0, 1, 0, 0, 0, 1, 0]);
}

#[test]
fn an_ack_follows() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::Read, pattern(8, 1), 0);
    pair.a.post(SendOp::Write, pattern(8, 1), 0);
    for packet in pair.a.transmit_all(NOW) {
        assert_eq!(pair.b.receive(NOW, &packet), Verdict::Accepted);
    }
    assert_eq!(collect(&mut pair.b), [1, 0]);
}
