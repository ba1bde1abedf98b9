// SPDX-License-Identifier: GPL-2.0

//! The QP states: every transition between them, and every kind of packet and call in each.

use super::super::wire::{FethRepr, Kind, Opcode, PKey, Service, Syndrome};
use super::super::{
    ConnectedQp, Connection, DropReason, Events, Flags, Instant, Modify, Resource, SendOp, State,
    Status, Verdict,
};
use super::pair::*;

/// A connection in this state. `None` for SQE, which an RC connection never enters.
fn at(state: State) -> Option<Node> {
    let mut node = Node::new(1, &config(), 0, 0);
    let way: &[State] = match state {
        State::Reset => &[State::Reset],
        State::Init => &[State::Reset, State::Init],
        State::Rtr => &[State::Reset, State::Init, State::Rtr],
        State::Rts => &[],
        State::Sqd => &[State::Sqd],
        State::Err => &[State::Err],
        State::Sqe => return None,
    };
    for step in way {
        let change = match step {
            State::Rtr => Modify {
                state: Some(State::Rtr),
                ..config()
            },
            step => Modify::to_state(*step),
        };
        node.conn.modify(&change).unwrap();
    }
    node.settle();
    node.events.clear();
    assert_eq!(node.conn.state(), state);
    Some(node)
}

/// IBTA 10.3.1: these are the transitions that a modify may ask for.
#[test]
fn the_ways_between_states() {
    use State::*;
    let ways = [
        (Reset, vec![Init]),
        (Init, vec![Init, Rtr]),
        (Rtr, vec![Rts]),
        (Rts, vec![Rts, Sqd]),
        (Sqd, vec![Rts, Sqd]),
        (Sqe, vec![Rts]),
        (Err, vec![]),
    ];
    for (from, allowed) in ways {
        for to in State::ALL {
            let expect = allowed.contains(&to) || to == Reset || to == Err;
            assert_eq!(from.may_become(to), expect, "{from:?} to {to:?}");
            if let Some(mut node) = at(from) {
                let result = node.conn.modify(&Modify::to_state(to));
                assert_eq!(result.is_ok(), expect, "{from:?} to {to:?}");
                let after = if expect { to } else { from };
                assert_eq!(node.conn.state(), after);
            }
        }
    }
}

/// One packet of each opcode that a peer could send next, and whether its service is RC.
fn packets() -> Vec<Packet> {
    let mut pair = Pair::with(&config(), 0, 0);
    let feth = FethRepr::new(1, 0).expect("fits");
    let ops = [
        (SendOp::Send, 600),
        (SendOp::SendImm([0; 4]), 600),
        (SendOp::SendInv(TEMP_KEY), 600),
        (SendOp::Send, 0),
        (SendOp::SendImm([0; 4]), 0),
        (SendOp::SendInv(TEMP_KEY), 0),
        (SendOp::Write, 600),
        (SendOp::WriteImm([0; 4]), 600),
        (SendOp::Write, 0),
        (SendOp::WriteImm([0; 4]), 0),
        (SendOp::Read, 600),
        (SendOp::Read, 0),
        (SendOp::FetchAdd { add: 0 }, 8),
        (
            SendOp::CompareSwap {
                compare: 0,
                swap: 0,
            },
            8,
        ),
        (SendOp::AtomicWrite, 8),
        (SendOp::Flush { feth, len: 8 }, 0),
    ];
    let mut found: Vec<Packet> = Vec::new();
    for (op, len) in ops {
        pair.b.host.recvs.push_back(Ok(600));
        pair.b.host.temp_key_valid = true;
        pair.a.post(op, vec![0; len], 0);
        pair.run();
    }
    for (_, packet) in pair.log {
        if !found.iter().any(|p| p.opcode() == packet.opcode()) {
            found.push(packet);
        }
    }
    let rc = super::super::wire::opcode::ALL
        .iter()
        .filter(|o| o.service() == Service::Rc);
    assert_eq!(found.len(), rc.count(), "every RC opcode is there");
    found
}

/// IBTA 10.3.1: requests are taken from RTR on, responses from RTS on, and none of them in the
/// error state.
#[test]
fn every_state_and_packet() {
    let packets = packets();
    for state in State::ALL {
        for packet in &packets {
            let Some(mut node) = at(state) else { continue };
            node.host.recvs.push_back(Ok(600));
            let mut packet = packet.clone();
            packet.header.bth.psn = psn(0);
            let verdict = node.receive(Instant(0), &packet);
            node.settle();
            let request = packet.opcode().kind().is_request();
            let starts = packet.opcode().position().is_start();
            let expect = match state {
                State::Rtr | State::Rts | State::Sqd if request && starts => Verdict::Accepted,
                State::Rtr | State::Rts | State::Sqd if request => {
                    Verdict::Dropped(DropReason::Refused)
                }
                State::Rts | State::Sqd => Verdict::Dropped(DropReason::Ghost),
                _ => Verdict::Dropped(DropReason::State),
            };
            assert_eq!(verdict, expect, "{state:?} {:?}", packet.opcode());
            let refused = expect == Verdict::Dropped(DropReason::Refused);
            let after = if refused { State::Err } else { state };
            assert_eq!(node.conn.state(), after, "{state:?} {:?}", packet.opcode());
            assert_eq!(node.saw(Events::ENTERED_ERROR), refused);
            assert_eq!(node.saw(Events::COMM_EST), state == State::Rtr && request);
            // A packet has a response only if it was accepted, or refused with the NAK that ends
            // the connection.
            let answers = node.transmit_all(Instant(0));
            if refused {
                assert!(matches!(answers[0].syndrome(), Some(Syndrome::Nak { .. })));
            } else if expect != Verdict::Accepted {
                assert!(answers.is_empty());
            }
        }
    }
}

