// SPDX-License-Identifier: GPL-2.0

//! The table of operations: what is peculiar to each, for all that read and write send WQEs.

use crate::device::uabi::wqe::Op;
use crate::rdma::wc::WcOpcode;

/// The form of a WQE's union where the QP is connected. A datagram's is its destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// None: the receiver says where its bytes go.
    None,
    /// An address and a key of the peer's.
    Rdma,
    /// The same, and the operands.
    Atomic,
}

/// What the response stores in the memory that the SGEs name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// Nothing: they name the message.
    Nothing,
    /// The message.
    Message,
    /// The eight bytes that an atomic operation found.
    Atomic,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) form: Form,
    pub(crate) response: Response,
    /// Datagram services have it (IBTA 9.8.3: SEND alone).
    pub(crate) datagram: bool,
    /// What its completion says.
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
            completion: WcOpcode::Send,
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
            Op::Read => Operation {
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
        }
    }

    /// Whether the response is stored in the memory that the SGEs name.
    #[inline]
    pub(crate) fn stores_response(&self) -> bool {
        self.response != Response::Nothing
    }
}
