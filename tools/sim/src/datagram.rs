// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams: what arrives was sent, to this QP, by somebody who may; and what is sent on
//! a network that harms nothing arrives, once.

use crate::api::Status;
use crate::frame::{self, Route};
use crate::profile::{Profile, US};
use crate::rng::Rng;
use crate::rules::partition_matches;
use crate::watch::ensure;
use crate::world::{tell, Event, World};
use oxe_proto::transport::{check_recv, Datagram, DatagramAttr, DatagramSender};
use oxe_proto::wire::{PKey, PacketRepr, Psn, Qpn};

/// A Q_Key with the top bit stands for the sender's own.
const OWN_QKEY: u32 = 1 << 31;

/// A UD QP.
struct Endpoint {
    host: usize,
    attr: DatagramAttr,
    sender: DatagramSender,
}

/// A datagram on its way.
struct Sent {
    src: usize,
    psn: u32,
    dest: usize,
    payload: Vec<u8>,
    imm: Option<[u8; 4]>,
    solicited: bool,
    /// The receiver must take it if it arrives.
    welcome: bool,
    /// Sent when the network was well.
    safe: bool,
    arrived: u32,
}

/// All UD QPs and what they have sent.
#[derive(Default)]
pub struct Datagrams {
    endpoints: Vec<Endpoint>,
    sent: Vec<Sent>,
    todo: u64,
}

impl World {
    /// Makes the UD QPs.
    pub fn build_datagrams(&mut self, rng: &mut Rng) {
        if self.plan.profile != Profile::Datagram {
            return;
        }
        for host in 0..self.plan.hosts {
            for _ in 0..2 {
                let qpn = loop {
                    let qpn = rng.next_u32() & 0xff_ffff;
                    if qpn > 1 && self.qps.iter().all(|q| q.qpn != qpn) {
                        break qpn;
                    }
                };
                let attr = DatagramAttr {
                    src_qpn: Qpn::new(qpn),
                    qkey: rng.pick(&[0x1111_1111, 0x8001_0000]),
                    pkey: PKey::new(rng.pick(&[0xffff, 0xffff, 0x7fff, 0x8001])),
                    mtu: rng.pick(&[1024, 4096]),
                };
                let psn = Psn::new(0xff_fff0 + rng.below(32) as u32);
                self.datagrams.endpoints.push(Endpoint {
                    host,
                    attr,
                    sender: DatagramSender::new(psn),
                });
            }
            self.after(rng.below(100 * US), Event::Datagram { host });
        }
        self.datagrams.todo = rng.range(20, 200);
    }

    /// A program sends a datagram, and will send another.
    pub fn send_datagram(&mut self, host: usize) -> Result<(), String> {
        if self.datagrams.todo == 0 {
            return Ok(());
        }
        self.datagrams.todo -= 1;
        self.allow_datagrams();
        let (src, dest) = (
            host * 2 + self.rng.index(2),
            self.rng.index(self.plan.hosts * 2),
        );
        let ends = &self.datagrams.endpoints;
        let (from, to) = (ends[src].attr, ends[dest].attr);
        let rng = &mut self.rng;
        let datagram = Datagram {
            len: match rng.below(8) {
                0 => 0,
                1 => from.mtu,
                2 => from.mtu + rng.range(1, 10) as u32,
                _ => rng.below(600) as u32,
            },
            dest_qpn: to.src_qpn,
            qkey: match rng.below(8) {
                0 => rng.next_u32() & !OWN_QKEY,
                1 | 2 => rng.next_u32() | OWN_QKEY,
                _ => to.qkey,
            },
            imm: rng.one_in(3).then(|| rng.next_u32().to_be_bytes()),
            solicited: rng.one_in(3),
        };
        self.build_datagram(src, dest, datagram)?;
        let gap = self.rng.below(400 * US);
        self.after(gap, Event::Datagram { host });
        Ok(())
    }

    fn allow_datagrams(&mut self) {
        self.allow(5_000 * US);
    }

