// SPDX-License-Identifier: GPL-2.0

//! Tests of the simulator itself: the judges find deliberate bugs, and report none without one.

use oxe_sim::host::sabotage::{Sabotage, Saboteur};
use oxe_sim::log::Mode;
use oxe_sim::profile::Profile;
use oxe_sim::runner::run;

/// Runs in which the sabotage finds an occasion.
const RUNS: u64 = 40;

/// The profile in which the bug has to show. Where packets are lost a liveness bug may hide behind
/// retries, and a packet that the ICRC should stop must be there to be let through.
fn profile(kind: Sabotage) -> Profile {
    match kind {
        kind if kind.is_uc() => Profile::Uc,
        Sabotage::DropAckReq => Profile::Clean,
        Sabotage::DeafTimer => Profile::Lossy,
        Sabotage::IgnoreIcrc => Profile::Corrupt,
        Sabotage::ShortRnrTimer => Profile::NotReady,
        Sabotage::IgnoreLocalError => Profile::Deregister,
        Sabotage::LoseEvent | Sabotage::IgnoreLocalFailure => Profile::Errors,
        Sabotage::TakeStaleKey | Sabotage::IgnoreFlushRight => Profile::Errors,
        Sabotage::UntimelyLocal => Profile::Drain,
        Sabotage::FlushShared => Profile::Abort,
        Sabotage::ForgetReceive | Sabotage::IgnoreMissing => Profile::PageFaults,
        Sabotage::AddToMissing => Profile::PageFaults,
        Sabotage::EarlyRelease => Profile::Hostile,
        Sabotage::WideWindow | Sabotage::WideReads | Sabotage::IgnoreCnp => Profile::Bulk,
        Sabotage::IgnoreMark | Sabotage::NotifyUnmarked | Sabotage::NotifyDropped => Profile::Bulk,
        Sabotage::NotifyOften | Sabotage::WrongCnp => Profile::Bulk,
        Sabotage::ForgetDelay => Profile::Bulk,
        Sabotage::FillGap | Sabotage::LowGap | Sabotage::WideGap => Profile::Bulk,
        Sabotage::LoseKept | Sabotage::SwapKept | Sabotage::SkipMissing => Profile::Bulk,
        _ => Profile::Shuffle,
    }
}

/// How many of a hundred such bugs have to be found.
fn least(kind: Sabotage) -> u64 {
    use Sabotage::*;
    match kind {
        // Not all of these do harm: a byte that was stored wrong may be overwritten before a judge
        // looks, no packet may be lost where the timer is deaf, the responder may have all packets
        // that a late ACK claims, and a READ is answered whether it asks for it or not.
        CorruptByte | StrayWrite => 60,
        RepeatAtomic => 45,
        RepeatRequest | DeafTimer | IgnoreIcrc | AckTooMuch | DropAckReq => 70,
        LoseReceive | LoseCompletion | RepeatCompletion | WrongStatus | WrongSignal => 100,
        WrongRange => 100,
        ShortRnrTimer | LowMsn | RepeatNak | FlushShared => 100,
        // The packet to be sent again may have arrived the first time.
        IgnoreLocalError => 50,
        // The first packet may have been one that was not accepted.
        LoseEvent => 70,
        // An answer that is repeated may be acknowledged.
        AckUnanswered => 90,
        // The peer's ACKs may widen the window as fast as it is used, the more so at first.
        // Nor has a queue pair that was notified a use for a wide window.
        WideWindow => 75,
        // A loss leaves seven tenths of it, and not all of those are used.
        WideReads => 40,
        FillGap | LowGap | WideGap => 100,
        LoseKept | SwapKept => 100,
        // A requester that has gone back may be about to send the missing packet anyway.
        SkipMissing => 85,
        RepeatLocal | IgnoreFence | UntimelyLocal | SkipLocal | EarlyCompletion => 100,
        KeepKey | TakeStaleKey => 100,
        // The QP may go to error for another reason before the request completes.
        IgnoreLocalFailure => 90,
        EarlyFinish | SkipFinish | RepeatFinish => 100,
        RepeatAtomicWrite | SkipFlush | WrongFlush => 100,
        // A later request may overwrite the other half before a judge looks.
        ShortAtomicWrite => 90,
        // The QP may go to error for another reason.
        IgnoreFlushRight => 90,
        // An answer that is repeated may be an ACK.
        AckPlacement => 90,
        ForgetReceive | IgnoreMissing => 100,
        // The connection may end before the request comes again.
        AddToMissing => 90,
        IgnoreMark | NotifyUnmarked | NotifyDropped | NotifyOften | WrongCnp => 100,
        // There may be little to send after a notification.
        IgnoreCnp => 50,
        // It may have little to send, or be told of a loss at once.
        ForgetDelay => 50,
        // The attacker seldom acknowledges a packet in the time that it is on its way.
        EarlyRelease => 5,
        // Of UC QPs.
        _ => 95,
    }
}

/// How many of a hundred runs in which the saboteur struck have failed.
fn found(kind: Sabotage) -> u64 {
    let (mut struck, mut found, mut seed) = (0, 0, 0);
    while struck < RUNS {
        seed += 1;
        assert!(seed < 100 * RUNS, "no occasion for {kind:?}");
        // There are few occasions in a run: the first error ends it all.
        use Sabotage::*;
        let rare = matches!(kind, IgnoreLocalError | LoseEvent | FlushShared)
            || matches!(kind, IgnoreLocalFailure | TakeStaleKey | IgnoreFlushRight)
            || matches!(kind, NotifyDropped | NotifyOften | ForgetDelay);
        let patience = if rare { 0 } else { (seed % 7) as u32 };
        let outcome = run(
            seed,
            profile(kind),
            Saboteur::new(kind, patience),
            Mode::Off,
        );
        if outcome.struck > 0 {
            struck += 1;
            found += u64::from(outcome.failure.is_some());
        } else {
            assert_eq!(outcome.failure, None, "{kind:?} blamed without a strike");
        }
    }
    100 * found / struck
}

#[test]
fn every_kind_of_bug_is_found() {
    let rates = Sabotage::ALL.map(|kind| (kind, found(kind)));
    let missed = rates.iter().filter(|(kind, rate)| *rate < least(*kind));
    assert_eq!(missed.count(), 0, "percent found: {rates:?}");
}

#[test]
fn a_failure_says_how_to_repeat_it_and_repeats() {
    let fail = |seed| {
        let saboteur = Saboteur::new(Sabotage::LoseCompletion, 3);
        run(seed, Profile::Lossy, saboteur, Mode::Off)
    };
    let outcome = fail(0x1d);
    let failure = outcome.failure.clone().expect("the bug shows");
    assert_eq!(fail(0x1d).failure, Some(failure));
    let line = "replay: scripts/sim --seed 0x1d --profile lossy -v";
    assert_eq!(outcome.replay(), line);
}
