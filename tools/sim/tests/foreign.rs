// SPDX-License-Identifier: GPL-2.0

//! oxe against a stock go-back-N peer with the longest messages there are, 2^31 bytes, whole READs
//! among them, over a network that loses, duplicates and reorders. No memory is behind them: the
//! byte at each address of the source is given by the address, so that it is enough to look at
//! where bytes come from and where they go.

use oxe_proto::wire::PacketRepr;
use oxe_sim::api::*;
use oxe_sim::peer::attr::Style;
use oxe_sim::peer::qp::Foreign;
use oxe_sim::rng::Rng;
use std::collections::BTreeMap;

const GIANT: u32 = 1 << 31;
/// Where the memory of the responder is.
const VA: u64 = u64::MAX - GIANT as u64 + 1;
const START: u32 = 0xff_ff80;

/// Nanoseconds between two packets of a sender, and on the way.
const PACKET: u64 = 100;
const DELAY: u64 = 5_000;
/// One packet in so many is lost, comes twice, or comes late by as many packets at most.
const LOST: u64 = 4_000;
const DOUBLED: u64 = 4_000;
const LATE: u64 = 4_000;
const LATENESS: u64 = 20;

/// Either protocol.
enum Engine {
    Oxe(Box<Connection<Vec<Resource>>>),
    Stock(Box<Foreign>),
}

/// The record of an end's memory accesses.
#[derive(Default)]
struct Memory {
    /// The payload in hand: where it comes from, and its length.
    payload: (u32, u32),
    requests: Vec<Request>,
    retired: u32,
    placed: u32,
    /// READ responses behind the first missing one: offset and length.
    ahead: BTreeMap<u32, u32>,
    written: u32,
    received: u32,
    receives: u32,
    /// READ requests, by the first byte and the length.
    reads: BTreeMap<(u32, u32), u32>,
}

struct End {
    engine: Engine,
    memory: Memory,
    busy_until: u64,
}

impl Memory {
    /// The payload goes to this place, which is the one that it comes from, once and in order.
    fn advance(payload: (u32, u32), done: &mut u32, offset: u32) {
        assert_eq!(
            (payload.0, offset),
            (offset, *done),
            "other bytes, or not in order"
        );
        *done += payload.1;
    }
}

