// SPDX-License-Identifier: GPL-2.0

//! Moderation of a CQ's completion events: the timer of the event that is held.

use crate::proto::transport::{EventModeration, Instant, Moderated};
use crate::rdma::events::CqEvents;
use crate::sync::lock::{new_spinlock_irq, SpinLockIrq};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::timer::{impl_has_timer, now_ns, Timer, TimerHandler};
use kernel::prelude::*;
use kernel::sync::Arc;

/// Holds the events of one CQ whose consumer asked for that.
#[pin_data]
pub(super) struct Moderator {
    events: CqEvents,
    #[pin]
    state: SpinLockIrq<EventModeration>,
    #[pin]
    timer: Timer<Moderator>,
}

impl_has_timer! { impl HasTimer<0> for Moderator { self.timer } }

impl TimerHandler for Moderator {
    fn expired(this: Arc<Self>) {
        let mut state = this.state.lock();
        match state.poll(Instant(now_ns())) {
            Moderated::Nothing => {}
            Moderated::Hold(due) => this.timer.arm_at(this.as_arc_borrow(), due.0),
            Moderated::Deliver => {
                drop(state);
                this.events.notify();
            }
        }
    }
}

impl Moderator {
    /// A moderator that holds nothing. Process context. ENOMEM.
    pub(super) fn new(events: CqEvents) -> Result<Arc<Self>> {
        let init = pin_init!(Moderator {
            events,
            state <- new_spinlock_irq!(EventModeration::default(), "oxe_moderation"),
            timer <- Timer::new(),
        });
        Arc::pin_init(init, GFP_CHARGED)
    }

    /// Sets count and period (see [`EventModeration::set`]). Process context, no lock held: an
    /// event that was held is delivered.
    pub(super) fn set(&self, count: u16, period: u16) {
        let held = self.state.lock().set(count, period);
        if held {
            self.events.notify();
        }
    }

    /// A completion came, for which the consumer asked for an event if `wanted`; returns whether
    /// one is to be delivered. Any context, under the CQ's lock.
    pub(super) fn on_completion(this: &Arc<Self>, wanted: bool, urgent: bool) -> bool {
        let mut state = this.state.lock();
        match state.on_completion(Instant(now_ns()), wanted, urgent) {
            Moderated::Nothing => false,
            Moderated::Deliver => true,
            Moderated::Hold(due) => {
                // Under the lock that the handler takes, so that no wake-up is lost.
                this.timer.arm_at(this.as_arc_borrow(), due.0);
                false
            }
        }
    }

    /// Ends the timer. Process context; the CQ has no completions any more.
    pub(super) fn close(&self) {
        self.timer.cancel();
    }
}
