// SPDX-License-Identifier: GPL-2.0

//! The judges of UC QPs: each takes a right observation, and finds what is wrong with others.

use super::arrival::{Arrival, Place, Responder, Treatment};
use super::packet::packet_expected;
use super::UcView;
use crate::api::*;
use crate::check::Violation;
use crate::host::machine::Host;
use crate::host::memory::{Memory, Regions, ALL_RIGHTS};
use crate::host::paging::Paging;
use crate::host::queues::{Keys, Program, RecvRing, RecvSlot, SendRing};
use crate::host::uc::{End, Uncopied};
use crate::judge::decode::Seen;
use crate::judge::tests::{received, refused};
use crate::model::uc::{Fault, Flaw, Flow, Message, Phase, Verb};
use crate::network::frame::{self, Route};
use crate::profile::uc::Habits;
use crate::profile::{Plan, Profile};
use crate::rng::{Rng, Stream};
use oxe_proto::transport::UcQp;
use oxe_proto::wire::{Ext, Opcode, PKey, PacketRepr, Psn, Qpn};

const PMTU: u32 = 256;

/// Two hosts with a UC QP each. The first one has posted messages to the second.
struct Scene {
    plan: Plan,
    habits: Habits,
    hosts: Vec<Host>,
    ends: Vec<End>,
    responders: Vec<Responder>,
}

fn end(host: usize, plan: &Plan, rng: &Rng) -> End {
    End {
        host,
        qpn: 2 + host as u32,
        peer: 1 - host,
        pkey: 0xffff,
        pmtu: PMTU,
        max_len: 1024,
        qp: UcQp::new(),
        send: SendRing::default(),
        recv: RecvRing::default(),
        keys: Keys::default(),
        taken_pages: Paging::new(plan, rng, Stream::TakenPages),
        sent_pages: Paging::new(plan, rng, Stream::SentPages),
        inbox: 0,
        permits_write: true,
        read_only: 0,
        flow: Flow::default(),
        uncopied: Vec::new(),
        phase: Phase::Up,
        todo: 0,
        resets: 0,
        pump_at: None,
    }
}

impl Scene {
    /// The lengths of SENDs, whose data are in the memory of the first host.
    fn new(lens: &[usize]) -> Scene {
        let rng = &mut Rng::new(1);
        let plan = Plan::draw(Profile::Clean, rng);
        let host = |rng: &mut Rng| {
            let (mut memory, mut regions) = (Memory::new(rng), Regions::default());
            let at = memory.alloc(64, rng);
            regions.add(at, 64, ALL_RIGHTS, rng);
            Host {
                memory,
                regions,
                source: 0,
                defective: 0,
                unreadable: 0,
                srq: None,
                program: Program::default(),
            }
        };
        let mut scene = Scene {
            hosts: vec![host(rng), host(rng)],
            ends: vec![end(0, &plan, rng), end(1, &plan, rng)],
            responders: vec![Responder::NEW, Responder::NEW],
            habits: Habits::default(),
            plan,
        };
        for len in lens {
            let memory = &mut scene.hosts[0].memory;
            let at = memory.alloc(*len, rng);
            let data = memory.read(at, *len).to_vec();
            let message = Message::new(Verb::Send, PMTU, at, data);
            scene.ends[0].flow.messages.push(message);
        }
        let at = scene.hosts[1].memory.alloc(1024, rng);
        scene.ends[1].recv.slots.push(RecvSlot {
            at,
            cap: 1024,
            garbage: false,
            unusable: false,
            done: None,
        });
        scene.go_through(&[State::Init, State::Rtr, State::Rts]);
        scene
    }

    /// The first QP goes through these states.
    fn go_through(&mut self, states: &[State]) {
        for state in states {
            let rtr = *state == State::Rtr;
            let change = Modify {
                pkey: (*state == State::Init).then_some(0xffff),
                dest_qpn: rtr.then_some(3),
                pmtu: rtr.then_some(PMTU),
                rq_psn: rtr.then_some(0),
                sq_psn: (*state == State::Rts).then_some(0),
                ..Modify::to_state(*state)
            };
            self.ends[0].qp.modify(&change).unwrap();
        }
    }

