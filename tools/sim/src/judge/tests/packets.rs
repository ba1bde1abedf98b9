// SPDX-License-Identifier: GPL-2.0

//! The judges of packets: those that a QP takes, and those that it sends.

use super::*;
use crate::host::env::Notes;
use crate::host::lending::Lending;
use crate::judge::access::check_accepted;
use crate::judge::lending::{acknowledged, check_lent};
use crate::judge::paging::check_missing;
use crate::judge::placement::check_placement;

#[test]
fn lent_payloads_hold_completions() {
    let lent = Lending {
        any: true,
        first: Some(1),
    };
    let done = |n, status| SendCompletion { n, ..sent(status) };
    check_lent(lent, &done(0, Status::Success)).unwrap();
    refused(check_lent(lent, &done(1, Status::Success)), "is lent");
    refused(check_lent(lent, &done(0, Status::WrFlush)), "is lent");
    check_lent(Lending::default(), &done(1, Status::WrFlush)).unwrap();
}

#[test]
fn words_are_written_once() {
    let seen = Seen {
        opcode: code::ATOMIC_WRITE,
        reth: Some((64, 7, 8)),
        ..Seen::default()
    };
    let (none, mut one) = (Notes::default(), Notes::default());
    one.words.push(64);
    let again = Verdict::Dropped(DropReason::Duplicate);
    check_placement(Some(&seen), Verdict::Accepted, &one).unwrap();
    check_placement(Some(&seen), again, &none).unwrap();
    refused(check_placement(Some(&seen), again, &one), "carried out");
    let skipped = check_placement(Some(&seen), Verdict::Accepted, &none);
    refused(skipped, "carried out");
}

#[test]
fn packets_are_taken_that_are_allowed() {
    let good = Seen {
        opcode: code::WRITE_ONLY,
        pkey: 0xffff,
        payload: &DATA,
        ..Seen::default()
    };
    let mut setup = setup();
    let check = |setup: &Setup, seen: &Seen<'_>| check_accepted(setup, &[seen.clone()]);
    check(&setup, &good).unwrap();
    let stranger = Seen {
        pkey: 0x8001,
        ..good.clone()
    };
    refused(check(&setup, &stranger), "takes P_Key 0x8001");
    let first = Seen {
        opcode: code::WRITE_FIRST,
        ..good.clone()
    };
    refused(check(&setup, &first), "takes 4 bytes");
    let crooked = Seen {
        opcode: code::FETCH_ADD,
        atomic: Some((4, 0, 0, 0)),
        payload: &[],
        ..good.clone()
    };
    refused(check(&setup, &crooked), "takes Seen");
    setup.access.write = false;
    refused(check(&setup, &good), "does not allow");
}

#[test]
fn an_ack_comes_before_the_next_request() {
    let mut scene = Scene::new(&[Verb::Send, Verb::Send]);
    let request = Seen {
        opcode: code::SEND_ONLY,
        ..Seen::default()
    };
    let check = |scene: &Scene| scene.view().check_acknowledged(1, &request);
    check(&scene).unwrap();
    scene.watches[0].accepted = 1;
    refused(check(&scene), "before the ACK of packet 0");
    let ack = Seen {
        opcode: code::ACK,
        aeth: Some((0x1f, 1)),
        ..Seen::default()
    };
    let nak = Seen {
        aeth: Some((0x60, 1)),
        ..ack.clone()
    };
    assert_eq!((acknowledged(0, &ack), acknowledged(0, &nak)), (1, 0));
    scene.qps[0].acknowledged = 1;
    check(&scene).unwrap();
    scene.watches[0].accepted = 2;
    refused(check(&scene), "before the ACK of packet 1");
}

#[test]
fn missing_pages_are_the_reason() {
    let (there, gone) = (
        Notes::default(),
        Notes {
            missing: true,
            ..Notes::default()
        },
    );
    let dropped = Verdict::Dropped(DropReason::NotPresent);
    check_missing(Verdict::Accepted, &there).unwrap();
    check_missing(dropped, &gone).unwrap();
    refused(check_missing(dropped, &there), "page missing: false");
    let taken = check_missing(Verdict::Accepted, &gone);
    refused(taken, "page missing: true");
}

#[test]
fn packets_go_to_the_peer() {
    let mut scene = Scene::new(&[Verb::Send, Verb::Send]);
    let check = |scene: &Scene, seen: &Seen| scene.view().check_sent(0, seen);
    let good = Seen {
        dest_qp: 3,
        pkey: 0xffff,
        psn: 1,
        payload: &DATA,
        ..Seen::default()
    };
    check(&scene, &good).unwrap();
    let stray = Seen {
        dest_qp: 2,
        ..good.clone()
    };
    refused(check(&scene, &stray), "sends to 0x2");
    let stranger = Seen {
        pkey: 0x7fff,
        ..good.clone()
    };
    refused(check(&scene, &stranger), "P_Key 0x7fff");
    let long = Seen {
        payload: &[0; 260],
        ..good.clone()
    };
    refused(check(&scene, &long), "longer than the path MTU");
    let padded = Seen {
        pad: 1,
        ..good.clone()
    };
    refused(check(&scene, &padded), "pad 1");
    scene.qps[0].pause = Pause::Draining(1);
    refused(check(&scene, &good), "request Some(1) begins in SQD");
    scene.qps[0].pause = Pause::Draining(2);
    check(&scene, &good).unwrap();
}

#[test]
fn a_qp_in_error_is_silent() {
    let mut scene = Scene::new(&[Verb::Send]);
    let request = Seen {
        opcode: code::SEND_ONLY,
        ..Seen::default()
    };
    let nak = Seen {
        opcode: code::ACK,
        aeth: Some((0x61, 0)),
        ..Seen::default()
    };
    let check = |scene: &Scene, seen: &Seen| scene.view().check_silence(0, seen);
    check(&scene, &request).unwrap();
    scene.qps[0].conn.to_error();
    refused(check(&scene, &request), "in error, and sends");
    check(&scene, &nak).unwrap();
    scene.qps[0].fate.killed = true;
    refused(check(&scene, &nak), "in error, and sends");
}

/// IBTA annex A19.4: a FLUSH is carried out as the packet says, a range or the region.
#[test]
fn flushes_are_those_that_were_asked_for() {
    let seen = |level: u32| Seen {
        opcode: code::FLUSH,
        reth: Some((64, 7, 8)),
        feth: Some((level << 4) | 1),
        ..Seen::default()
    };
    let done = |range| Notes {
        flushes: vec![Flush {
            rkey: 7,
            range,
            global: true,
            persistent: false,
        }],
        ..Notes::default()
    };
    let check = |seen: &Seen, notes: &Notes| check_placement(Some(seen), Verdict::Accepted, notes);
    let (range, region) = (seen(0), seen(1));
    check(&range, &done(Some((64, 8)))).unwrap();
    check(&region, &done(None)).unwrap();
    refused(check(&range, &done(None)), "carried out");
    refused(check(&region, &done(Some((64, 8)))), "carried out");
    refused(check(&range, &Notes::default()), "carried out");
}
