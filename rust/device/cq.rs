// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

pub(crate) mod completion;
mod moderator;
mod resize;

use self::completion::Completion;
use self::moderator::Moderator;
use super::ring::Ring;
use super::uabi::cqe::UverbsWc;
use super::uabi::resp::{MmInfo, RxeCreateCqResp};
use crate::proto::transport::{Armed, Ends, Notification, Streaks};
use crate::rdma::details::Details;
use crate::rdma::driver::CqInit;
use crate::rdma::events::CqEvents;
use crate::rdma::mmap::Cookie;
use crate::rdma::udata::UserCtx;
use crate::rdma::wc::{WcSlots, WcStatus};
use crate::sync::lock::{new_spinlock_irq, SpinLockIrq};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::{Counted, Owner, Quota};
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};

/// The storage of completions.
enum Store {
    /// A ring that librxe reads; librxe publishes its consumer index.
    User(Ring),
    /// An array that only the driver sees; `head` counts the completions that `ib_poll_cq` took.
    Kernel {
        entries: KVVec<Option<Completion>>,
        head: u32,
    },
}

struct State {
    store: Store,
    /// Counts the completions pushed; its low bits are the ring's producer index.
    tail: u32,
    notification: Notification,
    /// Holds events, if the consumer ever asked for that.
    moderator: Option<Arc<Moderator>>,
    /// Set for good when a completion found no room (IBTA 10.2.6, CQ overrun).
    overrun: bool,
}

/// A completion queue. Filled in softirq or process context, polled by kernel users in any context.
#[pin_data]
pub(crate) struct Cq {
    #[pin]
    state: SpinLockIrq<State>,
    /// Keeps the ring mappable. Held during a resize, so that there is one at a time.
    #[pin]
    cookie: Mutex<Option<Cookie>>,
    events: CqEvents,
    /// The [`Streaks`] of the queue pairs whose requests complete here, which are taken for those
    /// of one program: the gap, and the count in the low byte.
    streaks: Atomic<u64>,
}

/// The Rust part of an ib_cq.
pub(crate) struct CqObject {
    _counted: Counted,
    pub(crate) cq: Arc<Cq>,
}

impl Drop for CqObject {
    fn drop(&mut self) {
        // Queue pairs may keep the queue for a moment longer: no new mapping can be made now.
        let cookie = self.cq.cookie.lock().take();
        drop(cookie);
    }
}

/// The notification that the consumer gets when no lock is held any more.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wake {
    completion: bool,
    overrun: bool,
}

impl Wake {
    /// Adds the notification `other`.
    pub(crate) fn merge(&mut self, other: Wake) {
        self.completion |= other.completion;
        self.overrun |= other.overrun;
    }
}

impl Cq {
    /// Makes a queue for at least `init.cqe` completions, which `quota` counts; returns it and its
    /// real capacity.
    ///
    /// Process context. EINVAL for sizes out of the device's limits; ENOMEM, also when there are
    /// too many; EFAULT.
    pub(crate) fn create(
        quota: &Arc<Quota>,
        init: &CqInit,
        events: CqEvents,
        user: Option<UserCtx<'_>>,
        owner: &Owner,
    ) -> Result<(CqObject, u32)> {
        let counted = Counted::new(quota, owner)?;
        let (cq, capacity) = Self::new(init, events, user)?;
        let object = CqObject {
            _counted: counted,
            cq,
        };
        Ok((object, capacity))
    }

