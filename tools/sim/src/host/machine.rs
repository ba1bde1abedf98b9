// SPDX-License-Identifier: GPL-2.0

//! A host: its memory, and what its QPs share.

use super::memory::{Memory, Regions};
use super::queues::{Program, SharedRecv};

/// A host.
pub struct Host {
    pub memory: Memory,
    pub regions: Regions,
    /// Index of the region that peers may read and that is never written.
    pub source: usize,
    /// Index of a region of which every access fails.
    pub defective: usize,
    /// Index of a region of which READs are granted, but the bytes cannot be read.
    pub unreadable: usize,
    /// The shared receive queue of its QPs, if they have one.
    pub srq: Option<SharedRecv>,
    pub program: Program,
}
