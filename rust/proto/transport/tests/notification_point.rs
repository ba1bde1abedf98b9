// SPDX-License-Identifier: GPL-2.0

//! CNPs for packets that were marked: when one is due, to which queue pair, and its bytes.

use super::super::wire::{AethRepr, DethRepr, Ecn, Ext, Opcode, PKey, PacketRepr, Qpn, Syndrome};
use super::super::{
    Arrival, ConnectedQp, DropReason, Instant, Modify, NotificationPoint, SendOp, State, Verdict,
};
use super::pair::{config, Packet, Pair};
use super::{uc, ud};

/// Nanoseconds between two CNPs.
const INTERVAL: u64 = 4000;

/// The destination QP of the connections of these tests, and the source QP of the datagrams.
const PEER: Qpn = Qpn::new(5);
const SOURCE: Qpn = Qpn::new(17);

/// An accepted packet with payload, marked CE.
fn marked(packet: &PacketRepr) -> Arrival<'_> {
    Arrival {
        packet,
        payload_len: 1,
        ecn: Ecn::Ce,
        accepted: true,
    }
}

/// The destination of the CNP that a new notification point sends for a packet marked CE on which
/// this was the verdict.
fn cnp_for(packet: &Packet, verdict: Verdict, peer: Option<Qpn>) -> Option<Qpn> {
    let arrival = Arrival {
        payload_len: packet.payload.len() as u32,
        accepted: verdict == Verdict::Accepted,
        ..marked(&packet.header)
    };
    let cnp = NotificationPoint::default().on_packet(Instant(0), INTERVAL, &arrival, peer);
    cnp.map(|cnp| cnp.bth.dest_qp)
}

/// IBTA annex A17.9.3: the bytes of a CNP. They are those of a ConnectX's, but for its ICRC, which
/// covers addresses.
#[test]
fn a_cnp_is_as_hardware_sends_it() {
    let packet = ud::packet(1);
    let peer = Some(Qpn::new(0xd2));
    let cnp = NotificationPoint::default()
        .on_packet(Instant(0), INTERVAL, &marked(&packet), peer)
        .unwrap();
    let mut bytes = [0xee; 28];
    assert_eq!(cnp.emit(&mut bytes), Ok(28));
    let bth = [0x81, 0, 0xff, 0xff, 0x40, 0, 0, 0xd2, 0, 0, 0, 0];
    assert_eq!(bytes[..12], bth);
    assert_eq!(bytes[12..], [0; 16]);
    assert_eq!(cnp.wire_len(0), 32);
}

/// IBTA annex A17.9.3: a packet that is not marked, or has no payload, gets no CNP.
#[test]
fn only_payload_that_is_marked_gets_one() {
    let packet = ud::packet(1);
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
        for payload_len in [0, 1, 4096] {
            let arrival = Arrival {
                payload_len,
                ecn,
                ..marked(&packet)
            };
            let cnp = NotificationPoint::default().on_packet(Instant(9), INTERVAL, &arrival, None);
            assert_eq!(cnp.is_some(), ecn == Ecn::Ce && payload_len != 0);
        }
    }
}

/// IBTA annex A17.9.3: the notification point limits the rate of its CNPs.
#[test]
fn there_is_one_in_an_interval() {
    let packet = ud::packet(1);
    for (interval, start) in [(INTERVAL, 0), (1, 7), (u64::MAX, 50)] {
        let mut point = NotificationPoint::default();
        let mut at = |now| {
            let cnp = point.on_packet(Instant(now), interval, &marked(&packet), None);
            cnp.is_some()
        };
        assert!(at(start));
        assert!(!at(start) && !at(start.saturating_add(interval) - 1));
        if let Some(next) = start.checked_add(interval) {
            assert!(at(next) && !at(next));
        }
    }
    let mut point = NotificationPoint::default();
    for _ in 0..3 {
        let cnp = point.on_packet(Instant(8), 0, &marked(&packet), None);
        assert!(cnp.is_some(), "an interval of 0 limits nothing");
    }
}

/// The interval is the one of now: a shorter one holds at once.
#[test]
fn an_interval_that_was_long_is_forgotten() {
    let packet = ud::packet(1);
    let mut point = NotificationPoint::default();
    let mut at = |now, interval| {
        let cnp = point.on_packet(Instant(now), interval, &marked(&packet), None);
        cnp.is_some()
    };
    assert!(at(0, u64::MAX));
    assert!(!at(1_000_000, u64::MAX));
    assert!(at(1_000_000, INTERVAL));
}

/// Any host may send a datagram to QP 1, with a source QP of its choice: it is not told.
#[test]
fn special_queue_pairs_tell_nobody() {
    for qpn in [0, 1, 2] {
        let mut packet = ud::packet(1);
        packet.bth.dest_qp = Qpn::new(qpn);
        let cnp =
            NotificationPoint::default().on_packet(Instant(9), INTERVAL, &marked(&packet), None);
        assert_eq!(cnp.is_some(), qpn > 1, "QP {qpn}");
    }
}

/// Packets that get no CNP do not begin an interval.
#[test]
fn other_packets_do_not_count() {
    let packet = ud::packet(1);
    let mut point = NotificationPoint::default();
    for other in [
        Arrival {
            accepted: false,
            ..marked(&packet)
        },
        Arrival {
            ecn: Ecn::Ect0,
            ..marked(&packet)
        },
    ] {
        assert_eq!(point.on_packet(Instant(1), INTERVAL, &other, None), None);
    }
    let due = point.on_packet(Instant(1), INTERVAL, &marked(&packet), None);
    assert!(due.is_some());
}

