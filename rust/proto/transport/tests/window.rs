// SPDX-License-Identifier: GPL-2.0

//! The limits on packets in flight, and the packets that ask for an acknowledgement.

use super::super::rc::requester::read_chunk::READ_CHUNK;
use super::super::wire::{Ext, Opcode};
use super::super::{
    ConnectedQp, DropReason, Flags, Instant, Modify, Request, RequestQueue, SendOp, State, Status,
    Verdict, MAX_CWND,
};
use super::pair::*;
use super::sink::Sink;

const NOW: Instant = Instant(0);

fn response(opcode: Opcode, at: u32, len: usize) -> Packet {
    let mut packet = ack(at);
    packet.header.bth.opcode = opcode;
    if opcode == Opcode::RcReadResponseMiddle {
        packet.header.ext = Ext::None;
    }
    packet.payload = vec![3; len];
    packet
}

#[test]
fn the_window_closes_and_opens() {
    let window = usize::from(MAX_CWND);
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 256 * 1000], 0);
    let sent = node.transmit_all(NOW);
    assert_eq!(sent.len(), window);
    assert!(
        sent[window - 1].header.bth.ack_req,
        "the packet that closes it"
    );
    let asked: Vec<_> = (0..window)
        .filter(|i| sent[*i].header.bth.ack_req)
        .collect();
    assert_eq!(asked, [31, 63, 95, 127]);
    assert_eq!(node.receive(NOW, &ack(9)), Verdict::Accepted);
    assert_eq!(node.transmit_all(NOW).len(), 10);
    assert_eq!(node.receive(NOW, &ack(137)), Verdict::Accepted);
    assert_eq!(node.transmit_all(NOW).len(), window);
}

#[test]
fn a_timeout_narrows_the_window() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 256 * 1000], 0);
    let window = node.transmit_all(NOW).len() as u32;
    let now = node.conn.poll_timeout().expect("a packet is in flight");
    node.conn.handle_timeout(now, &mut node.host);
    let mut next = 0;
    // Slow start ends at seven tenths of the window.
    let end = window * 7 / 10;
    for count in [1, 2, 4, 8, 16, 32, 64, end, end + 1, end + 1] {
        let sent = node.transmit_all(now);
        assert_eq!(sent.len() as u32, count);
        assert_eq!(sent[0].psn(), next);
        assert!(sent[count as usize - 1].header.bth.ack_req, "of {count}");
        next += count;
        assert_eq!(node.receive(now, &ack(next - 1)), Verdict::Accepted);
    }
}

/// IBTA 9.7.5.1.2: a requester need not ask for an ACK of each message.
#[test]
fn small_messages_share_an_ack() {
    let mut node = Node::new(1, &config(), 0, 0);
    for _ in 0..100 {
        node.post(SendOp::Write, vec![0; 4], 0);
    }
    let asked: Vec<_> = node
        .transmit_all(NOW)
        .iter()
        .filter(|p| p.header.bth.ack_req)
        .map(Packet::psn)
        .collect();
    assert_eq!(asked, [31, 63, 95, 99]);
}

#[test]
fn whatever_stops_the_queue_the_last_packet_asks() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    type Post = fn(&mut Node, Flags);
    let cases: [(&str, Post); 4] = [
        ("the end", |_, _| {}),
        ("a fence", |node, fenced| {
            node.post_with(SendOp::Write, vec![0; 4], 0, RKEY, fenced);
        }),
        ("too many READs", |node, _| {
            node.post(SendOp::Read, vec![0; 4], 0);
        }),
        ("one with a local error", |node, _| {
            node.post_request(Request::with_local_error(Status::LocProt), vec![]);
        }),
    ];
    for (what, post) in cases {
        let config = Modify {
            max_rd_atomic: Some(1),
            ..config()
        };
        let mut node = Node::new(1, &config, 0, 0);
        node.post(SendOp::Read, vec![0; 4], 0);
        node.post(SendOp::Write, vec![0; 600], 0);
        post(&mut node, fenced);
        let sent = node.transmit_all(NOW);
        assert_eq!(sent.len(), 4, "{what}");
        assert!(sent[3].header.bth.ack_req, "{what}");
    }
}

