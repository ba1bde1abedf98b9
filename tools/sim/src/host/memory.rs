// SPDX-License-Identifier: GPL-2.0

//! A host's memory and the table of regions that peers may reach.
//!
//! The memory has a shadow with the bytes that the judges have accepted. A byte that differs from
//! it at the end of a run and belongs to nothing in progress was written without permission.

use crate::model::key::FastReg;
use crate::rng::Rng;

/// Size of the guard zone between two allocations, which is never written.
const GUARD: usize = 24;

/// A host's memory. Allocations are never freed, so that a late write does not hit other data.
#[derive(Default)]
pub struct Memory {
    bytes: Vec<u8>,
    shadow: Vec<u8>,
}

impl Memory {
    /// Memory with nothing but the first guard zone.
    pub fn new(rng: &mut Rng) -> Self {
        let mut memory = Memory::default();
        memory.grow(GUARD, rng);
        memory
    }

    fn grow(&mut self, len: usize, rng: &mut Rng) {
        let at = self.bytes.len();
        self.bytes.resize(at + len, 0);
        rng.fill(&mut self.bytes[at..]);
        self.shadow.extend_from_slice(&self.bytes[at..]);
    }

    /// `len` new bytes of random content on an 8-byte boundary, followed by a guard zone; gives
    /// their place.
    pub fn alloc(&mut self, len: usize, rng: &mut Rng) -> usize {
        let at = self.bytes.len().next_multiple_of(8);
        self.grow(at - self.bytes.len() + len + GUARD, rng);
        at
    }

    /// The bytes as they are.
    pub fn read(&self, at: usize, len: usize) -> &[u8] {
        &self.bytes[at..at + len]
    }

    /// The bytes that the judges have accepted.
    pub fn accepted(&self, at: usize, len: usize) -> &[u8] {
        &self.shadow[at..at + len]
    }

    /// Writes without telling the judges, as devices do.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
    }

    /// The judges have looked at these bytes and found them right.
    pub fn accept(&mut self, at: usize, len: usize) {
        self.shadow[at..at + len].copy_from_slice(&self.bytes[at..at + len]);
    }

    /// The first byte in the range that was written and not accepted, counted from `at`.
    pub fn unaccepted(&self, at: usize, len: usize) -> Option<usize> {
        let (now, then) = (self.read(at, len), self.accepted(at, len));
        if now == then {
            return None;
        }
        now.iter().zip(then).position(|(a, b)| a != b)
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: there is always a guard zone.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A right that a peer may have to a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// RDMA READ.
    Read,
    /// RDMA WRITE and ATOMIC WRITE.
    Write,
    /// Compare and swap, fetch and add.
    Atomic,
    /// FLUSH for global visibility.
    Flush,
}

/// A memory region.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its remote key.
    pub rkey: u32,
    /// The address of its first byte as peers know it.
    pub va: u64,
    /// Bytes.
    pub len: usize,
    /// Where it lies in the host's memory.
    pub at: usize,
    /// The rights of peers.
    pub rights: &'static [Right],
    /// False once it was invalidated or deregistered.
    pub valid: bool,
    /// It was invalidated, as the judges know.
    pub over: bool,
    /// Every access fails for reasons of the host's own.
    pub defective: bool,
    /// READs are granted, but the bytes cannot be read when the response is to be sent.
    pub unreadable: bool,
}

/// All rights.
pub const ALL_RIGHTS: &[Right] = &[Right::Read, Right::Write, Right::Atomic, Right::Flush];

impl Region {
    /// Where in memory the range lies, if the region gives `right` to all of it.
    fn resolve(&self, va: u64, len: u32, right: Right) -> Result<usize, Refusal> {
        let offset = va.checked_sub(self.va).ok_or(Refusal::Access)?;
        let end = offset.checked_add(len.into()).ok_or(Refusal::Access)?;
        if end > self.len as u64 || !self.rights.contains(&right) {
            return Err(Refusal::Access);
        }
        if self.defective {
            return Err(Refusal::Defect);
        }
        Ok(self.at + offset as usize)
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Key, range or right.
    Access,
    /// A failure of the host itself.
    Defect,
}

/// The regions of a host.
#[derive(Default)]
pub struct Regions(pub Vec<Region>);

impl Regions {
    /// Registers a region under a key that no other has.
    pub fn add(&mut self, at: usize, len: usize, rights: &'static [Right], rng: &mut Rng) -> usize {
        let rkey = loop {
            let key = rng.next_u32();
            if self.0.iter().all(|r| r.rkey != key) {
                break key;
            }
        };
        // Address ranges may reach up to the last byte of the address space.
        let va = match rng.below(8) {
            0 => (u64::MAX - len as u64).wrapping_add(1) & !7,
            _ => (rng.next() >> rng.below(32)).min(u64::MAX / 2) & !7,
        };
        self.0.push(Region {
            rkey,
            va,
            len,
            at,
            rights,
            valid: true,
            over: false,
            defective: false,
            unreadable: false,
        });
        self.0.len() - 1
    }

