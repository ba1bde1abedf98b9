// SPDX-License-Identifier: GPL-2.0

//! Connections that react to congestion notifications: what these cut, and what goes on.

use super::super::common::dcqcn::Params;
use super::super::wire::{BthRepr, Ext, Opcode, PKey, PacketRepr, Qpn, Syndrome};
use super::super::{
    ConnectedQp, DropReason, Instant, Modify, ReactionPoint, RequesterEvent, SendOp, State, Verdict,
};
use super::pair::*;
use proptest::prelude::*;

const US: u64 = 1000;
/// The line's rate in Mb/s. A notification leaves about half of it.
const LINE: u32 = 1000;
/// Bytes of a packet with payload on the wire.
const BYTES: u64 = 256 + 44;

fn cnp() -> Packet {
    let mut bth = BthRepr::new(Opcode::Cnp, PKey::DEFAULT, Qpn::new(5), psn(0));
    bth.becn = true;
    let header = PacketRepr { bth, ext: Ext::Cnp };
    Packet {
        header,
        payload: Vec::new(),
    }
}

fn reacting(line: u32) -> Node {
    let mut node = Node::new(1, &config(), 0, 0);
    node.conn
        .react(ReactionPoint::dcqcn(Params::CONNECTX, line));
    node
}

/// A node that was notified at the time 0.
fn notified(line: u32) -> Node {
    let mut node = reacting(line);
    assert_eq!(node.receive(Instant(0), &cnp()), Verdict::Accepted);
    node
}

fn handled(node: &mut Node) -> u32 {
    let counts = node.conn.take_counts().unwrap_or_default();
    counts[RequesterEvent::CnpHandled as usize]
}

fn write(node: &mut Node, packets: usize) {
    node.post(SendOp::Write, vec![0; 256 * packets], 0);
}

/// The packets that the node sends from `now` until `end`, each with its time.
fn sent_until(node: &mut Node, mut now: Instant, end: Instant) -> Vec<(u64, Packet)> {
    let mut sent = Vec::new();
    loop {
        sent.extend(node.transmit_all(now).into_iter().map(|p| (now.0, p)));
        now = match node.conn.poll_timeout() {
            Some(due) if due <= end => due,
            _ => return sent,
        };
        node.conn.handle_timeout(now, &mut node.host);
        assert!(node.conn.poll_timeout().is_none_or(|due| due > now));
    }
}

#[test]
fn a_queue_pair_that_does_not_react_ignores_a_cnp() {
    let mut node = Node::new(1, &config(), 0, 0);
    let verdict = node.receive(Instant(0), &cnp());
    assert_eq!(verdict, Verdict::Dropped(DropReason::Cnp));
    assert_eq!(handled(&mut node), 0);
    write(&mut node, 100);
    assert_eq!(node.transmit_all(Instant(0)).len(), 100);
}

/// Without a notification a queue pair that reacts sends as one that does not: long super-packets,
/// and no timer but the ACK timeout's.
#[test]
fn without_a_notification_nothing_is_limited() {
    let sent = |node: &mut Node| {
        write(node, 100);
        let poll = |_| node.conn.poll_transmit(Instant(5), 61, &mut node.host);
        let sent: Vec<_> = (0..200).map_while(poll).collect();
        (sent, node.conn.poll_timeout())
    };
    let (mut plain, mut node) = (Node::new(1, &config(), 0, 0), reacting(LINE));
    let (want, got) = (sent(&mut plain), sent(&mut node));
    assert!(want.0.iter().any(|t| t.segments > 16));
    assert_eq!(got, want);
}

/// After a CNP requests go at the rate that it left, in bursts of up to 60 us.
#[test]
fn requests_are_spaced() {
    let mut node = notified(LINE);
    assert_eq!(handled(&mut node), 1);
    write(&mut node, 100);
    let sent = sent_until(&mut node, Instant(0), Instant(280 * US));
    // 500 Mb/s: 62.5 bytes in a microsecond.
    let most = 280.0 * 62.6 + 60.0 * 62.6 + BYTES as f64;
    let bytes = sent.len() as f64 * BYTES as f64;
    assert!((0.8 * most..=most).contains(&bytes), "{}", sent.len());
    let mut times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    times.dedup();
    for (at, next) in times.iter().zip(&times[1..]) {
        let burst = sent.iter().filter(|(then, _)| then == at).count() as u64;
        assert!(burst <= 13, "{burst} packets at {at}");
        // 4.8 ns a bit at 500 Mb/s is 16 ns a byte.
        assert!(next - at >= (burst - 1) * BYTES * 15, "{at}, {next}");
    }
}

/// The last packet of each burst asks for an acknowledgement, as the next one may be far.
#[test]
fn a_burst_asks_for_an_acknowledgement() {
    let mut node = notified(LINE);
    write(&mut node, 100);
    let mut now = Instant(0);
    for _ in 0..5 {
        let burst = node.transmit_all(now);
        assert!(burst.last().expect("a burst").header.bth.ack_req);
        now = node.conn.poll_timeout().expect("more");
        node.conn.handle_timeout(now, &mut node.host);
    }
}

