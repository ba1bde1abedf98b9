// SPDX-License-Identifier: GPL-2.0

//! Messages of 2^31 bytes, the longest there are. At a path MTU of 256 one takes 2^23 PSNs, half of
//! all. No memory is behind them: only places and lengths are looked at.

use oxe_proto::wire::PacketRepr;
use oxe_sim::api::*;
use std::collections::VecDeque;

const GIANT: u32 = 1 << 31;
/// Packets that one READ request asks for, and the largest window: the path holds any
/// number of packets.
const READ_CHUNK: u32 = 122;
const MAX_WINDOW: usize = 1 << 14;

/// One end: a send queue, and how much of the message in progress has come.
struct End {
    conn: Connection<Vec<Resource>>,
    requests: Vec<Request>,
    retired: u32,
    payload: u32,
    placed: u32,
    written: u32,
    read: u32,
    received: u32,
    packets: u32,
}

impl End {
    fn new(pmtu: u32, start: u32) -> End {
        let mut conn = Connection::new(vec![Resource::EMPTY; 1]);
        let steps = [State::Init, State::Rtr, State::Rts].map(|state| Modify {
            state: Some(state),
            pmtu: Some(pmtu),
            sq_psn: Some(start),
            rq_psn: Some(start),
            max_rd_atomic: Some(1),
            access: Some(oxe_proto::transport::RemoteAccess::ALL),
            ..Modify::default()
        });
        for step in steps {
            conn.modify(&step).unwrap();
        }
        End {
            conn,
            requests: Vec::new(),
            retired: 0,
            payload: 0,
            placed: 0,
            written: 0,
            read: 0,
            received: 0,
            packets: 0,
        }
    }

    fn poll(&mut self) -> Option<Transmit> {
        let mut queue = Queue(&mut self.requests, self.retired);
        self.conn.poll_transmit(Instant(0), 1, &mut queue)
    }

    fn take(&mut self, header: &PacketRepr, payload: u32) {
        self.packets += 1;
        self.payload = payload;
        let mut conn = std::mem::replace(&mut self.conn, Connection::new(Vec::new()));
        let verdict = conn.handle_packet(Instant(0), header, payload, self);
        self.conn = conn;
        assert_eq!(verdict, Verdict::Accepted, "{header:?}");
    }

    fn completion(&mut self) -> Option<SendCompletion> {
        let mut queue = Queue(&mut self.requests, self.retired);
        let done = self.conn.poll_send_completion(&mut queue)?;
        self.retired += 1;
        Some(done)
    }
}

struct Queue<'a>(&'a mut Vec<Request>, u32);

impl RequestQueue for Queue<'_> {
    fn tail(&self) -> u32 {
        self.0.len() as u32
    }
    fn get(&self, n: u32) -> Option<&Request> {
        self.0.get(n as usize).filter(|_| n >= self.1)
    }
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let retired = self.1;
        self.0.get_mut(n as usize).filter(|_| n >= retired)
    }
}

impl RequestQueue for End {
    fn tail(&self) -> u32 {
        self.requests.len() as u32
    }
    fn get(&self, n: u32) -> Option<&Request> {
        self.requests.get(n as usize).filter(|_| n >= self.retired)
    }
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let retired = self.retired;
        self.requests.get_mut(n as usize).filter(|_| n >= retired)
    }
}

/// The next `len` bytes must be those at `offset`.
fn advance(done: &mut u32, offset: u32, len: u32) {
    assert_eq!(*done, offset);
    *done += len;
}

impl RequesterOps for End {
    fn place(&mut self, _: u32, offset: u32) -> Result<(), PlaceError> {
        advance(&mut self.placed, offset, self.payload);
        Ok(())
    }
    fn place_atomic(&mut self, _: u32, _: u64) -> Result<(), PlaceError> {
        Err(Status::General.into())
    }
    fn finish_read(&mut self, _: u32) -> Result<(), Status> {
        assert_eq!(self.placed, GIANT);
        Ok(())
    }

