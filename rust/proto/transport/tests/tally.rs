// SPDX-License-Identifier: GPL-2.0

//! The requester's counts: each event once, and none on a wire that loses nothing.

use super::super::wire::{NakCode, Opcode};
use super::super::{AccessError, Instant, Modify, RequesterEvent, SendOp, Status};
use super::pair::*;
use std::collections::HashSet;

/// The events of `node` since the last call, without those that did not happen.
fn events(node: &mut Node) -> Vec<(RequesterEvent, u32)> {
    let counts = node.conn.take_counts().unwrap_or_default();
    let all = [
        RequesterEvent::Retransmit,
        RequesterEvent::ReadGap,
        RequesterEvent::AckTimeout,
        RequesterEvent::SequenceNak,
        RequesterEvent::RnrNak,
        RequesterEvent::InvalidRequestNak,
        RequesterEvent::AccessNak,
        RequesterEvent::OperationalNak,
        RequesterEvent::CnpHandled,
    ];
    assert_eq!(all.len(), counts.len());
    let happened = all.map(|event| (event, counts[event as usize]));
    happened.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// How many request packets had a PSN that was on the wire before.
fn repeated(pair: &Pair) -> u32 {
    let mut seen = HashSet::new();
    let sent = pair.sent(Way::AtoB);
    let again = sent.iter().filter(|packet| !seen.insert(packet.psn()));
    again.count() as u32
}

fn post_all(pair: &mut Pair) {
    pair.b.host.recvs.extend([Ok(2000), Ok(2000)]);
    pair.a.post(SendOp::Send, pattern(700, 1), 0);
    pair.a.post(SendOp::Write, pattern(1200, 2), 1000);
    pair.a.post(SendOp::Send, pattern(5, 3), 0);
    pair.a.post(SendOp::Write, pattern(300, 4), 5000);
}

#[test]
fn nothing_is_counted_without_a_loss() {
    let mut pair = Pair::new();
    post_all(&mut pair);
    pair.a.post(SendOp::Read, vec![0; 900], 0);
    pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0);
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.a.conn.take_counts(), None);
}

/// Each packet in turn is lost: what is sent again is counted, no more and no less.
#[test]
fn packets_that_are_sent_again_are_counted() {
    for lost in 0..11 {
        let mut pair = Pair::new();
        post_all(&mut pair);
        pair.run_with(|n, way, _| match way {
            Way::AtoB if n == lost => Fate::Lose,
            _ => Fate::Deliver,
        });
        pair.assert_all_done();
        let again = repeated(&pair);
        assert!(again > 0, "{lost}");
        let events = events(&mut pair.a);
        assert!(
            events.contains(&(RequesterEvent::Retransmit, again)),
            "{lost}: {again}, {events:?}"
        );
        assert_eq!(pair.a.conn.take_counts(), None);
    }
}

/// A gap is reported by a NAK, and the loss of the last packet by nothing but a timeout.
#[test]
fn the_signs_of_a_loss_are_told_apart() {
    let mut pair = Pair::new();
    pair.a.conn.keep_requests(false);
    pair.b.conn.keep_requests(false);
    pair.a.post(SendOp::Write, pattern(1000, 1), 0);
    pair.run_with(|n, _, _| if n == 1 { Fate::Lose } else { Fate::Deliver });
    let counts = [
        (RequesterEvent::Retransmit, 3),
        (RequesterEvent::SequenceNak, 1),
    ];
    assert_eq!(events(&mut pair.a), counts);
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    pair.run_with(|n, _, _| if n == 0 { Fate::Lose } else { Fate::Deliver });
    let counts = [
        (RequesterEvent::Retransmit, 1),
        (RequesterEvent::AckTimeout, 1),
    ];
    assert_eq!(events(&mut pair.a), counts);
}

