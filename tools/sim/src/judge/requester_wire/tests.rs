// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: it accepts right packets, and finds each kind of wrong one.

use super::*;
use crate::check::Violation;
use crate::judge::cwnd::{reduced, INITIAL_CWND};
use crate::judge::decode::NAK_SEQUENCE;
use crate::judge::expect::{chunk, expected_request};
use crate::model::fault::Fault;
use crate::model::flow::tests::op as posted;
use crate::model::verb::Verb;

const LIMITS: Limits = Limits {
    max_rd_atomic: 2,
    retry_cnt: 1,
    rnr_retry: 1,
    foreign: false,
};

pub(super) struct Wire {
    pub(super) flow: Flow,
    pub(super) watch: Watch,
    now: u64,
}

impl Wire {
    pub(super) fn new(requests: &[(Verb, usize)]) -> Wire {
        let mut flow = Flow::new(0xff_fff0, 256, 0, &[0; 64]);
        for (verb, len) in requests {
            let data: Vec<u8> = (0..*len).map(|i| i as u8).collect();
            flow.post(posted(*verb, &data), verb.is_atomic().then_some(0));
        }
        Wire {
            flow,
            watch: Watch::default(),
            now: 0,
        }
    }

    /// The packet that should go out as this one of the flow.
    pub(super) fn request(&self, packet: u64) -> Seen<'static> {
        let op = &self.flow.ops[self.flow.op_at(packet).unwrap()];
        let k = packet - op.first;
        let mut seen = expected_request(&self.flow, op, k, op.chunk_end(k));
        if op.verb.carries_data() {
            let data: &'static [u8] = op.data.clone().leak();
            seen.payload = &data[chunk(&self.flow, op, k).unwrap()];
        }
        seen.ack_req = true;
        seen
    }

    pub(super) fn send(&mut self, seen: &Seen) -> Result<(), Violation> {
        self.watch.request_sent(self.now, &self.flow, LIMITS, seen)
    }

    pub(super) fn send_packet(&mut self, packet: u64) -> Result<(), Violation> {
        let seen = self.request(packet);
        self.send(&seen)
    }

    fn execute(&mut self, packet: u64) {
        let seen = self.request(packet);
        self.watch.request_executed(self.now, &self.flow, &seen);
    }

    pub(super) fn answer(&self, opcode: u8, packet: u64, syndrome: u8, msn: u32) -> Seen<'static> {
        Seen {
            opcode,
            psn: self.flow.psn(packet),
            aeth: Some((syndrome, msn)),
            ..Seen::default()
        }
    }

    fn is_answered(&self, index: usize) -> bool {
        self.watch.is_answered(&self.flow.ops[index])
    }

    fn respond(&mut self, seen: &Seen) -> Result<(), Violation> {
        self.watch.response_sent(self.now, &self.flow, false, seen)
    }

    pub(super) fn heed(&mut self, seen: &Seen) -> Result<(), Violation> {
        self.watch.response_delivered(&self.flow, seen);
        let una = self.flow.packet(seen.psn) + 1;
        self.watch
            .answer_heeded(self.now, &self.flow, LIMITS, seen, una)
    }
}

#[track_caller]
pub(super) fn refused(result: Result<(), Violation>, reason: &str) {
    let found = result.expect_err("this is wrong");
    assert!(found.to_string().contains(reason), "{found}");
}

#[test]
fn a_good_exchange() {
    let mut wire = Wire::new(&[
        (Verb::Send, 600),
        (Verb::Read, 300),
        (Verb::FetchAdd { add: 1 }, 8),
    ]);
    for packet in [0, 1, 2, 3, 5] {
        wire.send_packet(packet).unwrap();
        wire.execute(packet);
    }
    assert_eq!(wire.watch.accepted, 6);
    let ack = wire.answer(op::ACK, 2, 0x1f, 3);
    wire.respond(&ack).unwrap();
    wire.heed(&ack).unwrap();
    let data: Vec<u8> = (0..300).map(|i| i as u8).collect();
    let first = Seen {
        payload: &data[..256],
        ..wire.answer(op::READ_FIRST, 3, 0x1f, 2)
    };
    wire.respond(&first).unwrap();
    wire.heed(&first).unwrap();
    let last = Seen {
        payload: &data[256..],
        ..wire.answer(op::READ_LAST, 4, 0x1f, 2)
    };
    wire.respond(&last).unwrap();
    wire.heed(&last).unwrap();
    assert!(wire.is_answered(1) && !wire.is_answered(2));
    let atomic = Seen {
        original: Some(0),
        ..wire.answer(op::ATOMIC_ACK, 5, 0x1f, 3)
    };
    wire.respond(&atomic).unwrap();
}

