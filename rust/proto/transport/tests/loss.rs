// SPDX-License-Identifier: GPL-2.0

//! A wire that loses, duplicates or delays each packet in turn: the outcome is always the same.

use super::super::wire::{NakCode, Opcode, Syndrome};
use super::super::{Flags, Modify, SendOp, Status};
use super::pair::*;

/// Posts one request of each kind, in an order in which each depends on the one before.
fn post_program(pair: &mut Pair) {
    for _ in 0..4 {
        pair.b.host.recvs.push_back(Ok(2000));
    }
    pair.b.host.memory[..8].copy_from_slice(&5u64.to_ne_bytes());
    let a = &mut pair.a;
    a.post(SendOp::Send, pattern(700, 1), 0);
    a.post(SendOp::Write, pattern(600, 2), 1000);
    a.post(SendOp::Local, vec![], 0);
    a.post(SendOp::Read, vec![0; 900], 5000);
    a.post(SendOp::FetchAdd { add: 3 }, vec![0; 8], 0);
    a.post(SendOp::WriteImm([4; 4]), pattern(300, 3), 2000);
    a.post(
        SendOp::CompareSwap {
            compare: 8,
            swap: 100,
        },
        vec![0; 8],
        0,
    );
    a.post(SendOp::Local, vec![], 0);
    a.post(SendOp::Local, vec![], 0);
    a.post(SendOp::Send, Vec::new(), 0);
    a.post(SendOp::Read, vec![0; 300], 6000);
    let fenced = Flags {
        fence: true,
        ..signaled()
    };
    a.post_with(SendOp::Local, vec![], 0, RKEY, fenced);
    a.post_with(SendOp::SendInv(TEMP_KEY), pattern(257, 4), 0, RKEY, fenced);
    a.post(SendOp::Local, vec![], 0);
}

/// Checks the outcome of the program, which does not depend on the impairments of the wire.
fn check_program(pair: &Pair, what: &str) {
    assert_eq!(pair.a.statuses(), [Status::Success; 14], "{what}");
    let (a, b) = (&pair.a.host, &pair.b.host);
    let data: Vec<_> = b.received.iter().map(|r| r.data.clone()).collect();
    assert_eq!(
        data,
        [pattern(700, 1), vec![], vec![], pattern(257, 4)],
        "{what}"
    );
    assert!(
        b.received
            .iter()
            .all(|r| r.completion.status == Status::Success),
        "{what}"
    );
    assert_eq!(b.received[1].completion.imm, Some([4; 4]), "{what}");
    assert_eq!(b.memory[1000..1600], pattern(600, 2), "{what}");
    assert_eq!(b.memory[2000..2300], pattern(300, 3), "{what}");
    assert_eq!(a.local[3], b.memory[5000..5900], "{what}");
    assert_eq!(a.local[10], b.memory[6000..6300], "{what}");
    assert_eq!(a.local[4], 5u64.to_ne_bytes(), "{what}");
    assert_eq!(a.local[6], 8u64.to_ne_bytes(), "{what}");
    assert_eq!(b.memory[..8], 100u64.to_ne_bytes(), "{what}");
    assert_eq!(b.atomics_done, 2, "{what}");
    assert_eq!(a.locals_done, [2, 7, 8, 11, 13], "{what}");
    assert_eq!(a.reads_done, [3, 10], "{what}");
    assert!(!b.temp_key_valid, "{what}");
    assert!(
        pair.a.events.is_empty() && pair.b.events.is_empty(),
        "{what}"
    );
}

fn run_program(what: &str, fate: impl FnMut(usize, Way, &Packet) -> Fate) -> usize {
    let mut pair = Pair::new();
    post_program(&mut pair);
    pair.run_with(fate);
    check_program(&pair, what);
    pair.log.len()
}

/// IBTA 9.7: every message is carried out once and in order, although packets are lost, duplicated
/// or late.
#[test]
fn any_one_packet() {
    let count = run_program("nothing", |_, _, _| Fate::Deliver);
    for fate in [Fate::Lose, Fate::Twice, Fate::Late] {
        for hit in 0..count {
            let what = format!("{fate:?} {hit}");
            run_program(&what, |i, _, _| if i == hit { fate } else { Fate::Deliver });
        }
    }
}

/// IBTA 9.7: every message is carried out once and in order, if any two packets are harmed.
#[test]
fn any_two_packets() {
    for first in 0..30 {
        for second in first + 1..45 {
            for (one, other) in [
                (Fate::Lose, Fate::Lose),
                (Fate::Late, Fate::Lose),
                (Fate::Lose, Fate::Late),
                (Fate::Twice, Fate::Lose),
                (Fate::Late, Fate::Twice),
            ] {
                let what = format!("{one:?} {first}, {other:?} {second}");
                run_program(&what, |i, _, _| match i {
                    i if i == first => one,
                    i if i == second => other,
                    _ => Fate::Deliver,
                });
            }
        }
    }
}

#[test]
fn every_packet_of_one_way_once() {
    for way in [Way::AtoB, Way::BtoA] {
        for fate in [Fate::Twice, Fate::Late] {
            let what = format!("{way:?} {fate:?}");
            run_program(&what, |_, w, _| if w == way { fate } else { Fate::Deliver });
        }
    }
}

#[test]
fn a_whole_flight_and_a_whole_answer() {
    // The first flight, and three retries of one packet.
    run_program("first 16 lost", |i, _, _| {
        if i < 16 {
            Fate::Lose
        } else {
            Fate::Deliver
        }
    });
    // Those to the first flight, and to retries of one packet.
    run_program("first answers lost", |i, way, _| match way {
        Way::BtoA if i < 30 => Fate::Lose,
        _ => Fate::Deliver,
    });
}

