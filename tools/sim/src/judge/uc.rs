// SPDX-License-Identifier: GPL-2.0

//! The judges of UC QPs. Nothing that is lost comes again, so a judge can say of each packet that
//! arrives what the responder has to do with it ([`arrival`]), and of each packet that is sent how
//! it has to look ([`packet`]).

pub mod arrival;
pub mod completion;
pub mod end;
pub mod packet;
pub mod receive;

#[cfg(test)]
mod tests;

use crate::host::machine::Host;
use crate::host::uc::End;
use crate::profile::uc::Habits;
use crate::profile::Plan;
use arrival::Responder;

/// The UC QPs of a run at a moment, by shared reference.
#[derive(Clone, Copy)]
pub struct UcView<'a> {
    pub plan: &'a Plan,
    pub habits: &'a Habits,
    pub hosts: &'a [Host],
    pub ends: &'a [End],
    /// The records of what their responders take.
    pub responders: &'a [Responder],
}

impl<'a> UcView<'a> {
    /// The QP at the other end.
    pub fn peer(&self, end: usize) -> &'a End {
        &self.ends[self.ends[end].peer]
    }
}