#[test]
fn wrong_requests() {
    let mut wire = Wire::new(&[(Verb::Write, 600), (Verb::Read, 600)]);
    let good = wire.request(0);
    refused(wire.send(&wire.request(1)), "sent before 0");
    for bad in [
        Seen {
            opcode: op::SEND_FIRST,
            ..good.clone()
        },
        Seen {
            reth: Some((0, 0, 599)),
            ..good.clone()
        },
        Seen {
            imm: Some([0; 4]),
            ..good.clone()
        },
        Seen {
            solicited: true,
            ..good.clone()
        },
    ] {
        refused(wire.send(&bad), "expected");
    }
    let bad = Seen {
        payload: &good.payload[1..],
        ..good.clone()
    };
    refused(wire.send(&bad), "wrong payload");
    wire.send(&good).unwrap();
    wire.send_packet(1).unwrap();
    wire.send_packet(2).unwrap();
    let read = wire.request(3);
    let bad = Seen {
        reth: Some((0, 0, 601)),
        ..read.clone()
    };
    refused(wire.send(&bad), "expected");
    wire.send(&read).unwrap();
    refused(
        wire.send(&Seen {
            psn: wire.flow.psn(6),
            ..read
        }),
        "nothing posted",
    );
}

#[test]
fn going_back_needs_a_reason() {
    let mut wire = Wire::new(&[(Verb::Send, 600)]);
    for packet in 0..3 {
        wire.send_packet(packet).unwrap();
    }
    // One retry is allowed, and three probes.
    for _ in 0..4 {
        refused(wire.send_packet(0), "for no reason");
        wire.watch.timed_out();
        for packet in 0..3 {
            wire.send_packet(packet).unwrap();
        }
    }
    wire.watch.timed_out();
    refused(wire.send_packet(0), "without progress");
}

#[test]
fn one_nak_is_one_reason() {
    let mut wire = Wire::new(&[(Verb::Send, 600)]);
    for packet in 0..3 {
        wire.send_packet(packet).unwrap();
    }
    wire.execute(0);
    let nak = wire.answer(op::ACK, 1, NAK_SEQUENCE, 0);
    wire.respond(&nak).unwrap();
    refused(wire.respond(&nak), "a second NAK of 1");
    wire.heed(&nak).unwrap();
    wire.send_packet(1).unwrap();
    refused(wire.heed(&nak), "twice for one NAK");
}

#[test]
fn a_loss_makes_the_requester_send_less() {
    let mut wire = Wire::new(&[(Verb::Send, 256 * 200)]);
    for packet in 0..INITIAL_CWND {
        wire.send_packet(packet).unwrap();
    }
    let nak = wire.answer(op::ACK, 0, NAK_SEQUENCE, 0);
    assert!(wire.watch.is_wide(&wire.flow, &nak));
    wire.heed(&nak).unwrap();
    let window = reduced(INITIAL_CWND);
    for packet in 0..window {
        wire.send_packet(packet).unwrap();
    }
    refused(wire.send_packet(window), "24 requests in flight");
    // Each acknowledgement lets it send two more.
    wire.execute(0);
    let ack = wire.answer(op::ACK, 0, 0x1f, 0);
    wire.heed(&ack).unwrap();
    for packet in window..window + 3 {
        wire.send_packet(packet).unwrap();
    }
    refused(wire.send_packet(window + 3), "26 requests in flight");
}

#[test]
fn a_lost_answer_makes_the_requester_ask_for_less() {
    let mut wire = Wire::new(&[(Verb::Read, 256 * 122); 5]);
    wire.watch.cwnd.on_read_response(4 * 122 - 16);
    let limits = Limits {
        max_rd_atomic: 16,
        ..LIMITS
    };
    let send = |wire: &mut Wire, n: u64| {
        let seen = wire.request(n * 122);
        wire.watch.request_sent(wire.now, &wire.flow, limits, &seen)
    };
    for n in 0..4 {
        send(&mut wire, n).unwrap();
    }
    refused(send(&mut wire, 4), "610 PSNs in flight");
    let late = wire.answer(op::READ_FIRST, 122, 0x1f, 2);
    assert_eq!(wire.watch.gap_before(&wire.flow, &late), Some(0));
    wire.watch.gap_noticed(wire.now, &wire.flow, &late);
    assert_eq!(wire.watch.gap_before(&wire.flow, &late), None);
    send(&mut wire, 0).unwrap();
    send(&mut wire, 1).unwrap();
    refused(send(&mut wire, 2), "366 PSNs in flight");
}

