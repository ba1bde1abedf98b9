// SPDX-License-Identifier: GPL-2.0

//! Autocork: small requests that wait for others, to share a super-packet.

use super::super::common::autocork::{MAX_COALESCED, MAX_DELAY_NS};
use super::super::{ConnectedQp, Flags, Modify, SendOp, State, Status, Streaks};
use super::pair::*;

/// Posts an unsignaled request of `len` bytes. Returns how many packets are sent.
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

/// A pair whose first node has no ACK timeout.
fn unhurried() -> Pair {
    let config = Modify {
        timeout: Some(0),
        ..config()
    };
    Pair::with(&config, 10, 20)
}

#[test]
fn the_owner_need_not_poll_while_they_wait() {
    let mut pair = busy();
    assert!(!pair.a.conn.is_corked(pair.now, &pair.a.host));
    for flags in [Flags::default(), signaled()] {
        pair.a
            .post_with(SendOp::Write, pattern(8, 1), 0, RKEY, flags);
        let corked = pair.a.conn.is_corked(pair.now, &pair.a.host);
        assert_eq!(corked, flags == Flags::default());
        assert_eq!(corked, pair.a.transmit_all(pair.now).is_empty());
    }
}

#[test]
fn the_first_ones_do_not_wait() {
    busy();
}

#[test]
fn they_go_together() {
    let mut pair = unhurried();
    assert_eq!(posts(&mut pair, 8, 1_000), [0; 8]);
    for _ in 1..MAX_COALESCED {
        assert_eq!(post(&mut pair, 8), 0);
    }
    assert_eq!(post(&mut pair, 8), MAX_COALESCED as usize);
    // The next one waits again.
    assert_eq!(post(&mut pair, 8), 0);
    assert!(pair.a.conn.poll_timeout() <= Some(pair.now.after(MAX_DELAY_NS)));
}

#[test]
fn they_wait_for_as_long_as_more_usually_take() {
    let mut pair = busy();
    let usual = u64::from(MAX_COALESCED) * 1_000;
    for _ in 0..3 {
        assert_eq!(post(&mut pair, 8), 0);
        let due = pair.a.conn.poll_timeout();
        assert!(due <= Some(pair.now.after(usual)));
        assert!(due > Some(pair.now.after(usual / 2)));
        pair.now = pair.now.after(1_000);
    }
    pair.now = pair.now.after(usual);
    pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
    assert_eq!(pair.a.transmit_all(pair.now).len(), 3);
}

#[test]
fn the_timer_stops_also_while_no_packet_can_be_sent() {
    let mut pair = unhurried();
    assert_eq!(posts(&mut pair, 8, 1_000), [0; 8]);
    assert_eq!(post(&mut pair, 8), 0);
    let due = pair.a.conn.poll_timeout().expect("corked requests");
    pair.a.conn.handle_timeout(due, &mut pair.a.host);
    assert_eq!(pair.a.conn.poll_timeout(), None);
    assert!(pair.a.conn.may_transmit(&pair.a.host));
    pair.now = due;
    assert_eq!(pass(&mut pair), 1);
    // It was in vain: the next streak has to be longer.
    assert_eq!(posts(&mut pair, 16, 1_000), [0; 16]);
}

/// Passes the due packets to the second node, which acknowledges them. Returns how many there were.
fn pass(pair: &mut Pair) -> usize {
    let packets = pair.a.transmit_all(pair.now);
    for packet in &packets {
        let _ = pair.b.receive(pair.now, packet);
    }
    for packet in pair.b.transmit_all(pair.now) {
        let _ = pair.a.receive(pair.now, &packet);
    }
    pair.a.settle();
    packets.len()
}

/// Posts `count` requests, `apart` nanoseconds apart. Returns how long each waited.
fn posts(pair: &mut Pair, count: usize, apart: u64) -> Vec<u64> {
    let (mut waits, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let next = pair.now.after(apart);
        waiting.push(pair.now);
        pair.a
            .post_with(SendOp::Write, pattern(8, 1), 0, RKEY, Flags::default());
        let mut sent = pass(pair);
        if let Some(due) = pair.a.conn.poll_timeout().filter(|due| *due < next) {
            pair.now = due;
            pair.a.conn.handle_timeout(due, &mut pair.a.host);
            sent += pass(pair);
        }
        waits.extend(waiting.drain(..sent).map(|since| pair.now.0 - since.0));
        pair.now = next;
    }
    waits
}

#[test]
fn they_wait_for_a_moment_only() {
    let mut pair = unhurried();
    let waits = posts(&mut pair, 1_000, 20_000);
    assert_eq!(waits.iter().max(), Some(&MAX_DELAY_NS));
}

#[test]
fn few_wait_in_vain() {
    let mut pair = unhurried();
    let waits = posts(&mut pair, 10_000, 150_000);
    let held = waits.iter().filter(|wait| **wait != 0).count();
    assert!((2..200).contains(&held), "{held}");
    // Later, corking pays again: the earlier failures do not count any more.
    let waits = posts(&mut pair, 1_000, 1_000);
    assert!(waits.iter().filter(|wait| **wait == 0).count() < 200);
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
    // A long request takes them along, too.
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    assert!(post(&mut pair, 17_000) > 2);
}

