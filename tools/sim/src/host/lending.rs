// SPDX-License-Identifier: GPL-2.0

//! The payloads that a QP has lent, of loopback packets that have not arrived.

/// The payloads that a QP has lent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lending {
    /// There is any.
    pub any: bool,
    /// The first request.
    pub first: Option<u32>,
}

impl Lending {
    /// Whether a payload is lent.
    pub fn is_any(&self) -> bool {
        self.any
    }
}
