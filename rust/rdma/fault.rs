// SPDX-License-Identifier: GPL-2.0

//! Page faults on behalf of a device. A process may hold up those of its memory for as long as it
//! likes (FUSE, userfaultfd), so they are bounded: a process has [`PER_PROCESS`] in progress, a
//! user [`PER_USER`]. The others wait in line, region by region and process by process.
//!
//! A fault keeps the memory of its process, perhaps longer than the process itself. So a fault ends
//! by a signal when its region does or no process has the memory any more. Some waits do not heed
//! signals (for a FUSE daemon that has taken a request). Then the memory of a process that is gone
//! is unmapped all the same.

use super::mm::{Killable, Mm};
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::registry::{Registered, Registry};
use crate::sync::timer::{now_ns, Timer, TimerHandler};
use crate::sync::{user, work};
use core::mem::take;
use kernel::list::{AtomicTracker, List, ListArc, ListLinks, TryNewListArc};
use kernel::prelude::*;
use kernel::sync::{Arc, LockedBy};
use kernel::workqueue::{new_work, Work, WorkItem};

/// How many faults of one process are in progress at most.
const PER_PROCESS: usize = 8;

/// How many faults of one user's processes are in progress at most. The work queue runs a thousand
/// items at a time.
const PER_USER: usize = 32;

/// How often the processes that have faults in progress are looked at, in nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// A region whose pages are faulted in.
pub(crate) trait Faulting: Send + Sync + 'static {
    /// Faults some pages in: one request. Returns whether there are more requests; while it
    /// returns true its caller calls again, when it is the region's turn.
    ///
    /// Process context; sleeps, perhaps for ever.
    fn fault(&self, held: &Held<'_>) -> bool;

    /// The region is closed, or its process is gone: no request is carried out any more. Process
    /// context.
    fn give_up(&self);
}

/// A user, with the processes that have regions.
#[pin_data]
struct User {
    id: u64,
    #[pin]
    line: SpinLockBh<Line>,
}

/// The lock's value guards also the [`Turns`] of the user's processes.
struct Line {
    /// Faults in progress.
    running: usize,
    /// The processes that may begin a fault, and have one to begin.
    processes: List<Process>,
}

/// A process that has regions.
#[pin_data]
struct Process {
    mm: Mm,
    user: Arc<User>,
    turns: LockedBy<Turns, Line>,
    #[pin]
    links: ListLinks,
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    timer: Timer<Process>,
    #[pin]
    look: Work<Process>,
}

struct Turns {
    running: [Option<Arc<Turn>>; PER_PROCESS],
    waiting: List<Turn>,
    /// How many references to the memory the faults have.
    held: u32,
    /// The process is gone, and its memory unmapped.
    reaped: bool,
}

/// A region's place in the line.
#[pin_data]
pub(crate) struct Turn {
    process: ProcessRef,
    state: LockedBy<TurnState, Line>,
    #[pin]
    links: ListLinks,
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    fault_work: Work<Turn>,
}

struct TurnState {
    /// While it is in line or its fault in progress.
    region: Option<Arc<dyn Faulting>>,
    /// It has had another request since.
    again: bool,
    /// The thread that has the memory.
    thread: Killable,
    /// No fault begins any more.
    closed: bool,
}

kernel::list::impl_list_arc_safe! {
    impl ListArcSafe<0> for Process { tracked_by tracker: AtomicTracker; }
}
kernel::list::impl_list_item! {
    impl ListItem<0> for Process { using ListLinks { self.links }; }
}
kernel::list::impl_list_arc_safe! {
    impl ListArcSafe<0> for Turn { tracked_by tracker: AtomicTracker; }
}
kernel::list::impl_list_item! {
    impl ListItem<0> for Turn { using ListLinks { self.links }; }
}
kernel::workqueue::impl_has_work! {
    impl HasWork<Process> for Process { self.look }
    impl HasWork<Turn> for Turn { self.fault_work }
}
crate::sync::timer::impl_has_timer! { impl HasTimer<0> for Process { self.timer } }

/// The users, by their number, and the processes that have regions, by their memory's.
#[derive(Clone)]
struct Known {
    users: Arc<Registry<User>>,
    processes: Arc<Registry<Process>>,
}

kernel::sync::global_lock! {
    // SAFETY: initialised by `Faults::new`, without which there is no device.
    unsafe(uninit) static KNOWN: Mutex<Option<Known>> = None;
}

/// Made once, at module load, and dropped at unload when there is no region any more.
pub(crate) struct Faults(());

impl Faults {
    /// Process context. ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the module is loaded once, and its statics with it.
        unsafe { KNOWN.init() };
        *KNOWN.lock() = Some(Known {
            users: Registry::new()?,
            processes: Registry::new()?,
        });
        Ok(Faults(()))
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        let known = KNOWN.lock().take();
        drop(known);
    }
}

