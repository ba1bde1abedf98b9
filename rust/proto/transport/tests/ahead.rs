// SPDX-License-Identifier: GPL-2.0

//! Request packets that come behind a missing one, at a responder that has them kept.

use super::super::wire::{NakCode, Syndrome};
use super::super::{
    ConnectedQp, DropReason, Instant, Modify, SendOp, State, Verdict, KEPT_SPAN, LOOPBACK_MTU,
};
use super::pair::*;

const NOW: Instant = Instant(0);
const SEQUENCE: Syndrome = Syndrome::Nak {
    code: NakCode::PsnSequence,
};
const LATE: Verdict = Verdict::Dropped(DropReason::OutOfSequence);

/// b, and the packets of a WRITE of `count` packets to it, from PSN 0 on. None of them asks for an
/// acknowledgement.
fn write(count: usize) -> (Node, Vec<Packet>) {
    let mut a = Node::new(1, &config(), 0, 0);
    a.post(SendOp::Write, pattern(256 * count, 3), 0);
    let mut packets = Vec::new();
    while packets.len() < count {
        packets.extend(a.transmit_all(NOW));
        let last = packets.len() as u32 - 1;
        let _ = a.receive(NOW, &ack(last));
    }
    for packet in &mut packets {
        packet.header.bth.ack_req = false;
    }
    (Node::new(2, &config(), 0, 0), packets)
}

fn asks(packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    packet.header.bth.ack_req = true;
    packet
}

/// What b sends: PSNs and syndromes.
fn responses(b: &mut Node) -> Vec<(u32, Syndrome)> {
    let packets = b.transmit_all(NOW);
    let each = packets.iter().map(|p| (p.psn(), p.syndrome().unwrap()));
    each.collect()
}

fn expected(b: &Node) -> u32 {
    b.conn.responder().expected_psn().get()
}

/// IBTA 9.7.5.1.2, 9.7.5.2: one NAK, and when the missing packet has come one ACK of all.
#[test]
fn one_packet_closes_the_gap() {
    let (mut b, packets) = write(10);
    let _ = b.receive(NOW, &packets[0]);
    for packet in &packets[2..] {
        assert_eq!(b.receive(NOW, packet), LATE);
    }
    assert_eq!(responses(&mut b), [(1, SEQUENCE)]);
    assert_eq!(expected(&b), 1, "nothing is carried out before its turn");
    assert_ne!(b.host.memory[512..2560], pattern(2560, 3)[512..]);
    assert_eq!(b.receive(NOW, &asks(&packets[1])), Verdict::Accepted);
    assert_eq!(expected(&b), 10);
    assert_eq!(b.host.memory[..2560], pattern(2560, 3));
    assert_eq!(responses(&mut b), [(9, Syndrome::ACK)]);
    assert!(b.host.kept.is_empty());
    // The rest of a requester that goes back.
    for packet in &packets[2..] {
        let again = Verdict::Dropped(DropReason::Duplicate);
        assert_eq!(b.receive(NOW, packet), again);
    }
    assert_eq!(responses(&mut b), [(9, Syndrome::ACK)]);
}

/// IBTA 9.7.5.2: the next gap is reported once, in place of the ACK that was asked for.
#[test]
fn two_gaps_have_a_nak_each() {
    let (mut b, packets) = write(10);
    for at in [0, 2, 3, 5, 6, 9] {
        let _ = b.receive(NOW, &packets[at]);
    }
    assert_eq!(responses(&mut b), [(1, SEQUENCE)]);
    let _ = b.receive(NOW, &asks(&packets[1]));
    assert_eq!(responses(&mut b), [(4, SEQUENCE)]);
    let _ = b.receive(NOW, &packets[5]);
    assert!(responses(&mut b).is_empty(), "that is known");
    let _ = b.receive(NOW, &asks(&packets[4]));
    assert_eq!(responses(&mut b), [(7, SEQUENCE)]);
    let _ = b.receive(NOW, &asks(&packets[7]));
    assert_eq!(responses(&mut b), [(8, SEQUENCE)]);
    let _ = b.receive(NOW, &asks(&packets[8]));
    assert_eq!(responses(&mut b), [(9, Syndrome::ACK)]);
    assert_eq!(b.host.memory[..2560], pattern(2560, 3));
}

