// SPDX-License-Identifier: GPL-2.0

//! The send queue of an unreliable connection: requests that fail, packets that are taken back,
//! states.

use super::super::wire::FethRepr;
use super::super::{
    ConnectedQp, Events, Flags, Instant, Modify, Request, SendOp, State, Status, UcQp, Verdict,
    MAX_MESSAGE,
};
use super::pair::{pattern, signaled, BASE, RKEY};
use super::uc::{ends, End};

/// IBTA 9.2, Table 38: UC has no READs, atomics, or SENDs with invalidate, and no ATOMIC WRITEs or
/// FLUSHes (IBTA annex A19.4). Such a request takes the
/// send queue to the SQE state (IBTA 10.3.1.6).
#[test]
fn other_operations_fail() {
    let feth = FethRepr::new(1, 0).expect("fits");
    let ops = [
        SendOp::Read,
        SendOp::SendInv(7),
        SendOp::FetchAdd { add: 1 },
        SendOp::CompareSwap {
            compare: 1,
            swap: 2,
        },
        SendOp::AtomicWrite,
        SendOp::Flush { feth, len: 8 },
    ];
    for op in ops {
        let (mut a, mut b) = ends(1);
        a.post(SendOp::Send, 10);
        a.post(op, 8);
        a.post(SendOp::Send, 10);
        assert_eq!(a.transmit_all().len(), 1);
        let want = [Status::Success, Status::LocQpOp, Status::WrFlush];
        assert_eq!(a.statuses(), want, "{op:?}");
        assert_eq!(a.qp.state(), State::Sqe);
        // The receive half works on, and the send half after it was set up again.
        let packet = b.send(5);
        a.host.recvs.push_back(Ok(10));
        assert_eq!(a.receive(&packet[0]), Verdict::Accepted);
        a.become_state(State::Rts);
        assert_eq!(a.send(20).len(), 1);
    }
}

/// IBTA 9.7.2: a message is no longer than 2^31 bytes.
#[test]
fn a_message_that_is_too_long_fails() {
    let (mut a, _) = ends(0);
    let request = Request::new(SendOp::Send, MAX_MESSAGE + 1, BASE, RKEY, signaled());
    a.post_request(request, Vec::new());
    assert_eq!(a.poll(1), None);
    assert_eq!(a.statuses(), [Status::LocLen]);
}

/// Packets that were not sent are returned again, also the rest of several segments.
#[test]
fn packets_that_were_not_sent_come_again() {
    let (mut a, _) = ends(0);
    a.post(SendOp::Send, 256 * 5);
    let first = a.poll(9).unwrap();
    a.qp.undo(&first, &mut a.host);
    assert_eq!(a.poll(9), Some(first));
    let middle = a.poll(9).unwrap();
    let rest = middle.rest(1).unwrap();
    a.qp.undo(&rest, &mut a.host);
    assert_eq!(a.poll(9), Some(rest));
    let last = a.poll(9).unwrap();
    assert!(a.poll(9).is_none());
    a.qp.undo(&last, &mut a.host);
    assert!(a.statuses().is_empty());
    assert_eq!(a.poll(9), Some(last));
    assert_eq!(a.statuses(), [Status::Success]);
}

/// IBTA 10.3.1.6: a payload that cannot be read ends the send queue; the peer drops the message.
#[test]
fn a_payload_that_cannot_be_read_fails() {
    let (mut a, mut b) = ends(2);
    a.post(SendOp::Send, 600);
    a.post(SendOp::Send, 6);
    let packet = a.transmit().unwrap();
    assert_eq!(b.receive(&packet), Verdict::Accepted);
    let second = a.poll(1).unwrap();
    a.qp.local_error(&second, Status::LocProt, &mut a.host);
    assert_eq!(a.poll(1), None);
    assert_eq!(a.statuses(), [Status::LocProt, Status::WrFlush]);
    a.become_state(State::Rts);
    assert_eq!(b.receive_all(&a.send(300)), [Verdict::Accepted; 2]);
    assert_eq!(b.received(), [pattern(300, 2)]);
}

/// IBTA 10.3.1, 10.3.1.6: a message that fails or is flushed completes when the payload of the
/// packets that were returned for it is copied.
#[test]
fn a_message_that_was_begun_is_not_complete_before_its_payload_is_copied() {
    for (state, status) in [
        (State::Rts, Status::LocProt),
        (State::Sqd, Status::LocProt),
        (State::Err, Status::WrFlush),
    ] {
        let (mut a, _) = ends(0);
        a.post(SendOp::Send, 600);
        let begun = a.poll(1);
        assert!(begun.is_some());
        if state != State::Err {
            let second = a.poll(1).unwrap();
            a.qp.local_error(&second, Status::LocProt, &mut a.host);
        }
        if state != State::Rts {
            a.become_state(state);
        }
        assert_eq!(a.qp.poll_send_completion(&mut a.host), None, "{state:?}");
        assert!(!a.qp.take_events().contains(Events::SQ_DRAINED));
        assert!(a.qp.release());
        assert!(!a.qp.release());
        assert_eq!(a.statuses(), [status], "{state:?}");
        let drained = a.qp.take_events().contains(Events::SQ_DRAINED);
        assert_eq!(drained, state == State::Sqd);
    }
}

/// Without a route a message is lost, and complete.
#[test]
fn without_a_route_messages_are_lost() {
    for at in 0..3 {
        let (mut a, mut b) = ends(1);
        a.post(SendOp::Send, 600);
        for _ in 0..at {
            let _ = b.receive(&a.transmit().unwrap());
        }
        let lost = a.poll(1).unwrap();
        assert!(a.qp.lose(&lost, &a.host));
        assert_eq!(a.statuses(), [Status::Success]);
        assert!(b
            .receive_all(&a.send(300))
            .iter()
            .all(|v| *v == Verdict::Accepted));
        assert_eq!(b.received(), [pattern(300, 1)]);
    }
}

