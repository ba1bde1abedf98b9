// SPDX-License-Identifier: GPL-2.0

//! Two endpoints in virtual time. An endpoint is a [`Connection`] and a [`Host`], which stands for
//! the driver: memory, queues, completions.

use super::super::wire::{AethRepr, BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn, Syndrome};
use super::super::{
    ConnectedQp, Connection, Events, Flags, Instant, Modify, RemoteAccess, Request, Resource,
    SendOp, State, Status, Transmit, Verdict,
};
use std::collections::VecDeque;

pub use super::host::*;

/// The largest windows of a short path: of request packets, and of READ responses.
pub const WINDOW: u32 = 128;
pub const READ_WINDOW: u32 = 488;

/// A packet on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub header: PacketRepr,
    pub payload: Vec<u8>,
}

impl Packet {
    pub fn psn(&self) -> u32 {
        self.header.bth.psn.get()
    }

    pub fn opcode(&self) -> Opcode {
        self.header.bth.opcode
    }

    pub fn syndrome(&self) -> Option<Syndrome> {
        self.header.ext.aeth().map(|aeth| aeth.syndrome)
    }
}

/// One end of the wire.
pub struct Node {
    pub conn: Connection<Vec<Resource>>,
    pub host: Host,
    pub events: Vec<Events>,
}

impl Node {
    /// An endpoint in the state RTS.
    pub fn new(seed: u8, config: &Modify, sq_psn: u32, rq_psn: u32) -> Self {
        Self::with_resources(16, seed, config, sq_psn, rq_psn)
    }

    /// An endpoint in the state RTS with `n` responder resources.
    pub fn with_resources(n: usize, seed: u8, config: &Modify, sq_psn: u32, rq_psn: u32) -> Self {
        let mut node = Self::fresh(n, seed, config, sq_psn, rq_psn);
        node.conn.open_windows(WINDOW, 0);
        node
    }

    /// The same, with the windows of a connection that has sent nothing.
    pub fn fresh(n: usize, seed: u8, config: &Modify, sq_psn: u32, rq_psn: u32) -> Self {
        let mut conn = Connection::new(vec![Resource::EMPTY; n]);
        conn.modify(&Modify::to_state(State::Init)).unwrap();
        let rtr = Modify {
            state: Some(State::Rtr),
            rq_psn: Some(rq_psn),
            ..*config
        };
        conn.modify(&rtr).unwrap();
        let rts = Modify {
            state: Some(State::Rts),
            sq_psn: Some(sq_psn),
            ..Modify::default()
        };
        conn.modify(&rts).unwrap();
        Node {
            conn,
            host: Host::new(seed),
            events: Vec::new(),
        }
    }

    pub fn post(&mut self, op: SendOp, local: Vec<u8>, at: u64) -> u32 {
        self.post_with(op, local, at, RKEY, signaled())
    }

    pub fn post_with(&mut self, op: SendOp, local: Vec<u8>, at: u64, rkey: u32, f: Flags) -> u32 {
        let request = Request::new(op, local.len() as u32, BASE.wrapping_add(at), rkey, f);
        self.post_request(request, local)
    }

    pub fn post_request(&mut self, request: Request, local: Vec<u8>) -> u32 {
        self.host.requests.push(request);
        self.host.local.push(local);
        self.host.requests.len() as u32 - 1
    }

    pub fn transmit(&mut self, now: Instant) -> Option<(Transmit, Packet)> {
        let timer = self.conn.poll_timeout().is_some_and(|due| due <= now);
        let may = self.conn.may_transmit(&self.host) || timer;
        loop {
            let Some(t) = self.conn.poll_transmit(now, 1, &mut self.host) else {
                let n = self.conn.poll_local(&self.host)?;
                assert!(may, "{n} comes unexpectedly");
                let result = self.host.carry_out(n);
                self.conn.finish_local(result, &mut self.host);
                continue;
            };
            assert!(may, "{t:?} comes unexpectedly");
            match self.host.payload_of(&t.payload) {
                Ok(payload) => {
                    let header = t.header;
                    assert_eq!((payload.len() + usize::from(header.bth.pad)) % 4, 0);
                    return Some((t, Packet { header, payload }));
                }
                Err(status) => self.conn.local_error(&t, status, &mut self.host),
            }
        }
    }