/// A requester that goes back comes to the second gap by itself, and is told when it does not.
#[test]
fn a_requester_that_goes_back_is_not_told_of_the_second_gap() {
    let (mut b, packets) = write(10);
    for at in [0, 2, 3, 5, 6] {
        let _ = b.receive(NOW, &packets[at]);
    }
    assert_eq!(responses(&mut b), [(1, SEQUENCE)]);
    let _ = b.receive(NOW, &packets[1]);
    assert_eq!((responses(&mut b), expected(&b)), (vec![], 4));
    let mut other = Node::new(2, &config(), 0, 0);
    for at in [0, 2, 3, 5, 6, 1, 4] {
        let _ = other.receive(NOW, &packets[at]);
    }
    assert_eq!(expected(&other), 7);
    // A later packet shows the gap; so does the question about an earlier one.
    let _ = b.receive(NOW, &packets[7]);
    assert_eq!(responses(&mut b), [(4, SEQUENCE)]);
    let _ = b.receive(NOW, &asks(&packets[1]));
    assert_eq!(responses(&mut b), [(3, Syndrome::ACK)], "it was told");
}

#[test]
fn a_question_about_a_duplicate_is_answered_with_the_gap() {
    let (mut b, packets) = write(10);
    for at in [0, 2, 3, 5] {
        let _ = b.receive(NOW, &packets[at]);
    }
    responses(&mut b);
    // The packet was late, not lost, and it is sent again.
    let _ = b.receive(NOW, &packets[1]);
    assert!(responses(&mut b).is_empty());
    let _ = b.receive(NOW, &asks(&packets[1]));
    assert_eq!(responses(&mut b), [(4, SEQUENCE)]);
}

#[test]
fn the_kept_span_is_that_of_a_window() {
    let span = KEPT_SPAN as usize;
    let (mut b, packets) = write(span + 2);
    for packet in &packets[1..] {
        assert_eq!(b.receive(NOW, packet), LATE);
    }
    assert_eq!(b.host.kept.len(), span - 1);
    let _ = b.receive(NOW, &asks(&packets[0]));
    assert_eq!(expected(&b), KEPT_SPAN);
    // The next one came, but was not kept.
    assert_eq!(
        responses(&mut b),
        [(0, SEQUENCE), (KEPT_SPAN, SEQUENCE)][1..]
    );
}

#[test]
fn duplicates_of_kept_packets_are_dropped() {
    let (mut b, packets) = write(6);
    for at in [3, 4, 3, 4, 4, 3] {
        assert_eq!(b.receive(NOW, &packets[at]), LATE);
    }
    assert_eq!(b.host.kept_ever, 2);
    for packet in &packets[..3] {
        let _ = b.receive(NOW, packet);
    }
    assert_eq!((expected(&b), b.host.kept_ever), (5, 2));
}

/// Where there is no memory all is as without: the requester sends it again.
#[test]
fn what_is_not_kept_is_lost() {
    for most in [0, 1, 3] {
        let (mut b, packets) = write(10);
        b.host.kept_most = most;
        for packet in &packets[1..] {
            assert_eq!(b.receive(NOW, packet), LATE);
        }
        responses(&mut b);
        let _ = b.receive(NOW, &asks(&packets[0]));
        assert_eq!(expected(&b), 1 + most as u32);
        let told = match most {
            0 => (0, Syndrome::ACK),
            most => (1 + most as u32, SEQUENCE),
        };
        assert_eq!(responses(&mut b), [told]);
        for packet in &packets[1..] {
            let _ = b.receive(NOW, packet);
        }
        assert_eq!(b.host.memory[..2560], pattern(2560, 3));
    }
    let (mut b, packets) = write(3);
    b.conn.keep_requests(false);
    let _ = b.receive(NOW, &packets[2]);
    assert_eq!(b.host.kept_ever, 0);
}

