// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the network stack.
//!
//! * [`netdev`]: network devices; [`notifier`]: their events; [`addr`]: their addresses;
//!   [`lookup`]: the device that has an address;
//! * [`udp`]: the sockets of each network namespace, which receive packets;
//! * [`skb`]: packets, received and to be sent; [`page_cache`]: their memory;
//! * [`route`]: the route to a destination, and the headers in front of a packet;
//! * [`queue`]: packets that are ready to be sent; [`tx_limit`]: the bytes that a sender may have
//!   in flight;
//! * [`crc`]: the kernel's CRC-32.
//!
//! This module knows no protocol above UDP. It contains `unsafe` code, which must not leak out:
//! items that device code uses are safe to call, in the contexts that their documentation names. A
//! few unsafe ones are for `rdma` alone.

pub(crate) mod addr;
pub(crate) mod crc;
pub(crate) mod lookup;
pub(crate) mod mcast;
pub(crate) mod netdev;
pub(crate) mod notifier;
pub(crate) mod page_cache;
pub(crate) mod queue;
pub(crate) mod route;
pub(crate) mod skb;
pub(crate) mod tx_limit;
pub(crate) mod udp;
