// SPDX-License-Identifier: GPL-2.0

//! Recovery of the requester, with packets made by hand: which responses count as new, and which as
//! repeated.

use super::super::wire::{
    AethRepr, BthRepr, Ext, NakCode, Opcode, PKey, PacketRepr, Qpn, RnrTimer, Syndrome,
};
use super::super::{DropReason, Instant, Modify, SendOp, Status, Verdict};
use super::pair::*;
use std::collections::VecDeque;

const NOW: Instant = Instant(0);
const TIMEOUT: u64 = 4096 << 10;
const SEQUENCE: Syndrome = Syndrome::Nak {
    code: NakCode::PsnSequence,
};
const NOT_READY: Syndrome = Syndrome::RnrNak {
    timer: RnrTimer::new(1),
};

fn answer(opcode: Opcode, at: u32, syndrome: Syndrome, len: usize) -> Packet {
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext: Ext::Aeth(AethRepr { syndrome, msn: 0 }),
        },
        payload: vec![3; len],
    }
}

fn reply(at: u32, syndrome: Syndrome) -> Packet {
    answer(Opcode::RcAck, at, syndrome, 0)
}

/// A requester with `count` SENDs of one packet each in flight, from PSN 0 on.
fn sends(config: &Modify, count: usize) -> Node {
    let mut node = Node::new(1, config, 0, 0);
    for _ in 0..count {
        node.post(SendOp::Send, vec![0; 4], 0);
    }
    assert_eq!(node.transmit_all(NOW).len(), count);
    node
}

fn psns(node: &mut Node, now: Instant) -> Vec<u32> {
    node.transmit_all(now).iter().map(Packet::psn).collect()
}

/// IBTA 9.7.5.1.2: an ACK acknowledges every request up to its PSN, however often these were sent.
#[test]
fn answers_to_the_first_flight_count_during_the_second() {
    let mut node = sends(&config(), 10);
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut node.host);
    assert_eq!(node.transmit(end).unwrap().1.psn(), 0);
    assert_eq!(
        node.receive(end, &reply(7, Syndrome::ACK)),
        Verdict::Accepted
    );
    assert_eq!(psns(&mut node, end), [8, 9], "what has arrived is skipped");
    assert_eq!(
        node.receive(end, &reply(9, Syndrome::ACK)),
        Verdict::Accepted
    );
    node.settle();
    assert_eq!(node.statuses(), [Status::Success; 10]);
}

/// IBTA 9.7.5.1.1: a response acknowledges the requests before its own.
#[test]
fn a_response_completes_the_requests_before_its_own() {
    let mut node = sends(&config(), 2);
    node.post(SendOp::Read, vec![0; 4], 0);
    assert_eq!(psns(&mut node, NOW), [2]);
    let only = answer(Opcode::RcReadResponseOnly, 2, Syndrome::ACK, 4);
    assert_eq!(node.receive(NOW, &only), Verdict::Accepted);
    node.settle();
    assert_eq!(node.statuses(), [Status::Success; 3]);
    assert_eq!(node.conn.poll_timeout(), None);
}

/// IBTA 9.7.6.1.3: the timer runs while requests are outstanding, and restarts with each
/// acknowledgement.
#[test]
fn the_timer_runs_for_the_oldest_packet() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Send, vec![0; 600], 0);
    for at in [10, 20, 30] {
        node.transmit(Instant(at)).unwrap();
        assert_eq!(node.conn.poll_timeout(), Some(Instant(10 + TIMEOUT)));
    }
    let _ = node.receive(Instant(500), &reply(0, Syndrome::ACK));
    assert_eq!(
        node.conn.poll_timeout(),
        Some(Instant(500 + TIMEOUT)),
        "progress restarts it"
    );
    let _ = node.receive(Instant(600), &reply(0, Syndrome::ACK));
    assert_eq!(
        node.conn.poll_timeout(),
        Some(Instant(500 + TIMEOUT)),
        "an echo does not"
    );
    node.conn
        .handle_timeout(Instant(499 + TIMEOUT), &mut node.host);
    assert!(node.transmit(Instant(499 + TIMEOUT)).is_none(), "too early");
    let _ = node.receive(Instant(700), &reply(2, Syndrome::ACK));
    assert_eq!(node.conn.poll_timeout(), None);
}

