// SPDX-License-Identifier: GPL-2.0

//! A QP: engine, queues, and what its program knows.

use super::engine::Engine;
use super::lending::Lending;
use super::paging::Paging;
use super::queues::{Keys, RecvRing, SendRing};
use crate::model::flow::Flow;
use crate::model::key::Fast;
use crate::model::outcome::{Fate, Pause};
use oxe_proto::transport::{NotificationPoint, RemoteAccess, LOOPBACK_MTU};
use std::collections::BTreeMap;

/// How a QP is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    pub pmtu: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub pkey: u16,
    pub access: RemoteAccess,
}

/// Whether a queue pair of this number and path MTU is controlled by delay, and ignores
/// notifications.
pub fn by_delay(qpn: u32, pmtu: u32) -> bool {
    qpn % 4 == 2 && pmtu != LOOPBACK_MTU
}

/// A QP with all that belongs to it.
pub struct Qp {
    pub host: usize,
    pub qpn: u32,
    pub peer: usize,
    pub conn: Engine,
    pub setup: Setup,
    pub send: SendRing,
    pub recv: RecvRing,
    pub keys: Keys,
    /// The pages that packets taken, requests sent, and READ responses sent find missing.
    pub taken_pages: Paging,
    pub sent_pages: Paging,
    pub read_pages: Paging,
    /// Its requests to its peer.
    pub flow: Flow,
    /// Its inbox, as a region of the peer's host: index.
    pub inbox_region: usize,
    pub fast: Fast,
    /// The most READs and atomics it ever has under way.
    pub initial_max_rd_atomic: u8,
    pub pause: Pause,
    pub fate: Fate,
    pub lending: Lending,
    /// Notifies its peer of marked packets.
    pub point: NotificationPoint,
    /// The request packets that it keeps, by PSN.
    pub kept: BTreeMap<u32, Vec<u8>>,
    /// The packets of its flow before this one are acknowledged on the wire.
    pub acknowledged: u64,
    /// Requests that it has still to post.
    pub todo: u64,
    /// Which request is to have a fault.
    pub fault_at: Option<u64>,
    /// Timer events that are scheduled for the connection.
    pub timer_at: Option<u64>,
    pub pump_at: Option<u64>,
}

impl Qp {
    /// Whether its packets are loopback packets.
    pub fn is_loopback(&self) -> bool {
        self.setup.pmtu == LOOPBACK_MTU && !self.conn.is_foreign()
    }
}
