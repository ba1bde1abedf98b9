// SPDX-License-Identifier: GPL-2.0

//! The transport services: how each joins the transport with queues, memory and packets.

pub(crate) mod connected;
mod remote;
pub(crate) mod ud;

use super::send_queue::SendQueue;
use crate::proto::transport::{
    ConnectedQp, Connection, Events, Modify, SendCompletion, State, UcQp, UdModify,
};
use crate::rdma::qp::QpType;
use connected::{Connected, Link, Rc, Resources, Uc};
use kernel::prelude::*;
use ud::Ud;

/// The part of a QP that depends on its transport service.
pub(crate) enum Transport {
    /// RC.
    Rc(Rc),
    /// UC.
    Uc(Uc),
    /// UD and GSI.
    Datagram(Ud),
}

impl Transport {
    /// A QP of this type in the reset state. ENOMEM.
    pub(crate) fn new(kind: QpType, qpn: u32) -> Result<Self> {
        Ok(match kind {
            QpType::Rc => Transport::Rc(Connected::new(Connection::new(Resources::new(0)?))),
            QpType::Uc => Transport::Uc(Connected::new(UcQp::new())),
            QpType::Ud | QpType::Gsi => Transport::Datagram(Ud::new(qpn)),
        })
    }

    /// The state.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self {
            Transport::Rc(rc) => rc.conn.state(),
            Transport::Uc(uc) => uc.conn.state(),
            Transport::Datagram(ud) => ud.qp.state(),
        }
    }

    /// The completion of the oldest request, if it is complete.
    #[inline]
    pub(crate) fn poll_send_completion(&mut self, sq: &mut SendQueue) -> Option<SendCompletion> {
        match self {
            Transport::Rc(rc) => rc.conn.poll_send_completion(sq),
            Transport::Uc(uc) => uc.conn.poll_send_completion(sq),
            Transport::Datagram(ud) => ud.qp.poll_send_completion(sq),
        }
    }

    /// Moves to the error state.
    pub(crate) fn fail(&mut self) {
        let state = Some(State::Err);
        // Every state may become the error state.
        let _ = match self {
            Transport::Rc(rc) => rc.conn.modify(&Modify {
                state,
                ..Modify::default()
            }),
            Transport::Uc(uc) => uc.conn.modify(&Modify {
                state,
                ..Modify::default()
            }),
            Transport::Datagram(ud) => ud.qp.modify(&UdModify {
                state,
                ..UdModify::default()
            }),
        };
    }

    /// Whether a request was completed by a packet, and its completion was not polled.
    #[inline]
    pub(crate) fn has_completion(&self) -> bool {
        match self {
            Transport::Rc(rc) => rc.conn.requester().has_completion(),
            Transport::Uc(_) | Transport::Datagram(_) => false,
        }
    }

    /// The events since the last call.
    #[inline]
    pub(crate) fn take_events(&mut self) -> Events {
        match self {
            Transport::Rc(rc) => rc.conn.take_events(),
            Transport::Uc(uc) => uc.conn.take_events(),
            Transport::Datagram(ud) => ud.qp.take_events(),
        }
    }

    /// The path and the memory of a connection.
    pub(crate) fn link(&mut self) -> Option<&mut Link> {
        match self {
            Transport::Rc(rc) => Some(&mut rc.link),
            Transport::Uc(uc) => Some(&mut uc.link),
            Transport::Datagram(_) => None,
        }
    }

    /// Drops the message that is arriving, and the references to the memory that the peer accesses.
    pub(crate) fn abandon_recv(&mut self) {
        match self {
            Transport::Rc(rc) => rc.conn.abandon_recv(),
            Transport::Uc(uc) => uc.conn.abandon_recv(),
            Transport::Datagram(_) => false,
        };
        if let Some(link) = self.link() {
            link.put_mrs();
        }
    }

    /// No packet refers to the payload of a request any more. Returns whether requests may have
    /// waited for that.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        match self {
            Transport::Rc(rc) => rc.conn.release(),
            Transport::Uc(uc) => uc.conn.release(),
            Transport::Datagram(ud) => ud.qp.release(),
        }
    }
}