/// A request that sends nothing waits until no payload is to be read any more.
#[test]
fn a_local_request_waits_for_the_payloads_before_it() {
    let (mut a, _) = ends(0);
    a.post(SendOp::Send, 600);
    a.post(SendOp::Local, 0);
    a.post(SendOp::Send, 1);
    assert_eq!(a.transmit_all().len(), 3);
    assert_eq!(a.qp.poll_local(&a.host), None);
    assert_eq!(a.statuses(), [Status::Success]);
    assert_eq!(a.qp.poll_local(&a.host), Some(1));
    a.qp.finish_local(Ok(()), &mut a.host);
    assert_eq!(a.qp.poll_local(&a.host), None);
    assert_eq!(a.transmit_all().len(), 1);
    assert_eq!(a.statuses(), [Status::Success; 2]);
    a.post(SendOp::Local, 0);
    assert_eq!(a.qp.poll_local(&a.host), Some(3));
    a.qp.finish_local(Err(Status::MwBind), &mut a.host);
    assert_eq!(a.qp.poll_local(&a.host), None);
    assert_eq!(a.statuses(), [Status::MwBind]);
    assert_eq!(a.qp.state(), State::Sqe);
}

/// IBTA 10.3.1.5: in SQD the message that was begun is finished, and no other begins.
#[test]
fn a_send_queue_is_drained_at_the_end_of_a_message() {
    let (mut a, _) = ends(0);
    a.post(SendOp::Send, 600);
    a.post(SendOp::Send, 1);
    a.transmit().unwrap();
    a.become_state(State::Sqd);
    assert!(a.qp.is_draining());
    assert!(!a.qp.take_events().contains(Events::SQ_DRAINED));
    assert_eq!(a.transmit_all().len(), 2);
    assert_eq!(a.statuses(), [Status::Success]);
    assert!(!a.qp.is_draining());
    assert!(a.qp.take_events().contains(Events::SQ_DRAINED));
    a.become_state(State::Rts);
    assert_eq!(a.transmit_all().len(), 1);
    a.statuses();
    a.become_state(State::Sqd);
    assert!(a.qp.take_events().contains(Events::SQ_DRAINED));
}

/// IBTA 10.3.1: only RTS begins messages; the error state flushes, a reset forgets.
#[test]
fn states_of_the_send_queue() {
    let (mut a, _) = ends(0);
    a.post(SendOp::Send, 600);
    a.transmit().unwrap();
    a.become_state(State::Err);
    assert!(a.transmit().is_none());
    assert_eq!(a.statuses(), [Status::WrFlush]);
    a.become_state(State::Reset);
    assert_eq!(a.qp.attr(), UcQp::new().attr());
    for state in [State::Init, State::Rtr] {
        a.become_state(state);
        assert!(a.transmit().is_none());
    }
    assert!(a.qp.modify(&Modify::to_state(State::Sqd)).is_err());
    assert_eq!(a.qp.state(), State::Rtr);
}

/// Small unsignaled messages are corked once they follow each other closely, and sent together:
/// when there are enough, when a signaled one comes, or in time.
#[test]
fn small_messages_are_coalesced() {
    let (mut a, _) = ends(0);
    let mut now = Instant(1_000_000);
    let mut post = |a: &mut End, flags: Flags| {
        let request = Request::new(SendOp::Send, 64, BASE, RKEY, flags);
        a.post_request(request, pattern(64, 0));
        now.0 += 1_000;
        let mut sent = 0;
        while a.qp.poll_transmit(now, 1, &mut a.host).is_some() {
            sent += 1;
        }
        (now, sent)
    };
    let alone = Flags::default();
    for _ in 0..8 {
        assert_eq!(post(&mut a, alone).1, 1);
        assert_eq!(a.qp.poll_timeout(), None);
    }
    for _ in 0..31 {
        assert_eq!(post(&mut a, alone).1, 0);
        assert!(a.qp.poll_timeout().is_some());
    }
    assert_eq!(post(&mut a, alone).1, 32);
    assert_eq!(a.qp.poll_timeout(), None);
    assert_eq!(post(&mut a, alone).1, 0);
    assert_eq!(post(&mut a, signaled()).1, 2);
    let (now, sent) = post(&mut a, alone);
    assert_eq!(sent, 0);
    let due = a.qp.poll_timeout().unwrap();
    assert!(due > now && due < now.after(1_000_000));
    a.qp.handle_timeout(now, &a.host);
    assert!(a.qp.poll_transmit(now, 1, &mut a.host).is_none());
    // The timer stops, also while no packet can be sent.
    a.qp.handle_timeout(due, &a.host);
    assert_eq!(a.qp.poll_timeout(), None);
    assert!(a.qp.may_transmit(&a.host));
    assert!(a.qp.poll_transmit(due, 1, &mut a.host).is_some());
    // It was in vain: the next streak has to be longer. The owner uncorks before a reset, and the
    // error state waits for nothing.
    for _ in 0..16 {
        assert_eq!(post(&mut a, alone).1, 1);
    }
    let (now, sent) = post(&mut a, alone);
    assert_eq!(sent, 0);
    a.qp.flush_delayed();
    assert!(a.qp.poll_transmit(now, 1, &mut a.host).is_some());
    for _ in 0..17 {
        post(&mut a, alone);
    }
    assert!(a.qp.poll_timeout().is_some());
    a.become_state(State::Err);
    assert_eq!(a.qp.poll_timeout(), None);
}
