// SPDX-License-Identifier: GPL-2.0

//! The owner of a connection in tests, in place of the driver: memory, queues, completions. It
//! panics on a request that was not agreed.

use super::super::wire::PacketRepr;
use super::super::{
    AccessError, AtomicOp, Flush, Payload, PlaceError, RecvCompletion, RecvStart, Request,
    RequestQueue, RequesterOps, ResponderOps, SendCompletion, Status, Streaks,
};
use super::pair::{pattern, Packet};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The start of the remotely accessible memory of each host, and its key.
pub const BASE: u64 = 0x10_0000;
pub const RKEY: u32 = 0x1234;
/// The size of that memory.
pub const MEMORY: usize = 1 << 16;
/// A key that may be invalidated, once.
pub const TEMP_KEY: u32 = 0x77;

/// A completed receive, as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub completion: RecvCompletion,
    pub data: Vec<u8>,
}

/// The driver's side of an endpoint.
pub struct Host {
    pub requests: Vec<Request>,
    /// The local memory of each request.
    pub local: Vec<Vec<u8>>,
    pub completed: Vec<SendCompletion>,
    pub memory: Vec<u8>,
    /// Posted receives: the sizes of their buffers, or the status of an invalid one.
    pub recvs: VecDeque<Result<usize, Status>>,
    recv: Option<(usize, Vec<u8>)>,
    /// A receive in use may be taken again, with nothing in it.
    pub reuses_recv: bool,
    pub received: Vec<Received>,
    pub in_hand: Vec<u8>,
    write: Option<(u64, u32)>,
    pub reads: Vec<Option<(u64, u32, u32)>>,
    pub temp_key_valid: bool,
    pub writes_started: usize,
    pub atomics_done: usize,
    /// The addresses of the ATOMIC WRITEs that were carried out.
    pub words_stored: Vec<u64>,
    /// The FLUSHes that were carried out.
    pub flushes: Vec<Flush>,
    /// The requests without packets that were carried out.
    pub locals_done: Vec<u32>,
    /// The READs that are whole.
    pub reads_done: Vec<u32>,
    /// If set, the host looks up a key that it does not keep for a resource. Otherwise that is an
    /// error.
    pub find_keys_again: bool,
    /// Memory access fails from now on.
    pub deny: Option<AccessError>,
    /// Requests without packets fail.
    pub deny_local: Option<Status>,
    /// Placing a response fails.
    pub deny_place: Option<Status>,
    /// The memory of all requests is the same.
    pub overlap: bool,
    /// The work that is due when a READ is whole fails.
    pub deny_finish: Option<Status>,
    /// Placing into a receive buffer fails.
    pub deny_recv: Option<Status>,
    /// How many more accesses to memory find a page missing, from the `absent_from`th on.
    pub absent: u32,
    pub absent_from: u32,
    /// See [`RequestQueue::streaks`].
    pub streaks: Rc<Cell<Streaks>>,
    /// The packets that are kept, how many may be, and how many ever were.
    pub kept: BTreeMap<u32, Packet>,
    pub kept_most: usize,
    pub kept_ever: usize,
}

impl Host {
    pub fn new(seed: u8) -> Self {
        Host {
            requests: Vec::new(),
            local: Vec::new(),
            completed: Vec::new(),
            memory: pattern(MEMORY, seed),
            recvs: VecDeque::new(),
            recv: None,
            reuses_recv: false,
            received: Vec::new(),
            in_hand: Vec::new(),
            write: None,
            reads: vec![None; 256],
            temp_key_valid: true,
            writes_started: 0,
            atomics_done: 0,
            words_stored: Vec::new(),
            flushes: Vec::new(),
            locals_done: Vec::new(),
            reads_done: Vec::new(),
            find_keys_again: false,
            deny: None,
            deny_local: None,
            deny_place: None,
            overlap: false,
            deny_finish: None,
            deny_recv: None,
            absent: 0,
            absent_from: 0,
            streaks: Rc::default(),
            kept: BTreeMap::new(),
            kept_most: usize::MAX,
            kept_ever: 0,
        }
    }

