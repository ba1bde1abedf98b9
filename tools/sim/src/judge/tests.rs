// SPDX-License-Identifier: GPL-2.0

//! The judges of single events and of the end: each takes a right observation, and finds what is
//! wrong with others.

use super::decode::{op as code, Seen};
use super::requester_wire::{Limits, Watch};
use super::view::View;
use crate::api::*;
use crate::check::Violation;
use crate::host::engine::Engine;
use crate::host::lending::Lending;
use crate::host::machine::Host;
use crate::host::memory::{Memory, Regions, ALL_RIGHTS};
use crate::host::paging::Paging;
use crate::host::qp::{Qp, Setup};
use crate::host::queues::{Keys, Program, RecvRing, RecvSlot, SendRing, SendSlot};
use crate::model::fault::Fault;
use crate::model::flow::tests::op as posted;
use crate::model::flow::Flow;
use crate::model::key::Fast;
use crate::model::outcome::{Fate, Pause};
use crate::model::verb::{Local, Verb};
use crate::profile::{Plan, Profile};
use crate::rng::{Rng, Stream};
use oxe_proto::transport::RemoteAccess;

mod packets;

const DATA: [u8; 4] = [1, 2, 3, 4];

/// Two hosts with a QP each. The first one has posted requests to the second.
struct Scene {
    plan: Plan,
    hosts: Vec<Host>,
    qps: Vec<Qp>,
    watches: Vec<Watch>,
}

fn setup() -> Setup {
    Setup {
        pmtu: 256,
        timeout: 12,
        retry_cnt: 2,
        rnr_retry: 1,
        min_rnr_timer: 1,
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        pkey: 0xffff,
        access: RemoteAccess::ALL,
    }
}

fn qp(end: usize, plan: &Plan, rng: &Rng) -> Qp {
    Qp {
        host: end,
        qpn: 2 + end as u32,
        peer: 1 - end,
        conn: Engine::Oxe(Connection::new(Vec::new()).into()),
        setup: setup(),
        send: SendRing::default(),
        recv: RecvRing::default(),
        keys: Keys::default(),
        taken_pages: Paging::new(plan, rng, Stream::TakenPages),
        sent_pages: Paging::new(plan, rng, Stream::SentPages),
        read_pages: Paging::new(plan, rng, Stream::ReadPages),
        flow: Flow::new(0, 256, 0, &[0; 32]),
        inbox_region: 0,
        fast: Fast::default(),
        initial_max_rd_atomic: 1,
        pause: Pause::No,
        fate: Fate::default(),
        lending: Lending::default(),
        point: Default::default(),
        kept: Default::default(),
        acknowledged: 0,
        todo: 0,
        fault_at: None,
        timer_at: None,
        pump_at: None,
    }
}

impl Scene {
    fn new(verbs: &[Verb]) -> Scene {
        let rng = &mut Rng::new(1);
        let plan = Plan::draw(Profile::Clean, rng);
        let plan = Plan {
            late_receives: false,
            staggered: false,
            ..plan
        };
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
            qps: vec![qp(0, &plan, rng), qp(1, &plan, rng)],
            watches: vec![Watch::default(), Watch::default()],
            plan,
        };
        for verb in verbs {
            scene.qps[0].flow.post(posted(*verb, &DATA), None);
        }
        // The peer has a receive, and the first request's data in it.
        let memory = &mut scene.hosts[1].memory;
        let at = memory.alloc(8, rng);
        memory.write(at, &DATA);
        scene.qps[1].recv.slots.push(RecvSlot {
            at,
            cap: 8,
            garbage: false,
            unusable: false,
            done: None,
        });
        scene
    }

    /// The inboxes are as both flows begin.
    fn clear_inboxes(&mut self) {
        for host in &mut self.hosts {
            host.memory.write(0, &[0; 32]);
            host.memory.accept(0, 32);
        }
    }

    fn view(&self) -> View<'_> {
        View {
            now: 0,
            plan: &self.plan,
            hosts: &self.hosts,
            qps: &self.qps,
            watches: &self.watches,
        }
    }
}

fn slot() -> SendSlot {
    let flags = Flags {
        signaled: true,
        solicited: false,
        fence: false,
    };
    SendSlot::new(Request::new(SendOp::Read, 4, 0, 0, flags), 0, 4)
}

fn sent(status: Status) -> SendCompletion {
    SendCompletion {
        n: 0,
        status,
        byte_len: 4,
        signaled: true,
    }
}

pub(super) fn received(status: Status) -> RecvCompletion {
    RecvCompletion {
        status,
        write_imm: false,
        byte_len: 4,
        imm: None,
        inv_rkey: None,
        solicited: false,
    }
}

