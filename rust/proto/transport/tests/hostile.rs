// SPDX-License-Identifier: GPL-2.0

//! Packets that no correct peer sends. The host of the fixture panics on an access to memory
//! outside the agreed range.

use super::super::wire::{
    opcode, AethRepr, AtomicAckEthRepr, AtomicEthRepr, BthRepr, Ext, IethRepr, ImmDtRepr, NakCode,
    Opcode, PKey, PacketRepr, Qpn, RethRepr, RnrTimer, Syndrome,
};
use super::super::{
    ConnectedQp, DropReason, Events, Instant, Modify, Request, SendOp, State, Status, Verdict,
};
use super::pair::*;
use super::sink::Sink;

const NOW: Instant = Instant(0);

fn packet(opcode: Opcode, at: u32, ext: Ext, payload_len: usize) -> Packet {
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext,
        },
        payload: pattern(payload_len, 0),
    }
}

fn reth(at: u64, dma_len: u32) -> RethRepr {
    RethRepr {
        va: BASE.wrapping_add(at),
        rkey: RKEY,
        dma_len,
    }
}

fn aeth(syndrome: Syndrome) -> Ext {
    Ext::Aeth(AethRepr { syndrome, msn: 0 })
}

/// A node whose responder expects PSN 0.
fn target() -> Node {
    let mut node = Node::new(1, &config(), 0, 0);
    node.host.recvs.push_back(Ok(1000));
    node
}

/// Passes packets, all valid but the last, and checks that the last one is refused.
fn check_invalid(what: &str, packets: &[Packet]) {
    let mut node = target();
    let before = node.host.memory.clone();
    let (last, good) = packets.split_last().unwrap();
    for packet in good {
        assert_eq!(node.receive(NOW, packet), Verdict::Accepted, "{what}");
    }
    let memory = node.host.memory.clone();
    assert_eq!(
        node.receive(NOW, last),
        Verdict::Dropped(DropReason::Refused),
        "{what}"
    );
    assert_eq!(node.host.memory, memory, "{what}");
    assert!(good.len() > 1 || memory == before || !good.is_empty());
    node.settle();
    assert!(
        node.saw(Events::REQ_ERR) && node.saw(Events::ENTERED_ERROR),
        "{what}"
    );
    let nak = node.transmit_all(NOW).pop().unwrap();
    let code = NakCode::InvalidRequest;
    assert_eq!(nak.syndrome(), Some(Syndrome::Nak { code }), "{what}");
    assert_eq!(nak.psn(), last.psn(), "{what}");
    // The connection has ended: neither this packet nor another is processed.
    assert_eq!(
        node.receive(NOW, last),
        Verdict::Dropped(DropReason::State),
        "{what}"
    );
    assert!(node.transmit_all(NOW).is_empty(), "{what}");
}

/// IBTA 9.7.4.1.3: a first or only packet begins a message when none is in progress, and a middle
/// or last one continues the message in progress.
#[test]
fn opcodes_out_of_sequence() {
    use Opcode::*;
    let send = |op, at| packet(op, at, Ext::None, 256);
    let first_write = packet(RcWriteFirst, 0, Ext::Reth(reth(0, 1000)), 256);
    let first_send = send(RcSendFirst, 0);
    let imm = Ext::Imm(ImmDtRepr { data: [0; 4] });
    for (op, ext) in [
        (RcSendMiddle, Ext::None),
        (RcSendLast, Ext::None),
        (RcSendLastImm, imm),
        (RcSendLastInv, Ext::Inv(IethRepr { rkey: TEMP_KEY })),
        (RcWriteMiddle, Ext::None),
        (RcWriteLast, Ext::None),
        (RcWriteLastImm, imm),
    ] {
        check_invalid("nothing under way", &[packet(op, 0, ext, 256)]);
        let is_send = op.kind() == opcode::Kind::Send;
        let other = if is_send { &first_write } else { &first_send };
        check_invalid(
            "another under way",
            &[other.clone(), packet(op, 1, ext, 256)],
        );
    }
    let atomic = AtomicEthRepr {
        va: BASE,
        rkey: RKEY,
        swap_add: 0,
        compare: 0,
    };
    for start in [
        send(RcSendFirst, 1),
        send(RcSendOnly, 1),
        packet(RcWriteFirst, 1, Ext::Reth(reth(0, 1000)), 256),
        packet(RcWriteOnly, 1, Ext::Reth(reth(0, 256)), 256),
        packet(RcReadRequest, 1, Ext::Reth(reth(0, 256)), 0),
        packet(RcCompareSwap, 1, Ext::Atomic(atomic), 0),
        packet(RcFetchAdd, 1, Ext::Atomic(atomic), 0),
    ] {
        check_invalid("a SEND under way", &[first_send.clone(), start.clone()]);
        check_invalid("a WRITE under way", &[first_write.clone(), start]);
    }
}

