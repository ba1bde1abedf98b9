// SPDX-License-Identifier: GPL-2.0

//! READ responses behind a gap are kept, and the gap alone is asked for.

use super::super::{
    ConnectedQp, DropReason, Instant, Modify, RequesterEvent, SendOp, Status, Verdict,
};
use super::pair::*;
use proptest::prelude::*;

const NOW: Instant = Instant(0);
/// Packets of a chunk, and bytes of a packet.
const CHUNK: u32 = 122;
const PMTU: usize = 256;

/// A requester that asks for whole chunks, four at a time.
fn open(config: &Modify) -> Node {
    let mut node = Node::new(1, config, 0, 0);
    node.conn.open_windows(0, READ_WINDOW);
    node
}

/// A requester with one READ of so many packets, which were asked for from PSN 0 on.
fn reading(packets: u32) -> Node {
    let mut node = open(&config());
    node.post(SendOp::Read, vec![0; packets as usize * PMTU], 0);
    let first = reads_asked(&node.transmit_all(NOW));
    assert_eq!(first.last().unwrap().1, packets);
    node
}

/// The response to the part of a READ from `from` to `end` arrives, without the packets `lost`.
fn respond(node: &mut Node, from: u32, end: u32, lost: &[u32]) {
    for at in (from..end).filter(|at| !lost.contains(at)) {
        let verdict = node.receive(NOW, &read_response(at, from, end));
        assert_eq!(verdict, Verdict::Accepted, "{at}");
    }
    node.settle();
}

fn gaps(node: &mut Node) -> u32 {
    let counts = node.conn.take_counts().unwrap_or_default();
    counts[RequesterEvent::ReadGap as usize]
}

fn check_bytes(node: &Node, packets: u32) {
    assert_eq!(node.statuses(), [Status::Success]);
    assert_eq!(node.host.reads_done, [0]);
    for at in 0..packets as usize {
        let bytes = &node.host.local[0][at * PMTU..][..PMTU];
        assert!(bytes.iter().all(|byte| *byte == at as u8), "packet {at}");
    }
}

/// IBTA 9.7.6.1, 9.7.5.1.3: a later response shows the gap, and a READ request for a part of an
/// earlier one asks for it.
#[test]
fn the_gap_alone_is_asked_for_when_the_response_is_over() {
    let mut node = reading(10);
    respond(&mut node, 0, 10, &[3, 4, 9]);
    assert!(node.transmit_all(NOW).is_empty(), "more may come");
    respond(&mut node, 9, 10, &[]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 5)]);
    assert!(node.transmit_all(NOW).is_empty(), "once");
    respond(&mut node, 3, 5, &[]);
    check_bytes(&node, 10);
    assert_eq!(node.conn.poll_timeout(), None);
    assert_eq!(gaps(&mut node), 1);
}

/// Gaps of one chunk are asked for by one request, up to the last of them, and what was kept in
/// between is not placed again.
#[test]
fn several_gaps_of_a_chunk_are_one_request() {
    let mut node = reading(20);
    respond(&mut node, 0, 20, &[2, 7, 8, 15]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(2, 16)]);
    for at in 2..16 {
        let kept = ![2, 7, 8, 15].contains(&at);
        let verdict = match node.receive(NOW, &read_response(at, 2, 16)) {
            Verdict::Accepted => false,
            verdict => verdict == Verdict::Dropped(DropReason::Ghost),
        };
        assert_eq!(verdict, kept, "{at}");
    }
    node.settle();
    check_bytes(&node, 20);
}

/// Chunks are repaired one after the other: never a later gap before an earlier one.
#[test]
fn gaps_are_asked_for_in_ascending_order() {
    let mut node = reading(3 * CHUNK);
    for chunk in 0..3 {
        let from = chunk * CHUNK;
        respond(&mut node, from, from + CHUNK, &[from + 10, from + 20]);
    }
    for chunk in 0..3 {
        let from = chunk * CHUNK + 10;
        assert_eq!(reads_asked(&node.transmit_all(NOW)), [(from, from + 11)]);
        respond(&mut node, from, from + 1, &[]);
        assert!(node.transmit_all(NOW).is_empty());
        respond(&mut node, from + 10, from + 11, &[]);
    }
    check_bytes(&node, 3 * CHUNK);
}

