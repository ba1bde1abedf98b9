// SPDX-License-Identifier: GPL-2.0

//! Messages of an unreliable connection that are dropped: lost packets, no room, no access.

use super::super::wire::{Opcode, Position};
use super::super::{
    AccessError, ConnectedQp, DropReason, Events, Modify, Request, SendOp, State, Status, Verdict,
};
use super::pair::{config, pattern, signaled, BASE, RKEY};
use super::uc::{ends, LOST};

/// IBTA 9.8.2.2: a message of which a packet is lost is dropped whole, and the next one is taken,
/// by the same receive.
#[test]
fn a_message_with_a_gap_is_dropped_whole() {
    for lost in 0..4 {
        let (mut a, mut b) = ends(2);
        let mut packets = a.send(1000);
        packets.remove(lost);
        let verdicts = b.receive_all(&packets);
        assert!(verdicts[lost..].iter().all(|v| *v == LOST), "{lost}");
        assert!(b.received().is_empty());
        assert!(b
            .receive_all(&a.send(1500))
            .iter()
            .all(|v| *v == Verdict::Accepted));
        assert_eq!(b.received(), [pattern(1500, 1)]);
        assert_eq!(b.host.recvs.len(), 1);
    }
}

/// IBTA 9.8.2.2: the start of a new message ends the one before.
#[test]
fn a_new_message_ends_one_that_is_not_whole() {
    let (mut a, mut b) = ends(1);
    let first = a.send(600);
    let second = a.send(600);
    // The last packet of the first message and the first of the second have arrived as one PSN.
    b.receive_all(&first[..2]);
    let verdicts = b.receive_all(&second);
    assert_eq!(verdicts, [Verdict::Accepted; 3]);
    assert_eq!(b.received(), [pattern(600, 1)]);
}

/// A packet that comes again, or late, is neither a new message nor the end of one.
#[test]
fn a_packet_that_comes_again_is_dropped() {
    let (mut a, mut b) = ends(2);
    let again = Verdict::Dropped(DropReason::Duplicate);
    let packets = [a.send(10), a.send(600)].concat();
    assert_eq!(b.receive_all(&packets), [Verdict::Accepted; 4]);
    assert_eq!(b.receive_all(&packets[1..]), [again, LOST, LOST]);
    assert_eq!(b.receive(&packets[0]), again);
    assert_eq!(b.received().len(), 2);
}

/// A message start that comes again ends the message in progress: a peer that was reset may have
/// sent it, and what follows is not the rest of the message then.
#[test]
fn messages_of_a_peer_that_was_reset_are_not_joined() {
    let (mut a, mut b) = ends(1);
    let old = a.send(600);
    assert_eq!(b.receive(&old[0]), Verdict::Accepted);
    let mut new = a.send(700);
    for (new, old) in new.iter_mut().zip(&old) {
        new.header.bth.psn = old.header.bth.psn;
    }
    let again = Verdict::Dropped(DropReason::Duplicate);
    assert_eq!(b.receive_all(&new), [again, LOST, LOST]);
    assert_eq!(b.receive_all(&a.send(10)), [Verdict::Accepted]);
    assert_eq!(b.received(), [pattern(10, 2)]);
}

/// IBTA 9.8.2.2, F15: a peer that was reset, and whose new PSNs lie a little before the expected
/// one, loses one message. The next one that follows in order is taken.
#[test]
fn a_peer_that_was_reset_loses_one_message() {
    let again = Verdict::Dropped(DropReason::Duplicate);
    for (first, second) in [(10, 600), (600, 10), (600, 700)] {
        let (mut a, mut b) = ends(3);
        assert_eq!(b.receive_all(&a.send(2000)), [Verdict::Accepted; 8]);
        // Of the eight PSNs, the new messages begin with the second.
        let (mut new, _) = ends(0);
        new.send(1);
        let dropped = b.receive_all(&new.send(first));
        assert_eq!(dropped[0], again);
        assert!(dropped[1..].iter().all(|v| *v == LOST));
        for len in [second, 300] {
            let taken = b.receive_all(&new.send(len));
            assert!(taken.iter().all(|v| *v == Verdict::Accepted));
        }
        let got = [pattern(2000, 0), pattern(second, 2), pattern(300, 3)];
        assert_eq!(b.received(), got);
        assert_eq!(b.qp.expected_psn(), new.qp.next_psn());
    }
}

