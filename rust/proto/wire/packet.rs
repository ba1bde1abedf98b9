// SPDX-License-Identifier: GPL-2.0

//! The headers of one whole packet: the base header and the extended headers that the opcode asks
//! for.
//!
//! A RoCEv2 packet is the payload of a UDP datagram: BTH, extended headers, payload, 0 to 3 pad
//! bytes that make the payload a multiple of four, ICRC (IBTA annex A17.3.1).

use super::bth::BTH_LEN;
use super::{
    AethRepr, AtomicAckEthRepr, AtomicEthRepr, BthRepr, DethRepr, EmitError, ExtKind, FethRepr,
    HeaderRepr, IethRepr, ImmDtRepr, Opcode, PKey, ParseError, PayloadRule, Psn, Qpn, RethRepr,
    ICRC_LEN,
};

/// The longest set of headers in bytes: an atomic request. Make this much of a datagram linear
/// (or all of it, when it is shorter) before [`PacketRepr::parse`].
pub const MAX_HEADER_LEN: usize = BTH_LEN + ExtKind::Atomic.len();

/// Reserved bytes of a congestion notification.
const CNP_RESERVED: usize = ExtKind::Cnp.len();

/// The pad bytes that a payload of `payload_len` bytes needs: 0 to 3.
#[inline]
pub const fn pad_for(payload_len: usize) -> u8 {
    (payload_len.wrapping_neg() & 3) as u8
}

impl Opcode {
    /// Length of all headers in bytes, the BTH included.
    #[inline]
    pub fn header_len(self) -> usize {
        BTH_LEN + self.info().ext.len()
    }
}

/// The extended headers of a packet, as its opcode asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ext {
    /// No more headers.
    None,
    /// Immediate data.
    Imm(ImmDtRepr),
    /// A key to invalidate.
    Inv(IethRepr),
    /// A remote range.
    Reth(RethRepr),
    /// A remote range and immediate data.
    RethImm(RethRepr, ImmDtRepr),
    /// Placement type and selectivity level of a FLUSH, and a remote range.
    Flush(FethRepr, RethRepr),
    /// An acknowledgement.
    Aeth(AethRepr),
    /// An acknowledgement and the original value of an atomic operation.
    AtomicAck(AethRepr, AtomicAckEthRepr),
    /// An atomic request.
    Atomic(AtomicEthRepr),
    /// The source QP and Q_Key of a datagram.
    Deth(DethRepr),
    /// The source QP and Q_Key of a datagram, and immediate data.
    DethImm(DethRepr, ImmDtRepr),
    /// Congestion notification: its reserved bytes are ignored.
    Cnp,
}

impl Ext {
    /// Which headers these are.
    #[inline]
    pub const fn kind(&self) -> ExtKind {
        match self {
            Ext::None => ExtKind::None,
            Ext::Imm(_) => ExtKind::Imm,
            Ext::Inv(_) => ExtKind::Inv,
            Ext::Reth(_) => ExtKind::Reth,
            Ext::RethImm(..) => ExtKind::RethImm,
            Ext::Flush(..) => ExtKind::Flush,
            Ext::Aeth(_) => ExtKind::Aeth,
            Ext::AtomicAck(..) => ExtKind::AtomicAck,
            Ext::Atomic(_) => ExtKind::Atomic,
            Ext::Deth(_) => ExtKind::Deth,
            Ext::DethImm(..) => ExtKind::DethImm,
            Ext::Cnp => ExtKind::Cnp,
        }
    }

    /// The immediate data, if any.
    #[inline]
    pub const fn imm(&self) -> Option<ImmDtRepr> {
        match *self {
            Ext::Imm(imm) | Ext::RethImm(_, imm) | Ext::DethImm(_, imm) => Some(imm),
            _ => None,
        }
    }

    /// The key to invalidate, if any.
    #[inline]
    pub const fn ieth(&self) -> Option<IethRepr> {
        match *self {
            Ext::Inv(ieth) => Some(ieth),
            _ => None,
        }
    }

    /// The remote range, if any.
    #[inline]
    pub const fn reth(&self) -> Option<RethRepr> {
        match *self {
            Ext::Reth(reth) | Ext::RethImm(reth, _) | Ext::Flush(_, reth) => Some(reth),
            _ => None,
        }
    }

