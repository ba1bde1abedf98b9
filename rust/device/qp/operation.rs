// SPDX-License-Identifier: GPL-2.0

//! The table of operations: the properties of each that reading and writing a send WQE depend on.

use crate::device::uabi::wqe::Op;
use crate::rdma::wc::WcOpcode;

/// The form of the union in a WQE of a connected QP. In a WQE of a datagram QP the union is always
/// the destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The union is unused: the receiver decides on the place of the bytes.
    None,
    /// An address and a key of the peer.
    Rdma,
    /// The same, and the operands.
    Atomic,
    /// The same, and the placement type and selectivity level.
    Flush,
    /// The parameters of a bind request.
    Bind,
    /// The parameters of a registration.
    Register,
}

/// The data that the response stores in the memory that the SGEs name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// Nothing: the SGEs name the message to be sent.
    Nothing,
    /// The message, of a READ.
    Message,
    /// The original value of an atomic operation, eight bytes.
    Atomic,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) form: Form,
    pub(crate) response: Response,
    /// Datagram services support it (IBTA 9.8.3: SEND alone).
    pub(crate) datagram: bool,
    /// It sends nothing: it changes what a key of this side names.
    pub(crate) local: bool,
    /// It has neither SGEs nor inline data; those of the WQE are ignored.
    pub(crate) bare: bool,
    /// The message has eight bytes. If there are no SGEs it stands in their place.
    pub(crate) word: bool,
    /// The opcode of its completion.
    pub(crate) completion: WcOpcode,
}

impl Operation {
    /// The row of `op`.
    #[inline]
    pub(crate) const fn of(op: Op) -> Self {
        const SEND: Operation = Operation {
            form: Form::None,
            response: Response::Nothing,
            datagram: false,
            local: false,
            bare: false,
            word: false,
            completion: WcOpcode::Send,
        };
        const LOCAL: Operation = Operation {
            local: true,
            bare: true,
            completion: WcOpcode::LocalInv,
            ..SEND
        };
        const WRITE: Operation = Operation {
            form: Form::Rdma,
            completion: WcOpcode::RdmaWrite,
            ..SEND
        };
        const ATOMIC: Operation = Operation {
            form: Form::Atomic,
            response: Response::Atomic,
            ..SEND
        };
        match op {
            Op::Send | Op::SendImm => Operation {
                datagram: true,
                ..SEND
            },
            Op::SendInv => SEND,
            Op::Write | Op::WriteImm => WRITE,
            Op::Read | Op::ReadInv => Operation {
                response: Response::Message,
                completion: WcOpcode::RdmaRead,
                ..WRITE
            },
            Op::CompareSwap => Operation {
                completion: WcOpcode::CompSwap,
                ..ATOMIC
            },
            Op::FetchAdd => Operation {
                completion: WcOpcode::FetchAdd,
                ..ATOMIC
            },
            Op::Flush => Operation {
                form: Form::Flush,
                bare: true,
                completion: WcOpcode::Flush,
                ..SEND
            },
            Op::AtomicWrite => Operation {
                word: true,
                completion: WcOpcode::AtomicWrite,
                ..WRITE
            },
            Op::LocalInv => LOCAL,
            Op::BindMw => Operation {
                form: Form::Bind,
                completion: WcOpcode::BindMw,
                ..LOCAL
            },
            Op::RegMr => Operation {
                form: Form::Register,
                completion: WcOpcode::RegMr,
                ..LOCAL
            },
        }
    }

    /// Whether the response is stored in the memory that the SGEs name.
    #[inline]
    pub(crate) fn stores_response(&self) -> bool {
        self.response != Response::Nothing
    }
}
