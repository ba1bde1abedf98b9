// SPDX-License-Identifier: GPL-2.0

//! The chunks of long READs, and the window of READ responses.

use super::super::rc::requester::cwnd::MAX_WINDOW;
use super::super::rc::requester::read_chunk::READ_CHUNK;
use super::super::{
    ConnectedQp, DropReason, Instant, Modify, Request, RequestQueue, SendOp, Status, Verdict,
};
use super::pair::*;
use super::sink::Sink;
use std::collections::VecDeque;

const NOW: Instant = Instant(0);

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
    node.conn.open_windows(0, READ_WINDOW);
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
    const CHUNK: u32 = READ_CHUNK;
    let mut node = Node::new(1, &config(), 0, 0);
    node.conn.keep_responses(false);
    node.conn.open_windows(0, READ_WINDOW);
    node.post(SendOp::Read, vec![0; 300 * 256], 0);
    let asked = |node: &mut Node| reads_asked(&node.transmit_all(NOW));
    let others = [(CHUNK, 2 * CHUNK), (2 * CHUNK, 300)];
    let first = asked(&mut node);
    assert_eq!((first[0], &first[1..]), ((0, CHUNK), &others[..]));
    // The second response is lost.
    for at in [0, 2] {
        let _ = node.receive(NOW, &read_response(at, 0, CHUNK));
    }
    assert_eq!(
        asked(&mut node),
        [(1, CHUNK)],
        "one piece, no more than is left"
    );
    for at in 1..CHUNK {
        let verdict = node.receive(NOW, &read_response(at, 1, CHUNK));
        assert_eq!(verdict, Verdict::Accepted);
    }
    assert_eq!(asked(&mut node), others);
}

/// The responder sends a chunk at once: where the READ window is small, chunks are. They grow with
/// the window, also those of a READ that has started.
#[test]
fn a_small_window_makes_small_chunks() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 100 * 256], 0);
    let mut asked = reads_asked(&node.transmit_all(NOW));
    assert_eq!(asked, [(0, 8), (8, 16)]);
    let mut sizes = Vec::new();
    let mut at = 0;
    while at < 100 {
        let (from, end) = asked[sizes.len()];
        sizes.push(end - from);
        for at in from..end {
            let _ = node.receive(NOW, &read_response(at, from, end));
        }
        node.settle();
        at = end;
        asked.extend(reads_asked(&node.transmit_all(NOW)));
    }
    // Half of a window that grows by what it gets.
    assert_eq!(sizes[..6], [8, 8, 12, 16, 22, 30], "{asked:?}");
    assert_eq!(node.statuses(), [Status::Success]);
}

/// IBTA 9.7.5.1.3: what was asked for by one READ request is asked for again by READ requests that
/// lie within that one, whatever the window is then, as the responder has a resource for each.
#[test]
fn what_is_asked_for_again_lies_in_what_was_asked_for() {
    for lost in 0..200 {
        let mut node = Node::new(1, &config(), 0, 0);
        node.conn.keep_responses(lost % 2 == 0);
        node.post(SendOp::Read, vec![0; 200 * 256], 0);
        let mut now = NOW;
        let mut asked: Vec<(u32, u32)> = Vec::new();
        let mut responses = VecDeque::new();
        let mut taken = 0;
        loop {
            for (from, end) in reads_asked(&node.transmit_all(now)) {
                let known = asked.last().map_or(0, |(_, end)| *end);
                let within = |all: &(u32, u32)| all.0 <= from && end <= all.1;
                assert!(from == known || asked.iter().any(within), "{from}..{end}");
                if from == known {
                    asked.push((from, end));
                }
                responses.extend((from..end).map(|at| (at, from, end)));
            }
            let Some((at, from, end)) = responses.pop_front() else {
                let Some(timeout) = node.conn.poll_timeout() else {
                    break;
                };
                now = timeout;
                node.conn.handle_timeout(now, &mut node.host);
                continue;
            };
            taken += 1;
            if taken != lost + 1 && taken != lost + 20 {
                let _ = node.receive(now, &read_response(at, from, end));
                node.settle();
            }
        }
        assert_eq!(node.statuses(), [Status::Success], "{lost}");
    }
}

