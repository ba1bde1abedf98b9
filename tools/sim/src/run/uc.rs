// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections: pairs of UC QPs beside the other QPs, over the same network. Their
//! judges are in [`crate::judge::uc`].

mod build;
mod complete;
mod end;
mod post;
mod receive;
mod states;
mod transmit;
