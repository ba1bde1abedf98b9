// SPDX-License-Identifier: GPL-2.0

//! The device as the protocol of an RC or UC QP sees it while it processes a packet: queues and
//! memory. It does not trust the protocol: an access out of bounds is recorded as a violation.

use super::queues::{Keys, RecvRing, SendRing, SharedRecv};
use crate::api::*;
use crate::host::memory::{Memory, Refusal, Regions, Right};
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::model::key::KeyUse;
use oxe_proto::wire::PacketRepr;

/// Events while a packet is processed.
#[derive(Default)]
pub struct Notes {
    /// The receive that was completed.
    pub received: Vec<(usize, RecvCompletion)>,
    /// The receive queue was found empty.
    pub empty: bool,
    /// A receive was taken, the one that was in use again; memory was accessed, and a page was
    /// missing.
    pub took: bool,
    pub again: bool,
    pub touched: bool,
    pub missing: bool,
    /// The addresses of the ATOMIC WRITEs, and the FLUSHes, that were carried out.
    pub words: Vec<u64>,
    pub flushes: Vec<Flush>,
    /// The packet was kept.
    pub kept: bool,
    /// The protocol did what it must never do.
    pub violation: Option<String>,
}

/// The transport service of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Rc,
    Uc,
}

/// The device as the protocol sees it while a packet is processed.
pub struct Env<'a> {
    pub service: Service,
    pub send: &'a mut SendRing,
    pub recv: &'a mut RecvRing,
    pub srq: Option<&'a mut SharedRecv>,
    pub keys: &'a mut Keys,
    pub memory: &'a mut Memory,
    pub regions: &'a mut Regions,
    pub psn: u32,
    pub payload: &'a [u8],
    /// An access finds a page missing.
    pub absent: bool,
    /// There is memory to keep the packet.
    pub keeps: bool,
    pub notes: &'a mut Notes,
    pub saboteur: &'a mut Saboteur,
}

/// Ends a key. Sabotage: the device forgets to.
pub fn end_key(regions: &mut Regions, rkey: u32, saboteur: &mut Saboteur) -> Result<(), Refusal> {
    regions.invalidate(rkey)?;
    if saboteur.strikes(Sabotage::KeepKey) {
        regions.revive(rkey);
    }
    Ok(())
}