/// IBTA 9.7.5.2.8: the packet that found no receive comes again.
#[test]
fn rnr_naks_are_counted() {
    let config = Modify {
        rnr_retry: Some(2),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::RnrRetryExc]);
    let counts = [(RequesterEvent::Retransmit, 2), (RequesterEvent::RnrNak, 3)];
    assert_eq!(events(&mut pair.a), counts);
}

/// IBTA 9.7.5.2: each of the NAKs that end a connection.
#[test]
fn naks_that_end_the_connection_are_told_apart() {
    for (code, event) in [
        (NakCode::RemoteAccess, RequesterEvent::AccessNak),
        (NakCode::RemoteOperational, RequesterEvent::OperationalNak),
        (NakCode::InvalidRequest, RequesterEvent::InvalidRequestNak),
    ] {
        let mut pair = Pair::new();
        let (len, error) = match code {
            NakCode::InvalidRequest => (3, None),
            NakCode::RemoteAccess => (4, Some(AccessError::Access)),
            _ => (4, Some(AccessError::Op)),
        };
        pair.b.host.deny = error;
        if error.is_none() {
            pair.b.host.recvs.push_back(Ok(len - 1));
            pair.a.post(SendOp::Send, vec![0; len], 0);
        } else {
            pair.a.post(SendOp::Write, vec![0; len], 0);
        }
        pair.run();
        assert_eq!(events(&mut pair.a), [(event, 1)]);
    }
}

/// The response to a READ is lost: the request for the rest of it is one packet.
#[test]
fn a_read_that_is_resumed_counts_once() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 900], 0);
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    let mut lost = false;
    pair.run_with(|_, _, packet| {
        let hit = packet.opcode() == Opcode::RcReadResponseMiddle && !lost;
        lost |= hit;
        if hit {
            Fate::Lose
        } else {
            Fate::Deliver
        }
    });
    pair.assert_all_done();
    // What is behind it was kept.
    let counts = [
        (RequesterEvent::Retransmit, 1),
        (RequesterEvent::ReadGap, 1),
    ];
    assert_eq!(events(&mut pair.a), counts);
}

/// The next packets of `node`, up to `segments` at once, which are taken back after the first
/// `keep`, if that is not all. Returns their PSNs.
fn poll(node: &mut Node, segments: u16, keep: u16) -> Option<Vec<u32>> {
    use super::super::ConnectedQp;
    let t = node
        .conn
        .poll_transmit(Instant(0), segments, &mut node.host)?;
    if let Some(rest) = t.rest(keep) {
        node.conn.undo(&rest, &mut node.host);
    }
    let first = t.header.bth.psn.get();
    Some((first..first + u32::from(t.segments.min(keep))).collect())
}

/// Packets that were taken back, as a page or memory was missing, were not sent. They do not count
/// as sent again later, unless they are.
#[test]
fn packets_that_were_taken_back_are_not_sent_again() {
    // Every way to take back some of the first polls, then a timeout, then the same again.
    for choice in 0..4u32.pow(6) {
        let no_probes = Modify {
            timeout: Some(14),
            ..config()
        };
        let mut node = Node::new(1, &no_probes, 0, 0);
        node.post(SendOp::Write, vec![0; 256 * 8], 0);
        let mut kept: Vec<u32> = Vec::new();
        let mut choices = (0..6).map(|n| (choice / 4u32.pow(n) % 4) as u16);
        for _ in 0..2 {
            for keep in choices.by_ref().take(3) {
                kept.extend(poll(&mut node, 4, keep).unwrap_or_default());
            }
            if let Some(due) = node.conn.poll_timeout() {
                node.conn.handle_timeout(due, &mut node.host);
            }
        }
        while let Some(psns) = poll(&mut node, 4, 4) {
            kept.extend(psns);
        }
        let distinct: HashSet<_> = kept.iter().collect();
        let again = (kept.len() - distinct.len()) as u32;
        let counts = node.conn.take_counts().unwrap_or_default();
        let counted = counts[RequesterEvent::Retransmit as usize];
        assert_eq!(counted, again, "{choice}: {kept:?}");
    }
}