#[test]
fn a_nak_said_twice_is_heard_once() {
    let mut node = sends(&config(), 3);
    node.conn.keep_requests(false);
    assert_eq!(node.receive(NOW, &reply(1, SEQUENCE)), Verdict::Accepted);
    assert_eq!(psns(&mut node, NOW), [1, 2]);
    assert_eq!(
        node.receive(NOW, &reply(1, SEQUENCE)),
        Verdict::Dropped(DropReason::RepeatedNak)
    );
    assert!(psns(&mut node, NOW).is_empty());
    // A NAK for a later packet is new.
    assert_eq!(node.receive(NOW, &reply(2, SEQUENCE)), Verdict::Accepted);
    assert_eq!(psns(&mut node, NOW), [2]);
}

#[test]
fn after_a_timeout_or_an_rnr_wait_the_next_nak_is_news() {
    for rnr in [false, true] {
        let mut node = sends(&config(), 3);
        node.conn.keep_requests(false);
        assert_eq!(node.receive(NOW, &reply(0, SEQUENCE)), Verdict::Accepted);
        assert_eq!(psns(&mut node, NOW), [0, 1, 2]);
        if rnr {
            assert_eq!(node.receive(NOW, &reply(0, NOT_READY)), Verdict::Accepted);
        }
        let end = node.conn.poll_timeout().unwrap();
        node.conn.handle_timeout(end, &mut node.host);
        // A timeout leaves a window of one packet.
        let again = if rnr { &[0, 1, 2][..] } else { &[0] };
        assert_eq!(psns(&mut node, end), again);
        assert_eq!(node.receive(end, &reply(0, SEQUENCE)), Verdict::Accepted);
        assert_eq!(psns(&mut node, end), again);
    }
}

/// IBTA 9.9.2.1: an acknowledgement restores the retry counters.
#[test]
fn progress_restores_the_rnr_retries() {
    let config = Modify {
        rnr_retry: Some(1),
        ..config()
    };
    let mut node = sends(&config, 3);
    for at in 0..3 {
        assert_eq!(node.receive(NOW, &reply(at, NOT_READY)), Verdict::Accepted);
        let end = node.conn.poll_timeout().unwrap();
        assert!(node.transmit(NOW).is_none());
        // `transmit` itself notices that the wait is over, without a call of the timer.
        assert_eq!(node.transmit(end).unwrap().1.psn(), at);
    }
    assert_eq!(node.receive(NOW, &reply(2, NOT_READY)), Verdict::Accepted);
    node.settle();
    assert_eq!(
        node.statuses(),
        [Status::Success, Status::Success, Status::RnrRetryExc]
    );
}

#[test]
fn one_wait_ends_and_the_next_begins() {
    let mut node = sends(&config(), 2);
    for (at, syndrome) in [(0, NOT_READY), (0, Syndrome::ACK), (1, NOT_READY)] {
        assert_eq!(node.receive(NOW, &reply(at, syndrome)), Verdict::Accepted);
    }
    assert!(node.transmit(NOW).is_none());
    let end = node.conn.poll_timeout().unwrap();
    assert_eq!(end, Instant(10_000));
    assert_eq!(psns(&mut node, end), [1]);
}

#[test]
fn naks_and_gaps_during_an_rnr_wait_are_echoes() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    node.transmit_all(NOW);
    assert_eq!(node.receive(NOW, &reply(0, NOT_READY)), Verdict::Accepted);
    for (at, syndrome, cause) in [
        (0, SEQUENCE, DropReason::RepeatedNak),
        (0, NOT_READY, DropReason::RepeatedNak),
        (1, Syndrome::ACK, DropReason::Gap),
        (1, SEQUENCE, DropReason::Gap),
    ] {
        assert_eq!(
            node.receive(NOW, &reply(at, syndrome)),
            Verdict::Dropped(cause)
        );
        assert_eq!(node.conn.poll_timeout(), Some(Instant(10_000)));
        assert!(node.transmit(NOW).is_none());
    }
}