/// IBTA 9.7.5.2.8: a requester sends everything again after an RNR NAK, so nothing is kept then.
#[test]
fn an_rnr_nak_ends_it() {
    let mut a = Node::new(1, &config(), 0, 0);
    for _ in 0..4 {
        a.post(SendOp::Send, pattern(8, 1), 0);
    }
    let packets = a.transmit_all(NOW);
    let mut b = Node::new(2, &config(), 0, 0);
    b.host.recvs.push_back(Ok(8));
    for at in [1, 2, 3] {
        assert_eq!(b.receive(NOW, &packets[at]), LATE);
    }
    assert_eq!(b.host.kept.len(), 3);
    let _ = b.receive(NOW, &packets[0]);
    assert_eq!((expected(&b), b.host.kept.len()), (1, 0));
    let naks = responses(&mut b);
    assert!(
        matches!(naks[..], [(1, Syndrome::RnrNak { .. })]),
        "{naks:?}"
    );
    assert_eq!(b.receive(NOW, &packets[3]), LATE);
    assert!(b.host.kept.is_empty());
    b.host.recvs.extend([Ok(8), Ok(8), Ok(8)]);
    for packet in &packets[1..] {
        assert_eq!(b.receive(NOW, packet), Verdict::Accepted);
    }
    assert_eq!(b.host.received.len(), 4);
}

/// Each check comes in the packet's turn, and a fault ends the connection as ever.
#[test]
fn a_kept_packet_is_checked_in_its_turn() {
    let (mut b, mut packets) = write(4);
    packets[2] = packets[0].clone();
    packets[2].header.bth.psn = psn(2);
    for at in [2, 3] {
        assert_eq!(b.receive(NOW, &packets[at]), LATE);
    }
    let _ = b.receive(NOW, &packets[0]);
    assert_eq!(b.conn.state(), State::Rts);
    let _ = b.receive(NOW, &packets[1]);
    b.settle();
    assert_eq!((b.conn.state(), expected(&b)), (State::Err, 2));
    let code = NakCode::InvalidRequest;
    assert_eq!(responses(&mut b), [(2, Syndrome::Nak { code })]);
    assert!(b.host.kept.is_empty());
    // A payload that is too long is not even kept.
    let (mut b, mut packets) = write(3);
    packets[2].payload = vec![0; 260];
    assert_eq!(b.receive(NOW, &packets[2]), LATE);
    assert!(b.host.kept.is_empty());
}

#[test]
fn a_reset_forgets_what_was_kept() {
    for state in [State::Reset, State::Err] {
        let (mut b, packets) = write(4);
        for at in [1, 2] {
            let _ = b.receive(NOW, &packets[at]);
        }
        assert!(b.conn.keeps_requests());
        b.conn.modify(&Modify::to_state(state)).unwrap();
        assert!(!b.conn.keeps_requests());
        assert_eq!(b.conn.take_kept(), None);
    }
}

/// READs and atomics behind a gap are not kept, nor is anything over loopback.
#[test]
fn messages_from_the_wire_alone_are_kept() {
    let mut a = Node::new(1, &config(), 0, 0);
    for (op, len) in [
        (SendOp::Write, 8),
        (SendOp::Read, 8),
        (SendOp::FetchAdd { add: 1 }, 8),
        (SendOp::Write, 8),
    ] {
        a.post(op, vec![0; len], 0);
    }
    let packets = a.transmit_all(NOW);
    let mut b = Node::new(2, &config(), 0, 0);
    for packet in &packets[1..] {
        assert_eq!(b.receive(NOW, packet), LATE);
    }
    let kept: Vec<_> = b.host.kept.keys().copied().collect();
    assert_eq!(kept, [3]);
    for packet in &packets[..3] {
        let _ = b.receive(NOW, packet);
    }
    assert_eq!(expected(&b), 4, "the READ and the atomic came");
    let config = Modify {
        pmtu: Some(LOOPBACK_MTU),
        ..config()
    };
    let mut b = Node::new(2, &config, 0, 0);
    assert_eq!(b.receive(NOW, &packets[3]), LATE);
    assert!(b.host.kept.is_empty());
}