    /// All packets that the node sends now.
    pub fn transmit_all(&mut self, now: Instant) -> Vec<Packet> {
        std::iter::from_fn(|| self.transmit(now).map(|(_, packet)| packet)).collect()
    }

    pub fn receive(&mut self, now: Instant, packet: &Packet) -> Verdict {
        let verdict = self.take(now, packet);
        while let Some(psn) = self.conn.take_kept() {
            let packet = self.host.kept.remove(&psn.get()).expect("it is kept");
            let _ = self.take(now, &packet);
        }
        if !self.conn.keeps_requests() {
            self.host.kept.clear();
        }
        verdict
    }

    fn take(&mut self, now: Instant, packet: &Packet) -> Verdict {
        self.host.in_hand = packet.payload.clone();
        let len = packet.payload.len() as u32;
        self.conn
            .handle_packet(now, &packet.header, len, &mut self.host)
    }

    /// Takes completions and events. There are none if the connection says that it is quiet.
    pub fn settle(&mut self) {
        let quiet = self.conn.is_quiet();
        let before = (self.host.completed.len(), self.events.len());
        while let Some(completion) = self.conn.poll_send_completion(&mut self.host) {
            assert_eq!(
                completion.n,
                self.host.completed.len() as u32,
                "out of order"
            );
            self.host.completed.push(completion);
        }
        let events = self.conn.take_events();
        if !events.is_empty() {
            self.events.push(events);
        }
        let after = (self.host.completed.len(), self.events.len());
        assert!(
            !quiet || before == after,
            "quiet, but {before:?} -> {after:?}"
        );
    }

    pub fn statuses(&self) -> Vec<Status> {
        self.host.completed.iter().map(|c| c.status).collect()
    }

    pub fn saw(&self, event: Events) -> bool {
        self.events.iter().any(|events| events.contains(event))
    }
}

/// The ACK of a peer for everything up to PSN `at`.
pub fn ack(at: u32) -> Packet {
    reply(at, Syndrome::ACK)
}

/// An acknowledgement with this syndrome.
pub fn reply(at: u32, syndrome: Syndrome) -> Packet {
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(Opcode::RcAck, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext: Ext::Aeth(AethRepr { syndrome, msn: 0 }),
        },
        payload: Vec::new(),
    }
}

/// Bytes of a packet.
const PMTU: usize = 256;

/// The READ requests on the wire: the PSN, and the PSN behind the last one that is asked for.
pub fn reads_asked(packets: &[Packet]) -> Vec<(u32, u32)> {
    let reads = packets
        .iter()
        .filter(|p| p.opcode() == Opcode::RcReadRequest);
    reads
        .map(|p| {
            let len = p.header.ext.reth().unwrap().dma_len;
            (p.psn(), p.psn() + len.div_ceil(PMTU as u32))
        })
        .collect()
}

/// Response packet `at` of the part of a READ from `from` to `end`. Its bytes are its PSN.
pub fn read_response(at: u32, from: u32, end: u32) -> Packet {
    use Opcode::*;
    let opcode = match (at == from, at + 1 == end) {
        (true, true) => RcReadResponseOnly,
        (true, false) => RcReadResponseFirst,
        (false, true) => RcReadResponseLast,
        (false, false) => RcReadResponseMiddle,
    };
    let ext = match opcode {
        RcReadResponseMiddle => Ext::None,
        _ => Ext::Aeth(AethRepr {
            syndrome: Syndrome::ACK,
            msn: 0,
        }),
    };
    Packet {
        header: PacketRepr {
            bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), psn(at)),
            ext,
        },
        payload: vec![at as u8; PMTU],
    }
}

/// The fate of a packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Deliver,
    Lose,
    Twice,
    /// It arrives after the next packet of its direction.
    Late,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    AtoB,
    BtoA,
}

/// Two endpoints and the wire between them.
pub struct Pair {
    pub a: Node,
    pub b: Node,
    pub now: Instant,
    /// Everything that was put on the wire, in order.
    pub log: Vec<(Way, Packet)>,
}

