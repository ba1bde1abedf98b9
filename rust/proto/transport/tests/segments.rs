// SPDX-License-Identifier: GPL-2.0

//! Segments: packets that are alike, sent and taken together.

use super::super::wire::{AethRepr, BthRepr, Ext, Opcode, PKey, PacketRepr, Qpn, Syndrome};
use super::super::{
    ConnectedQp, Instant, Modify, Origin, Payload, SendOp, Status, Transmit, Verdict,
};
use super::pair::*;

const NOW: Instant = Instant(0);
const PMTU: usize = 256;

fn ack(at: u32) -> Packet {
    let (syndrome, msn) = (Syndrome::ACK, 0);
    let bth = BthRepr::new(Opcode::RcAck, PKey::DEFAULT, Qpn::new(5), psn(at));
    let ext = Ext::Aeth(AethRepr { syndrome, msn });
    Packet {
        header: PacketRepr { bth, ext },
        payload: Vec::new(),
    }
}

fn sender(packets: usize) -> Node {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, pattern(PMTU * packets, 0), 0);
    node
}

fn poll(node: &mut Node, most: u16) -> Option<Transmit> {
    node.conn.poll_transmit(NOW, most, &mut node.host)
}

/// PSN, number of packets and AckReq of each `Transmit`, with up to `most` segments.
fn runs(node: &mut Node, most: u16) -> Vec<(u32, u16, bool)> {
    let next = || poll(node, most);
    std::iter::from_fn(next)
        .map(|t| (t.header.bth.psn.get(), t.segments, t.header.bth.ack_req))
        .collect()
}

#[test]
fn only_middle_packets_run() {
    assert_eq!(
        runs(&mut sender(6), 64),
        [(0, 1, false), (1, 4, false), (5, 1, true)]
    );
    assert_eq!(
        runs(&mut sender(6), 3),
        [(0, 1, false), (1, 3, false), (4, 1, false), (5, 1, true)]
    );
    assert_eq!(runs(&mut sender(2), 64), [(0, 1, false), (1, 1, true)]);
}

#[test]
fn the_last_of_a_run_asks() {
    let mut node = sender(100);
    let _ = poll(&mut node, 64);
    let run = poll(&mut node, 64).expect("more");
    assert_eq!((run.segments, run.header.bth.ack_req), (31, true));
    assert_eq!(run.segment_size(), PMTU as u32);
    let first = run.first();
    assert_eq!((first.segments, first.header.bth.ack_req), (1, false));
    let last = run.rest(30).expect("one is left");
    assert_eq!(last, last.first());
    assert_eq!(
        (last.header.bth.psn.get(), last.header.bth.ack_req),
        (31, true)
    );
    let payload = Payload::Request {
        n: 0,
        offset: 31 * PMTU as u32,
        len: PMTU as u32,
    };
    assert_eq!(last.payload, payload);
    assert_eq!(run.rest(31), None);
}

#[test]
fn a_full_window_waits_for_room() {
    let mut node = sender(1000);
    let sent = |runs: &[(u32, u16, bool)]| runs.iter().map(|run| u32::from(run.1)).sum::<u32>();
    let first = runs(&mut node, 61);
    let total = sent(&first);
    assert!(total > 96 && total <= WINDOW, "{first:?}");
    assert!(first.last().is_some_and(|run| run.2), "{first:?}");
    // The window has room for a few more packets.
    assert_eq!(node.receive(NOW, &ack(0)), Verdict::Accepted);
    assert_eq!(runs(&mut node, 61), []);
    assert_eq!(node.receive(NOW, &ack(40)), Verdict::Accepted);
    assert!(sent(&runs(&mut node, 61)) >= 32);
}

#[test]
fn what_was_not_sent_is_sent_again() {
    for done in 0..31 {
        let mut node = sender(100);
        let _ = poll(&mut node, 64);
        let run = poll(&mut node, 64).expect("more");
        let rest = run.rest(done).expect("some");
        node.conn.undo(&rest, &mut node.host);
        let again = poll(&mut node, rest.segments).expect("again");
        // The rest may ask for the acknowledgement in a later packet instead.
        let mut same = rest.first();
        same.header.bth.ack_req = again.first().header.bth.ack_req;
        assert_eq!(again.first(), same, "after {done}");
        let mut next = again.header.bth.psn.add(again.segments.into());
        while let Some(t) = poll(&mut node, 7) {
            assert_eq!(t.header.bth.psn, next);
            next = next.add(t.segments.into());
        }
    }
}

/// Transfers a message in up to `most` segments at a time; returns both nodes.
fn transfer(op: SendOp, most: u16) -> (Node, Node) {
    let mut a = Node::new(1, &config(), 0, 0);
    let mut b = Node::new(2, &config(), 0, 0);
    b.host.recvs.push_back(Ok(PMTU * 20));
    let local = pattern(PMTU * 20 - 3, 5);
    a.post(op, local, 8);
    loop {
        let mut idle = true;
        for turn in 0..2 {
            let (from, to) = if turn == 0 {
                (&mut a, &mut b)
            } else {
                (&mut b, &mut a)
            };
            while let Some(t) = poll(from, most) {
                idle = false;
                let payload = from.host.payload_of(&t.payload).expect("readable");
                let mut rest = Some(t);
                let mut at = 0;
                while let Some(t) = rest {
                    let limit = to.conn.max_segments(&t.header, t.segment_size(), &to.host);
                    let count = limit.min(t.segments);
                    assert!(
                        t.segments == 1 || limit > 1,
                        "expected packets are taken together"
                    );
                    let end = at + usize::from(count) * t.segment_size() as usize;
                    to.host.in_hand = payload[at..end].to_vec();
                    at = end;
                    let verdict = to.conn.handle_segments(
                        NOW,
                        &t.header,
                        count,
                        t.segment_size(),
                        &mut to.host,
                    );
                    assert_eq!(verdict, Verdict::Accepted);
                    rest = t.rest(count);
                }
            }
        }
        a.settle();
        b.settle();
        if idle {
            return (a, b);
        }
    }
}

