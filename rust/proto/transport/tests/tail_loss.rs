// SPDX-License-Identifier: GPL-2.0

//! Tail loss probes: a response is late, and the requester asks again long before the ACK timeout.

use super::super::rc::requester::tail_loss::{TailLoss, LOSSLESS_MIN_TIMEOUT_NS, MIN_TIMEOUT_NS};
use super::super::wire::{NakCode, Syndrome};
use super::super::{Instant, Modify, SendOp, Status};
use super::pair::*;

/// The round trip time, in nanoseconds.
const TRIP: u64 = 10_000;
/// The ACK timeout: 67 ms.
const EXPONENT: u8 = 14;
const TIMEOUT: u64 = 4096 << EXPONENT;

fn patient() -> Modify {
    Modify {
        timeout: Some(EXPONENT),
        retry_cnt: Some(1),
        ..config()
    }
}

fn psns(node: &mut Node, now: Instant) -> Vec<u32> {
    node.transmit_all(now).iter().map(Packet::psn).collect()
}

/// A requester that has a sample of the round trip time, and the time of the sample. Its next PSN
/// is 1.
fn experienced(config: &Modify) -> (Node, Instant) {
    let mut node = Node::new(1, config, 0, 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, Instant(0)), [0]);
    let now = Instant(TRIP);
    let _ = node.receive(now, &reply(0, Syndrome::ACK));
    assert_eq!(node.conn.poll_timeout(), None);
    (node, now)
}

/// Advances the time to the node's next timeout. Returns the PSNs that it sends then.
fn wait(node: &mut Node, now: &mut Instant) -> Vec<u32> {
    *now = node.conn.poll_timeout().expect("it waits for something");
    node.conn.handle_timeout(*now, &mut node.host);
    psns(node, *now)
}

#[test]
fn the_last_packet_is_sent_again_and_asks() {
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Send, vec![0; 600], 0);
    assert_eq!(psns(&mut node, now), [1, 2, 3]);
    let begin = now;
    assert_eq!(wait(&mut node, &mut now), [3]);
    assert_eq!(now, begin.after(LOSSLESS_MIN_TIMEOUT_NS));
    // The probe may be lost. Or a NAK was lost, which the responder does not repeat.
    assert_eq!(wait(&mut node, &mut now), [1, 2, 3]);
    assert_eq!(
        now,
        begin.after(LOSSLESS_MIN_TIMEOUT_NS + 2 * MIN_TIMEOUT_NS)
    );
    assert_eq!(wait(&mut node, &mut now), [1, 2, 3]);
    assert_eq!(
        now,
        begin.after(LOSSLESS_MIN_TIMEOUT_NS + 6 * MIN_TIMEOUT_NS)
    );
    // No further probe follows. The ACK timeout has run all the time, and expires now; it counts as
    // the only retry, and leaves a window of one packet.
    assert_eq!(wait(&mut node, &mut now), [1]);
    assert_eq!(now, begin.after(TIMEOUT));
    // A retransmission gives no new sample, and after a timeout there is no probe until a response
    // comes.
    assert_eq!(wait(&mut node, &mut now), []);
    assert_eq!(now, begin.after(3 * TIMEOUT));
    node.settle();
    assert_eq!(node.statuses(), [Status::Success, Status::RetryExc]);
}

#[test]
fn what_is_new_asks_as_well() {
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [1]);
    now = node.conn.poll_timeout().unwrap();
    node.post(SendOp::Send, vec![0; 4], 0);
    node.conn.handle_timeout(now, &mut node.host);
    assert_eq!(psns(&mut node, now), [2], "nothing is sent twice");
}

#[test]
fn an_answer_ends_the_silence() {
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Send, vec![0; 600], 0);
    assert_eq!(psns(&mut node, now), [1, 2, 3]);
    let heard = now.after(MIN_TIMEOUT_NS / 2);
    let _ = node.receive(heard, &reply(2, Syndrome::ACK));
    assert_eq!(
        node.conn.poll_timeout(),
        Some(heard.after(LOSSLESS_MIN_TIMEOUT_NS))
    );
    assert_eq!(wait(&mut node, &mut now), [3]);
    let _ = node.receive(now, &reply(3, Syndrome::ACK));
    assert_eq!(node.conn.poll_timeout(), None);
}

#[test]
fn a_receiver_that_waits_for_the_first_gets_all() {
    let (mut node, mut now) = experienced(&patient());
    node.conn.keep_requests(false);
    node.post(SendOp::Send, vec![0; 600], 0);
    assert_eq!(psns(&mut node, now), [1, 2, 3]);
    let missing = Syndrome::Nak {
        code: NakCode::PsnSequence,
    };
    let _ = node.receive(now, &reply(1, missing));
    assert_eq!(psns(&mut node, now), [1, 2, 3]);
    // The first of these is lost again, and the responder does not repeat its NAK.
    assert_eq!(wait(&mut node, &mut now), [1, 2, 3]);
}

