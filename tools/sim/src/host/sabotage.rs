// SPDX-License-Identifier: GPL-2.0

//! Deliberate bugs, which the tests of the simulator put into the device or between device and
//! protocol to see the judges find them.

/// A kind of bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The first byte of a payload is stored wrong.
    CorruptByte,
    /// The byte before a payload is changed.
    StrayWrite,
    /// A fetch and add adds twice.
    RepeatAtomic,
    /// A receive completion vanishes.
    LoseReceive,
    /// A send completion vanishes.
    LoseCompletion,
    /// A send completion comes twice.
    RepeatCompletion,
    /// Success becomes a flush.
    WrongStatus,
    /// An unsignalled request is reported.
    WrongSignal,
    /// A request packet is handed to the responder twice, the second time under the next PSN.
    RepeatRequest,
    /// AckReq is cleared on its way out.
    DropAckReq,
    /// The retransmission timer never goes off.
    DeafTimer,
    /// A packet that the receiver should refuse for its ICRC is let through.
    IgnoreIcrc,
    /// An ACK claims one packet more than the responder has.
    AckTooMuch,
    /// A READ request asks for other bytes than posted.
    WrongRange,
    /// RNR NAKs have timer code 1.
    ShortRnrTimer,
    /// The requester goes back for a lost packet, but goes on to send as much as before.
    WideWindow,
    /// The requester goes back for a lost answer, but goes on to ask for as much as before.
    WideReads,
    /// A READ response behind a gap is taken for the missing one.
    FillGap,
    /// The request for a gap in READ responses begins one packet early, with what has arrived.
    LowGap,
    /// It ends one packet late, with what was kept.
    WideGap,
    /// A kept request packet is not handed on when its turn has come.
    LoseKept,
    /// Another kept packet is handed on in its place.
    SwapKept,
    /// A NAK for a sequence error is heard as one for the next packet.
    SkipMissing,
    /// The responder's message count is one too low.
    LowMsn,
    /// A NAK for a sequence error is sent twice.
    RepeatNak,
    /// A READ or an atomic is acknowledged before it is answered.
    AckUnanswered,
    /// The protocol does not heed that the payload of a packet cannot be read.
    IgnoreLocalError,
    /// An event of a QP is lost, but for those that the device acts upon.
    LoseEvent,
    /// A QP in error flushes the receives of its shared receive queue.
    FlushShared,
    /// A local operation is carried out again when the requester goes back.
    RepeatLocal,
    /// A local operation is carried out in spite of its fence.
    IgnoreFence,
    /// A local operation is carried out in SQD or in error.
    UntimelyLocal,
    /// A local operation is not carried out.
    SkipLocal,
    /// A local operation completes before earlier ones.
    EarlyCompletion,
    /// The protocol does not heed that a local operation has failed.
    IgnoreLocalFailure,
    /// A key stays valid after its invalidation.
    KeepKey,
    /// An invalidated key is taken.
    TakeStaleKey,
    /// A READ is said to be whole before its last byte has come.
    EarlyFinish,
    /// A READ is not said to be whole.
    SkipFinish,
    /// A READ is said to be whole twice.
    RepeatFinish,
    /// A duplicate ATOMIC WRITE is carried out again.
    RepeatAtomicWrite,
    /// Half of an ATOMIC WRITE is stored.
    ShortAtomicWrite,
    /// A FLUSH is answered and not carried out.
    SkipFlush,
    /// A FLUSH of a range asks for the region, or the other way round.
    WrongFlush,
    /// A FLUSH of memory that may not be flushed is carried out.
    IgnoreFlushRight,
    /// The response without payload is an ACK.
    AckPlacement,
    /// The receive that was taken as a page was missing is forgotten, and another is taken.
    ForgetReceive,
    /// A payload for a receive is thrown away as a page is missing, without an error to the
    /// protocol.
    IgnoreMissing,
    /// A fetch and add is carried out, and reported to the protocol as a missing page.
    AddToMissing,
    /// A congestion notification does not reach the protocol.
    IgnoreCnp,
    /// A marked packet is taken, and its sender is not notified.
    IgnoreMark,
    /// A CNP is sent for a packet that was not marked.
    NotifyUnmarked,
    /// A CNP is sent for a marked packet that was dropped.
    NotifyDropped,
    /// A CNP is sent too soon after the last one.
    NotifyOften,
    /// MigReq is set in a CNP.
    WrongCnp,
    /// A queue pair that is to be controlled by delay is controlled by CUBIC.
    ForgetDelay,
    /// A request completes while its payload is lent, if the peer acknowledges it.
    EarlyRelease,
    /// The first byte of a payload that a UC QP takes is stored wrong.
    UcCorruptByte,
    /// The byte before a payload that a UC QP takes is changed.
    UcStrayWrite,
    /// A receive completion of a UC QP vanishes.
    UcLoseReceive,
    /// A receive completion of a UC QP comes twice.
    UcRepeatReceive,
    /// The receive that a dropped message leaves is not used for the next one.
    UcTakeAnother,
    /// A UC QP lets its peer write to memory that the peer may only read.
    UcIgnoreRights,
    /// A UC QP goes on with a message of which a packet is missing.
    UcTakeGap,
    /// A UC QP takes a duplicate for a new message.
    UcTakeDuplicate,
    /// A UC QP drops a packet for no reason.
    UcDropPacket,
    /// AckReq is set in a UC packet.
    UcAskAck,
    /// A UC packet that is not the last of its message asks for a solicited event.
    UcEarlySolicited,
    /// A UC packet has the PSN after its own.
    UcSkipPsn,
    /// The RETH of a UC WRITE has a wrong length.
    UcWrongLength,
    /// A UC packet is sent twice.
    UcRepeatPacket,
    /// A UC packet that cannot be sent is not taken back.
    UcForgetUndo,
    /// A payload of a UC QP that cannot be read is sent.
    UcIgnoreUnreadable,
    /// A UC QP acknowledges a packet.
    UcAcknowledge,
    /// A UC message begins in SQD.
    UcBeginInSqd,
    /// A UC QP goes on in RTS after a request has failed.
    UcIgnoreFailure,
    /// A UC message completes before its payload is copied.
    UcEarlyRelease,
    /// A send completion of a UC QP vanishes.
    UcLoseCompletion,
    /// A send completion of a UC QP comes twice.
    UcRepeatCompletion,
    /// Success of a UC request becomes a flush.
    UcWrongStatus,
    /// An unsignalled UC request is reported.
    UcWrongSignal,
    /// A local operation of a UC QP is not carried out.
    UcSkipLocal,
    /// A local operation of a UC QP is carried out before payloads are copied.
    UcEarlyLocal,
    /// The receive in use of a UC QP in error is not flushed.
    UcForgetFlush,
    /// A receive of a UC QP in error is flushed twice.
    UcFlushTwice,
    /// The events of a UC QP are lost.
    UcLoseEvent,
}