#[test]
fn messages_arrive_in_runs() {
    for most in [1, 2, 5, 64] {
        for op in [SendOp::Write, SendOp::Send, SendOp::Read] {
            let (a, b) = transfer(op, most);
            assert_eq!(a.statuses(), [Status::Success], "{op:?} by {most}");
            let want = pattern(PMTU * 20 - 3, 5);
            match op {
                SendOp::Write => assert_eq!(b.host.memory[8..8 + want.len()], want),
                SendOp::Send => assert_eq!(b.host.received[0].data, want),
                _ => assert_eq!(a.host.local[0], b.host.memory[8..8 + want.len()]),
            }
        }
    }
}

#[test]
fn only_what_is_expected_is_taken_together() {
    let mut a = sender(10);
    let mut b = Node::new(2, &config(), 0, 0);
    let first = poll(&mut a, 1).expect("first");
    let run = poll(&mut a, 64).expect("middle");
    assert_eq!(run.header.bth.opcode, Opcode::RcWriteMiddle);
    let limit = |b: &Node, t: &Transmit| b.conn.max_segments(&t.header, t.segment_size(), &b.host);
    assert_eq!(limit(&b, &run), 1, "no message is under way");
    b.host.in_hand = vec![0; PMTU];
    let _ = b
        .conn
        .handle_segments(NOW, &first.header, 1, first.segment_size(), &mut b.host);
    // The last packet is not a middle one.
    assert_eq!(limit(&b, &run), 8);
    assert_eq!(limit(&b, &run.rest(2).expect("more")), 1, "out of sequence");
    assert_eq!(limit(&b, &first), 1, "a duplicate");
    let mut short = run;
    short.payload = Payload::Request {
        n: 0,
        offset: 0,
        len: run.payload.len() / 2,
    };
    assert_eq!(limit(&b, &short), 1, "too short");
}

/// The origin of each `Transmit`: the node responds to the peer's READs of `reads` packets, and
/// sends its own WRITEs of `writes` packets.
fn origins(reads: &[usize], writes: &[usize]) -> Vec<char> {
    let config = Modify {
        max_rd_atomic: Some(40),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.b = Node::with_resources(40, 2, &config, 0, 0);
    pair.a.conn.open_windows(0, READ_WINDOW);
    for packets in reads {
        pair.a.post(SendOp::Read, pattern(PMTU * packets, 1), 0);
    }
    for packets in writes {
        pair.b.post(SendOp::Write, pattern(PMTU * packets, 2), 0);
    }
    for request in pair.a.transmit_all(NOW) {
        assert_eq!(pair.b.receive(NOW, &request), Verdict::Accepted);
    }
    let next = || poll(&mut pair.b, 8);
    std::iter::from_fn(next)
        .map(|t| match t.origin {
            Origin::Request { .. } => 'w',
            Origin::Response => 'r',
            Origin::Acknowledge => 'a',
        })
        .collect()
}

#[test]
fn long_answers_and_requests_take_turns() {
    let sent = origins(&[20, 20], &[30, 30]);
    let both = sent.iter().rposition(|who| *who == 'r').unwrap();
    let requests = sent[..both].iter().filter(|who| **who == 'w').count();
    assert!(requests >= both / 2, "{sent:?}");
    assert!(!sent.windows(2).any(|two| two == ['r', 'r']), "{sent:?}");
    // If one side has nothing to send, the other continues.
    assert!(origins(&[20, 20], &[]).iter().all(|who| *who == 'r'));
    assert!(origins(&[], &[30]).iter().all(|who| *who == 'w'));
    // Short responses go first, as they share a super-packet.
    assert_eq!(origins(&[1, 1, 1], &[1]), ['r', 'r', 'r', 'w']);
}

#[test]
fn many_short_responses_and_requests_take_turns() {
    let sent = origins(&[1; 40], &[1; 4]);
    let turns: Vec<usize> = sent.split(|who| *who == 'w').map(<[_]>::len).collect();
    assert_eq!(turns, [16, 16, 8, 0, 0], "{sent:?}");
}

/// The packets of a loopback connection are as long as many of the wire.
#[test]
fn a_long_response_in_one_packet_takes_turns() {
    let mut read = poll_of_read();
    for (len, long) in [(PMTU as u32, false), (4096, false), (4097, true)] {
        if let Payload::Read { len: of_read, .. } = &mut read.payload {
            *of_read = len;
        }
        assert_eq!(read.is_long_response(), long, "{len}");
    }
}

/// A response of one packet.
fn poll_of_read() -> Transmit {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, pattern(PMTU, 1), 0);
    for request in pair.a.transmit_all(NOW) {
        assert_eq!(pair.b.receive(NOW, &request), Verdict::Accepted);
    }
    poll(&mut pair.b, 1).expect("the response")
}