#[test]
fn responses_are_asked_for_from_the_first_missing_on() {
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Read, vec![0; 600], 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [1, 4]);
    assert_eq!(wait(&mut node, &mut now), [1, 4]);
    // The same with a READ as the last request.
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Send, vec![0; 4], 0);
    node.post(SendOp::Read, vec![0; 600], 0);
    assert_eq!(psns(&mut node, now), [1, 2]);
    assert_eq!(wait(&mut node, &mut now), [1, 2]);
}

#[test]
fn without_a_round_trip_sample_there_is_no_probe() {
    // The round trip time is not known, or longer than half the timeout, or there is no timeout.
    let mut node = Node::new(1, &patient(), 0, 0);
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, Instant(0)), [0]);
    assert_eq!(node.conn.poll_timeout(), Some(Instant(TIMEOUT)));
    let (mut node, now) = experienced(&config());
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [1]);
    assert_eq!(node.conn.poll_timeout(), Some(now.after(4096 << 10)));
    let endless = Modify {
        timeout: Some(0),
        ..patient()
    };
    let (mut node, now) = experienced(&endless);
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [1]);
    assert_eq!(node.conn.poll_timeout(), None);
}

#[test]
fn long_round_trips_make_patient() {
    let (mut node, mut now) = experienced(&patient());
    for at in 1..40 {
        node.post(SendOp::Send, vec![0; 4], 0);
        assert_eq!(psns(&mut node, now), [at]);
        now = now.after(5 * MIN_TIMEOUT_NS);
        let _ = node.receive(now, &reply(at, Syndrome::ACK));
    }
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [40]);
    let due = node.conn.poll_timeout().unwrap();
    assert!(due > now.after(5 * MIN_TIMEOUT_NS), "{due:?}, {now:?}");
    assert!(due < now.after(7 * MIN_TIMEOUT_NS), "{due:?}, {now:?}");
}

/// RFC 6298 2.2, RFC 6298 2.3: the first sample R sets the estimate to R and the deviation to R/2;
/// a further sample counts for an eighth of the estimate and for a quarter of the deviation.
#[test]
fn the_estimate_of_the_round_trip_time() {
    const R: u64 = 16 * MIN_TIMEOUT_NS;
    let endless = Some(u64::MAX);
    let mut estimator = TailLoss::NEW;
    estimator.on_ack_req(Instant(0), psn(1), true, endless);
    assert_eq!(estimator.deadline(), None, "nothing is known yet");
    let now = Instant(R);
    estimator.on_ack(now, psn(1), false, endless);
    estimator.on_ack_req(now, psn(2), true, endless);
    assert_eq!(estimator.deadline(), Some(now.after(R + 4 * (R / 2))));
    // The next round trip takes twice as long.
    let now = now.after(2 * R);
    estimator.on_ack(now, psn(2), false, endless);
    estimator.on_ack_req(now, psn(3), true, endless);
    let (srtt, rttvar) = (R / 8 * 9, R / 8 * 5);
    assert_eq!(estimator.deadline(), Some(now.after(srtt + 4 * rttvar)));
}

/// RFC 6298 3: an acknowledgement of a packet that was sent twice is no sample. RFC 6298 5.5: the
/// timeout stays doubled until there is one.
#[test]
fn a_retransmission_gives_no_sample() {
    let (mut node, mut now) = experienced(&patient());
    node.post(SendOp::Send, vec![0; 4], 0);
    assert_eq!(psns(&mut node, now), [1]);
    assert_eq!(wait(&mut node, &mut now), [1]);
    now = now.after(20 * MIN_TIMEOUT_NS);
    let _ = node.receive(now, &reply(1, Syndrome::ACK));
    for (at, timeout) in [(2, 2 * MIN_TIMEOUT_NS), (3, MIN_TIMEOUT_NS)] {
        node.post(SendOp::Send, vec![0; 4], 0);
        assert_eq!(psns(&mut node, now), [at]);
        assert_eq!(node.conn.poll_timeout(), Some(now.after(timeout)));
        let _ = node.receive(now, &reply(at, Syndrome::ACK));
    }
}

/// If any two packets are lost, the pair completes long before the ACK timeout, once the round trip
/// time is known.
#[test]
fn what_is_lost_costs_little() {
    for first in 0..12 {
        for second in first..24 {
            lose_two(first, second);
        }
    }
}

fn lose_two(first: usize, second: usize) {
    let mut pair = Pair::with(&patient(), 0xff_fff0, 100);
    for _ in 0..3 {
        pair.b.host.recvs.push_back(Ok(2000));
    }
    pair.a.post(SendOp::Send, pattern(8, 1), 0);
    pair.run();
    pair.a.post(SendOp::Send, pattern(700, 1), 0);
    pair.a.post(SendOp::Read, vec![0; 900], 5000);
    pair.a.post(SendOp::Send, pattern(300, 4), 0);
    let (begin, so_far) = (pair.now, pair.log.len());
    pair.run_with(|i, _, _| {
        if i == so_far + first || i == so_far + second {
            Fate::Lose
        } else {
            Fate::Deliver
        }
    });
    pair.assert_all_done();
    assert!(
        pair.now < begin.after(TIMEOUT / 4),
        "{first}, {second}: {:?}",
        pair.now
    );
}
