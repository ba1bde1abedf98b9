// SPDX-License-Identifier: GPL-2.0

//! What is wrong, as a sentence with its remedy.

use serde::Serialize;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// A name for programs, which stays the same in later versions.
    pub(crate) id: &'static str,
    /// A sentence.
    pub(crate) text: String,
    /// The remedy: a command, or a sentence.
    pub(crate) remedy: String,
}

impl Problem {
    pub(crate) fn new(
        id: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Problem {
            id,
            text: text.into(),
            remedy: remedy.into(),
        }
    }
}
