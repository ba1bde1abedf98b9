// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel's RDMA core (ib_core).
//!
//! A provider implements [`driver::Driver`] on the Rust data of its device; everything between that
//! trait and the core's C structures is in here, and nothing in here knows a protocol:
//!
//! * [`device`]: registration, references, port events; [`link`]: `rdma link add` and `del`;
//! * `ops*`: the operations table, generic over the driver, one file a kind of object;
//! * [`events`]: completion and error upcalls that are safe however late they come;
//! * [`udata`], [`mmap`], [`shared`]: what a process and the driver tell each other, and the memory
//!   they share;
//! * [`umem`]: registered memory; [`gid`]: address vectors; [`wr`], [`wc`]: work requests and
//!   completions of kernel users; [`qp`]: attributes of queue pairs; [`attr`]: those of device and
//!   port;
//! * [`exclude`]: keeps rdma_rxe, which would take our devices for its own, out of the kernel.
//!
//! Objects are allocated by ib_core with the C structure first and the driver's Rust value behind
//! it (see `object`). ib_core guarantees that an operation on an object neither starts before its
//! create has succeeded nor runs while its destroy does, and that the objects it depends on live
//! longer; the `SAFETY` comments rely on that.

pub(crate) mod access;
pub(crate) mod dev_attr;
pub(crate) mod events;
pub(crate) mod exclude;
pub(crate) mod gid_attr;
pub(crate) mod ibdev;
pub(crate) mod link_types;
pub(crate) mod mmap;
pub(crate) mod provider;
pub(crate) mod qp_attr;
pub(crate) mod shared;
pub(crate) mod strided;
pub(crate) mod udata;
pub(crate) mod umem;
pub(crate) mod wc;
pub(crate) mod wr;

mod copy;
mod object;
mod ops;
mod ops_ah;
mod ops_cq;
mod ops_device;
mod ops_mr;
mod ops_post;
mod ops_qp;
mod ops_ucontext;
mod owner;

// No two source files of the crate may share a base name, so some modules are found by an alias.
pub(crate) use self::dev_attr as attr;
pub(crate) use self::gid_attr as gid;
pub(crate) use self::ibdev as device;
pub(crate) use self::link_types as link;
pub(crate) use self::provider as driver;
pub(crate) use self::qp_attr as qp;

/// The only port of a device.
pub(crate) const PORT: u32 = 1;

/// How many entries a port's GID table has, one for each address of its netdev: as the module's parameter says. The
/// core makes three files in sysfs of each.
pub(crate) fn gid_table_len() -> u16 {
    crate::parameters::gids().clamp(16, 1024)
}

/// How many entries a port's P_Key table has; the only one is [`DEFAULT_PKEY`].
pub(crate) const PKEY_TABLE_LEN: u16 = 1;

/// The default partition, full membership (IBTA Vol 1, 10.9.1.2).
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// The size of a management datagram in bytes (IBTA Vol 1, 13.4.2).
const MAD_SIZE: u32 = 256;

/// EOPNOTSUPP, which the kernel crate has no name for.
pub(crate) fn unsupported() -> kernel::error::Error {
    kernel::error::Error::from_errno(-(crate::ffi::EOPNOTSUPP as kernel::ffi::c_int))
}