#[test]
fn requests_that_ask_for_an_answer_wait_too() {
    let mut pair = busy();
    for op in [SendOp::Read, SendOp::FetchAdd { add: 1 }] {
        pair.a
            .post_with(op, pattern(8, 1), 0, RKEY, Flags::default());
        assert_eq!(pair.a.transmit_all(pair.now).len(), 0);
    }
    pair.a
        .post_with(SendOp::Read, pattern(8, 1), 0, RKEY, signaled());
    assert_eq!(pair.a.transmit_all(pair.now).len(), 3);
}

#[test]
fn as_many_bytes_as_travel_together_do_not_wait() {
    let mut pair = unhurried();
    assert_eq!(posts(&mut pair, 8, 1_000), [0; 8]);
    for _ in 0..3 {
        assert_eq!(post(&mut pair, 16_384), 0);
    }
    assert_ne!(post(&mut pair, 16_384), 0);
}

#[test]
fn a_pause_ends_it() {
    let mut pair = busy();
    pair.now = pair.now.after(1_000_000);
    assert_eq!(post(&mut pair, 8), 1);
    assert_eq!(post(&mut pair, 8), 1);
}

/// Posts `count` requests, the last of them signaled, with a microsecond between; then a pause.
/// Returns how many packets were sent with each.
fn post_together(pair: &mut Pair, count: u32) -> Vec<usize> {
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
            pass(pair)
        })
        .collect();
    pair.now = pair.now.after(1_000_000);
    sent
}

#[test]
fn bursts_with_pauses_between_are_learned() {
    let mut pair = unhurried();
    for _ in 0..2 {
        assert_eq!(post_together(&mut pair, 12), ALONE);
    }
    for _ in 0..3 {
        assert_eq!(post_together(&mut pair, 12), LEARNED);
    }
    // A request that no other follows is corked once; the next such request is not.
    assert_ne!(posts(&mut pair, 1, 1_000_000), [0]);
    assert_eq!(posts(&mut pair, 8, 1_000), [0; 8]);
}

/// A pair whose first node posts for the same program as that of `pair`.
fn sibling(pair: &Pair) -> Pair {
    let mut sibling = unhurried();
    sibling.a.host.streaks = pair.a.host.streaks.clone();
    sibling.now = pair.now;
    sibling
}

/// The first posts of a burst are sent alone, those of one that was learned with the last.
const ALONE: [usize; 12] = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 4];
const LEARNED: [usize; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12];

#[test]
fn bursts_of_a_program_are_learned_for_all_its_queue_pairs() {
    let mut pair = unhurried();
    assert_eq!(post_together(&mut pair, 12), ALONE);
    let mut second = sibling(&pair);
    assert_eq!(post_together(&mut second, 12), ALONE);
    let mut third = sibling(&second);
    assert_eq!(post_together(&mut third, 12), LEARNED);
    // The first ones, too.
    pair.now = third.now;
    assert_eq!(post_together(&mut pair, 12), LEARNED);
    // Another program's are not concerned.
    assert_eq!(post_together(&mut unhurried(), 12), ALONE);
}

#[test]
fn a_queue_pair_unlike_its_siblings_learns_by_itself() {
    let mut pair = unhurried();
    pair.now = pair.now.after(1_000_000);
    pair.a.host.streaks.set(Streaks {
        count: 2,
        gap: 1_000,
    });
    let mut single = sibling(&pair);
    // Its first post waits as long as thirty-two posts of its siblings take.
    assert_eq!(posts(&mut single, 1, 1_000_000), [32_000]);
    assert_eq!(posts(&mut single, 20, 1_000_000), [0; 20]);
    assert_eq!(post_together(&mut sibling(&pair), 12), LEARNED);
    // So is one whose peer sends requests.
    let mut server = sibling(&pair);
    server.b.post(SendOp::Write, pattern(8, 2), 0);
    let packet = server.b.transmit_all(server.now);
    let _ = server.a.receive(server.now, &packet[0]);
    server.now = server.now.after(1_000_000);
    assert_eq!(server.a.transmit_all(server.now).len(), 1);
    assert_eq!(posts(&mut server, 4, 1_000_000), [0; 4]);
    // A streak of its own makes it one of them.
    for _ in 0..2 {
        post_together(&mut single, 12);
    }
    assert_eq!(post_together(&mut single, 12), LEARNED);
}

#[test]
fn a_few_posts_are_no_burst() {
    let mut pair = Pair::with(&config(), 10, 20);
    for _ in 0..10 {
        assert_eq!(post_together(&mut pair, 7), [1; 7]);
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
    pair.a.conn.flush_delayed();
    assert_eq!(pair.a.transmit_all(pair.now).len(), 1);
    // The error state flushes corked requests.
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    pair.a
        .conn
        .modify(&Modify::to_state(State::Err))
        .expect("any state may become ERR");
    pair.a.settle();
    assert_eq!(pair.a.statuses().last(), Some(&Status::WrFlush));
    assert_eq!(pair.a.statuses().len(), 9);
    // The corked request is sent when the drained send queue continues.
    let mut pair = busy();
    assert_eq!(post(&mut pair, 8), 0);
    for state in [State::Sqd, State::Rts] {
        pair.a
            .conn
            .modify(&Modify::to_state(state))
            .expect("RTS to SQD and back");
    }
    pair.now = pair.now.after(MAX_DELAY_NS);
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
    // The only timer is that of the requests sent before.
    assert!(pair.a.conn.poll_timeout() > Some(pair.now.after(MAX_DELAY_NS)));
}