/// IBTA 9.7.5.2: a NAK tells which packet is missing, and the requester goes back to that.
#[test]
fn a_lost_request_packet_costs_one_nak_and_no_timeout() {
    let mut pair = Pair::new();
    pair.a.conn.keep_requests(false);
    pair.b.conn.keep_requests(false);
    pair.a.post(SendOp::Write, pattern(256 * 20, 0), 0);
    pair.exchange(|i, _, _| if i == 5 { Fate::Lose } else { Fate::Deliver });
    pair.a.settle();
    pair.assert_all_done();
    let answers: Vec<_> = pair
        .sent(Way::BtoA)
        .iter()
        .map(|p| p.syndrome().unwrap())
        .collect();
    let nak = Syndrome::Nak {
        code: NakCode::PsnSequence,
    };
    assert_eq!(answers, [nak, Syndrome::ACK]);
    // 20 packets, and those from the sixth on again.
    assert_eq!(pair.sent(Way::AtoB).len(), 20 + 15);
}

/// IBTA 9.7.5.1.3, 9.7.6.1, 9.9.2.1: if a response is missing, a requester that keeps none asks for
/// the rest, whose response has a first packet again.
#[test]
fn a_resumed_read_asks_for_the_rest_only() {
    let mut pair = Pair::with(&config(), 0xff_ffff, 0);
    pair.a.conn.keep_responses(false);
    pair.a.post(SendOp::Read, vec![0; 1000], 500);
    pair.exchange(|_, _, p| match p.psn() {
        1 if p.opcode() == Opcode::RcReadResponseMiddle => Fate::Lose,
        _ => Fate::Deliver,
    });
    pair.a.settle();
    pair.assert_all_done();
    assert_eq!(pair.a.host.local[0], pair.b.host.memory[500..1500]);
    let again = pair.sent(Way::AtoB)[1].clone();
    assert_eq!((again.opcode(), again.psn()), (Opcode::RcReadRequest, 1));
    let reth = again.header.ext.reth().unwrap();
    assert_eq!((reth.va, reth.dma_len), (BASE + 1012, 488));
    let responses: Vec<_> = pair
        .sent(Way::BtoA)
        .iter()
        .map(|p| (p.psn(), p.opcode()))
        .collect();
    assert_eq!(
        responses,
        [
            (0xff_ffff, Opcode::RcReadResponseFirst),
            (0, Opcode::RcReadResponseMiddle),
            (1, Opcode::RcReadResponseMiddle),
            (2, Opcode::RcReadResponseLast),
            (1, Opcode::RcReadResponseFirst),
            (2, Opcode::RcReadResponseLast),
        ]
    );
}

/// IBTA 9.9.2.1: a request fails after as many retries as the retry counter allows.
#[test]
fn retries_are_counted_and_then_the_request_fails() {
    // From the second on the waits are twice the timeout.
    for (count, flights, waits) in [(0, 1, 1), (1, 2, 1 + 2), (7, 8, 1 + 7 * 2)] {
        let config = Modify {
            retry_cnt: Some(count),
            ..config()
        };
        let mut pair = Pair::with(&config, 0, 0);
        pair.a.post(SendOp::Send, pattern(4, 0), 0);
        pair.a.post(SendOp::Send, pattern(4, 0), 0);
        pair.run_with(|_, _, _| Fate::Lose);
        // A retry sends one packet: the window after a timeout.
        assert_eq!(pair.sent(Way::AtoB).len(), 1 + flights);
        assert_eq!(pair.a.statuses(), [Status::RetryExc, Status::WrFlush]);
        assert_eq!(pair.now.0, waits * (4096 << 10));
    }
}

/// IBTA 9.9.2.1: an acknowledgement restores the retry counters.
#[test]
fn progress_restores_the_retries() {
    let config = Modify {
        retry_cnt: Some(1),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    for round in 0..5 {
        pair.a.post(SendOp::Write, pattern(4, 0), 0);
        let mut lost = false;
        pair.run_with(|_, _, _| {
            if lost {
                Fate::Deliver
            } else {
                lost = true;
                Fate::Lose
            }
        });
        assert_eq!(pair.a.statuses(), vec![Status::Success; round + 1]);
    }
    assert_eq!(pair.now.0, 5 * (4096 << 10));
}

/// IBTA 9.7.6.1.3: an ACK timeout of 0 means that there is none.
#[test]
fn without_a_timeout_nothing_is_sent_again() {
    let config = Modify {
        timeout: Some(0),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    pair.run_with(|_, _, _| Fate::Lose);
    assert_eq!(pair.a.conn.poll_timeout(), None);
    assert!(pair.a.host.completed.is_empty());
}

#[test]
fn the_stale_rest_of_a_read_stream_burns_no_retry() {
    let config = Modify {
        retry_cnt: Some(1),
        ..config()
    };
    let mut pair = Pair::with(&config, 0, 0);
    for i in 0..8 {
        pair.a.post(SendOp::Read, vec![0; 1000], i * 1000);
    }
    // The second response is lost: 30 more of the stream follow it.
    pair.exchange(|i, _, _| if i == 9 { Fate::Lose } else { Fate::Deliver });
    pair.a.settle();
    pair.assert_all_done();
    assert_eq!(pair.now.0, 0);
}
