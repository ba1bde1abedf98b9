// SPDX-License-Identifier: GPL-2.0

//! Every operation over a wire without losses.

use super::super::wire::{BthRepr, Ext, Opcode, PKey, PacketRepr, Qpn, RethRepr};
use super::super::{
    ConnectedQp, Flags, Instant, Modify, RecvCompletion, Request, SendOp, Status, Verdict,
    LOOPBACK_MTU,
};
use super::pair::*;
use super::sink::Sink;

const SIZES: [usize; 9] = [0, 1, 3, 255, 256, 257, 512, 1000, 5000];

fn recv_ok(len: usize) -> RecvCompletion {
    RecvCompletion {
        status: Status::Success,
        write_imm: false,
        byte_len: len as u32,
        imm: None,
        inv_rkey: None,
        solicited: false,
    }
}

/// A loopback packet carries up to 64 KiB.
#[test]
fn loopback() {
    let config = Modify {
        pmtu: Some(LOOPBACK_MTU),
        ..config()
    };
    for (len, packets) in [(0, 1), (65_536, 1), (65_537, 2), (1_000_000, 16)] {
        for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
            let mut pair = Pair::with(&config, 0xff_fff0, 100);
            pair.b.host.recvs.push_back(Ok(len));
            pair.b.host.memory = pattern(len.max(1), 3);
            pair.a.post(op, pattern(len, 9), 0);
            pair.run();
            pair.assert_all_done();
            let way = match op {
                SendOp::Read => Way::BtoA,
                _ => Way::AtoB,
            };
            assert_eq!(pair.sent(way).len(), packets);
            match op {
                SendOp::Send => assert_eq!(pair.b.host.received[0].data, pattern(len, 9)),
                SendOp::Write => assert_eq!(pair.b.host.memory[..len], pattern(len, 9)),
                _ => assert_eq!(pair.a.host.local[0], pattern(len, 3)),
            }
        }
    }
}

/// IBTA 9.4: a SEND puts its bytes into one receive, with immediate data or a key to invalidate.
#[test]
fn sends_of_every_kind_and_size() {
    let imm = [1, 2, 3, 4];
    for (op, expect) in [
        (SendOp::Send, recv_ok(0)),
        (
            SendOp::SendImm(imm),
            RecvCompletion {
                imm: Some(imm),
                ..recv_ok(0)
            },
        ),
        (
            SendOp::SendInv(TEMP_KEY),
            RecvCompletion {
                inv_rkey: Some(TEMP_KEY),
                ..recv_ok(0)
            },
        ),
    ] {
        for size in SIZES {
            let mut pair = Pair::new();
            pair.b.host.recvs.push_back(Ok(size));
            let data = pattern(size, 9);
            pair.a.post(op, data.clone(), 0);
            pair.run();
            pair.assert_all_done();
            let got = &pair.b.host.received[0];
            assert_eq!(got.data, data);
            let expect = RecvCompletion {
                byte_len: size as u32,
                ..expect
            };
            assert_eq!(got.completion, expect);
            let invalidated = matches!(op, SendOp::SendInv(_));
            assert_eq!(pair.b.host.temp_key_valid, !invalidated);
        }
    }
}

/// IBTA 9.2, 9.7.2, 9.7.5.1.2: a message is a first, middle and a last packet with successive PSNs,
/// and one ACK may acknowledge them all.
#[test]
fn the_packets_of_a_long_send() {
    let mut pair = Pair::with(&config(), 0xff_fffe, 0);
    pair.b.host.recvs.push_back(Ok(1000));
    pair.a.post(SendOp::SendImm([0; 4]), pattern(999, 0), 0);
    pair.run();
    let sent = pair.sent(Way::AtoB);
    let seen: Vec<_> = sent
        .iter()
        .map(|p| (p.opcode(), p.psn(), p.payload.len()))
        .collect();
    let expect = [
        (Opcode::RcSendFirst, 0xff_fffe, 256),
        (Opcode::RcSendMiddle, 0xff_ffff, 256),
        (Opcode::RcSendMiddle, 0, 256),
        (Opcode::RcSendLastImm, 1, 231),
    ];
    assert_eq!(seen, expect);
    let asked: Vec<_> = sent.iter().map(|p| p.header.bth.ack_req).collect();
    assert_eq!(asked, [false, false, false, true]);
    assert_eq!(sent[3].header.bth.pad, 1);
    let acks = pair.sent(Way::BtoA);
    assert_eq!(acks.len(), 1, "one ACK for all");
    assert_eq!((acks[0].opcode(), acks[0].psn()), (Opcode::RcAck, 1));
    assert_eq!(acks[0].header.ext.aeth().unwrap().msn, 1);
}