/// A later response shows that the one before is over, even if its last packets are lost.
#[test]
fn a_lost_end_is_shown_by_the_next_response() {
    let mut node = reading(2 * CHUNK);
    respond(&mut node, 0, CHUNK, &[CHUNK - 2, CHUNK - 1]);
    respond(&mut node, CHUNK, 2 * CHUNK, &[]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(CHUNK - 2, CHUNK)]);
    respond(&mut node, CHUNK - 2, CHUNK, &[]);
    check_bytes(&node, 2 * CHUNK);
}

/// The gap request, or its response, is lost: the response to a request that was sent later shows
/// that, as the responder keeps their order (IBTA 9.5).
#[test]
fn a_lost_gap_request_is_sent_again() {
    let mut node = reading(10);
    respond(&mut node, 0, 10, &[3]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 4)]);
    node.post(SendOp::Read, vec![0; PMTU], 0);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(10, 11)]);
    respond(&mut node, 10, 11, &[]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 4)]);
    respond(&mut node, 3, 4, &[]);
    assert_eq!(node.statuses(), [Status::Success; 2]);
    // And the response to a gap request that has a gap itself.
    let mut node = reading(10);
    respond(&mut node, 0, 10, &[3, 4, 5]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 6)]);
    respond(&mut node, 3, 6, &[4]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(4, 5)]);
    respond(&mut node, 4, 5, &[]);
    check_bytes(&node, 10);
}

/// With no other sign, the timeout makes the requester ask for all from the oldest missing packet
/// on, which a peer that refused the gap request gives.
#[test]
fn a_peer_that_refuses_is_asked_for_everything() {
    let mut node = reading(10);
    respond(&mut node, 0, 10, &[3, 6]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 7)]);
    let due = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(due, &mut node.host);
    assert_eq!(reads_asked(&node.transmit_all(due)), [(3, 10)]);
    respond(&mut node, 3, 10, &[]);
    check_bytes(&node, 10);
}

/// IBTA 9.7.5.1.1: a response behind the gap acknowledges the requests before its own once the gap
/// is closed; and so does an ACK behind it, which is no reason to ask for more.
#[test]
fn what_is_acknowledged_behind_a_gap_completes_in_order() {
    for by_ack in [false, true] {
        let mut node = open(&config());
        node.post(SendOp::Read, vec![0; 2 * PMTU], 0);
        node.post(SendOp::Send, vec![1; 4], 0);
        node.post(SendOp::Write, vec![1; 4], 0);
        if !by_ack {
            node.post(SendOp::Read, vec![0; PMTU], 0);
        }
        node.transmit_all(NOW);
        respond(&mut node, 0, 2, &[1]);
        if by_ack {
            let gap = Verdict::Dropped(DropReason::Gap);
            assert_eq!(node.receive(NOW, &ack(3)), gap);
        } else {
            respond(&mut node, 4, 5, &[]);
        }
        node.settle();
        assert!(node.statuses().is_empty());
        assert_eq!(reads_asked(&node.transmit_all(NOW)), [(1, 2)]);
        respond(&mut node, 1, 2, &[]);
        assert_eq!(
            node.statuses(),
            vec![Status::Success; 4 - usize::from(by_ack)]
        );
        assert_eq!(node.conn.poll_timeout(), None);
    }
}

/// The response to an atomic is not kept: when its turn comes the requester goes back to it.
#[test]
fn an_atomic_behind_a_gap_is_asked_for_again() {
    let mut node = open(&config());
    node.post(SendOp::Read, vec![0; 2 * PMTU], 0);
    node.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0);
    node.post(SendOp::Read, vec![0; PMTU], 0);
    node.transmit_all(NOW);
    respond(&mut node, 0, 2, &[1]);
    respond(&mut node, 3, 4, &[]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(1, 2)]);
    respond(&mut node, 1, 2, &[]);
    let again: Vec<_> = node.transmit_all(NOW).iter().map(Packet::psn).collect();
    assert_eq!(
        (again, node.statuses()),
        (vec![2, 3], vec![Status::Success])
    );
}