impl Env<'_> {
    fn violation(&mut self, text: String) {
        self.notes.violation.get_or_insert(text);
    }

    /// Whether to commit a kind of sabotage, which has a name for each service.
    fn strikes(&mut self, rc: Sabotage, uc: Sabotage) -> bool {
        self.saboteur.strikes(match self.service {
            Service::Rc => rc,
            Service::Uc => uc,
        })
    }

    /// Whether UC lacks what the protocol asks for.
    fn lacks(&mut self, operation: &str) -> bool {
        let lacks = self.service == Service::Uc;
        if lacks {
            self.violation(format!("{operation} on a UC QP"));
        }
        lacks
    }

    /// Whether this access finds a page missing. A receive that the packet has taken waits for it.
    fn finds_no_page(&mut self) -> bool {
        self.notes.touched = true;
        self.notes.missing |= self.absent;
        if self.absent && self.notes.took {
            self.recv.waits_for = Some(self.psn);
        }
        self.absent
    }

    /// Whether the receive in use is to be taken again: of RC by the packet that took it before and
    /// by no other, of UC by the next message, as the one that took it was dropped.
    fn takes_again(&mut self) -> bool {
        let waited = self.recv.waits_for.take() == Some(self.psn);
        if self.recv.current.is_none() {
            return false;
        }
        let again = waited || self.service == Service::Uc;
        if !again {
            self.violation("a receive taken while another is in use".into());
        }
        again && !self.strikes(Sabotage::ForgetReceive, Sabotage::UcTakeAnother)
    }

    /// Stores the packet's payload.
    fn store(&mut self, at: usize) {
        let mut data = self.payload.to_vec();
        if !data.is_empty() && self.strikes(Sabotage::CorruptByte, Sabotage::UcCorruptByte) {
            data[0] ^= 1;
        }
        self.memory.write(at, &data);
        if self.strikes(Sabotage::StrayWrite, Sabotage::UcStrayWrite) {
            let before = !self.memory.read(at - 1, 1)[0];
            self.memory.write(at - 1, &[before]);
        }
    }

    /// The local memory of send request `n`, if `len` bytes at `offset` are inside.
    fn local(&mut self, n: u32, offset: u32, len: u32) -> Result<usize, Status> {
        if self.send.get(n).is_none() {
            self.violation(format!("answer placed into request {n}, which is done"));
            return Err(Status::General);
        }
        let slot = &self.send.slots[n as usize];
        let end = u64::from(offset) + u64::from(len);
        if end > slot.len.into() {
            let text = format!("answer placed at {offset}..{end} of {} bytes", slot.len);
            self.violation(text);
            return Err(Status::General);
        }
        let gone = |rkey| !self.regions.is_valid(rkey);
        if slot.unusable || slot.keys.lkey.is_some_and(gone) {
            return Err(Status::LocProt);
        }
        Ok(slot.local + offset as usize)
    }

    fn resolve(
        &mut self,
        va: u64,
        rkey: u32,
        len: u32,
        right: Right,
    ) -> Result<usize, AccessError> {
        let mut place = self.regions.resolve(va, rkey, len, right);
        let over = self.regions.is_over(rkey);
        if over && place.is_err() && self.saboteur.strikes(Sabotage::TakeStaleKey) {
            place = self.regions.resolve_over(va, rkey, len, right);
        }
        // Sabotage: rights are not looked at.
        if self.service == Service::Uc && place.is_err() {
            let readable = self.regions.resolve(va, rkey, len, Right::Read);
            if readable.is_ok() && self.saboteur.strikes(Sabotage::UcIgnoreRights) {
                place = readable;
            }
        }
        if over && place.is_ok() {
            self.violation(format!("access by key {rkey:#x}, which was invalidated"));
        }
        place.map_err(|refusal| match refusal {
            Refusal::Access => AccessError::Access,
            Refusal::Defect => AccessError::Op,
        })
    }
}

impl RequestQueue for Env<'_> {
    fn tail(&self) -> u32 {
        self.send.tail()
    }

    fn get(&self, n: u32) -> Option<&Request> {
        self.send.get(n)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.send.get_mut(n)
    }

    fn streaks(&self) -> Streaks {
        self.send.streaks()
    }

    fn set_streaks(&self, streaks: Streaks) {
        self.send.set_streaks(streaks);
    }
}

impl RequesterOps for Env<'_> {
    fn place(&mut self, n: u32, offset: u32) -> Result<(), PlaceError> {
        if self.lacks("a response placed") {
            return Err(Status::General.into());
        }
        let len = self.payload.len() as u32;
        let at = self.local(n, offset, len)?;
        if self.finds_no_page() {
            return Err(PlaceError::NotPresent);
        }
        self.send.slots[n as usize].place(offset, len);
        self.store(at);
        let slot = &self.send.slots[n as usize];
        if slot.placed < slot.len && self.saboteur.strikes(Sabotage::EarlyFinish) {
            let _ = self.finish_read(n);
        }
        Ok(())
    }

    fn place_atomic(&mut self, n: u32, original: u64) -> Result<(), PlaceError> {
        if self.lacks("the response to an atomic placed") {
            return Err(Status::General.into());
        }
        let at = self.local(n, 0, 8)?;
        if self.finds_no_page() {
            return Err(PlaceError::NotPresent);
        }
        self.memory.write(at, &original.to_ne_bytes());
        Ok(())
    }

    fn finish_read(&mut self, n: u32) -> Result<(), Status> {
        if self.lacks("a READ finished") {
            return Err(Status::General);
        }
        if self.send.get(n).is_none() {
            self.violation(format!("READ {n} is whole, and was done before"));
            return Err(Status::General);
        }
        if self.saboteur.strikes(Sabotage::SkipFinish) {
            return Ok(());
        }
        let slot = &mut self.send.slots[n as usize];
        let again = std::mem::replace(&mut slot.finished, true);
        if again || slot.placed != slot.len {
            let (placed, len) = (slot.placed, slot.len);
            self.violation(format!(
                "READ {n} is whole with {placed} bytes of {len}, again {again}"
            ));
        }
        if self.send.slots[n as usize].unfinishable {
            return Err(Status::MwBind);
        }
        let KeyUse { lkey, ends, .. } = self.send.slots[n as usize].keys;
        if let Some(rkey) = lkey.filter(|_| ends) {
            let ended = end_key(self.regions, rkey, self.saboteur);
            ended.map_err(|_| Status::LocProt)?;
        }
        if self.saboteur.strikes(Sabotage::RepeatFinish) {
            return self.finish_read(n);
        }
        Ok(())
    }

    fn overlap(&self, _: u32, _: u32) -> bool {
        false
    }
}

