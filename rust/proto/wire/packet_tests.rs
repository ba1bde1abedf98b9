// SPDX-License-Identifier: GPL-2.0

//! Tests of whole header sets: reading and writing every opcode, every truncation, arbitrary bytes.

use super::super::opcode::ALL;
use super::super::{Kind, NakCode, Syndrome};
use super::*;
use proptest::prelude::*;

/// Extended headers of `kind` from 28 arbitrary bytes.
fn ext_from(kind: ExtKind, bytes: &[u8; 28]) -> Ext {
    Ext::parse(kind, bytes).expect("28 bytes hold any")
}

fn repr_of(opcode: Opcode, bytes: &[u8; 28], payload_len: usize) -> PacketRepr {
    let ext = ext_from(opcode.info().ext, bytes);
    let (pkey, qpn, psn) = (PKey::DEFAULT, Qpn::new(0x123456), Psn::new(0xfedcba));
    PacketRepr::new(opcode, pkey, qpn, psn, ext, payload_len)
}

/// A datagram with these headers and a zero payload.
fn datagram(repr: &PacketRepr, payload_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; repr.wire_len(payload_len)];
    assert_eq!(repr.emit(&mut bytes), Ok(repr.header_len()));
    bytes
}

fn longest_payload(opcode: Opcode) -> usize {
    match opcode.info().payload {
        PayloadRule::Empty => 0,
        _ => 9, // the length is checked later
    }
}

fn any_opcode() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(ALL)
}

/// IBTA annex A17.3.1: payload and pad together are a multiple of four bytes.
#[test]
fn pad_makes_a_multiple_of_four() {
    for len in 0..4097 {
        assert!(pad_for(len) < 4);
        assert_eq!((len + usize::from(pad_for(len))) % 4, 0);
    }
    assert_eq!(pad_for(usize::MAX), 1);
}

/// IBTA 9.2, IBTA annex A17.3.1: a packet is BTH, the headers of its opcode, payload, pad and ICRC.
#[test]
fn every_opcode_both_ways() {
    let bytes = core::array::from_fn(|i| i as u8 * 7 + 3);
    for &opcode in ALL {
        for payload_len in 0..=longest_payload(opcode) {
            let repr = repr_of(opcode, &bytes, payload_len);
            let packet = datagram(&repr, payload_len);
            let parsed = PacketRepr::parse(&packet, packet.len()).expect("as written");
            assert_eq!(parsed.repr, repr);
            assert_eq!(parsed.header_len, opcode.header_len());
            assert_eq!(parsed.payload_len, payload_len);
            assert_eq!(parsed.icrc_offset(), packet.len() - ICRC_LEN);
            // The linear part need not hold the payload.
            let head = &packet[..parsed.header_len];
            assert_eq!(PacketRepr::parse(head, packet.len()), Ok(parsed));
        }
    }
}

#[test]
fn truncation_at_every_length() {
    for &opcode in ALL {
        let payload_len = longest_payload(opcode);
        let repr = repr_of(opcode, &[0x11; 28], payload_len);
        let packet = datagram(&repr, payload_len);
        for len in 0..packet.len() {
            let result = PacketRepr::parse(&packet[..len], len);
            let least = repr.header_len() + usize::from(repr.bth.pad) + ICRC_LEN;
            if len < repr.header_len() {
                assert_eq!(result, Err(ParseError::TooShort), "{opcode:?} {len}");
                let mut out = vec![0; len];
                assert_eq!(repr.emit(&mut out), Err(EmitError::NoRoom));
            } else if len < least {
                assert_eq!(result, Err(ParseError::LengthUnderflow), "{opcode:?} {len}");
            } else if (len - least + usize::from(repr.bth.pad)) % 4 != 0 {
                assert_eq!(result, Err(ParseError::BadPad), "{opcode:?} {len}");
            } else {
                assert!(result.is_ok(), "{opcode:?} {len}");
            }
        }
    }
}

#[test]
fn bytes_after_the_datagram_are_not_headers() {
    // Short Ethernet frames are padded: the linear part may be longer than the datagram.
    for &opcode in ALL {
        let repr = repr_of(opcode, &[0x11; 28], 0);
        let packet = datagram(&repr, 0);
        for udp_payload_len in 0..repr.header_len() {
            assert_eq!(
                PacketRepr::parse(&packet, udp_payload_len),
                Err(ParseError::TooShort)
            );
        }
    }
}

/// Regression: a pad or ICRC that exceeds the rest of the datagram must not wrap the payload
/// length.
#[test]
fn no_length_underflow_from_pad_or_icrc() {
    for pad in 0..4 {
        for room in 0..4 + usize::from(pad) {
            let mut repr = repr_of(Opcode::RcSendOnly, &[0; 28], 0);
            repr.bth.pad = pad;
            let mut bytes = vec![0; repr.header_len() + room];
            assert!(repr.emit(&mut bytes).is_ok());
            assert_eq!(
                PacketRepr::parse(&bytes, bytes.len()),
                Err(ParseError::LengthUnderflow)
            );
        }
    }
}

/// IBTA annex A17.3.1: a packet is dropped if its pad does not make the payload a multiple of four
/// bytes.
#[test]
fn pad_must_be_needed_and_enough() {
    for payload_len in 0..16_usize {
        for pad in 0..4_u8 {
            let mut repr = repr_of(Opcode::RcSendOnly, &[0; 28], payload_len);
            repr.bth.pad = pad;
            let len = repr.header_len() + payload_len + usize::from(pad) + ICRC_LEN;
            let mut bytes = vec![0; len];
            assert!(repr.emit(&mut bytes).is_ok());
            let result = PacketRepr::parse(&bytes, len);
            if (payload_len + usize::from(pad)) % 4 == 0 {
                assert_eq!(result.map(|p| p.payload_len), Ok(payload_len));
            } else {
                assert_eq!(result, Err(ParseError::BadPad));
            }
        }
    }
}

