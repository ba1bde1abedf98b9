// SPDX-License-Identifier: GPL-2.0

//! The protocol core of oxe: everything in RoCEv2 that needs no kernel.
//!
//! It is pure: no allocation, no clock, no input or output, no `unsafe`, nothing beyond `core` and
//! `zerocopy`. The driver includes it as `crate::proto`; on the host the same files are a crate of
//! their own (`tools/proto`) and are tested there. Paths inside it are therefore relative.
//!
//! - [`wire`]: the packet format; knows no connection.
//! - [`transport`]: the protocol of a queue pair; uses [`wire`].

#![forbid(unsafe_code)]
// Only the host crate sets this feature; inside the driver this file is no crate root.
#![cfg_attr(all(feature = "standalone", not(test)), no_std)]

// The layers lie in `proto/` beside this file. The path is explicit because rustc looks for the
// modules of a crate root next to the file, and for those of a module in a directory of its name;
// with the path both find the same files.
#[path = "proto"]
mod layers {
    pub mod transport;
    pub mod wire;
}

pub use layers::transport;
pub use layers::wire;
