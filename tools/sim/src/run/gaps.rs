// SPDX-License-Identifier: GPL-2.0

//! Sabotage of what a requester does about gaps in READ responses.

use crate::api::*;
use crate::host::sabotage::{Sabotage, Saboteur};
use crate::judge::decode::{op, Seen};
use crate::judge::requester_wire::Watch;
use crate::model::flow::Flow;
use crate::run::world::World;
use oxe_proto::wire::{Ext, Kind, PacketRepr, Psn};

impl World {
    /// A request for a gap begins before the oldest missing packet, or goes on behind the last one.
    pub fn tamper_with_gap(&mut self, qp: usize, transmit: &mut Transmit) {
        let q = &self.qps[qp];
        let bth = &mut transmit.header.bth;
        let (packet, pmtu) = (q.flow.packet(bth.psn.get()), q.flow.pmtu);
        let Ext::Reth(reth) = &mut transmit.header.ext else {
            return;
        };
        let read = bth.opcode.kind() == Kind::ReadRequest;
        let gap = self.watches[qp].asks_for_gap(&q.flow, packet, reth.dma_len);
        let Some(inside) = gap.filter(|_| read) else {
            return;
        };
        if inside && self.saboteur.strikes(Sabotage::LowGap) {
            bth.psn = bth.psn.prev();
            reth.va = reth.va.wrapping_sub(pmtu.into());
            reth.dma_len += pmtu;
        } else if self.saboteur.strikes(Sabotage::WideGap) {
            reth.dma_len += pmtu;
        }
    }
}

/// A READ response that comes behind a gap is handed to the requester under the PSN of the missing
/// one.
pub fn fill_gap(
    saboteur: &mut Saboteur,
    watch: &Watch,
    flow: &Flow,
    seen: &[Seen],
    repr: &mut PacketRepr,
) {
    let [only] = seen else { return };
    let missing = watch.missing_before(flow, flow.packet(only.psn));
    let missing = missing.filter(|_| only.opcode == op::READ_MIDDLE);
    if let Some(missing) = missing.filter(|_| saboteur.strikes(Sabotage::FillGap)) {
        repr.bth.psn = Psn::new(flow.psn(missing));
    }
}
