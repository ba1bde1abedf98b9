// SPDX-License-Identifier: GPL-2.0

//! One end of a connection whose program sends messages without end. No memory is behind it: the
//! bytes that would be placed are counted.

use crate::api::*;
use oxe_proto::transport::{Arrival, CongestionControl, NotificationPoint, RemoteAccess};
use oxe_proto::wire::{Ecn, PacketRepr};
use std::collections::{BTreeMap, VecDeque};

/// What the program posts.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub op: SendOp,
    /// Bytes of a message.
    pub len: u32,
    /// Messages in the send queue.
    pub depth: usize,
}

/// The protocol of the end, and its queues.
pub struct End<C> {
    pub conn: Connection<Vec<Resource>, C>,
    pub queue: Queue,
    pub timer_at: Option<u64>,
    point: NotificationPoint,
}

/// The send queue, and what was counted.
pub struct Queue {
    requests: VecDeque<(Request, u64)>,
    /// Requests that have completed.
    retired: u32,
    /// Payload of the packet in hand.
    pub in_hand: u32,
    /// The packets that are kept, by PSN, with the lengths of their payloads.
    kept: BTreeMap<u32, (PacketRepr, u32)>,
    /// Bytes that were placed here, of requests and of READ responses.
    pub placed: u64,
    /// How long requests took from their post to their completion, ns.
    pub latencies: Vec<u64>,
    /// Requests that failed.
    pub failed: u64,
}

/// The exponent of the ACK timeout: 67 ms, as many programs have it.
const TIMEOUT: u8 = 14;
/// READs and atomics outstanding, and resources for them.
const RD_ATOMIC: u8 = 16;

/// Least time between two CNPs, ns: the driver's default.
const CNP_INTERVAL: u64 = 4_000;
/// The number of each end's peer.
const PEER: u32 = 5;

impl<C: CongestionControl> End<C> {
    /// An end in the state RTS.
    pub fn new(pmtu: u32) -> Self {
        let mut conn = Connection::new(vec![Resource::EMPTY; RD_ATOMIC.into()]);
        for state in [State::Init, State::Rtr, State::Rts] {
            let step = Modify {
                state: Some(state),
                pmtu: Some(pmtu),
                dest_qpn: Some(PEER),
                sq_psn: Some(0),
                rq_psn: Some(0),
                timeout: Some(TIMEOUT),
                retry_cnt: Some(7),
                rnr_retry: Some(7),
                max_rd_atomic: Some(RD_ATOMIC),
                access: Some(RemoteAccess::ALL),
                ..Modify::default()
            };
            conn.modify(&step).expect("the attributes are valid");
        }
        let queue = Queue {
            requests: VecDeque::new(),
            retired: 0,
            in_hand: 0,
            kept: BTreeMap::new(),
            placed: 0,
            latencies: Vec::new(),
            failed: 0,
        };
        End {
            conn,
            queue,
            timer_at: None,
            point: NotificationPoint::default(),
        }
    }

    /// A packet arrives, and those that were kept behind it have their turn. Gives the CNP that is
    /// due if it is marked.
    pub fn take(
        &mut self,
        now: Instant,
        header: PacketRepr,
        payload: u32,
        ecn: Ecn,
    ) -> Option<PacketRepr> {
        let mut next = Some((header, payload));
        let mut first = None;
        while let Some((header, payload)) = next {
            self.queue.in_hand = payload;
            let verdict = self
                .conn
                .handle_packet(now, &header, payload, &mut self.queue);
            first.get_or_insert(verdict);
            let due = self.conn.take_kept();
            next = due.and_then(|psn| self.queue.kept.remove(&psn.get()));
        }
        if !self.conn.keeps_requests() {
            self.queue.kept.clear();
        }
        let arrival = Arrival {
            packet: &header,
            payload_len: payload,
            ecn,
            accepted: first == Some(Verdict::Accepted),
        };
        let peer = Some(self.conn.attr().dest_qpn);
        self.point.on_packet(now, CNP_INTERVAL, &arrival, peer)
    }

    /// Fills the send queue, unless the connection has failed.
    pub fn post(&mut self, now: u64, work: Workload) {
        let flags = Flags {
            signaled: true,
            ..Flags::default()
        };
        while self.conn.state() == State::Rts && self.queue.requests.len() < work.depth {
            let request = Request::new(work.op, work.len, 0, 0, flags);
            self.queue.requests.push_back((request, now));
        }
    }

    /// Takes the completions; gives whether there was one.
    pub fn complete(&mut self, now: u64) -> bool {
        let before = self.queue.retired;
        while let Some(done) = self.conn.poll_send_completion(&mut self.queue) {
            self.queue.retired = self.queue.retired.wrapping_add(1);
            let posted = self.queue.requests.pop_front();
            match (done.status, posted) {
                (Status::Success, Some((_, at))) => self.queue.latencies.push(now - at),
                _ => self.queue.failed += 1,
            }
        }
        self.queue.retired != before
    }
}

impl RequestQueue for Queue {
    fn tail(&self) -> u32 {
        self.retired.wrapping_add(self.requests.len() as u32)
    }
    fn get(&self, n: u32) -> Option<&Request> {
        let at = n.wrapping_sub(self.retired) as usize;
        self.requests.get(at).map(|(request, _)| request)
    }
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let at = n.wrapping_sub(self.retired) as usize;
        self.requests.get_mut(at).map(|(request, _)| request)
    }
}

impl Queue {
    fn count(&mut self) {
        self.placed += u64::from(self.in_hand);
    }
}

impl RequesterOps for Queue {
    fn place(&mut self, _: u32, _: u32) -> Result<(), PlaceError> {
        self.count();
        Ok(())
    }
    fn place_atomic(&mut self, _: u32, _: u64) -> Result<(), PlaceError> {
        Ok(())
    }
    fn finish_read(&mut self, _: u32) -> Result<(), Status> {
        Ok(())
    }

    fn overlap(&self, _: u32, _: u32) -> bool {
        false
    }
}

impl ResponderOps for Queue {
    fn recv_start(&mut self) -> RecvStart {
        RecvStart::Taken
    }
    fn recv_place(&mut self, _: u32) -> Result<(), PlaceError> {
        self.count();
        Ok(())
    }
    fn recv_done(&mut self, _: RecvCompletion) {}
    fn write_start(&mut self, _: u64, _: u32, _: u32) -> Result<(), AccessError> {
        Ok(())
    }
    fn write_place(&mut self, _: u32) -> Result<(), AccessError> {
        self.count();
        Ok(())
    }
    fn read_start(&mut self, _: u8, _: u64, _: u32, _: u32) -> Result<(), AccessError> {
        Ok(())
    }
    fn atomic(&mut self, _: u64, _: u32, _: AtomicOp) -> Result<u64, AccessError> {
        Err(AccessError::Op)
    }
    fn atomic_write(&mut self, _: u64, _: u32) -> Result<(), AccessError> {
        Err(AccessError::Access)
    }
    fn flush(&mut self, _: &Flush) -> Result<(), AccessError> {
        Err(AccessError::Access)
    }
    fn invalidate(&mut self, _: u32) -> Result<(), AccessError> {
        Err(AccessError::Op)
    }
    fn keep(&mut self, pkt: &PacketRepr) -> bool {
        self.kept.insert(pkt.bth.psn.get(), (*pkt, self.in_hand));
        true
    }
}