/// F15: packets that come twice or late are no message of a peer that was reset: not while others
/// arrive between them, and not if one of theirs is missing.
#[test]
fn copies_are_not_taken_for_a_peer_that_was_reset() {
    let again = Verdict::Dropped(DropReason::Duplicate);
    let (mut a, mut b) = ends(5);
    let packets: Vec<_> = (0..4).flat_map(|i| a.send(100 * i)).collect();
    for packet in &packets {
        assert_eq!(b.receive(packet), Verdict::Accepted);
        // The rest of a message that was begun again is lost, as ever.
        if packet.header.bth.opcode.info().position == Position::Only {
            assert_eq!(b.receive(packet), again);
        }
    }
    // The second copy does not follow the first one.
    assert_eq!(b.receive_all([&packets[0], &packets[2]]), [again; 2]);
    // A packet of the peer's comes between two copies.
    assert_eq!(b.receive(&packets[0]), again);
    assert_eq!(b.receive_all(&a.send(7)), [Verdict::Accepted]);
    assert_eq!(b.receive(&packets[1]), again);
    assert_eq!(b.received().len(), 5);
}

/// However many packets were lost, the next message is taken.
#[test]
fn any_number_of_packets_may_be_lost() {
    for ahead in [0, 1, 1 << 22, 1 << 23, (1 << 24) - 2000] {
        let (mut a, mut b) = ends(2);
        let _ = b.receive(&a.send(1)[0]);
        let mut packet = a.send(1).remove(0);
        packet.header.bth.psn = packet.header.bth.psn.add(ahead);
        assert_eq!(b.receive(&packet), Verdict::Accepted, "{ahead}");
    }
}

/// IBTA 9.8.2.2: the peer's first message is taken, whatever its PSN is.
#[test]
fn the_first_message_sets_the_psn() {
    for before in [1, 5] {
        let (mut a, mut b) = ends(1);
        let mut packets = a.send(400);
        for packet in &mut packets {
            packet.header.bth.psn = packet.header.bth.psn.sub(before);
        }
        assert_eq!(b.receive_all(&packets), [Verdict::Accepted; 2]);
    }
}

/// IBTA 9.9.3: without a receive, or with one that is too short, a message is dropped silently.
#[test]
fn a_message_without_room_is_dropped() {
    let (mut a, mut b) = ends(0);
    let none = b.receive_all(&a.send(600));
    assert_eq!(none, [Verdict::Dropped(DropReason::NoReceive), LOST, LOST]);
    b.host.recvs.push_back(Ok(500));
    let short = b.receive_all(&a.send(600));
    let too_short = Verdict::Dropped(DropReason::ReceiveTooShort);
    assert_eq!(short, [Verdict::Accepted, too_short, LOST]);
    // The receive is still there, and its bytes are those of the next message.
    assert_eq!(b.receive_all(&a.send(500)), [Verdict::Accepted; 2]);
    assert_eq!(b.received(), [pattern(500, 2)]);
    assert_eq!(b.qp.state(), State::Rts);
}

