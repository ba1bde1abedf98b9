// SPDX-License-Identifier: GPL-2.0

//! The acknowledge extended transport header, 4 bytes: an ACK or NAK, and the number of requests
//! completed (IBTA 9.3.5; the syndrome in IBTA 9.7.5.2.1, Table 44).

use super::{HeaderRepr, RnrTimer};
use zerocopy::byteorder::big_endian::U32;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The credit count that means "not used": the responder does not use end-to-end flow control.
pub const CREDIT_NONE: u8 = 0x1f;

const TYPE_SHIFT: u32 = 5;
const TYPE_ACK: u8 = 0;
const TYPE_RNR: u8 = 1;
const TYPE_NAK: u8 = 3;
const VALUE_MASK: u8 = 0x1f;
const MSN_MASK: u32 = 0xff_ffff;

/// The bytes of an acknowledge extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Aeth {
    /// Syndrome in the top byte, MSN below.
    word: U32,
}

/// The reason for a NAK (IBTA 9.7.5.2, Table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing; everything before the PSN in the BTH has arrived.
    PsnSequence = 0,
    /// The request is invalid: opcode out of order, wrong length, unsupported operation.
    InvalidRequest = 1,
    /// The key, the range or the rights of the remote memory are wrong.
    RemoteAccess = 2,
    /// The responder failed for reasons of its own.
    RemoteOperational = 3,
    /// Invalid RD request; no RC requester can cause it.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// The code for the low five bits of a NAK syndrome, or `None` where they are reserved.
    #[inline]
    pub const fn from_u8(code: u8) -> Option<Self> {
        Some(match code {
            0 => NakCode::PsnSequence,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccess,
            3 => NakCode::RemoteOperational,
            4 => NakCode::InvalidRdRequest,
            _ => return None,
        })
    }
}

/// The syndrome of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// A positive acknowledgement of all packets up to the PSN. Carries the 5-bit credit count
    /// *code*, or [`CREDIT_NONE`].
    Ack {
        /// The code of IBTA 9.7.7.2, Table 48, not a number of requests.
        credit: u8,
    },
    /// No receive request is posted: try again after this time.
    RnrNak {
        /// How long to wait at least.
        timer: RnrTimer,
    },
    /// Refused.
    Nak {
        /// The reason.
        code: NakCode,
    },
    /// The whole byte, a value that the specification reserves.
    Reserved(u8),
}

impl Syndrome {
    /// An acknowledgement without flow control.
    pub const ACK: Syndrome = Syndrome::Ack {
        credit: CREDIT_NONE,
    };

    /// The syndrome that the byte stands for.
    #[inline]
    pub const fn from_u8(byte: u8) -> Self {
        let value = byte & VALUE_MASK;
        match byte >> TYPE_SHIFT {
            TYPE_ACK => Syndrome::Ack { credit: value },
            TYPE_RNR => Syndrome::RnrNak {
                timer: RnrTimer::new(value),
            },
            TYPE_NAK => match NakCode::from_u8(value) {
                Some(code) => Syndrome::Nak { code },
                None => Syndrome::Reserved(byte),
            },
            _ => Syndrome::Reserved(byte),
        }
    }

    /// The byte of the syndrome. Only the low five bits of a credit code count.
    #[inline]
    pub const fn to_u8(self) -> u8 {
        match self {
            Syndrome::Ack { credit } => (TYPE_ACK << TYPE_SHIFT) | (credit & VALUE_MASK),
            Syndrome::RnrNak { timer } => (TYPE_RNR << TYPE_SHIFT) | timer.get(),
            Syndrome::Nak { code } => (TYPE_NAK << TYPE_SHIFT) | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// The fields of an acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AethRepr {
    /// Positive, not ready, or refused.
    pub syndrome: Syndrome,
    /// Message sequence number: requests completed so far, modulo 2^24 (IBTA 9.7.7.1).
    pub msn: u32,
}

impl HeaderRepr for AethRepr {
    type View = Aeth;

    #[inline]
    fn from_view(view: &Aeth) -> Self {
        let word = view.word.get();
        AethRepr {
            syndrome: Syndrome::from_u8((word >> 24) as u8),
            msn: word & MSN_MASK,
        }
    }

    #[inline]
    fn to_view(&self) -> Aeth {
        Aeth {
            word: U32::new((u32::from(self.syndrome.to_u8()) << 24) | (self.msn & MSN_MASK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    fn aeth(syndrome: Syndrome) -> AethRepr {
        AethRepr {
            syndrome,
            msn: 0x010203,
        }
    }

    /// IBTA 9.3.5, 9.7.5.2.1, 9.7.7.2: the syndrome of an ACK has a credit code, where 31 means
    /// none; that of an RNR NAK has a timer code, and that of a NAK its reason.
    #[test]
    fn each_kind_of_syndrome() {
        let rnr = |code| Syndrome::RnrNak {
            timer: RnrTimer::new(code),
        };
        check(aeth(Syndrome::ACK), &[0x1f, 1, 2, 3]);
        check(aeth(Syndrome::Ack { credit: 0 }), &[0x00, 1, 2, 3]);
        check(aeth(rnr(0)), &[0x20, 1, 2, 3]);
        check(aeth(rnr(31)), &[0x3f, 1, 2, 3]);
        let codes = [
            NakCode::PsnSequence,
            NakCode::InvalidRequest,
            NakCode::RemoteAccess,
            NakCode::RemoteOperational,
            NakCode::InvalidRdRequest,
        ];
        for (code, byte) in codes.into_iter().zip(0x60..) {
            check(aeth(Syndrome::Nak { code }), &[byte, 1, 2, 3]);
        }
    }

    /// IBTA 9.7.5.2.1: the types 2 and 4 to 7, and the NAK codes from 5 on, are reserved.
    #[test]
    fn all_256_syndromes_survive() {
        let mut reserved = 0;
        for byte in 0..=u8::MAX {
            let syndrome = Syndrome::from_u8(byte);
            assert_eq!(syndrome.to_u8(), byte);
            reserved += u32::from(matches!(syndrome, Syndrome::Reserved(_)));
        }
        // 27 unused NAK codes, and the types 2 and 4 to 7.
        assert_eq!(reserved, 27 + 5 * 32);
    }

    /// IBTA 9.3.5, 9.7.7.1: the MSN has 24 bits.
    #[test]
    fn too_large_values_do_not_spill_into_other_fields() {
        let repr = AethRepr {
            syndrome: Syndrome::Ack { credit: 0xff },
            msn: u32::MAX,
        };
        let mut out = [0; AethRepr::LEN];
        assert!(repr.emit(&mut out).is_some());
        assert_eq!(out, [0x1f, 0xff, 0xff, 0xff]);
    }
}
