// SPDX-License-Identifier: GPL-2.0

//! Requests that are refused, on either side, and the effect on the requests around them.

use super::super::wire::{NakCode, Syndrome};
use super::super::{
    AccessError, ConnectedQp, DropReason, Events, Flags, Modify, RemoteAccess, Request, SendOp,
    State, Status, Verdict,
};
use super::pair::*;

fn nak(code: NakCode) -> Syndrome {
    Syndrome::Nak { code }
}

/// Runs a READ and a WRITE, then `op`, then one more WRITE. Checks that `op` fails as `code` says,
/// that the requests before it succeed, and that the one after it is flushed.
fn check_refused(
    what: &str,
    op: SendOp,
    len: usize,
    at: u64,
    rkey: u32,
    prepare: impl FnOnce(&mut Pair),
    code: NakCode,
) -> Pair {
    let status = match code {
        NakCode::RemoteAccess => Status::RemAccess,
        NakCode::RemoteOperational => Status::RemOp,
        _ => Status::RemInvReq,
    };
    let mut pair = Pair::new();
    prepare(&mut pair);
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a.post(SendOp::Write, pattern(300, 5), 0);
    pair.a
        .post_with(op, vec![0; len], at, rkey, Flags::default());
    pair.a.post(SendOp::Write, pattern(8, 6), 9000);
    let before = pair.b.host.memory.clone();
    pair.run();
    let expect = [Status::Success, Status::Success, status, Status::WrFlush];
    assert_eq!(pair.a.statuses(), expect, "{what}");
    assert!(
        pair.a.host.completed[2].signaled,
        "{what}: errors are always reported"
    );
    assert_eq!(pair.a.host.local[0].len(), 600);
    let last = pair.sent(Way::BtoA).last().unwrap().syndrome();
    assert_eq!(last, Some(nak(code)), "{what}");
    assert_eq!(pair.b.host.memory[9000..], before[9000..], "{what}");
    for node in [&pair.a, &pair.b] {
        assert_eq!(node.conn.state(), State::Err, "{what}");
        assert!(node.saw(Events::ENTERED_ERROR), "{what}");
    }
    pair
}

/// IBTA 9.7.4.1.5, 9.9.2: a wrong key or range is a remote access error of that request, and those
/// after it are flushed.
#[test]
fn bad_keys_and_ranges_are_remote_access_errors() {
    let code = NakCode::RemoteAccess;
    let top = MEMORY as u64;
    for (op, len) in [
        (SendOp::Write, 300),
        (SendOp::Read, 300),
        (SendOp::FetchAdd { add: 1 }, 8),
        (
            SendOp::CompareSwap {
                compare: 0,
                swap: 1,
            },
            8,
        ),
    ] {
        let key = check_refused("key", op, len, 0, RKEY + 1, |_| {}, code);
        assert!(key.b.saw(Events::ACCESS_ERR));
        check_refused("range", op, len, top, RKEY, |_| {}, code);
        check_refused(
            "wrap",
            op,
            len,
            0u64.wrapping_sub(BASE).wrapping_sub(8),
            RKEY,
            |_| {},
            code,
        );
    }
}

/// IBTA 9.7.5.2: a responder that fails for its own reasons sends a NAK, remote operational error.
#[test]
fn a_write_that_loses_its_memory_on_the_way_is_refused() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(900, 5), 0);
    let packets = pair.a.transmit_all(pair.now);
    let _ = pair.b.receive(pair.now, &packets[0]);
    pair.b.host.deny = Some(AccessError::Op);
    let _ = pair.b.receive(pair.now, &packets[1]);
    let replies = pair.b.transmit_all(pair.now);
    assert_eq!(replies[0].syndrome(), Some(nak(NakCode::RemoteOperational)));
    pair.b.settle();
    assert!(pair.b.saw(Events::FATAL));
}

