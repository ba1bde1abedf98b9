// SPDX-License-Identifier: GPL-2.0

//! Duplicate requests: the resources that the responder keeps, and for how long.

use super::super::wire::{NakCode, Opcode, Syndrome};
use super::super::{
    AccessError, ConnectedQp, DropReason, Instant, Modify, Resource, SendOp, Status, Verdict,
};
use super::pair::*;

const NOW: Instant = Instant(0);
const AGAIN: Verdict = Verdict::Dropped(DropReason::Duplicate);

/// Sends `ops` from a to b and lets b respond; returns the packets of both.
fn converse(pair: &mut Pair, ops: &[(SendOp, usize)]) -> (Vec<Packet>, Vec<Packet>) {
    for (op, len) in ops {
        pair.a.post(*op, pattern(*len, 1), 0);
    }
    let requests = pair.a.transmit_all(NOW);
    for packet in &requests {
        assert_eq!(pair.b.receive(NOW, packet), Verdict::Accepted);
        pair.b.settle();
    }
    let answers = pair.b.transmit_all(NOW);
    (requests, answers)
}

/// IBTA 9.7.5.1.3: the responder acknowledges a duplicate SEND or WRITE again, and does not carry
/// it out again.
#[test]
fn repeated_sends_and_writes_are_acknowledged_and_nothing_else() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.host.recvs.push_back(Ok(600));
    pair.b.host.recvs.push_back(Ok(600));
    let ops = [
        (SendOp::Send, 600),
        (SendOp::Write, 600),
        (SendOp::WriteImm([0; 4]), 4),
    ];
    let (requests, answers) = converse(&mut pair, &ops);
    assert_eq!(answers.len(), 1);
    for packet in &requests {
        assert_eq!(pair.b.receive(NOW, packet), AGAIN);
        let acks = pair.b.transmit_all(NOW);
        // The ACK has the newest PSN, however old the packet is.
        assert_eq!(acks, answers);
    }
    assert_eq!(pair.b.host.received.len(), 2);
    assert_eq!(pair.b.host.writes_started, 2);
}

/// IBTA 9.7.5.1.3: the ACK of a duplicate does not stand for the response to a later READ.
#[test]
fn an_old_send_is_not_acknowledged_beyond_a_read() {
    let mut pair = Pair::with(&config(), 0, 0);
    let ops = [(SendOp::Write, 4), (SendOp::Read, 600), (SendOp::Write, 4)];
    let (requests, _) = converse(&mut pair, &ops);
    let psns = [(0, 0), (4, 4)];
    for (index, (which, acked)) in [0, 2].into_iter().zip(psns) {
        assert_eq!(requests[index].psn(), which);
        assert_eq!(pair.b.receive(NOW, &requests[index]), AGAIN);
        assert_eq!(pair.b.transmit_all(NOW)[0].psn(), acked);
    }
}

/// IBTA 9.7.5.1.3: the ACK of a later duplicate is not lost because that of an earlier one is still
/// due, while a READ between them is answered again.
#[test]
fn an_ack_that_is_due_moves_to_a_later_duplicate() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.host.recvs.extend([Ok(4), Ok(4)]);
    let ops = [SendOp::Read, SendOp::Send, SendOp::Read, SendOp::Send].map(|op| (op, 4));
    let (requests, answers) = converse(&mut pair, &ops);
    for packet in &requests {
        assert_eq!(pair.b.receive(NOW, packet), AGAIN);
    }
    assert_eq!(pair.b.transmit_all(NOW), answers);
    // A duplicate of an earlier request does not move it back.
    for index in [3, 1] {
        assert_eq!(pair.b.receive(NOW, &requests[index]), AGAIN);
    }
    assert_eq!(pair.b.transmit_all(NOW), answers[2..]);
    for packet in &answers {
        let _ = pair.a.receive(NOW, packet);
    }
    pair.a.settle();
    pair.assert_all_done();
}