/// IBTA 9.9.3: a WRITE whose key or length is wrong is dropped silently; so is one without a
/// receive for its immediate data, and one that the QP does not permit.
#[test]
fn a_write_that_is_refused_is_dropped() {
    let refused = Verdict::Dropped(DropReason::Refused);
    let (mut a, mut b) = ends(1);
    let write = |key| Request::new(SendOp::WriteImm([0; 4]), 600, BASE, key, signaled());
    a.post_request(write(RKEY + 1), pattern(600, 1));
    assert_eq!(b.receive_all(&a.transmit_all()), [refused, LOST, LOST]);
    // The memory is revoked before the last packet: the receive is not used up.
    a.post_request(write(RKEY), pattern(600, 1));
    let packets = a.transmit_all();
    b.receive_all(&packets[..2]);
    b.host.deny = Some(AccessError::Access);
    assert_eq!(b.receive(&packets[2]), refused);
    b.host.deny = None;
    a.post_request(write(RKEY), pattern(600, 1));
    let mut packets = a.transmit_all();
    packets[2].payload.pop();
    assert_eq!(b.receive(&packets[0]), Verdict::Accepted);
    assert_eq!(b.receive(&packets[1]), Verdict::Accepted);
    assert_eq!(b.receive(&packets[2]), refused);
    assert!(b.host.received.is_empty());
    assert_eq!(b.receive_all(&a.send(5)), [Verdict::Accepted]);
    a.post_request(write(RKEY), pattern(600, 1));
    let last = *b.receive_all(&a.transmit_all()).last().unwrap();
    assert_eq!(last, Verdict::Dropped(DropReason::NoReceive));
    let change = Modify {
        access: Some(Default::default()),
        ..Modify::default()
    };
    b.qp.modify(&change).unwrap();
    a.post_request(write(RKEY), pattern(600, 1));
    assert_eq!(b.receive(&a.transmit().unwrap()), refused);
    assert_eq!((b.host.received.len(), b.qp.state()), (1, State::Rts));
}

/// IBTA 9.9.3: a receive that is not usable completes with an error, and takes the QP to the error
/// state.
#[test]
fn a_bad_receive_is_an_error() {
    for garbage in [true, false] {
        let (mut a, mut b) = ends(0);
        b.host.recvs = if garbage {
            [Err(Status::LocProt)].into()
        } else {
            b.host.deny_recv = Some(Status::LocProt);
            [Ok(100)].into()
        };
        let refused = Verdict::Dropped(DropReason::Refused);
        assert_eq!(b.receive_all(&a.send(10)), [refused]);
        assert_eq!(b.host.received[0].completion.status, Status::LocProt);
        assert_eq!(b.qp.state(), State::Err);
        assert!(b.qp.take_events().contains(Events::ENTERED_ERROR));
        assert!(!b.qp.abandon_recv());
        let closed = Verdict::Dropped(DropReason::State);
        assert_eq!(b.receive_all(&a.send(10)), [closed]);
    }
}

/// IBTA 10.3.1: a receive that a message has taken is flushed in the error state, and forgotten by
/// a reset.
#[test]
fn a_receive_in_use_is_given_up_once() {
    for state in [State::Err, State::Reset] {
        let (mut a, mut b) = ends(1);
        let _ = b.receive(&a.send(600)[0]);
        b.become_state(state);
        assert!(b.qp.abandon_recv());
        assert!(!b.qp.abandon_recv());
        assert_eq!(b.qp.state(), state);
    }
}

/// IBTA 9.6.1: packets of another service, or of another partition, are dropped.
#[test]
fn packets_of_others_are_dropped() {
    let (mut a, mut b) = ends(1);
    let packet = a.send(5).remove(0);
    let dropped = [
        (Opcode::RcSendOnly, DropReason::Service),
        (Opcode::UdSendOnly, DropReason::Service),
        (Opcode::Cnp, DropReason::Cnp),
    ];
    for (opcode, reason) in dropped {
        let mut other = packet.clone();
        other.header.bth.opcode = opcode;
        assert_eq!(b.receive(&other), Verdict::Dropped(reason));
    }
    b.qp.modify(&Modify {
        pkey: Some(0x8001),
        ..Modify::default()
    })
    .unwrap();
    assert_eq!(b.receive(&packet), Verdict::Dropped(DropReason::PKey));
}

/// IBTA 11.6.3.2, communication established: once, for the first packet in the state RTR.
#[test]
fn the_first_packet_in_rtr_is_an_event() {
    let (mut a, mut b) = ends(2);
    b.become_state(State::Reset);
    for state in [State::Init, State::Rtr] {
        b.qp.modify(&Modify {
            state: Some(state),
            ..config()
        })
        .unwrap();
    }
    assert_eq!(b.receive(&a.send(1)[0]), Verdict::Accepted);
    assert!(b.qp.take_events().contains(Events::COMM_EST));
    assert_eq!(b.receive(&a.send(1)[0]), Verdict::Accepted);
    assert!(b.qp.take_events().is_empty());
}