#[test]
fn a_late_response_comes_before_the_read_is_asked_for_again() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 600], 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    node.transmit_all(NOW);
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut node.host);
    let first = answer(Opcode::RcReadResponseFirst, 0, Syndrome::ACK, 256);
    assert_eq!(node.receive(end, &first), Verdict::Accepted);
    let (_, again) = node.transmit(end).unwrap();
    assert_eq!((again.opcode(), again.psn()), (Opcode::RcReadRequest, 1));
    assert_eq!(again.header.ext.reth().unwrap().dma_len, 344);
    assert!(psns(&mut node, end).is_empty(), "the window is one packet");
    let first = answer(Opcode::RcReadResponseFirst, 1, Syndrome::ACK, 256);
    let last = answer(Opcode::RcReadResponseLast, 2, Syndrome::ACK, 88);
    for packet in [first, last] {
        assert_eq!(node.receive(end, &packet), Verdict::Accepted);
    }
    assert_eq!(psns(&mut node, end), [3]);
    let packet = reply(3, Syndrome::ACK);
    assert_eq!(node.receive(end, &packet), Verdict::Accepted);
    node.settle();
    assert_eq!(node.statuses(), [Status::Success; 2]);
    assert_eq!(node.conn.poll_timeout(), None);
}

#[test]
fn a_late_response_completes_a_read_that_was_to_be_asked_for_again() {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Read, vec![0; 4], 0);
    node.transmit_all(NOW);
    let end = node.conn.poll_timeout().unwrap();
    node.conn.handle_timeout(end, &mut node.host);
    let only = answer(Opcode::RcReadResponseOnly, 0, Syndrome::ACK, 4);
    assert_eq!(node.receive(end, &only), Verdict::Accepted);
    assert!(node.transmit(end).is_none());
    node.settle();
    assert_eq!(node.statuses(), [Status::Success]);
    assert_eq!(node.conn.poll_timeout(), None);
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, end), [1]);
}

/// The first packet on the way, if it has arrived by now.
fn due(way: &mut VecDeque<(Instant, Packet)>, now: Instant) -> Option<Packet> {
    let arrived = way.front().is_some_and(|&(at, _)| at <= now);
    arrived
        .then(|| way.pop_front())
        .flatten()
        .map(|(_, packet)| packet)
}

/// Sends 40 messages of 32 packets to a peer whose ACKs take `delay` nanoseconds, over a wire on
/// which a packet takes `serial` nanoseconds; returns the statuses.
fn over_a_slow_wire(retry_cnt: u8, delay: u64, serial: u64) -> Vec<Status> {
    let config = Modify {
        retry_cnt: Some(retry_cnt),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    for _ in 0..40 {
        pair.a.post(SendOp::Write, pattern(32 * 256, 0), 0);
    }
    let (mut wire, mut acks) = (VecDeque::new(), VecDeque::new());
    let (mut now, mut free) = (NOW, NOW);
    loop {
        for packet in pair.a.transmit_all(now) {
            free = free.max(now).after(serial);
            wire.push_back((free, packet));
        }
        let timers = [pair.a.conn.poll_timeout(), pair.b.conn.poll_timeout()];
        let arrivals = [&wire, &acks].map(|way| way.front().map(|&(at, _)| at));
        let Some(next) = timers.into_iter().chain(arrivals).flatten().min() else {
            return pair.a.statuses();
        };
        now = now.max(next);
        while let Some(packet) = due(&mut wire, now) {
            let _ = pair.b.receive(now, &packet);
            let sent = pair.b.transmit_all(now);
            acks.extend(sent.into_iter().map(|ack| (now.after(delay), ack)));
        }
        while let Some(packet) = due(&mut acks, now) {
            let _ = pair.a.receive(now, &packet);
        }
        for node in [&mut pair.a, &mut pair.b] {
            node.conn.handle_timeout(now, &mut node.host);
            node.settle();
        }
    }
}

/// The shorter waits kill no connection whose peer is alive: ACKs that come after one and a half
/// timeouts, or three, and a window of packets that takes as long on the wire.
#[test]
fn a_bottleneck_kills_no_connection() {
    let slow = TIMEOUT * 3 / 2;
    let window = u64::from(WINDOW);
    for (retry_cnt, delay, serial) in [
        (1, slow, 0),
        (7, slow, 0),
        (7, 0, slow / window),
        (7, slow, slow / window),
        (7, 2 * slow, slow / window),
        (7, 12 * TIMEOUT, 0),
    ] {
        let statuses = over_a_slow_wire(retry_cnt, delay, serial);
        assert_eq!(
            statuses,
            [Status::Success; 40],
            "{retry_cnt} {delay} {serial}"
        );
    }
    // Nothing waits for ever.
    assert_eq!(over_a_slow_wire(7, 16 * TIMEOUT, 0)[0], Status::RetryExc);
}
