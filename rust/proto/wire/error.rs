// SPDX-License-Identifier: GPL-2.0

//! Errors of reading and writing packets.

use super::counted::counted;

counted! {
    /// The reason that a datagram is not a valid packet. Each has a counter in the driver; none
    /// causes a response.
    pub enum ParseError {
        /// The datagram ends within its headers.
        TooShort = c"rcvd_too_short",
        /// The transport version is not 0.
        BadVersion = c"rcvd_bad_version",
        /// The opcode is not defined.
        UnknownOpcode = c"rcvd_unknown_opcode",
        /// The pad does not make the payload a multiple of four, or there is nothing to pad.
        BadPad = c"rcvd_bad_pad",
        /// No room for pad and ICRC after the headers.
        LengthUnderflow = c"rcvd_length_underflow",
        /// A payload where the opcode has none.
        UnexpectedPayload = c"rcvd_unexpected_payload",
    }
}

/// The reason that headers were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom,
    /// The extended headers are not those of the opcode.
    Mismatch,
}
