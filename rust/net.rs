// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the network stack.
//!
//! * [`netdev`]: network devices; [`notifier`]: what happens to them; [`lookup`]: which has an address;
//! * [`udp`]: the sockets of each network namespace, by which packets arrive;
//! * [`skb`]: packets, received and to be sent;
//! * [`route`]: the way to a destination, the headers in front, and sending;
//! * [`crc`]: the kernel's CRC-32.
//!
//! Nothing in here knows a protocol above UDP. `unsafe` is at home here and must not leak out:
//! every public item is safe to call, in the contexts its documentation names.

pub(crate) mod crc;
pub(crate) mod lookup;
pub(crate) mod netdev;
pub(crate) mod notifier;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod route;
pub(crate) mod skb;
pub(crate) mod udp;
