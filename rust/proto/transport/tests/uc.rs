// SPDX-License-Identifier: GPL-2.0

//! An unreliable connection: its messages arrive whole and in order, or not at all. Also the end of
//! a connection that the tests of UC share.

use super::super::wire::{Ext, ImmDtRepr, Opcode, Position};
use super::super::{
    ConnectedQp, DropReason, Instant, Modify, Request, SendOp, State, Status, Transmit, UcQp,
    Verdict, LOOPBACK_MTU,
};
use super::pair::{config, pattern, psn, signaled, Host, Packet, BASE, RKEY};
use proptest::prelude::*;

pub const NOW: Instant = Instant(0);
pub const LOST: Verdict = Verdict::Dropped(DropReason::OutOfSequence);

/// One end of a connection.
pub struct End {
    pub qp: UcQp,
    pub host: Host,
}

impl End {
    /// An end in the state RTS, whose first packet has PSN 0xff_fffe, as it expects from its peer.
    pub fn new() -> Self {
        let mut qp = UcQp::new();
        for state in [State::Init, State::Rtr, State::Rts] {
            let change = Modify {
                state: Some(state),
                sq_psn: Some(0xff_fffe),
                rq_psn: Some(0xff_fffe),
                ..config()
            };
            qp.modify(&change).unwrap();
        }
        let mut host = Host::new(3);
        host.reuses_recv = true;
        End { qp, host }
    }

    pub fn post(&mut self, op: SendOp, len: usize) {
        let request = Request::new(op, len as u32, BASE, RKEY, signaled());
        self.post_request(request, pattern(len, self.host.requests.len() as u8));
    }

    pub fn post_request(&mut self, request: Request, local: Vec<u8>) {
        self.host.requests.push(request);
        self.host.local.push(local);
    }

    /// Posts a SEND of `len` bytes; returns its packets.
    pub fn send(&mut self, len: usize) -> Vec<Packet> {
        self.post(SendOp::Send, len);
        self.transmit_all()
    }

    pub fn poll(&mut self, max_segments: u16) -> Option<Transmit> {
        let may = self.qp.may_transmit(&self.host);
        let transmit = self.qp.poll_transmit(NOW, max_segments, &mut self.host);
        assert!(may || transmit.is_none());
        transmit
    }

    pub fn transmit(&mut self) -> Option<Packet> {
        let transmit = self.poll(1)?;
        let payload = self.host.payload_of(&transmit.payload).unwrap();
        let header = transmit.header;
        Some(Packet { header, payload })
    }

    pub fn transmit_all(&mut self) -> Vec<Packet> {
        std::iter::from_fn(|| self.transmit()).collect()
    }

    pub fn receive(&mut self, packet: &Packet) -> Verdict {
        self.host.in_hand = packet.payload.clone();
        let len = packet.payload.len() as u32;
        self.qp
            .handle_segments(NOW, &packet.header, 1, len, &mut self.host)
    }

    pub fn receive_all<'a>(
        &mut self,
        packets: impl IntoIterator<Item = &'a Packet>,
    ) -> Vec<Verdict> {
        packets.into_iter().map(|p| self.receive(p)).collect()
    }

    /// The completions after all payloads were copied.
    pub fn statuses(&mut self) -> Vec<Status> {
        self.qp.release();
        std::iter::from_fn(|| self.qp.poll_send_completion(&mut self.host))
            .map(|done| done.status)
            .collect()
    }

    /// The data of the messages that arrived.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let all = self.host.received.iter();
        all.map(|r| {
            assert_eq!(r.completion.status, Status::Success);
            assert_eq!(r.completion.byte_len as usize, r.data.len());
            r.data.clone()
        })
        .collect()
    }

    pub fn become_state(&mut self, state: State) {
        self.qp.modify(&Modify::to_state(state)).unwrap();
    }
}

pub fn ends(recvs: usize) -> (End, End) {
    let mut b = End::new();
    b.host.recvs.extend(vec![Ok(2000); recvs]);
    (End::new(), b)
}

/// IBTA 9.8.2, 9.2: messages of each length arrive, in packets with consecutive PSNs.
#[test]
fn messages_of_each_length_arrive() {
    let lens = [0, 1, 255, 256, 257, 512, 700, 1000];
    let (mut a, mut b) = ends(lens.len());
    for len in lens {
        a.post(SendOp::Send, len);
    }
    let packets = a.transmit_all();
    for (i, packet) in packets.iter().enumerate() {
        assert_eq!(packet.header.bth.psn, psn(0xff_fffe).add(i as u32));
        assert!(!packet.header.bth.ack_req);
        assert_eq!(b.receive(packet), Verdict::Accepted);
    }
    let want: Vec<_> = (0..lens.len()).map(|i| pattern(lens[i], i as u8)).collect();
    assert_eq!(b.received(), want);
    assert_eq!(a.statuses(), vec![Status::Success; lens.len()]);
    assert_eq!(a.qp.next_psn(), b.qp.expected_psn());
}

/// IBTA 9.2, Table 38: SEND and WRITE, with and without immediate data.
#[test]
fn the_operations_of_uc() {
    let (mut a, mut b) = ends(2);
    let imm = [1, 2, 3, 4];
    a.post(SendOp::SendImm(imm), 300);
    a.post(SendOp::Write, 600);
    a.post(SendOp::WriteImm(imm), 600);
    a.post(SendOp::Write, 0);
    let packets = a.transmit_all();
    let opcodes: Vec<_> = packets.iter().map(Packet::opcode).collect();
    let write = [Opcode::UcWriteFirst, Opcode::UcWriteMiddle];
    let mut want = vec![Opcode::UcSendFirst, Opcode::UcSendLastImm];
    want.extend(write);
    want.push(Opcode::UcWriteLast);
    want.extend(write);
    want.extend([Opcode::UcWriteLastImm, Opcode::UcWriteOnly]);
    assert_eq!(opcodes, want);
    assert!(b
        .receive_all(&packets)
        .iter()
        .all(|v| *v == Verdict::Accepted));
    assert_eq!(b.host.memory[..600], pattern(600, 2));
    let [send, write] = [0, 1].map(|i| b.host.received[i].completion);
    assert_eq!(
        (send.imm, send.write_imm, send.byte_len),
        (Some(imm), false, 300)
    );
    assert_eq!(
        (write.imm, write.write_imm, write.byte_len),
        (Some(imm), true, 600)
    );
    assert_eq!(a.statuses(), [Status::Success; 4]);
}

