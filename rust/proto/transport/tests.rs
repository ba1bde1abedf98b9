// SPDX-License-Identifier: GPL-2.0

//! Tests of the transport: two connections on a wire that does what the test says, and single ones
//! that are fed by hand.

mod host;
mod pair;

mod delayed_ack;
mod datagrams;
mod hostile;
mod loss;
mod machine;
mod naks;
mod noise;
mod records;
mod recovery;
mod runs;
mod tail_loss;
mod sink;
mod straight;
mod coalescing;
mod window;
