// SPDX-License-Identifier: GPL-2.0

//! The judges: each looks at a part of what happens, and says what is wrong with it.

pub mod access;
pub mod cwnd;
pub mod decode;
pub mod expect;
pub mod requester_wire;
pub mod responder_wire;
pub mod uc_arrival;
pub mod uc_packet;