/// IBTA 9.7.4.1.6: a first or middle packet is full, and no packet exceeds the path MTU.
#[test]
fn payloads_of_the_wrong_length() {
    use Opcode::*;
    let first = packet(RcSendFirst, 0, Ext::None, 256);
    for len in [0, 1, 255, 257, 512] {
        check_invalid("first", &[packet(RcSendFirst, 0, Ext::None, len)]);
        check_invalid(
            "middle",
            &[first.clone(), packet(RcSendMiddle, 1, Ext::None, len)],
        );
    }
    for len in [0, 257] {
        check_invalid(
            "last",
            &[first.clone(), packet(RcSendLast, 1, Ext::None, len)],
        );
    }
    check_invalid("only", &[packet(RcSendOnly, 0, Ext::None, 257)]);
    check_invalid(
        "read",
        &[packet(RcReadRequest, 0, Ext::Reth(reth(0, 4)), 4)],
    );
}

/// IBTA 9.7.4.1.6: the packets of a WRITE carry as many bytes as its RETH says.
#[test]
fn writes_that_do_not_bring_what_they_announced() {
    use Opcode::*;
    let only = |announced, len| packet(RcWriteOnly, 0, Ext::Reth(reth(0, announced)), len);
    let first = |announced| packet(RcWriteFirst, 0, Ext::Reth(reth(0, announced)), 256);
    for (announced, len) in [
        (0, 1),
        (1, 0),
        (100, 99),
        (100, 101),
        (257, 256),
        (1 << 31, 256),
    ] {
        check_invalid("only", &[only(announced, len)]);
    }
    for announced in [0, 1, 255, 256] {
        check_invalid("first", &[first(announced)]);
    }
    let middle = packet(RcWriteMiddle, 1, Ext::None, 256);
    check_invalid("too many middles", &[first(512), middle.clone()]);
    check_invalid("too many middles", &[first(500), middle]);
    for len in [1, 243, 245, 256] {
        check_invalid(
            "last",
            &[first(500), packet(RcWriteLast, 1, Ext::None, len)],
        );
    }
    check_invalid("over 2^31", &[first((1 << 31) + 1)]);
    check_invalid("over 2^31", &[first(u32::MAX)]);
}

/// IBTA 9.4.4, 9.7.4.1.4: more READs and atomics than the responder has resources are invalid
/// requests.
#[test]
fn reads_and_atomics_beyond_the_limits() {
    use Opcode::*;
    let read = |at| packet(RcReadRequest, at, Ext::Reth(reth(0, 4)), 0);
    let mut packets: Vec<_> = (0..17).map(read).collect();
    check_invalid("more than 16 outstanding", &packets);
    let eth = AtomicEthRepr {
        va: BASE,
        rkey: RKEY,
        swap_add: 0,
        compare: 0,
    };
    packets[16] = packet(RcFetchAdd, 16, Ext::Atomic(eth), 0);
    check_invalid("more than 16 outstanding", &packets);
    let long = packet(RcReadRequest, 0, Ext::Reth(reth(0, (1 << 31) + 1)), 0);
    check_invalid("over 2^31", &[long]);

    // A responder without resources allows none.
    for packet in [read(0), packet(RcFetchAdd, 0, Ext::Atomic(eth), 0)] {
        let mut node = target();
        assert_eq!(node.conn.replace_resources(Vec::new()).len(), 16);
        assert_eq!(
            node.receive(NOW, &packet),
            Verdict::Dropped(DropReason::Refused)
        );
        assert_eq!(node.host.atomics_done, 0);
    }
}

/// A requester with a SEND, a READ of three packets and an atomic in flight, from PSN 0 on.
fn requester() -> Node {
    let mut node = Node::new(1, &config(), 0, 0);
    node.post(SendOp::Send, pattern(4, 0), 0);
    node.post(SendOp::Read, vec![0xee; 600], 0);
    node.post(SendOp::FetchAdd { add: 1 }, vec![0xee; 8], 0);
    assert_eq!(node.transmit_all(NOW).len(), 3);
    node
}

fn check_bad_response(what: &str, good: &[Packet], bad: Packet, done: usize) {
    let mut node = requester();
    for packet in good {
        assert_eq!(node.receive(NOW, packet), Verdict::Accepted, "{what}");
    }
    assert_eq!(
        node.receive(NOW, &bad),
        Verdict::Dropped(DropReason::BadResponse),
        "{what}"
    );
    node.settle();
    let mut expect = vec![Status::Success; done];
    expect.push(Status::BadResp);
    expect.resize(3, Status::WrFlush);
    assert_eq!(node.statuses(), expect, "{what}");
    assert_eq!(node.conn.state(), State::Err, "{what}");
}

