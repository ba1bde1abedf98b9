// SPDX-License-Identifier: GPL-2.0

//! Why bytes are no packet, and why a packet was not written.

/// Why a datagram is no packet. Each is a counter of the driver; none is worth an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ParseError {
    /// Ends within its headers.
    TooShort = 0,
    /// Another transport version than 0.
    BadVersion = 1,
    /// No such opcode.
    UnknownOpcode = 2,
    /// The pad does not make the payload a multiple of four, or there is nothing to pad.
    BadPad = 3,
    /// No room for pad and ICRC after the headers.
    LengthUnderflow = 4,
    /// A payload where the opcode has none.
    UnexpectedPayload = 5,
}

impl ParseError {
    /// How many causes there are; each one `as usize` is less.
    pub const COUNT: usize = 6;
}

/// Why headers were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom,
    /// The extended headers are not those of the opcode.
    Mismatch,
}