#[test]
fn answers_keep_their_order() {
    let mut wire = Wire::new(&[
        (Verb::Read, 300),
        (Verb::FetchAdd { add: 1 }, 8),
        (Verb::Send, 10),
    ]);
    for packet in [0, 2, 3] {
        wire.execute(packet);
    }
    let (ack, nak) = (
        wire.answer(op::ACK, 3, 0x1f, 3),
        wire.answer(op::ACK, 4, NAK_SEQUENCE, 3),
    );
    let atomic = Seen {
        original: Some(0),
        ..wire.answer(op::ATOMIC_ACK, 2, 0x1f, 2)
    };
    let data: Vec<u8> = (0..300).map(|i| i as u8).collect();
    let parts = [&data[..256], &data[256..]];
    for (packet, payload) in (0u64..).zip(parts) {
        for early in [&ack, &nak, &atomic] {
            refused(wire.respond(early), "is not answered");
        }
        let opcode = [op::READ_FIRST, op::READ_LAST][packet as usize];
        let part = Seen {
            payload,
            ..wire.answer(opcode, packet, 0x1f, 1)
        };
        wire.respond(&part).unwrap();
        // Once more is no harm.
        wire.respond(&part).unwrap();
    }
    refused(wire.respond(&ack), "2 is not answered");
    wire.respond(&atomic).unwrap();
    wire.respond(&ack).unwrap();
    wire.respond(&nak).unwrap();
    let fatal = wire.answer(op::ACK, 4, 0x61, 3);
    wire.respond(&fatal).unwrap();
    refused(wire.respond(&fatal), "after a NAK that ends all");
}

#[test]
fn not_ready_means_wait() {
    let mut wire = Wire::new(&[(Verb::Send, 10)]);
    wire.send_packet(0).unwrap();
    let rnr = wire.answer(op::ACK, 0, 0x21, 0);
    refused(wire.respond(&rnr), "for no reason");
    wire.watch.answers.not_ready(2);
    refused(wire.respond(&rnr), "RNR timer 1, not Some(2)");
    wire.watch.answers.not_ready(1);
    wire.respond(&rnr).unwrap();
    let nak = wire.answer(op::ACK, 0, NAK_SEQUENCE, 0);
    refused(wire.respond(&nak), "a second NAK");
    wire.heed(&rnr).unwrap();
    wire.now = 9_999;
    refused(wire.send_packet(0), "1 ns too early");
    wire.now = 10_000;
    wire.send_packet(0).unwrap();
    refused(wire.heed(&rnr), "after 2 RNR NAKs");
}

#[test]
fn the_window_ends() {
    let mut wire = Wire::new(&[(Verb::Send, 256 * 200)]);
    for packet in 0..INITIAL_CWND {
        wire.send_packet(packet).unwrap();
    }
    refused(wire.send_packet(INITIAL_CWND), "33 requests in flight");
}

#[test]
fn reads_and_fences_are_counted() {
    let mut wire = Wire::new(&[(Verb::Read, 300); 3]);
    wire.send_packet(0).unwrap();
    wire.send_packet(2).unwrap();
    refused(wire.send_packet(4), "3 reads under way");
    let mut wire = Wire::new(&[(Verb::Read, 300), (Verb::Send, 0)]);
    wire.flow.ops[1].fence = true;
    wire.send_packet(0).unwrap();
    refused(wire.send_packet(2), "fenced");
    let last = wire.answer(op::READ_LAST, 1, 0x1f, 1);
    wire.heed(&wire.answer(op::READ_FIRST, 0, 0x1f, 1)).unwrap();
    wire.heed(&last).unwrap();
    wire.send_packet(2).unwrap();
}