/// A use of a [`Process`]. To be dropped in process context.
struct ProcessRef {
    process: Registered<Process>,
    _user: Registered<User>,
}

impl ProcessRef {
    /// The calling process. ENOMEM.
    fn current() -> Result<Self> {
        let known = KNOWN.lock().clone().ok_or(ENODEV)?;
        let id = user::current_id();
        let caller = Registry::get(&known.users, id, || User::new(id))?;
        let mm = Mm::current().ok_or(EINVAL)?;
        let key = mm.key();
        let make = || Process::new(mm, caller.clone());
        let process = Registry::get(&known.processes, key, make)?;
        // The process may be older than its present user: it stays that of the first.
        let user = process.user.clone();
        let user = Registry::get(&known.users, user.id, || Ok(user))?;
        Ok(ProcessRef {
            process,
            _user: user,
        })
    }
}

impl Drop for ProcessRef {
    fn drop(&mut self) {
        // Without a region it has no fault, and nothing arms the timer again.
        self.process.timer.cancel();
        self.process.watch(&self.process.user.line.lock());
    }
}

impl User {
    fn new(id: u64) -> Result<Arc<Self>> {
        let line = Line {
            running: 0,
            processes: List::new(),
        };
        Arc::pin_init(
            pin_init!(User {
                id,
                line <- new_spinlock_bh!(line, "oxe_faults"),
            }),
            GFP_CHARGED,
        )
    }
}

impl Line {
    /// Begins faults, as many as may be in progress.
    fn advance(&mut self) {
        while self.running < PER_USER {
            let Some(process) = self.processes.pop_front() else {
                return;
            };
            let process = process.into_arc();
            if process.turns.access_mut(self).begin() {
                self.running += 1;
            }
            self.line_up(process);
        }
    }

    /// The process waits for its turn, if it has a fault to begin and may have one more.
    fn line_up(&mut self, process: Arc<Process>) {
        if process.turns.access_mut(self).is_ready() {
            // It is in the list already, or it comes last.
            if let Some(process) = ListArc::try_from_arc_or_drop(process) {
                self.processes.push_back(process);
            }
        }
    }
}

impl Turns {
    fn is_ready(&self) -> bool {
        !self.waiting.is_empty() && self.running.iter().any(|place| place.is_none())
    }

    /// Begins the fault of the region that has waited longest. Returns whether there was one.
    fn begin(&mut self) -> bool {
        let Some(place) = self.running.iter_mut().find(|place| place.is_none()) else {
            return false;
        };
        let Some(turn) = self.waiting.pop_front() else {
            return false;
        };
        let turn = turn.into_arc();
        *place = Some(turn.clone());
        // False only when the module goes, and its queue is gone: then there is no region.
        work::queue_fault(&turn);
        true
    }

    /// The fault is over.
    fn end(&mut self, turn: &Turn) -> Option<Arc<Turn>> {
        let is_this = |place: &&mut Option<Arc<Turn>>| {
            place
                .as_ref()
                .is_some_and(|other| core::ptr::eq(&**other, turn))
        };
        self.running.iter_mut().find(is_this).and_then(take)
    }
}

impl Process {
    fn new(mm: Mm, user: Arc<User>) -> Result<Arc<Self>> {
        let turns = Turns {
            running: [const { None }; PER_PROCESS],
            waiting: List::new(),
            held: 0,
            reaped: false,
        };
        let turns = LockedBy::new(&user.line, turns);
        Arc::pin_init(
            pin_init!(Process {
                mm,
                user,
                turns,
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                timer <- Timer::new(),
                look <- new_work!("oxe_fault_look"),
            }),
            GFP_CHARGED,
        )
    }
}

impl Process {
    /// Looks at the process in a while, if it has a fault in progress. The lock sees to it that it
    /// still has one: the end of the last region cancels the timer for good.
    fn watch(self: &Arc<Self>, line: &Line) {
        let turns = self.turns.access(line);
        if turns.held != 0 && !turns.reaped {
            let when = now_ns().saturating_add(LOOK);
            self.timer.arm_at(self.as_arc_borrow(), when);
        }
    }
}

impl TimerHandler for Process {
    fn expired(this: Arc<Self>) {
        work::drop_in_process(this);
    }
}

impl WorkItem for Process {
    type Pointer = Arc<Self>;

    /// If no process has the memory any more, its faults end, and its pages are given back now:
    /// some faults may not heed the signal.
    ///
    /// Process context.
    fn run(this: Arc<Self>) {
        let mut line = this.user.line.lock();
        let turns = this.turns.access_mut(&mut line);
        let held = turns.held;
        if held == 0 || turns.reaped {
            return;
        }
        // All uses by faults were counted under the lock.
        let orphan = this.mm.get_orphan(held);
        if orphan.is_some() {
            let running = turns.running.clone();
            for turn in running.iter().flatten() {
                turn.state.access_mut(&mut line).stop();
            }
        }
        this.watch(&line);
        drop(line);
        if let Some(orphan) = orphan {
            let reaped = orphan.reap();
            this.turns.access_mut(&mut this.user.line.lock()).reaped = reaped;
        }
    }
}

