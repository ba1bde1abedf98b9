// SPDX-License-Identifier: GPL-2.0

//! The judge of lent payloads: no request completes while its payload is lent, and nothing is
//! flushed while any payload is.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::lending::Lending;

/// A completion: the memory is the consumer's again.
pub fn check_lent(lending: Lending, completion: &SendCompletion) -> Result<(), Violation> {
    let Lending { any, first } = lending;
    let flushed = completion.status == Status::WrFlush;
    let early = first.is_some_and(|first| completion.n >= first) || any && flushed;
    ensure!(
        "design: a request completes when its payload is not lent",
        !early,
        "{completion:?} while its payload is lent"
    );
    Ok(())
}
