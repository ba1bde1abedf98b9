// SPDX-License-Identifier: GPL-2.0

//! The counters of a port. `rdma statistic show` and the files under `hw_counters` show them.

use crate::proto::transport::DropReason;
use crate::proto::wire::ParseError;
use kernel::str::CStr;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Counters that are neither an error of the parser nor a drop reason of the transport.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    SentPackets = 0,
    RcvdPackets = 1,
    SendErrors = 2,
    LinkDowned = 3,
    BadIcrc = 4,
    NoQp = 5,
    WrongAddress = 6,
    NoMemory = 7,
    WrongSrcQp = 8,
    /// Counted besides `BadIcrc`.
    BadIcrcGso = 9,
    GroupOverflow = 10,
    WrongNamespace = 11,
}

const OWN: usize = 12;
const TOTAL: usize = OWN + ParseError::COUNT + DropReason::COUNT;

/// The names of the counters, in the order of their values.
pub(crate) const NAMES: [&CStr; TOTAL] = [
    c"sent_pkts",
    c"rcvd_pkts",
    c"send_err",
    c"link_downed",
    c"rcvd_bad_icrc",
    c"rcvd_no_qp",
    c"rcvd_wrong_address",
    c"send_no_memory",
    c"rcvd_wrong_src_qp",
    c"rcvd_bad_icrc_gso",
    c"rcvd_group_overflow",
    c"rcvd_wrong_netns",
    c"rcvd_too_short",
    c"rcvd_bad_version",
    c"rcvd_unknown_opcode",
    c"rcvd_bad_pad",
    c"rcvd_length_underflow",
    c"rcvd_unexpected_payload",
    c"rcvd_qp_state",
    c"rcvd_wrong_service",
    c"rcvd_bad_pkey",
    c"rcvd_bad_qkey",
    c"rcvd_too_long",
    c"duplicate_request",
    c"unknown_duplicate",
    c"out_of_seq_request",
    c"sent_rnr_err",
    c"refused_request",
    c"ghost_ack",
    c"response_gap",
    c"bad_response",
    c"out_of_buffer",
    c"rcvd_longer_than_buffer",
    c"rcvd_no_grh",
    c"duplicate_nak",
    c"response_place_err",
    c"duplicate_read_denied",
    c"cnp_ignored",
    c"page_fault",
    c"early_ack",
];

/// The counters of one port. Read and written in any context.
pub(crate) struct Counters([Atomic<u64>; TOTAL]);

impl Counters {
    /// All zero.
    pub(crate) fn new() -> Self {
        Counters(core::array::from_fn(|_| Atomic::new(0)))
    }

    #[inline]
    fn bump(&self, index: usize, by: u32) {
        if let Some(counter) = self.0.get(index).filter(|_| by != 0) {
            counter.add(u64::from(by), Relaxed);
        }
    }

    /// Counts `by`.
    #[inline]
    pub(crate) fn add(&self, what: Count, by: u32) {
        self.bump(what as usize, by);
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&self, what: Count) {
        self.bump(what as usize, 1);
    }

    /// Counts a datagram that is no packet.
    #[inline]
    pub(crate) fn parse_error(&self, error: ParseError) {
        self.bump(OWN + error as usize, 1);
    }

    /// Counts a packet that was dropped.
    #[inline]
    pub(crate) fn dropped(&self, cause: DropReason) {
        self.bump(OWN + ParseError::COUNT + cause as usize, 1);
    }

    /// Copies the values to `out`, in the order of [`NAMES`].
    pub(crate) fn read(&self, out: &mut [u64]) {
        for (value, counter) in out.iter_mut().zip(&self.0) {
            *value = counter.load(Relaxed);
        }
    }
}