    fn new(init: &CqInit, events: CqEvents, user: Option<UserCtx<'_>>) -> Result<(Arc<Cq>, u32)> {
        if init.cqe == 0 || init.cqe > super::limits::MAX_CQE {
            return Err(EINVAL);
        }
        let (store, capacity, cookie) = match user {
            Some(user) => {
                let ring = new_ring(init.cqe)?;
                let (cookie, offset) = user.publish(ring.buf())?;
                let mi = MmInfo::new(offset, ring.buf().len());
                user.respond(&RxeCreateCqResp { mi })?;
                let capacity = capacity(&ring);
                (Store::User(ring), capacity, Some(cookie))
            }
            None => {
                let slots = init.cqe.checked_next_power_of_two().ok_or(EINVAL)?;
                let mut entries = KVVec::with_capacity(slots as usize, GFP_CHARGED)?;
                entries.extend_with(slots as usize, None, GFP_CHARGED)?;
                (Store::Kernel { entries, head: 0 }, slots, None)
            }
        };
        let state = State {
            store,
            tail: 0,
            notification: Notification::default(),
            moderator: None,
            overrun: false,
        };
        let cq = Arc::pin_init(
            pin_init!(Cq {
                state <- new_spinlock_irq!(state, "oxe_cq"),
                cookie <- kernel::new_mutex!(cookie, "oxe_cq_resize"),
                events,
                streaks: Atomic::new(0),
            }),
            GFP_CHARGED,
        )?;
        Ok((cq, capacity))
    }

    /// See `RequestQueue::streaks`. Any context.
    #[inline]
    pub(crate) fn streaks(&self) -> Streaks {
        let packed = self.streaks.load(Relaxed);
        Streaks {
            // CAST: as `set_streaks` packed them.
            count: packed as u8,
            gap: (packed >> 8) as u32,
        }
    }

    /// See `RequestQueue::set_streaks`. Any context.
    #[inline]
    pub(crate) fn set_streaks(&self, streaks: Streaks) {
        let packed = u64::from(streaks.gap) << 8 | u64::from(streaks.count);
        self.streaks.store(packed, Relaxed);
    }

    /// Pushes a completion. The caller passes the result to [`Cq::wake`] when it holds no lock.
    ///
    /// Any context.
    #[inline]
    pub(crate) fn push(&self, completion: &Completion) -> Wake {
        let mut state = self.state.lock();
        if !state.push(completion) {
            let first = !state.overrun;
            state.overrun = true;
            return Wake {
                completion: false,
                overrun: first,
            };
        }
        let State {
            store,
            tail,
            notification,
            ..
        } = &mut *state;
        let wake = notification.on_completion(completion.solicited, || store.ends(*tail));
        let wake = match &state.moderator {
            None => wake,
            Some(moderator) => Moderator::on_completion(moderator, wake, completion.solicited),
        };
        Wake {
            completion: wake,
            overrun: false,
        }
    }

    /// Notifies the consumer. Softirq or process context, no lock held: the handler may post or
    /// poll.
    #[inline]
    pub(crate) fn wake(&self, wake: Wake) {
        if wake.completion {
            self.events.notify();
        }
        if wake.overrun {
            self.events.error();
        }
    }

    /// Has events wait for `count` completions, for `period` microseconds at most; zeros end that.
    ///
    /// Process context. ENOMEM.
    pub(crate) fn moderate(&self, count: u16, period: u16) -> Result {
        let known = self.state.lock().moderator.clone();
        let moderator = match known {
            Some(moderator) => moderator,
            None => {
                let new = Moderator::new(self.events.clone())?;
                // Two consumers may be here at the same time.
                let mut state = self.state.lock();
                state.moderator.get_or_insert(new).clone()
            }
        };
        moderator.set(count, period);
        Ok(())
    }

    /// Holds no event any more; those that are held are forgotten. Process context, no QP uses the
    /// queue.
    pub(crate) fn close(&self) {
        let moderator = self.state.lock().moderator.take();
        if let Some(moderator) = moderator {
            moderator.close();
        }
    }

    /// Polls completions for a kernel user. Any context.
    pub(crate) fn poll(&self, out: &mut WcSlots<'_>) {
        let mut state = self.state.lock();
        while !out.is_full() {
            let Some(completion) = state.pop() else { break };
            out.push(&completion.wc);
        }
    }

