// SPDX-License-Identifier: GPL-2.0

//! A deterministic simulator for the protocol core of oxe.
//!
//! One seed is one run: hosts with memory, connections between them, programs that post random
//! requests ([`program`]), and a network that loses, repeats, reorders, delays and corrupts, until
//! it heals.
//! Time is virtual, and nothing but the seed decides what happens. Packets are bytes on the way,
//! written and read by the code under test.
//!
//! The judges ([`judge`]) know the right result of every request ([`model`]), look at every packet
//! on the wire, at every completion and, when all is over, at all memory.
//! Safety is judged all the time; liveness once the network is well: everything posted has to
//! complete within bounded virtual time.

#![forbid(unsafe_code)]

pub mod api;
pub mod check;
pub mod host;
pub mod judge;
pub mod lab;
pub mod log;
pub mod model;
pub mod network;
pub mod peer;
pub mod profile;
pub mod program;
pub mod rng;
pub mod run;
pub mod runner;
