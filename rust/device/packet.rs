// SPDX-License-Identifier: GPL-2.0

//! Packets: where they go, how they are built and sent in batches, how they are parsed as they arrive, and
//! those of the loopback.

pub(crate) mod ah;
pub(crate) mod gso;
pub(crate) mod loopback;
pub(crate) mod path;
pub(crate) mod rx_batch;
pub(crate) mod rx_packet;
pub(crate) mod tx_batch;
pub(crate) mod wire_packet;
