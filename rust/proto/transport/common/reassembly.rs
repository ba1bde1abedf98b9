// SPDX-License-Identifier: GPL-2.0

//! Reassembly: the packets of a SEND or WRITE message, which arrive in order, are placed where the
//! message goes (IBTA 9.7.4.1). It knows nothing of sequence numbers and responses: what a refused
//! packet means to its connection is for the transport service to say.

use super::wire::{Kind, PacketRepr, RethRepr};
use super::{
    AccessError, PlaceError, Pmtu, RecvCompletion, RecvStart, RemoteAccess, ResponderOps, Status,
    MAX_MESSAGE,
};

/// The message in progress: more of its packets are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// None: the next packet must begin one.
    None,
    /// A SEND, with the number of bytes that have arrived.
    Send { received: u32 },
    /// A WRITE of `total` bytes, with the number of bytes that have arrived.
    Write { received: u32, total: u32 },
}

/// The reason that a request packet is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    /// There is no receive request.
    NotReady,
    /// A page of the memory is not present. The packet has changed nothing, and may come again.
    NotPresent,
    /// The packet does not continue the message, is not permitted, or has a wrong length.
    Invalid,
    /// The memory that the packet names may not be accessed.
    Denied(AccessError),
    /// The message does not fit in its receive request.
    TooLong,
    /// The receive request is not usable, for this reason.
    LocalError(Status),
    /// The key that the message names may not be invalidated.
    NotInvalidated,
}

impl Refusal {
    /// The status with which the receive request of the message completes, where the connection
    /// ends with this refusal. `None`: it is flushed.
    fn recv_status(self) -> Option<Status> {
        match self {
            Refusal::NotReady | Refusal::NotPresent | Refusal::Invalid => None,
            Refusal::Denied(_) => Some(Status::LocAccess),
            Refusal::TooLong => Some(Status::LocLen),
            Refusal::LocalError(status) => Some(status),
            Refusal::NotInvalidated => Some(Status::RemInvReq),
        }
    }
}

impl From<AccessError> for Refusal {
    fn from(denied: AccessError) -> Self {
        match denied {
            AccessError::NotPresent => Refusal::NotPresent,
            denied => Refusal::Denied(denied),
        }
    }
}

impl From<PlaceError> for Refusal {
    fn from(why: PlaceError) -> Self {
        match why {
            PlaceError::NotPresent => Refusal::NotPresent,
            PlaceError::Failed(Status::LocLen) => Refusal::TooLong,
            PlaceError::Failed(status) => Refusal::LocalError(status),
        }
    }
}

/// The reassembly of one connection.
#[derive(Debug)]
pub(in super::super) struct Reassembly {
    message: Message,
    /// A receive work request is in use.
    recv_in_use: bool,
}

impl Reassembly {
    /// No message is in progress.
    pub(in super::super) const NEW: Self = Reassembly {
        message: Message::None,
        recv_in_use: false,
    };

    /// Whether no message is in progress.
    #[inline]
    pub(in super::super) fn is_idle(&self) -> bool {
        self.message == Message::None
    }

    /// Drops the message in progress. A receive request that it uses stays in use.
    pub(in super::super) fn restart(&mut self) {
        self.message = Message::None;
    }

    /// Drops the message in progress. Returns whether a receive request was in use, which will not
    /// be completed: `true` once for each.
    pub(in super::super) fn abandon_recv(&mut self) -> bool {
        self.message = Message::None;
        core::mem::take(&mut self.recv_in_use)
    }

    /// How many middle packets may be taken at a time.
    #[inline]
    pub(in super::super) fn max_segments(&self, pmtu: Pmtu) -> u32 {
        match self.message {
            Message::None => 1,
            Message::Send { .. } => u32::MAX,
            // A further packet would exceed `total`. It is checked, and refused, on its own.
            Message::Write { received, total } => {
                total.saturating_sub(received).saturating_sub(1) / pmtu.bytes()
            }
        }
    }

    /// Takes the next receive request.
    #[inline]
    fn start_recv<T: ResponderOps>(&mut self, ops: &mut T) -> Result<(), Refusal> {
        let start = ops.recv_start();
        self.recv_in_use |= start != RecvStart::Empty;
        match start {
            RecvStart::Taken => Ok(()),
            RecvStart::Empty => Err(Refusal::NotReady),
            RecvStart::LocalError(status) => Err(Refusal::LocalError(status)),
        }
    }

