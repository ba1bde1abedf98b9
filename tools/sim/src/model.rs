// SPDX-License-Identifier: GPL-2.0

//! The model: what programs have asked for, and the right results.
//!
//! A [`flow::Flow`] lists the requests of one QP in the order of posting. It knows beforehand which
//! PSNs each takes, which bytes travel, what it does to the peer's memory and what it returns. The
//! requests of a flow change only the flow's own area at the peer, its inbox, so no other flow
//! matters.

pub mod fault;
pub mod flow;
pub mod key;
pub mod op;
pub mod outcome;
pub mod uc;
pub mod verb;
