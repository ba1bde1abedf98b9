// SPDX-License-Identifier: GPL-2.0

//! The reliable connection, RC (IBTA 9.7).
//!
//! [`connection`] joins the halves of a queue pair, which do not know each other: [`requester`]
//! sends request packets and handles responses, [`responder`] carries out the peer's requests and
//! responds.

pub mod connection;
mod followers;
mod lent;
pub mod requester;
pub mod responder;

use super::{common, wire};

pub use connection::Connection;
pub use requester::cwnd::cubic::Cubic;
pub use requester::cwnd::delay::DelayBased;
pub use requester::cwnd::standard::Standard;
pub use requester::cwnd::{Ack, CongestionControl, Delay, Loss};
pub use requester::snapshot::{Cause, Change, Snapshot, Trigger};
pub use requester::{EventCounts, Requester, RequesterDetails, RequesterEvent};
pub use responder::ahead::KEPT_SPAN;
pub use responder::resource::Resource;
pub use responder::Responder;
