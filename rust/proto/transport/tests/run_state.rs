// SPDX-License-Identifier: GPL-2.0

//! [`RunState`]: its table of transitions, and that it never has two contexts send, nor forgets
//! what is due.

use super::super::{Rest, RunState};
use proptest::collection::vec;
use proptest::prelude::*;
use RunState::{Idle, Posting, Queued, Sending, Stopped, Stopping};

const fn sending(rerun: bool, flush_due: bool) -> RunState {
    Sending { rerun, flush_due }
}

/// A state, and what it is after `work_began`, `resumed`, `begin(false)`, `begin(true)`, `stop`.
type Row = (RunState, [RunState; 5]);

/// The table of the module, with `Sending` and `Stopping` once for each of their flags.
const TABLE: [Row; 10] = {
    const BEGUN: RunState = sending(false, false);
    const DUE: RunState = Stopping { flush_due: true };
    const NOT: RunState = Stopping { flush_due: false };
    [
        (Idle, [Idle, Idle, BEGUN, BEGUN, Stopped]),
        (Queued, [Idle, Queued, Queued, BEGUN, Stopped]),
        (Posting, [Posting, Idle, Posting, BEGUN, Stopped]),
        (
            sending(false, false),
            [BEGUN, BEGUN, sending(true, false), sending(true, true), NOT],
        ),
        (
            sending(true, false),
            [
                sending(true, false),
                sending(true, false),
                sending(true, false),
                sending(true, true),
                NOT,
            ],
        ),
        (
            sending(false, true),
            [
                sending(false, true),
                sending(false, true),
                sending(true, true),
                sending(true, true),
                DUE,
            ],
        ),
        (
            sending(true, true),
            [
                sending(true, true),
                sending(true, true),
                sending(true, true),
                sending(true, true),
                DUE,
            ],
        ),
        (NOT, [NOT; 5]),
        (DUE, [DUE; 5]),
        (Stopped, [Stopped; 5]),
    ]
};

#[test]
fn transitions_are_those_of_the_table() {
    for (from, after) in TABLE {
        let mut states = [from; 5];
        let [work, resume, begin, flush, stop] = &mut states;
        work.work_began();
        resume.resumed();
        let begins = begin.begin(false);
        let flushes = flush.begin(true);
        let stopped = stop.stop();
        assert_eq!(states, after, "from {from:?}");
        assert_eq!(begins, from == Idle);
        assert_eq!(flushes, matches!(from, Idle | Queued | Posting));
        assert_eq!(stopped, !from.is_sending());
    }
}

#[test]
fn the_context_that_sends_says_who_sends_the_rest() {
    for (rest, to) in [
        (Rest::None, Idle),
        (Rest::Work, Queued),
        (Rest::Process, Posting),
    ] {
        let mut state = sending(true, false);
        assert!(!state.end(rest));
        assert_eq!(state, to);
        let mut state = Stopping { flush_due: false };
        assert!(state.end(rest), "a context waits");
        assert_eq!(state, Stopped);
    }
}

#[test]
fn a_killed_process_leaves_its_requests_to_work() {
    for (from, to) in [
        (Posting, Queued),
        (Idle, Queued),
        (Queued, Queued),
        (Stopped, Stopped),
    ] {
        let mut state = from;
        state.killed();
        assert_eq!(state, to);
    }
}

#[test]
fn a_flush_is_owed_once_also_when_stopped() {
    let mut state = sending(false, true);
    assert!(!state.stop());
    assert!(state.take_flush());
    assert!(!state.take_flush());
    assert!(state.end(Rest::None));
    state.restart();
    assert_eq!(state, Idle);
}

/// An event that any context may bring at any time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Work,
    Resume,
    Input { flush: bool },
    Look,
    End(Rest),
    Stop,
    Restart,
    Kill,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Work),
        Just(Event::Resume),
        any::<bool>().prop_map(|flush| Event::Input { flush }),
        Just(Event::Look),
        prop_oneof![Just(Rest::None), Just(Rest::Work), Just(Rest::Process)].prop_map(Event::End),
        Just(Event::Stop),
        Just(Event::Restart),
        Just(Event::Kill),
    ]
}

proptest! {
    /// One context at a time sends, from its `begin` to its `end`; an input that comes meanwhile is
    /// looked at before that, unless the queue pair is stopped.
    #[test]
    fn one_context_sends_and_looks_at_every_input(events in vec(event(), 0..60)) {
        let (mut state, mut sends, mut unseen) = (Idle, false, false);
        for event in events {
            match event {
                Event::Work => state.work_began(),
                Event::Resume => state.resumed(),
                Event::Input { flush } => {
                    let begins = state.begin(flush);
                    prop_assert!(!(begins && sends), "two contexts send");
                    unseen |= sends;
                    sends |= begins;
                }
                Event::Look => {
                    state.looks();
                    unseen = false;
                }
                Event::End(rest) => {
                    if sends {
                        state.end(rest);
                    }
                    (sends, unseen) = (false, false);
                }
                Event::Stop => prop_assert_eq!(state.stop(), !sends),
                Event::Restart => {
                    if state == Stopped {
                        state.restart();
                    }
                }
                Event::Kill => state.killed(),
            }
            prop_assert_eq!(sends, state.is_sending());
            prop_assert_eq!(unseen && !state.is_stopped(), state.is_rerun_due());
        }
    }
}
