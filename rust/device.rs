// SPDX-License-Identifier: GPL-2.0

//! The RDMA device: its parts and its objects, one file each. `object` puts the parts together.
//!
//! ```text
//!   post ─> ring ─> send_queue ─> engine ─> service ─> tx_batch, gso ─> wire
//!   wire ─> rx ─> delivery ─> rx_batch ─> engine ─> service ─> mem, recv_queue ─> cq
//!   on one device: loopback in place of tx_batch, wire and rx
//! ```
//!
//! Imports go down from layer to layer, also inside a folder. A layer gets the parts of the device
//! that it needs, its own or those of lower layers:
//!
//! ```text
//!   driver, link, gid_use                    the verbs, netdevs and addresses that come and go
//!   rx                                       the device that a packet is for
//!   object                                   the device: all its parts
//!   delivery                                 packets to queue pairs
//!   qp        handlers, attr, removal        callers of the engine: timers and work, verbs
//!             engine                         one input, processed to completion
//!             object                         the queue pair, and all of a device (Qps)
//!             service/{rc,uc,ud}             its transport service
//!             send_queue, recv_queue, flush
//!             progress, context, send_wqe, producer, operation
//!   packet    tx_batch, rx_packet, rx_batch  packets that are sent, packets that arrived
//!             loopback, gso, wire_packet
//!             ah, path                       the address handles (Ahs)
//!   cq        completion
//!   mem       mkeys                          the regions and windows (Mkeys)
//!             sge, payload, grant, mr, error
//!   mcast, gid_rescan                        multicast groups; new addresses of the netdev
//!   pd, port, recv_ring, ring                the protection domains (Pds); netdev and sockets
//!   tuning, settings, counters, limits
//!   uabi                                     what librxe and the driver share
//! ```

mod counters;
mod cq;
mod delivery;
mod driver;
mod gid_rescan;
mod gid_use;
mod limits;
mod link;
mod mcast;
mod mem;
mod object;
mod packet;
mod pd;
mod port;
mod qp;
mod recv_ring;
mod ring;
mod rx;
mod settings;
mod tuning;
mod uabi;

pub(crate) use link::{Addresses, NetdevNotifier, RXE};
pub(crate) use object::Oxe;
pub(crate) use settings::{Controller, Settings};