/// IBTA 9.7.6.1: a response whose kind, place or length does not match the request is a bad one.
#[test]
fn responses_that_do_not_fit_the_request() {
    use Opcode::*;
    let ok = aeth(Syndrome::ACK);
    let first = packet(RcReadResponseFirst, 1, ok, 256);
    let middle = packet(RcReadResponseMiddle, 2, Ext::None, 256);
    let last = packet(RcReadResponseLast, 3, ok, 88);
    for len in [0, 255, 257] {
        let bad = packet(RcReadResponseFirst, 1, ok, len);
        check_bad_response("first length", &[], bad, 1);
        let bad = packet(RcReadResponseMiddle, 2, Ext::None, len);
        check_bad_response("middle length", &[first.clone()], bad, 1);
    }
    for len in [0, 87, 89, 256] {
        let bad = packet(RcReadResponseLast, 3, ok, len);
        check_bad_response("last length", &[first.clone(), middle.clone()], bad, 1);
    }
    check_bad_response(
        "too early an end",
        &[],
        packet(RcReadResponseOnly, 1, ok, 256),
        1,
    );
    check_bad_response(
        "no beginning",
        &[],
        packet(RcReadResponseMiddle, 1, Ext::None, 256),
        1,
    );
    let bad = packet(RcReadResponseMiddle, 3, Ext::None, 256);
    check_bad_response("no end", &[first.clone(), middle.clone()], bad, 1);
    let bad = packet(RcReadResponseLast, 2, ok, 256);
    check_bad_response("an end in the middle", &[first.clone()], bad, 1);
    check_bad_response(
        "data for a SEND",
        &[],
        packet(RcReadResponseOnly, 0, ok, 4),
        0,
    );
    let answer = Ext::AtomicAck(
        AethRepr {
            syndrome: Syndrome::ACK,
            msn: 0,
        },
        AtomicAckEthRepr { original: 1 },
    );
    check_bad_response(
        "an atomic's for a READ",
        &[],
        packet(RcAtomicAck, 1, answer, 0),
        1,
    );
    check_bad_response(
        "an atomic's for a SEND",
        &[],
        packet(RcAtomicAck, 0, answer, 0),
        0,
    );
    let bad = packet(RcReadResponseOnly, 4, ok, 8);
    check_bad_response("a READ's for an atomic", &[first, middle, last], bad, 2);
}

/// IBTA 9.7.5.2.1, 9.7.6.1: the requester ignores reserved syndromes, and acknowledgements of
/// nothing that is outstanding.
#[test]
fn responses_that_mean_nothing() {
    use Opcode::*;
    let ok = aeth(Syndrome::ACK);
    let timer = RnrTimer::new(1);
    let mut node = requester();
    // PSNs behind the window, ahead of it, and far away.
    for at in [5, 6, 0xff_ffff, 0x80_0000] {
        for syndrome in [
            Syndrome::ACK,
            Syndrome::RnrNak { timer },
            Syndrome::Nak {
                code: NakCode::PsnSequence,
            },
            Syndrome::Nak {
                code: NakCode::RemoteAccess,
            },
        ] {
            let verdict = node.receive(NOW, &packet(RcAck, at, aeth(syndrome), 0));
            assert_eq!(verdict, Verdict::Dropped(DropReason::Ghost));
        }
        let verdict = node.receive(NOW, &packet(RcReadResponseOnly, at, ok, 4));
        assert_eq!(verdict, Verdict::Dropped(DropReason::Ghost));
    }
    let invalid_rd = Syndrome::Nak {
        code: NakCode::InvalidRdRequest,
    };
    for syndrome in [
        Syndrome::Reserved(0x40),
        Syndrome::Reserved(0xff),
        invalid_rd,
    ] {
        let verdict = node.receive(NOW, &packet(RcAck, 0, aeth(syndrome), 0));
        assert_eq!(verdict, Verdict::Dropped(DropReason::BadResponse));
    }
    let nak = Syndrome::Nak {
        code: NakCode::RemoteAccess,
    };
    let verdict = node.receive(NOW, &packet(RcReadResponseFirst, 1, aeth(nak), 256));
    assert_eq!(verdict, Verdict::Dropped(DropReason::BadResponse));
    node.settle();
    assert!(node.host.completed.is_empty() && node.events.is_empty());
    assert_eq!(node.host.local[1], vec![0xee; 600]);
}