    /// Arms the queue; returns whether there are completions already. The consumer in a process may
    /// get an event at once (see [`Notification`]). Any context for one in the kernel, else process
    /// context.
    pub(crate) fn arm(&self, solicited_only: bool) -> bool {
        let mut state = self.state.lock();
        let ends = state.store.ends(state.tail);
        let due = match &state.store {
            Store::User(_) => state.notification.arm_process(solicited_only, ends),
            Store::Kernel { .. } => {
                state.notification.arm(solicited_only);
                false
            }
        };
        drop(state);
        if due {
            self.events.notify();
        }
        ends.unpolled != 0
    }
}

/// Writes the details of a completion queue: see debugging.rst, which describes each.
pub(crate) fn details(cq: &Cq, out: &mut Details) {
    let state = cq.state.lock();
    let ends = state.store.ends(state.tail);
    let entries = match &state.store {
        Store::User(ring) => capacity(ring),
        Store::Kernel { entries, .. } => u32::try_from(entries.len()).unwrap_or(u32::MAX),
    };
    let armed = state.notification.armed();
    let overrun = state.overrun;
    drop(state);
    out.number(c"entries", entries);
    out.number(c"unpolled", ends.unpolled);
    out.text(
        c"armed",
        match armed {
            Armed::Not => c"no",
            Armed::Solicited => c"solicited",
            Armed::Any => c"yes",
        },
    );
    if overrun {
        out.text(
            c"error",
            c"overrun: a completion found no place, and is lost",
        );
    }
}

/// Entries of the ring of a process that only errors may use. A process may have room for the
/// completions of its signaled requests alone; but when its queue pair fails, others complete, too.
/// Then it must find an error behind what it has not polled yet, or it would poll for ever.
const KEPT_FOR_ERROR: u32 = 1;

/// The ring of a process, for at least `cqe` completions. Errors as for [`Ring::new`].
fn new_ring(cqe: u32) -> Result<Ring> {
    let entries = cqe.checked_add(KEPT_FOR_ERROR).ok_or(EINVAL)?;
    Ring::new(entries, size_of::<UverbsWc>(), true)
}

/// The capacity of such a ring, as the process gets to know it.
fn capacity(ring: &Ring) -> u32 {
    ring.capacity().saturating_sub(KEPT_FOR_ERROR)
}

impl State {
    /// Pushes a completion; `false` if there is no room.
    #[inline]
    fn push(&mut self, completion: &Completion) -> bool {
        match &mut self.store {
            Store::User(ring) => {
                let kept = match completion.wc.status {
                    WcStatus::Success => KEPT_FOR_ERROR,
                    _ => 0,
                };
                let used = ring.distance(ring.consumer(), self.tail);
                if used.wrapping_add(kept) >= ring.capacity() {
                    return false;
                }
                if ring.store(self.tail, 0, &completion.uverbs_wc()).is_none() {
                    return false;
                }
                ring.set_producer(self.tail.wrapping_add(1));
            }
            Store::Kernel { entries, head } => {
                if self.tail.wrapping_sub(*head) as usize >= entries.len() {
                    return false;
                }
                let mask = entries.len().wrapping_sub(1);
                let Some(entry) = entries.get_mut(self.tail as usize & mask) else {
                    return false;
                };
                *entry = Some(*completion);
            }
        }
        self.tail = self.tail.wrapping_add(1);
        true
    }

    fn pop(&mut self) -> Option<Completion> {
        let Store::Kernel { entries, head } = &mut self.store else {
            return None;
        };
        if *head == self.tail {
            return None;
        }
        let mask = entries.len().wrapping_sub(1);
        let completion = entries.get_mut(*head as usize & mask)?.take();
        *head = head.wrapping_add(1);
        completion
    }
}

impl Store {
    /// The ends of the queue, whose next completion gets position `tail`. A process may write any
    /// index of the consumer: then it gets events that it cannot use.
    #[inline]
    fn ends(&self, tail: u32) -> Ends {
        let unpolled = match self {
            Store::User(ring) => ring.distance(ring.consumer(), tail),
            Store::Kernel { head, .. } => tail.wrapping_sub(*head),
        };
        Ends { tail, unpolled }
    }
}