#[test]
fn a_queue_that_stops_unforeseen_asks_once_more() {
    // A packet that expected another to follow is already sent when the next request has a local
    // error.
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert!(!node.transmit(NOW).unwrap().1.header.bth.ack_req);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    node.conn.local_error(&t, Status::LocProt, &mut node.host);
    let again = node.transmit_all(NOW);
    assert_eq!(again.len(), 1);
    assert!(again[0].header.bth.ack_req && again[0].psn() == 0);
    assert_eq!(node.receive(NOW, &ack(0)), Verdict::Accepted);
    assert!(node.transmit(NOW).is_none());
    node.settle();
    assert_eq!(node.statuses(), [Status::Success, Status::LocProt]);
}

#[test]
fn a_packet_that_asked_is_not_sent_again_to_ask() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert!(node.transmit(NOW).unwrap().1.header.bth.ack_req);
    node.post(SendOp::Write, vec![0; 4], 0);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    node.conn.local_error(&t, Status::LocProt, &mut node.host);
    assert!(node.transmit(NOW).is_none());
}

/// IBTA 9.7.2, 9.7.7.2.2: a READ takes a PSN for each response packet, and no more READs and
/// atomics than allowed are outstanding.
#[test]
fn reads_and_atomics_are_limited() {
    let config = Modify {
        max_rd_atomic: Some(2),
        ..config()
    };
    let mut node = Node::new(1, &config, 0, 0);
    node.post(SendOp::Read, vec![0; 600], 0);
    node.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    let psns = |node: &mut Node| {
        node.transmit_all(NOW)
            .iter()
            .map(Packet::psn)
            .collect::<Vec<_>>()
    };
    assert_eq!(psns(&mut node), [0, 3]);
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseFirst, 0, 256));
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseMiddle, 1, 256));
    assert!(psns(&mut node).is_empty(), "the READ is not complete");
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseLast, 2, 88));
    assert_eq!(psns(&mut node), [4, 5]);
}

#[test]
fn a_read_is_finished_under_a_limit_that_went_to_zero() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Read, vec![0; 600], 0);
    pair.a.transmit_all(NOW);
    pair.a.conn.modify(&Modify::to_state(State::Sqd)).unwrap();
    let none = Modify {
        max_rd_atomic: Some(0),
        ..Modify::default()
    };
    pair.a.conn.modify(&none).unwrap();
    pair.run();
    pair.assert_all_done();
}

/// IBTA 10.8.3.3: a fenced request waits for the READs and atomics before it.
#[test]
fn a_fence_waits_for_reads_and_for_nothing_else() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post_with(SendOp::Send, vec![0; 4], 0, 0, fenced);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    node.post_with(SendOp::Read, vec![0; 4], 0, RKEY, fenced);
    node.post(SendOp::Write, vec![0; 4], 0);
    assert_eq!(node.transmit_all(NOW).len(), 4);
    let _ = node.receive(NOW, &ack(1));
    assert!(node.transmit(NOW).is_none());
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseOnly, 2, 4));
    assert_eq!(
        node.transmit_all(NOW).len(),
        2,
        "the WRITE before it need not be complete"
    );
}

/// IBTA 10.8.3.3: a fenced request waits for READs that are sent again, too.
#[test]
fn a_fence_holds_when_all_is_sent_again() {
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post_with(SendOp::Write, vec![0; 4], 0, RKEY, fenced);
    assert_eq!(node.transmit_all(NOW).len(), 1);
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut node.host);
    let again: Vec<_> = node.transmit_all(end).iter().map(Packet::psn).collect();
    assert_eq!(again, [0]);
}