impl RequestQueue for Memory {
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

impl RequesterOps for Memory {
    fn place(&mut self, _: u32, offset: u32) -> Result<(), PlaceError> {
        assert_eq!(self.payload.0, offset, "other bytes");
        self.ahead.insert(offset, self.payload.1);
        while let Some(len) = self.ahead.remove(&self.placed) {
            self.placed += len;
        }
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

impl ResponderOps for Memory {
    fn recv_start(&mut self) -> RecvStart {
        RecvStart::Taken
    }
    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        Memory::advance(self.payload, &mut self.received, offset);
        Ok(())
    }
    fn recv_done(&mut self, c: RecvCompletion) {
        assert_eq!((c.status, c.byte_len), (Status::Success, GIANT));
        self.receives += 1;
    }
    fn write_start(&mut self, va: u64, _: u32, len: u32) -> Result<(), AccessError> {
        assert_eq!((va, len), (VA, GIANT));
        Ok(())
    }
    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        Memory::advance(self.payload, &mut self.written, offset);
        Ok(())
    }
    fn read_start(&mut self, _: u8, va: u64, _: u32, len: u32) -> Result<(), AccessError> {
        let offset = va.checked_sub(VA).ok_or(AccessError::Access)? as u32;
        assert!(len <= GIANT - offset, "READ of {len} bytes at {offset}");
        *self.reads.entry((offset, len)).or_default() += 1;
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

/// A packet on its way, with the place that its payload comes from.
struct Flying {
    to: usize,
    header: PacketRepr,
    payload: (u32, u32),
}

struct Link {
    ends: [End; 2],
    now: u64,
    serial: u64,
    flying: BTreeMap<(u64, u64), Flying>,
    rng: Rng,
    harmed: u64,
}

impl End {
    fn new(foreign: Option<Style>, pmtu: u32) -> End {
        let mut engine = match foreign {
            Some(style) => Engine::Stock(Foreign::new(style, 4).into()),
            None => Engine::Oxe(Connection::new(vec![Resource::EMPTY; 4]).into()),
        };
        for state in [State::Init, State::Rtr, State::Rts] {
            let step = Modify {
                state: Some(state),
                pmtu: Some(pmtu),
                sq_psn: Some(START),
                rq_psn: Some(START),
                timeout: Some(10),
                retry_cnt: Some(7),
                max_rd_atomic: Some(4),
                access: Some(oxe_proto::transport::RemoteAccess::ALL),
                ..Modify::default()
            };
            match &mut engine {
                Engine::Oxe(conn) => conn.modify(&step).unwrap(),
                Engine::Stock(peer) => peer.modify(&step),
            }
        }
        End {
            engine,
            memory: Memory::default(),
            busy_until: 0,
        }
    }

    fn poll(&mut self, now: u64) -> Option<Transmit> {
        let q = &mut self.memory;
        match &mut self.engine {
            Engine::Oxe(conn) => conn.poll_transmit(Instant(now), 1, q),
            Engine::Stock(peer) => peer.poll_transmit(now, q),
        }
    }

    fn take(&mut self, now: u64, packet: &Flying) {
        self.memory.payload = packet.payload;
        let (header, len, env) = (&packet.header, packet.payload.1, &mut self.memory);
        let verdict = match &mut self.engine {
            Engine::Oxe(conn) => conn.handle_packet(Instant(now), header, len, env),
            Engine::Stock(peer) => peer.handle_packet(now, header, len, env),
        };
        let honest = matches!(
            verdict,
            Verdict::Accepted
                | Verdict::Dropped(
                    DropReason::Duplicate
                        | DropReason::UnknownDuplicate
                        | DropReason::OutOfSequence
                        | DropReason::Gap
                        | DropReason::Ghost
                        | DropReason::RepeatedNak
                )
        );
        assert!(honest, "{verdict:?} of {header:?}");
    }

    fn timeout(&self) -> Option<u64> {
        match &self.engine {
            Engine::Oxe(conn) => conn.poll_timeout().map(|at| at.0),
            Engine::Stock(peer) => peer.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: u64) {
        match &mut self.engine {
            Engine::Oxe(conn) => conn.handle_timeout(Instant(now), &mut self.memory),
            Engine::Stock(peer) => peer.handle_timeout(now),
        }
    }

    fn completion(&mut self) -> Option<SendCompletion> {
        let done = match &mut self.engine {
            Engine::Oxe(conn) => conn.poll_send_completion(&mut self.memory),
            Engine::Stock(peer) => peer.poll_send_completion(&self.memory),
        }?;
        self.memory.retired += 1;
        Some(done)
    }
}

impl Link {
    /// An end sends what it can send now: a packet at a time, as fast as the wire takes it.
    fn send(&mut self, from: usize) {
        if self.ends[from].busy_until > self.now {
            return;
        }
        let Some(transmit) = self.ends[from].poll(self.now) else {
            return;
        };
        self.ends[from].busy_until = self.now + PACKET;
        let payload = match transmit.payload {
            Payload::None => (0, 0),
            Payload::Request { offset, len, .. } => (offset, len),
            Payload::Read {
                va, offset, len, ..
            } => ((va - VA) as u32 + offset, len),
        };
        let rng = &mut self.rng;
        let copies = match () {
            () if rng.one_in(LOST) => 0,
            () if rng.one_in(DOUBLED) => 2,
            () => 1,
        };
        self.harmed += u64::from(copies != 1);
        for _ in 0..copies {
            let late = self.rng.one_in(LATE);
            self.harmed += u64::from(late);
            let late = u64::from(late) * self.rng.below(LATENESS * PACKET);
            self.serial += 1;
            let key = (self.now + DELAY + late, self.serial);
            let packet = Flying {
                to: 1 - from,
                header: transmit.header,
                payload,
            };
            self.flying.insert(key, packet);
        }
    }

    /// The time of the next event: a packet arrives, a sender is free, or a timer goes off.
    fn next(&self) -> Option<u64> {
        let arrival = self.flying.keys().next().map(|(time, _)| *time);
        let free = self.ends.iter().map(|end| end.busy_until);
        let free = free.filter(|time| *time > self.now);
        let timers = self.ends.iter().filter_map(End::timeout);
        let timers = timers.map(|time| time.max(self.now + 1));
        arrival.into_iter().chain(free).chain(timers).min()
    }

    fn run(&mut self) {
        loop {
            self.send(0);
            self.send(1);
            let Some(next) = self.next() else { return };
            self.now = self.now.max(next);
            while let Some(first) = self.flying.first_entry() {
                if first.key().0 > self.now {
                    break;
                }
                let packet = first.remove();
                self.ends[packet.to].take(self.now, &packet);
            }
            for end in &mut self.ends {
                if end.timeout().is_some_and(|at| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
    }
}

/// One end posts a giant request and a small one after it, which needs the PSNs to be right.
fn run(op: SendOp, pmtu: u32, stock_asks: bool, restarts_reads: bool) -> Link {
    let style = Style {
        window: 256,
        ack_every: 16,
        restarts_reads,
        narrows_reads: !restarts_reads,
        eager_acks: restarts_reads,
        credit: 0x1f,
    };
    let (asks, answers) = match stock_asks {
        true => (Some(style), None),
        false => (None, Some(style)),
    };
    let mut link = Link {
        ends: [End::new(asks, pmtu), End::new(answers, pmtu)],
        now: 0,
        serial: 0,
        flying: BTreeMap::new(),
        rng: Rng::new(9),
        harmed: 0,
    };
    let flags = Flags {
        signaled: true,
        ..Flags::default()
    };
    let requests = &mut link.ends[0].memory.requests;
    requests.push(Request::new(op, GIANT, VA, 7, flags));
    requests.push(Request::new(SendOp::Write, 0, 0, 0, flags));
    link.run();
    for n in 0..2 {
        let done = link.ends[0].completion().map(|c| (c.n, c.status));
        assert_eq!(done, Some((n, Status::Success)));
    }
    assert!(link.harmed > 100, "{}", link.harmed);
    link
}

/// IBTA 9.7.2, 9.7.3.1, 9.7.5.1.3: the responder answers a READ of half of all PSNs, and any rest
/// of it.
#[test]
fn oxe_answers_whole_reads() {
    // At the smaller path MTU it takes half of all PSNs.
    for pmtu in [4096, 256] {
        let link = run(SendOp::Read, pmtu, true, false);
        assert_eq!(link.ends[0].memory.placed, GIANT);
        // It was asked for as a whole first, and for the rest after each loss.
        let reads = &link.ends[1].memory.reads;
        assert_eq!(reads.first_key_value(), Some((&(0, GIANT), &1)));
        assert!(reads.len() > 30);
        assert!(reads.keys().all(|(offset, len)| offset + len == GIANT));
    }
}

#[test]
fn oxe_takes_what_a_stock_requester_sends() {
    let link = run(SendOp::Send, 4096, true, true);
    let to = &link.ends[1].memory;
    assert_eq!((to.received, to.receives), (GIANT, 1));
    let link = run(SendOp::Write, 4096, true, false);
    assert_eq!(link.ends[1].memory.written, GIANT);
}

#[test]
fn a_stock_responder_serves_oxe() {
    let link = run(SendOp::Read, 4096, false, false);
    assert_eq!(link.ends[0].memory.placed, GIANT);
    // Lost responses alone are asked for again.
    let reads = &link.ends[1].memory.reads;
    assert!(reads.keys().filter(|(_, len)| *len == 4096).count() > 30);
    let link = run(SendOp::Send, 4096, false, true);
    let to = &link.ends[1].memory;
    assert_eq!((to.received, to.receives), (GIANT, 1));
    let link = run(SendOp::Write, 4096, false, false);
    assert_eq!(link.ends[1].memory.written, GIANT);
}