/// The attributes of a test connection: path MTU 256, everything allowed.
pub fn config() -> Modify {
    Modify {
        dest_qpn: Some(5),
        pkey: Some(0xffff),
        pmtu: Some(256),
        timeout: Some(10),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        min_rnr_timer: Some(1),
        max_rd_atomic: Some(16),
        access: Some(RemoteAccess::ALL),
        ..Modify::default()
    }
}

pub fn signaled() -> Flags {
    Flags {
        signaled: true,
        ..Flags::default()
    }
}

/// How long `count` waits take, of `nanos` each, in nanoseconds: after the eighth each is twice as
/// long as the one before, up to 5 ms.
pub fn waits(count: u32, nanos: u64) -> u64 {
    (0..count)
        .map(|n| (nanos << n.saturating_sub(7).min(20)).min(5_000_000))
        .sum()
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(7) ^ (i >> 8) as u8 ^ seed)
        .collect()
}

impl Pair {
    pub fn new() -> Self {
        Self::with(&config(), 0xff_fff0, 100)
    }

    /// `psn` is the first PSN of a, `back` that of b.
    pub fn with(config: &Modify, psn: u32, back: u32) -> Self {
        Pair {
            a: Node::new(1, config, psn, back),
            b: Node::new(2, config, back, psn),
            now: Instant(0),
            log: Vec::new(),
        }
    }

    /// Runs until neither side has packets to send, without advancing the time. `fate` decides on
    /// each packet; it gets the number of packets put on the wire before it.
    pub fn exchange(&mut self, mut fate: impl FnMut(usize, Way, &Packet) -> Fate) {
        let mut wires: [VecDeque<Packet>; 2] = Default::default();
        loop {
            let mut idle = true;
            for way in [Way::AtoB, Way::BtoA] {
                let (from, wire) = match way {
                    Way::AtoB => (&mut self.a, &mut wires[0]),
                    Way::BtoA => (&mut self.b, &mut wires[1]),
                };
                let mut late = None;
                while let Some((_, packet)) = from.transmit(self.now) {
                    idle = false;
                    let fate = fate(self.log.len(), way, &packet);
                    self.log.push((way, packet.clone()));
                    match fate {
                        Fate::Deliver => wire.push_back(packet),
                        Fate::Lose => {}
                        Fate::Twice => wire.extend([packet.clone(), packet]),
                        Fate::Late if late.is_none() => {
                            late = Some(packet);
                            continue;
                        }
                        Fate::Late => wire.push_back(packet),
                    }
                    wire.extend(late.take());
                }
                wire.extend(late);
                from.settle();
            }
            for (to, wire) in [(&mut self.b, 0), (&mut self.a, 1)] {
                while let Some(packet) = wires[wire].pop_front() {
                    idle = false;
                    let _ = to.receive(self.now, &packet);
                    to.settle();
                }
            }
            if idle {
                return;
            }
            assert!(self.log.len() < 1_000_000, "no end to it");
        }
    }

    /// Runs over a wire without losses until there are no packets to send and no timer runs.
    pub fn run(&mut self) {
        self.run_with(|_, _, _| Fate::Deliver);
    }

    /// Runs until there are no packets to send and no timer runs.
    pub fn run_with(&mut self, mut fate: impl FnMut(usize, Way, &Packet) -> Fate) {
        for _ in 0..10_000 {
            self.exchange(&mut fate);
            let next = [self.a.conn.poll_timeout(), self.b.conn.poll_timeout()];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            for node in [&mut self.a, &mut self.b] {
                node.conn.handle_timeout(self.now, &mut node.host);
                node.settle();
            }
        }
        panic!("the timers never stop");
    }

    /// The packets in this direction.
    pub fn sent(&self, way: Way) -> Vec<&Packet> {
        self.log
            .iter()
            .filter(|(w, _)| *w == way)
            .map(|(_, p)| p)
            .collect()
    }

    /// Checks that every request that a posted succeeded.
    pub fn assert_all_done(&self) {
        assert_eq!(self.a.host.completed.len(), self.a.host.requests.len());
        for completion in &self.a.host.completed {
            assert_eq!(completion.status, Status::Success, "{completion:?}");
        }
    }
}

pub fn psn(value: u32) -> Psn {
    Psn::new(value)
}