    fn view(&self) -> UcView<'_> {
        UcView {
            plan: &self.plan,
            habits: &self.habits,
            hosts: &self.hosts,
            ends: &self.ends,
            responders: &self.responders,
        }
    }

    /// The next packet of message `m` as it should be.
    fn packet(&self, m: usize) -> Seen<'_> {
        let flow = &self.ends[0].flow;
        Seen {
            psn: flow.psn,
            dest_qp: 3,
            pkey: 0xffff,
            ..packet_expected(&flow.messages[m], flow.messages[m].sent, PMTU)
        }
    }

    /// What is right for packet `k` of message `m`.
    fn treatment(&mut self, m: usize, k: u32) -> Result<Treatment, Violation> {
        let e = &self.ends[1];
        let message = &self.ends[0].flow.messages[m];
        let arrival = Arrival {
            message,
            m,
            k,
            count: 1,
            len: message.chunk(k, PMTU).len() as u32,
            sender_pkey: 0xffff,
            absent: false,
        };
        let place = Place {
            state: State::Rts,
            pkey: e.pkey,
            pmtu: e.pmtu,
            permits_write: e.permits_write,
            recv: &e.recv,
            regions: &self.hosts[1].regions,
        };
        self.responders[1].treatment(&arrival, &place)
    }
}

fn done(n: u32, status: Status, byte_len: u32) -> SendCompletion {
    SendCompletion {
        n,
        status,
        byte_len,
        signaled: false,
    }
}

#[test]
fn packets_leave_as_they_must() {
    let mut scene = Scene::new(&[300, 0]);
    let check = |scene: &Scene, m, seen: &Seen| scene.view().check_packet(0, m, seen);
    let good = scene.packet(0);
    check(&scene, 0, &good).unwrap();
    let asks = Seen {
        ack_req: true,
        ..good.clone()
    };
    refused(check(&scene, 0, &asks), "packet 0 of 0 is");
    let later = Seen {
        psn: 1,
        ..good.clone()
    };
    refused(check(&scene, 0, &later), "packet 0 of 0 is");
    let first = Seen {
        payload: &[],
        ..good.clone()
    };
    refused(check(&scene, 0, &first), "packet 0 of 0 is");
    scene.ends[0].phase = Phase::Draining;
    refused(check(&scene, 0, &scene.packet(0)), "sends packet 0 of 0 in");
    scene.ends[0].phase = Phase::Up;
    for _ in 0..2 {
        check(&scene, 0, &scene.packet(0)).unwrap();
        scene.ends[0].flow.packet_sent(0);
    }
    refused(check(&scene, 0, &scene.packet(1)), "sends 0, Message");
    check(&scene, 1, &scene.packet(1)).unwrap();
    scene.view().check_payload(0, 0).unwrap();
    let at = scene.ends[0].flow.messages[0].at;
    let byte = [!scene.hosts[0].memory.read(at, 1)[0]];
    scene.hosts[0].memory.write(at, &byte);
    refused(scene.view().check_payload(0, 0), "is no longer there");
}

#[test]
fn requests_complete_as_they_deserve() {
    let mut scene = Scene::new(&[4, 4]);
    let check = |scene: &Scene, c| scene.view().check_completion(0, State::Rts, &c);
    let good = done(0, Status::Success, 4);
    refused(check(&scene, good), "completes as");
    scene.ends[0].flow.packet_sent(0);
    refused(check(&scene, good), "in Rts");
    scene.ends[0].flow.copy();
    assert_eq!(check(&scene, good).unwrap(), 0);
    refused(check(&scene, done(1, Status::Success, 4)), "expected 0");
    refused(check(&scene, done(0, Status::Success, 3)), "in Rts");
    refused(check(&scene, done(0, Status::WrFlush, 0)), "in Rts");
    refused(check(&scene, done(0, Status::LocProt, 0)), "fault None");
    let loud = SendCompletion {
        signaled: true,
        ..good
    };
    refused(check(&scene, loud), "signaled: true");
    scene.ends[0].flow.complete(0, Status::Success);
    refused(check(&scene, good), "expected 1");
    // One that fails takes the send queue to SQE.
    scene.ends[0].flow.messages[1].fault = Some(Fault::Posted);
    refused(check(&scene, done(1, Status::LocProt, 0)), "then Rts");
    scene.ends[0].flow.complete(1, Status::LocProt);
    refused(check(&scene, done(2, Status::Success, 0)), "nothing posted");
}

