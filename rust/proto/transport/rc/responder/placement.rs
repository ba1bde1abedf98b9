// SPDX-License-Identifier: GPL-2.0

//! ATOMIC WRITEs and FLUSHes of the peer (IBTA annex A19.4). Each takes a responder resource, as
//! READs do, and has a READ response without payload.

use super::common::{Attr, Flush, ResponderOps, ATOMIC_LEN};
use super::resource::{Resource, ResourceKind};
use super::wire::{Kind, PacketRepr};
use super::{Refusal, Responder};

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// Executes an ATOMIC WRITE or a FLUSH.
    #[cold]
    pub(super) fn execute_placement<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        // IBTA 9.7.4.1.4: more outstanding than max_dest_rd_atomic.
        if !self.reassembly.is_idle() || self.ring.vacancy().is_none() {
            return Err(Refusal::Invalid);
        }
        let kind = match pkt.bth.opcode.kind() {
            Kind::AtomicWrite => atomic_write(attr, pkt, ops)?,
            Kind::Flush => flush(attr, pkt, ops)?,
            _ => return Err(Refusal::Invalid),
        };
        self.record(kind, attr);
        Ok(())
    }
}

/// Carries out an ATOMIC WRITE. Its payload has eight bytes: the caller has checked that.
fn atomic_write<T: ResponderOps>(
    attr: &Attr,
    pkt: &PacketRepr,
    ops: &mut T,
) -> Result<ResourceKind, Refusal> {
    let reth = pkt.ext.reth().ok_or(Refusal::Invalid)?;
    // IBTA annex A19.4.2: eight bytes at an address that is a multiple of 8.
    if !attr.access.write || reth.dma_len != ATOMIC_LEN || reth.va & 7 != 0 {
        return Err(Refusal::Invalid);
    }
    ops.atomic_write(reth.va, reth.rkey)?;
    Ok(ResourceKind::AtomicWrite)
}

/// Carries out a FLUSH.
fn flush<T: ResponderOps>(
    attr: &Attr,
    pkt: &PacketRepr,
    ops: &mut T,
) -> Result<ResourceKind, Refusal> {
    let feth = pkt.ext.feth().ok_or(Refusal::Invalid)?;
    let reth = pkt.ext.reth().ok_or(Refusal::Invalid)?;
    // IBTA annex A19.4.1: reserved values, and placement types that the QP does not allow.
    let allowed = (attr.access.flush_global || !feth.is_global())
        && (attr.access.flush_persistent || !feth.is_persistent());
    if !feth.is_valid() || !allowed {
        return Err(Refusal::Invalid);
    }
    ops.flush(&Flush {
        rkey: reth.rkey,
        // IBTA annex A19.4.1: for a whole region address and length mean nothing.
        range: (!feth.is_whole_region()).then_some((reth.va, reth.dma_len)),
        global: feth.is_global(),
        persistent: feth.is_persistent(),
    })?;
    Ok(ResourceKind::Flush)
}
