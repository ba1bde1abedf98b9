// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections: pairs of UC QPs beside the other QPs, over the same network.
//!
//! Nothing that is lost comes again, so a judge can say of each packet that arrives what the
//! responder has to do with it ([`arrival`]), and of each packet that is sent how it has to look
//! ([`transmit`]).

mod arrival;
mod build;
mod complete;
mod device;
mod end;
mod message;
mod program;
mod receive;
mod states;
mod transmit;

use crate::host::paging::Paging;
use crate::rng::Ppm;
use arrival::Responder;
use device::{RecvQueue, SendQueue};
use message::Message;
use oxe_proto::transport::UcQp;

/// The behaviour of programs and devices in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Habits {
    /// A packet cannot be sent now, or there is no route for it.
    tx_fail: Ppm,
    no_route: Ppm,
    /// Payloads are copied some time after the packets were built.
    late_release: Ppm,
    /// A peer sends packets of wrong lengths.
    flaw: Ppm,
    /// A request has a fault; a WRITE is to memory that the peer may not write to.
    fault: Ppm,
    bad_key: Ppm,
    /// A receive is too short or not usable.
    short: Ppm,
    unusable: Ppm,
    /// Receives are posted that often only.
    scarce: bool,
    /// A request sends nothing.
    local: Ppm,
    /// A tick pauses the send queue, moves the QP to error or resets it, changes what it permits.
    pause: Ppm,
    kill: Ppm,
    reset: Ppm,
    change: Ppm,
}

impl Habits {
    /// Whether each message arrives on a network without faults.
    fn are_good(&self) -> bool {
        let harm = [self.no_route, self.fault, self.bad_key, self.short];
        let more = [self.flaw, self.unusable, self.kill, self.reset, self.change];
        !self.scarce && harm.iter().chain(&more).all(|ppm| *ppm == 0)
    }
}

/// The program's view of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reset, or not connected yet.
    Down,
    /// Ready to receive, not to send.
    Half,
    Up,
    /// In SQD: the send queue is not drained yet, or is drained.
    Draining,
    Drained,
    /// In SQE.
    Failed,
    /// In error.
    Dead,
}

/// A UC QP with all that belongs to it.
struct End {
    host: usize,
    qpn: u32,
    /// The index of the other end.
    peer: usize,
    pkey: u16,
    pmtu: u32,
    max_len: u64,
    qp: UcQp,
    send: SendQueue,
    recv: RecvQueue,
    /// The pages that packets taken, and packets sent, find missing.
    taken_pages: Paging,
    sent_pages: Paging,
    /// The memory that the peer may write to: a region of the host.
    inbox: usize,
    permits_write: bool,
    /// A region that the peer may only read.
    read_only: usize,
    /// All messages ever posted.
    messages: Vec<Message>,
    /// The first message since the latest reset; the first that is not sent to its end; the first
    /// that is not complete.
    base: usize,
    current: usize,
    completed: usize,
    /// The PSN of the next packet.
    psn: u32,
    /// Packets whose payload is still to be copied.
    uncopied: Vec<transmit::Uncopied>,
    responder: Responder,
    phase: Phase,
    /// Requests that the program has still to post; receives that it has posted.
    todo: u64,
    resets: u32,
    pump_at: Option<u64>,
}

/// All UC QPs.
#[derive(Default)]
pub struct Connections {
    ends: Vec<End>,
    habits: Habits,
}

impl Connections {
    /// The QP with this number at a host.
    pub fn find(&self, host: usize, qpn: u32) -> Option<usize> {
        let here = |e: &End| e.host == host && e.qpn == qpn;
        self.ends.iter().position(here)
    }

    /// When the device is to look after the QP.
    pub fn pump_at(&self, end: usize) -> Option<u64> {
        self.ends[end].pump_at
    }
}

/// Something that happens to a UC QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The program does something.
    Tick,
    /// The device looks after the QP.
    Pump,
    /// The device copies payloads.
    Copy,
    /// The program brings the QP from RESET to RTR, and to RTS at once or soon.
    Connect,
    /// The program brings the QP to RTS: from RTR, SQD or SQE.
    Ready,
    /// The program resets a QP in error.
    Reset,
}