/// IBTA 9.7.4.1: an operation that the QP does not allow is an invalid request.
#[test]
fn operations_that_are_not_enabled_are_invalid_requests() {
    for (op, len, access) in [
        (
            SendOp::Write,
            300,
            RemoteAccess {
                write: false,
                ..RemoteAccess::ALL
            },
        ),
        (
            SendOp::Write,
            0,
            RemoteAccess {
                write: false,
                ..RemoteAccess::ALL
            },
        ),
        (
            SendOp::WriteImm([0; 4]),
            0,
            RemoteAccess {
                write: false,
                ..RemoteAccess::ALL
            },
        ),
        (
            SendOp::Read,
            300,
            RemoteAccess {
                read: false,
                ..RemoteAccess::ALL
            },
        ),
        (
            SendOp::FetchAdd { add: 1 },
            8,
            RemoteAccess {
                atomic: false,
                ..RemoteAccess::ALL
            },
        ),
    ] {
        let mut pair = Pair::new();
        pair.b
            .conn
            .modify(&Modify {
                access: Some(access),
                ..Modify::default()
            })
            .unwrap();
        pair.a.post(op, vec![0; len], 0);
        pair.run();
        assert_eq!(pair.a.statuses(), [Status::RemInvReq], "{op:?}");
        assert!(pair.b.saw(Events::REQ_ERR));
    }
}

/// IBTA 9.4.5: the address of an atomic is a multiple of eight.
#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    for at in 1..8 {
        let op = SendOp::FetchAdd { add: 1 };
        let code = NakCode::InvalidRequest;
        let pair = check_refused("alignment", op, 8, at, RKEY, |_| {}, code);
        assert_eq!(pair.b.host.atomics_done, 0);
    }
}

/// IBTA 9.9.3: a SEND that exceeds its receive is an invalid request.
#[test]
fn a_message_too_long_for_its_receive() {
    for size in [0, 255, 299] {
        let pair = check_refused(
            "length",
            SendOp::Send,
            300,
            0,
            0,
            |pair| pair.b.host.recvs.push_back(Ok(size)),
            NakCode::InvalidRequest,
        );
        assert_eq!(pair.b.host.received[0].completion.status, Status::LocLen);
        assert!(!pair.b.saw(Events::REQ_ERR), "the completion tells it");
    }
}

/// IBTA 9.7.5.2: an invalid receive makes the responder send a NAK, remote operational error.
#[test]
fn a_receive_that_cannot_be_used() {
    let code = NakCode::RemoteOperational;
    let garbage = |pair: &mut Pair| pair.b.host.recvs.push_back(Err(Status::LocQpOp));
    let pair = check_refused("garbage", SendOp::Send, 300, 0, 0, garbage, code);
    assert_eq!(pair.b.host.received[0].completion.status, Status::LocQpOp);

    let no_memory = |pair: &mut Pair| {
        pair.b.host.recvs.push_back(Ok(4000));
        pair.b.host.deny_recv = Some(Status::LocProt);
    };
    let pair = check_refused("memory", SendOp::Send, 300, 0, 0, no_memory, code);
    assert_eq!(pair.b.host.received[0].completion.status, Status::LocProt);

    let garbage = |pair: &mut Pair| pair.b.host.recvs.push_back(Err(Status::LocQpOp));
    let op = SendOp::WriteImm([0; 4]);
    let pair = check_refused("write", op, 300, 0, RKEY, garbage, code);
    assert!(pair.b.host.received[0].completion.write_imm);
}

/// IBTA 11.6.2: local access error, of the receive that a WRITE with immediate takes. One of
/// several packets is refused before any of them tells of the immediate.
#[test]
fn a_write_with_immediate_is_refused_and_takes_its_receive() {
    let op = SendOp::WriteImm([0; 4]);
    let code = NakCode::RemoteAccess;
    let recv = |pair: &mut Pair| pair.b.host.recvs.push_back(Ok(4000));
    let pair = check_refused("only", op, 100, 0, RKEY + 1, recv, code);
    let done = pair.b.host.received[0].completion;
    assert_eq!((done.status, done.write_imm), (Status::LocAccess, true));

    let garbage = |pair: &mut Pair| pair.b.host.recvs.push_back(Err(Status::LocQpOp));
    let pair = check_refused("garbage", op, 100, 0, RKEY + 1, garbage, code);
    assert_eq!(pair.b.host.received[0].completion.status, Status::LocAccess);

    let pair = check_refused("no receive", op, 100, 0, RKEY + 1, |_| {}, code);
    assert!(pair.b.host.received.is_empty());

    let pair = check_refused("first", op, 300, 0, RKEY + 1, recv, code);
    assert!(pair.b.host.received.is_empty());
}