/// Segments of one super-packet are a burst, and no longer than that.
#[test]
fn super_packets_are_as_long_as_the_rate_allows() {
    let segments = |line| {
        let mut node = notified(line);
        write(&mut node, 100);
        let poll = |_| node.conn.poll_transmit(Instant(0), 61, &mut node.host);
        let all: Vec<_> = (0..100).map_while(poll).map(|t| t.segments).collect();
        (all.iter().copied().max().unwrap(), all.iter().sum::<u16>())
    };
    let (longest, all) = segments(LINE);
    assert!((10..=12).contains(&longest) && all <= 13, "{longest} {all}");
    // 5 Gb/s.
    let (longest, all) = segments(10 * LINE);
    assert!(longest >= 30 && all >= 98, "{longest} {all}");
}

/// The responses to a READ of the peer are packets of this queue pair: they are spaced as well.
#[test]
fn read_responses_are_spaced() {
    let mut node = notified(LINE);
    let mut peer = Node::new(2, &config(), 0, 0);
    peer.conn.open_windows(128, 4 * 122);
    peer.post(SendOp::Read, vec![0; 256 * 100], 0);
    for packet in peer.transmit_all(Instant(0)) {
        assert_eq!(node.receive(Instant(0), &packet), Verdict::Accepted);
    }
    let sent = sent_until(&mut node, Instant(0), Instant(280 * US));
    assert!((60..=70).contains(&sent.len()), "{}", sent.len());
    let read = |p: &Packet| p.opcode().kind() == Opcode::RcReadResponseMiddle.kind();
    assert!(sent.iter().all(|(_, packet)| read(packet)));
}

/// No timer runs for a connection that ends, so its last responses, and the NAK that follows them,
/// do not wait (IBTA 9.7.5.1: they keep their order).
#[test]
fn the_end_does_not_wait() {
    let mut node = notified(LINE);
    let mut peer = Node::new(2, &config(), 0, 0);
    peer.conn.open_windows(128, 4 * 122);
    peer.post(SendOp::Read, vec![0; 256 * 100], 0);
    peer.post(SendOp::Write, vec![0; 256], u64::MAX);
    let packets = peer.transmit_all(Instant(0));
    let [read, write] = &packets[..] else {
        panic!("{} packets", packets.len());
    };
    assert_eq!(node.receive(Instant(0), read), Verdict::Accepted);
    assert!(node.transmit_all(Instant(0)).len() < 20);
    assert_ne!(node.receive(Instant(0), write), Verdict::Accepted);
    assert_eq!(node.conn.state(), State::Err);
    let sent = node.transmit_all(Instant(0));
    assert!(sent.len() > 80, "{}", sent.len());
    let nak = sent.last().unwrap();
    assert_eq!(nak.opcode(), Opcode::RcAck);
    assert!(matches!(nak.syndrome(), Some(Syndrome::Nak { .. })));
}

/// A burst, after which the next one is held back.
fn held_back() -> Node {
    let mut node = notified(LINE);
    write(&mut node, 100);
    assert!(node.transmit_all(Instant(0)).len() < 20);
    assert!(node.transmit_all(Instant(US)).is_empty());
    node
}

/// ACKs are not held back, while requests are.
#[test]
fn acknowledgements_do_not_wait() {
    let mut node = held_back();
    let mut peer = Node::new(2, &config(), 0, 0);
    peer.post(SendOp::Write, vec![0; 100], 0);
    for packet in peer.transmit_all(Instant(US)) {
        assert_eq!(node.receive(Instant(US), &packet), Verdict::Accepted);
    }
    node.conn.flush_delayed();
    let sent = node.transmit_all(Instant(US));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].opcode(), Opcode::RcAck);
}

/// Nor are READ requests, unless they are behind requests that are.
#[test]
fn read_requests_do_not_wait() {
    let mut node = notified(LINE);
    // A burst.
    write(&mut node, 13);
    node.post(SendOp::Read, vec![0; 256], 0);
    let sent = node.transmit_all(Instant(0));
    assert_eq!(sent.last().unwrap().opcode(), Opcode::RcReadRequest);
    let mut node = held_back();
    node.post(SendOp::Read, vec![0; 256], 0);
    assert!(node.transmit_all(Instant(US)).is_empty());
}