/// IBTA 9.4: an RDMA WRITE changes the memory that it names, and takes no receive.
#[test]
fn writes_of_every_size() {
    for size in SIZES {
        let mut pair = Pair::new();
        let before = pair.b.host.memory.clone();
        let data = pattern(size, 77);
        pair.a.post(SendOp::Write, data.clone(), 40);
        pair.run();
        pair.assert_all_done();
        let memory = &pair.b.host.memory;
        assert_eq!(&memory[40..40 + size], data);
        assert_eq!(memory[..40], before[..40]);
        assert_eq!(memory[40 + size..], before[40 + size..]);
        assert_eq!(pair.b.host.writes_started, usize::from(size > 0));
        assert!(pair.b.host.received.is_empty());
    }
}

/// IBTA 9.4: an RDMA WRITE with immediate takes a receive, whose buffers stay as they are.
#[test]
fn writes_with_immediate_consume_a_receive() {
    for size in SIZES {
        let mut pair = Pair::new();
        pair.b.host.recvs.push_back(Ok(0));
        let data = pattern(size, 78);
        let flags = Flags {
            solicited: true,
            ..signaled()
        };
        pair.a
            .post_with(SendOp::WriteImm([9; 4]), data.clone(), 0, RKEY, flags);
        pair.run();
        pair.assert_all_done();
        assert_eq!(&pair.b.host.memory[..size], data);
        let expect = RecvCompletion {
            write_imm: true,
            imm: Some([9; 4]),
            solicited: true,
            ..recv_ok(size)
        };
        assert_eq!(pair.b.host.received[0].completion, expect);
    }
}

/// IBTA 9.7.4.1.5: the key of a WRITE or READ without bytes is not checked.
#[test]
fn a_zero_length_write_does_not_touch_the_key() {
    let mut pair = Pair::new();
    pair.a
        .post_with(SendOp::Write, Vec::new(), u64::MAX, 0xdead, signaled());
    pair.a
        .post_with(SendOp::Read, Vec::new(), u64::MAX, 0xdead, signaled());
    pair.run();
    pair.assert_all_done();
}

/// IBTA 9.4.4, 9.7.2: a READ returns the bytes that it names, with a response packet for each path
/// MTU.
#[test]
fn reads_of_every_size() {
    for size in SIZES {
        let mut pair = Pair::new();
        pair.a.post(SendOp::Read, vec![0; size], 33);
        pair.a.post(SendOp::Read, vec![0; size], 34);
        pair.run();
        pair.assert_all_done();
        assert_eq!(pair.a.host.local[0], pair.b.host.memory[33..33 + size]);
        assert_eq!(pair.a.host.local[1], pair.b.host.memory[34..34 + size]);
        assert_eq!(pair.a.host.completed[0].byte_len, size as u32);
        // No packets but the responses come back.
        let packets = size.div_ceil(256).max(1) * 2;
        assert_eq!(pair.sent(Way::BtoA).len(), packets);
    }
}

