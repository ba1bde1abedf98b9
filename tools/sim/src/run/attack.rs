// SPDX-License-Identifier: GPL-2.0

//! The attacker: sends packets with a right ICRC into connections of others. It knows addresses,
//! QP numbers, keys and about which PSN is due, which is more than attackers know.
//!
//! Such packets may end a connection and may do what the peer is allowed to. They may not make the
//! core panic, touch memory to which no right was given, or spoil the order of completions.

use crate::check::Violation;
use crate::judge::stats::Observation;
use crate::network::frame::{self, Route};
use crate::profile::US;
use crate::run::world::{Event, World};

/// Most forged packets of a run.
const MOST: u64 = 3_000;

impl World {
    /// Sends some forged packets, and comes again.
    pub fn attack(&mut self) -> Result<(), Violation> {
        if self.now > self.plan.heal_at * 2 || self.forged > MOST {
            return Ok(());
        }
        let count = self.rng.range(1, 4);
        for _ in 0..count {
            if self.rng.chance(self.plan.forge) {
                self.forge();
            }
        }
        let gap = self.rng.below(40 * US);
        self.allow(20_000 * US);
        self.after(gap, Event::Attack);
        Ok(())
    }

    fn forge(&mut self) {
        self.forged += 1;
        self.count(Observation::Forged);
        let qp = self.rng.index(self.qps.len());
        let early = self.early_ack(qp).filter(|_| self.rng.one_in(2));
        let mut roce = match self.network.overheard(&mut self.rng) {
            _ if early.is_some() => early.unwrap_or_default(),
            Some(frame) if self.rng.one_in(2) => frame::roce(&frame).unwrap_or(&[]).to_vec(),
            _ => self.invent(qp),
        };
        if self.rng.one_in(2) {
            self.mutate(&mut roce);
        }
        let to = self.qps[qp].host;
        let from = self.rng.index(self.plan.hosts);
        let route = Route {
            from,
            to,
            ipv6: self.plan.ipv6,
        };
        let frame = frame::forge(route, &roce);
        self.send_frames(from, to, vec![frame]);
    }

    /// A packet for the QP that is plausible at this time.
    fn invent(&mut self, qp: usize) -> Vec<u8> {
        let q = &self.qps[qp];
        let rng = &mut self.rng;
        // Mostly RC; anything else, too.
        let opcode = if rng.one_in(8) {
            rng.next() as u8
        } else {
            // The last two are FLUSH and ATOMIC WRITE.
            let opcode = rng.below(0x1a) as u8;
            opcode + if opcode < 0x18 { 0 } else { 4 }
        };
        let answers = (0x0d..=0x12).contains(&opcode);
        let near = if answers {
            q.conn.psns().0
        } else {
            q.conn.psns().1
        };
        let psn = match rng.below(8) {
            0 => rng.next_u32(),
            1..=4 => near.wrapping_sub(u32::from(answers)),
            _ => near.wrapping_add(rng.below(20) as u32).wrapping_sub(10),
        };
        let payload = match rng.below(4) {
            0 => 0,
            1 => q.setup.pmtu as u64,
            2 => rng.below(2 * u64::from(q.setup.pmtu)),
            _ => rng.below(64),
        };
        let pad = payload.wrapping_neg() as u8 & 3;
        let solicited = if rng.one_in(2) { 0x80 } else { 0 };
        let mut out = vec![opcode, solicited | (pad << 4)];
        out.extend(q.setup.pkey.to_be_bytes());
        out.extend(q.qpn.to_be_bytes());
        let ack_req = u32::from(rng.one_in(2)) << 31;
        out.extend((psn & 0xff_ffff | ack_req).to_be_bytes());
        self.invent_headers(qp, opcode, &mut out);
        let at = out.len();
        out.resize(at + payload as usize + usize::from(pad) + 4, 0);
        self.rng.fill(&mut out[at..]);
        out
    }

    /// Extended headers for the opcode.
    fn invent_headers(&mut self, qp: usize, opcode: u8, out: &mut Vec<u8>) {
        let regions = &self.hosts[self.qps[qp].host].regions.0;
        let rng = &mut self.rng;
        let region = &regions[rng.index(regions.len())];
        let va = match rng.below(4) {
            0 => rng.next(),
            1 => region
                .va
                .wrapping_add(region.len as u64)
                .wrapping_sub(rng.below(20)),
            _ => region.va.wrapping_add(rng.below(64) & !7),
        };
        let rkey = if rng.one_in(8) {
            rng.next_u32()
        } else {
            region.rkey
        };
        let len = match rng.below(6) {
            0 => rng.next_u32(),
            1 => region.len as u32,
            2 => 0,
            _ => rng.below(8192) as u32,
        };
        match opcode & 0x1f {
            0x06 | 0x0a | 0x0b | 0x0c | 0x1c | 0x1d => {
                if opcode & 0x1f == 0x1c {
                    out.extend((rng.below(0x40) as u32).to_be_bytes());
                }
                out.extend(va.to_be_bytes());
                out.extend(rkey.to_be_bytes());
                out.extend(len.to_be_bytes());
            }
            0x0d | 0x0f | 0x10 | 0x11 | 0x12 => {
                let syndrome = match rng.below(3) {
                    0 => rng.next() as u8,
                    1 => 0x1f,
                    _ => rng.pick(&[0x20, 0x21, 0x60, 0x61, 0x62, 0x63, 0x64]),
                };
                out.extend(((u32::from(syndrome) << 24) | (rng.next_u32() >> 8)).to_be_bytes());
            }
            0x13 | 0x14 => {
                out.extend(va.to_be_bytes());
                out.extend(rkey.to_be_bytes());
                out.extend(rng.next().to_be_bytes());
                out.extend(rng.next().to_be_bytes());
            }
            _ => {}
        }
        match opcode & 0x1f {
            0x03 | 0x05 | 0x09 | 0x0b => out.extend(rng.next_u32().to_be_bytes()),
            0x16 | 0x17 => {
                // The key to invalidate is that of an inbox.
                out.extend(rkey.to_be_bytes());
            }
            0x12 => out.extend(rng.next().to_be_bytes()),
            _ => {}
        }
    }

    /// Changes bytes or the length; the headers more often than the rest.
    fn mutate(&mut self, roce: &mut Vec<u8>) {
        let rng = &mut self.rng;
        for _ in 0..rng.range(1, 3) {
            if roce.is_empty() {
                return;
            }
            let at = if rng.one_in(2) {
                rng.index(roce.len())
            } else {
                rng.index(roce.len().min(40))
            };
            match rng.below(5) {
                0 => roce[at] ^= 1 << rng.below(8),
                1 => roce[at] = rng.next() as u8,
                2 => roce[at] = rng.pick(&[0, 0xff]),
                3 => roce.truncate(at),
                _ => {
                    let more = rng.below(40) as usize;
                    roce.resize(roce.len() + more, 0);
                }
            }
        }
    }
}
