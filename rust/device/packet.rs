// SPDX-License-Identifier: GPL-2.0

//! Packets: their paths, building and sending them in batches, parsing received ones, and loopback
//! packets.

pub(crate) mod ah;
pub(crate) mod gso;
pub(crate) mod kept;
pub(crate) mod loopback;
pub(crate) mod path;
pub(crate) mod rx_batch;
pub(crate) mod rx_packet;
pub(crate) mod tx_batch;
pub(crate) mod wire_packet;
