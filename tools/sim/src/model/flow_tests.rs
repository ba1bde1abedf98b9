// SPDX-License-Identifier: GPL-2.0

//! The model itself: it must say what is right, and must not take wrong for right.

use super::*;
use crate::model::verb::Local;

pub fn op(verb: Verb, data: &[u8]) -> Op {
    let len = if verb.is_atomic() { 8 } else { data.len() };
    Op {
        signaled: true,
        data: data.to_vec(),
        ..Op::new(verb, len as u32)
    }
}

fn flow() -> Flow {
    Flow::new(0xff_fffe, 256, 1000, &[0; 32])
}

#[test]
fn psns_are_counted_over_the_wrap() {
    let mut flow = flow();
    flow.post(op(Verb::Send, &[0; 600]), None);
    flow.post(op(Verb::Send, &[]), None);
    flow.post(op(Verb::Read, &[0; 512]), None);
    flow.post(op(Verb::FetchAdd { add: 1 }, &[]), Some(0));
    let spans: Vec<_> = flow.ops.iter().map(|op| (op.first, op.span)).collect();
    assert_eq!(spans, [(0, 3), (3, 1), (4, 2), (6, 1)]);
    assert_eq!((flow.psn(0), flow.psn(2)), (0xff_fffe, 0));
    assert_eq!((flow.packet(0xff_fffe), flow.packet(4)), (0, 6));
    let owners: Vec<_> = (0..8).map(|packet| flow.op_at(packet)).collect();
    let expected = [0, 0, 0, 1, 2, 2, 3].map(Some);
    assert_eq!(owners[..7], expected);
    assert_eq!(owners[7], None);
    // A READ is one request however many PSNs it takes.
    let before: Vec<_> = (0..8).map(|packet| flow.requests_before(packet)).collect();
    assert_eq!(before, [0, 1, 2, 3, 4, 4, 5, 6]);
}

#[test]
fn a_read_is_a_request_for_each_chunk() {
    let mut flow = flow();
    flow.chunk = 4;
    flow.post(op(Verb::Read, &[0; 10 * 256]), None);
    flow.post(op(Verb::Send, &[]), None);
    assert_eq!([0, 4, 10].map(|p| flow.requests_before(p)), [0, 1, 3]);
    // What was asked for is known, and the rest is taken to be asked for in chunks of four.
    for end in [1, 3, 3] {
        flow.ask(0, end);
    }
    let read = &flow.ops[0];
    let ends: Vec<_> = (0..10).map(|k| read.chunk_end(k)).collect();
    assert_eq!(ends, [1, 3, 3, 7, 7, 7, 7, 10, 10, 10]);
    let starts: Vec<_> = (0..10).filter(|k| read.starts_chunk(*k)).collect();
    assert_eq!(starts, [0, 1, 3, 7]);
    assert_eq!((flow.requests_before(10), flow.messages_before(7)), (4, 3));
    for end in [4, 11] {
        flow.ask(0, end);
    }
    assert_eq!((flow.ops[0].packets(), flow.requests_before(10)), (4, 4));
}

