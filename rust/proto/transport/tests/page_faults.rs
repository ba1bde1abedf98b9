// SPDX-License-Identifier: GPL-2.0

//! Pages that are missing (on-demand paging): a request gets an RNR NAK and comes again, a response
//! is asked for again. Nothing is carried out twice, and nothing fails.

use super::super::wire::{Opcode, Syndrome};
use super::super::{ConnectedQp, DropReason, Instant, Modify, SendOp, Status, Transmit, Verdict};
use super::pair::*;
use super::uc::ends;

/// Missing pages for these accesses of the responder: how many, and from which on.
fn with_absent(absent: u32, from: u32) -> Pair {
    let mut pair = Pair::new();
    pair.b.host.reuses_recv = true;
    pair.b.host.absent = absent;
    pair.b.host.absent_from = from;
    pair
}

fn rnr_naks(pair: &Pair) -> usize {
    let naks = pair.sent(Way::BtoA);
    let is_rnr = |packet: &&&Packet| matches!(packet.syndrome(), Some(Syndrome::RnrNak { .. }));
    naks.iter().filter(is_rnr).count()
}

/// IBTA 9.7.5.2.8: the packet whose page is missing gets an RNR NAK, is sent again, and uses the
/// receive that was taken for it, wherever in the message it is.
#[test]
fn a_send_waits_for_the_pages_of_its_receive() {
    for from in 0..4 {
        for absent in 1..4 {
            let mut pair = with_absent(absent, from);
            pair.b.host.recvs.extend([Ok(1000), Ok(4)]);
            pair.a.post(SendOp::Send, pattern(1000, 1), 0);
            pair.a.post(SendOp::SendInv(TEMP_KEY), pattern(4, 2), 0);
            pair.run();
            pair.assert_all_done();
            let received: Vec<_> = pair
                .b
                .host
                .received
                .iter()
                .map(|r| r.data.clone())
                .collect();
            assert_eq!(received, [pattern(1000, 1), pattern(4, 2)]);
            assert_eq!(rnr_naks(&pair), absent as usize);
            assert_eq!(pair.now.0, u64::from(absent) * 10_000);
            assert!(!pair.b.host.temp_key_valid);
        }
    }
}

/// IBTA 9.7.5.2.8: the requester counts the RNR NAKs as any others.
#[test]
fn the_requester_does_not_try_for_ever() {
    let config = Modify {
        rnr_retry: Some(2),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.b.host.absent = 3;
    pair.a.post(SendOp::Write, pattern(8, 1), 0);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::RnrRetryExc]);
}

/// A WRITE is placed when its pages are there; its receive is taken once.
#[test]
fn a_write_waits_for_its_pages() {
    for from in 0..3 {
        let mut pair = with_absent(2, from);
        pair.b.host.recvs.push_back(Ok(0));
        pair.a.post(SendOp::WriteImm([7; 4]), pattern(700, 1), 0);
        pair.run();
        pair.assert_all_done();
        assert_eq!(pair.b.host.memory[..700], pattern(700, 1));
        assert_eq!(pair.b.host.received.len(), 1);
        assert_eq!(rnr_naks(&pair), 2);
    }
}

/// An atomic that found no page was not carried out, and is carried out once.
#[test]
fn atomics_are_carried_out_once() {
    let mut pair = with_absent(3, 0);
    let before = u64::from_ne_bytes(pair.b.host.memory[..8].try_into().unwrap());
    pair.a.post(SendOp::FetchAdd { add: 5 }, vec![0; 8], 0);
    pair.a.post(SendOp::AtomicWrite, pattern(8, 4), 64);
    pair.run();
    pair.assert_all_done();
    let after = u64::from_ne_bytes(pair.b.host.memory[..8].try_into().unwrap());
    assert_eq!(after, before.wrapping_add(5));
    assert_eq!(pair.a.host.local[0], before.to_ne_bytes());
    assert_eq!(pair.b.host.memory[64..72], pattern(8, 4));
    assert_eq!((pair.b.host.atomics_done, rnr_naks(&pair)), (1, 3));
}

/// IBTA 9.7.6.1: a response whose page is missing is dropped, and the requester asks for it again,
/// soon and as often as it takes. An atomic is not executed again.
#[test]
fn a_response_is_asked_for_again() {
    for from in 0..4 {
        let config = Modify {
            retry_cnt: Some(0),
            ..config()
        };
        let mut pair = Pair::with(&config, 0, 0);
        pair.a.host.absent = 20;
        pair.a.host.absent_from = from;
        pair.a.post(SendOp::Read, vec![0; 1000], 0);
        pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 2000);
        pair.run();
        pair.assert_all_done();
        assert_eq!(pair.a.host.local[0], pattern(1000, 2), "{from}");
        assert_eq!(pair.a.host.local[1], pattern(2008, 2)[2000..]);
        assert_eq!(pair.b.host.atomics_done, 1);
        assert_eq!(pair.a.host.reads_done, [0]);
        assert_eq!(pair.now.0, waits(20, 200_000));
    }
}