/// IBTA 9.7.6.1: the last response packet to a READ request says that it is the last.
#[test]
fn a_piece_that_does_not_end_is_refused() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.conn.open_windows(0, READ_WINDOW);
    node.post(SendOp::Read, vec![0; 300 * 256], 0);
    node.transmit_all(NOW);
    let last = READ_CHUNK - 1;
    for at in 0..last {
        let verdict = node.receive(NOW, &read_response(at, 0, READ_CHUNK));
        assert_eq!(verdict, Verdict::Accepted);
    }
    let middle = read_response(last, 0, READ_CHUNK + 1);
    let refused = Verdict::Dropped(DropReason::BadResponse);
    assert_eq!(node.receive(NOW, &middle), refused);
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
    let mut asked = Vec::new();
    let mut now = NOW;
    while packets < 1 << 23 {
        if let Some(request) = a.conn.poll_transmit(now, 1, &mut sink) {
            let reth = request.header.ext.reth().unwrap();
            asked.push((reth.va, reth.dma_len));
            let _ = b.conn.handle_packet(now, &request.header, 0, &mut sink);
            continue;
        }
        let Some(t) = b.conn.poll_transmit(now, 1, &mut b.host) else {
            // After the loss the next request may wait for its time.
            now = a.conn.poll_timeout().unwrap();
            a.conn.handle_timeout(now, &mut sink);
            continue;
        };
        sink.expect = t.payload;
        let payload = t.payload.len();
        let verdict = a.conn.handle_packet(now, &t.header, payload, &mut sink);
        assert_eq!(verdict, Verdict::Accepted);
        packets += 1;
        if packets == 5_000_000 {
            // A response is lost far into the READ: the requester asks for the rest of its chunk.
            now = a.conn.poll_timeout().unwrap();
            a.conn.handle_timeout(now, &mut sink);
            let again = a.conn.poll_transmit(now, 1, &mut sink).unwrap();
            let reth = again.header.ext.reth().unwrap();
            assert_eq!(reth.va, 7 + 256 * 5_000_000);
            let chunk = asked.iter().rev().find(|(start, _)| *start <= reth.va);
            let (start, len) = chunk.unwrap();
            assert_eq!(reth.va + u64::from(reth.dma_len), start + u64::from(*len));
            let _ = b.conn.handle_packet(now, &again.header, 0, &mut sink);
        }
    }
    let done = a.conn.poll_send_completion(&mut sink).unwrap();
    assert_eq!((done.status, done.byte_len), (Status::Success, len));
    assert_eq!(sink.placed, u64::from(len));
}

/// How many PSNs of a READ of 32 MiB are under way each time that a requester has asked for more,
/// if a piece comes `queued` nanoseconds later than the one before.
fn under_way(queued: u64) -> Vec<u32> {
    let many = Modify {
        max_rd_atomic: Some(64),
        ..config()
    };
    let mut a = Node::new(1, &many, 0, 0);
    let mut b = Node::with_resources(64, 2, &config(), 0, 0);
    let mut sink = Sink::new(Request::new(SendOp::Read, 1 << 25, 0, RKEY, signaled()));
    let (mut under_way, mut came, mut now) = (Vec::new(), 0, NOW);
    while came < (1 << 25) / 256 {
        while let Some(request) = a.conn.poll_transmit(now, 1, &mut sink) {
            let verdict = b.conn.handle_packet(now, &request.header, 0, &mut sink);
            assert_eq!(verdict, Verdict::Accepted);
        }
        let next = a.conn.requester().next_psn().get();
        under_way.push(next - came);
        now = now.after(queued);
        for _ in 0..READ_CHUNK {
            let Some(t) = b.conn.poll_transmit(now, 1, &mut b.host) else {
                break;
            };
            sink.expect = t.payload;
            let payload = t.payload.len();
            let verdict = a.conn.handle_packet(now, &t.header, payload, &mut sink);
            assert_eq!(verdict, Verdict::Accepted);
            came += 1;
        }
    }
    assert_eq!(under_way[0], 16);
    under_way
}

/// Packets that wait in a queue do not make the window larger than that of a short path, but for
/// the time that the smoothed round trip time needs to grow.
#[test]
fn a_long_read_has_more_under_way_with_each_piece_that_comes() {
    let under_way = under_way(1000);
    let most = under_way.iter().copied().max().unwrap();
    assert!((READ_WINDOW..2 * READ_WINDOW).contains(&most), "{most}");
    let many = under_way.iter().position(|n| *n >= READ_WINDOW).unwrap();
    assert!((4..10).contains(&many), "{many} steps to four chunks");
}

/// Where more packets under way take no longer, the path holds them.
#[test]
fn a_long_path_is_filled() {
    let under_way = under_way(0);
    let most = under_way.iter().copied().max().unwrap();
    assert!((MAX_WINDOW * 9 / 10..=MAX_WINDOW).contains(&most), "{most}");
}