    /// Registers a part of the inbox at `inbox_at`. Its key must not be in use.
    pub fn register(&mut self, inbox_at: usize, reg: &FastReg) -> Result<(), Refusal> {
        if self.is_valid(reg.rkey) {
            return Err(Refusal::Access);
        }
        self.0.push(Region {
            rkey: reg.rkey,
            va: reg.va,
            len: reg.len,
            at: inbox_at + reg.offset,
            rights: ALL_RIGHTS,
            valid: true,
            over: false,
            defective: false,
            unreadable: false,
        });
        Ok(())
    }

    /// Where in memory the range lies, if `right` to all of it is given by `rkey`.
    pub fn resolve(&self, va: u64, rkey: u32, len: u32, right: Right) -> Result<usize, Refusal> {
        let region = self.0.iter().find(|r| r.rkey == rkey && r.valid);
        let region = region.ok_or(Refusal::Access)?;
        region.resolve(va, len, right)
    }

    /// The address of the first byte of the valid region with this key.
    pub fn start(&self, rkey: u32) -> Option<u64> {
        let region = self.0.iter().find(|r| r.rkey == rkey && r.valid);
        region.map(|region| region.va)
    }

    /// As [`Regions::resolve`], but of a key that was invalidated.
    pub fn resolve_over(
        &self,
        va: u64,
        rkey: u32,
        len: u32,
        right: Right,
    ) -> Result<usize, Refusal> {
        let region = self.0.iter().find(|r| r.rkey == rkey && r.over);
        region.ok_or(Refusal::Access)?.resolve(va, len, right)
    }

    /// Whether the key may be used.
    pub fn is_valid(&self, rkey: u32) -> bool {
        self.0.iter().any(|r| r.rkey == rkey && r.valid)
    }

    /// Whether the key was invalidated, as the judges know.
    pub fn is_over(&self, rkey: u32) -> bool {
        self.0.iter().any(|r| r.rkey == rkey && r.over)
    }

    /// Sabotage: the key lives on, though the judges know that it was invalidated.
    pub fn revive(&mut self, rkey: u32) {
        for region in self.0.iter_mut().filter(|r| r.rkey == rkey && r.over) {
            region.valid = true;
        }
    }

    /// Whether a region with this key existed and is gone.
    pub fn is_gone(&self, rkey: u32) -> bool {
        self.0.iter().any(|r| r.rkey == rkey && !r.valid)
    }

    /// Takes a key away for good.
    pub fn invalidate(&mut self, rkey: u32) -> Result<(), Refusal> {
        let region = self.0.iter_mut().find(|r| r.rkey == rkey && r.valid);
        let region = region.ok_or(Refusal::Access)?;
        region.valid = false;
        region.over = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_write_is_seen() {
        let mut rng = Rng::new(1);
        let mut memory = Memory::new(&mut rng);
        let at = memory.alloc(10, &mut rng);
        let all = memory.len();
        assert_eq!(memory.unaccepted(0, all), None);
        let flipped = [!memory.read(at + 3, 1)[0]];
        memory.write(at + 3, &flipped);
        assert_eq!(memory.unaccepted(at, 10), Some(3));
        memory.accept(at + 3, 1);
        assert_eq!(memory.unaccepted(0, all), None);
    }

    #[test]
    fn keys_ranges_and_rights_are_checked() {
        let mut rng = Rng::new(3);
        let mut regions = Regions::default();
        for _ in 0..50 {
            let i = regions.add(100, 64, &[Right::Read], &mut rng);
            let Region { rkey, va, .. } = regions.0[i].clone();
            let at = |va: u64, len| regions.resolve(va, rkey, len, Right::Read);
            assert_eq!(at(va, 64), Ok(100));
            assert_eq!(at(va + 63, 1), Ok(163));
            assert_eq!(at(va, 65), Err(Refusal::Access));
            assert_eq!(at(va.wrapping_add(64), 1), Err(Refusal::Access));
            assert_eq!(at(va.wrapping_sub(1), 1), Err(Refusal::Access));
            assert_eq!(at(va, u32::MAX), Err(Refusal::Access));
            let write = regions.resolve(va, rkey, 1, Right::Write);
            assert_eq!(write, Err(Refusal::Access));
            assert_eq!(regions.invalidate(rkey), Ok(()));
            assert_eq!(regions.invalidate(rkey), Err(Refusal::Access));
            let gone = regions.resolve(va, rkey, 1, Right::Read);
            assert_eq!(gone, Err(Refusal::Access));
        }
    }
}
