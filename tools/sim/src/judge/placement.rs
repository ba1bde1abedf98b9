// SPDX-License-Identifier: GPL-2.0

//! The judge of ATOMIC WRITEs and FLUSHes that a device carries out.

use super::decode::{op, Seen};
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::Notes;

/// A placement type of a FLUSH (IBTA annex A19.4.1), as a bit.
const GLOBAL: u32 = 1;
const PERSISTENT: u32 = 2;
/// The selectivity level of a range.
const RANGE: u32 = 0;

/// An ATOMIC WRITE or FLUSH that is accepted is carried out, once, and as the packet says; a
/// duplicate of it, or any other packet, changes nothing in this way (IBTA annex A19.4).
pub fn check_placement(
    seen: Option<&Seen>,
    verdict: Verdict,
    notes: &Notes,
) -> Result<(), Violation> {
    let accepted = seen.filter(|_| verdict == Verdict::Accepted);
    let (mut words, mut flushes) = (Vec::new(), Vec::new());
    if let Some((seen, (va, rkey, len))) = accepted.and_then(|s| Some((s, s.reth?))) {
        let feth = seen.feth.unwrap_or(0);
        match seen.opcode {
            op::ATOMIC_WRITE => words.push(va),
            op::FLUSH => flushes.push(Flush {
                rkey,
                range: ((feth >> 4) & 3 == RANGE).then_some((va, len)),
                global: feth & GLOBAL != 0,
                persistent: feth & PERSISTENT != 0,
            }),
            _ => {}
        }
    }
    let done = (&notes.words, &notes.flushes);
    ensure!(
        "IBTA annex A19.4",
        done == (&words, &flushes),
        "carried out {done:x?} of {seen:x?}, {verdict:?}"
    );
    Ok(())
}