    /// Placement type and selectivity level, of a FLUSH.
    #[inline]
    pub const fn feth(&self) -> Option<FethRepr> {
        match *self {
            Ext::Flush(feth, _) => Some(feth),
            _ => None,
        }
    }

    /// The acknowledgement, if any.
    #[inline]
    pub const fn aeth(&self) -> Option<AethRepr> {
        match *self {
            Ext::Aeth(aeth) | Ext::AtomicAck(aeth, _) => Some(aeth),
            _ => None,
        }
    }

    /// The atomic request, if any.
    #[inline]
    pub const fn atomic(&self) -> Option<AtomicEthRepr> {
        match *self {
            Ext::Atomic(atomic) => Some(atomic),
            _ => None,
        }
    }

    /// The original value of an atomic operation, if any.
    #[inline]
    pub const fn atomic_ack(&self) -> Option<AtomicAckEthRepr> {
        match *self {
            Ext::AtomicAck(_, ack) => Some(ack),
            _ => None,
        }
    }

    /// The source QP and Q_Key of a datagram, if any.
    #[inline]
    pub const fn deth(&self) -> Option<DethRepr> {
        match *self {
            Ext::Deth(deth) | Ext::DethImm(deth, _) => Some(deth),
            _ => None,
        }
    }

    /// Reads headers of `kind` at the start of `bytes`, or `None` when `bytes` is too short.
    #[inline]
    fn parse(kind: ExtKind, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            ExtKind::None => Ext::None,
            ExtKind::Imm => Ext::Imm(one(bytes)?),
            ExtKind::Inv => Ext::Inv(one(bytes)?),
            ExtKind::Reth => Ext::Reth(one(bytes)?),
            ExtKind::RethImm => {
                let (reth, imm) = two(bytes)?;
                Ext::RethImm(reth, imm)
            }
            ExtKind::Flush => {
                let (feth, reth) = two(bytes)?;
                Ext::Flush(feth, reth)
            }
            ExtKind::Aeth => Ext::Aeth(one(bytes)?),
            ExtKind::AtomicAck => {
                let (aeth, ack) = two(bytes)?;
                Ext::AtomicAck(aeth, ack)
            }
            ExtKind::Atomic => Ext::Atomic(one(bytes)?),
            ExtKind::Deth => Ext::Deth(one(bytes)?),
            ExtKind::DethImm => {
                let (deth, imm) = two(bytes)?;
                Ext::DethImm(deth, imm)
            }
            ExtKind::Cnp => {
                bytes.get(..CNP_RESERVED)?;
                Ext::Cnp
            }
        })
    }

    /// Writes the headers to the start of `out`, or `None` when it is too short.
    #[inline]
    fn emit(&self, out: &mut [u8]) -> Option<()> {
        match self {
            Ext::None => {}
            Ext::Imm(imm) => drop(imm.emit(out)?),
            Ext::Inv(ieth) => drop(ieth.emit(out)?),
            Ext::Reth(reth) => drop(reth.emit(out)?),
            Ext::RethImm(reth, imm) => drop(imm.emit(reth.emit(out)?)?),
            Ext::Flush(feth, reth) => drop(reth.emit(feth.emit(out)?)?),
            Ext::Aeth(aeth) => drop(aeth.emit(out)?),
            Ext::AtomicAck(aeth, ack) => drop(ack.emit(aeth.emit(out)?)?),
            Ext::Atomic(atomic) => drop(atomic.emit(out)?),
            Ext::Deth(deth) => drop(deth.emit(out)?),
            Ext::DethImm(deth, imm) => drop(imm.emit(deth.emit(out)?)?),
            Ext::Cnp => out.get_mut(..CNP_RESERVED)?.fill(0),
        }
        Some(())
    }
}

#[inline]
fn one<A: HeaderRepr>(bytes: &[u8]) -> Option<A> {
    let (a, _) = A::parse(bytes)?;
    Some(a)
}

#[inline]
fn two<A: HeaderRepr, B: HeaderRepr>(bytes: &[u8]) -> Option<(A, B)> {
    let (a, rest) = A::parse(bytes)?;
    let (b, _) = B::parse(rest)?;
    Some((a, b))
}

/// All headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRepr {
    /// The base header.
    pub bth: BthRepr,
    /// The headers that its opcode asks for.
    pub ext: Ext,
}