/// IBTA 10.3.1: requests are sent in RTS, and flushed in the error state.
#[test]
fn every_state_and_call() {
    for state in State::ALL {
        let Some(mut node) = at(state) else { continue };
        node.post(SendOp::Send, vec![0; 4], 0);
        let sent = node.transmit_all(Instant(0));
        assert_eq!(sent.len(), usize::from(state == State::Rts), "{state:?}");
        assert_eq!(node.conn.poll_timeout().is_some(), state == State::Rts);
        node.conn.handle_timeout(Instant(1 << 40), &mut node.host);
        node.settle();
        let flushed = if state == State::Err {
            vec![Status::WrFlush]
        } else {
            vec![]
        };
        assert_eq!(node.statuses(), flushed, "{state:?}");
        node.conn.to_error();
        node.settle();
        assert_eq!(node.statuses(), [Status::WrFlush]);
        assert_eq!(node.saw(Events::ENTERED_ERROR), state != State::Err);
        node.conn.reset();
        node.settle();
        assert_eq!(node.conn.state(), State::Reset);
        assert_eq!(node.conn.poll_timeout(), None);
        assert!(node.transmit_all(Instant(0)).is_empty());
    }
}

/// IBTA 11.6.3.2: the first packet on a QP in RTR raises an event.
#[test]
fn communication_is_established_once() {
    let mut node = at(State::Rtr).unwrap();
    let mut peer = Node::new(2, &config(), 0, 0);
    for _ in 0..3 {
        peer.post(SendOp::Write, vec![1; 4], 0);
    }
    for packet in peer.transmit_all(Instant(0)) {
        let _ = node.receive(Instant(0), &packet);
        node.settle();
    }
    assert_eq!(node.events, [Events::COMM_EST]);
    assert_eq!(
        node.transmit_all(Instant(0)).len(),
        1,
        "the responder works in RTR"
    );
}

/// IBTA 9.6.1.1, 10.9.3, IBTA annex A17.9.3: packets of another service or partition are dropped,
/// and a CNP changes nothing.
#[test]
fn foreign_services_and_partitions_are_dropped() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::Write, vec![1; 4], 0);
    let packet = pair.a.transmit_all(Instant(0)).remove(0);
    for (opcode, cause) in [
        (Opcode::UcWriteOnly, DropReason::Service),
        (Opcode::UdSendOnly, DropReason::Service),
        (Opcode::Cnp, DropReason::Cnp),
    ] {
        let mut other = packet.clone();
        other.header.bth.opcode = opcode;
        let verdict = pair.b.receive(Instant(0), &other);
        assert_eq!(verdict, Verdict::Dropped(cause));
    }
    let limited = Modify {
        pkey: Some(0x7fff),
        ..Modify::default()
    };
    pair.b.conn.modify(&limited).unwrap();
    for (pkey, good) in [(0xffff, true), (0x7fff, false), (0x8001, false), (0, false)] {
        let mut other = packet.clone();
        other.header.bth.pkey = PKey::new(pkey);
        let verdict = pair.b.receive(Instant(0), &other);
        assert_eq!(
            verdict != Verdict::Dropped(DropReason::PKey),
            good,
            "{pkey:#x}"
        );
    }
}

/// IBTA 10.3.1, 11.6.3.2: in SQD no request begins; an event says when those that had begun are
/// complete.
#[test]
fn draining_finishes_what_was_begun_and_nothing_else() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.a.post(SendOp::Write, pattern(256 * 3, 1), 1024);
    pair.a.post(SendOp::Write, pattern(4, 2), 8);
    // The first request is sent, and one packet of the second.
    let early: Vec<_> = (0..2)
        .map(|_| pair.a.transmit(pair.now).unwrap().1)
        .collect();
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    pair.a.settle();
    assert!(pair.a.events.is_empty() && pair.a.conn.is_draining());
    for packet in &early {
        let _ = pair.b.receive(pair.now, packet);
    }
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success; 2]);
    assert_eq!(pair.a.events, [Events::SQ_DRAINED]);
    assert!(!pair.a.conn.is_draining());
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    pair.run();
    assert_eq!(pair.a.events, [Events::SQ_DRAINED], "once");
    pair.a.conn.modify(&Modify::to_state(State::Rts)).unwrap();
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.a.host.completed.len(), 3);
}

