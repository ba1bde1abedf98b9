// SPDX-License-Identifier: GPL-2.0

//! RNR NAKs: the wait, and how often the requester tries again.

use super::super::wire::Syndrome;
use super::super::{ConnectedQp, Modify, SendOp, State, Status};
use super::pair::*;

/// IBTA 9.7.5.2, 9.7.5.2.8: an RNR NAK acknowledges the requests before its own, which is sent
/// again after the time that it says.
#[test]
fn rnr_waits_and_then_goes_on() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Write, pattern(4, 1), 0);
    pair.a.post(SendOp::Send, pattern(300, 2), 0);
    pair.a.post(SendOp::Write, pattern(4, 3), 8);
    pair.exchange(|_, _, _| Fate::Deliver);
    assert_eq!(
        pair.a.statuses(),
        [Status::Success],
        "an RNR NAK acknowledges what is before it"
    );
    assert_eq!(pair.a.conn.poll_timeout().unwrap().0, 10_000);
    let syndromes: Vec<_> = pair
        .sent(Way::BtoA)
        .iter()
        .map(|p| p.syndrome().unwrap())
        .collect();
    assert!(matches!(syndromes[..], [Syndrome::RnrNak { timer }] if timer.get() == 1));
    // It is too early: nothing is sent.
    pair.now.0 = 9_999;
    pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
    assert!(pair.a.transmit(pair.now).is_none());
    pair.b.host.recvs.push_back(Ok(300));
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.now.0, 10_000);
    assert_eq!(pair.b.host.received[0].data, pattern(300, 2));
}

/// IBTA 9.7.5.2.8: the requester counts RNR NAKs, and a limit of 7 means that there is none.
#[test]
fn rnr_retries_are_counted_and_seven_is_for_ever() {
    for count in 0..7u8 {
        let config = Modify {
            rnr_retry: Some(count),
            ..config()
        };
        let mut pair = Pair::with(&config, 0, 0);
        pair.a.post(SendOp::Send, pattern(4, 0), 0);
        pair.run();
        assert_eq!(pair.a.statuses(), [Status::RnrRetryExc]);
        assert_eq!(pair.sent(Way::AtoB).len(), usize::from(count) + 1);
        assert_eq!(pair.now.0, u64::from(count) * 10_000);
        assert_eq!(pair.b.conn.state(), State::Rts);
    }
    let mut pair = Pair::new();
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    let mut patience = 50;
    while pair.a.statuses().is_empty() {
        pair.exchange(|_, _, _| Fate::Deliver);
        patience -= 1;
        if patience == 0 {
            pair.b.host.recvs.push_back(Ok(4));
        }
        if let Some(next) = pair.a.conn.poll_timeout() {
            pair.now = next;
            pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
        }
    }
    pair.assert_all_done();
    assert_eq!(pair.now.0, waits(50, 10_000));
}

/// The peer asks for waits of 160 ms: they do not grow, as they are long enough.
#[test]
fn long_rnr_waits_do_not_grow() {
    let config = Modify {
        min_rnr_timer: Some(28),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    for round in 1..=20 {
        pair.exchange(|_, _, _| Fate::Deliver);
        pair.now = pair.a.conn.poll_timeout().expect("the end of the wait");
        assert_eq!(pair.now.0, round * 163_840_000);
        pair.a.conn.handle_timeout(pair.now, &mut pair.a.host);
    }
}

/// IBTA 9.7.5.2.8: the packet that needs the receive gets the RNR NAK, and is sent again.
#[test]
fn rnr_in_the_last_packet_of_a_write_with_immediate() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::WriteImm([3; 4]), pattern(700, 2), 0);
    pair.exchange(|_, _, _| Fate::Deliver);
    assert!(pair.a.statuses().is_empty());
    pair.b.host.recvs.push_back(Ok(0));
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.b.host.memory[..700], pattern(700, 2));
    assert_eq!(pair.sent(Way::AtoB).len(), 4, "only the last is sent again");
    assert_eq!(pair.b.host.writes_started, 1);
}

#[test]
fn a_doubled_rnr_nak_counts_once() {
    let config = Modify {
        rnr_retry: Some(1),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    pair.exchange(|_, way, _| {
        if way == Way::BtoA {
            Fate::Twice
        } else {
            Fate::Deliver
        }
    });
    pair.b.host.recvs.push_back(Ok(4));
    pair.run();
    pair.assert_all_done();
}

#[test]
fn a_copy_that_the_receiver_was_ready_for_ends_the_wait() {
    let mut pair = Pair::new();
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    let packet = pair.a.transmit_all(pair.now).remove(0);
    let _ = pair.b.receive(pair.now, &packet);
    let nak = pair.b.transmit_all(pair.now).remove(0);
    pair.b.host.recvs.push_back(Ok(4));
    let _ = pair.b.receive(pair.now, &packet);
    let ack = pair.b.transmit_all(pair.now).remove(0);
    for packet in [nak, ack] {
        let _ = pair.a.receive(pair.now, &packet);
    }
    pair.a.settle();
    pair.assert_all_done();
    assert_eq!(pair.a.conn.poll_timeout(), None);
    assert!(pair.a.transmit(pair.now).is_none());
}