/// The BECN bit of a packet that is accepted is a notification, and that of another is none.
#[test]
fn becn_is_a_notification() {
    let rate = |packet: &Packet, verdict| {
        let mut node = reacting(LINE);
        write(&mut node, 10);
        node.transmit_all(Instant(0));
        assert_eq!(node.receive(Instant(US), packet), verdict);
        assert_eq!(handled(&mut node), 0, "it is no CNP");
        node.conn.reaction().last_rate()
    };
    let mut becn = ack(3);
    becn.header.bth.becn = true;
    let cut = rate(&becn, Verdict::Accepted).expect("it is limited");
    assert!(cut.abs_diff(500_000_000) < 1_000_000, "{cut}");
    assert_eq!(rate(&ack(3), Verdict::Accepted), None);
    let mut ghost = ack(500);
    ghost.header.bth.becn = true;
    assert_eq!(rate(&ghost, Verdict::Dropped(DropReason::Ghost)), None);
}

/// IBTA annex A17.9.3: a notification is of the queue pair; a reset forgets it.
#[test]
fn a_reset_forgets_notifications() {
    let mut node = held_back();
    assert!(node.conn.reaction().last_rate().is_some());
    node.conn.modify(&Modify::to_state(State::Reset)).unwrap();
    assert!(node.conn.reaction().reacts());
    assert_eq!(node.conn.reaction().last_rate(), None);
    let verdict = node.receive(Instant(0), &cnp());
    assert_eq!(verdict, Verdict::Dropped(DropReason::State));
}

/// A burst that could not be sent is no burst.
#[test]
fn what_was_not_sent_does_not_count() {
    let mut node = notified(10);
    write(&mut node, 10);
    let (transmit, _) = node.transmit(Instant(0)).expect("a packet");
    assert!(node.transmit_all(Instant(0)).is_empty());
    node.conn.undo(&transmit, &mut node.host);
    let sent = node.transmit_all(Instant(0));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].psn(), 0);
}

/// The rate grows while nothing is sent: after a long silence there is no limit.
#[test]
fn the_limit_ends_by_itself() {
    let mut node = notified(LINE);
    write(&mut node, 100);
    assert_eq!(node.transmit_all(Instant(10_000_000 * US)).len(), 100);
    assert_eq!(node.conn.reaction().last_rate(), None);
}

/// How many packets of the middle of a message are expected to follow is no more than the burst
/// has room for, so that no super-packet is allocated in vain.
#[test]
fn followers_are_those_of_the_burst() {
    let mut node = notified(LINE);
    write(&mut node, 100);
    node.transmit(Instant(0)).expect("the first packet");
    let (transmit, _) = node.transmit(Instant(0)).expect("a middle packet");
    let expected = node.conn.followers(&transmit, &node.host);
    assert!((7..=11).contains(&expected), "{expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever is posted, and however often both ends are notified, everything completes and
    /// arrives.
    #[test]
    fn notified_connections_finish(
        line in 1..10_000u32,
        ops in proptest::collection::vec((0..3u8, 0..6000usize), 1..8),
        every in 1..20usize,
        lose in 5..60usize,
    ) {
        let mut pair = Pair::new();
        for node in [&mut pair.a, &mut pair.b] {
            node.conn.react(ReactionPoint::dcqcn(Params::CONNECTX, line));
        }
        for (op, len) in &ops {
            match op {
                0 => pair.a.post(SendOp::Write, pattern(*len, 3), 0),
                1 => pair.a.post(SendOp::Read, vec![0; *len], 0),
                _ => pair.b.post(SendOp::Write, pattern(*len, 4), 20_000),
            };
        }
        let mut next = every;
        for _ in 0..100_000 {
            pair.exchange(|n, _, packet| match packet.payload.is_empty() {
                false if n % lose == lose - 1 => Fate::Lose,
                _ => Fate::Deliver,
            });
            if pair.log.len() >= next {
                next = pair.log.len() + every;
                let _ = pair.a.receive(pair.now, &cnp());
                let _ = pair.b.receive(pair.now, &cnp());
            }
            let due = [pair.a.conn.poll_timeout(), pair.b.conn.poll_timeout()];
            let Some(due) = due.into_iter().flatten().min() else { break };
            pair.now = pair.now.max(due);
            for node in [&mut pair.a, &mut pair.b] {
                node.conn.handle_timeout(pair.now, &mut node.host);
                prop_assert!(node.conn.poll_timeout().is_none_or(|due| due > pair.now));
                node.settle();
            }
        }
        pair.assert_all_done();
        prop_assert_eq!(pair.b.host.completed.len(), pair.b.host.requests.len());
    }
}

/// The payload of a response may be cut anywhere, and all of it arrives.
#[test]
fn a_long_read_arrives_in_bursts() {
    let mut pair = Pair::new();
    pair.b
        .conn
        .react(ReactionPoint::dcqcn(Params::CONNECTX, 200));
    assert_eq!(pair.b.receive(Instant(0), &cnp()), Verdict::Accepted);
    pair.a.post(SendOp::Read, vec![0; 50_000], 0);
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.a.host.local[0], pair.b.host.memory[..50_000]);
    assert!(pair.now.0 > 2000 * US, "{:?}", pair.now);
    let responses = pair.sent(Way::BtoA);
    assert!(responses.iter().all(|p| p.payload.len() <= 256));
}
