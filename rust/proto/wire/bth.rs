// SPDX-License-Identifier: GPL-2.0

//! The base transport header, 12 bytes, which starts every packet (IBTA 9.2).

use super::{Opcode, PKey, ParseError, Psn, Qpn};
use core::mem::size_of;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::FromBytes as _;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the header in bytes.
pub const BTH_LEN: usize = size_of::<Bth>();

/// The transport header version that this implementation speaks; there is no other (IBTA 9.2.5).
pub const TVER: u8 = 0;

const SOLICITED: u8 = 1 << 7;
const MIGRATED: u8 = 1 << 6;
const PAD_SHIFT: u32 = 4;
const PAD_MASK: u8 = 3;
const TVER_MASK: u8 = 0x0f;
const FECN: u32 = 1 << 31;
const BECN: u32 = 1 << 30;
const ACK_REQ: u32 = 1 << 31;

/// The bytes of a base transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Bth {
    opcode: u8,
    flags: u8,
    pkey: U16,
    /// FECN, BECN, six reserved bits (the ICRC covers none of these), destination QP.
    qp_word: U32,
    /// AckReq, seven reserved bits, PSN.
    psn_word: U32,
}

/// The fields of a base transport header. The transport version is checked on reading and is not
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BthRepr {
    /// The opcode, which determines the headers that follow.
    pub opcode: Opcode,
    /// SE: asks the receiver to raise a solicited event.
    pub solicited: bool,
    /// MigReq: path migration state, set by a QP that does not migrate.
    pub migrated: bool,
    /// Pad bytes between payload and ICRC, 0 to 3; see [`super::pad_for`].
    pub pad: u8,
    /// Partition of the packet.
    pub pkey: PKey,
    /// Forward congestion notification, which a switch may set. Not covered by the ICRC.
    pub fecn: bool,
    /// Backward congestion notification. Not covered by the ICRC.
    pub becn: bool,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// A: the requester asks for an acknowledgement.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl BthRepr {
    /// A header with every option off and the pad zero.
    #[inline]
    pub const fn new(opcode: Opcode, pkey: PKey, dest_qp: Qpn, psn: Psn) -> Self {
        BthRepr {
            opcode,
            solicited: false,
            migrated: true,
            pad: 0,
            pkey,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Reads the header at the start of `bytes`; returns it and the bytes after it.
    ///
    /// # Errors
    ///
    /// [`ParseError::TooShort`], [`ParseError::BadVersion`] or [`ParseError::UnknownOpcode`], in
    /// this order of precedence.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let Ok((view, rest)) = Bth::ref_from_prefix(bytes) else {
            return Err(ParseError::TooShort);
        };
        if view.flags & TVER_MASK != TVER {
            return Err(ParseError::BadVersion);
        }
        let Some(opcode) = Opcode::from_u8(view.opcode) else {
            return Err(ParseError::UnknownOpcode);
        };
        let (qp_word, psn_word) = (view.qp_word.get(), view.psn_word.get());
        let repr = BthRepr {
            opcode,
            solicited: view.flags & SOLICITED != 0,
            migrated: view.flags & MIGRATED != 0,
            pad: (view.flags >> PAD_SHIFT) & PAD_MASK,
            pkey: PKey::new(view.pkey.get()),
            fecn: qp_word & FECN != 0,
            becn: qp_word & BECN != 0,
            dest_qp: Qpn::new(qp_word),
            ack_req: psn_word & ACK_REQ != 0,
            psn: Psn::new(psn_word),
        };
        Ok((repr, rest))
    }

    /// The 12 bytes of the header. Only the low two bits of `pad` count.
    #[inline]
    pub fn to_view(&self) -> Bth {
        let bit = |set: bool, mask: u32| if set { mask } else { 0 };
        let mut flags = ((self.pad & PAD_MASK) << PAD_SHIFT) | TVER;
        if self.solicited {
            flags |= SOLICITED;
        }
        if self.migrated {
            flags |= MIGRATED;
        }
        Bth {
            opcode: self.opcode as u8,
            flags,
            pkey: U16::new(self.pkey.get()),
            qp_word: U32::new(self.dest_qp.get() | bit(self.fecn, FECN) | bit(self.becn, BECN)),
            psn_word: U32::new(self.psn.get() | bit(self.ack_req, ACK_REQ)),
        }
    }

    /// Writes the header to the start of `out`; returns the rest of `out`. When `out` is too short,
    /// writes nothing and returns `None`.
    #[inline]
    pub fn emit<'a>(&self, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (head, rest) = Bth::mut_from_prefix(out).ok()?;
        *head = self.to_view();
        Some(rest)
    }
}

/// Sets the PSN and AckReq of a header in wire format.
#[inline]
pub fn set_psn(bth: &mut [u8; BTH_LEN], psn: Psn, ack_req: bool) {
    let word = psn.get() | if ack_req { ACK_REQ } else { 0 };
    if let Some(place) = bth.last_chunk_mut() {
        *place = word.to_be_bytes();
    }
}