/// IBTA annex A17.9.3: RC requests with payload, and READ responses, are notified to the peer.
/// Other packets are not: a READ request, an atomic, a SEND of no bytes, ACKs.
#[test]
fn rc_notifies_of_data_alone() {
    for (op, len, notified) in [
        (SendOp::Send, 600, true),
        (SendOp::Write, 600, true),
        (SendOp::Send, 0, false),
        (SendOp::Read, 600, false),
        (SendOp::FetchAdd { add: 1 }, 8, false),
    ] {
        let mut pair = Pair::with(&config(), 0, 0);
        pair.b.host.recvs.push_back(Ok(1000));
        pair.a.post(op, vec![1; len], 0);
        for packet in pair.a.transmit_all(Instant(0)) {
            let verdict = pair.b.receive(Instant(0), &packet);
            assert_eq!(verdict, Verdict::Accepted);
            let cnp = cnp_for(&packet, verdict, Some(PEER));
            assert_eq!(cnp, notified.then_some(PEER), "{op:?}");
        }
        for packet in pair.b.transmit_all(Instant(INTERVAL * 1000)) {
            let verdict = pair.a.receive(Instant(INTERVAL * 1000), &packet);
            assert_eq!(verdict, Verdict::Accepted);
            let data = op == SendOp::Read;
            let cnp = cnp_for(&packet, verdict, Some(PEER));
            assert_eq!(cnp, data.then_some(PEER), "response to {op:?}");
        }
    }
}

/// A packet that RC drops is not notified: a duplicate, one after a gap, one of another partition
/// or service, one in a state that takes none, an ACK of nothing.
#[test]
fn rc_notifies_of_no_packet_that_it_drops() {
    let mut pair = Pair::with(&config(), 0, 0);
    pair.b.host.recvs.push_back(Ok(1000));
    pair.a.post(SendOp::Send, vec![1; 600], 0);
    let packets = pair.a.transmit_all(Instant(0));
    let mut drops = |packet: &Packet, reason| {
        let verdict = pair.b.receive(Instant(0), packet);
        assert_eq!(verdict, Verdict::Dropped(reason));
        assert_eq!(cnp_for(packet, verdict, Some(PEER)), None);
    };
    drops(&packets[2], DropReason::OutOfSequence);
    let with = |change: fn(&mut Packet)| {
        let mut packet = packets[0].clone();
        change(&mut packet);
        packet
    };
    let foreign = with(|p| p.header.bth.pkey = PKey::new(0x1234));
    drops(&foreign, DropReason::PKey);
    drops(
        &with(|p| p.header.bth.opcode = Opcode::UcSendFirst),
        DropReason::Service,
    );
    drops(
        &with(|p| p.header.bth.opcode = Opcode::Cnp),
        DropReason::Cnp,
    );
    let ack = with(|p| {
        p.header.bth.opcode = Opcode::RcAck;
        p.header.ext = Ext::Aeth(AethRepr {
            syndrome: Syndrome::ACK,
            msn: 0,
        });
        p.payload.clear();
    });
    drops(&ack, DropReason::Ghost);
    assert_eq!(pair.b.receive(Instant(0), &packets[0]), Verdict::Accepted);
    let again = pair.b.receive(Instant(0), &packets[0]);
    assert_eq!(again, Verdict::Dropped(DropReason::Duplicate));
    assert_eq!(cnp_for(&packets[0], again, Some(PEER)), None);
    pair.b.conn.modify(&Modify::to_state(State::Err)).unwrap();
    let dead = pair.b.receive(Instant(0), &packets[1]);
    assert_eq!(dead, Verdict::Dropped(DropReason::State));
    assert_eq!(cnp_for(&packets[1], dead, Some(PEER)), None);
}

/// UC notifies of each packet that it takes, and of none that it drops.
#[test]
fn uc_notifies_of_what_it_takes() {
    let (mut a, mut b) = uc::ends(1);
    let packets = a.send(600);
    for packet in &packets {
        let verdict = b.receive(packet);
        assert_eq!(cnp_for(packet, verdict, Some(PEER)), Some(PEER));
    }
    for packet in a.send(600).iter().chain(&packets) {
        let verdict = b.receive(packet);
        assert_ne!(verdict, Verdict::Accepted);
        assert_eq!(cnp_for(packet, verdict, Some(PEER)), None);
    }
}

/// IBTA annex A17.9.3: UD notifies the source QP of the datagram. It notifies of none that it
/// drops, nor the special queue pairs.
#[test]
fn ud_notifies_the_source() {
    let (mut qp, _) = ud::in_state(State::Rts);
    let mut owner = ud::receives(1000);
    let mut datagram = Packet {
        header: ud::packet(100),
        payload: vec![0; 100],
    };
    let good = datagram.clone();
    let mut receive = |packet: &Packet| qp.handle_packet(&packet.header, 100, &mut owner);
    datagram.header.bth.pkey = PKey::new(0x1234);
    let verdict = receive(&datagram);
    assert_eq!(verdict, Verdict::Dropped(DropReason::PKey));
    assert_eq!(cnp_for(&datagram, verdict, None), None);
    let verdict = receive(&good);
    assert_eq!(cnp_for(&good, verdict, None), Some(SOURCE));
    let verdict = receive(&good);
    assert_eq!(verdict, Verdict::Dropped(DropReason::NoReceive));
    assert_eq!(cnp_for(&good, verdict, None), None);
    for special in [Qpn::SMI, Qpn::GSI] {
        datagram.header.ext = Ext::Deth(DethRepr {
            qkey: 1,
            src_qp: special,
        });
        assert_eq!(cnp_for(&datagram, Verdict::Accepted, None), None);
    }
}