impl TurnState {
    /// No fault begins any more, and the one in progress is sent a signal.
    fn stop(&mut self) {
        self.closed = true;
        self.thread.kill();
    }
}

impl Turn {
    /// A place for a region of the calling process. Process context. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let process = ProcessRef::current()?;
        let state = TurnState {
            region: None,
            again: false,
            thread: Killable::NONE,
            closed: false,
        };
        let state = LockedBy::new(&process.process.user.line, state);
        Arc::pin_init(
            pin_init!(Turn {
                process,
                state,
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                fault_work <- new_work!("Turn::fault_work"),
            }),
            GFP_CHARGED,
        )
    }

    fn line(&self) -> &SpinLockBh<Line> {
        &self.process.process.user.line
    }

    /// The region, whose place this is, has a request. Softirq or process context.
    pub(crate) fn request(this: &Arc<Self>, region: Arc<dyn Faulting>) {
        let mut line = this.line().lock();
        let state = this.state.access_mut(&mut line);
        if state.closed || state.region.is_some() {
            state.again = true;
            drop(line);
            // Perhaps the last reference.
            drop(region);
            return;
        }
        state.region = Some(region);
        this.line_up(&mut line);
        line.advance();
    }

    fn line_up(self: &Arc<Self>, line: &mut Line) {
        let process = &self.process.process;
        if let Some(turn) = ListArc::try_from_arc_or_drop(self.clone()) {
            process.turns.access_mut(line).waiting.push_back(turn);
        }
        line.line_up((**process).clone());
    }

    /// No fault of the region begins any more, and the one in progress ends soon, or as soon as it
    /// heeds a signal. Process context.
    pub(crate) fn close(&self) {
        self.state.access_mut(&mut self.line().lock()).stop();
    }

    /// Takes the memory of the process for a fault. `None` if there is no such memory any more, or
    /// the region is closed.
    fn hold(&self) -> Option<Held<'_>> {
        // SAFETY: this is a thread of a work queue. `Held::drop` forgets it, or the code below.
        let thread = unsafe { Killable::current() };
        let mut line = self.line().lock();
        let process = &self.process.process;
        let open = !self.state.access_mut(&mut line).closed;
        if open && process.mm.get() {
            let turns = process.turns.access_mut(&mut line);
            turns.held = turns.held.wrapping_add(1);
            process.watch(&line);
            self.state.access_mut(&mut line).thread = thread;
            // INVARIANT: all of it was done under the lock.
            return Some(Held { turn: self });
        }
        drop(line);
        // SAFETY: `thread` was not passed on.
        unsafe { Killable::forbid() };
        None
    }

    /// The fault is over; the next one begins. The region waits for another turn if it has `more`.
    fn end(self: &Arc<Self>, region: Arc<dyn Faulting>, more: bool) {
        let mut line = self.line().lock();
        let process = &self.process.process;
        let ended = process.turns.access_mut(&mut line).end(self);
        line.running = line.running.saturating_sub(1);
        let state = self.state.access_mut(&mut line);
        let mut last = None;
        if (take(&mut state.again) || more) && !state.closed {
            self.line_up(&mut line);
        } else {
            last = take(&mut state.region);
        }
        line.line_up((**process).clone());
        line.advance();
        drop(line);
        // The last references perhaps.
        drop((ended, last, region));
    }
}

impl WorkItem for Turn {
    type Pointer = Arc<Self>;

    /// Process context: one request.
    fn run(this: Arc<Self>) {
        let mut line = this.line().lock();
        let region = this.state.access_mut(&mut line).region.clone();
        drop(line);
        let Some(region) = region else { return };
        let more = match this.hold() {
            Some(held) => region.fault(&held),
            None => {
                region.give_up();
                false
            }
        };
        this.end(region, more);
    }
}

/// The memory of a process, for a fault: it stays, unless it is seen that no process has it.
///
/// # Invariants
///
/// The memory has a use more for it, which is counted. The calling thread is the turn's `thread`.
pub(crate) struct Held<'a> {
    turn: &'a Turn,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut line = self.turn.line().lock();
        self.turn.state.access_mut(&mut line).thread = Killable::NONE;
        let process = &self.turn.process.process;
        let turns = process.turns.access_mut(&mut line);
        turns.held = turns.held.wrapping_sub(1);
        // SAFETY: by the invariant it has this use.
        unsafe { process.mm.put() };
        drop(line);
        // SAFETY: the value for it was overwritten.
        unsafe { Killable::forbid() };
    }
}
