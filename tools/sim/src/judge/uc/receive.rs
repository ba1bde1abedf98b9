// SPDX-License-Identifier: GPL-2.0

//! The judge of the receive half of a UC QP: what packets that arrive do to memory and receives.

use super::arrival::Treatment;
use super::UcView;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::judge::decode::Seen;
use crate::network::frame;

/// A packet of a message: its number in the message of that number.
pub type PacketOf = (usize, u32);

impl UcView<'_> {
    /// The message and the packet of it that a frame is. Its bytes are those that were sent.
    pub fn identify(&self, end: usize, frame: &[u8]) -> Result<PacketOf, Violation> {
        let seen = frame::roce(frame).and_then(Seen::decode_uc);
        let seen = seen.ok_or_else(|| format!("uc{end}: gets no UC packet"))?;
        let sender = self.peer(end);
        let mut sent = sender.flow.messages.iter().enumerate().rev();
        let found = sent.find_map(|(m, message)| Some((m, message.packet(seen.psn)?)));
        let (m, k) = found.ok_or_else(|| format!("uc{end}: packet never sent, {seen:x?}"))?;
        let same = seen.payload == sender.flow.messages[m].payload(k, sender.pmtu);
        ensure!(same, "uc{end}: packet {k} of {m} changed on its way");
        Ok((m, k))
    }

    /// The QP takes up to `limit` segments with such a payload at a time, the first one with `len`
    /// bytes: more than one only of whole middle packets that are due.
    pub fn check_limit(
        &self,
        end: usize,
        packet: PacketOf,
        limit: u16,
        middle: bool,
        len: u32,
    ) -> Result<(), Violation> {
        let due = self.responders[end].in_progress() == Some(packet);
        let fine = limit == 1 || due && middle && len == self.ends[end].pmtu;
        ensure!(fine, "uc{end}: takes {limit} of packet {packet:?}");
        Ok(())
    }

    /// The verdict on packets is the right one.
    pub fn check_verdict(
        &self,
        end: usize,
        (m, k): PacketOf,
        right: &Treatment,
        verdict: Verdict,
    ) -> Result<(), Violation> {
        let wanted = right.verdict;
        let same = verdict == wanted;
        ensure!(
            same,
            "uc{end}: {verdict:?} for packet {k} of message {m}, not {wanted:?}"
        );
        Ok(())
    }

    /// Packets have changed the memory that they may change, completed the right receive, and done
    /// nothing else (IBTA 9.7.4.1.5, 9.8.2.2, 9.9.3).
    pub fn check_effect(
        &self,
        end: usize,
        (m, k): PacketOf,
        right: &Treatment,
        payload: &[u8],
        received: &[(usize, RecvCompletion)],
    ) -> Result<(), Violation> {
        let memory = &self.hosts[self.ends[end].host].memory;
        if let Some(at) = right.place {
            let same = memory.read(at, payload.len()) == payload;
            ensure!(same, "uc{end}: packet {k} of {m} is stored wrong");
            // The guard zones and what else is near are untouched.
            let near = memory.unaccepted(at - 8, 8);
            ensure!(near.is_none(), "uc{end}: written before packet {k} of {m}");
        }
        let one = received.len() == usize::from(right.completes.is_some());
        ensure!(
            one,
            "uc{end}: packet {k} of {m} completes {received:?}, not {:?}",
            right.completes
        );
        if let (Some((slot, wanted)), Some((done, got))) = (right.completes, received.first()) {
            // Of an error the status alone counts (IBTA 11.4.2.1).
            let same = match wanted.status {
                Status::Success => *got == wanted,
                status => got.status == status,
            };
            ensure!(
                *done == slot && same,
                "uc{end}: receive {done} completes as {got:?}, not {slot} as {wanted:?}"
            );
            self.check_receive_once(end, slot, got.status)?;
        }
        match right.whole {
            true => self.check_whole(end, m, right),
            false => Ok(()),
        }
    }

    /// A message is whole: its own bytes are where they belong (IBTA 9.8.2).
    fn check_whole(&self, end: usize, m: usize, right: &Treatment) -> Result<(), Violation> {
        let e = &self.ends[end];
        let message = &self.peer(end).flow.messages[m];
        let receive = right.completes.map(|(slot, _)| e.recv.slots[slot].at);
        let (Some(at), false) = (message.place.or(receive), message.data.is_empty()) else {
            return Ok(());
        };
        let got = self.hosts[e.host].memory.read(at, message.data.len());
        let same = got == message.data;
        ensure!(
            "IBTA 9.8.2",
            same,
            "uc{end}: message {m} arrives with other bytes"
        );
        Ok(())
    }

    /// A receive completes once.
    pub fn check_receive_once(
        &self,
        end: usize,
        slot: usize,
        status: Status,
    ) -> Result<(), Violation> {
        let before = self.ends[end].recv.slots[slot].done;
        ensure!(
            before.is_none(),
            "uc{end}: receive {slot} completes as {status:?} after {before:?}"
        );
        Ok(())
    }

    /// The QP, which goes to error or is reset, says whether a receive is in use.
    pub fn check_in_use(&self, end: usize, in_use: bool) -> Result<(), Violation> {
        let wanted = self.responders[end].recv_in_use;
        let same = in_use == wanted;
        ensure!(same, "uc{end}: a receive in use: {in_use}, not {wanted}");
        Ok(())
    }
}