/// IBTA 9.7.4.1.6, IBTA annex A19.4.1: READ requests, atomics, FLUSHes and acknowledgements have no
/// payload.
#[test]
fn requests_and_acks_have_no_payload() {
    for &opcode in ALL {
        let repr = repr_of(opcode, &[0; 28], 4);
        let packet = datagram(&repr, 4);
        let result = PacketRepr::parse(&packet, packet.len());
        match opcode.kind() {
            Kind::Send | Kind::Write | Kind::ReadResponse => assert!(result.is_ok()),
            Kind::AtomicWrite => assert!(result.is_ok()), // the responder refuses it
            _ => assert_eq!(result, Err(ParseError::UnexpectedPayload), "{opcode:?}"),
        }
    }
}

/// IBTA 9.2: a packet with a reserved opcode is dropped.
/// Regression: opcode 0xff must be refused, like every other undefined opcode.
#[test]
fn unknown_opcodes_are_refused() {
    for value in 0..=u8::MAX {
        let mut bytes = [0; 64];
        bytes[0] = value;
        let result = PacketRepr::parse(&bytes, bytes.len());
        let unknown = result == Err(ParseError::UnknownOpcode);
        assert_eq!(unknown, Opcode::from_u8(value).is_none(), "{value:#x}");
    }
}

#[test]
fn headers_that_do_not_belong_are_not_written() {
    let bytes = [0; 28];
    for &opcode in ALL {
        for &other in ALL {
            let mut repr = repr_of(opcode, &bytes, 0);
            repr.ext = ext_from(other.info().ext, &bytes);
            let fits = opcode.info().ext == other.info().ext;
            let mut out = [0; MAX_HEADER_LEN];
            let expected = if fits {
                Ok(opcode.header_len())
            } else {
                Err(EmitError::Mismatch)
            };
            assert_eq!(repr.emit(&mut out), expected);
        }
    }
}

#[test]
fn the_accessors_find_their_headers() {
    for &opcode in ALL {
        let ext = ext_from(opcode.info().ext, &[0x11; 28]);
        assert_eq!(ext.kind(), opcode.info().ext);
        assert_eq!(ext.imm().is_some(), opcode.has_imm());
        assert_eq!(ext.ieth().is_some(), opcode.has_ieth());
        assert_eq!(ext.reth().is_some(), opcode.has_reth());
        assert_eq!(ext.feth().is_some(), opcode.kind() == Kind::Flush);
        assert_eq!(ext.aeth().is_some(), opcode.has_aeth());
        assert_eq!(ext.deth().is_some(), opcode.has_deth());
        assert_eq!(ext.atomic().is_some(), opcode.kind().is_atomic());
        assert_eq!(ext.atomic_ack().is_some(), opcode.kind() == Kind::AtomicAck);
    }
}

/// IBTA 9.2, 9.3.5: a NAK is a BTH and an AETH.
#[test]
fn a_nak_as_it_stands_on_the_wire() {
    let ext = Ext::Aeth(AethRepr {
        syndrome: Syndrome::Nak {
            code: NakCode::RemoteAccess,
        },
        msn: 5,
    });
    let (pkey, qpn, psn) = (PKey::DEFAULT, Qpn::new(0x11), Psn::new(0x1000));
    let repr = PacketRepr::new(Opcode::RcAck, pkey, qpn, psn, ext, 0);
    let mut out = [0; 16];
    assert_eq!(repr.emit(&mut out), Ok(16));
    assert_eq!(
        out,
        [0x11, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0x10, 0, 0x62, 0, 0, 5]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        udp_payload_len in prop_oneof![0..100_usize, any::<usize>()],
    ) {
        if let Ok(parsed) = PacketRepr::parse(&bytes, udp_payload_len) {
            prop_assert_eq!(parsed.icrc_offset() + ICRC_LEN, udp_payload_len);
            prop_assert!(parsed.header_len <= bytes.len());
            prop_assert_eq!(parsed.repr.wire_len(parsed.payload_len), udp_payload_len);
        }
    }

    #[test]
    fn arbitrary_headers_survive(
        opcode in any_opcode(),
        ext: [u8; 28],
        fields: [u32; 2],
        bits: [bool; 5],
        pkey: u16,
        payload_len in 0..4097_usize,
    ) {
        let payload_len = match opcode.info().payload {
            PayloadRule::Empty => 0,
            _ => payload_len,
        };
        let mut repr = repr_of(opcode, &ext, payload_len);
        repr.bth.pkey = PKey::new(pkey);
        repr.bth.dest_qp = Qpn::new(fields[0]);
        repr.bth.psn = Psn::new(fields[1]);
        repr.bth.solicited = bits[0];
        repr.bth.migrated = bits[1];
        repr.bth.fecn = bits[2];
        repr.bth.becn = bits[3];
        repr.bth.ack_req = bits[4];
        let packet = datagram(&repr, payload_len);
        let parsed = PacketRepr::parse(&packet, packet.len()).expect("as written");
        prop_assert_eq!(parsed.repr, repr);
        prop_assert_eq!(parsed.payload_len, payload_len);
        // The bytes after the headers are unchanged.
        prop_assert!(packet[repr.header_len()..].iter().all(|&b| b == 0));
    }
}
