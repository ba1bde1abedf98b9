// SPDX-License-Identifier: GPL-2.0

//! The queues of a QP, and the keys that it has resolved.

use crate::api::*;
use crate::host::memory::{Regions, Right};
use crate::model::key::KeyUse;
use std::cell::Cell;
use std::rc::Rc;

/// A send request with the fields that the protocol does not see.
pub struct SendSlot {
    pub request: Request,
    /// Where its data is, or goes.
    pub local: usize,
    /// Bytes there.
    pub len: u32,
    /// The memory cannot be read or written.
    pub unusable: bool,
    pub keys: KeyUse,
    /// What is to be done when the READ is whole fails.
    pub unfinishable: bool,
    /// Which bytes of a READ are here, how many these are, and that nothing is left of it but its
    /// completion.
    pub here: Vec<bool>,
    pub placed: u32,
    pub finished: bool,
}

impl SendSlot {
    /// A request about `len` bytes at `local`, with nothing else to heed.
    pub fn new(request: Request, local: usize, len: u32) -> SendSlot {
        SendSlot {
            request,
            local,
            len,
            unusable: false,
            keys: KeyUse::default(),
            unfinishable: false,
            here: Vec::new(),
            placed: 0,
            finished: false,
        }
    }

    /// Bytes of a READ are placed, which are inside of it.
    pub fn place(&mut self, offset: u32, len: u32) {
        self.here.resize(self.len as usize, false);
        let (from, to) = (offset as usize, offset as usize + len as usize);
        for here in &mut self.here[from..to] {
            self.placed += u32::from(!std::mem::replace(here, true));
        }
    }
}

/// The program of a host, which posts to all its QPs: see [`RequestQueue::streaks`].
#[derive(Clone, Default)]
pub struct Program(Rc<Cell<Streaks>>);

/// The send queue. All requests ever posted; those before `retired` are gone for the protocol.
#[derive(Default)]
pub struct SendRing {
    pub slots: Vec<SendSlot>,
    pub retired: usize,
    program: Program,
}

impl SendRing {
    /// An empty queue of this program's.
    pub fn new(program: &Program) -> SendRing {
        SendRing {
            program: program.clone(),
            ..SendRing::default()
        }
    }
}

impl RequestQueue for SendRing {
    fn tail(&self) -> u32 {
        self.slots.len() as u32
    }

    fn get(&self, n: u32) -> Option<&Request> {
        let live = self.slots.get(self.retired..)?;
        let index = (n as usize).checked_sub(self.retired)?;
        live.get(index).map(|slot| &slot.request)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        let live = self.slots.get_mut(self.retired..)?;
        let index = (n as usize).checked_sub(self.retired)?;
        live.get_mut(index).map(|slot| &mut slot.request)
    }

    fn streaks(&self) -> Streaks {
        self.program.0.get()
    }

    fn set_streaks(&self, streaks: Streaks) {
        self.program.0.set(streaks);
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub struct RecvSlot {
    pub at: usize,
    pub cap: u32,
    /// The request itself is not valid; or its memory cannot be written to.
    pub garbage: bool,
    pub unusable: bool,
    /// How it completed.
    pub done: Option<Status>,
}

/// The receive queue. All receives that were posted since the latest reset.
#[derive(Default)]
pub struct RecvRing {
    pub slots: Vec<RecvSlot>,
    /// The next to be taken.
    pub next: usize,
    /// The one in use.
    pub current: Option<usize>,
    /// A page was missing as the packet with this PSN took the one in use: it takes it again.
    pub waits_for: Option<u32>,
    /// How many were posted to the shared receive queue for messages to this QP. Other QPs may take
    /// them.
    pub shared: usize,
}

/// A shared receive queue: counts, as receives differ only for the judges, who know for each
/// message what a receive for it looks like.
#[derive(Debug, Default)]
pub struct SharedRecv {
    pub posted: usize,
    pub taken: usize,
    pub completed: usize,
}

/// Remote keys that were resolved.
#[derive(Default)]
pub struct Keys {
    /// Place, length and key of the WRITE in progress.
    pub(super) write: Option<(usize, u32, u32)>,
    /// For each resource: address, key, place, length.
    pub(super) reads: Vec<Option<(u64, u32, usize, u32)>>,
    /// The responder resources have moved: keys are to be resolved again.
    pub resolve_again: bool,
}

impl Keys {
    /// The place of the bytes that the protocol wants to send in a READ response.
    pub fn read(&self, payload: &Payload, regions: &Regions) -> Result<usize, String> {
        let Payload::Read {
            res,
            va,
            rkey,
            offset,
            len,
        } = *payload
        else {
            return Err("no payload of a READ".into());
        };
        let known = self.reads.get(usize::from(res)).copied().flatten();
        if self.resolve_again && known.is_none_or(|k| (k.0, k.1) != (va, rkey)) {
            let last = va.wrapping_add(offset.into());
            let at = regions.resolve(last, rkey, len, Right::Read);
            return at.map_err(|e| format!("{payload:x?}: {e:?}"));
        }
        let (key_va, key, at, size) = known.ok_or(format!("no key for resource {res}"))?;
        let end = u64::from(offset) + u64::from(len);
        if (va, rkey) != (key_va, key) || end > size.into() {
            return Err(format!(
                "{payload:x?} outside of {size} bytes at {key_va:#x}"
            ));
        }
        Ok(at + offset as usize)
    }
}