/// The READ window counts what is kept as arrived, and is reduced once in a round trip.
#[test]
fn reads_go_on_behind_a_gap() {
    let mut node = open(&config());
    node.post(SendOp::Read, vec![0; 16 * CHUNK as usize * PMTU], 0);
    assert_eq!(reads_asked(&node.transmit_all(NOW)).len(), 4);
    let window = |node: &Node| node.conn.requester().snapshot().read_window;
    let before = window(&node);
    respond(&mut node, 0, CHUNK, &[5]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(5, 6)]);
    let less = window(&node);
    assert!(less < before);
    respond(&mut node, CHUNK, 2 * CHUNK, &[CHUNK + 5]);
    assert!(node.transmit_all(NOW).is_empty(), "the window is {less}");
    for chunk in 2..4 {
        respond(&mut node, chunk * CHUNK, (chunk + 1) * CHUNK, &[]);
        let more = reads_asked(&node.transmit_all(NOW));
        assert_eq!(more, [((chunk + 2) * CHUNK, (chunk + 3) * CHUNK)]);
    }
    respond(&mut node, 5, 6, &[]);
    let next = reads_asked(&node.transmit_all(NOW));
    assert_eq!(next[0], (CHUNK + 5, CHUNK + 6));
    assert!(window(&node) >= less, "the same round trip");
}

/// IBTA 9.5: of two READs into the same memory the later one has the last word. What comes of it
/// while the earlier one lacks responses is asked for again.
#[test]
fn reads_into_the_same_memory_keep_their_order() {
    let mut node = open(&config());
    node.host.overlap = true;
    for _ in 0..2 {
        node.post(SendOp::Read, vec![0; 3 * PMTU], 0);
    }
    node.transmit_all(NOW);
    respond(&mut node, 0, 3, &[1]);
    let placed = |node: &Node| node.host.local[1].iter().any(|byte| *byte != 0);
    for at in 3..6 {
        let verdict = node.receive(NOW, &read_response(at, 3, 6));
        assert_eq!(verdict, Verdict::Dropped(DropReason::Gap));
        assert!(!placed(&node));
    }
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(1, 2)]);
    respond(&mut node, 1, 2, &[]);
    assert_eq!(node.statuses(), [Status::Success]);
    assert_eq!(reads_asked(&node.transmit_all(NOW)), [(3, 6)]);
    respond(&mut node, 3, 6, &[]);
    assert_eq!(node.statuses(), [Status::Success; 2]);
    assert!(placed(&node));
}

/// After a loss the READ window grows by round trips in which there are READs, and by no others.
#[test]
fn messages_do_not_widen_the_read_window() {
    let mut node = open(&config());
    node.post(SendOp::Read, vec![0; 4 * PMTU], 0);
    node.transmit_all(NOW);
    respond(&mut node, 0, 4, &[1]);
    node.transmit_all(NOW);
    respond(&mut node, 1, 2, &[]);
    let window = |node: &Node| node.conn.requester().snapshot().read_window;
    let less = window(&node);
    for n in 0..100 {
        node.post(SendOp::Send, vec![0; 100 * PMTU], 0);
        let now = Instant((1 + u64::from(n)) * 1_000_000);
        node.transmit_all(now);
        // In halves, so that others are in flight.
        for at in [50, 100] {
            let _ = node.receive(now.after(1000), &ack(3 + 100 * n + at));
            node.transmit_all(now.after(1000));
        }
    }
    assert_eq!(window(&node), less);
}

