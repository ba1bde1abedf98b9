// SPDX-License-Identifier: GPL-2.0

//! A send work request of the transport, and the interface of the send queue that holds the
//! requests.

use super::wire::{FethRepr, Psn};
use super::{Attr, Pmtu, MAX_MESSAGE};

/// The operation of a send work request.
///
/// Immediate data are four opaque bytes in wire order.
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
    /// Stores `swap` if the memory holds `compare`; values in host order.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds to the value in memory; the operand is in host order.
    FetchAdd {
        /// The value to add.
        add: u64,
    },
    /// ATOMIC WRITE: stores the 8 bytes of the message at once.
    AtomicWrite,
    /// FLUSH: the message is empty.
    Flush {
        /// The placement type and the selectivity level.
        feth: FethRepr,
        /// Bytes of the range, if it is about one.
        len: u32,
    },
    /// An operation on keys of this side, which sends nothing and takes no PSN: to register a
    /// region, bind a window, or invalidate a key (IBTA 10.6.5, 10.8.2.2). The owner carries it out
    /// ([`ConnectedQp::poll_local`](super::ConnectedQp::poll_local)).
    Local,
}

impl SendOp {
    /// Whether it sends nothing.
    #[inline]
    pub const fn is_local(&self) -> bool {
        matches!(self, SendOp::Local)
    }

    /// Whether it is a READ, an atomic, an ATOMIC WRITE or a FLUSH: it has a response of its own,
    /// an ACK alone does not complete it, and it counts against `max_rd_atomic`
    /// (IBTA 9.7.5.1.1, 9.7.7.2.2, IBTA annex A19.4).
    #[inline]
    pub const fn wants_response(&self) -> bool {
        matches!(
            self,
            SendOp::Read
                | SendOp::CompareSwap { .. }
                | SendOp::FetchAdd { .. }
                | SendOp::AtomicWrite
                | SendOp::Flush { .. }
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
    /// No response, after as many retries as `retry_cnt` allows.
    RetryExc,
    /// Receiver not ready, after as many retries as `rnr_retry` allows.
    RnrRetryExc,
    /// Aborted by the responder.
    RemAbort,
    /// Anything else.
    General,
}

/// The reason that bytes were not placed in local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// A page is not present (on-demand paging). The owner has asked for it: the packet is as good
    /// as lost, and finds the page when it comes again.
    NotPresent,
    /// The work request fails with this status.
    Failed(Status),
}

impl From<Status> for PlaceError {
    fn from(status: Status) -> Self {
        PlaceError::Failed(status)
    }
}

/// The options of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// Reports success by a completion; errors are always reported.
    pub signaled: bool,
    /// Asks for a solicited event at the receiver; counts for SEND and WRITE with immediate.
    pub solicited: bool,
    /// Does not start before all earlier READs, atomics, ATOMIC WRITEs and FLUSHes are complete
    /// (IBTA 10.8.3.3).
    pub fence: bool,
}