    fn build_datagram(
        &mut self,
        src: usize,
        dest: usize,
        datagram: Datagram,
    ) -> Result<(), String> {
        let from = &mut self.datagrams.endpoints[src];
        let psn = from.sender.next_psn();
        let built = from.sender.build(&from.attr, &datagram);
        if datagram.len > from.attr.mtu {
            let fine = built == Err(Status::LocLen) && from.sender.next_psn() == psn;
            ensure!(fine, "ud{src}: {datagram:?} gives {built:?}");
            return Ok(());
        }
        let mut repr = built.map_err(|e| format!("ud{src}: {datagram:?}: {e:?}"))?;
        if self.rng.one_in(20) {
            from.sender.undo(&repr);
            let again = from.sender.build(&from.attr, &datagram);
            ensure!(
                again == Ok(repr),
                "ud{src}: {repr:?} taken back, then {again:?}"
            );
            repr = again.map_err(|e| format!("{e:?}"))?;
        }
        let mut payload = vec![0; datagram.len as usize];
        self.rng.fill(&mut payload);
        let (from, to) = (
            &self.datagrams.endpoints[src],
            &self.datagrams.endpoints[dest],
        );
        let own = datagram.qkey & OWN_QKEY != 0;
        let qkey = if own { from.attr.qkey } else { datagram.qkey };
        let pkeys = partition_matches(from.attr.pkey.get(), to.attr.pkey.get());
        let welcome = qkey == to.attr.qkey && pkeys && datagram.len <= to.attr.mtu;
        let sent = Sent {
            src,
            psn: repr.bth.psn.get(),
            dest,
            imm: datagram.imm,
            solicited: datagram.solicited,
            welcome,
            safe: self.network.healed(self.now) || !self.plan.impairment.is_ill(),
            arrived: 0,
            payload,
        };
        let (from, to) = (from.host, to.host);
        let route = Route {
            from,
            to,
            ipv6: self.plan.ipv6,
        };
        let frame = frame::build(route, self.ip_id, &repr, &sent.payload)?;
        self.datagrams.sent.push(sent);
        self.stats.datagrams += 1;
        tell!(self, "ud{src} -> ud{dest} {:?}", repr.bth);
        self.send_frames(from, to, vec![frame]);
        Ok(())
    }

    /// A packet that is for no RC QP reaches a host. A UD QP takes it if partition and Q_Key match
    /// and it is not too long (IBTA 9.6.1, 9.8.3, 10.9.3).
    pub fn deliver_datagram(
        &mut self,
        host: usize,
        repr: &PacketRepr,
        payload: &[u8],
    ) -> Result<(), String> {
        let here = |e: &&Endpoint| e.host == host && e.attr.src_qpn == repr.bth.dest_qp;
        let Some(to) = self.datagrams.endpoints.iter().find(here) else {
            let hostile = self.plan.profile == Profile::Hostile;
            ensure!(hostile, "packet for nobody: {repr:?}");
            return Ok(());
        };
        let taken = check_recv(repr, payload.len() as u32, &to.attr, &[to.attr.pkey]);
        let deth = repr.ext.deth().ok_or("no datagram")?;
        let ends = &self.datagrams.endpoints;
        let psn = repr.bth.psn.get();
        let this = |s: &&mut Sent| s.psn == psn && ends[s.src].attr.src_qpn == deth.src_qp;
        let sent = self.datagrams.sent.iter_mut().find(this);
        let sent = sent.ok_or_else(|| format!("datagram that nobody sent: {repr:?}"))?;
        ensure!(
            taken.is_ok() == sent.welcome,
            "{repr:?}: {taken:?}, welcome {}",
            sent.welcome
        );
        sent.arrived += 1;
        let Ok(taken) = taken else {
            return Ok(());
        };
        let right = taken.imm == sent.imm
            && taken.solicited == sent.solicited
            && payload == sent.payload
            && ends[sent.dest].attr.src_qpn == repr.bth.dest_qp
            && taken.src_qpn == ends[sent.src].attr.src_qpn
            && taken.pkey == ends[sent.src].attr.pkey;
        ensure!(right, "datagram changed on its way: {repr:?}");
        Ok(())
    }

    /// What had to arrive has arrived.
    pub fn judge_datagrams(&self) -> Result<(), String> {
        let duplicates = self.plan.impairment.duplicate != 0;
        for sent in &self.datagrams.sent {
            let (n, psn) = (sent.arrived, sent.psn);
            ensure!(
                n > 0 || !sent.safe,
                "datagram {psn:#x} of ud{} lost",
                sent.src
            );
            let most = if duplicates && !sent.safe { 2 } else { 1 };
            ensure!(
                n <= most,
                "datagram {psn:#x} of ud{} arrived {n} times",
                sent.src
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::partition_matches;
    use oxe_proto::wire::PKey;

    #[test]
    fn two_opinions_on_partitions_agree() {
        let interesting = [0, 1, 0x7fff, 0x8000, 0x8001, 0x8002, 2, 0xffff];
        for a in interesting {
            for b in interesting {
                let theirs = PKey::new(a).matches(PKey::new(b));
                assert_eq!(partition_matches(a, b), theirs, "{a:#x} {b:#x}");
            }
        }
    }
}
