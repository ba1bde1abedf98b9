// SPDX-License-Identifier: GPL-2.0

//! Errors of reading and writing packets.

/// The reason that a datagram is not a valid packet. Each has a counter in the driver; none causes
/// a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ParseError {
    /// The datagram ends within its headers.
    TooShort = 0,
    /// The transport version is not 0.
    BadVersion = 1,
    /// The opcode is not defined.
    UnknownOpcode = 2,
    /// The pad does not make the payload a multiple of four, or there is nothing to pad.
    BadPad = 3,
    /// No room for pad and ICRC after the headers.
    LengthUnderflow = 4,
    /// A payload where the opcode has none.
    UnexpectedPayload = 5,
}

impl ParseError {
    /// The number of reasons; each one `as usize` is less.
    pub const COUNT: usize = 6;
}

/// The reason that headers were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom,
    /// The extended headers are not those of the opcode.
    Mismatch,
}