#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, Violation>, reason: &str) {
    let found = result.expect_err("this is wrong");
    assert!(found.to_string().contains(reason), "{found}");
}

#[test]
fn requests_complete_in_order_once() {
    let mut scene = Scene::new(&[Verb::Send]);
    let good = sent(Status::Success);
    assert_eq!(scene.view().check_order(0, &good), Ok(0));
    let (later, silent) = (
        SendCompletion { n: 1, ..good },
        SendCompletion {
            signaled: false,
            ..good
        },
    );
    refused(scene.view().check_order(0, &later), "expected request 0");
    refused(scene.view().check_order(0, &silent), "signaled: false");
    scene.qps[0].flow.complete(Status::Success);
    refused(scene.view().check_order(0, &good), "expected request 1");
    refused(scene.view().check_order(0, &later), "nothing posted");
}

#[test]
fn success_is_earned() {
    let mut scene = Scene::new(&[Verb::Send]);
    let good = sent(Status::Success);
    let check = |scene: &Scene, c| scene.view().check_success(0, 0, &c);
    refused(check(&scene, good), "has not executed it");
    scene.watches[0].accepted = 1;
    check(&scene, good).unwrap();
    let short = SendCompletion {
        byte_len: 3,
        ..good
    };
    refused(check(&scene, short), "3 bytes, not 4");
    scene.qps[0].flow.ops[0].fault = Some(Fault::NotEnabled);
    refused(check(&scene, good), "in spite of Some(NotEnabled)");
    scene.qps[0].fate.first_error = Some(Status::RetryExc);
    refused(check(&scene, good), "success after");
}

#[test]
fn failure_has_a_reason() {
    let mut scene = Scene::new(&[Verb::Send]);
    let check = |scene: &Scene, status| scene.view().check_failure(0, 0, status);
    refused(check(&scene, Status::WrFlush), "without an error before it");
    refused(
        check(&scene, Status::RetryExc),
        "gave up after 0 transmissions",
    );
    refused(
        check(&scene, Status::RnrRetryExc),
        "gave up after 0 RNR NAKs",
    );
    refused(check(&scene, Status::RemAccess), "expected None");
    scene.qps[0].flow.ops[0].risk.remote = true;
    check(&scene, Status::RemAccess).unwrap();
    refused(check(&scene, Status::RemOp), "remote: true");
    scene.qps[0].fate.killed = true;
    check(&scene, Status::WrFlush).unwrap();
    scene.qps[0].fate.first_error = Some(Status::RemAccess);
    refused(check(&scene, Status::RemAccess), "should have flushed");
}

#[test]
fn a_receive_has_what_was_sent() {
    let mut scene = Scene::new(&[Verb::Send]);
    let good = received(Status::Success);
    let check = |scene: &Scene, c| scene.view().check_received(1, 0, &c);
    check(&scene, good).unwrap();
    let imm = RecvCompletion {
        imm: Some([0; 4]),
        ..good
    };
    refused(check(&scene, imm), "immediate data");
    let long = RecvCompletion {
        byte_len: 5,
        ..good
    };
    refused(check(&scene, long), "5 bytes, sent were 4");
    let at = scene.qps[1].recv.slots[0].at;
    let byte = [!scene.hosts[1].memory.read(at + 4, 1)[0]];
    scene.hosts[1].memory.write(at + 4, &byte);
    refused(check(&scene, good), "byte Some(0) after the data");
    scene.hosts[1].memory.write(at, &[0]);
    refused(check(&scene, good), "wrong data");
    scene.qps[0].flow.received = 1;
    refused(check(&scene, good), "expected receive 1");
    scene.qps[1].fate.dead = true;
    refused(check(&scene, good), "on a QP in error");
    scene.qps[1].recv.slots[0].done = Some(Status::Success);
    let again = scene.view().check_receive_once(1, 0, &good);
    refused(again, "after Some(Success)");
}

#[test]
fn a_receive_fails_for_a_reason() {
    let mut scene = Scene::new(&[Verb::Send]);
    let check = |scene: &Scene, status| scene.view().check_receive_error(1, 0, status);
    refused(check(&scene, Status::WrFlush), "on a healthy QP");
    refused(check(&scene, Status::LocLen), "gives no such error");
    scene.qps[0].flow.ops[0].fault = Some(Fault::TooLong);
    check(&scene, Status::LocLen).unwrap();
    refused(check(&scene, Status::LocProt), "expected LocLen");
    scene.qps[0].flow.ops[0].risk.receive = true;
    check(&scene, Status::LocProt).unwrap();
    scene.qps[1].fate.receive_error = Some(Status::LocProt);
    refused(check(&scene, Status::LocLen), "a second receive error");
}