    fn check(&self, va: u64, rkey: u32, len: u32) -> Result<usize, AccessError> {
        if let Some(denied) = self.deny {
            return Err(denied);
        }
        let start = va.checked_sub(BASE).ok_or(AccessError::Access)?;
        let end = start
            .checked_add(u64::from(len))
            .ok_or(AccessError::Access)?;
        if rkey != RKEY || end > self.memory.len() as u64 {
            return Err(AccessError::Access);
        }
        Ok(start as usize)
    }

    /// Whether this access finds a page missing.
    fn is_absent(&mut self) -> bool {
        if self.absent == 0 {
            return false;
        }
        if self.absent_from > 0 {
            self.absent_from -= 1;
            return false;
        }
        self.absent -= 1;
        true
    }

    /// Carries out request `n`, which sends nothing.
    pub fn carry_out(&mut self, n: u32) -> Result<(), Status> {
        if let Some(status) = self.deny_local {
            return Err(status);
        }
        self.locals_done.push(n);
        Ok(())
    }

    pub fn payload_of(&self, payload: &Payload) -> Result<Vec<u8>, Status> {
        match *payload {
            Payload::None => Ok(Vec::new()),
            Payload::Request { n, offset, len } => {
                let (offset, len) = (offset as usize, len as usize);
                Ok(self.local[n as usize][offset..offset + len].to_vec())
            }
            Payload::Read {
                res,
                va,
                rkey,
                offset,
                len,
            } => {
                match self.reads[res as usize] {
                    Some((key_va, key, key_len)) => {
                        assert_eq!((key_va, key), (va, rkey));
                        assert!(offset + len <= key_len, "a response past its READ");
                    }
                    None => assert!(self.find_keys_again, "read_start comes first"),
                }
                let start = self
                    .check(va + u64::from(offset), rkey, len)
                    .map_err(|_| Status::LocProt)?;
                Ok(self.memory[start..start + len as usize].to_vec())
            }
        }
    }
}

impl RequestQueue for Host {
    fn tail(&self) -> u32 {
        self.requests.len() as u32
    }

    fn get(&self, n: u32) -> Option<&Request> {
        self.requests.get(n as usize)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.requests.get_mut(n as usize)
    }

    fn streaks(&self) -> Streaks {
        self.streaks.get()
    }

    fn set_streaks(&self, streaks: Streaks) {
        self.streaks.set(streaks);
    }
}

impl RequesterOps for Host {
    fn place(&mut self, n: u32, offset: u32) -> Result<(), PlaceError> {
        assert!(!self.in_hand.is_empty());
        if let Some(status) = self.deny_place {
            return Err(status.into());
        }
        if self.is_absent() {
            return Err(PlaceError::NotPresent);
        }
        let end = offset as usize + self.in_hand.len();
        self.local[n as usize][offset as usize..end].copy_from_slice(&self.in_hand);
        Ok(())
    }

    fn place_atomic(&mut self, n: u32, original: u64) -> Result<(), PlaceError> {
        if let Some(status) = self.deny_place {
            return Err(status.into());
        }
        if self.is_absent() {
            return Err(PlaceError::NotPresent);
        }
        self.local[n as usize].copy_from_slice(&original.to_ne_bytes());
        Ok(())
    }

    fn finish_read(&mut self, n: u32) -> Result<(), Status> {
        self.reads_done.push(n);
        self.deny_finish.map_or(Ok(()), Err)
    }

    fn overlap(&self, _: u32, _: u32) -> bool {
        self.overlap
    }
}

