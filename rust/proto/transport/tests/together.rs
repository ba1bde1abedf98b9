// SPDX-License-Identifier: GPL-2.0

//! Small requests that wait for others.

use super::super::burst::{MOMENT, TOGETHER};
use super::super::{Flags, Modify, SendOp, State, Status};
use super::pair::*;

/// Posts a request of `len` bytes as a program does that wants no completion; how many packets go out.
fn post(pair: &mut Pair, len: usize) -> usize {
    pair.a
        .post_with(SendOp::Write, pattern(len, 1), 0, RKEY, Flags::default());
    pair.a.transmit_all(pair.now).len()
}

/// A pair whose first node has posted often enough, each time with a microsecond between.
fn busy() -> Pair {
    let mut pair = Pair::with(
        &Modify {
            timeout: Some(14),
            ..config()
        },
        10,
        20,
    );
    for _ in 0..8 {
        assert_eq!(post(&mut pair, 8), 1);
        pair.now = pair.now.after(1_000);
    }
    pair
}

#[test]
fn the_first_ones_do_not_wait() {
    busy();
}

#[test]
fn they_go_together() {
    let mut pair = busy();
    for _ in 1..TOGETHER {
        assert_eq!(post(&mut pair, 8), 0);
    }
    assert_eq!(post(&mut pair, 8), TOGETHER as usize);
    // And so on.
    assert_eq!(post(&mut pair, 8), 0);
    assert_eq!(pair.a.conn.poll_timeout(), Some(pair.now.after(MOMENT)));
}

#[test]
fn they_wait_for_a_moment_only() {
    let mut pair = busy();
    let end = pair.now.after(MOMENT);
    assert_eq!(post(&mut pair, 8), 0);
    pair.now = pair.now.after(1_000);
    assert_eq!(post(&mut pair, 8), 0);
    assert_eq!(pair.a.conn.poll_timeout(), Some(end));
    pair.now = end;
    pair.a.conn.handle_timeout(end, &mut pair.a.host);
    assert_eq!(pair.a.transmit_all(end).len(), 2);
}

#[test]
fn one_that_is_waited_for_takes_them_along() {
    for flags in [
        signaled(),
        Flags {
            fence: true,
            ..Flags::default()
        },
        Flags {
            solicited: true,
            ..Flags::default()
        },
    ] {
        let mut pair = busy();
        assert_eq!(post(&mut pair, 8), 0);
        pair.a
            .post_with(SendOp::Write, pattern(8, 1), 0, RKEY, flags);
        assert_eq!(pair.a.transmit_all(pair.now).len(), 2);
    }
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.a
        .post_with(SendOp::Read, pattern(8, 1), 0, RKEY, Flags::default());
    assert_eq!(pair.a.transmit_all(pair.now).len(), 2);
    assert_eq!(post(&mut pair, 8), 0);
    assert_eq!(post(&mut pair, 2000), 9);
}

#[test]
fn a_pause_ends_it() {
    let mut pair = busy();
    pair.now = pair.now.after(1_000_000);
    assert_eq!(post(&mut pair, 8), 1);
    assert_eq!(post(&mut pair, 8), 1);
}

/// Posts `count` requests, the last of them signaled, with a microsecond between; then a pause. How many packets went
/// out with each.
fn burst(pair: &mut Pair, count: u32) -> Vec<usize> {
    let sent = (1..=count)
        .map(|i| {
            pair.now = pair.now.after(1_000);
            let flags = if i == count {
                signaled()
            } else {
                Flags::default()
            };
            pair.a
                .post_with(SendOp::Write, pattern(8, 1), 0, RKEY, flags);
            pair.a.transmit_all(pair.now).len()
        })
        .collect();
    pair.now = pair.now.after(1_000_000);
    sent
}

#[test]
fn bursts_with_pauses_between_are_learned() {
    // Nobody acknowledges anything here.
    let mut pair = Pair::with(
        &Modify {
            timeout: Some(0),
            ..config()
        },
        10,
        20,
    );
    for _ in 0..2 {
        assert_eq!(burst(&mut pair, 12), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 4]);
    }
    for _ in 0..3 {
        assert_eq!(burst(&mut pair, 12), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12]);
    }
    // One that nothing follows waits, and is the last to do so.
    assert_eq!(post(&mut pair, 8), 0);
    pair.now = pair.now.after(MOMENT);
    pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
    assert_eq!(pair.a.transmit_all(pair.now).len(), 1);
    pair.now = pair.now.after(1_000_000);
    for _ in 0..8 {
        assert_eq!(post(&mut pair, 8), 1);
    }
}

#[test]
fn a_few_posts_are_no_burst() {
    let mut pair = Pair::with(&config(), 10, 20);
    for _ in 0..10 {
        assert_eq!(burst(&mut pair, 7), [1; 7]);
    }
}

#[test]
fn a_message_of_the_peer_ends_it() {
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.b.post(SendOp::Write, pattern(8, 2), 0);
    let packet = pair.b.transmit_all(pair.now);
    let _ = pair.a.receive(pair.now, &packet[0]);
    assert_eq!(pair.a.transmit_all(pair.now).len(), 2);
    assert_eq!(post(&mut pair, 8), 1);
}

#[test]
fn several_posted_at_once_do_not_wait() {
    let mut pair = busy();
    for _ in 0..2 {
        pair.a
            .post_with(SendOp::Write, pattern(8, 1), 0, RKEY, Flags::default());
    }
    assert_eq!(pair.a.transmit_all(pair.now).len(), 2);
}

#[test]
fn none_is_left_behind() {
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.a.conn.hurry();
    assert_eq!(pair.a.transmit_all(pair.now).len(), 1);
    // The error state flushes what waits.
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.a
        .conn
        .modify(&Modify::to_state(State::Err))
        .expect("any state may become ERR");
    pair.a.settle();
    assert_eq!(pair.a.statuses().last(), Some(&Status::WrFlush));
    assert_eq!(pair.a.statuses().len(), 9);
    // A drained send queue takes it along when it goes on.
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    for state in [State::Sqd, State::Rts] {
        pair.a
            .conn
            .modify(&Modify::to_state(state))
            .expect("RTS to SQD and back");
    }
    pair.now = pair.now.after(MOMENT);
    assert_eq!(pair.a.transmit_all(pair.now).len(), 1);
}

#[test]
fn no_timer_runs_for_one_that_may_not_go() {
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.a
        .conn
        .modify(&Modify::to_state(State::Sqd))
        .expect("RTS to SQD");
    assert_eq!(pair.a.transmit_all(pair.now).len(), 0);
    // But for that of the requests that went before.
    assert!(pair.a.conn.poll_timeout() > Some(pair.now.after(MOMENT)));
}
