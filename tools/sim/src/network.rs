// SPDX-License-Identifier: GPL-2.0

//! The network: frames, and the wires that carry and impair them.

pub mod frame;
pub mod wire;
