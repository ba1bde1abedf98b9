// SPDX-License-Identifier: GPL-2.0

//! The transport services: how each joins the transport with queues, memory and packets.

pub(crate) mod rc;
pub(crate) mod ud;
