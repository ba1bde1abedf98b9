// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the object, its queues, the engine that makes progress, and the transport services.

pub(crate) mod attr;
mod cause;
pub(crate) mod context;
pub(crate) mod counter;
pub(crate) mod details;
pub(crate) mod engine;
pub(crate) mod flush;
pub(crate) mod handlers;
pub(crate) mod local_ops;
mod notification;
pub(crate) mod object;
pub(crate) mod operation;
mod outcome;
pub(crate) mod producer;
pub(crate) mod progress;
pub(crate) mod recv_queue;
pub(crate) mod removal;
pub(crate) mod send_queue;
mod send_slot;
pub(crate) mod send_wqe;
pub(crate) mod service;
pub(crate) mod srq;
mod trace;
