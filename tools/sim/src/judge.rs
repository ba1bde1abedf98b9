// SPDX-License-Identifier: GPL-2.0

//! The judges: each looks at a part of what happens, and says what is wrong with it.

pub mod access;
pub mod completion;
pub mod cwnd;
pub mod datagram;
pub mod decode;
pub mod end;
pub mod events;
pub mod expect;
mod gaps;
pub mod kept;
pub mod lending;
pub mod local;
pub mod marks;
pub mod paging;
pub mod placement;
pub mod rate;
pub mod receive;
pub mod requester_wire;
pub mod responder_wire;
pub mod risk;
pub mod stats;
pub mod transmit;
pub mod uc;
pub mod view;

#[cfg(test)]
mod tests;