/// A send work request. The owner keeps one per slot of its send queue; the fields below the line
/// are the transport's own.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The operation.
    pub op: SendOp,
    /// Bytes of the whole message; for an atomic and an ATOMIC WRITE 8, for a FLUSH 0.
    pub len: u32,
    /// Remote address; of no meaning for a SEND.
    pub va: u64,
    /// Remote key; of no meaning for a SEND.
    pub rkey: u32,
    /// Reports success by a completion.
    pub signaled: bool,
    /// Asks for a solicited event.
    pub solicited: bool,
    /// Waits for earlier READs, atomics, ATOMIC WRITEs and FLUSHes.
    pub fence: bool,

    // ----
    /// The request cannot be carried out, or not any further. It completes with this status once
    /// all requests before it are complete.
    pub(in super::super) local_error: Option<Status>,
    /// The PSN of the first packet. Valid once the request has started, like `psns`.
    pub(in super::super) first_psn: Psn,
    /// How many PSNs it consumes: 1 to 2^23, or 0 if it sends nothing.
    pub(in super::super) psns: u32,
    /// Of an RC READ: how many response packets one READ request asks for at most, from packet
    /// `base` on.
    pub(in super::super) chunk: u32,
    pub(in super::super) base: u32,
    /// How many each READ request for the packets before `base` has asked for.
    pub(in super::super) before: u32,
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
            chunk: 0,
            base: 0,
            before: 0,
        }
    }

    /// A request that did not pass its owner's checks. It completes with `status` once all requests
    /// before it are complete, and the QP goes to the error state.
    #[inline]
    pub const fn with_local_error(status: Status) -> Self {
        let mut request = Self::new(SendOp::Send, 0, 0, 0, NO_FLAGS);
        request.local_error = Some(status);
        request
    }

    /// The status of the local error, if the request has one.
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
    pub(in super::super) fn validate(&self, attr: &Attr) -> Result<(), Status> {
        if let Some(status) = self.local_error {
            return Err(status);
        }
        if self.len > MAX_MESSAGE {
            return Err(Status::LocLen);
        }
        // The request would wait for ever.
        if self.op.wants_response() && attr.max_rd_atomic == 0 {
            return Err(Status::LocQpOp);
        }
        Ok(())
    }

    /// Gives the request its PSNs (IBTA 9.7.2).
    #[inline]
    pub(in super::super) fn start(&mut self, first: Psn, pmtu: Pmtu) {
        self.first_psn = first;
        self.psns = self.count_psns(pmtu);
    }

    /// How many PSNs the request consumes: one for each of its packets, or for a READ one for each
    /// packet of the response (IBTA 9.7.2), and at least one.
    #[inline]
    pub(in super::super) fn count_psns(&self, pmtu: Pmtu) -> u32 {
        match self.op {
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => 1,
            // Its one packet, whatever the path MTU (IBTA annex A19.4).
            SendOp::AtomicWrite | SendOp::Flush { .. } => 1,
            SendOp::Local => 0,
            _ => pmtu.packets(self.len),
        }
    }

    /// The PSN after the last one of the request.
    #[inline]
    pub(in super::super) const fn end_psn(&self) -> Psn {
        self.first_psn.add(self.psns)
    }
}

const NO_FLAGS: Flags = Flags {
    signaled: false,
    solicited: false,
    fence: false,
};

/// The streaks of posts that a program made on all its queue pairs together: see
/// [`autocork`](super::autocork).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streaks {
    /// How many whole ones, at most two.
    pub count: u8,
    /// The smoothed gap between the posts of the latest one, in nanoseconds.
    pub gap: u32,
}

/// The send queue, which the owner keeps. A count `n` identifies each request. The count wraps;
/// after a reset of the QP it starts at 0 again.
pub trait RequestQueue {
    /// The count of the next request to be posted: one past the last there is.
    fn tail(&self) -> u32;
    /// Request `n`. `None` if it was completed or is not posted yet.
    fn get(&self, n: u32) -> Option<&Request>;
    /// Request `n`, as for [`RequestQueue::get`].
    fn get_mut(&mut self, n: u32) -> Option<&mut Request>;
    /// The streaks of posts that the owner keeps for all queue pairs of the program.
    fn streaks(&self) -> Streaks {
        Streaks::default()
    }
    /// Replaces [`RequestQueue::streaks`].
    fn set_streaks(&self, _streaks: Streaks) {}
}

/// The destination of responses: the local memory of a READ or an atomic.
pub trait RequesterOps {
    /// Copies the whole payload of the packet that is being handled to byte `offset` of the local
    /// memory of READ request `n`, and never past its length. Payloads behind a lost one come
    /// before it, and what came before the requester went back may come again.
    ///
    /// # Errors
    ///
    /// The status with which the request is to fail; [`PlaceError::NotPresent`].
    fn place(&mut self, n: u32, offset: u32) -> Result<(), PlaceError>;
    /// Stores the original value that atomic request `n` returns, in host order.
    ///
    /// # Errors
    ///
    /// The status with which the request is to fail; [`PlaceError::NotPresent`].
    fn place_atomic(&mut self, n: u32, original: u64) -> Result<(), PlaceError>;
    /// All bytes of READ request `n` were placed, and nothing is left but its completion.
    ///
    /// # Errors
    ///
    /// The status with which the request is to fail.
    fn finish_read(&mut self, n: u32) -> Result<(), Status>;
    /// Whether the local memory of requests `n` and `other`, READs or atomics, may have bytes in
    /// common.
    fn overlap(&self, n: u32, other: u32) -> bool;
}

/// The completion of a send request. Completions come in the order of posting, one for each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// The request.
    pub n: u32,
    /// Its status.
    pub status: Status,
    /// Bytes transferred, on success.
    pub byte_len: u32,
    /// Whether the consumer gets a completion; the slot is free in any case.
    pub signaled: bool,
}