#[test]
fn nothing_is_left_in_error() {
    let mut scene = Scene::new(&[4]);
    scene.view().check_flushed(0).unwrap();
    scene.go_through(&[State::Err]);
    refused(scene.view().check_flushed(0), "1 requests are not flushed");
    scene.ends[0].uncopied.push(Uncopied {
        m: 0,
        frames: Vec::new(),
    });
    scene.view().check_flushed(0).unwrap();
}

#[test]
fn events_are_those_that_are_due() {
    let mut scene = Scene::new(&[4]);
    let check = |scene: &Scene, events| scene.view().check_events(0, events);
    check(&scene, Events::NONE).unwrap();
    refused(check(&scene, Events::SQ_DRAINED), "events");
    scene.responders[0].events = Events::COMM_EST;
    check(&scene, Events::COMM_EST).unwrap();
    refused(check(&scene, Events::NONE), "events");
    scene.responders[0].events = Events::NONE;
    scene.ends[0].phase = Phase::Draining;
    refused(check(&scene, Events::NONE), "events");
    check(&scene, Events::SQ_DRAINED).unwrap();
    scene.ends[0].flow.messages[0].sent = 1;
    refused(check(&scene, Events::NONE), "drains false, not true");
}

#[test]
fn local_operations_have_their_turn() {
    let mut scene = Scene::new(&[4, 0]);
    let check = |scene: &Scene, m| scene.view().check_turn(0, m);
    scene.ends[0].flow.messages[1].verb = Verb::Local { rekeys: false };
    refused(check(&scene, 2), "nothing posted");
    refused(check(&scene, 0), "0 is carried out");
    refused(check(&scene, 1), "1 is carried out");
    scene.ends[0].flow.packet_sent(0);
    refused(check(&scene, 1), "before 0 is complete");
    scene.ends[0].flow.complete(0, Status::Success);
    check(&scene, 1).unwrap();
    scene.ends[0].flow.carry_out(1).unwrap();
    refused(check(&scene, 1), "1 is carried out");
}

/// IBTA 9.8.2.2: packets that do not go on with the message in progress are dropped.
#[test]
fn a_responder_takes_packets_in_order() {
    let mut scene = Scene::new(&[600, 4]);
    for m in [0, 0, 0, 1] {
        scene.ends[0].flow.packet_sent(m);
    }
    let mut verdict = |m, k| scene.treatment(m, k).unwrap().verdict;
    let late = Verdict::Dropped(DropReason::OutOfSequence);
    assert_eq!(verdict(0, 1), late);
    assert_eq!(verdict(0, 0), Verdict::Accepted);
    assert_eq!(verdict(0, 2), late);
    assert_eq!(verdict(0, 1), late);
    assert_eq!(verdict(1, 0), Verdict::Accepted);
    assert_eq!(verdict(0, 0), Verdict::Dropped(DropReason::Duplicate));
}

#[test]
fn a_message_comes_once() {
    let mut scene = Scene::new(&[4, 4]);
    scene.ends[0].flow.packet_sent(0);
    scene.treatment(0, 0).unwrap();
    // The same message under a PSN that is none of a duplicate.
    scene.ends[0].flow.messages[0].first = 1;
    refused(scene.treatment(0, 0), "message 0 after Some(0)");
    scene.ends[0].flow.messages[1].first = 2;
    scene.ends[0].flow.messages[1].sent = 1;
    scene.ends[0].flow.messages[1].flaw = Some(Flaw::Long);
    let right = scene.treatment(1, 0).unwrap();
    assert_eq!(right.verdict, Verdict::Dropped(DropReason::Refused));
    let view = scene.view();
    view.check_verdict(1, (1, 0), &right, right.verdict)
        .unwrap();
    let taken = view.check_verdict(1, (1, 0), &right, Verdict::Accepted);
    refused(taken, "Accepted for packet 0 of message 1");
}