#[test]
fn a_key_that_cannot_be_invalidated() {
    let op = SendOp::SendInv(TEMP_KEY + 1);
    let recv = |pair: &mut Pair| pair.b.host.recvs.push_back(Ok(4000));
    let code = NakCode::RemoteAccess;
    let pair = check_refused("inv", op, 300, 0, 0, recv, code);
    assert_eq!(pair.b.host.received[0].completion.status, Status::RemInvReq);
}

/// IBTA 9.9.3: a responder that cannot read the payload of a response refuses the READ.
#[test]
fn reading_back_fails_halfway() {
    // The memory is deregistered after the READ was accepted: the response turns into a NAK.
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 1000], 0);
    pair.a.post(SendOp::Send, vec![], 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    let (_, first) = pair.b.transmit(pair.now).unwrap();
    pair.b.host.deny = Some(AccessError::Access);
    let (_, second) = pair.b.transmit(pair.now).unwrap();
    assert_eq!(
        (second.psn(), second.syndrome()),
        (first.psn() + 1, Some(nak(NakCode::RemoteAccess)))
    );
    assert!(pair.b.transmit(pair.now).is_none());
    pair.b.settle();
    assert!(pair.b.saw(Events::ACCESS_ERR));
    for packet in [first, second] {
        let _ = pair.a.receive(pair.now, &packet);
    }
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::RemAccess, Status::WrFlush]);
}

/// IBTA 11.6.2: a response that finds no local memory is a local protection error.
#[test]
fn placing_a_response_fails() {
    for (op, len) in [(SendOp::Read, 1000), (SendOp::FetchAdd { add: 1 }, 8)] {
        let mut pair = Pair::new();
        pair.a.host.deny_place = Some(Status::LocProt);
        pair.a.post(SendOp::Write, vec![0; 4], 0);
        pair.a.post(op, vec![0; len], 0);
        pair.a.post(SendOp::Write, vec![0; 4], 0);
        pair.run();
        let expect = [Status::Success, Status::LocProt, Status::WrFlush];
        assert_eq!(pair.a.statuses(), expect);
        assert!(pair.a.saw(Events::ENTERED_ERROR));
    }
}

#[test]
fn a_response_that_finds_no_place_was_no_bad_one() {
    for (op, len) in [(SendOp::Read, 100), (SendOp::FetchAdd { add: 1 }, 8)] {
        let mut pair = Pair::new();
        pair.a.host.deny_place = Some(Status::LocProt);
        pair.a.post(op, vec![0; len], 0);
        let request = pair.a.transmit(pair.now).unwrap().1;
        let _ = pair.b.receive(pair.now, &request);
        let response = pair.b.transmit(pair.now).unwrap().1;
        let verdict = pair.a.receive(pair.now, &response);
        assert_eq!(verdict, Verdict::Dropped(DropReason::Unplaceable));
    }
}

/// IBTA 10.3.1, 11.6.2: a request that fails takes the QP to the error state; those before it
/// succeed, and those after it are flushed.
#[test]
fn a_broken_request_waits_for_its_turn() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(600, 0), 0);
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a
        .post_request(Request::with_local_error(Status::LocQpOp), vec![]);
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.run();
    let expect = [
        Status::Success,
        Status::Success,
        Status::LocQpOp,
        Status::WrFlush,
    ];
    assert_eq!(pair.a.statuses(), expect);
    assert_eq!(pair.a.conn.state(), State::Err);
    assert_eq!(pair.now.0, 0, "no timeout was needed");
}

#[test]
fn a_broken_request_alone() {
    let mut pair = Pair::new();
    pair.a
        .post_request(Request::with_local_error(Status::LocProt), vec![]);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::LocProt]);
}

/// IBTA 9.7.2: a message has 2^31 bytes at most.
#[test]
fn requests_that_can_never_be_sent() {
    let none = Modify {
        max_rd_atomic: Some(0),
        ..config()
    };
    let mut pair = Pair::with(&none, 0, 0);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::LocQpOp]);

    let mut pair = Pair::new();
    let long = Request::new(SendOp::Send, (1 << 31) + 1, 0, 0, Flags::default());
    pair.a.post_request(long, vec![]);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::LocLen]);
}