/// IBTA 9.9.2.1: asking for a gap is a retry.
#[test]
fn a_requester_without_retries_fails_at_a_gap() {
    let config = Modify {
        retry_cnt: Some(0),
        ..config()
    };
    let mut node = open(&config);
    node.post(SendOp::Read, vec![0; 4 * PMTU], 0);
    node.transmit_all(NOW);
    respond(&mut node, 0, 4, &[1]);
    assert_eq!(node.statuses(), [Status::RetryExc]);
}

#[test]
fn a_gap_request_that_is_taken_back_comes_again() {
    let mut node = reading(10);
    respond(&mut node, 0, 10, &[3, 4]);
    for _ in 0..3 {
        let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
        assert_eq!(t.header.bth.psn.get(), 3);
        node.conn.undo(&t, &mut node.host);
    }
    // Late packets have come meanwhile.
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    respond(&mut node, 3, 5, &[]);
    node.conn.undo(&t, &mut node.host);
    assert!(node.transmit_all(NOW).is_empty());
    check_bytes(&node, 10);
    let counts = node.conn.take_counts().unwrap_or_default();
    assert_eq!(counts[RequesterEvent::Retransmit as usize], 0);
}

/// A response far behind the gap is not kept; the requester goes back.
#[test]
fn the_kept_span_has_an_end() {
    const GROWN: u32 = 16;
    let mut node = open(&config());
    node.post(SendOp::Read, vec![0; 140 * CHUNK as usize * PMTU], 0);
    let mut chunk = |lost: u32, chunk: u32| {
        let (from, requests) = (chunk * CHUNK, reads_asked(&node.transmit_all(NOW)));
        respond(&mut node, from, from + CHUNK, &[from + lost]);
        requests
    };
    // The READ window grows, so that more may be outstanding than is kept.
    (0..GROWN).for_each(|at| drop(chunk(CHUNK, at)));
    chunk(0, GROWN);
    let repair = (GROWN * CHUNK, GROWN * CHUNK + 1);
    assert!(chunk(CHUNK, GROWN + 1).contains(&repair));
    (GROWN + 2..GROWN + 8).for_each(|at| drop(chunk(CHUNK, at)));
    let (from, end) = ((GROWN + 8) * CHUNK, (GROWN + 9) * CHUNK);
    for at in 0..=48 {
        let last = read_response(from + at, from, end);
        let expected = match at {
            48 => Verdict::Dropped(DropReason::Gap),
            _ => Verdict::Accepted,
        };
        assert_eq!(node.receive(NOW, &last), expected, "{at}");
    }
    let again = reads_asked(&node.transmit_all(NOW));
    assert_eq!(again[0], (GROWN * CHUNK, (GROWN + 1) * CHUNK));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost of whatever READs and other requests, each byte arrives, and requests
    /// complete in order, without a timeout being the only way as long as anything comes behind.
    #[test]
    fn any_losses(
        kinds in prop::collection::vec((0u8..5, 1usize..40 * PMTU), 1..8),
        losses in prop::collection::vec(any::<u8>(), 1..200),
        percent in 0u32..40,
    ) {
        let mut pair = Pair::with(&config(), 0xff_fff0, 3);
        for (kind, len) in kinds {
            match kind {
                0 => pair.a.post(SendOp::Write, pattern(len.min(1000), 1), 30_000),
                1 => pair.a.post(SendOp::FetchAdd { add: 0 }, vec![0; 8], 8),
                _ => pair.a.post(SendOp::Read, vec![0; len], 64),
            };
        }
        pair.run_with(|i, _, _| {
            let hit = u32::from(losses[i % losses.len()]) % 100 < percent && i < 2000;
            if hit { Fate::Lose } else { Fate::Deliver }
        });
        let statuses = pair.a.statuses();
        let failed = statuses.contains(&Status::RetryExc);
        prop_assert_eq!(statuses.len(), pair.a.host.requests.len());
        if !failed {
            pair.assert_all_done();
            for (request, local) in pair.a.host.requests.iter().zip(&pair.a.host.local) {
                if request.op == SendOp::Read {
                    let memory = &pair.b.host.memory[64..][..local.len()];
                    prop_assert_eq!(local.as_slice(), memory);
                }
            }
        }
    }
}
