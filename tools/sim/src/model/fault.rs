// SPDX-License-Identifier: GPL-2.0

//! Why requests fail.

use crate::api::Status;

/// Why a request must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key that does not exist, a range beyond the region, or a right that was not given.
    NotEnabled,
    /// The QP at the peer does not allow the operation.
    Disallowed,
    /// An atomic or ATOMIC WRITE on an address that is no multiple of eight.
    Misaligned,
    /// A SEND longer than the receive that it meets.
    TooLong,
    /// The receive that it meets is garbage.
    BrokenReceive,
    /// The peer's memory does not work.
    RemoteDefect,
    /// The request did not pass the device's checks.
    Unfit(Status),
    /// The payload cannot be read when a packet is made of it.
    Unreadable,
    /// The answer cannot be stored.
    Unplaceable,
    /// A WRITE or ATOMIC WRITE that announces another length than it has: only a broken peer sends
    /// such.
    Lie,
    /// A FLUSH with reserved values.
    Reserved,
    /// More READs and atomics under way than the peer has resources for.
    TooMany,
    /// The responder cannot read what it has promised to send.
    ReadFails,
    /// A local operation cannot be carried out.
    Unbindable,
    /// What is left to be done when a READ is whole fails.
    Unfinishable,
}

impl Fault {
    /// With which status the request may complete.
    pub fn statuses(self) -> &'static [Status] {
        use Status::*;
        match self {
            Fault::NotEnabled | Fault::ReadFails => &[RemAccess],
            // An operation that the receive queue does not support (IBTA 11.6.2).
            Fault::Disallowed
            | Fault::Lie
            | Fault::Misaligned
            | Fault::TooLong
            | Fault::Reserved
            | Fault::TooMany => &[RemInvReq],
            Fault::BrokenReceive | Fault::RemoteDefect => &[RemOp],
            Fault::Unbindable | Fault::Unfinishable => &[MwBind],
            Fault::Unfit(LocLen) => &[LocLen],
            Fault::Unfit(LocQpOp) => &[LocQpOp],
            Fault::Unfit(_) | Fault::Unreadable | Fault::Unplaceable => &[LocProt],
        }
    }

    /// Whether the responder finds it, refuses with a NAK and goes to error itself.
    pub fn is_remote(self) -> bool {
        use Fault::*;
        !matches!(
            self,
            Unfit(_) | Unreadable | Unplaceable | Unbindable | Unfinishable
        )
    }
}

/// Why a request may fail, though it need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Risk {
    /// Its local memory is gone.
    pub local: bool,
    /// The region at the peer is gone.
    pub remote: bool,
    /// The memory of the receive that it meets is gone.
    pub receive: bool,
}

impl Risk {
    /// The faults that this may come to.
    pub fn faults(self) -> impl Iterator<Item = Fault> {
        let all = [
            (self.local, Fault::Unreadable),
            (self.remote, Fault::NotEnabled),
            (self.receive, Fault::BrokenReceive),
        ];
        all.into_iter().filter(|(may, _)| *may).map(|(_, f)| f)
    }
}