impl Sabotage {
    /// All kinds.
    pub const ALL: [Sabotage; 86] = [
        Sabotage::CorruptByte,
        Sabotage::StrayWrite,
        Sabotage::RepeatAtomic,
        Sabotage::LoseReceive,
        Sabotage::LoseCompletion,
        Sabotage::RepeatCompletion,
        Sabotage::WrongStatus,
        Sabotage::WrongSignal,
        Sabotage::RepeatRequest,
        Sabotage::DropAckReq,
        Sabotage::DeafTimer,
        Sabotage::IgnoreIcrc,
        Sabotage::AckTooMuch,
        Sabotage::WrongRange,
        Sabotage::ShortRnrTimer,
        Sabotage::WideWindow,
        Sabotage::WideReads,
        Sabotage::FillGap,
        Sabotage::LowGap,
        Sabotage::WideGap,
        Sabotage::LoseKept,
        Sabotage::SwapKept,
        Sabotage::SkipMissing,
        Sabotage::LowMsn,
        Sabotage::RepeatNak,
        Sabotage::AckUnanswered,
        Sabotage::IgnoreLocalError,
        Sabotage::LoseEvent,
        Sabotage::FlushShared,
        Sabotage::RepeatLocal,
        Sabotage::IgnoreFence,
        Sabotage::UntimelyLocal,
        Sabotage::SkipLocal,
        Sabotage::EarlyCompletion,
        Sabotage::IgnoreLocalFailure,
        Sabotage::KeepKey,
        Sabotage::TakeStaleKey,
        Sabotage::EarlyFinish,
        Sabotage::SkipFinish,
        Sabotage::RepeatFinish,
        Sabotage::RepeatAtomicWrite,
        Sabotage::ShortAtomicWrite,
        Sabotage::SkipFlush,
        Sabotage::WrongFlush,
        Sabotage::IgnoreFlushRight,
        Sabotage::AckPlacement,
        Sabotage::ForgetReceive,
        Sabotage::IgnoreMissing,
        Sabotage::AddToMissing,
        Sabotage::IgnoreCnp,
        Sabotage::IgnoreMark,
        Sabotage::NotifyUnmarked,
        Sabotage::NotifyDropped,
        Sabotage::NotifyOften,
        Sabotage::WrongCnp,
        Sabotage::ForgetDelay,
        Sabotage::EarlyRelease,
        Sabotage::UcCorruptByte,
        Sabotage::UcStrayWrite,
        Sabotage::UcLoseReceive,
        Sabotage::UcRepeatReceive,
        Sabotage::UcTakeAnother,
        Sabotage::UcIgnoreRights,
        Sabotage::UcTakeGap,
        Sabotage::UcTakeDuplicate,
        Sabotage::UcDropPacket,
        Sabotage::UcAskAck,
        Sabotage::UcEarlySolicited,
        Sabotage::UcSkipPsn,
        Sabotage::UcWrongLength,
        Sabotage::UcRepeatPacket,
        Sabotage::UcForgetUndo,
        Sabotage::UcIgnoreUnreadable,
        Sabotage::UcAcknowledge,
        Sabotage::UcBeginInSqd,
        Sabotage::UcIgnoreFailure,
        Sabotage::UcEarlyRelease,
        Sabotage::UcLoseCompletion,
        Sabotage::UcRepeatCompletion,
        Sabotage::UcWrongStatus,
        Sabotage::UcWrongSignal,
        Sabotage::UcSkipLocal,
        Sabotage::UcEarlyLocal,
        Sabotage::UcForgetFlush,
        Sabotage::UcFlushTwice,
        Sabotage::UcLoseEvent,
    ];