    /// The connection ends with this refusal of a packet: completes the receive request in use with
    /// an error, unless it is to be flushed. A WRITE with immediate whose memory is refused takes
    /// one for this (IBTA 11.6.2, local access error), if its packet is that with the immediate.
    #[cold]
    pub(in super::super) fn fail_recv<T: ResponderOps>(
        &mut self,
        refusal: Refusal,
        pkt: &PacketRepr,
        ops: &mut T,
    ) {
        let kind = pkt.bth.opcode.kind();
        let takes = kind == Kind::Write && pkt.ext.imm().is_some() && !self.recv_in_use;
        if takes && matches!(refusal, Refusal::Denied(_)) {
            // Without one, or with an invalid one, the refusal is the same.
            let _ = self.start_recv(ops);
        }
        let Some(status) = refusal.recv_status().filter(|_| self.recv_in_use) else {
            return;
        };
        self.recv_in_use = false;
        self.message = Message::None;
        ops.recv_done(RecvCompletion {
            status,
            write_imm: kind == Kind::Write,
            byte_len: 0,
            imm: None,
            inv_rkey: None,
            solicited: false,
        });
    }

    /// Completes the receive request in use with success.
    #[inline]
    fn finish_recv<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        write_imm: bool,
        byte_len: u32,
        ops: &mut T,
    ) {
        self.message = Message::None;
        self.recv_in_use = false;
        ops.recv_done(RecvCompletion {
            status: Status::Success,
            write_imm,
            byte_len,
            imm: pkt.ext.imm().map(|imm| imm.data),
            inv_rkey: pkt.ext.ieth().map(|ieth| ieth.rkey),
            solicited: pkt.bth.solicited,
        });
    }

    /// Takes a packet of a SEND.
    #[inline]
    pub(in super::super) fn send<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let position = pkt.bth.opcode.position();
        // IBTA 9.7.4.1.3: without a message in progress a first or only packet, otherwise a middle
        // or last one of the same message.
        let received = match self.message {
            Message::None if position.is_start() => {
                self.start_recv(ops)?;
                0
            }
            Message::Send { received } if !position.is_start() => received,
            _ => return Err(Refusal::Invalid),
        };
        let after = received.saturating_add(payload_len);
        if after > MAX_MESSAGE {
            return Err(Refusal::TooLong);
        }
        if payload_len > 0 {
            ops.recv_place(received)?;
        }
        if !position.is_end() {
            self.message = Message::Send { received: after };
            return Ok(());
        }
        if let Some(ieth) = pkt.ext.ieth() {
            ops.invalidate(ieth.rkey)
                .map_err(|_| Refusal::NotInvalidated)?;
        }
        self.finish_recv(pkt, false, after, ops);
        Ok(())
    }

    /// Takes a packet of a WRITE. `access` is what the peer may do.
    #[inline]
    pub(in super::super) fn write<T: ResponderOps>(
        &mut self,
        access: RemoteAccess,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let ends = pkt.bth.opcode.position().is_end();
        let (received, total) = match (self.message, pkt.ext.reth()) {
            (Message::None, Some(reth)) => (0, begin_write(access, &reth)?),
            (Message::Write { received, total }, None) => (received, total),
            _ => return Err(Refusal::Invalid),
        };
        // IBTA 9.7.4.1.6: the packets must carry exactly as many bytes as the RETH says.
        let after = received.saturating_add(payload_len);
        let fits = if ends { after == total } else { after < total };
        if !fits {
            return Err(Refusal::Invalid);
        }
        if let (Some(reth), true) = (pkt.ext.reth(), total > 0) {
            ops.write_start(reth.va, reth.rkey, total)?;
        }
        let imm = pkt.ext.imm().is_some();
        if imm {
            self.start_recv(ops)?;
        }
        if payload_len > 0 {
            ops.write_place(received)?;
        }
        if imm {
            self.finish_recv(pkt, true, total, ops);
        }
        self.message = if ends {
            Message::None
        } else {
            Message::Write {
                received: after,
                total,
            }
        };
        Ok(())
    }
}

/// Checks the RETH of a WRITE; returns its length.
#[inline]
fn begin_write(access: RemoteAccess, reth: &RethRepr) -> Result<u32, Refusal> {
    if !access.write || reth.dma_len > MAX_MESSAGE {
        return Err(Refusal::Invalid);
    }
    Ok(reth.dma_len)
}