/// IBTA 9.4.5, 9.7.5.1.3: the responder answers a duplicate atomic with the result that it has
/// kept.
#[test]
fn repeated_atomics_get_the_saved_result() {
    let mut pair = Pair::new();
    pair.b.host.memory[..8].copy_from_slice(&7u64.to_ne_bytes());
    let op = SendOp::FetchAdd { add: 5 };
    let (requests, answers) = converse(&mut pair, &[(op, 8); 16]);
    let mut value = 7;
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(pair.b.receive(NOW, request), AGAIN);
        assert_eq!(pair.b.transmit_all(NOW), [answer.clone()]);
        assert_eq!(answer.header.ext.atomic_ack().unwrap().original, value);
        value += 5;
    }
    assert_eq!(pair.b.host.atomics_done, 16);
    // One more atomic takes the place of the oldest.
    for packet in &answers {
        let _ = pair.a.receive(NOW, packet);
    }
    converse(&mut pair, &[(op, 8)]);
    let verdict = pair.b.receive(NOW, &requests[0]);
    assert_eq!(verdict, Verdict::Dropped(DropReason::UnknownDuplicate));
    assert_eq!(pair.b.receive(NOW, &requests[1]), AGAIN);
}

/// IBTA 9.7.5.1.3: the responder carries out a duplicate READ again.
#[test]
fn repeated_reads_are_read_again_with_the_key_checked() {
    let mut pair = Pair::with(&config(), 0xff_ffff, 0);
    let (requests, answers) = converse(&mut pair, &[(SendOp::Read, 600), (SendOp::Read, 0)]);
    assert_eq!(answers.len(), 4);
    pair.b.host.memory[0] ^= 0xff;
    assert_eq!(pair.b.receive(NOW, &requests[0]), AGAIN);
    let again = pair.b.transmit_all(NOW);
    assert_eq!(again.len(), 3);
    assert_eq!(again[0].payload[0], answers[0].payload[0] ^ 0xff);
    assert_eq!(pair.b.receive(NOW, &requests[1]), AGAIN);
    assert_eq!(pair.b.transmit_all(NOW), answers[3..]);
    // A READ whose key is gone has no response, and does not end the connection.
    pair.b.host.deny = Some(AccessError::Access);
    let verdict = pair.b.receive(NOW, &requests[0]);
    assert_eq!(verdict, Verdict::Dropped(DropReason::StaleKey));
    assert!(pair.b.transmit_all(NOW).is_empty());
}

#[test]
fn a_key_lost_while_answering_again_ends_nothing() {
    let mut pair = Pair::new();
    let (requests, _) = converse(&mut pair, &[(SendOp::Read, 600)]);
    assert_eq!(pair.b.receive(NOW, &requests[0]), AGAIN);
    pair.b.host.deny = Some(AccessError::Access);
    assert!(pair.b.transmit_all(NOW).is_empty());
    pair.b.settle();
    assert!(pair.b.events.is_empty());
}

/// IBTA 9.7.5.1.3: a READ or atomic whose response was lost is answered when it comes again.
#[test]
fn answers_that_are_given_up_can_be_asked_for_again() {
    let mut pair = Pair::new();
    let ops = [(SendOp::Read, 600), (SendOp::FetchAdd { add: 5 }, 8)];
    for (op, len) in [ops[0], ops[1], ops[0]] {
        pair.a.post(op, pattern(len, 1), 0);
    }
    let requests = pair.a.transmit_all(NOW);
    for packet in &requests {
        assert_eq!(pair.b.receive(NOW, packet), Verdict::Accepted);
    }
    // The first packet is sent, and then there is no route to the peer.
    let (sent, _) = pair.b.transmit(NOW).expect("a response");
    assert!(pair.b.conn.lose(&sent, &pair.b.host));
    assert!(pair.b.transmit_all(NOW).is_empty());
    // The responder answers the repeated request, and no other.
    assert_eq!(pair.b.receive(NOW, &requests[1]), AGAIN);
    assert_eq!(pair.b.transmit_all(NOW).len(), 1);
    assert_eq!(pair.b.receive(NOW, &requests[0]), AGAIN);
    assert_eq!(pair.b.transmit_all(NOW).len(), 3);
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.b.host.atomics_done, 1);
}

