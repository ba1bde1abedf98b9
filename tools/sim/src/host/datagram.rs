// SPDX-License-Identifier: GPL-2.0

//! Datagram QPs, their queues, and what they have sent.

use oxe_proto::transport::{
    PlaceError, RecvCompletion, RecvStart, Request, RequestQueue, UdDest, UdQp, UdRequestQueue,
    UdResponderOps,
};
use oxe_proto::wire::{Qpn, GRH_LEN};

/// A send queue. It keeps the newest request alone, as each completes before the next is posted.
#[derive(Default)]
pub struct Requests {
    posted: u32,
    newest: Option<(Request, UdDest)>,
}

impl Requests {
    /// Posts a request; gives its number.
    pub fn post(&mut self, request: Request, dest: UdDest) -> u32 {
        self.newest = Some((request, dest));
        self.posted = self.posted.wrapping_add(1);
        self.posted.wrapping_sub(1)
    }

    fn is_newest(&self, n: u32) -> bool {
        n.wrapping_add(1) == self.posted
    }
}

impl RequestQueue for Requests {
    fn tail(&self) -> u32 {
        self.posted
    }

    fn get(&self, n: u32) -> Option<&Request> {
        let (request, _) = self.newest.as_ref().filter(|_| self.is_newest(n))?;
        Some(request)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let newest = self.is_newest(n);
        let (request, _) = self.newest.as_mut().filter(|_| newest)?;
        Some(request)
    }
}

impl UdRequestQueue for Requests {
    fn dest(&self, n: u32) -> Option<UdDest> {
        let (_, dest) = self.newest.filter(|_| self.is_newest(n))?;
        Some(dest)
    }
}

/// A receive queue with one receive of so many bytes, or none.
pub struct Receiver {
    room: Option<u32>,
    in_use: bool,
    done: Option<(RecvCompletion, Qpn)>,
}

impl Receiver {
    /// A queue with a receive of `room` bytes.
    pub fn new(room: Option<u32>) -> Self {
        Receiver {
            room,
            in_use: false,
            done: None,
        }
    }

    /// The bytes of the receive that is posted still.
    pub fn room(&self) -> Option<u32> {
        self.room.filter(|_| self.done.is_none())
    }

    /// How the receive completed, and for a datagram from where.
    pub fn done(&self) -> Option<(RecvCompletion, Qpn)> {
        self.done
    }
}

impl UdResponderOps for Receiver {
    fn grh(&self) -> Option<[u8; GRH_LEN]> {
        Some([0; GRH_LEN])
    }

    fn recv_start(&mut self) -> RecvStart {
        if self.room.is_none() {
            return RecvStart::Empty;
        }
        self.in_use = true;
        RecvStart::Taken
    }

    fn recv_room(&self) -> u32 {
        self.room.filter(|_| self.in_use).unwrap_or(0)
    }

    fn recv_place(&mut self, _grh: &[u8; GRH_LEN]) -> Result<(), PlaceError> {
        assert!(self.in_use, "no receive is in use");
        Ok(())
    }

    fn recv_done(&mut self, completion: RecvCompletion, source: Qpn) {
        assert!(self.in_use, "no receive is in use");
        self.in_use = false;
        self.done = Some((completion, source));
    }
}

/// A UD QP.
pub struct Endpoint {
    pub host: usize,
    pub qpn: u32,
    pub qkey: u32,
    pub pkey: u16,
    pub mtu: u32,
    pub qp: UdQp,
    pub requests: Requests,
}

/// A datagram that a program wants to send.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub len: u32,
    pub dest: UdDest,
    pub imm: Option<[u8; 4]>,
    pub solicited: bool,
    pub signaled: bool,
}

/// A datagram on its way.
pub struct Sent {
    pub src: usize,
    pub psn: u32,
    pub dest: usize,
    pub payload: Vec<u8>,
    pub imm: Option<[u8; 4]>,
    pub solicited: bool,
    /// The receiver must take it if it arrives, and a receive is posted.
    pub welcome: bool,
    /// Sent when the network was well.
    pub safe: bool,
    pub arrived: u32,
}

/// All UD QPs and what they have sent.
#[derive(Default)]
pub struct Datagrams {
    pub endpoints: Vec<Endpoint>,
    pub sent: Vec<Sent>,
    pub todo: u64,
}

impl Datagrams {
    /// Whether a UD QP has this number.
    pub fn has(&self, qpn: u32) -> bool {
        self.endpoints.iter().any(|e| e.qpn == qpn)
    }
}
