// SPDX-License-Identifier: GPL-2.0

//! Snapshots of a requester: each cause is told from the others.

use super::super::wire::Psn;
use super::super::{Cause, Change, Modify, SendOp, Snapshot, Trigger, Verdict};
use super::pair::*;

/// Exchanges packets as `fate` says, and notes what changed at node A with each packet.
fn changes(pair: &mut Pair, mut fate: impl FnMut(usize, Way, &Packet) -> Fate) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut count = 0;
    loop {
        let mut quiet = true;
        for packet in pair.a.transmit_all(pair.now) {
            quiet = false;
            if matches!(fate(count, Way::AtoB, &packet), Fate::Deliver) {
                let _ = pair.b.receive(pair.now, &packet);
            }
            count += 1;
        }
        for packet in pair.b.transmit_all(pair.now) {
            quiet = false;
            if matches!(fate(count, Way::BtoA, &packet), Fate::Deliver) {
                let before = pair.a.conn.requester().snapshot();
                let dropped = match pair.a.receive(pair.now, &packet) {
                    Verdict::Accepted => None,
                    Verdict::Dropped(reason) => Some(reason),
                };
                let after = pair.a.conn.requester().snapshot();
                changes.push(after.since(&before, Trigger::Packet(&packet.header, dropped)));
            }
            count += 1;
        }
        pair.a.settle();
        pair.b.settle();
        if quiet {
            return changes;
        }
    }
}

/// Lets the next timeout of node A expire.
fn timeout(pair: &mut Pair) -> (Snapshot, Change) {
    let before = pair.a.conn.requester().snapshot();
    pair.now = pair.a.conn.poll_timeout().unwrap();
    pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
    let after = pair.a.conn.requester().snapshot();
    (after, after.since(&before, Trigger::Timeout))
}

#[test]
fn an_ack_is_an_ack_and_no_window_changes_without_loss() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    let changes = changes(&mut pair, |_, _, _| Fate::Deliver);
    let ack = Change {
        cause: Cause::Ack,
        acked: 1,
        sends_again: false,
        windows: false,
    };
    assert_eq!(changes, [ack]);
}

/// IBTA 9.7.5.2: a NAK has the requester go back, and shrinks its window. Across the end of the
/// number space as well.
#[test]
fn a_sequence_nak_goes_back() {
    for first in [0, Psn::MASK - 1] {
        let mut pair = Pair::with(&config(), first, 0);
        for n in 0..4 {
            pair.a.post(SendOp::Write, pattern(4, n), 0);
        }
        let lost = |n, way, _: &Packet| match (n, way) {
            (1, Way::AtoB) => Fate::Lose,
            _ => Fate::Deliver,
        };
        let changes = changes(&mut pair, lost);
        let nak = changes[0];
        assert_eq!((nak.cause, nak.acked), (Cause::Sequence, 1));
        assert!(nak.sends_again && nak.windows);
        pair.assert_all_done();
    }
}

#[test]
fn a_gap_of_responses_is_a_cause_of_its_own() {
    let mut pair = Pair::new();
    pair.a.conn.keep_responses(false);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    let lost = |n, way, _: &Packet| match (n, way) {
        (2, Way::BtoA) => Fate::Lose,
        _ => Fate::Deliver,
    };
    let changes = changes(&mut pair, lost);
    assert_eq!(changes[0].cause, Cause::Response);
    assert!(changes[0].sends_again);
    pair.assert_all_done();
}

/// The response behind the gap is kept, and is no plain acknowledgement all the same.
#[test]
fn a_gap_that_is_asked_for_alone_is_such_a_gap() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 700], 0);
    let lost = |n, way, _: &Packet| match (n, way) {
        (2, Way::BtoA) => Fate::Lose,
        _ => Fate::Deliver,
    };
    let changes = changes(&mut pair, lost);
    let again: Vec<_> = changes.iter().map(|change| change.sends_again).collect();
    assert_eq!(again, [false, true, false]);
    assert_eq!((changes[1].cause, changes[1].acked), (Cause::Response, 0));
    assert!(changes[1].windows);
    assert_eq!((changes[2].cause, changes[2].acked), (Cause::Ack, 2));
    pair.assert_all_done();
}

#[test]
fn an_rnr_nak_goes_back_and_changes_no_window() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Send, pattern(4, 1), 0);
    let changes = changes(&mut pair, |_, _, _| Fate::Deliver);
    let rnr = Change {
        cause: Cause::Rnr,
        acked: 0,
        sends_again: true,
        windows: false,
    };
    assert_eq!(changes, [rnr]);
    assert_eq!(pair.a.conn.requester().snapshot().rnr_retries, 1);
}

/// The probes go first, then the ACK timeout of IBTA 9.7.6.1.3, which costs a retry.
#[test]
fn a_timeout_is_told_from_a_probe() {
    let config = Modify {
        timeout: Some(14),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    // A round trip, so that there is a probe timeout.
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    let _ = changes(&mut pair, |_, _, _| Fate::Deliver);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    let _ = changes(&mut pair, |_, _, _| Fate::Lose);
    let mut causes = Vec::new();
    while pair.a.conn.requester().snapshot().retries == 0 {
        let (_, change) = timeout(&mut pair);
        if change.sends_again {
            causes.push(change.cause);
        }
        let _ = changes(&mut pair, |_, _, _| Fate::Lose);
    }
    assert_eq!(causes.last(), Some(&Cause::Timeout));
    assert!(causes.len() > 1, "{causes:?}");
    assert!(causes[..causes.len() - 1]
        .iter()
        .all(|cause| *cause == Cause::Probe));
}
