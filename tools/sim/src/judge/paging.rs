// SPDX-License-Identifier: GPL-2.0

//! The judge of missing pages (on-demand paging).
//!
//! - A request whose page is missing gets an RNR NAK and changes nothing (IBTA 9.7.5.2.8). The
//!   receive that its first packet has taken stays taken, for that packet when it comes again.
//! - A response whose page is missing acknowledges the requests before its own all the same
//!   (IBTA 9.7.5.1.1), and is asked for again. Nothing was lost: no retry is counted.
//! - A UC message is lost, and the receive that it has taken serves the next one (IBTA 9.8.2.2).
//! - A packet whose payload cannot be read yet is taken back, and comes again as it was. It does
//!   not hold up the other half of its QP.
//!
//! The judges on the wire and of UC packets see all this but the verdict, which is judged here.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::Notes;

/// A packet is dropped because a page is missing, and for no other reason.
pub fn check_missing(verdict: Verdict, notes: &Notes) -> Result<(), Violation> {
    let dropped = verdict == Verdict::Dropped(DropReason::NotPresent);
    let missing = notes.missing;
    ensure!(dropped == missing, "{verdict:?}, page missing: {missing}");
    Ok(())
}