#[test]
fn local_requests_take_no_psn() {
    let mut flow = flow();
    for verb in [
        Verb::Local(Local::Bind),
        Verb::Send,
        Verb::Local(Local::Bind),
        Verb::Read,
    ] {
        flow.post(op(verb, &[]), None);
    }
    let spans: Vec<_> = flow.ops.iter().map(|op| (op.first, op.span)).collect();
    assert_eq!(spans, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    let owners: Vec<_> = (0..3).map(|packet| flow.op_at(packet)).collect();
    assert_eq!(owners, [Some(1), Some(3), None]);
    let before = |packet| (flow.requests_before(packet), flow.messages_before(packet));
    assert_eq!([0, 1, 2].map(before), [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn writes_show_in_order() {
    let mut flow = flow();
    flow.post(op(Verb::Write, &[1, 1, 1, 1]), Some(4));
    flow.post(op(Verb::Write, &[2, 2]), Some(5));
    let image = |bytes: [u8; 4]| bytes;
    let window = |flow: &Flow, got: [u8; 4], low, high| flow.check_inbox(&got, 4, low, high);
    // Both executed.
    assert_eq!(window(&flow, image([1, 2, 2, 1]), 2, 2), Ok(()));
    assert_eq!(window(&flow, image([1, 1, 2, 1]), 2, 2), Err(1));
    // The first executed, the second perhaps, or partly.
    for got in [[1, 1, 1, 1], [1, 2, 1, 1], [1, 2, 2, 1]] {
        assert_eq!(window(&flow, got, 1, 2), Ok(()));
    }
    assert_eq!(window(&flow, [0, 1, 1, 1], 1, 2), Err(0));
    assert_eq!(window(&flow, [1, 1, 1, 2], 1, 2), Err(3));
    // Nothing may have happened yet.
    assert_eq!(window(&flow, [0, 0, 0, 0], 0, 0), Ok(()));
    assert_eq!(window(&flow, [0, 1, 0, 0], 0, 0), Err(1));
    assert_eq!(flow.final_image_is(flow.image()), Ok(()));
    assert_eq!(flow.final_image_is(&[0; 32]), Err(4));
}

#[test]
fn atomics_find_what_was_left() {
    let mut flow = flow();
    let word = |n: u64| n.to_ne_bytes();
    flow.post(op(Verb::FetchAdd { add: 5 }, &[]), Some(8));
    flow.post(op(Verb::FetchAdd { add: 6 }, &[]), Some(8));
    let swap = |compare| Verb::CompareSwap { compare, swap: 99 };
    flow.post(op(swap(10), &[]), Some(8));
    flow.post(op(swap(11), &[]), Some(8));
    flow.post(op(Verb::FetchAdd { add: u64::MAX }, &[]), Some(8));
    let found: Vec<_> = flow.ops.iter().map(|op| op.data.clone()).collect();
    let expected = [0, 5, 11, 11, 99].map(|n| word(n).to_vec());
    assert_eq!(found, expected);
    assert_eq!(flow.image()[8..16], word(98));
    // Executed twice it is neither before nor after.
    assert_eq!(flow.check_inbox(&word(10), 8, 1, 1), Err(0));
}

#[test]
fn a_read_sees_what_was_before_and_may_see_what_comes_after() {
    let mut flow = flow();
    flow.post(op(Verb::Write, &[1; 4]), Some(0));
    flow.post(op(Verb::Read, &[0; 4]), Some(0));
    flow.post(op(Verb::Write, &[2; 4]), Some(0));
    let mut fenced = op(Verb::Write, &[3; 4]);
    fenced.fence = true;
    flow.post(fenced, Some(0));
    let check = |got: [u8; 4]| {
        let later = flow.unfenced(1);
        flow.check_against(&got, &flow.ops[1].data, 0, 2, later)
    };
    assert_eq!(check([1; 4]), Ok(()));
    assert_eq!(check([1, 2, 2, 2]), Ok(()));
    assert_eq!(check([0, 1, 1, 1]), Err(0), "older than the READ");
    assert_eq!(check([1, 3, 1, 1]), Err(1), "behind the fence");
}

#[test]
fn what_comes_after_a_refusal_is_not_executed() {
    let mut flow = flow();
    let mut bad = op(Verb::Write, &[1; 4]);
    bad.fault = Some(Fault::NotEnabled);
    flow.post(op(Verb::Write, &[7; 4]), Some(0));
    flow.post(bad, None);
    flow.post(op(Verb::Write, &[9; 4]), Some(0));
    assert_eq!((flow.doomed, flow.executable()), (Some(1), 2));
    assert_eq!(flow.check_inbox(&[7; 4], 0, 1, flow.executable()), Ok(()));
    assert_eq!(flow.check_inbox(&[9; 4], 0, 1, flow.executable()), Err(0));
}