/// A region and the memory of a receive were deregistered: the WRITE with immediate data that needs
/// both meets either first.
#[test]
fn a_receive_may_fail_for_either_of_two_reasons() {
    let mut scene = Scene::new(&[Verb::WriteImm]);
    let check = |scene: &Scene, status| scene.view().check_receive_error(1, 0, status);
    scene.qps[0].flow.ops[0].risk.receive = true;
    refused(check(&scene, Status::LocAccess), "gives no such error");
    scene.qps[0].flow.ops[0].risk.remote = true;
    check(&scene, Status::LocAccess).unwrap();
    check(&scene, Status::LocProt).unwrap();
    refused(check(&scene, Status::LocLen), "gives no such error");
}

#[test]
fn a_packet_is_dropped_for_a_reason() {
    let mut scene = Scene::new(&[Verb::Send]);
    let check = |scene: &Scene, cause| scene.view().check_dropped(1, cause, false);
    refused(
        check(&scene, DropReason::PKey),
        "an honest packet is dropped",
    );
    refused(check(&scene, DropReason::Refused), "an honest request");
    refused(check(&scene, DropReason::Unplaceable), "honest response");
    check(&scene, DropReason::Duplicate).unwrap();
    scene.qps[0].qpn = 3;
    refused(check(&scene, DropReason::Duplicate), "on a clean network");
    scene.plan.profile = Profile::Lossy;
    check(&scene, DropReason::Duplicate).unwrap();
    scene.plan.profile = Profile::Hostile;
    check(&scene, DropReason::PKey).unwrap();
}

#[test]
fn events_have_a_reason() {
    let mut scene = Scene::new(&[Verb::Send]);
    let check = |scene: &Scene, events| scene.view().check_events(1, events);
    refused(check(&scene, Events::REQ_ERR), "expected for []");
    refused(check(&scene, Events::SQ_DRAINED), "drained in No");
    scene.qps[1].pause = Pause::Draining(1);
    refused(check(&scene, Events::SQ_DRAINED), "0 of 1 complete");
    check(&scene, Events::COMM_EST).unwrap();
    scene.qps[1].fate.established = true;
    refused(check(&scene, Events::COMM_EST), "established twice");
}

#[test]
fn programs_hear_what_happens() {
    let mut scene = Scene::new(&[]);
    refused(scene.view().check_refusal(0), "hears nothing");
    refused(scene.view().explain_death(0), "for no reason");
    scene.qps[0].fate.first_error = Some(Status::RetryExc);
    scene.view().check_refusal(0).unwrap();
    scene.view().explain_death(0).unwrap();
    scene.qps[0].fate.early = true;
    refused(scene.view().check_established(0), "and no event");
    scene.qps[0].fate.established = true;
    scene.view().check_established(0).unwrap();
}

#[test]
fn local_requests_have_their_turn() {
    let mut scene = Scene::new(&[Verb::Local(Local::Bind), Verb::Send]);
    let view = scene.view();
    refused(view.check_turn(0, 1), "is Send");
    refused(view.check_turn(0, 2), "was not posted");
    refused(view.check_turn(0, 0), "is carried out in Reset");
    refused(view.check_begin(0, 1), "before local request Some(0)");
    refused(view.check_local_done(0, 0), "was not carried out");
    scene.qps[0].flow.ops[0].carried_out = true;
    refused(scene.view().check_turn(0, 0), "is carried out again");
    scene.view().check_begin(0, 1).unwrap();
    scene.view().check_local_done(0, 0).unwrap();
    let rkey = scene.hosts[0].regions.0[0].rkey;
    refused(scene.view().check_key_gone(0, rkey), "is still valid");
    scene.hosts[0].regions.invalidate(rkey).unwrap();
    scene.view().check_key_gone(0, rkey).unwrap();
}

#[test]
fn everything_comes_to_an_end() {
    let mut scene = Scene::new(&[Verb::Send]);
    refused(scene.view().check_rest(), "request 0 of 1 never completes");
    refused(scene.view().check_settled(0), "0 of 1 requests");
    refused(scene.view().check_settled(1), "receive Some(0) never");
    scene.qps[0].flow.complete(Status::Success);
    scene.view().check_settled(0).unwrap();
    scene.clear_inboxes();
    refused(scene.view().check_rest(), "0 receives of 1");
    refused(scene.view().check_memory(0), "0 receives, expected 1 to 1");
    scene.qps[0].flow.received = 1;
    scene.view().check_rest().unwrap();
    scene.view().check_memory(0).unwrap();
    scene.hosts[1].memory.write(3, &[1]);
    refused(scene.view().check_rest(), "byte 3 of the inbox");
    refused(scene.view().check_memory(0), "byte 3 of the inbox");
    scene.qps[0].todo = 1;
    refused(scene.view().check_rest(), "1 requests were never posted");
}

