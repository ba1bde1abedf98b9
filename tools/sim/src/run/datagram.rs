// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams, beside the connections over the same network.

use crate::check::{ensure, Violation};
use crate::host::datagram::{Endpoint, Message, Receiver, Requests, Sent};
use crate::judge::access::partition_matches;
use crate::judge::datagram::{check_arrivals, check_completion, check_taken, identify};
use crate::judge::stats::Observation;
use crate::log::log;
use crate::network::frame::{self, Route};
use crate::profile::{Profile, US};
use crate::program::datagrams::{Datagram, Senders, OWN_QKEY};
use crate::rng::Rng;
use crate::run::world::{Event, World};
use oxe_proto::transport::{Flags, Request, SendOp, State, Status, Transmit, UdModify, UdQp};
use oxe_proto::wire::{PKey, PacketRepr, Qpn, GRH_LEN};

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
                let endpoint = endpoint(host, qpn, rng);
                self.datagrams.endpoints.push(endpoint);
            }
            self.after(rng.below(100 * US), Event::Datagram { host });
        }
        self.datagrams.todo = rng.range(20, 200);
    }

    /// A program sends a datagram, and will send another.
    pub fn send_datagram(&mut self, host: usize) -> Result<(), Violation> {
        let Some(Datagram { src, dest, message }) = self.senders().next(host) else {
            return Ok(());
        };
        self.allow_datagrams();
        if let Some(transmit) = self.post_datagram(src, &message)? {
            self.put_on_wire(src, dest, &message, &transmit.header)?;
        }
        let gap = self.senders().rest();
        self.after(gap, Event::Datagram { host });
        Ok(())
    }

    fn senders(&mut self) -> Senders<'_> {
        Senders {
            rng: &mut self.rng,
            datagrams: &mut self.datagrams,
        }
    }

    fn allow_datagrams(&mut self) {
        self.allow(5_000 * US);
    }

    /// Posts a request; gives the packet that is to be sent for it. The request completes when its
    /// payload is copied.
    fn post_datagram(
        &mut self,
        src: usize,
        message: &Message,
    ) -> Result<Option<Transmit>, Violation> {
        let rng = &mut self.rng;
        let from = &mut self.datagrams.endpoints[src];
        let mtu = from.mtu;
        let flags = Flags {
            signaled: message.signaled,
            solicited: message.solicited,
            fence: false,
        };
        let op = message.imm.map_or(SendOp::Send, SendOp::SendImm);
        let request = Request::new(op, message.len, 0, 0, flags);
        let n = from.requests.post(request, message.dest);
        let mut status = Status::Success;
        let mut sent = from.qp.poll_transmit(|| mtu, &from.requests);
        ensure!(
            sent.is_some() == (message.len <= mtu),
            "ud{src}: {message:?} gives {sent:?}"
        );
        if sent.is_none() {
            status = Status::LocLen;
        }
        if let Some(transmit) = sent.filter(|_| rng.one_in(20)) {
            from.qp.undo(&transmit);
            let again = from.qp.poll_transmit(|| mtu, &from.requests);
            let same = again == Some(transmit);
            ensure!(same, "ud{src}: {transmit:?} taken back, then {again:?}");
        }
        if let Some(transmit) = sent.filter(|_| rng.one_in(50)) {
            from.qp.local_error(&transmit, Status::LocProt);
            (sent, status) = (None, Status::LocProt);
        }
        if status == Status::Success {
            let early = from.qp.poll_send_completion(&from.requests);
            ensure!(
                early.is_none(),
                "ud{src}: {early:?} before its payload is copied"
            );
        }
        from.qp.release();
        let done = from.qp.poll_send_completion(&from.requests);
        check_completion(message, n, status, done, from.qp.state())
            .map_err(|found| found.at(format_args!("ud{src}")))?;
        become_state(&mut from.qp, State::Rts);
        Ok(sent)
    }

    fn put_on_wire(
        &mut self,
        src: usize,
        dest: usize,
        message: &Message,
        repr: &PacketRepr,
    ) -> Result<(), Violation> {
        let mut payload = vec![0; message.len as usize];
        self.rng.fill(&mut payload);
        let (from, to) = (
            &self.datagrams.endpoints[src],
            &self.datagrams.endpoints[dest],
        );
        let asked = message.dest.qkey;
        let own = asked & OWN_QKEY != 0;
        let qkey = if own { from.qkey } else { asked };
        let welcome = qkey == to.qkey && partition_matches(from.pkey, to.pkey);
        let sent = Sent {
            src,
            psn: repr.bth.psn.get(),
            dest,
            imm: message.imm,
            solicited: message.solicited,
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
        let frame = frame::build(route, self.ip_id, repr, &sent.payload)?;
        self.datagrams.sent.push(sent);
        self.count(Observation::Datagram);
        log!(self, "ud{src} -> ud{dest} {:?}", repr.bth);
        self.send_frames(from, to, vec![frame]);
        Ok(())
    }

    /// A packet that is for no RC or UC QP reaches a host.
    pub fn deliver_datagram(
        &mut self,
        host: usize,
        repr: &PacketRepr,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let here = |e: &Endpoint| e.host == host && e.qpn == repr.bth.dest_qp.get();
        let Some(to) = self.datagrams.endpoints.iter().position(here) else {
            let hostile = self.plan.profile == Profile::Hostile;
            ensure!(hostile, "packet for nobody: {repr:?}");
            return Ok(());
        };
        let index = identify(&self.datagrams, to, repr, payload)?;
        self.datagrams.sent[index].arrived += 1;
        let byte_len = (payload.len() + GRH_LEN) as u32;
        let room = match self.rng.below(12) {
            0 => None,
            1 => Some(byte_len - 1),
            _ => Some(byte_len + self.rng.below(3) as u32),
        };
        let mut receiver = Receiver::new(room);
        let qp = &mut self.datagrams.endpoints[to].qp;
        let verdict = qp.handle_packet(repr, payload.len() as u32, &mut receiver);
        let sent = &self.datagrams.sent[index];
        check_taken(&self.datagrams, sent, room, verdict, &receiver)
            .map_err(|found| found.at(format_args!("{repr:?}")))
    }

    /// The judge sees the end.
    pub fn judge_datagrams(&self) -> Result<(), Violation> {
        let duplicates = self.plan.impairment.duplicate != 0;
        check_arrivals(&self.datagrams.sent, duplicates)
    }
}

/// A queue pair that sends and receives.
fn endpoint(host: usize, qpn: u32, rng: &mut Rng) -> Endpoint {
    let qkey = rng.pick(&[0x1111_1111, 0x8001_0000]);
    let pkey = rng.pick(&[0xffff, 0xffff, 0x7fff, 0x8001]);
    let mtu = rng.pick(&[1024, 4096]);
    let mut qp = UdQp::new(Qpn::new(qpn), PKey::new(pkey));
    for state in [State::Init, State::Rtr, State::Rts] {
        become_state(&mut qp, state);
    }
    let change = UdModify {
        qkey: Some(qkey),
        sq_psn: Some(0xff_fff0 + rng.below(32) as u32),
        state: None,
    };
    qp.modify(&change).expect("no state is changed");
    Endpoint {
        host,
        qpn,
        qkey,
        pkey,
        mtu,
        qp,
        requests: Requests::default(),
    }
}

fn become_state(qp: &mut UdQp, state: State) {
    let change = UdModify {
        state: Some(state),
        ..UdModify::default()
    };
    qp.modify(&change).expect("a transition that there is");
}
