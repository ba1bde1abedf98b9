// SPDX-License-Identifier: GPL-2.0

//! Handlers that run the engine: of timers, queued work and freed room. Also the sweep over queue
//! pairs in the error state (see `flush`).

use super::engine;
use super::object::{Qp, Qps};
use super::progress::Input;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{Instant, State};
use crate::sync::timer::{self, TimerHandler};
use crate::sync::work;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// The most QPs that a step of the sweep visits, and the most of which it flushes receives.
const MAX_PASSED: usize = 8192;
const MAX_FLUSHED: usize = 64;

impl TimerHandler for Qp {
    /// Leaves the QP to work: the timers of many QPs may expire together, in one softirq that
    /// handles all of them.
    fn expired(this: Arc<Self>) {
        let _ = work::queue_bh::<Qp, 0>(&this);
    }
}

impl TxLimitHandler for Qp {
    fn below_limit(this: Arc<Self>) {
        let _ = work::queue_bh::<Qp, 0>(&this);
    }
}

impl WorkItem for Qp {
    type Pointer = Arc<Qp>;

    /// Softirq. Leaves the QP to process context if its user has spent the budget.
    fn run(this: Arc<Qp>) {
        let now = timer::now_ns();
        let Some(budget) = &this.budget else {
            return engine::run(&this, Input::Work(Instant(now)));
        };
        match budget.begin(now) {
            Some(run) => {
                engine::run(&this, Input::Work(Instant(now)));
                run.end(timer::now_ns());
            }
            None => {
                work::queue_bulk::<Qp, 1>(&this);
            }
        }
    }
}

impl WorkItem<1> for Qp {
    type Pointer = Arc<Qp>;

    /// Process context.
    fn run(this: Arc<Qp>) {
        engine::run(&this, Input::Bulk);
    }
}

impl TimerHandler for Qps {
    fn expired(this: Arc<Self>) {
        let _ = work::queue_process::<Qps, 0>(&this);
    }
}

impl WorkItem for Qps {
    type Pointer = Arc<Qps>;

    fn run(this: Arc<Qps>) {
        if sweep(&this) {
            Qps::start_sweep(&this);
        }
    }
}

/// Whether `qp` is one that the sweep visits, and whether it has receives to be flushed.
fn is_due(qp: &Qp) -> (bool, bool) {
    let Some(producer) = qp.recv_producer.as_ref().filter(|_| qp.is_user) else {
        return (false, false);
    };
    let swept = qp.state() == State::Err;
    (swept, swept && !producer.is_empty())
}

/// Runs one step of the sweep. Returns whether another step is needed.
fn sweep(qps: &Qps) -> bool {
    let (mut at, mut found) = {
        let sweep = qps.sweep.lock();
        (sweep.next, sweep.found)
    };
    let mut flushed = 0;
    let mut ends = false;
    for _ in 0..MAX_PASSED {
        let Some((qpn, qp)) = qps.next(at) else {
            ends = true;
            break;
        };
        let (swept, due) = is_due(&qp);
        found |= swept;
        if due {
            if flushed >= MAX_FLUSHED {
                break;
            }
            engine::run(&qp, Input::Sweep);
            flushed += 1;
        }
        at = qpn.saturating_add(1);
    }
    let again = !ends || found;
    let mut sweep = qps.sweep.lock();
    sweep.next = if ends { 0 } else { at };
    sweep.found = found && !ends;
    again
}