#[test]
fn taking_a_packet_back() {
    let mut pair = Pair::new();
    pair.b.host.recvs.push_back(Ok(1000));
    pair.a.post(SendOp::Send, pattern(1000, 3), 0);
    pair.a.post(SendOp::Read, vec![0; 1000], 0);
    pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 4096);
    // Each packet of either side is taken back before it is really sent. (A second time the packet
    // before it may go first, see `page_faults`.)
    let mut all = Vec::new();
    for _ in 0..20 {
        for way in [Way::AtoB, Way::BtoA] {
            let (from, to) = match way {
                Way::AtoB => (&mut pair.a, &mut pair.b),
                Way::BtoA => (&mut pair.b, &mut pair.a),
            };
            let mut sent = Vec::new();
            while let Some((t, packet)) = from.transmit(NOW) {
                from.conn.undo(&t, &mut from.host);
                let (u, again) = from.transmit(NOW).unwrap();
                // The packet is the same again, also at the beginning of a response.
                assert_eq!((u, &again), (t, &packet));
                sent.push(packet);
            }
            for packet in sent {
                let verdict = to.receive(NOW, &packet);
                assert_eq!(verdict, Verdict::Accepted, "{packet:?}");
                to.settle();
                all.push(packet);
            }
        }
    }
    pair.assert_all_done();
    // The response to the READ acknowledges the SEND.
    assert_eq!(all.len(), 4 + 1 + 1 + 4 + 1);
    assert_eq!(pair.a.conn.poll_timeout(), None);
}

#[test]
fn nothing_in_flight_needs_no_timer() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Write, vec![0; 4], 0);
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    assert!(node.conn.poll_timeout().is_some());
    node.conn.undo(&t, &mut node.host);
    assert_eq!(node.conn.poll_timeout(), None);
    // Taking a packet back costs no retry, however often.
    for _ in 0..100 {
        let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
        node.conn.undo(&t, &mut node.host);
    }
    assert_eq!(node.transmit_all(NOW).len(), 1);
    assert!(node.statuses().is_empty());
}

#[test]
fn a_read_taken_back_while_late_answers_come() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.conn.keep_responses(false);
    node.post(SendOp::Read, vec![0; 1000], 0);
    node.transmit_all(NOW);
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseMiddle, 2, 256));
    let t = node.conn.poll_transmit(NOW, 1, &mut node.host).unwrap();
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseFirst, 0, 256));
    node.conn.undo(&t, &mut node.host);
    let again: Vec<_> = node.transmit_all(NOW).iter().map(Packet::psn).collect();
    assert_eq!(again, [1], "the rest is asked for, not forgotten");
}

/// A queue without memory behind it, for requests of two gibibytes.
struct Huge(Vec<Request>);

impl RequestQueue for Huge {
    fn tail(&self) -> u32 {
        self.0.len() as u32
    }
    fn get(&self, n: u32) -> Option<&Request> {
        self.0.get(n as usize)
    }
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.0.get_mut(n as usize)
    }
}

/// The READs that are sent now: the address and the length of each.
fn reads<Q: RequestQueue>(node: &mut Node, now: Instant, q: &mut Q) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| node.conn.poll_transmit(now, 1, q))
        .map(|t| t.header.ext.reth().map(|reth| (reth.va, reth.dma_len)))
        .map(Option::unwrap)
        .collect()
}

#[test]
fn a_read_of_two_gibibytes_is_asked_for_in_pieces() {
    const CHUNK: u32 = READ_CHUNK * 256;
    let mut node = Node::new(1, &config(), 0xff_ff00, 0);
    let len = 1u32 << 31;
    let read = Request::new(SendOp::Read, len, 0, RKEY, signaled());
    let mut q = Huge(vec![read, read]);
    let asked = reads(&mut node, NOW, &mut q);
    let all: Vec<_> = (0..4).map(|i| (u64::from(i * CHUNK), CHUNK)).collect();
    assert_eq!(asked, all, "as many as may be under way");
    assert_eq!(
        node.conn.requester().next_psn(),
        psn(0xff_ff00 + 4 * READ_CHUNK)
    );
    // There is no response: after the timeout one at a time is sent.
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut q);
    assert_eq!(reads(&mut node, end, &mut q), [(0, CHUNK)]);
}