/// If `next` is the header of the packet after that of `this`, and differs in PSN and AckReq alone,
/// returns its AckReq.
#[inline]
pub fn following_ack_req(this: &[u8; BTH_LEN], next: &[u8; BTH_LEN]) -> Option<bool> {
    const ALIKE: usize = BTH_LEN - 4;
    let word = |bth: &[u8; BTH_LEN]| Some(u32::from_be_bytes(*bth.last_chunk()?));
    let psn = word(next)?;
    let follows = Psn::new(psn) == Psn::new(word(this)?).next();
    let alike = this.first_chunk::<ALIKE>() == next.first_chunk::<ALIKE>();
    (follows && alike).then_some(psn & ACK_REQ != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_next_packet_differs_in_psn_and_ack_req() {
        let view = |repr: BthRepr| {
            let mut out = [0; BTH_LEN];
            assert!(repr.emit(&mut out).is_some());
            out
        };
        let this = example();
        let mut next = this;
        next.psn = this.psn.next();
        for ack_req in [false, true] {
            next.ack_req = ack_req;
            let mut bth = view(this);
            set_psn(&mut bth, next.psn, ack_req);
            assert_eq!(bth, view(next));
        }
        assert_eq!(following_ack_req(&view(this), &view(next)), Some(true));
        next.ack_req = false;
        assert_eq!(following_ack_req(&view(this), &view(next)), Some(false));
        let mut last = next;
        last.psn = Psn::new(Psn::MASK);
        next.psn = Psn::ZERO;
        assert_eq!(following_ack_req(&view(last), &view(next)), Some(false));
        assert_eq!(following_ack_req(&view(next), &view(next)), None);
        for byte in 0..8 {
            let mut other = view(next);
            other[byte] ^= 1;
            assert_eq!(following_ack_req(&view(last), &other), None);
        }
    }

    const EXAMPLE: [u8; BTH_LEN] = [
        0x04, 0xf0, 0x12, 0x34, 0xc0, 0xab, 0xcd, 0xef, 0x80, 0x65, 0x43, 0x21,
    ];

    fn example() -> BthRepr {
        BthRepr {
            opcode: Opcode::RcSendOnly,
            solicited: true,
            migrated: true,
            pad: 3,
            pkey: PKey::new(0x1234),
            fecn: true,
            becn: true,
            dest_qp: Qpn::new(0xabcdef),
            ack_req: true,
            psn: Psn::new(0x654321),
        }
    }

    /// IBTA 9.2: the BTH has each field in its place.
    #[test]
    fn every_field_is_in_its_place() {
        assert_eq!(BTH_LEN, 12);
        assert_eq!(BthRepr::parse(&EXAMPLE), Ok((example(), &[][..])));
        let mut out = [0; BTH_LEN];
        assert!(example().emit(&mut out).is_some());
        assert_eq!(out, EXAMPLE);
    }

    #[test]
    fn truncation_at_every_length() {
        for len in 0..BTH_LEN {
            assert_eq!(BthRepr::parse(&EXAMPLE[..len]), Err(ParseError::TooShort));
            let mut out = vec![0x5a; len];
            assert!(example().emit(&mut out).is_none());
            assert!(out.iter().all(|&b| b == 0x5a));
        }
    }

    /// IBTA 9.2.5: a packet of another transport header version than 0 is dropped.
    #[test]
    fn only_version_zero_is_read() {
        for version in 1..16 {
            let mut bytes = EXAMPLE;
            bytes[1] |= version;
            assert_eq!(BthRepr::parse(&bytes), Err(ParseError::BadVersion));
        }
    }

    /// IBTA 9.2: a receiver ignores reserved bits.
    #[test]
    fn reserved_bits_are_ignored() {
        let mut bytes = EXAMPLE;
        bytes[4] |= 0x3f;
        bytes[8] |= 0x7f;
        assert_eq!(BthRepr::parse(&bytes), Ok((example(), &[][..])));
    }

    /// IBTA 9.2: a packet with a reserved opcode is dropped.
    #[test]
    fn all_256_opcodes() {
        for op in 0..=u8::MAX {
            let mut bytes = EXAMPLE;
            bytes[0] = op;
            match (BthRepr::parse(&bytes), Opcode::from_u8(op)) {
                (Ok((repr, _)), Some(opcode)) => assert_eq!(repr.opcode, opcode),
                (Err(e), None) => assert_eq!(e, ParseError::UnknownOpcode),
                other => panic!("opcode {op:#x}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn reading_then_writing_keeps_all_but_reserved_bits(
            opcode in proptest::sample::select(super::super::opcode::ALL),
            mut bytes: [u8; BTH_LEN],
        ) {
            bytes[0] = opcode as u8;
            bytes[1] &= !TVER_MASK;
            let (repr, _) = BthRepr::parse(&bytes).expect("valid");
            bytes[4] &= 0xc0;
            bytes[8] &= 0x80;
            let mut out = [0; BTH_LEN];
            prop_assert!(repr.emit(&mut out).is_some());
            prop_assert_eq!(out, bytes);
        }
    }
}