#[test]
fn wrong_answers() {
    let mut wire = Wire::new(&[
        (Verb::Send, 10),
        (Verb::Read, 300),
        (Verb::FetchAdd { add: 1 }, 8),
    ]);
    wire.execute(0);
    refused(
        wire.respond(&wire.answer(op::ACK, 1, 0x1f, 1)),
        "expecting 1",
    );
    refused(wire.respond(&wire.answer(op::ACK, 0, 0x1f, 2)), "MSN 2");
    refused(wire.respond(&wire.answer(op::ACK, 0, 0x1f, 0)), "MSN 0");
    refused(
        wire.respond(&wire.answer(op::ACK, 0, NAK_SEQUENCE, 1)),
        "NAK",
    );
    refused(wire.respond(&wire.answer(op::ACK, 2, 0x62, 1)), "NAK");
    let early = wire.answer(op::READ_FIRST, 1, 0x1f, 2);
    refused(wire.respond(&early), "expecting 1");
    wire.execute(1);
    wire.execute(3);
    let atomic = Seen {
        original: Some(7),
        ..wire.answer(op::ATOMIC_ACK, 3, 0x1f, 3)
    };
    refused(wire.respond(&atomic), "atomic found");
    let read = wire.answer(op::READ_FIRST, 0, 0x1f, 1);
    refused(wire.respond(&read), "read answer to Send");
    let data: Vec<u8> = (0..300).map(|i| i as u8).collect();
    let first = Seen {
        payload: &data[..256],
        ..wire.answer(op::READ_FIRST, 1, 0x1f, 2)
    };
    wire.respond(&first).unwrap();
    refused(
        wire.respond(&Seen {
            aeth: Some((0x1f, 1)),
            ..first.clone()
        }),
        "MSN 1, not 2",
    );
    refused(
        wire.respond(&Seen {
            opcode: op::READ_ONLY,
            ..first.clone()
        }),
        "wrong end",
    );
    refused(
        wire.respond(&Seen {
            opcode: op::READ_MIDDLE,
            ..first.clone()
        }),
        "wrong start",
    );
    refused(
        wire.respond(&Seen {
            payload: &data[..255],
            ..first.clone()
        }),
        "255 bytes",
    );
    let other = Seen {
        payload: &data[1..257],
        ..first
    };
    refused(wire.respond(&other), "wrong data");
    let index = wire.flow.op_at(wire.flow.packet(other.psn)).unwrap();
    wire.flow.ops[index].fault = Some(Fault::NotEnabled);
    assert_eq!(wire.respond(&other), Ok(()), "its end is out of its region");
}

#[test]
fn progress_is_what_the_requester_sees() {
    let mut wire = Wire::new(&[(Verb::Send, 600), (Verb::Read, 300), (Verb::Send, 0)]);
    for packet in [0, 1, 2, 3, 5] {
        wire.send_packet(packet).unwrap();
    }
    // The ACK of the last cannot stand for the READ.
    let ack = wire.answer(op::ACK, 5, 0x1f, 3);
    wire.watch.gap_noticed(wire.now, &wire.flow, &ack);
    assert_eq!(wire.watch.una, 3);
    wire.send_packet(3).unwrap();
    assert_eq!(wire.watch.harm(), 0);
    wire.watch.packets_harmed(2);
    assert_eq!(wire.watch.harm(), 2);
    wire.heed(&wire.answer(op::READ_FIRST, 3, 0x1f, 2)).unwrap();
    assert_eq!((wire.watch.una, wire.watch.harm()), (4, 0));
}

#[test]
fn somebody_must_be_asked() {
    let mut wire = Wire::new(&[(Verb::Send, 10), (Verb::Send, 10)]);
    wire.watch.check_asked(None).unwrap();
    let silent = Seen {
        ack_req: false,
        ..wire.request(0)
    };
    wire.send(&silent).unwrap();
    refused(wire.watch.check_asked(None), "without AckReq");
    wire.send_packet(0).unwrap();
    wire.watch.check_asked(None).unwrap();
    let silent = Seen {
        ack_req: false,
        ..wire.request(1)
    };
    wire.send(&silent).unwrap();
    // Only about the second one, whose memory is gone, the requester cannot ask.
    wire.watch.check_asked(Some(1)).unwrap();
    refused(wire.watch.check_asked(Some(2)), "without AckReq");
}

#[test]
fn acknowledgements_are_not_held_back_for_long() {
    let mut wire = Wire::new(&[(Verb::Send, 10), (Verb::Send, 10)]);
    wire.execute(0);
    wire.now = 5_000_000;
    let ack = wire.answer(op::ACK, 0, 0x1f, 1);
    wire.respond(&ack).unwrap();
    wire.execute(1);
    wire.now += 5_000_001;
    let late = wire.answer(op::ACK, 1, 0x1f, 2);
    refused(wire.respond(&late), "acknowledged 5000001 ns later");
}

#[test]
fn retries_take_their_time() {
    let mut wire = Wire::new(&[(Verb::Send, 600)]);
    for packet in 0..3 {
        wire.send_packet(packet).unwrap();
    }
    let patience = |wire: &Wire, retries| wire.watch.check_patience(wire.now, 12, retries);
    wire.now = 2 * (4096 << 12) - 1;
    refused(patience(&wire, 2), "2 ACK timeouts are 33554432");
    patience(&wire, 1).unwrap();
    // A NAK is a reason to go back at once.
    let nak = wire.answer(op::ACK, 0, NAK_SEQUENCE, 0);
    wire.heed(&nak).unwrap();
    patience(&wire, 2).unwrap();
    // An acknowledgement resets the counters.
    let ack = wire.answer(op::ACK, 0, 0x1f, 0);
    wire.heed(&ack).unwrap();
    refused(patience(&wire, 1), "after 0 ns");
}
