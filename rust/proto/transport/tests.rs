// SPDX-License-Identifier: GPL-2.0

//! Tests of the transport: pairs of connections on a wire that each test controls, and single
//! connections whose packets the test makes.

mod host;
mod pair;

mod ahead;
mod coalescing;
mod datagrams;
mod dcqcn;
mod delayed_ack;
mod duplicates;
mod followers;
mod fuzz;
mod gaps;
mod hostile;
mod lent;
mod local;
mod loss;
mod lossless;
mod naks;
mod notification_point;
mod pacing;
mod page_faults;
mod placement;
mod placement_errors;
mod qp_states;
mod reaction;
mod read_chunks;
mod recovery;
mod rnr;
mod run_state;
mod segments;
mod selective;
mod sink;
mod snapshot;
mod tail_loss;
mod tally;
mod uc;
mod uc_receive;
mod uc_send;
mod ud;
mod window;
