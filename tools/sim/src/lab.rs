// SPDX-License-Identifier: GPL-2.0

//! The lab: connections that share a bottleneck, in virtual time, to judge a congestion controller.
//! There is no memory, and nothing is judged but rates: the seeds of `run` are for the rest.

pub mod ack_clocked;
pub mod bottleneck;
pub mod codel;
pub mod end;
pub mod fixed;
pub mod network;
pub mod red;
pub mod report;
pub mod scenario;