#[test]
fn a_read_resumed_keeps_to_its_pieces() {
    let mut node = Node::new(1, &config(), 0, 0);
    const CHUNK: u32 = READ_CHUNK;
    node.conn.keep_responses(false);
    node.post(SendOp::Read, vec![0; 300 * 256 + 1], 0);
    let asked = |node: &mut Node| -> Vec<_> {
        let all = node.transmit_all(NOW);
        all.iter()
            .map(|p| (p.psn(), p.header.ext.reth().unwrap().dma_len))
            .collect()
    };
    assert_eq!(
        asked(&mut node),
        [
            (0, CHUNK * 256),
            (CHUNK, CHUNK * 256),
            (2 * CHUNK, (300 - 2 * CHUNK) * 256 + 1)
        ]
    );
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseFirst, 0, 256));
    // The next one is lost.
    let _ = node.receive(NOW, &response(Opcode::RcReadResponseMiddle, 2, 256));
    assert_eq!(
        asked(&mut node),
        [(1, (CHUNK - 1) * 256)],
        "one piece, and no more than is left"
    );
    for at in 1..CHUNK {
        let opcode = match at {
            1 => Opcode::RcReadResponseFirst,
            _ if at + 1 == CHUNK => Opcode::RcReadResponseLast,
            _ => Opcode::RcReadResponseMiddle,
        };
        assert_eq!(
            node.receive(NOW, &response(opcode, at, 256)),
            Verdict::Accepted
        );
    }
    assert_eq!(
        asked(&mut node),
        [
            (CHUNK, CHUNK * 256),
            (2 * CHUNK, (300 - 2 * CHUNK) * 256 + 1)
        ]
    );
}

/// The responder sends a chunk at once: where the READ window is small, chunks are. A READ that has
/// started keeps its own.
#[test]
fn a_small_window_makes_small_chunks() {
    let mut node = Node::new(1, &config(), 0, 0);
    let asked = |node: &mut Node, now| -> Vec<_> {
        let all = node.transmit_all(now);
        all.iter()
            .map(|p| (p.psn(), p.header.ext.reth().unwrap().dma_len))
            .collect()
    };
    node.post(SendOp::Read, vec![0; 10 * 256], 0);
    assert_eq!(asked(&mut node, NOW), [(0, 10 * 256)]);
    let now = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(now, &mut node.host);
    assert_eq!(node.conn.requester().snapshot().read_window, 8);
    assert_eq!(asked(&mut node, now), [(0, 10 * 256)]);
    for at in 0..10 {
        let opcode = match at {
            0 => Opcode::RcReadResponseFirst,
            9 => Opcode::RcReadResponseLast,
            _ => Opcode::RcReadResponseMiddle,
        };
        let verdict = node.receive(now, &response(opcode, at, 256));
        assert_eq!(verdict, Verdict::Accepted);
    }
    node.post(SendOp::Read, vec![0; 20 * 256], 0);
    assert_eq!(asked(&mut node, now), [(10, 4 * 256), (14, 4 * 256)]);
}

/// IBTA 9.7.6.1: the last response packet to a READ request says that it is the last.
#[test]
fn a_piece_that_does_not_end_is_refused() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 300 * 256], 0);
    node.transmit_all(NOW);
    let last = READ_CHUNK - 1;
    for at in 0..last {
        let opcode = match at {
            0 => Opcode::RcReadResponseFirst,
            _ => Opcode::RcReadResponseMiddle,
        };
        assert_eq!(
            node.receive(NOW, &response(opcode, at, 256)),
            Verdict::Accepted
        );
    }
    let middle = response(Opcode::RcReadResponseMiddle, last, 256);
    assert_eq!(
        node.receive(NOW, &middle),
        Verdict::Dropped(DropReason::BadResponse)
    );
    node.settle();
    assert_eq!(node.statuses(), [Status::BadResp]);
}