    /// Whether it is about UC QPs.
    pub fn is_uc(self) -> bool {
        self as usize >= Sabotage::UcCorruptByte as usize
    }

    /// Whether it is there for good, or happens once.
    fn is_lasting(self) -> bool {
        use Sabotage::*;
        matches!(
            self,
            DropAckReq
                | DeafTimer
                | IgnoreIcrc
                | ShortRnrTimer
                | WideWindow
                | WideReads
                | LowMsn
                | IgnoreLocalError
                | IgnoreCnp
                | ForgetDelay
                | EarlyRelease
        )
    }
}

/// Commits one kind of sabotage, or none.
#[derive(Clone, Debug, Default)]
pub struct Saboteur {
    kind: Option<Sabotage>,
    /// How many occasions to let pass.
    patience: u32,
    /// How often it struck.
    pub struck: u32,
}

impl Saboteur {
    /// Strikes after `patience` occasions.
    pub fn new(kind: Sabotage, patience: u32) -> Self {
        Saboteur {
            kind: Some(kind),
            patience,
            struck: 0,
        }
    }

    /// Asks on an occasion for `kind` whether to do it.
    pub fn strikes(&mut self, kind: Sabotage) -> bool {
        if self.kind != Some(kind) || (self.struck > 0 && !kind.is_lasting()) {
            return false;
        }
        if self.patience > 0 {
            self.patience -= 1;
            return false;
        }
        self.struck += 1;
        true
    }
}
