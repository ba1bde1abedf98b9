// SPDX-License-Identifier: GPL-2.0

//! The device's half of a UC QP: its queues, and the memory that the protocol asks for while it
//! processes a packet. It does not trust the protocol.

use crate::api::*;
use crate::host::memory::{Memory, Regions, Right};
use crate::host::sabotage::{Sabotage, Saboteur};

/// The send queue since the latest reset. Requests before `retired` are gone for the protocol.
#[derive(Default)]
pub struct SendQueue {
    pub requests: Vec<Request>,
    pub retired: usize,
}

impl RequestQueue for SendQueue {
    fn tail(&self) -> u32 {
        self.requests.len() as u32
    }

    fn get(&self, n: u32) -> Option<&Request> {
        let live = (n as usize) >= self.retired;
        self.requests.get(n as usize).filter(|_| live)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let live = (n as usize) >= self.retired;
        self.requests.get_mut(n as usize).filter(|_| live)
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    pub at: usize,
    pub cap: u32,
    /// The request itself is not valid; or its memory cannot be written to.
    pub garbage: bool,
    pub unusable: bool,
    pub done: Option<Status>,
}

/// The receive queue since the latest reset.
#[derive(Default)]
pub struct RecvQueue {
    pub receives: Vec<Receive>,
    /// The next to be taken, and the one in use.
    pub next: usize,
    pub current: Option<usize>,
    /// The key of the WRITE in progress, with place and length.
    pub write: Option<(u32, usize, u32)>,
}

/// Events while packets are processed.
#[derive(Default)]
pub struct Notes {
    pub received: Vec<(usize, RecvCompletion)>,
    /// A receive that a dropped message left was taken again.
    pub reused: bool,
    /// Memory was accessed.
    pub touched: bool,
    pub violation: Option<String>,
}

/// The device as the protocol sees it while it processes packets.
pub struct Hand<'a> {
    pub send: &'a mut SendQueue,
    pub recv: &'a mut RecvQueue,
    pub memory: &'a mut Memory,
    pub regions: &'a mut Regions,
    pub payload: &'a [u8],
    /// An access finds a page missing.
    pub absent: bool,
    pub notes: &'a mut Notes,
    pub saboteur: &'a mut Saboteur,
}

impl Hand<'_> {
    fn violation(&mut self, text: &str) {
        self.notes.violation.get_or_insert(text.into());
    }

    fn store(&mut self, at: usize) {
        let mut data = self.payload.to_vec();
        if self.saboteur.strikes(Sabotage::UcCorruptByte) {
            data[0] ^= 1;
        }
        self.memory.write(at, &data);
        if self.saboteur.strikes(Sabotage::UcStrayWrite) {
            let before = !self.memory.read(at - 1, 1)[0];
            self.memory.write(at - 1, &[before]);
        }
    }
}

impl RequestQueue for Hand<'_> {
    fn tail(&self) -> u32 {
        self.send.tail()
    }

    fn get(&self, n: u32) -> Option<&Request> {
        self.send.get(n)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.send.get_mut(n)
    }
}

impl RequesterOps for Hand<'_> {
    fn place(&mut self, _n: u32, _offset: u32) -> Result<(), PlaceError> {
        self.violation("a response is placed");
        Err(Status::General.into())
    }

    fn place_atomic(&mut self, _n: u32, _original: u64) -> Result<(), PlaceError> {
        self.violation("the response to an atomic is placed");
        Err(Status::General.into())
    }

    fn finish_read(&mut self, _n: u32) -> Result<(), Status> {
        self.violation("a READ is finished");
        Err(Status::General)
    }
}

impl ResponderOps for Hand<'_> {
    fn recv_start(&mut self) -> RecvStart {
        let forgets = self.recv.current.is_some() && self.saboteur.strikes(Sabotage::UcTakeAnother);
        let kept = self.recv.current.filter(|_| !forgets);
        self.notes.reused |= kept.is_some();
        let index = kept.unwrap_or(self.recv.next);
        let Some(receive) = self.recv.receives.get(index) else {
            return RecvStart::Empty;
        };
        if kept.is_none() {
            self.recv.next += 1;
        }
        self.recv.current = Some(index);
        match receive.garbage {
            true => RecvStart::LocalError(Status::LocProt),
            false => RecvStart::Taken,
        }
    }

    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        let current = self.recv.current.and_then(|n| self.recv.receives.get(n));
        let Some(receive) = current.copied() else {
            self.violation("payload for a receive, and none is in use");
            return Err(Status::General.into());
        };
        let end = u64::from(offset) + self.payload.len() as u64;
        if receive.garbage || receive.unusable {
            return Err(Status::LocProt.into());
        }
        if end > receive.cap.into() {
            return Err(Status::LocLen.into());
        }
        self.notes.touched = true;
        if self.absent {
            return Err(PlaceError::NotPresent);
        }
        self.store(receive.at + offset as usize);
        Ok(())
    }

    fn recv_done(&mut self, completion: RecvCompletion) {
        let Some(index) = self.recv.current.take() else {
            self.violation("a receive completes, and none is in use");
            return;
        };
        if !self.saboteur.strikes(Sabotage::UcLoseReceive) {
            self.notes.received.push((index, completion));
        }
        if self.saboteur.strikes(Sabotage::UcRepeatReceive) {
            self.notes.received.push((index, completion));
        }
    }

    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        if len == 0 {
            self.violation("a key asked for to write nothing");
        }
        self.recv.write = None;
        let mut place = self.regions.resolve(va, rkey, len, Right::Write);
        if place.is_err() {
            // Sabotage: rights are not looked at.
            let readable = self.regions.resolve(va, rkey, len, Right::Read);
            if readable.is_ok() && self.saboteur.strikes(Sabotage::UcIgnoreRights) {
                place = readable;
            }
        }
        let at = place.map_err(|_| AccessError::Access)?;
        self.recv.write = Some((rkey, at, len));
        Ok(())
    }

    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        let end = u64::from(offset) + self.payload.len() as u64;
        match self.recv.write {
            Some((rkey, ..)) if !self.regions.is_valid(rkey) => return Err(AccessError::Access),
            Some((_, at, len)) if end <= len.into() => {
                self.notes.touched = true;
                if self.absent {
                    return Err(AccessError::NotPresent);
                }
                self.store(at + offset as usize);
            }
            _ => {
                self.violation("a WRITE outside of the memory that was resolved");
                return Err(AccessError::Op);
            }
        }
        Ok(())
    }

    fn read_start(&mut self, _: u8, _: u64, _: u32, _: u32) -> Result<(), AccessError> {
        self.violation("a READ begins");
        Err(AccessError::Op)
    }

    fn atomic(&mut self, _: u64, _: u32, _: AtomicOp) -> Result<u64, AccessError> {
        self.violation("an atomic is carried out");
        Err(AccessError::Op)
    }

    fn atomic_write(&mut self, _: u64, _: u32) -> Result<(), AccessError> {
        self.violation("an ATOMIC WRITE is carried out");
        Err(AccessError::Op)
    }

    fn flush(&mut self, _: &Flush) -> Result<(), AccessError> {
        self.violation("a FLUSH is carried out");
        Err(AccessError::Op)
    }

    fn invalidate(&mut self, _rkey: u32) -> Result<(), AccessError> {
        self.violation("a key is invalidated");
        Err(AccessError::Op)
    }
}