#[test]
fn a_payload_that_cannot_be_read() {
    // The request before it did not ask for an ACK, as another was expected to follow.
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.a.post(SendOp::Write, pattern(600, 0), 100);
    let (_, first) = pair.a.transmit(pair.now).unwrap();
    assert!(!first.header.bth.ack_req);
    let t = pair
        .a
        .conn
        .poll_transmit(pair.now, 1, &mut pair.a.host)
        .unwrap();
    pair.a
        .conn
        .local_error(&t, Status::LocProt, &mut pair.a.host);
    pair.a.settle();
    assert!(
        pair.a.statuses().is_empty(),
        "the one before it comes first"
    );
    let _ = pair.b.receive(pair.now, &first);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success, Status::LocProt]);
    assert_eq!(pair.now.0, 0, "no timeout was needed");
}

/// The packet before the first one that cannot be read is sent again to ask for an acknowledgement,
/// and cannot be read any more, either: the request before that one asks.
#[test]
fn a_payload_that_disappears_is_asked_about_by_the_request_before() {
    let no_timeout = Modify {
        timeout: Some(0),
        ..config()
    };
    let mut pair = Pair::with(&no_timeout, 0, 0);
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.a.post(SendOp::Write, pattern(1000, 0), 100);
    let (_, first) = pair.a.transmit(pair.now).unwrap();
    let (_, second) = pair.a.transmit(pair.now).unwrap();
    assert!(!first.header.bth.ack_req && !second.header.bth.ack_req);
    for expected in [2, 1] {
        let a = &mut pair.a;
        let t = a.conn.poll_transmit(pair.now, 1, &mut a.host).unwrap();
        assert_eq!(t.header.bth.psn, psn(expected));
        a.conn.local_error(&t, Status::LocProt, &mut a.host);
    }
    for packet in [first, second] {
        let _ = pair.b.receive(pair.now, &packet);
    }
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success, Status::LocProt]);
}

/// IBTA 9.7.5.1: a NAK follows the responses to the requests before its own.
#[test]
fn a_fatal_nak_comes_after_the_answers_before_it() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a
        .post_with(SendOp::Write, pattern(4, 0), 0, RKEY + 1, signaled());
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    assert_eq!(pair.b.conn.state(), State::Err);
    // The peer gets the NAK even if the program tears the QP down at once.
    pair.b.conn.to_error();
    let replies = pair.b.transmit_all(pair.now);
    assert_eq!(replies.len(), 4);
    assert_eq!(replies[3].syndrome(), Some(nak(NakCode::RemoteAccess)));
    for packet in replies {
        let _ = pair.a.receive(pair.now, &packet);
    }
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::Success, Status::RemAccess]);
}

/// IBTA 9.9.3: a responder that cannot read the payload of a response refuses the READ.
#[test]
fn the_last_or_only_packet_of_an_answer_cannot_be_read() {
    for (len, before) in [(4, 0), (256, 0), (600, 2)] {
        let mut pair = Pair::new();
        pair.a.post(SendOp::Read, vec![0; len], 0);
        for packet in pair.a.transmit_all(pair.now) {
            let _ = pair.b.receive(pair.now, &packet);
        }
        for _ in 0..before {
            let (_, packet) = pair.b.transmit(pair.now).unwrap();
            let _ = pair.a.receive(pair.now, &packet);
        }
        pair.b.host.deny = Some(AccessError::Access);
        let (_, last) = pair.b.transmit(pair.now).unwrap();
        assert_eq!(last.syndrome(), Some(nak(NakCode::RemoteAccess)), "{len}");
        let _ = pair.a.receive(pair.now, &last);
        pair.a.settle();
        assert_eq!(pair.a.statuses(), [Status::RemAccess]);
    }
}

/// IBTA 9.7.5.1, 9.9.3: the NAK for a READ whose payload cannot be read takes the place of one that
/// is due for a later request, as that would acknowledge the READ.
#[test]
fn an_answer_that_cannot_be_read_before_a_fatal_nak() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    pair.a
        .post_with(SendOp::Write, pattern(4, 0), 0, RKEY + 1, signaled());
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    assert_eq!(pair.b.conn.state(), State::Err);
    pair.b.host.deny = Some(AccessError::Access);
    let replies = pair.b.transmit_all(pair.now);
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].syndrome(), Some(nak(NakCode::RemoteAccess)));
    let _ = pair.a.receive(pair.now, &replies[0]);
    pair.a.settle();
    assert_eq!(pair.a.statuses(), [Status::RemAccess, Status::WrFlush]);
}