impl ResponderOps for Host {
    fn recv_start(&mut self) -> RecvStart {
        if let Some((_, data)) = &mut self.recv {
            assert!(self.reuses_recv, "a receive is in use");
            data.clear();
            return RecvStart::Taken;
        }
        match self.recvs.pop_front() {
            None => RecvStart::Empty,
            Some(Ok(size)) => {
                self.recv = Some((size, Vec::new()));
                RecvStart::Taken
            }
            Some(Err(status)) => {
                self.recv = Some((0, Vec::new()));
                RecvStart::LocalError(status)
            }
        }
    }

    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        assert!(!self.in_hand.is_empty());
        if let Some(status) = self.deny_recv {
            return Err(status.into());
        }
        if self.is_absent() {
            return Err(PlaceError::NotPresent);
        }
        let (size, data) = self.recv.as_mut().expect("no receive in use");
        assert_eq!(data.len(), offset as usize);
        if data.len() + self.in_hand.len() > *size {
            return Err(Status::LocLen.into());
        }
        data.extend_from_slice(&self.in_hand);
        Ok(())
    }

    fn recv_done(&mut self, completion: RecvCompletion) {
        let (_, data) = self.recv.take().expect("no receive in use");
        self.received.push(Received { completion, data });
    }

    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        assert_ne!(len, 0);
        self.check(va, rkey, len)?;
        self.write = Some((va, len));
        self.writes_started += 1;
        Ok(())
    }

    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        let (va, len) = self.write.expect("write_start came first");
        assert!(offset as usize + self.in_hand.len() <= len as usize);
        if self.is_absent() {
            return Err(AccessError::NotPresent);
        }
        let start = self.check(va + u64::from(offset), RKEY, self.in_hand.len() as u32)?;
        self.memory[start..start + self.in_hand.len()].copy_from_slice(&self.in_hand);
        Ok(())
    }

    fn read_start(&mut self, res: u8, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        assert_ne!(len, 0);
        self.check(va, rkey, len)?;
        self.reads[res as usize] = Some((va, rkey, len));
        Ok(())
    }

    fn atomic(&mut self, va: u64, rkey: u32, op: AtomicOp) -> Result<u64, AccessError> {
        let start = self.check(va, rkey, 8)?;
        if self.is_absent() {
            return Err(AccessError::NotPresent);
        }
        self.atomics_done += 1;
        let place = &mut self.memory[start..start + 8];
        let original = u64::from_ne_bytes(place.try_into().unwrap());
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if compare == original => swap,
            AtomicOp::CompareSwap { .. } => original,
            AtomicOp::FetchAdd { add } => original.wrapping_add(add),
        };
        place.copy_from_slice(&new.to_ne_bytes());
        Ok(original)
    }

    fn atomic_write(&mut self, va: u64, rkey: u32) -> Result<(), AccessError> {
        assert_eq!(self.in_hand.len(), 8, "an ATOMIC WRITE has eight bytes");
        assert_eq!(va % 8, 0);
        let start = self.check(va, rkey, 8)?;
        if self.is_absent() {
            return Err(AccessError::NotPresent);
        }
        self.words_stored.push(va);
        self.memory[start..start + 8].copy_from_slice(&self.in_hand);
        Ok(())
    }

    fn flush(&mut self, flush: &Flush) -> Result<(), AccessError> {
        let (va, len) = flush.range.unwrap_or((BASE, 0));
        self.check(va, flush.rkey, len)?;
        if flush.persistent {
            return Err(AccessError::Access);
        }
        self.flushes.push(*flush);
        Ok(())
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), AccessError> {
        if rkey != TEMP_KEY || !self.temp_key_valid {
            return Err(AccessError::Access);
        }
        self.temp_key_valid = false;
        Ok(())
    }

    fn keep(&mut self, pkt: &PacketRepr) -> bool {
        if self.kept.len() >= self.kept_most {
            return false;
        }
        let packet = Packet {
            header: *pkt,
            payload: self.in_hand.clone(),
        };
        let old = self.kept.insert(pkt.bth.psn.get(), packet);
        assert_eq!(old, None, "kept twice");
        self.kept_ever += 1;
        true
    }
}
