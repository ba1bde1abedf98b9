// SPDX-License-Identifier: GPL-2.0

//! A deterministic simulator for the protocol core of oxe.
//!
//! One seed is one run: hosts with memory, connections between them, programs that post random
//! requests, and a network that loses, repeats, reorders, delays and corrupts, until it heals.
//! Time is virtual, and nothing but the seed decides what happens. Packets are bytes on the way,
//! written and read by the code under test.
//!
//! The judges know the right result of every request ([`model`]), look at every packet on the wire
//! ([`watch`]), at every completion ([`judge`]) and, when all is over, at all memory ([`end`]).
//! Safety is judged all the time; liveness once the network is well: everything posted has to
//! complete within bounded virtual time.

#![forbid(unsafe_code)]

pub mod answers;
pub mod api;
pub mod build;
pub mod check;
pub mod cwnd;
pub mod datagram;
pub mod decode;
pub mod deregister;
pub mod drive;
pub mod end;
pub mod expect;
pub mod fast;
pub mod faulty;
pub mod host;
pub mod hostile;
pub mod judge;
pub mod lending;
pub mod local;
pub mod log;
pub mod model;
pub mod network;
pub mod paging;
pub mod peer;
pub mod placement;
pub mod profile;
pub mod program;
pub mod qp_reuse;
pub mod rng;
pub mod rules;
pub mod runner;
pub mod send;
pub mod stats;
pub mod uc;
pub mod watch;
pub mod workload;
pub mod world;
