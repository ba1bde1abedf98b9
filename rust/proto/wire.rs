// SPDX-License-Identifier: GPL-2.0

//! The wire format: headers, opcodes, sequence numbers and the invariant CRC of RoCEv2.
//!
//! Each header has a file with two types: a view (`Bth`), which is its bytes with names, and a
//! representation (`BthRepr`), which is its meaning in native integers. Reading never panics and
//! never looks beyond its slice, whatever the bytes are: a peer controls the result alone.
//! [`PacketRepr`] puts the headers of one packet together.
//!
//! Sources: InfiniBand Architecture Specification, Volume 1 (IBTA below), chapter 5 (data packet
//! format), chapter 9 (transport layer), annex A17 (RoCEv2) and annex A19 (memory placement
//! extensions).

pub mod aeth;
pub mod atomic;
pub mod bth;
mod counted;
pub mod deth;
pub mod error;
pub mod feth;
pub mod gid;
pub mod grh;
pub mod header;
pub mod icrc;
pub mod ieth;
pub mod immdt;
pub mod ip;
pub mod opcode;
pub mod packet;
pub mod perf_mgmt;
pub mod pkey;
pub mod psn;
pub mod qpn;
pub mod reth;
pub mod rnr;

pub use aeth::{AethRepr, NakCode, Syndrome, CREDIT_NONE};
pub use atomic::{AtomicAckEthRepr, AtomicEthRepr};
pub use bth::{BthRepr, BTH_LEN};
pub(crate) use counted::counted;
pub use deth::DethRepr;
pub use error::{EmitError, ParseError};
pub use feth::FethRepr;
pub use gid::Gid;
pub use grh::{GrhLayout, GRH_LEN};
pub use header::HeaderRepr;
pub use icrc::{Icrc, IcrcHead, IcrcSegments, ICRC_LEN};
pub use ieth::IethRepr;
pub use immdt::ImmDtRepr;
pub use ip::{Ecn, NetworkType, ROCE_UDP_PORT};
pub use opcode::{ExtKind, Kind, Opcode, PayloadRule, Position, Service, Tail};
pub use packet::{pad_for, Ext, PacketRepr, Parsed, MAX_HEADER_LEN};
pub use pkey::PKey;
pub use psn::Psn;
pub use qpn::Qpn;
pub use reth::RethRepr;
pub use rnr::RnrTimer;

/// The largest payload of one packet in bytes: the largest path MTU (IBTA 9.2, Table 64).
pub const MAX_PAYLOAD: usize = 4096;
