// SPDX-License-Identifier: GPL-2.0

//! Requests that send nothing, among others. `loss` has them on a wire that loses packets.

use super::super::{ConnectedQp, Flags, Modify, SendOp, State, Status};
use super::pair::*;

fn local(node: &mut Node, flags: Flags) -> u32 {
    node.post_with(SendOp::Local, Vec::new(), 0, RKEY, flags)
}

const FENCED: Flags = Flags {
    signaled: true,
    solicited: false,
    fence: true,
};

#[test]
fn without_others() {
    let mut pair = Pair::new();
    for _ in 0..3 {
        local(&mut pair.a, signaled());
    }
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.a.host.locals_done, [0, 1, 2]);
    assert!(pair.log.is_empty(), "nothing is sent");
}

/// IBTA 9.7.2: only packets have PSNs.
#[test]
fn takes_no_psn() {
    let mut pair = Pair::new();
    pair.b.host.recvs.extend([Ok(100), Ok(100)]);
    local(&mut pair.a, signaled());
    pair.a.post(SendOp::Send, pattern(8, 1), 0);
    local(&mut pair.a, signaled());
    pair.a.post(SendOp::Send, pattern(8, 2), 0);
    pair.run();
    pair.assert_all_done();
    let sent = pair.sent(Way::AtoB);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].psn(), sent[0].psn() + 1);
}

/// IBTA 10.8.3.3: requests begin in the order of posting. Without a fence it is carried out before
/// the READ ahead of it completes, but completes after it.
#[test]
fn begins_in_order_and_completes_in_order() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    local(&mut pair.a, signaled());
    let sent = pair.a.transmit_all(pair.now);
    assert_eq!(sent.len(), 1);
    assert_eq!(pair.a.host.locals_done, [1]);
    pair.a.settle();
    assert!(pair.a.host.completed.is_empty());
    pair.run();
    pair.assert_all_done();
}

/// IBTA 10.8.3.3: a fenced request waits for the READs and atomics before it.
#[test]
fn fenced_waits_for_reads() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0);
    local(&mut pair.a, FENCED);
    let sent = pair.a.transmit_all(pair.now);
    assert_eq!(sent.len(), 2);
    assert!(pair.a.host.locals_done.is_empty());
    for packet in &sent {
        let _ = pair.b.receive(pair.now, packet);
    }
    let responses = pair.b.transmit_all(pair.now);
    let (last, reads) = responses.split_last().unwrap();
    for packet in reads {
        let _ = pair.a.receive(pair.now, packet);
        assert!(pair.a.transmit(pair.now).is_none());
    }
    assert!(pair.a.host.locals_done.is_empty(), "the atomic is open");
    let _ = pair.a.receive(pair.now, last);
    assert!(pair.a.transmit(pair.now).is_none());
    assert_eq!(pair.a.host.locals_done, [2]);
    pair.a.settle();
    pair.assert_all_done();
}

/// IBTA 10.8.3.3, F17: a fenced one waits for the ACKs of SENDs and WRITEs, which may have to be
/// sent again, by the key that it ends. Without a fence it does not wait.
#[test]
fn fenced_waits_for_acknowledgements() {
    for flags in [signaled(), FENCED] {
        let mut pair = Pair::new();
        pair.a.post(SendOp::Write, pattern(600, 1), 0);
        local(&mut pair.a, flags);
        local(&mut pair.a, signaled());
        let lost = pair.a.transmit_all(pair.now);
        assert_eq!(lost.len(), 3);
        let done: &[u32] = if flags.fence { &[] } else { &[1, 2] };
        assert_eq!(pair.a.host.locals_done, done);
        pair.run();
        pair.assert_all_done();
        assert_eq!(pair.a.host.locals_done, [1, 2]);
    }
}

/// One that fails completes in its turn, and the QP goes to the error state then (IBTA 10.3.1).
#[test]
fn failure_completes_in_order() {
    let mut pair = Pair::new();
    pair.b.host.recvs.extend([Ok(100), Ok(100)]);
    pair.a.host.deny_local = Some(Status::MwBind);
    pair.a.post(SendOp::Send, pattern(8, 1), 0);
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    local(&mut pair.a, signaled());
    pair.a.post(SendOp::Send, pattern(8, 2), 0);
    pair.run();
    let (ok, bad) = (Status::Success, Status::MwBind);
    assert_eq!(pair.a.statuses(), [ok, ok, bad, Status::WrFlush]);
    assert_eq!(pair.a.conn.state(), State::Err);
    assert_eq!(pair.b.host.received.len(), 1);
}

/// IBTA 10.3.1: a send queue that drains begins no request.
#[test]
fn waits_while_draining() {
    let mut pair = Pair::new();
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    local(&mut pair.a, signaled());
    pair.run();
    assert!(pair.a.host.locals_done.is_empty());
    pair.a.conn.modify(&Modify::to_state(State::Rts)).unwrap();
    pair.run();
    pair.assert_all_done();
}

/// The last packet before it asks for the acknowledgement, as no packet may follow.
#[test]
fn packet_before_asks_for_ack() {
    let mut pair = Pair::new();
    for _ in 0..3 {
        pair.b.host.recvs.push_back(Ok(100));
        pair.a.post(SendOp::Send, pattern(8, 1), 0);
    }
    local(&mut pair.a, FENCED);
    let start = pair.now;
    pair.exchange(|_, _, _| Fate::Deliver);
    pair.assert_all_done();
    assert_eq!(pair.now, start);
}

/// IBTA 10.6.5: what is left to be done when a READ is whole fails the READ alone.
#[test]
fn read_that_cannot_be_finished() {
    for len in [0, 100, 600] {
        let mut pair = Pair::new();
        pair.a.host.deny_finish = Some(Status::MwBind);
        pair.a.post(SendOp::Write, pattern(10, 1), 0);
        pair.a.post(SendOp::Read, vec![0; len], 0);
        local(&mut pair.a, FENCED);
        pair.run();
        let statuses = [Status::Success, Status::MwBind, Status::WrFlush];
        assert_eq!(pair.a.statuses(), statuses, "{len}");
        assert_eq!(pair.a.host.reads_done, [1], "{len}");
    }
}
