// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel's RDMA core (ib_core).
//!
//! A provider implements [`driver::Driver`] on the Rust data of its device; this module holds
//! everything between that trait and the core's C structures, and knows no protocol:
//!
//! * [`device`], [`lookup`]: devices, and references to them; [`link`]: `rdma link add` and `del`;
//!   [`client`]: devices that come and go;
//! * `ops*`: the operations table, generic over the driver, one file a kind of object;
//! * [`debugfs`]: the files by which root tunes a device;
//! * [`details`]: what `rdma resource show` prints of an object;
//! * [`events`]: completion and error upcalls, safe even if they come after their object is
//!   destroyed;
//! * [`udata`], [`mmap`], [`shared`]: driver-private data of verbs, and memory that a process and
//!   the driver share;
//! * [`umem`], [`mr`]: registered memory; [`odp`], [`fault`]: memory that is not pinned;
//! * [`gid`]: address vectors; [`gid_table`]: the GIDs of the devices; [`wr`], [`wc`]: work
//!   requests and completions of kernel users; [`qp`]: attributes of queue pairs; [`attr`],
//!   [`port`]: those of device and port;
//! * [`exclude`]: keeps rdma_rxe, which would take our devices for its own, out of the kernel.
//!
//! Objects are allocated by ib_core with the C structure first and the driver's Rust value behind
//! it (see `object`). ib_core guarantees that an operation on an object neither starts before its
//! create has succeeded nor runs while its destroy does, and that the objects it depends on live
//! longer; the `SAFETY` comments rely on that.

pub(crate) mod access;
pub(crate) mod attr;
pub(crate) mod client;
pub(crate) mod debugfs;
pub(crate) mod details;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod exclude;
pub(crate) mod fault;
pub(crate) mod gid;
pub(crate) mod gid_table;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod mmap;
pub(crate) mod mr;
pub(crate) mod odp;
pub(crate) mod port;
pub(crate) mod qp;
pub(crate) mod shared;
pub(crate) mod srq;
pub(crate) mod strided;
pub(crate) mod trace;
pub(crate) mod udata;
pub(crate) mod umem;
pub(crate) mod wc;
pub(crate) mod wr;

mod copy;
mod mm;
mod object;
mod ops;
mod ops_ah;
mod ops_counter;
mod ops_cq;
mod ops_device;
mod ops_gid;
mod ops_mad;
mod ops_mr;
mod ops_mw;
mod ops_pd;
mod ops_post;
mod ops_qp;
mod ops_srq;
mod ops_ucontext;
mod owner;
mod post;
mod register;