/// IBTA 9.7.2: a READ has up to 2^31 bytes.
#[test]
fn a_read_of_two_gibibytes_is_answered_and_taken() {
    // Every packet is processed, but there is no memory behind the payload.
    let mut a = Node::new(1, &config(), 0xff_ff00, 0);
    let mut b = Node::new(2, &config(), 0, 0xff_ff00);
    let len = 1u32 << 31;
    let mut sink = Sink::new(Request::new(SendOp::Read, len, 7, RKEY, signaled()));
    let mut packets = 0u32;
    while packets < 1 << 23 {
        if let Some(request) = a.conn.poll_transmit(NOW, 1, &mut sink) {
            let _ = b.conn.handle_packet(NOW, &request.header, 0, &mut sink);
            continue;
        }
        let t = b.conn.poll_transmit(NOW, 1, &mut b.host).unwrap();
        sink.expect = t.payload;
        let payload = t.payload.len();
        let verdict = a.conn.handle_packet(NOW, &t.header, payload, &mut sink);
        assert_eq!(verdict, Verdict::Accepted);
        packets += 1;
        if packets == 5_000_000 {
            // A response is lost far into the READ: the requester asks for the rest, in the same
            // chunks.
            let end = a.conn.poll_timeout().unwrap();
            a.conn.handle_timeout(end, &mut sink);
            let again = a.conn.poll_transmit(end, 1, &mut sink).unwrap();
            let reth = again.header.ext.reth().unwrap();
            assert_eq!(reth.va, 7 + 256 * 5_000_000);
            let left = READ_CHUNK - 5_000_000 % READ_CHUNK;
            assert_eq!(reth.dma_len, 256 * left);
            let _ = b.conn.handle_packet(NOW, &again.header, 0, &mut sink);
        }
    }
    let done = a.conn.poll_send_completion(&mut sink).unwrap();
    assert_eq!((done.status, done.byte_len), (Status::Success, len));
    assert_eq!(sink.placed, u64::from(len));
}

#[test]
fn a_long_read_has_more_under_way_with_each_piece_that_comes() {
    let many = Modify {
        max_rd_atomic: Some(64),
        ..config()
    };
    let mut a = Node::new(1, &many, 0, 0);
    let mut b = Node::with_resources(64, 2, &config(), 0, 0);
    let mut sink = Sink::new(Request::new(SendOp::Read, 1 << 25, 0, RKEY, signaled()));
    let mut under_way = Vec::new();
    let mut came = 0;
    while came < (1 << 25) / 256 {
        while let Some(request) = a.conn.poll_transmit(NOW, 1, &mut sink) {
            let verdict = b.conn.handle_packet(NOW, &request.header, 0, &mut sink);
            assert_eq!(verdict, Verdict::Accepted);
        }
        under_way.push(a.conn.requester().next_psn().get() - came);
        for _ in 0..READ_CHUNK {
            let Some(t) = b.conn.poll_transmit(NOW, 1, &mut b.host) else {
                break;
            };
            sink.expect = t.payload;
            let payload = t.payload.len();
            let verdict = a.conn.handle_packet(NOW, &t.header, payload, &mut sink);
            assert_eq!(verdict, Verdict::Accepted);
            came += 1;
        }
    }
    assert_eq!(under_way[0], 4 * READ_CHUNK);
    let most = under_way.iter().copied().max().unwrap();
    assert_eq!(most, 32 * READ_CHUNK);
    let soon = under_way.iter().position(|n| *n == most).unwrap();
    assert!(
        (28 * 8..28 * 32).contains(&soon),
        "slowly: {soon} pieces came before"
    );
    let steps = under_way[..soon].windows(2);
    assert!(steps
        .into_iter()
        .all(|w| w[0] <= w[1] && w[1] - w[0] <= READ_CHUNK));
}
