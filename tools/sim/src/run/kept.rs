// SPDX-License-Identifier: GPL-2.0

//! The device keeps request packets that come behind a missing one, and hands them on in their
//! turn.

use crate::api::*;
use crate::check::Violation;
use crate::host::sabotage::Sabotage;
use crate::judge::decode::Seen;
use crate::network::frame;
use crate::run::world::World;
use oxe_proto::wire::Psn;

/// For how many kept packets a QP has memory: some for none, or for few.
pub fn kept_limit(qpn: u32) -> usize {
    match qpn % 8 {
        0 => 0,
        1 => 1,
        2 => 6,
        _ => usize::MAX,
    }
}

impl World {
    /// The QP keeps the packet, which it was given as this frame.
    pub fn note_kept(&mut self, qp: usize, seen: &Seen, frame: &[u8]) -> Result<(), Violation> {
        self.qps[qp].kept.insert(seen.psn, frame.to_vec());
        if self.view().is_hostile() {
            return Ok(());
        }
        let peer = self.qps[qp].peer;
        let packet = self.qps[peer].flow.packet(seen.psn);
        let watch = &mut self.watches[peer];
        let checked = watch.kept.keep(packet, watch.accepted);
        checked.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    /// Hands on the kept packets whose turn has come.
    pub fn hand_on_kept(&mut self, qp: usize) -> Result<(), Violation> {
        while let Some(psn) = self.qps[qp].conn.take_kept() {
            let q = &mut self.qps[qp];
            let Some(mut frame) = q.kept.remove(&psn) else {
                return Err(format!("qp{qp}: asks for packet {psn:#x}, which is not kept").into());
            };
            if self.saboteur.strikes(Sabotage::LoseKept) {
                break;
            }
            let later = q.kept.values().next();
            if let Some(later) = later.filter(|_| self.saboteur.strikes(Sabotage::SwapKept)) {
                frame = later.clone();
            }
            self.judge_handed_on(qp, &frame)?;
            let (parsed, _) = frame::read_unchecked(&frame).map_err(|why| format!("{why:?}"))?;
            let mut repr = parsed.repr;
            repr.bth.psn = Psn::new(psn);
            // Its CNP was due when it came, if one was.
            let _ = self.deliver_one(qp, &repr, &[frame])?;
        }
        let q = &mut self.qps[qp];
        if !q.conn.keeps_requests() {
            q.kept.clear();
        }
        if self.view().is_hostile() || self.qps[qp].conn.is_foreign() {
            return Ok(());
        }
        let watch = &mut self.watches[self.qps[qp].peer];
        let checked = watch.kept.check_rest(watch.accepted);
        checked.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    fn judge_handed_on(&mut self, qp: usize, frame: &[u8]) -> Result<(), Violation> {
        let seen = frame::roce(frame).and_then(Seen::decode);
        let Some(seen) = seen.filter(|_| !self.view().is_hostile()) else {
            return Ok(());
        };
        let peer = self.qps[qp].peer;
        let packet = self.qps[peer].flow.packet(seen.psn);
        let watch = &mut self.watches[peer];
        let checked = watch.kept.hand_on(packet, watch.accepted);
        checked.map_err(|found| found.at(format_args!("qp{qp}")))
    }

    /// The verdict on a packet: after a refusal the QP forgets what it has kept.
    pub fn note_forgotten(&mut self, qp: usize, verdict: Verdict) {
        use DropReason::{NotPresent, NotReady, Refused};
        let refused = matches!(verdict, Verdict::Dropped(NotReady | NotPresent | Refused));
        if refused || !self.qps[qp].conn.state().responds() {
            self.watches[self.qps[qp].peer].kept.forget();
        }
    }
}
