// SPDX-License-Identifier: GPL-2.0

//! The judge of receive completions: in order, once, and with what was sent; and of the verdicts on
//! packets.

use super::risk::may_fail_receive;
use super::view::View;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::qp::by_delay;
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::Verb;
use crate::profile::Profile;

impl View<'_> {
    /// A receive completes once; one of a shared queue was taken before.
    pub fn check_receive_once(
        &self,
        qp: usize,
        slot: usize,
        c: &RecvCompletion,
    ) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let done = q.recv.slots[slot].done;
        ensure!(
            done.is_none(),
            "qp{qp}: receive {slot}: {c:?} after {done:?}"
        );
        let taken = slot < q.recv.next || self.hosts[q.host].srq.is_none();
        ensure!(taken, "qp{qp}: receive {slot}: {c:?}, and it was not taken");
        Ok(())
    }

    /// The request of the peer that receive `slot` is for: its number.
    pub fn sent_to(&self, qp: usize, slot: usize) -> Result<usize, Violation> {
        let index = self.peer(qp).flow.consuming.get(slot).copied();
        index.ok_or_else(|| "nobody sent that".into())
    }

    /// A receive that succeeds has what was sent, and nothing else was written.
    pub fn check_received(
        &self,
        qp: usize,
        slot: usize,
        c: &RecvCompletion,
    ) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let dead = q.fate.dead;
        ensure!(!dead, "success on a QP in error");
        let flow = &self.peer(qp).flow;
        ensure!(slot == flow.received, "expected receive {}", flow.received);
        let index = self.sent_to(qp, slot)?;
        let op = &flow.ops[index];
        check_attributes(op, c)?;
        let (recv, host) = (&q.recv.slots[slot], &self.hosts[q.host]);
        if let Some(key) = c.inv_rkey {
            ensure!(!host.regions.is_valid(key), "the key is still valid");
        }
        let mut used = 0;
        if op.verb == Verb::WriteImm {
            let at = op.inbox.unwrap_or(0);
            let got = host.memory.read(flow.inbox_at + at, op.len as usize);
            let check = flow.check_inbox(got, at, index + 1, flow.ops.len());
            check.map_err(|byte| format!("byte {byte} of the WRITE is missing"))?;
        } else {
            used = op.len as usize;
            ensure!(host.memory.read(recv.at, used) == op.data, "wrong data");
        }
        let rest = recv.cap as usize - used;
        let rest = host.memory.unaccepted(recv.at + used, rest);
        ensure!(rest.is_none(), "byte {rest:?} after the data was touched");
        Ok(())
    }

    /// A receive fails once, with the error that the request for it deserves, or is flushed.
    pub fn check_receive_error(
        &self,
        qp: usize,
        slot: usize,
        status: Status,
    ) -> Result<(), Violation> {
        let q = &self.qps[qp];
        if status == Status::WrFlush {
            ensure!(q.fate.dead, "flushed on a healthy QP");
            return Ok(());
        }
        let earlier = q.fate.receive_error;
        ensure!(
            earlier.is_none(),
            "a second receive error after {earlier:?}"
        );
        let op = &self.peer(qp).flow.ops[self.sent_to(qp, slot)?];
        if may_fail_receive(op, status) {
            return Ok(());
        }
        let expected = match op.fault {
            // It takes the receive if its only packet is the one that is refused.
            Some(Fault::NotEnabled | Fault::RemoteDefect) if op.verb == Verb::WriteImm => {
                Status::LocAccess
            }
            Some(Fault::TooLong) => Status::LocLen,
            Some(Fault::BrokenReceive) => Status::LocProt,
            // A SEND with invalidate of a key that is none.
            Some(Fault::NotEnabled) => Status::RemInvReq,
            other => return Err(format!("{other:?} gives no such error").into()),
        };
        ensure!(status == expected, "expected {expected:?}");
        Ok(())
    }

    /// A packet is dropped for a reason; `empty` says that the receive queue was.
    pub fn check_dropped(
        &self,
        qp: usize,
        cause: DropReason,
        empty: bool,
    ) -> Result<(), Violation> {
        if self.is_hostile() {
            return Ok(());
        }
        let q = &self.qps[qp];
        match cause {
            DropReason::Unplaceable => {
                let faulty = q.flow.doomed.map(|index| q.flow.ops[index].fault);
                let lost = q.flow.ops.iter().any(|op| op.risk.local);
                let mine = [Some(Fault::Unplaceable), Some(Fault::Unfinishable)];
                let mine = lost || faulty.is_some_and(|fault| mine.contains(&fault));
                ensure!(mine, "qp{qp}: memory did not take an honest response");
            }
            DropReason::BadResponse
            | DropReason::Cnp
            | DropReason::Service
            | DropReason::QKey
            | DropReason::TooLong
            | DropReason::PKey => {
                return Err(format!("qp{qp}: an honest packet is dropped for {cause:?}").into());
            }
            DropReason::Refused => {
                let doomed = !self.remote_dooms(qp).is_empty();
                ensure!(doomed, "qp{qp}: an honest request is refused");
            }
            _ => {}
        }
        // On a network without faults no packet may be dropped. But a long round trip may have cut
        // the window, so that a packet of which others were to follow is the last one: it is sent
        // again to ask for an acknowledgement.
        let peer = self.peer(qp);
        let asks_again = cause == DropReason::Duplicate && by_delay(peer.qpn, peer.setup.pmtu);
        let dead = q.fate.dead || self.peer(qp).fate.dead;
        let undisturbed = self.plan.profile == Profile::Clean && !self.plan.late_receives;
        ensure!(
            dead || empty || asks_again || !undisturbed,
            "qp{qp}: dropped for {cause:?} on a clean network"
        );
        Ok(())
    }
}

/// The fields of a receive's completion are those of the request.
fn check_attributes(op: &Op, c: &RecvCompletion) -> Result<(), Violation> {
    ensure!(op.fault.is_none(), "success in spite of {:?}", op.fault);
    ensure!(
        c.byte_len == op.len,
        "{} bytes, sent were {}",
        c.byte_len,
        op.len
    );
    let imm = matches!(op.verb, Verb::SendImm | Verb::WriteImm).then_some(op.imm);
    ensure!(c.imm == imm, "immediate data, sent was {imm:?}");
    let inv = (op.verb == Verb::SendInv).then_some(op.inv);
    ensure!(c.inv_rkey == inv, "invalidated key, sent was {inv:?}");
    ensure!(c.solicited == op.solicited, "solicited");
    let write = op.verb == Verb::WriteImm;
    ensure!(c.write_imm == write, "write, sent was {:?}", op.verb);
    Ok(())
}