/// IBTA 9.4.5: an atomic changes eight bytes and returns what they were.
#[test]
fn atomics_return_what_was_there() {
    let mut pair = Pair::new();
    pair.b.host.memory[..8].copy_from_slice(&10u64.to_ne_bytes());
    pair.a
        .post(SendOp::FetchAdd { add: u64::MAX }, vec![0; 8], 0);
    pair.a.post(
        SendOp::CompareSwap {
            compare: 9,
            swap: 70,
        },
        vec![0; 8],
        0,
    );
    pair.a.post(
        SendOp::CompareSwap {
            compare: 9,
            swap: 80,
        },
        vec![0; 8],
        0,
    );
    pair.run();
    pair.assert_all_done();
    let found: Vec<_> = pair
        .a
        .host
        .local
        .iter()
        .map(|l| l.as_slice().try_into().unwrap())
        .collect();
    let found: Vec<_> = found.into_iter().map(u64::from_ne_bytes).collect();
    assert_eq!(found, [10, 9, 70]);
    assert_eq!(pair.b.host.memory[..8], 70u64.to_ne_bytes());
    assert_eq!(pair.a.host.completed[0].byte_len, 8);
}

#[test]
fn both_sides_at_once_and_in_order() {
    let mut pair = Pair::new();
    for i in 0..40usize {
        let size = i * 37;
        for node in [&mut pair.a, &mut pair.b] {
            node.host.recvs.push_back(Ok(5000));
            match i % 4 {
                0 => node.post(SendOp::Send, pattern(size, i as u8), 0),
                1 => node.post(SendOp::Read, vec![0; size], 0),
                2 => node.post(SendOp::FetchAdd { add: 1 }, vec![0; 8], 4096),
                _ => node.post(SendOp::WriteImm([i as u8; 4]), pattern(size, i as u8), 8192),
            };
        }
    }
    pair.run();
    pair.assert_all_done();
    assert_eq!(pair.b.host.completed.len(), 40);
    assert_eq!(pair.a.host.atomics_done, 10);
    assert_eq!(pair.b.host.received.len(), 20);
    assert!(pair.a.events.is_empty() && pair.b.events.is_empty());
}

#[test]
fn unsignaled_success_is_reported_as_such() {
    let mut pair = Pair::new();
    pair.a
        .post_with(SendOp::Write, pattern(4, 0), 0, RKEY, Flags::default());
    pair.a.post(SendOp::Write, pattern(4, 0), 0);
    pair.run();
    pair.assert_all_done();
    let signaled: Vec<_> = pair.a.host.completed.iter().map(|c| c.signaled).collect();
    assert_eq!(signaled, [false, true]);
}

/// IBTA 9.2.3: SE is set in the last packet of a SEND, and in no packet of a WRITE.
#[test]
fn solicited_is_asked_for_at_the_end_only() {
    let mut pair = Pair::new();
    let flags = Flags {
        solicited: true,
        ..signaled()
    };
    pair.b.host.recvs.push_back(Ok(600));
    pair.a
        .post_with(SendOp::Send, pattern(600, 0), 0, RKEY, flags);
    pair.a
        .post_with(SendOp::Write, pattern(600, 0), 0, RKEY, flags);
    pair.run();
    let asked: Vec<_> = pair
        .sent(Way::AtoB)
        .iter()
        .map(|p| p.header.bth.solicited)
        .collect();
    assert_eq!(asked, [false, false, true, false, false, false]);
    assert!(pair.b.host.received[0].completion.solicited);
}

/// IBTA 9.7.7.1: the MSN counts requests modulo 2^24.
#[test]
fn the_msn_wraps() {
    let now = Instant(0);
    let mut node = Node::new(1, &config(), 0, 0);
    let mut sink = Sink::new(Request::with_local_error(Status::General));
    let (va, rkey, dma_len) = (BASE, RKEY, 0);
    let mut header = PacketRepr {
        bth: BthRepr::new(Opcode::RcWriteOnly, PKey::DEFAULT, Qpn::new(5), psn(0)),
        ext: Ext::Reth(RethRepr { va, rkey, dma_len }),
    };
    let last = (1 << 24) + 2;
    for at in 0..=last {
        header.bth.psn = psn(at);
        header.bth.ack_req = at == last;
        let verdict = node.conn.handle_packet(now, &header, 0, &mut sink);
        assert_eq!(verdict, Verdict::Accepted);
    }
    let ack = node.conn.poll_transmit(now, 1, &mut sink).unwrap().header;
    assert_eq!((ack.bth.psn, ack.ext.aeth().unwrap().msn), (psn(2), 3));
}