/// IBTA 9.7.5.1.3: duplicates are answered in the order of their PSNs.
#[test]
fn several_reads_repeated_at_once_are_answered_in_order() {
    let mut pair = Pair::new();
    let (requests, answers) = converse(&mut pair, &[(SendOp::Read, 600); 4]);
    for packet in [&requests[3], &requests[1]] {
        assert_eq!(pair.b.receive(NOW, packet), AGAIN);
    }
    let again = pair.b.transmit_all(NOW);
    let expect: Vec<_> = answers[3..6].iter().chain(&answers[9..]).cloned().collect();
    assert_eq!(again, expect);
}

/// IBTA 9.7.4.1.2, 9.7.5.2: a packet ahead of the expected PSN is not carried out, and the
/// responder reports it once.
#[test]
fn one_nak_until_the_missing_packet_comes() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.conn.keep_requests(false);
    pair.a.post(SendOp::Write, pattern(256 * 10, 0), 0);
    let packets = pair.a.transmit_all(NOW);
    let _ = pair.b.receive(NOW, &packets[0]);
    for late in &packets[2..6] {
        let verdict = pair.b.receive(NOW, late);
        assert_eq!(verdict, Verdict::Dropped(DropReason::OutOfSequence));
    }
    let naks = pair.b.transmit_all(NOW);
    assert_eq!(naks.len(), 1);
    let code = NakCode::PsnSequence;
    assert_eq!(
        (naks[0].psn(), naks[0].syndrome()),
        (1, Some(Syndrome::Nak { code }))
    );
    let _ = pair.b.receive(NOW, &packets[6]);
    assert!(pair.b.transmit_all(NOW).is_empty());
    // The missing packet comes, and the next gap gets another NAK.
    assert_eq!(pair.b.receive(NOW, &packets[1]), Verdict::Accepted);
    let _ = pair.b.receive(NOW, &packets[4]);
    let naks = pair.b.transmit_all(NOW);
    assert_eq!((naks.len(), naks[0].psn()), (1, 2));
}

/// Gives b the packets of a WRITE of four in this order; returns what b sends.
fn acknowledged(order: &[usize]) -> Vec<(u32, Option<Syndrome>)> {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.conn.keep_requests(false);
    pair.a.post(SendOp::Write, pattern(256 * 4, 0), 0);
    let packets = pair.a.transmit_all(NOW);
    for index in order {
        let _ = pair.b.receive(NOW, &packets[*index]);
    }
    let acks = pair.b.transmit_all(NOW);
    acks.iter().map(|p| (p.psn(), p.syndrome())).collect()
}

#[test]
fn a_nak_that_is_overtaken_by_all_packets_becomes_an_ack() {
    assert_eq!(acknowledged(&[0, 2, 1, 2]), [(2, Some(Syndrome::ACK))]);
    let order = [0, 3, 2, 1, 2, 3];
    assert_eq!(acknowledged(&order), [(3, Some(Syndrome::ACK))]);
}

/// IBTA 9.7.5.2: the peer learns of a dropped packet also if the one before it comes before the NAK
/// is sent. No packet may follow that would show the gap.
#[test]
fn a_nak_that_is_overtaken_asks_for_the_next_packet_that_was_dropped() {
    let code = NakCode::PsnSequence;
    for (order, psn) in [
        (&[0, 2, 1][..], 2),
        (&[0, 1, 3, 2], 3),
        (&[0, 3, 2, 1], 2),
        (&[0, 3, 1, 2], 3),
        (&[0, 3, 1, 2, 1], 3),
    ] {
        let nak = (psn, Some(Syndrome::Nak { code }));
        assert_eq!(acknowledged(order), [nak], "{order:?}");
    }
}

/// IBTA 9.7.5.2.8: after an RNR NAK the responder waits for the packet that it was not ready for.
#[test]
fn after_an_rnr_nak_what_follows_is_ignored() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::Send, pattern(4, 0), 0);
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    let packets = pair.a.transmit_all(NOW);
    assert_eq!(
        pair.b.receive(NOW, &packets[0]),
        Verdict::Dropped(DropReason::NotReady)
    );
    pair.b.host.recvs.push_back(Ok(4));
    for packet in &packets[1..] {
        let verdict = pair.b.receive(NOW, packet);
        assert_eq!(verdict, Verdict::Dropped(DropReason::OutOfSequence));
    }
    let naks = pair.b.transmit_all(NOW);
    assert_eq!(naks.len(), 1);
    assert!(matches!(naks[0].syndrome(), Some(Syndrome::RnrNak { .. })));
    for packet in &packets {
        assert_eq!(pair.b.receive(NOW, packet), Verdict::Accepted);
    }
}

