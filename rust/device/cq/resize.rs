// SPDX-License-Identifier: GPL-2.0

//! Resizing a completion queue of a process (IBTA 11.2.8.3): completions that it has not polled
//! move to the new ring.

use super::{capacity, new_ring, Cq, Store};
use crate::device::limits;
use crate::device::ring::Ring;
use crate::device::uabi::cqe::UverbsWc;
use crate::device::uabi::resp::{MmInfo, RxeResizeCqResp};
use crate::proto::transport::Ends;
use crate::rdma::udata::UserCtx;
use core::ops::Range;
use kernel::prelude::*;

/// How many completions are copied with interrupts off at most.
const MAX_LOCKED: u32 = 1024;

/// How often those are copied before that have come meanwhile.
const MAX_ROUNDS: usize = 64;

impl Cq {
    /// Resizes the queue for at least `cqe` completions; returns its real capacity.
    ///
    /// Process context. EINVAL for a size out of the device's limits, or that the completions
    /// exceed, and for a queue of a kernel user; EBUSY, see [`Cq::replace`]; ENOMEM, EFAULT.
    pub(crate) fn resize(&self, cqe: u32, user: &UserCtx<'_>) -> Result<u32> {
        if cqe == 0 || cqe > limits::MAX_CQE {
            return Err(EINVAL);
        }
        let mut cookie = self.cookie.lock();
        let ring = new_ring(cqe)?;
        let (fresh, offset) = user.publish(ring.buf())?;
        let mi = MmInfo::new(offset, ring.buf().len());
        user.respond(&RxeResizeCqResp { mi })?;
        let capacity = capacity(&ring);
        let old = self.replace(ring)?;
        *cookie = Some(fresh);
        drop(old);
        Ok(capacity)
    }

    /// Changes over to the ring `new`; returns the old one. The process polls nothing meanwhile.
    ///
    /// EINVAL if `new` is too small; EBUSY if completions come faster than they are copied.
    fn replace(&self, new: Ring) -> Result<Ring> {
        let (old, first) = {
            let state = self.state.lock();
            let Store::User(ring) = &state.store else {
                return Err(EINVAL);
            };
            (ring.clone(), ring.consumer())
        };
        // There may be a million completions, and others come meanwhile. Only the last are copied
        // under the lock, with interrupts off.
        let mut copied = 0;
        for _ in 0..MAX_ROUNDS {
            let count = old.distance(first, self.state.lock().tail);
            if count.saturating_sub(copied) <= MAX_LOCKED {
                break;
            }
            copy(&old, first, &new, copied..count)?;
            copied = count;
        }
        let mut state = self.state.lock();
        let count = old.distance(first, state.tail);
        if count.saturating_sub(copied) > MAX_LOCKED {
            return Err(EBUSY);
        }
        copy(&old, first, &new, copied..count)?;
        new.set_producer(count);
        let ends = |tail| Ends {
            tail,
            unpolled: count,
        };
        let from = ends(state.tail);
        state.notification.move_ends(from, ends(count));
        state.tail = count;
        state.store = Store::User(new);
        Ok(old)
    }
}

/// Copies completions `which`, counted from the one at index `first` of `from`, to these indices of
/// `to`. EINVAL if they are more than `to` holds.
fn copy(from: &Ring, first: u32, to: &Ring, which: Range<u32>) -> Result {
    if which.end > to.capacity() {
        return Err(EINVAL);
    }
    for index in which {
        let wc: UverbsWc = from.load(first.wrapping_add(index), 0).ok_or(EINVAL)?;
        to.store(index, 0, &wc).ok_or(EINVAL)?;
    }
    Ok(())
}
