// SPDX-License-Identifier: GPL-2.0

//! The machine around the code under test: memory, queues, and what the protocol asks for.

pub mod datagram;
pub mod engine;
pub mod env;
pub mod lending;
pub mod machine;
pub mod memory;
pub mod paging;
pub mod qp;
pub mod queues;
pub mod sabotage;
pub mod uc;
