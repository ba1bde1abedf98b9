// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams.

use super::super::ud::datagram::{QKEY_FROM_QP, QKEY_GSI};
use super::super::wire::{Ext, Opcode, PKey, PacketRepr, Psn, Qpn};
use super::super::{check_recv, Datagram, DatagramAttr, DatagramSender, DropReason, Status};

const PKEYS: &[PKey] = &[PKey::DEFAULT];

fn attr() -> DatagramAttr {
    DatagramAttr {
        src_qpn: Qpn::new(17),
        qkey: 0x1111,
        pkey: PKey::DEFAULT,
        mtu: 1024,
    }
}

fn datagram() -> Datagram {
    Datagram {
        len: 5,
        dest_qpn: Qpn::new(99),
        qkey: 0x2222,
        imm: None,
        solicited: false,
    }
}

fn build(datagram: &Datagram) -> PacketRepr {
    DatagramSender::new(Psn::new(3))
        .build(&attr(), datagram)
        .unwrap()
}

/// IBTA 9.8.3: a datagram is one packet with a DETH, with or without immediate data.
#[test]
fn headers_of_a_datagram() {
    let imm = Some([1, 2, 3, 4]);
    for (imm, opcode) in [(None, Opcode::UdSendOnly), (imm, Opcode::UdSendOnlyImm)] {
        let packet = build(&Datagram {
            imm,
            solicited: true,
            ..datagram()
        });
        assert_eq!(packet.bth.opcode, opcode);
        assert_eq!(packet.bth.dest_qp, Qpn::new(99));
        assert_eq!((packet.bth.psn, packet.bth.pad), (Psn::new(3), 3));
        assert!(packet.bth.solicited && !packet.bth.ack_req);
        let deth = packet.ext.deth().unwrap();
        assert_eq!((deth.qkey, deth.src_qp), (0x2222, Qpn::new(17)));
        let attr = DatagramAttr {
            qkey: 0x2222,
            ..attr()
        };
        let recv = check_recv(&packet, 5, &attr, PKEYS).unwrap();
        assert_eq!(
            (recv.imm, recv.src_qpn, recv.solicited),
            (imm, Qpn::new(17), true)
        );
    }
}

/// IBTA 10.2.5, 11.4.1.1: if the high bit of a work request's Q_Key is set, the QP's own Q_Key is
/// sent.
#[test]
fn the_high_bit_asks_for_the_qps_own_key() {
    for (qkey, used) in [
        (0x7fff_ffff, 0x7fff_ffff),
        (QKEY_FROM_QP, 0x1111),
        (QKEY_GSI, 0x1111),
    ] {
        let packet = build(&Datagram { qkey, ..datagram() });
        assert_eq!(packet.ext.deth().unwrap().qkey, used);
    }
}

/// IBTA 10.2.5: QP 1 has a well-known Q_Key.
#[test]
fn qp_1_takes_the_well_known_key() {
    let gsi = DatagramAttr {
        qkey: QKEY_GSI,
        ..attr()
    };
    let mut packet = build(&datagram());
    for (qkey, taken) in [(0x8001_0000, true), (0x8001_0001, false), (0x1111, false)] {
        let mut deth = packet.ext.deth().unwrap();
        deth.qkey = qkey;
        packet.ext = Ext::Deth(deth);
        assert_eq!(
            check_recv(&packet, 5, &gsi, PKEYS).is_ok(),
            taken,
            "{qkey:#x}"
        );
    }
}

/// IBTA 9.8.3.1: each datagram has the PSN after that of the one before.
#[test]
fn psns_count_up_and_can_be_taken_back() {
    let mut sender = DatagramSender::new(Psn::new(0xff_ffff));
    let first = sender.build(&attr(), &datagram()).unwrap();
    assert_eq!(sender.next_psn(), Psn::ZERO);
    sender.undo(&first);
    assert_eq!(sender.build(&attr(), &datagram()), Ok(first));
}

/// IBTA 9.8.3: a datagram does not exceed the MTU.
#[test]
fn a_message_is_one_packet() {
    let mut sender = DatagramSender::new(Psn::ZERO);
    assert!(sender
        .build(
            &attr(),
            &Datagram {
                len: 1024,
                ..datagram()
            }
        )
        .is_ok());
    let long = Datagram {
        len: 1025,
        ..datagram()
    };
    assert_eq!(sender.build(&attr(), &long), Err(Status::LocLen));
    assert_eq!(sender.next_psn(), Psn::new(1), "it took no number");
}

/// IBTA 9.6.1, 9.8.3, 10.9.3: a datagram with a wrong partition, Q_Key, length or service is
/// dropped.
#[test]
fn what_is_dropped_and_why() {
    let good = build(&Datagram {
        qkey: 0x1111,
        ..datagram()
    });
    assert!(check_recv(&good, 1024, &attr(), PKEYS).is_ok());
    let cause = |packet: &PacketRepr, len, pkeys| check_recv(packet, len, &attr(), pkeys).err();
    assert_eq!(cause(&good, 1025, PKEYS), Some(DropReason::TooLong));
    assert_eq!(cause(&build(&datagram()), 4, PKEYS), Some(DropReason::QKey));
    let mut other = good;
    other.bth.pkey = PKey::new(0x8001);
    assert_eq!(cause(&other, 4, PKEYS), Some(DropReason::PKey));
    const BOTH: &[PKey] = &[PKey::DEFAULT, PKey::new(1)];
    assert_eq!(cause(&other, 4, BOTH), None);
    assert_eq!(cause(&good, 4, &[]), Some(DropReason::PKey));
    const LIMITED: &[PKey] = &[PKey::DEFAULT_LIMITED];
    let mut limited = good;
    limited.bth.pkey = PKey::DEFAULT_LIMITED;
    assert_eq!(cause(&limited, 4, LIMITED), Some(DropReason::PKey));
    let mut other = good;
    other.bth.opcode = Opcode::RcSendOnly;
    other.ext = Ext::None;
    assert_eq!(cause(&other, 4, PKEYS), Some(DropReason::Service));
    other.bth.opcode = Opcode::Cnp;
    other.ext = Ext::Cnp;
    assert_eq!(cause(&other, 0, PKEYS), Some(DropReason::Cnp));
}