/// Middle packets go as segments, as many as are asked for, and are taken so.
#[test]
fn middle_packets_are_segments() {
    let (mut a, mut b) = ends(1);
    a.post(SendOp::Send, 256 * 7 + 3);
    let mut segments = Vec::new();
    while let Some(transmit) = a.poll(4) {
        segments.push(transmit.segments);
        b.host.in_hand = a.host.payload_of(&transmit.payload).unwrap();
        let (header, len) = (&transmit.header, transmit.segment_size());
        let limit = b.qp.max_segments(header, len, &b.host);
        let middle = header.bth.opcode.info().position == Position::Middle;
        assert_eq!(limit > 1, middle);
        assert!(transmit.segments <= limit);
        let host = &mut b.host;
        let verdict =
            b.qp.handle_segments(NOW, header, transmit.segments, len, host);
        assert_eq!(verdict, Verdict::Accepted);
    }
    assert_eq!(segments, [1, 4, 2, 1]);
    assert_eq!(b.received(), [pattern(256 * 7 + 3, 0)]);
}

/// A loopback packet holds a whole path MTU of [`LOOPBACK_MTU`].
#[test]
fn loopback_packets_are_long() {
    let (mut a, mut b) = ends(0);
    b.host.recvs.push_back(Ok(200_000));
    for end in [&mut a, &mut b] {
        end.qp
            .modify(&Modify {
                pmtu: Some(LOOPBACK_MTU),
                ..Modify::default()
            })
            .unwrap();
    }
    let packets = a.send(150_000);
    assert_eq!(packets.len(), 3);
    b.receive_all(&packets);
    assert_eq!(b.received(), [pattern(150_000, 0)]);
}

proptest! {
    /// IBTA 9.8.2: whatever the network loses, delays and repeats, the messages that arrive are
    /// whole, in order and come once each; a message none of whose packets is touched, and none of
    /// the packets right before it is delayed, arrives.
    #[test]
    fn messages_arrive_whole_in_order_and_once(
        lens in prop::collection::vec(0_usize..1500, 1..20),
        fates in prop::collection::vec(0_u8..12, 100),
    ) {
        let (mut a, mut b) = ends(lens.len());
        let mut intact = Vec::new();
        let mut wire = Vec::new();
        let mut fate = fates.iter().copied().chain(std::iter::repeat(9));
        let mut late: Option<Packet> = None;
        for (i, len) in lens.iter().enumerate() {
            let mut whole = late.is_none();
            for packet in a.send(*len) {
                match fate.next().unwrap() {
                    0 => whole = false,
                    1 => {
                        whole = false;
                        wire.extend([packet.clone(), packet]);
                    }
                    2 if late.is_none() => {
                        whole = false;
                        late = Some(packet);
                        continue;
                    }
                    _ => wire.push(packet),
                }
                wire.extend(late.take());
            }
            if whole {
                intact.push(pattern(*len, i as u8));
            }
        }
        b.receive_all(&wire);
        let sent: Vec<_> = lens.iter().enumerate().map(|(i, len)| pattern(*len, i as u8)).collect();
        let got = b.received();
        let mut rest = sent.iter();
        for message in &got {
            prop_assert!(rest.any(|sent| sent == message), "not sent, or out of order");
        }
        let mut rest = got.iter();
        for message in &intact {
            prop_assert!(rest.any(|got| got == message), "lost without a reason");
        }
        prop_assert!(b.qp.state() == State::Rts);
    }

    /// No packet moves the QP into a state in which the next message is lost.
    #[test]
    fn no_packet_harms_the_next_message(
        raw in prop::collection::vec((any::<u8>(), 0_u32..12, 0_usize..300), 1..50),
    ) {
        let (mut a, mut b) = ends(1);
        b.host.recvs[0] = Ok(100_000);
        let ops = [
            Opcode::UcSendFirst, Opcode::UcSendMiddle, Opcode::UcSendLast, Opcode::UcWriteMiddle,
            Opcode::UcWriteLast, Opcode::UcWriteLastImm,
        ];
        let template = a.send(300).remove(0);
        for (op, ahead, len) in raw {
            let mut packet = template.clone();
            packet.header.bth.opcode = ops[usize::from(op) % ops.len()];
            packet.header.bth.psn = packet.header.bth.psn.add(ahead);
            if packet.opcode() == Opcode::UcWriteLastImm {
                packet.header.ext = Ext::Imm(ImmDtRepr { data: [0; 4] });
            }
            packet.payload = pattern(if len > 256 { 256 } else { len }, op);
            let _ = b.receive(&packet);
        }
        b.host.received.clear();
        b.host.recvs.push_back(Ok(1000));
        let mut packets = a.send(700);
        for packet in &mut packets {
            packet.header.bth.psn = packet.header.bth.psn.add(100);
        }
        prop_assert_eq!(b.receive_all(&packets), vec![Verdict::Accepted; 3]);
        prop_assert_eq!(b.received(), vec![pattern(700, 1)]);
    }
}
