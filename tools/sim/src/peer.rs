// SPDX-License-Identifier: GPL-2.0

//! A foreign peer: a stock RC queue pair, written from the specification (IBTA chapter 9) and
//! independent of the transport of oxe, of which it uses the headers and the types of the interface
//! alone.
//!
//! It does what oxe does not, and what it may: it asks for a READ as a whole, keeps a fixed window,
//! goes back to the last acknowledged packet and sends all again, repeats a READ from its
//! beginning, acknowledges packets that do not ask for it, advertises credits, and acknowledges a
//! duplicate across responses that may be lost.

pub mod attr;
pub mod qp;
mod request_packet;
mod requester;
mod resources;
mod responder;
mod response;
