// SPDX-License-Identifier: GPL-2.0

//! Tests of the opcode table against the rules that it follows from, not against a second table.

use super::*;

const KINDS: [Kind; 11] = [
    Kind::Send,
    Kind::Write,
    Kind::ReadRequest,
    Kind::ReadResponse,
    Kind::Ack,
    Kind::AtomicAck,
    Kind::CompareSwap,
    Kind::FetchAdd,
    Kind::Flush,
    Kind::AtomicWrite,
    Kind::Cnp,
];
const POSITIONS: [Position; 4] = [
    Position::First,
    Position::Middle,
    Position::Last,
    Position::Only,
];
const TAILS: [Tail; 3] = [Tail::Plain, Tail::Imm, Tail::Inv];
const SERVICES: [Service; 4] = [Service::Rc, Service::Uc, Service::Ud, Service::Cnp];

/// IBTA 9.2, IBTA annex A17.9.3, IBTA annex A19.4: these opcodes are defined, CNP, FLUSH and
/// ATOMIC WRITE among them, and all others are reserved.
#[test]
fn all_256_values() {
    let mut known = 0;
    for value in 0..=u8::MAX {
        let defined = matches!(value, 0..=0x14 | 0x16 | 0x17 | 0x1c | 0x1d)
            || matches!(value, 0x20..=0x2b | 0x64 | 0x65 | 0x81);
        let opcode = Opcode::from_u8(value);
        assert_eq!(opcode.is_some(), defined, "{value:#x}");
        if let Some(opcode) = opcode {
            assert_eq!(opcode as u8, value);
            known += 1;
        }
    }
    assert_eq!(known, ALL.len());
    assert!(ALL.windows(2).all(|w| (w[0] as u8) < w[1] as u8));
}

/// IBTA 9.2: the top three bits of an opcode are the transport service.
#[test]
fn the_top_three_bits_are_the_service() {
    for &op in ALL {
        let service = match op as u8 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            3 => Service::Ud,
            4 => Service::Cnp,
            other => panic!("{op:?}: service {other}"),
        };
        assert_eq!(op.service(), service, "{op:?}");
    }
}

/// IBTA 9.2: a UC opcode has the meaning of the RC opcode with the same low bits.
#[test]
fn uc_says_what_rc_says() {
    for &uc in ALL.iter().filter(|op| op.service() == Service::Uc) {
        let rc = Opcode::from_u8(uc as u8 & 0x1f).expect("UC is a part of RC");
        let expected = Info {
            service: Service::Uc,
            ..*rc.info()
        };
        assert_eq!(*uc.info(), expected, "{uc:?}");
    }
}

#[test]
fn compose_undoes_info() {
    for &op in ALL {
        let i = op.info();
        let composed = Opcode::compose(i.service, i.kind, i.position, i.tail);
        assert_eq!(composed, Some(op), "{op:?}");
    }
}

#[test]
fn compose_gives_what_was_asked_for_or_nothing() {
    let mut found = std::collections::HashSet::new();
    for service in SERVICES {
        for kind in KINDS {
            for position in POSITIONS {
                for tail in TAILS {
                    let Some(op) = Opcode::compose(service, kind, position, tail) else {
                        continue;
                    };
                    found.insert(op);
                    if op == Opcode::Cnp {
                        continue; // has neither position nor tail
                    }
                    let i = op.info();
                    assert_eq!((i.service, i.kind, i.position), (service, kind, position));
                    let expected = if position.is_end() { tail } else { Tail::Plain };
                    assert_eq!(i.tail, expected, "{op:?}");
                }
            }
        }
    }
    assert_eq!(found.len(), ALL.len());
    let none = [
        (Service::Uc, Kind::ReadRequest, Position::Only, Tail::Plain),
        (Service::Uc, Kind::Send, Position::Only, Tail::Inv),
        (Service::Uc, Kind::Flush, Position::Only, Tail::Plain),
        (Service::Uc, Kind::AtomicWrite, Position::Only, Tail::Plain),
        (Service::Rc, Kind::Write, Position::First, Tail::Inv),
        (Service::Rc, Kind::Ack, Position::First, Tail::Plain),
        (Service::Rc, Kind::Ack, Position::Only, Tail::Imm),
        (Service::Ud, Kind::Send, Position::First, Tail::Plain),
        (Service::Rc, Kind::Cnp, Position::Only, Tail::Plain),
    ];
    for (service, kind, position, tail) in none {
        assert_eq!(Opcode::compose(service, kind, position, tail), None);
    }
}

/// IBTA 9.2, IBTA annex A17.9.3, IBTA annex A19.4: the opcode says which headers follow the BTH.
#[test]
fn headers_follow_from_the_operation() {
    for &op in ALL {
        let i = op.info();
        let start = i.position.is_start();
        let middle = i.position == Position::Middle;
        let reth = matches!(i.kind, Kind::ReadRequest | Kind::Flush | Kind::AtomicWrite)
            || (i.kind == Kind::Write && start);
        let aeth = matches!(i.kind, Kind::Ack | Kind::AtomicAck)
            || (i.kind == Kind::ReadResponse && !middle);
        assert_eq!(op.has_reth(), reth, "{op:?}");
        assert_eq!(op.has_aeth(), aeth, "{op:?}");
        assert_eq!(op.has_deth(), i.service == Service::Ud, "{op:?}");
        let mut len = 12;
        for (present, bytes) in [
            (reth, 16),
            (aeth, 4),
            (i.kind == Kind::AtomicAck, 8),
            (i.kind.is_atomic(), 28),
            (op.has_deth(), 8),
            (op.has_imm(), 4),
            (op.has_ieth(), 4),
            (op == Opcode::Cnp, 16),
            (i.kind == Kind::Flush, 4),
        ] {
            len += if present { bytes } else { 0 };
        }
        assert_eq!(op.header_len(), len, "{op:?}");
        assert!(op.header_len() <= super::super::MAX_HEADER_LEN);
        assert_eq!(i.ext.is_empty(), len == 12);
    }
}

/// IBTA 9.7.4.1.6, 9.8.2.2.2: first and middle packets are full, a last one has at least a byte,
/// and none exceeds the path MTU. IBTA annex A19.4.2: an ATOMIC WRITE has eight bytes.
#[test]
fn payload_follows_from_the_position() {
    for &op in ALL {
        let i = op.info();
        if i.kind == Kind::AtomicWrite {
            assert!((0..300).all(|len| i.payload.allows(len, 256) == (len == 8)));
            continue;
        }
        let carries = matches!(i.kind, Kind::Send | Kind::Write | Kind::ReadResponse);
        for (len, allowed) in [
            (0, !carries || i.position == Position::Only),
            (1, carries && i.position.is_end()),
            (255, carries && i.position.is_end()),
            (256, carries),
            (257, false),
        ] {
            assert_eq!(i.payload.allows(len, 256), allowed, "{op:?} {len}");
        }
    }
}

#[test]
fn a_packet_is_a_request_or_a_response() {
    for &op in ALL.iter().filter(|&&op| op != Opcode::Cnp) {
        assert_ne!(op.kind().is_request(), op.kind().is_response(), "{op:?}");
        assert_eq!(
            op.position(),
            Position::of(op.position().is_start(), op.position().is_end())
        );
    }
    assert!(!Kind::Cnp.is_request() && !Kind::Cnp.is_response());
}