/// IBTA 9.5, 9.7.5.1, 9.7.7.1: responses go out in the order of the requests, each with the number
/// of requests that were complete by then.
#[test]
fn an_ack_waits_for_the_answers_before_it() {
    let mut pair = Pair::with(&config(), 0, 0);
    let ops = [
        (SendOp::Read, 600),
        (SendOp::FetchAdd { add: 1 }, 8),
        (SendOp::Write, 4),
    ];
    let (_, answers) = converse(&mut pair, &ops);
    let seen: Vec<_> = answers.iter().map(|p| (p.psn(), p.opcode())).collect();
    assert_eq!(
        seen,
        [
            (0, Opcode::RcReadResponseFirst),
            (1, Opcode::RcReadResponseMiddle),
            (2, Opcode::RcReadResponseLast),
            (3, Opcode::RcAtomicAck),
            (4, Opcode::RcAck),
        ]
    );
    let msns: Vec<_> = answers
        .iter()
        .filter_map(|p| Some(p.header.ext.aeth()?.msn))
        .collect();
    assert_eq!(msns, [1, 1, 2, 3]);
}

#[test]
fn the_number_of_responder_resources_changes_under_traffic() {
    for (before, after) in [(4, 16), (16, 4), (4, 5), (5, 4), (4, 256)] {
        for cut in 0..40 {
            let config = Modify {
                max_rd_atomic: Some(4),
                ..config()
            };
            let mut pair = Pair::with(&config, 0xff_fffa, 0);
            pair.b.conn.replace_resources(vec![Resource::EMPTY; before]);
            pair.b.host.memory[..8].copy_from_slice(&0u64.to_ne_bytes());
            for i in 0..12 {
                match i % 3 {
                    0 => pair.a.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 0),
                    _ => pair.a.post(SendOp::Read, vec![0; 600], 4096 + i),
                };
            }
            // Some responses are lost, then the storage changes, then no packet is lost.
            let mut count = 0;
            for _ in 0..cut {
                let Some((_, packet)) = pair.a.transmit(NOW) else {
                    break;
                };
                let _ = pair.b.receive(NOW, &packet);
                if let Some((_, answer)) = pair.b.transmit(NOW) {
                    count += 1;
                    if count % 7 != 3 {
                        let _ = pair.a.receive(NOW, &answer);
                    }
                }
                pair.a.settle();
            }
            let old = pair.b.conn.replace_resources(vec![Resource::EMPTY; after]);
            assert_eq!(old.len(), before);
            // The driver would look the keys up again from the `Payload`.
            pair.b.host.reads = vec![None; 256];
            pair.b.host.find_keys_again = true;
            pair.run();
            pair.assert_all_done();
            assert_eq!(pair.b.host.atomics_done, 4, "{before} to {after} at {cut}");
            for i in (0..12usize).filter(|i| i % 3 != 0) {
                assert_eq!(pair.a.host.local[i], pair.b.host.memory[4096 + i..4696 + i]);
            }
        }
    }
}

/// IBTA 9.7.5.1.3: a SEND, WRITE or atomic that comes twice is carried out once.
#[test]
fn a_retry_of_everything_is_the_same_as_none() {
    // All responses of the first flight are lost; the second flight has duplicates only.
    let mut pair = Pair::with(&config(), 0xff_fff8, 0);
    pair.b.host.recvs.push_back(Ok(600));
    let ops = [
        (SendOp::Send, 600),
        (SendOp::Read, 600),
        (SendOp::FetchAdd { add: 1 }, 8),
        (SendOp::Write, 600),
    ];
    converse(&mut pair, &ops);
    pair.run();
    assert_eq!(pair.a.statuses(), [Status::Success; 4]);
    assert_eq!(pair.b.host.atomics_done, 1);
    assert_eq!(pair.b.host.received.len(), 1);
    assert_eq!(pair.b.host.writes_started, 1);
}

