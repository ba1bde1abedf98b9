// SPDX-License-Identifier: GPL-2.0

//! Fuzzing: random packets, most of them nearly valid, for a busy connection.

use super::super::wire::{
    opcode, AethRepr, AtomicAckEthRepr, AtomicEthRepr, BthRepr, Ext, ExtKind, FethRepr, IethRepr,
    ImmDtRepr, PKey, PacketRepr, Qpn, RethRepr, Service, Syndrome,
};
use super::super::{Instant, Modify, SendOp, Status};
use super::pair::*;

/// A small random number generator; the test sets the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }
}

fn random_ext(kind: ExtKind, dice: &mut Dice) -> Ext {
    let lens = [0, 1, 8, 255, 256, 257, 600, 1 << 31, u32::MAX];
    let vas = [
        BASE,
        BASE + 8,
        BASE + MEMORY as u64 - 4,
        0,
        u64::MAX,
        BASE + 3,
    ];
    let pick = |dice: &mut Dice| vas[dice.roll(6) as usize];
    let rkey = if dice.roll(4) == 0 { 1 } else { RKEY };
    let reth = RethRepr {
        va: pick(dice),
        rkey,
        dma_len: lens[dice.roll(9) as usize],
    };
    let aeth = AethRepr {
        syndrome: Syndrome::from_u8(dice.roll(256) as u8),
        msn: 7,
    };
    let aeth = if dice.roll(2) == 0 {
        AethRepr {
            syndrome: Syndrome::ACK,
            msn: 7,
        }
    } else {
        aeth
    };
    let imm = ImmDtRepr { data: [1; 4] };
    match kind {
        ExtKind::None => Ext::None,
        ExtKind::Imm => Ext::Imm(imm),
        ExtKind::Inv => Ext::Inv(IethRepr { rkey: TEMP_KEY }),
        ExtKind::Reth => Ext::Reth(reth),
        ExtKind::RethImm => Ext::RethImm(reth, imm),
        ExtKind::Flush => {
            let feth = FethRepr::new(dice.roll(5) as u8, dice.roll(3) as u8);
            Ext::Flush(feth.expect("fits"), reth)
        }
        ExtKind::Aeth => Ext::Aeth(aeth),
        ExtKind::AtomicAck => Ext::AtomicAck(
            aeth,
            AtomicAckEthRepr {
                original: dice.roll(9),
            },
        ),
        ExtKind::Atomic => Ext::Atomic(AtomicEthRepr {
            va: pick(dice),
            rkey,
            swap_add: 1,
            compare: 0,
        }),
        _ => Ext::Cnp,
    }
}

/// Lengths of payloads.
const LENS: [usize; 9] = [0, 1, 4, 8, 88, 255, 256, 257, 600];

fn random_op(dice: &mut Dice) -> (SendOp, usize) {
    let flush = SendOp::Flush {
        feth: FethRepr::new(1, 0).expect("fits"),
        len: 8,
    };
    let ops = [
        SendOp::Read,
        SendOp::Write,
        SendOp::Send,
        SendOp::FetchAdd { add: 1 },
        SendOp::AtomicWrite,
        flush,
    ];
    let op = ops[dice.roll(6) as usize];
    let len = match op {
        SendOp::FetchAdd { .. } | SendOp::AtomicWrite => 8,
        SendOp::Flush { .. } => 0,
        _ => LENS[dice.roll(9) as usize],
    };
    (op, len)
}

#[test]
fn noise() {
    let rc: Vec<_> = opcode::ALL
        .iter()
        .filter(|o| o.service() == Service::Rc)
        .collect();
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        let config = Modify {
            max_rd_atomic: Some(3),
            ..config()
        };
        let mut node = Node::new(1, &config, 0xff_fffd, 0xff_fffe);
        for _ in 0..40 {
            node.host.recvs.push_back(Ok(600));
            let (op, len) = random_op(&mut dice);
            node.post(op, vec![0; len], 0);
        }
        let mut now = Instant(0);
        for _ in 0..200 {
            let opcode = *rc[dice.roll(rc.len() as u64) as usize];
            let near = if opcode.kind().is_request() {
                node.conn.responder().expected_psn()
            } else {
                node.conn.requester().next_psn()
            };
            let at = near.add(dice.roll(6) as u32).sub(dice.roll(8) as u32);
            let at = if opcode.kind().is_request() && dice.roll(2) == 0 {
                near
            } else {
                at
            };
            let ext = random_ext(opcode.info().ext, &mut dice);
            let mut packet = Packet {
                header: PacketRepr {
                    bth: BthRepr::new(opcode, PKey::DEFAULT, Qpn::new(5), at),
                    ext,
                },
                payload: pattern(LENS[dice.roll(9) as usize], 0),
            };
            packet.header.bth.ack_req = dice.roll(2) == 0;
            let _ = node.receive(now, &packet);
            if dice.roll(3) == 0 {
                let _ = node.transmit_all(now);
            }
            if dice.roll(9) == 0 {
                now = now.after(1 << 20);
                node.conn.handle_timeout(now, &mut node.host);
            }
            node.settle();
        }
        node.conn.to_error();
        node.settle();
        assert_eq!(node.host.completed.len(), 40, "seed {seed}");
        let first_bad = node.statuses().iter().position(|s| *s != Status::Success);
        let after = first_bad.map_or(40, |bad| bad + 1);
        assert!(
            node.statuses()[after..]
                .iter()
                .all(|s| *s == Status::WrFlush),
            "seed {seed}"
        );
    }
}
