// SPDX-License-Identifier: GPL-2.0

//! The module's own work queues: one for softirq context, and three for process context. One of
//! these is for page faults alone: a process may hold up its faults for as long as it likes
//! (userfaultfd, FUSE), and a queue runs a limited number of items at a time. Another is for the
//! work of users who have spent their budget of softirq time (`budget`).
//!
//! Work items are the kernel crate's: embed a [`Work`](kernel::workqueue::Work), implement
//! `HasWork` by `impl_has_work!` and `WorkItem` with `type Pointer = Arc<Self>`. Queued work holds
//! a reference to its object. Queueing work that is pending already does nothing, so queueing is
//! idempotent; work that is running can be queued again, and then runs again.

use crate::ffi::{self, workqueue_struct};
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{rcu, Arc};
use kernel::workqueue::{HasWork, Queue, RawWorkItem, WorkItem};

/// The queues, as addresses (zero: there is none).
static BH: Atomic<usize> = Atomic::new(0);
static PROCESS: Atomic<usize> = Atomic::new(0);
static FAULT: Atomic<usize> = Atomic::new(0);
static BULK: Atomic<usize> = Atomic::new(0);

/// Owns the module's work queues: made first at module load, dropped last at unload. Dropping it
/// waits for all queued work; later work is refused.
pub(crate) struct Queues(());

impl Queues {
    /// Allocates the queues. Process context. `EBUSY` if there are some, `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        if BH.load(Acquire) != 0 {
            return Err(EBUSY);
        }
        // Dropping it on an error frees the queues that are there by then.
        let queues = Queues(());
        // SAFETY: no requirements.
        fill(&BH, unsafe { ffi::oxe_wq_alloc_bh() })?;
        // SAFETY: no requirements.
        fill(&BULK, unsafe { ffi::oxe_wq_alloc_bulk() })?;
        for (place, name) in [(&PROCESS, c"oxe"), (&FAULT, c"oxe_fault")] {
            // SAFETY: the name is terminated.
            fill(place, unsafe {
                ffi::oxe_wq_alloc_process(name.as_char_ptr())
            })?;
        }
        Ok(queues)
    }
}

fn fill(place: &Atomic<usize>, queue: *mut workqueue_struct) -> Result {
    if queue.is_null() {
        return Err(ENOMEM);
    }
    place.store(queue.expose_provenance(), Release);
    Ok(())
}

impl Drop for Queues {
    fn drop(&mut self) {
        // In this order: work in a softirq may drop the last reference to what is to be freed in
        // process context (`drop_in_process`).
        for place in [&BH, &BULK, &FAULT, &PROCESS] {
            let queue = with_exposed_provenance_mut::<workqueue_struct>(place.load(Acquire));
            if queue.is_null() {
                continue;
            }
            place.store(0, Release);
            // A context that is about to queue work has read the address under RCU.
            // SAFETY: may be called wherever sleeping is allowed.
            unsafe { ffi::synchronize_rcu() };
            // SAFETY: it is ours, and no other context can find it any more. This waits for its
            // work.
            unsafe { ffi::destroy_workqueue(queue) };
        }
    }
}

/// Queues the object's work to run in a softirq soon, on this CPU. Any context.
///
/// Returns whether it was queued by this call: `false` if it was pending already.
pub(crate) fn queue_bh<T, const ID: u64>(object: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    queue(&BH, object.clone())
}

/// Whether this CPU is not `cpu`, and that one is online. The result holds for as long as bottom
/// halves are disabled. Softirq, or process context with bottom halves disabled.
#[inline]
pub(crate) fn is_elsewhere(cpu: u32) -> bool {
    // SAFETY: no requirements.
    unsafe { ffi::oxe_is_elsewhere(cpu) }
}

/// As [`queue_bh`], on CPU `cpu`, or on this one if that is offline.
pub(crate) fn queue_bh_on<T, const ID: u64>(cpu: u32, object: &Arc<T>)
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    let _reading = rcu::read_lock();
    let queue = with_exposed_provenance_mut::<workqueue_struct>(BH.load(Acquire));
    if queue.is_null() {
        return;
    }
    // SAFETY: a queue is destroyed no earlier than a grace period after its address is gone. The
    // closure returns false only if the work is queued already. The object is `'static` and `Send`.
    let _ = unsafe {
        RawWorkItem::<ID>::__enqueue(object.clone(), |work| {
            ffi::oxe_queue_work_on(cpu, queue, work)
        })
    };
}

/// Queues the object's work to run in process context soon. Any context. Returns as [`queue_bh`]
/// does.
pub(crate) fn queue_process<T, const ID: u64>(object: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    queue(&PROCESS, object.clone())
}

/// As [`queue_process`], on the queue for work that takes long.
pub(crate) fn queue_bulk<T, const ID: u64>(object: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    queue(&BULK, object.clone())
}

/// As [`queue_process`], on the queue for page faults.
pub(crate) fn queue_fault<T, const ID: u64>(object: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    queue(&FAULT, object.clone())
}

/// Drops this reference in process context: at once if that is the context, else by the object's
/// work, which need not do anything. Process context or softirq.
pub(crate) fn drop_in_process<T, const ID: u64>(object: Arc<T>)
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    // SAFETY: no requirements.
    if unsafe { ffi::oxe_in_interrupt() } {
        queue(&PROCESS, object);
    }
}

fn queue<T, const ID: u64>(place: &Atomic<usize>, object: Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    let _reading = rcu::read_lock();
    let queue = with_exposed_provenance::<workqueue_struct>(place.load(Acquire));
    if queue.is_null() {
        return false;
    }
    // SAFETY: a queue is destroyed no earlier than a grace period after its address is gone.
    let queue = unsafe { Queue::from_raw(queue) };
    queue.enqueue::<Arc<T>, ID>(object).is_ok()
}
