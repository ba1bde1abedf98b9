// SPDX-License-Identifier: GPL-2.0

//! Makes the UC QPs of a run.

use crate::host::memory::{Right, ALL_RIGHTS};
use crate::host::paging::Paging;
use crate::host::queues::{Keys, RecvRing, SendRing};
use crate::host::uc::End;
use crate::judge::uc::arrival::Responder;
use crate::model::uc::{Flow, Phase};
use crate::profile::uc::draw_habits;
use crate::profile::{draw_psn, Profile, MS, US};
use crate::rng::{Rng, Stream};
use crate::run::world::{Event, UcEvent, World};
use oxe_proto::transport::{UcQp, LOOPBACK_MTU};

/// About so many bytes are sent by a QP.
const BYTES: u64 = 512 << 10;

/// The longest message of a QP.
fn draw_max_len(pmtu: u32, rng: &mut Rng) -> u64 {
    let packets = match rng.below(8) {
        _ if pmtu == LOOPBACK_MTU => 2,
        0 => 1,
        1 => 40,
        // More packets than the rule on duplicates looks back.
        2 if pmtu == 256 => 700,
        _ => 8,
    };
    packets * u64::from(pmtu) + rng.below(9)
}

impl World {
    /// Makes the UC QPs.
    pub fn build_uc(&mut self, rng: &mut Rng) {
        if !self.plan.uc {
            return;
        }
        let profile = self.plan.profile;
        self.uc.habits = draw_habits(profile, rng);
        let pairs = match profile {
            Profile::Uc => rng.range(1, 3),
            _ => 1,
        };
        for _ in 0..pairs {
            self.build_uc_pair(rng);
        }
    }

    fn build_uc_pair(&mut self, rng: &mut Rng) {
        let first = rng.index(self.plan.hosts);
        let second = match rng.below(10) {
            0 => first,
            _ => (first + 1 + rng.index(self.plan.hosts - 1)) % self.plan.hosts,
        };
        let pmtu = rng.pick(&[256, 256, 512, 1024, 2048, 4096, LOOPBACK_MTU]);
        let good = self.uc.habits.are_good();
        let pkeys = match rng.below(16) {
            // Limited members do not talk to each other.
            0 if !good => [0x0001, 0x0001],
            1..=3 => [0x8001, 0x0001],
            4..=6 => [0x7fff, 0xffff],
            _ => [0xffff, 0xffff],
        };
        let max_len = draw_max_len(pmtu, rng);
        let base = self.uc.ends.len();
        for (i, host) in [first, second].into_iter().enumerate() {
            let end = self.build_uc_end(host, pmtu, max_len, rng);
            self.uc.ends.push(End {
                peer: base + 1 - i,
                pkey: pkeys[i],
                ..end
            });
            self.uc.responders.push(Responder::NEW);
            let connect = match good {
                true => 0,
                false => rng.below(2) * rng.below(MS),
            };
            let (end, connecting) = (base + i, UcEvent::Connect);
            let ticks = UcEvent::Tick;
            self.at(
                connect,
                Event::Uc {
                    end,
                    event: connecting,
                },
            );
            let first = US + rng.below(MS);
            self.at(first, Event::Uc { end, event: ticks });
            self.allow(first + 2 * MS);
        }
    }

    fn build_uc_end(&mut self, host: usize, pmtu: u32, max_len: u64, rng: &mut Rng) -> End {
        let qpn = loop {
            let qpn = rng.next_u32() & 0xff_ffff;
            let mut taken = self.qps.iter().map(|q| q.qpn);
            let mut ours = self.uc.ends.iter().map(|e| e.qpn);
            let used = taken.any(|n| n == qpn) || ours.any(|n| n == qpn);
            if qpn > 1 && !used && !self.datagrams.has(qpn) {
                break qpn;
            }
        };
        let at = &mut self.hosts[host];
        let program = at.program.clone();
        let (memory, regions) = (&mut at.memory, &mut at.regions);
        let len = max_len as usize * 2;
        let at = memory.alloc(len, rng);
        let inbox = regions.add(at, len, ALL_RIGHTS, rng);
        let at = memory.alloc(len, rng);
        let read_only = regions.add(at, len, &[Right::Read], rng);
        let psn = draw_psn(rng);
        let most = (3 * BYTES / (max_len + 1)).clamp(4, 60);
        End {
            host,
            qpn,
            peer: 0,
            pkey: 0,
            pmtu,
            max_len,
            qp: UcQp::new(),
            send: SendRing::new(&program),
            recv: RecvRing::default(),
            keys: Keys::default(),
            taken_pages: Paging::new(&self.plan, rng, Stream::TakenPages),
            sent_pages: Paging::new(&self.plan, rng, Stream::SentPages),
            inbox,
            permits_write: true,
            read_only,
            flow: Flow {
                psn,
                ..Flow::default()
            },
            uncopied: Vec::new(),
            phase: Phase::Down,
            todo: rng.range(3, most),
            resets: 0,
            pump_at: None,
        }
    }
}