#[test]
fn memory_is_written_with_leave() {
    let mut scene = Scene::new(&[Verb::Send]);
    scene.clear_inboxes();
    let at = scene.qps[1].recv.slots[0].at;
    let stray = [!scene.hosts[1].memory.read(at + 5, 1)[0]];
    // The receive holds a part of the message, but it is not complete.
    scene.view().check_memory(1).unwrap();
    refused(scene.view().check_hosts(), "written without leave");
    scene.hosts[1].memory.write(at + 5, &stray);
    refused(scene.view().check_memory(1), "byte Some(5) of receive 0");
    scene.hosts[1].memory.accept(at, 8);
    scene.view().check_hosts().unwrap();
}

#[test]
fn data_is_what_was_asked_for() {
    let mut scene = Scene::new(&[Verb::Read]);
    let at = scene.hosts[0].memory.alloc(4, &mut Rng::new(2));
    scene.hosts[0].memory.write(at, &[1, 2, 0, 4]);
    scene.qps[0].flow.ops[0].local = at;
    scene.watches[0].accepted = 1;
    let good = sent(Status::Success);
    let check = |scene: &Scene| scene.view().check_success(0, 0, &good);
    refused(check(&scene), "no answer has reached the requester");
    let response = Seen {
        opcode: code::READ_ONLY,
        aeth: Some((0x1f, 1)),
        ..Seen::default()
    };
    scene.qps[0].send.slots.push(slot());
    let request = Seen {
        opcode: code::READ_REQUEST,
        reth: Some((0, 0, 4)),
        ..Seen::default()
    };
    let (flow, watch) = (&scene.qps[0].flow, &mut scene.watches[0]);
    let limits = Limits::of(&scene.qps[0]);
    watch.request_sent(0, flow, limits, &request).unwrap();
    watch.response_delivered(flow, &response);
    refused(check(&scene), "never whole");
    scene.qps[0].send.slots[0].finished = true;
    refused(check(&scene), "byte 2 of the answer is wrong");
    scene.hosts[0].memory.write(at, &DATA);
    check(&scene).unwrap();
}

#[test]
fn a_qp_fails_for_what_its_peer_has_begun() {
    let mut scene = Scene::new(&[Verb::Write]);
    let flow = &mut scene.qps[0].flow;
    flow.ops[0].fault = Some(Fault::NotEnabled);
    flow.doomed = Some(0);
    let check = |scene: &Scene, events| scene.view().check_events(1, events);
    // The request was not sent: the responder cannot have refused it.
    refused(check(&scene, Events::ACCESS_ERR), "expected for []");
    refused(scene.view().explain_death(1), "for no reason");
    let request = Seen {
        opcode: code::WRITE_ONLY,
        reth: Some((0, 0, 4)),
        payload: &DATA,
        ..Seen::default()
    };
    let limits = Limits::of(&scene.qps[0]);
    let (flow, watch) = (&scene.qps[0].flow, &mut scene.watches[0]);
    watch.request_sent(0, flow, limits, &request).unwrap();
    check(&scene, Events::ACCESS_ERR).unwrap();
    scene.view().explain_death(1).unwrap();
    refused(check(&scene, Events::FATAL), "expected for [NotEnabled]");
}

#[test]
fn a_requester_gives_up_where_packets_are_harmed() {
    let mut scene = Scene::new(&[Verb::Send]);
    scene.qps[0].setup.retry_cnt = 0;
    let request = Seen {
        opcode: code::SEND_ONLY,
        payload: &DATA,
        ..Seen::default()
    };
    let limits = Limits::of(&scene.qps[0]);
    let (flow, watch) = (&scene.qps[0].flow, &mut scene.watches[0]);
    watch.request_sent(0, flow, limits, &request).unwrap();
    let check = |scene: &Scene| scene.view().check_failure(0, 0, Status::RetryExc);
    refused(check(&scene), "no answer from a healthy peer");
    scene.plan.impairment.loss = 1;
    check(&scene).unwrap();
    scene.qps[1].fate.dead = true;
    scene.plan.impairment.loss = 0;
    check(&scene).unwrap();
}