/// A packet as read: its headers and where its payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The headers.
    pub repr: PacketRepr,
    /// Offset of the payload in the datagram, in bytes.
    pub header_len: usize,
    /// Length of the payload in bytes, without pad. Not checked against the path MTU: see
    /// [`Parsed::payload_fits`].
    pub payload_len: usize,
}

impl Parsed {
    /// Whether the payload is as long as the opcode allows under a path MTU of `pmtu` bytes.
    #[inline]
    pub fn payload_fits(&self, pmtu: usize) -> bool {
        let rule = self.repr.bth.opcode.info().payload;
        rule.allows(self.payload_len, pmtu)
    }

    /// Offset of the ICRC in the datagram, in bytes: the end of what the ICRC covers.
    #[inline]
    pub const fn icrc_offset(&self) -> usize {
        // Both lengths and the pad were part of one datagram's length: this cannot wrap.
        self.header_len
            .wrapping_add(self.payload_len)
            .wrapping_add(self.repr.bth.pad as usize)
    }
}

impl PacketRepr {
    /// The headers of no packet, before one is read.
    pub const EMPTY: Self = Self::new(
        Opcode::RcSendMiddle,
        PKey::DEFAULT,
        Qpn::new(0),
        Psn::new(0),
        Ext::None,
        0,
    );

    /// Headers with every option off and the pad that `payload_len` bytes need.
    #[inline]
    pub const fn new(
        opcode: Opcode,
        pkey: PKey,
        dest_qp: Qpn,
        psn: Psn,
        ext: Ext,
        payload_len: usize,
    ) -> Self {
        let mut bth = BthRepr::new(opcode, pkey, dest_qp, psn);
        bth.pad = pad_for(payload_len);
        PacketRepr { bth, ext }
    }

    /// Reads the headers of a datagram of `udp_payload_len` bytes (what follows the UDP header)
    /// that begins with `bytes`. `bytes` may end early, but not before [`MAX_HEADER_LEN`] bytes,
    /// or the end of the datagram.
    ///
    /// On success headers, payload, pad and ICRC are exactly `udp_payload_len` bytes.
    ///
    /// # Errors
    ///
    /// A [`ParseError`] says why the datagram is to be dropped.
    #[inline]
    pub fn parse(bytes: &[u8], udp_payload_len: usize) -> Result<Parsed, ParseError> {
        let (bth, rest) = BthRepr::parse(bytes)?;
        let info = bth.opcode.info();
        let header_len = BTH_LEN + info.ext.len();
        // Bytes after the end of the datagram are none of its headers, even if they are in the
        // linear part.
        if udp_payload_len < header_len {
            return Err(ParseError::TooShort);
        }
        let Some(ext) = Ext::parse(info.ext, rest) else {
            return Err(ParseError::TooShort);
        };
        let trailer_len = bth.pad as usize + ICRC_LEN;
        let Some(payload_len) = udp_payload_len.checked_sub(header_len + trailer_len) else {
            return Err(ParseError::LengthUnderflow);
        };
        if pad_for(payload_len) != bth.pad {
            return Err(ParseError::BadPad);
        }
        if payload_len != 0 && info.payload == PayloadRule::Empty {
            return Err(ParseError::UnexpectedPayload);
        }
        Ok(Parsed {
            repr: PacketRepr { bth, ext },
            header_len,
            payload_len,
        })
    }

    /// Length of the headers in bytes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        BTH_LEN + self.ext.kind().len()
    }

    /// Length in bytes of the UDP payload of a packet with these headers and `payload_len` bytes
    /// of payload: headers, payload, pad, ICRC.
    #[inline]
    pub const fn wire_len(&self, payload_len: usize) -> usize {
        payload_len
            .wrapping_add(pad_for(payload_len) as usize)
            .wrapping_add(self.header_len() + ICRC_LEN)
    }

    /// Writes the headers to the start of `out`; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// [`EmitError`]; the content of `out` is unspecified then.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        if self.bth.opcode.info().ext != self.ext.kind() {
            return Err(EmitError::Mismatch);
        }
        let rest = self.bth.emit(out).ok_or(EmitError::NoRoom)?;
        self.ext.emit(rest).ok_or(EmitError::NoRoom)?;
        Ok(self.header_len())
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
