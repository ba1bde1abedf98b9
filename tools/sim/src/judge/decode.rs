// SPDX-License-Identifier: GPL-2.0

//! A second, independent reader of packets, for the judges: the reader of the code under test must
//! not be the only one that checks its writer. It knows RC and UC only, and trusts the lengths
//! it is given.

/// The first UC opcode. The operations that UC has are numbered as those of RC.
const UC: u8 = 0x20;

/// RC opcodes by value (IBTA 9.2, Table 38, IBTA annex A19.4).
pub mod op {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMM: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMM: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMM: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const WRITE_ONLY_IMM: u8 = 0x0b;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_FIRST: u8 = 0x0d;
    pub const READ_MIDDLE: u8 = 0x0e;
    pub const READ_LAST: u8 = 0x0f;
    pub const READ_ONLY: u8 = 0x10;
    pub const ACK: u8 = 0x11;
    pub const ATOMIC_ACK: u8 = 0x12;
    pub const COMPARE_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INV: u8 = 0x16;
    pub const SEND_ONLY_INV: u8 = 0x17;
    pub const FLUSH: u8 = 0x1c;
    pub const ATOMIC_WRITE: u8 = 0x1d;
}

/// The syndrome of a NAK for a PSN sequence error (IBTA 9.7.5.2).
pub const NAK_SEQUENCE: u8 = 0x60;

/// Whether the syndrome is a NAK that ends the connection.
pub fn is_fatal(syndrome: u8) -> bool {
    syndrome >> 5 == 3 && syndrome != NAK_SEQUENCE
}

/// A packet as the judges see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen<'a> {
    pub opcode: u8,
    pub solicited: bool,
    pub pad: u8,
    pub pkey: u16,
    pub dest_qp: u32,
    pub ack_req: bool,
    pub psn: u32,
    /// The whole FETH of a FLUSH.
    pub feth: Option<u32>,
    /// Address, key, length.
    pub reth: Option<(u64, u32, u32)>,
    /// Address, key, swap or add, compare.
    pub atomic: Option<(u64, u32, u64, u64)>,
    pub imm: Option<[u8; 4]>,
    pub inv: Option<u32>,
    /// Syndrome, MSN.
    pub aeth: Option<(u8, u32)>,
    pub original: Option<u64>,
    pub payload: &'a [u8],
}

/// Takes numbers off the front.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

impl<'a> Seen<'a> {
    /// Reads a UDP payload whose last four bytes are the ICRC. `None` if it is no RC packet.
    pub fn decode(bytes: &'a [u8]) -> Option<Seen<'a>> {
        Self::decode_service(bytes, 0)
    }

    /// As [`Seen::decode`], of a UC packet, with the opcode that RC has for the same operation.
    pub fn decode_uc(bytes: &'a [u8]) -> Option<Seen<'a>> {
        let seen = Self::decode_service(bytes, UC)?;
        (seen.opcode <= op::WRITE_ONLY_IMM).then_some(seen)
    }

    fn decode_service(bytes: &'a [u8], service: u8) -> Option<Seen<'a>> {
        let mut at = Cursor(bytes.get(..bytes.len().checked_sub(4)?)?);
        let [opcode, flags, key0, key1] = at.take()?;
        let opcode = opcode.checked_sub(service)?;
        let mut seen = Seen {
            opcode,
            solicited: flags & 0x80 != 0,
            pad: (flags >> 4) & 3,
            pkey: u16::from_be_bytes([key0, key1]),
            dest_qp: at.u32()? & 0xff_ffff,
            ..Seen::default()
        };
        let word = at.u32()?;
        seen.ack_req = word >> 31 != 0;
        seen.psn = word & 0xff_ffff;
        match opcode {
            op::WRITE_FIRST | op::WRITE_ONLY | op::WRITE_ONLY_IMM | op::READ_REQUEST => {
                seen.reth = Some((at.u64()?, at.u32()?, at.u32()?));
            }
            op::ATOMIC_WRITE | op::FLUSH => {
                if opcode == op::FLUSH {
                    seen.feth = Some(at.u32()?);
                }
                seen.reth = Some((at.u64()?, at.u32()?, at.u32()?));
            }
            op::COMPARE_SWAP | op::FETCH_ADD => {
                seen.atomic = Some((at.u64()?, at.u32()?, at.u64()?, at.u64()?));
            }
            op::READ_FIRST | op::READ_LAST | op::READ_ONLY | op::ACK | op::ATOMIC_ACK => {
                let aeth = at.u32()?;
                seen.aeth = Some(((aeth >> 24) as u8, aeth & 0xff_ffff));
            }
            _ => {}
        }
        match opcode {
            op::SEND_LAST_IMM | op::SEND_ONLY_IMM | op::WRITE_LAST_IMM | op::WRITE_ONLY_IMM => {
                seen.imm = Some(at.take()?);
            }
            op::SEND_LAST_INV | op::SEND_ONLY_INV => seen.inv = Some(at.u32()?),
            op::ATOMIC_ACK => seen.original = Some(at.u64()?),
            0..=0x17 | op::FLUSH | op::ATOMIC_WRITE => {}
            _ => return None,
        }
        let len = at.0.len().checked_sub(seen.pad.into())?;
        seen.payload = &at.0[..len];
        Some(seen)
    }

    /// Whether it goes from responder to requester.
    pub fn is_response(&self) -> bool {
        (op::READ_FIRST..=op::ATOMIC_ACK).contains(&self.opcode)
    }

    /// Whether it is an ACK: no NAK, and no response with data.
    pub fn is_ack(&self) -> bool {
        self.opcode == op::ACK && self.aeth.is_some_and(|(syndrome, _)| syndrome >> 5 == 0)
    }

    /// Whether it is an RNR NAK.
    pub fn is_rnr_nak(&self) -> bool {
        self.opcode == op::ACK && self.aeth.is_some_and(|(syndrome, _)| syndrome >> 5 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_by_hand() {
        let mut bytes = vec![0x0b, 0xa0, 0xff, 0xff, 0, 1, 2, 3, 0x80, 9, 8, 7];
        bytes.extend([0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 5, 0, 0, 0, 2]);
        bytes.extend([0xd, 0xe, 0xa, 0xd]);
        bytes.extend([0x11, 0x22, 0, 0, 1, 2, 3, 4]);
        let seen = Seen::decode(&bytes).unwrap();
        let expected = Seen {
            opcode: op::WRITE_ONLY_IMM,
            solicited: true,
            pad: 2,
            pkey: 0xffff,
            dest_qp: 0x010203,
            ack_req: true,
            psn: 0x090807,
            reth: Some((0x1000, 5, 2)),
            imm: Some([0xd, 0xe, 0xa, 0xd]),
            payload: &[0x11, 0x22],
            ..Seen::default()
        };
        assert_eq!(seen, expected);
        assert_eq!(Seen::decode_uc(&bytes), None);
        let mut uc = bytes.clone();
        uc[0] = 0x2b;
        assert_eq!(
            (Seen::decode_uc(&uc), Seen::decode(&uc)),
            (Some(expected), None)
        );
        uc[0] = 0x2c;
        assert_eq!(Seen::decode_uc(&uc), None);
        for len in 0..bytes.len() - 4 {
            let _ = Seen::decode(&bytes[..len]);
        }
    }
}