/// IBTA 9.7.5.1.1, 9.7.6.1: an ACK of a later request shows that the response to a READ or atomic
/// was lost.
#[test]
fn an_ack_does_not_complete_a_read_or_an_atomic() {
    for at in 1..=4 {
        let mut node = requester();
        let ack = packet(Opcode::RcAck, at, aeth(Syndrome::ACK), 0);
        assert_eq!(node.receive(NOW, &ack), Verdict::Dropped(DropReason::Gap));
        node.settle();
        assert_eq!(node.statuses(), [Status::Success]);
        // The ACK is an implied NAK: the requester asks for the READ again. The window has no room
        // for the atomic yet.
        let again: Vec<_> = node.transmit_all(NOW).iter().map(Packet::psn).collect();
        assert_eq!(again, [1]);
    }
}

/// IBTA 9.7.5.1.3: a duplicate READ asks for a part of an earlier one, and a duplicate atomic has
/// the PSN of an earlier one; others are ignored.
#[test]
fn repeated_requests_that_were_never_made() {
    use Opcode::*;
    let mut node = Node::new(1, &config(), 0, 1000);
    let eth = AtomicEthRepr {
        va: BASE,
        rkey: RKEY,
        swap_add: 1,
        compare: 0,
    };
    let read = |at, range| packet(RcReadRequest, at, Ext::Reth(range), 0);
    let good = [
        read(1000, reth(0, 1000)),
        packet(RcFetchAdd, 1004, Ext::Atomic(eth), 0),
    ];
    for packet in &good {
        assert_eq!(node.receive(NOW, packet), Verdict::Accepted);
    }
    let done = node.transmit_all(NOW).len();
    assert_eq!(done, 5);
    let unknown = Verdict::Dropped(DropReason::UnknownDuplicate);
    for bad in [
        read(999, reth(0, 4)),
        read(1000, reth(0, 1001)),
        read(1000, reth(1, 900)),
        read(1000, reth(0, 0)),
        read(1001, reth(0, 4)),
        read(1001, reth(256, 745)),
        read(1003, reth(1024, 4)),
        read(1004, reth(0, 8)),
        read(
            1000,
            RethRepr {
                rkey: RKEY + 1,
                ..reth(0, 4)
            },
        ),
        packet(RcFetchAdd, 1000, Ext::Atomic(eth), 0),
        packet(RcFetchAdd, 999, Ext::Atomic(eth), 0),
        packet(RcCompareSwap, 500, Ext::Atomic(eth), 0),
    ] {
        assert_eq!(node.receive(NOW, &bad), unknown, "{bad:?}");
    }
    assert!(node.transmit_all(NOW).is_empty());
    assert_eq!(node.host.atomics_done, 1);
    for part in [
        read(1000, reth(0, 1000)),
        read(1001, reth(256, 300)),
        good[1].clone(),
    ] {
        assert_eq!(
            node.receive(NOW, &part),
            Verdict::Dropped(DropReason::Duplicate)
        );
    }
    // The second, newer duplicate narrows the first. The response to the atomic follows.
    let again: Vec<_> = node
        .transmit_all(NOW)
        .iter()
        .map(|p| (p.psn(), p.payload.len()))
        .collect();
    assert_eq!(again, [(1001, 256), (1002, 44), (1004, 0)]);
}

/// IBTA 9.7.2: a message has 2^31 bytes at most.
#[test]
fn a_send_that_does_not_end() {
    // Two gibibytes are the most; one byte more is refused, however large the buffer is.
    let config = Modify {
        pmtu: Some(4096),
        ..config()
    };
    let full = (1u32 << 31) / 4096;
    let refused = Verdict::Dropped(DropReason::Refused);
    for (before, last, expect, status, len) in [
        (full - 1, 4096, Verdict::Accepted, Status::Success, 1 << 31),
        (full, 1, refused, Status::LocLen, 0),
    ] {
        let mut node = Node::new(1, &config, 0, 0);
        let mut sink = Sink::new(Request::with_local_error(Status::General));
        let mut feed = |opcode, at, len| {
            let header = packet(opcode, at, Ext::None, 0).header;
            node.conn.handle_packet(NOW, &header, len, &mut sink)
        };
        assert_eq!(feed(Opcode::RcSendFirst, 0, 4096), Verdict::Accepted);
        for at in 1..before {
            assert_eq!(feed(Opcode::RcSendMiddle, at, 4096), Verdict::Accepted);
        }
        assert_eq!(feed(Opcode::RcSendLast, before, last), expect);
        assert_eq!(sink.received, [(status, len)]);
    }
}