/// No retry and no ACK timeout is needed for that (IBTA 9.9.2.1): nothing was lost.
#[test]
fn a_missing_page_is_no_loss() {
    for (timeout, retries) in [(0, 7), (14, 0), (0, 0)] {
        let config = Modify {
            timeout: Some(timeout),
            retry_cnt: Some(retries),
            ..config()
        };
        let mut pair = Pair::with(&config, 0, 0);
        pair.a.host.absent = 9;
        pair.a.post(SendOp::Read, vec![0; 1000], 0);
        pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 2000);
        pair.a.post(SendOp::Send, pattern(8, 3), 0);
        pair.b.host.recvs.push_back(Ok(8));
        pair.run();
        pair.assert_all_done();
        assert_eq!(pair.a.host.local[0], pattern(1000, 2));
        assert_eq!(pair.b.host.atomics_done, 1);
    }
}

/// The next packet of `node`.
fn poll(node: &mut Node) -> Transmit {
    let now = Instant(0);
    node.conn
        .poll_transmit(now, 1, &mut node.host)
        .expect("a packet")
}

/// The packets, as PSN and AckReq, that `node` sends in ten tries while the payload of `missing`
/// has no page.
fn sent_without(node: &mut Node, missing: Opcode) -> Vec<(u32, bool)> {
    let mut sent = Vec::new();
    for _ in 0..10 {
        let t = poll(node);
        if t.header.bth.opcode == missing {
            node.conn.undo(&t, &mut node.host);
        } else {
            sent.push((t.header.bth.psn.get(), t.header.bth.ack_req));
        }
    }
    sent
}

/// A request whose page is missing does not keep the responder from acknowledging, nor from
/// responding to READs.
#[test]
fn a_request_without_a_page_does_not_hold_up_responses() {
    let mut pair = Pair::with(&config(), 0, 100);
    pair.b.host.recvs.push_back(Ok(100));
    pair.b.post(SendOp::Write, vec![0; 100], 0);
    let t = poll(&mut pair.b);
    pair.b.conn.undo(&t, &mut pair.b.host);
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a.post(SendOp::Send, vec![0; 100], 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    let sent = sent_without(&mut pair.b, Opcode::RcWriteOnly);
    assert_eq!(sent, [0, 1, 2, 3].map(|psn| (psn, false)));
}

/// A READ response whose page is missing does not hold up the requests of this side.
#[test]
fn a_response_without_a_page_does_not_hold_up_requests() {
    let mut pair = Pair::with(&config(), 0, 100);
    pair.a.post(SendOp::Read, vec![0; 100], 0);
    for packet in pair.a.transmit_all(pair.now) {
        let _ = pair.b.receive(pair.now, &packet);
    }
    for _ in 0..2 {
        pair.b.post(SendOp::Write, vec![0; 100], 0);
    }
    let sent = sent_without(&mut pair.b, Opcode::RcReadResponseOnly);
    assert_eq!(sent, [(100, false), (101, true)]);
}

/// The requests before one whose page is missing are asked about, once: their ACK waits neither for
/// the page nor for the ACK timeout (IBTA 9.7.5.1.2).
#[test]
fn requests_before_a_missing_page_are_asked_about() {
    let no_timeout = Modify {
        timeout: Some(0),
        ..config()
    };
    let mut node = Node::new(1, &no_timeout, 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post(SendOp::Write, vec![0; 600], 0);
    let first = poll(&mut node);
    assert!(!first.header.bth.ack_req);
    // The payload of the first WRITE has no page for a while, either.
    for expected in [1, 1, 0, 0] {
        let t = poll(&mut node);
        assert_eq!(t.header.bth.psn, psn(expected));
        node.conn.undo(&t, &mut node.host);
    }
    let sent = sent_without(&mut node, Opcode::RcWriteFirst);
    assert_eq!(sent, [(0, false), (0, true)]);
}

/// IBTA 9.8.2.2: UC cannot make its peer wait. The message is lost, and its receive serves the next
/// one.
#[test]
fn uc_drops_the_message() {
    for from in 0..3 {
        let (mut a, mut b) = ends(1);
        b.host.absent = 1;
        b.host.absent_from = from;
        let verdicts = b.receive_all(&a.send(600));
        assert_eq!(
            verdicts[from as usize],
            Verdict::Dropped(DropReason::NotPresent)
        );
        assert!(b.received().is_empty());
        let _ = b.receive_all(&a.send(500));
        assert_eq!(b.received(), [pattern(500, 1)]);
    }
}
