// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections: pairs of UC QPs beside the other QPs, over the same network.
//!
//! Nothing that is lost comes again, so a judge can say of each packet that arrives what the
//! responder has to do with it ([`crate::judge::uc_arrival`]), and of each packet that is sent how
//! it has to look ([`transmit`]).

mod build;
mod complete;
mod end;
mod program;
mod receive;
mod states;
mod transmit;
