// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams: UD queue pairs and the general services interface, QP 1 (IBTA 9.8.3).
//!
//! A message is one packet, nothing is acknowledged, and a datagram without a fitting receive is
//! dropped.

use super::common::{DropReason, Status};
use super::wire::{
    pad_for, BthRepr, DethRepr, Ext, ImmDtRepr, Opcode, PKey, PacketRepr, Psn, Qpn, Service,
};

/// A Q_Key with this bit in a work request stands for the QP's own one (IBTA 10.2.5, 11.4.1.1).
pub const QKEY_FROM_QP: u32 = 1 << 31;

/// The Q_Key of QP 1 (IBTA 10.2.5, well-known Q_Key).
pub const QKEY_GSI: u32 = 0x8001_0000;

/// The attributes of a datagram queue pair that matter to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramAttr {
    /// The QP's own number.
    pub src_qpn: Qpn,
    /// The QP's Q_Key.
    pub qkey: u32,
    /// The QP's partition.
    pub pkey: PKey,
    /// The MTU of the port in bytes.
    pub mtu: u32,
}

/// One message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes of the message.
    pub len: u32,
    /// The destination QP.
    pub dest_qpn: Qpn,
    /// The Q_Key of the destination QP, or any value with [`QKEY_FROM_QP`].
    pub qkey: u32,
    /// Immediate data, in wire order.
    pub imm: Option<[u8; 4]>,
    /// Asks for a solicited event.
    pub solicited: bool,
}

/// The send side: counts PSNs, which the receiver does not check (IBTA 9.8.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSender {
    psn: Psn,
}

impl DatagramSender {
    /// Begins with `psn`.
    pub const fn new(psn: Psn) -> Self {
        DatagramSender { psn }
    }

    /// The PSN of the next packet.
    pub const fn next_psn(&self) -> Psn {
        self.psn
    }

    /// The headers of the packet for `datagram`. Its payload is the whole message.
    ///
    /// # Errors
    ///
    /// [`Status::LocLen`] when the message does not fit in one packet.
    #[inline]
    pub fn build(
        &mut self,
        attr: &DatagramAttr,
        datagram: &Datagram,
    ) -> Result<PacketRepr, Status> {
        if datagram.len > attr.mtu {
            return Err(Status::LocLen);
        }
        let deth = DethRepr {
            qkey: if datagram.qkey & QKEY_FROM_QP != 0 {
                attr.qkey
            } else {
                datagram.qkey
            },
            src_qp: attr.src_qpn,
        };
        let (opcode, ext) = match datagram.imm {
            None => (Opcode::UdSendOnly, Ext::Deth(deth)),
            Some(data) => (
                Opcode::UdSendOnlyImm,
                Ext::DethImm(deth, ImmDtRepr { data }),
            ),
        };
        let mut bth = BthRepr::new(opcode, attr.pkey, datagram.dest_qpn, self.psn);
        bth.solicited = datagram.solicited;
        bth.pad = pad_for(datagram.len as usize);
        self.psn = self.psn.next();
        Ok(PacketRepr { bth, ext })
    }

    /// The packet built last was not sent after all.
    pub fn undo(&mut self, packet: &PacketRepr) {
        self.psn = packet.bth.psn;
    }
}

/// The header fields of a datagram that may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramRecv {
    /// The source QP.
    pub src_qpn: Qpn,
    /// Its partition.
    pub pkey: PKey,
    /// Immediate data, in wire order.
    pub imm: Option<[u8; 4]>,
    /// The sender asked for a solicited event.
    pub solicited: bool,
}

/// Checks whether a UD queue pair with these attributes takes a packet (IBTA 9.6.1, 9.8.3). The
/// packet must belong to one of the partitions `pkeys`: the QP's own partition, or for QP 1 all of
/// the port (IBTA 10.9.3).
///
/// # Errors
///
/// The reason under which the packet is counted and silently dropped.
#[inline]
pub fn check_recv(
    pkt: &PacketRepr,
    payload_len: u32,
    attr: &DatagramAttr,
    pkeys: &[PKey],
) -> Result<DatagramRecv, DropReason> {
    let info = pkt.bth.opcode.info();
    let deth = match (info.service, pkt.ext.deth()) {
        (Service::Ud, Some(deth)) => deth,
        (Service::Cnp, _) => return Err(DropReason::Cnp),
        _ => return Err(DropReason::Service),
    };
    if !pkeys.iter().any(|pkey| pkt.bth.pkey.matches(*pkey)) {
        return Err(DropReason::PKey);
    }
    if deth.qkey != attr.qkey {
        return Err(DropReason::QKey);
    }
    if payload_len > attr.mtu {
        return Err(DropReason::TooLong);
    }
    Ok(DatagramRecv {
        src_qpn: deth.src_qp,
        pkey: pkt.bth.pkey,
        imm: pkt.ext.imm().map(|imm| imm.data),
        solicited: pkt.bth.solicited,
    })
}
