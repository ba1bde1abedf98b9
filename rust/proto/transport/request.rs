// SPDX-License-Identifier: GPL-2.0

//! One send work request as the transport sees it, and what it asks of the queue that holds them.

use super::cwnd::READ_CHUNK;
use super::wire::Psn;
use super::{Attr, Pmtu, MAX_MESSAGE};

/// What a send work request does.
///
/// Immediate data are four opaque bytes in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm([u8; 4]),
    /// SEND which invalidates this key at the receiver.
    SendInv(u32),
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm([u8; 4]),
    /// RDMA READ.
    Read,
    /// Stores `swap` if `compare` is there; values in host order.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What to store.
        swap: u64,
    },
    /// Adds to what is there; the value is in host order.
    FetchAdd {
        /// What to add.
        add: u64,
    },
}

impl SendOp {
    /// Whether it is a READ or an atomic: the answer carries data, a plain ACK does not complete
    /// it, and it counts against `max_rd_atomic` (IBTA 9.7.5.1.1, 9.7.7.2.2).
    #[inline]
    pub const fn wants_response(&self) -> bool {
        matches!(
            self,
            SendOp::Read | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }
        )
    }
}

/// Completion statuses (IBTA 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Success,
    /// Local length error.
    LocLen,
    /// Local QP operation error.
    LocQpOp,
    /// Local protection error.
    LocProt,
    /// Flushed: the QP was in, or went to, the error state.
    WrFlush,
    /// Memory window bind error.
    MwBind,
    /// The response was not what the request asked for.
    BadResp,
    /// Local access error, of a receive that the peer's WRITE with immediate consumed.
    LocAccess,
    /// Remote invalid request.
    RemInvReq,
    /// Remote access error.
    RemAccess,
    /// Remote operational error.
    RemOp,
    /// No answer, as often as `retry_cnt` allows.
    RetryExc,
    /// Receiver not ready, as often as `rnr_retry` allows.
    RnrRetryExc,
    /// Aborted by the responder.
    RemAbort,
    /// Anything else.
    General,
}

/// The options of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// Reports success by a completion; errors are always reported.
    pub signaled: bool,
    /// Asks for a solicited event at the receiver; counts for SEND and WRITE with immediate.
    pub solicited: bool,
    /// Does not start before all earlier READs and atomics are complete (IBTA 10.8.3.3).
    pub fence: bool,
}

/// A send work request. The owner keeps one per slot of its send queue; the fields below the line
/// are the transport's own.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What to do.
    pub op: SendOp,
    /// Bytes of the whole message; for an atomic 8.
    pub len: u32,
    /// Remote address, for WRITE, READ and atomics.
    pub va: u64,
    /// Remote key, for WRITE, READ and atomics.
    pub rkey: u32,
    /// Reports success by a completion.
    pub signaled: bool,
    /// Asks for a solicited event.
    pub solicited: bool,
    /// Waits for earlier READs and atomics.
    pub fence: bool,

    // ----
    /// Cannot be carried out, or not any further. It completes with this status once all before it
    /// are complete.
    pub(super) local_error: Option<Status>,
    /// The PSN of the first packet. Valid once started, as the next one.
    pub(super) first_psn: Psn,
    /// How many PSNs it consumes, 1 to 2^23.
    pub(super) psns: u32,
}

impl Request {
    /// A request of `len` bytes. `va` and `rkey` mean nothing for a SEND.
    #[inline]
    pub const fn new(op: SendOp, len: u32, va: u64, rkey: u32, flags: Flags) -> Self {
        Request {
            op,
            len,
            va,
            rkey,
            signaled: flags.signaled,
            solicited: flags.solicited,
            fence: flags.fence,
            local_error: None,
            first_psn: Psn::ZERO,
            psns: 0,
        }
    }

    /// A request that did not pass its owner's checks: it completes with `status` once all before
    /// it are complete, and the QP goes to the error state.
    #[inline]
    pub const fn with_local_error(status: Status) -> Self {
        let mut request = Self::new(SendOp::Send, 0, 0, 0, NO_FLAGS);
        request.local_error = Some(status);
        request
    }

    /// The status that [`Request::with_local_error`] was given, if the request was made by that.
    #[inline]
    pub const fn local_error(&self) -> Option<Status> {
        self.local_error
    }

    /// Whether the request may start.
    ///
    /// # Errors
    ///
    /// The status with which it completes instead.
    #[inline]
    pub(super) fn validate(&self, attr: &Attr) -> Result<(), Status> {
        if let Some(status) = self.local_error {
            return Err(status);
        }
        if self.len > MAX_MESSAGE {
            return Err(Status::LocLen);
        }
        // It would wait for ever.
        if self.op.wants_response() && attr.max_rd_atomic == 0 {
            return Err(Status::LocQpOp);
        }
        Ok(())
    }

    /// Gives the request its PSNs (IBTA 9.7.2).
    #[inline]
    pub(super) fn start(&mut self, first: Psn, pmtu: Pmtu) {
        self.first_psn = first;
        self.psns = self.count_psns(pmtu);
    }

    /// How many PSNs the request consumes: one for each packet, of the response if it is a READ
    /// (IBTA 9.7.2), and at least one.
    #[inline]
    pub(super) fn count_psns(&self, pmtu: Pmtu) -> u32 {
        match self.op {
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => 1,
            _ => pmtu.packets(self.len),
        }
    }

    /// One past the last packet of the chunk of a READ (see `cwnd`) that the `index`th is of. Where
    /// chunks end does not depend on where a READ is resumed: the responder has a record of each,
    /// and answers again what lies within one (IBTA 9.7.5.1.3).
    #[inline]
    pub(super) fn chunk_end(&self, index: u32) -> u32 {
        let end = (index / READ_CHUNK)
            .saturating_add(1)
            .saturating_mul(READ_CHUNK);
        end.min(self.psns)
    }

    /// The PSN after its last.
    #[inline]
    pub(super) const fn end_psn(&self) -> Psn {
        self.first_psn.add(self.psns)
    }
}

const NO_FLAGS: Flags = Flags {
    signaled: false,
    solicited: false,
    fence: false,
};

/// The send queue, as its owner keeps it. Requests are named by a count `n` which wraps; after a
/// reset of the QP it starts at 0 again.
pub trait RequestQueue {
    /// The count of the next request to be posted: one past the last there is.
    fn tail(&self) -> u32;
    /// Request `n`. `None` for one that was completed or not posted yet.
    fn get(&self, n: u32) -> Option<&Request>;
    /// Request `n`, as for [`RequestQueue::get`].
    fn get_mut(&mut self, n: u32) -> Option<&mut Request>;
}

/// Where answers of the responder go: the local memory of a READ or an atomic.
pub trait RequesterOps {
    /// Puts the whole payload of the packet in hand `offset` bytes into the local memory of READ
    /// request `n`. Called with every byte of a READ at most once, in order, and never past its
    /// length.
    ///
    /// # Errors
    ///
    /// The status with which the request is to fail.
    fn place(&mut self, n: u32, offset: u32) -> Result<(), Status>;
    /// Stores the 8 bytes that atomic request `n` found, a value in host order.
    ///
    /// # Errors
    ///
    /// The status with which the request is to fail.
    fn place_atomic(&mut self, n: u32, original: u64) -> Result<(), Status>;
}

/// A send request is done with. They come in the order of posting, each exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// Which request.
    pub n: u32,
    /// How it ended.
    pub status: Status,
    /// Bytes transferred, on success.
    pub byte_len: u32,
    /// Whether the consumer is to hear of it; the slot is free in any case.
    pub signaled: bool,
}