    fn overlap(&self, _: u32, _: u32) -> bool {
        false
    }
}

impl ResponderOps for End {
    fn recv_start(&mut self) -> RecvStart {
        RecvStart::Taken
    }
    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        advance(&mut self.received, offset, self.payload);
        Ok(())
    }
    fn recv_done(&mut self, c: RecvCompletion) {
        assert_eq!((c.status, c.byte_len), (Status::Success, GIANT));
    }
    fn write_start(&mut self, va: u64, _: u32, len: u32) -> Result<(), AccessError> {
        assert_eq!((va, len), (u64::MAX - u64::from(GIANT) + 1, GIANT));
        Ok(())
    }
    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        advance(&mut self.written, offset, self.payload);
        Ok(())
    }
    fn read_start(&mut self, _: u8, va: u64, _: u32, len: u32) -> Result<(), AccessError> {
        let offset = va - (u64::MAX - u64::from(GIANT) + 1);
        let left = GIANT - offset as u32;
        assert!(len > 0 && len <= left.min(READ_CHUNK * 256));
        advance(&mut self.read, offset as u32, len);
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
}

/// Carries packets to and fro until neither end has any; gives the most that were on their way.
fn exchange(a: &mut End, b: &mut End) -> usize {
    let (mut to_a, mut to_b) = (VecDeque::new(), VecDeque::new());
    let mut most = 0;
    loop {
        while let Some(t) = a.poll() {
            to_b.push_back(t);
        }
        most = most.max(to_b.len());
        // READ responses have no window: take a part of them at a time.
        while to_a.len() < 1000 {
            let Some(t) = b.poll() else { break };
            to_a.push_back(t);
        }
        let (in_b, in_a) = (to_b.pop_front(), to_a.pop_front());
        if in_b.is_none() && in_a.is_none() {
            return most;
        }
        for (end, transmit) in [(&mut *b, in_b), (&mut *a, in_a)] {
            if let Some(t) = transmit {
                end.take(&t.header, t.payload.len());
            }
        }
    }
}

fn run(op: SendOp, pmtu: u32) -> (End, End) {
    let start = 0xff_ff80;
    let (mut a, mut b) = (End::new(pmtu, start), End::new(pmtu, start));
    let va = u64::MAX - u64::from(GIANT) + 1;
    let flags = Flags {
        signaled: true,
        ..Flags::default()
    };
    a.requests.push(Request::new(op, GIANT, va, 7, flags));
    // A small request after it needs the PSNs to be right.
    a.requests.push(Request::new(SendOp::Write, 0, 0, 0, flags));
    let most = exchange(&mut a, &mut b);
    assert!(most <= MAX_WINDOW, "{most} packets in flight");
    for n in 0..2 {
        let done = a.completion().map(|c| (c.n, c.status));
        assert_eq!(done, Some((n, Status::Success)));
    }
    assert_eq!(a.completion(), None);
    (a, b)
}

/// IBTA 9.7.2: a message has up to 2^31 bytes.
#[test]
fn a_giant_send_arrives() {
    let (_, b) = run(SendOp::Send, 4096);
    assert_eq!((b.received, b.packets), (GIANT, (GIANT >> 12) + 1));
}

/// IBTA 9.7.2: a message has up to 2^31 bytes.
#[test]
fn a_giant_write_arrives() {
    let (_, b) = run(SendOp::Write, 4096);
    assert_eq!((b.written, b.packets), (GIANT, (GIANT >> 12) + 1));
}

/// IBTA 9.7.2, 9.7.3.1: a READ may take half of all PSNs.
#[test]
fn a_giant_read_takes_half_of_all_psns() {
    let (a, b) = run(SendOp::Read, 256);
    assert_eq!((a.placed, b.read), (GIANT, GIANT));
    // And some more while the window is small.
    let least = (GIANT >> 8).div_ceil(READ_CHUNK) + 1;
    assert!((least..least + 16).contains(&b.packets), "{}", b.packets);
}