/// IBTA 9.7.5.2: after the missing packet has come, the next gap gets a NAK of its own.
#[test]
fn a_read_that_was_missing_ends_the_silence() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.conn.keep_requests(false);
    pair.a.post(SendOp::Read, vec![0; 4], 0);
    for _ in 0..3 {
        pair.a.post(SendOp::Write, vec![0; 4], 0);
    }
    let packets = pair.a.transmit_all(NOW);
    let _ = pair.b.receive(NOW, &packets[1]);
    assert_eq!(pair.b.transmit_all(NOW).len(), 1);
    let _ = pair.b.receive(NOW, &packets[0]);
    let _ = pair.b.receive(NOW, &packets[2]);
    let answers = pair.b.transmit_all(NOW);
    let code = NakCode::PsnSequence;
    assert_eq!(answers[0].opcode(), Opcode::RcReadResponseOnly);
    assert_eq!(
        (answers[1].psn(), answers[1].syndrome()),
        (1, Some(Syndrome::Nak { code }))
    );
}

/// IBTA 9.7.5.1.1: a response acknowledges the requests before its own.
#[test]
fn the_answer_to_a_read_stands_for_what_is_due_before_it() {
    // The first order leaves an ACK of the WRITE due, the second a NAK that asks for the READ. In
    // the third the packet behind the READ is not sent again, and a NAK asks for it.
    let response = (1, Some(Syndrome::ACK));
    let code = NakCode::PsnSequence;
    let nak = (2, Some(Syndrome::Nak { code }));
    for (order, expected) in [
        (&[0, 1][..], &[response][..]),
        (&[0, 2, 1, 2], &[response, (2, Some(Syndrome::ACK))]),
        (&[0, 2, 1], &[response, nak]),
    ] {
        let mut pair = Pair::with(&config(), 0, 0);
        pair.b.conn.keep_requests(false);
        for (op, len) in [(SendOp::Write, 4), (SendOp::Read, 4), (SendOp::Write, 4)] {
            pair.a.post(op, vec![0; len], 0);
        }
        let mut packets = pair.a.transmit_all(NOW);
        packets[0].header.bth.ack_req = true;
        for index in order {
            let _ = pair.b.receive(NOW, &packets[*index]);
        }
        let answers = pair.b.transmit_all(NOW);
        let answers: Vec<_> = answers.iter().map(|p| (p.psn(), p.syndrome())).collect();
        assert_eq!(answers, expected);
    }
}

/// IBTA 9.7.5.2: a missing packet is reported also when a duplicate comes meanwhile.
#[test]
fn a_repetition_does_not_push_a_nak_aside() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.post(SendOp::Write, vec![0; 1000], 0);
    let packets = pair.a.transmit_all(NOW);
    for index in [0, 2, 0] {
        let _ = pair.b.receive(NOW, &packets[index]);
    }
    let code = NakCode::PsnSequence;
    let answers = pair.b.transmit_all(NOW);
    let answers: Vec<_> = answers.iter().map(Packet::syndrome).collect();
    assert_eq!(answers, [Some(Syndrome::Nak { code })]);
}

/// IBTA 9.4.4: a responder takes as many READs as it has resources.
#[test]
fn a_repetition_in_progress_gives_way_to_a_new_read() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.a.conn.open_windows(0, READ_WINDOW);
    let (requests, answers) = converse(&mut pair, &[(SendOp::Read, 600); 16]);
    for packet in &answers {
        let _ = pair.a.receive(NOW, packet);
    }
    // The peer has received all responses; an old copy of a request starts the oldest response
    // again.
    assert_eq!(pair.b.receive(NOW, &requests[0]), AGAIN);
    pair.b.transmit(NOW).unwrap();
    let (_, answers) = converse(&mut pair, &[(SendOp::Read, 4)]);
    let opcodes: Vec<_> = answers.iter().map(Packet::opcode).collect();
    assert_eq!(opcodes, [Opcode::RcReadResponseOnly]);
}