#[test]
fn a_message_stopped_by_draining_gets_its_ack() {
    // The last packet did not ask for an ACK, as another message was expected to follow.
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.a.post(SendOp::Write, pattern(4, 1), 8);
    let (_, first) = pair.a.transmit(pair.now).unwrap();
    assert!(!first.header.bth.ack_req);
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    let _ = pair.b.receive(pair.now, &first);
    pair.exchange(|_, _, _| Fate::Deliver);
    assert_eq!(pair.a.statuses(), [Status::Success]);
    assert_eq!(pair.a.events, [Events::SQ_DRAINED]);
}

/// IBTA 11.6.3.2: the event for a drained send queue comes although nothing was outstanding.
#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut node = at(State::Rts).unwrap();
    node.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    node.settle();
    assert_eq!(node.events, [Events::SQ_DRAINED]);
}

#[test]
fn drained_also_survives_loss() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(1000, 0), 0);
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    let _ = pair.a.transmit(pair.now).unwrap();
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success]);
    assert_eq!(pair.a.events, [Events::SQ_DRAINED]);
}

/// IBTA 10.3.1, 11.6.2: in the error state each request is flushed, once and in order.
#[test]
fn flushing_is_in_order_and_each_once() {
    let mut pair = Pair::new();
    for i in 0..10 {
        pair.a
            .post_with(SendOp::Write, pattern(4, i), 0, RKEY, Flags::default());
    }
    // Four requests are acknowledged, but none of their completions was returned.
    for packet in pair.a.transmit_all(pair.now).iter().take(4) {
        let mut packet = packet.clone();
        packet.header.bth.ack_req = true;
        let _ = pair.b.receive(pair.now, &packet);
    }
    for packet in pair.b.transmit_all(pair.now) {
        let _ = pair.a.receive(pair.now, &packet);
    }
    pair.a.conn.to_error();
    pair.a.settle();
    let mut expect = vec![Status::Success; 4];
    expect.resize(10, Status::WrFlush);
    assert_eq!(pair.a.statuses(), expect);
    assert!(pair.a.host.completed[4..].iter().all(|c| c.signaled));
    pair.a.post(SendOp::Send, vec![], 0);
    pair.a.settle();
    pair.a.settle();
    assert_eq!(
        pair.a.host.completed.len(),
        11,
        "posted in the error state: flushed as well"
    );
}

#[test]
fn an_unfinished_receive_is_reported_once() {
    for reset in [false, true] {
        let mut pair = Pair::new();
        pair.b.host.recvs.push_back(Ok(1000));
        pair.a.post(SendOp::Send, pattern(1000, 0), 0);
        let (_, first) = pair.a.transmit(pair.now).unwrap();
        let _ = pair.b.receive(pair.now, &first);
        if reset {
            pair.b.conn.reset();
        } else {
            pair.b.conn.to_error();
        }
        assert!(pair.b.conn.abandon_recv());
        assert!(!pair.b.conn.abandon_recv());
    }
    let mut pair = Pair::new();
    pair.b.host.recvs.push_back(Ok(1000));
    pair.a.post(SendOp::Send, pattern(1000, 0), 0);
    pair.run();
    assert!(!pair.b.conn.abandon_recv());
}

/// IBTA 10.3.1: a reset clears the PSNs, the MSN and the requests of a QP.
#[test]
fn after_a_reset_it_begins_anew() {
    let mut pair = Pair::with(&config(), 10, 20);
    pair.a.post(SendOp::Write, pattern(600, 1), 0);
    let _ = pair.a.transmit_all(pair.now);
    let (a, b) = (
        Node::new(1, &config(), 77, 88),
        Node::new(2, &config(), 88, 77),
    );
    for (node, fresh) in [(&mut pair.a, a), (&mut pair.b, b)] {
        node.conn.reset();
        assert_eq!(
            node.conn.attr(),
            <Connection<Vec<Resource>>>::new(Vec::new()).attr()
        );
        node.host = fresh.host;
        let (sq, rq) = (
            fresh.conn.attr().sq_psn.get(),
            fresh.conn.attr().rq_psn.get(),
        );
        node.conn.modify(&Modify::to_state(State::Init)).unwrap();
        let rtr = Modify {
            state: Some(State::Rtr),
            rq_psn: Some(rq),
            ..config()
        };
        node.conn.modify(&rtr).unwrap();
        let rts = Modify {
            state: Some(State::Rts),
            sq_psn: Some(sq),
            ..Modify::default()
        };
        node.conn.modify(&rts).unwrap();
    }
    pair.a.post(SendOp::Write, pattern(600, 1), 0);
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.sent(Way::AtoB)[0].psn(), 77);
    assert_eq!(pair.sent(Way::BtoA)[0].header.ext.aeth().unwrap().msn, 1);
}

#[test]
fn kinds_are_requests_or_responses() {
    for opcode in super::super::wire::opcode::ALL {
        let kind = opcode.kind();
        let neither = kind == Kind::Cnp;
        assert!(
            kind.is_request() ^ kind.is_response() ^ neither,
            "{opcode:?}"
        );
    }
}