#[test]
fn packets_are_stored_where_they_belong() {
    let mut scene = Scene::new(&[4]);
    scene.ends[0].flow.packet_sent(0);
    let right = scene.treatment(0, 0).unwrap();
    let data = scene.ends[0].flow.messages[0].data.clone();
    let got = [(0, received(Status::Success))];
    let check = |scene: &Scene, got: &[_]| {
        let view = scene.view();
        view.check_effect(1, (0, 0), &right, &data, got)
    };
    refused(check(&scene, &got), "is stored wrong");
    let at = right.place.unwrap();
    scene.hosts[1].memory.write(at, &data);
    check(&scene, &got).unwrap();
    refused(check(&scene, &[]), "completes []");
    refused(check(&scene, &[got[0], got[0]]), "completes [");
    refused(
        check(&scene, &[(0, received(Status::LocLen))]),
        "receive 0 completes as",
    );
    refused(check(&scene, &[(1, got[0].1)]), "receive 1 completes as");
    let before = [!scene.hosts[1].memory.read(at - 1, 1)[0]];
    scene.hosts[1].memory.write(at - 1, &before);
    refused(check(&scene, &got), "written before packet 0");
    scene.hosts[1].memory.accept(at - 1, 1);
    scene.ends[0].flow.messages[0].data[0] ^= 1;
    refused(check(&scene, &got), "arrives with other bytes");
    scene.ends[1].recv.slots[0].done = Some(Status::Success);
    refused(check(&scene, &got), "after Some(Success)");
}

#[test]
fn frames_are_those_that_were_sent() {
    let mut scene = Scene::new(&[4]);
    let repr = |opcode| {
        let (pkey, qpn) = (PKey::new(0xffff), Qpn::new(3));
        PacketRepr::new(opcode, pkey, qpn, Psn::new(0), Ext::None, 4)
    };
    let route = Route {
        from: 0,
        to: 1,
        ipv6: false,
    };
    let data = scene.ends[0].flow.messages[0].data.clone();
    let frame = |opcode, data: &[u8]| frame::build(route, 1, &repr(opcode), data).unwrap();
    let good = frame(Opcode::UcSendOnly, &data);
    refused(scene.view().identify(1, &good), "never sent");
    scene.ends[0].flow.packet_sent(0);
    assert_eq!(scene.view().identify(1, &good).unwrap(), (0, 0));
    let rc = frame(Opcode::RcSendOnly, &data);
    refused(scene.view().identify(1, &rc), "gets no UC packet");
    let other = frame(Opcode::UcSendOnly, &[0; 4]);
    refused(scene.view().identify(1, &other), "changed on its way");
}

#[test]
fn segments_are_middle_packets() {
    let mut scene = Scene::new(&[1024]);
    for _ in 0..4 {
        scene.ends[0].flow.packet_sent(0);
    }
    scene.treatment(0, 0).unwrap();
    let check = |k, limit, middle, len| {
        let view = scene.view();
        view.check_limit(1, (0, k), limit, middle, len)
    };
    check(1, 2, true, PMTU).unwrap();
    check(2, 1, true, PMTU).unwrap();
    refused(check(2, 2, true, PMTU), "takes 2");
    refused(check(1, 2, false, PMTU), "takes 2");
    refused(check(1, 2, true, 4), "takes 2");
}

#[test]
fn everything_comes_to_an_end() {
    let mut scene = Scene::new(&[4]);
    refused(scene.view().check_rest(), "0 of 1 requests complete");
    refused(scene.view().check_end(), "0 of 1 are complete");
    scene.ends[0].flow.complete(0, Status::Success);
    refused(scene.view().check_rest(), "message Some(0) did not arrive");
    scene.ends[0].flow.messages[0].arrived = 1;
    scene.view().check_rest().unwrap();
    scene.ends[0].phase = Phase::Drained;
    refused(scene.view().check_rest(), "rests in Drained");
    refused(scene.view().check_end(), "receive Some(0) of 1 never");
    scene.ends[1].recv.slots[0].done = Some(Status::WrFlush);
    scene.view().check_end().unwrap();
    refused(scene.view().check_in_use(1, true), "in use: true");
    scene.view().check_in_use(1, false).unwrap();
}