impl ResponderOps for Env<'_> {
    fn recv_start(&mut self) -> RecvStart {
        self.notes.took = true;
        if self.takes_again() {
            self.notes.again = true;
            return RecvStart::Taken;
        }
        let empty = self.srq.as_ref().is_some_and(|q| q.taken == q.posted);
        let slot = self.recv.slots.get(self.recv.next).filter(|_| !empty);
        let Some(slot) = slot else {
            self.notes.empty = true;
            return RecvStart::Empty;
        };
        if let Some(srq) = &mut self.srq {
            srq.taken += 1;
        }
        self.recv.current = Some(self.recv.next);
        self.recv.next += 1;
        if slot.garbage {
            return RecvStart::LocalError(Status::LocProt);
        }
        RecvStart::Taken
    }

    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        let Some(slot) = self.recv.current.and_then(|n| self.recv.slots.get(n)) else {
            self.violation("payload for a receive, and none is in use".into());
            return Err(Status::General.into());
        };
        let end = u64::from(offset) + self.payload.len() as u64;
        if slot.garbage || slot.unusable {
            return Err(Status::LocProt.into());
        }
        if end > slot.cap.into() {
            return Err(Status::LocLen.into());
        }
        let at = slot.at + offset as usize;
        if !self.finds_no_page() {
            self.store(at);
        } else if !self.saboteur.strikes(Sabotage::IgnoreMissing) {
            return Err(PlaceError::NotPresent);
        }
        Ok(())
    }

    fn recv_done(&mut self, completion: RecvCompletion) {
        let Some(index) = self.recv.current.take() else {
            self.violation(format!("{completion:?}, and no receive is in use"));
            return;
        };
        if !self.strikes(Sabotage::LoseReceive, Sabotage::UcLoseReceive) {
            self.notes.received.push((index, completion));
        }
        if self.service == Service::Uc && self.saboteur.strikes(Sabotage::UcRepeatReceive) {
            self.notes.received.push((index, completion));
        }
    }

    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        if len == 0 {
            self.violation("a key asked for to write nothing".into());
        }
        self.keys.write = None;
        let at = self.resolve(va, rkey, len, Right::Write)?;
        self.keys.write = Some((at, len, rkey));
        Ok(())
    }

    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        let end = u64::from(offset) + self.payload.len() as u64;
        match self.keys.write {
            // The region may be gone meanwhile.
            Some((_, _, rkey)) if self.regions.is_gone(rkey) => return Err(AccessError::Access),
            Some((at, len, _)) if end <= len.into() => {
                if self.finds_no_page() {
                    return Err(AccessError::NotPresent);
                }
                self.store(at + offset as usize);
            }
            other => {
                self.violation(format!("write of {offset}..{end}, resolved {other:?}"));
                return Err(AccessError::Op);
            }
        }
        Ok(())
    }

    fn read_start(&mut self, res: u8, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        if self.lacks("a READ") {
            return Err(AccessError::Op);
        }
        if len == 0 {
            self.violation("a key asked for to read nothing".into());
        }
        let at = self.resolve(va, rkey, len, Right::Read)?;
        let index = usize::from(res);
        if self.keys.reads.len() <= index {
            self.keys.reads.resize(index + 1, None);
        }
        self.keys.reads[index] = Some((va, rkey, at, len));
        Ok(())
    }

    fn atomic(&mut self, va: u64, rkey: u32, op: AtomicOp) -> Result<u64, AccessError> {
        if self.lacks("an atomic") {
            return Err(AccessError::Op);
        }
        if va % 8 != 0 {
            return Err(AccessError::Misaligned);
        }
        let at = self.resolve(va, rkey, 8, Right::Atomic)?;
        let (missing, adds) = (
            self.finds_no_page(),
            matches!(op, AtomicOp::FetchAdd { .. }),
        );
        if missing && !(adds && self.saboteur.strikes(Sabotage::AddToMissing)) {
            return Err(AccessError::NotPresent);
        }
        let found = self.memory.read(at, 8).try_into().map(u64::from_ne_bytes);
        let found = found.map_err(|_| AccessError::Op)?;
        let mut new = match op {
            AtomicOp::CompareSwap { compare, swap } if found == compare => swap,
            AtomicOp::CompareSwap { .. } => found,
            AtomicOp::FetchAdd { add } => found.wrapping_add(add),
        };
        if let AtomicOp::FetchAdd { add } = op {
            if self.saboteur.strikes(Sabotage::RepeatAtomic) {
                new = new.wrapping_add(add);
            }
        }
        self.memory.write(at, &new.to_ne_bytes());
        if missing {
            return Err(AccessError::NotPresent);
        }
        Ok(found)
    }

    fn atomic_write(&mut self, va: u64, rkey: u32) -> Result<(), AccessError> {
        if self.lacks("an ATOMIC WRITE") {
            return Err(AccessError::Op);
        }
        if self.payload.len() != 8 || va % 8 != 0 {
            let len = self.payload.len();
            self.violation(format!("ATOMIC WRITE of {len} bytes at {va:#x}"));
            return Err(AccessError::Op);
        }
        let at = self.resolve(va, rkey, 8, Right::Write)?;
        if self.finds_no_page() {
            return Err(AccessError::NotPresent);
        }
        self.notes.words.push(va);
        if self.saboteur.strikes(Sabotage::ShortAtomicWrite) {
            self.payload = &self.payload[..4];
        }
        self.store(at);
        Ok(())
    }

    fn flush(&mut self, flush: &Flush) -> Result<(), AccessError> {
        if self.lacks("a FLUSH") {
            return Err(AccessError::Op);
        }
        // No memory here is persistent.
        if flush.persistent {
            return Err(AccessError::Access);
        }
        let all = || (self.regions.start(flush.rkey).unwrap_or(0), 0);
        let (va, len) = flush.range.unwrap_or_else(all);
        let place = self.resolve(va, flush.rkey, len, Right::Flush);
        if place.is_err() && !self.saboteur.strikes(Sabotage::IgnoreFlushRight) {
            return place.map(drop);
        }
        if !self.saboteur.strikes(Sabotage::SkipFlush) {
            self.notes.flushes.push(*flush);
        }
        Ok(())
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), AccessError> {
        if self.lacks("an invalidation") {
            return Err(AccessError::Op);
        }
        end_key(self.regions, rkey, self.saboteur).map_err(|_| AccessError::Access)
    }

    fn keep(&mut self, pkt: &PacketRepr) -> bool {
        if self.lacks("a packet to keep") {
            return false;
        }
        if pkt.bth.psn.get() != self.psn || self.notes.kept {
            self.violation(format!(
                "keeps packet {:x?}, given {:#x}",
                pkt.bth, self.psn
            ));
        }
        self.notes.kept = self.keeps;
        self.keeps
    }
}
