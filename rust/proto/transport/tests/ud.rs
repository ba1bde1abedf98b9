// SPDX-License-Identifier: GPL-2.0

//! A datagram queue pair: its send queue, its states, and the packets that it takes.

use super::super::ud::datagram::QKEY_GSI;
use super::super::wire::{PKey, PacketRepr, Psn, Qpn, GRH_LEN};
use super::super::{
    DropReason, Events, Flags, Origin, PlaceError, RecvCompletion, RecvStart, Request,
    RequestQueue, SendOp, State, Status, Transmit, UdDest, UdModify, UdQp, UdRequestQueue,
    UdResponderOps, Verdict,
};
use super::pair::signaled;
use State::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

const MTU: u32 = 1024;
const QKEY: u32 = 0x1111;
const GRH: [u8; GRH_LEN] = [7; GRH_LEN];

/// The owner of a queue pair: its send queue, which keeps all requests, and its receive queue.
#[derive(Default)]
pub struct Owner {
    requests: Vec<Request>,
    /// The results of `recv_start`, the next one first.
    receives: Vec<(RecvStart, u32)>,
    in_use: Option<(RecvStart, u32)>,
    no_grh: bool,
    placed: Option<PlaceError>,
    done: Vec<(RecvCompletion, Qpn)>,
}

impl RequestQueue for Owner {
    fn tail(&self) -> u32 {
        self.requests.len() as u32
    }
    fn get(&self, n: u32) -> Option<&Request> {
        self.requests.get(n as usize)
    }
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.requests.get_mut(n as usize)
    }
}

impl UdRequestQueue for Owner {
    fn dest(&self, n: u32) -> Option<UdDest> {
        let request = self.get(n)?;
        request.local_error().is_none().then_some(UdDest {
            qpn: 99,
            qkey: QKEY,
        })
    }
}

impl UdResponderOps for Owner {
    fn grh(&self) -> Option<[u8; GRH_LEN]> {
        (!self.no_grh).then_some(GRH)
    }
    fn recv_start(&mut self) -> RecvStart {
        if self.in_use.is_none() && !self.receives.is_empty() {
            self.in_use = Some(self.receives.remove(0));
        }
        self.in_use.map_or(RecvStart::Empty, |(start, _)| start)
    }
    fn recv_room(&self) -> u32 {
        self.in_use.expect("a receive in use").1
    }
    fn recv_place(&mut self, grh: &[u8; GRH_LEN]) -> Result<(), PlaceError> {
        assert_eq!(*grh, GRH);
        assert_eq!(self.in_use.expect("a receive in use").0, RecvStart::Taken);
        self.placed.map_or(Ok(()), Result::Err)
    }
    fn recv_done(&mut self, completion: RecvCompletion, source: Qpn) {
        assert!(self.in_use.take().is_some());
        self.done.push((completion, source));
    }
}

/// A queue pair in `state`, reached as the specification allows, and its owner.
pub fn in_state(state: State) -> (UdQp, Owner) {
    let mut qp = UdQp::new(Qpn::new(17), PKey::DEFAULT);
    let way: &[State] = match state {
        Reset => &[],
        Init => &[Init],
        Rtr => &[Init, Rtr],
        Rts | Sqe => &[Init, Rtr, Rts],
        Sqd => &[Init, Rtr, Rts, Sqd],
        Err => &[Init, Err],
    };
    for state in way {
        become_state(&mut qp, *state);
    }
    let set = UdModify {
        qkey: Some(QKEY),
        sq_psn: Some(5),
        ..UdModify::default()
    };
    qp.modify(&set).unwrap();
    let mut owner = Owner::default();
    if state == Sqe {
        owner.requests = vec![Request::with_local_error(Status::LocProt)];
        assert_eq!(qp.poll_transmit(|| MTU, &owner), None);
        assert_eq!(statuses(&mut qp, &owner), [Status::LocProt]);
    }
    assert_eq!(qp.state(), state);
    (qp, owner)
}

fn become_state(qp: &mut UdQp, state: State) {
    let change = UdModify {
        state: Some(state),
        ..UdModify::default()
    };
    qp.modify(&change).unwrap();
}

fn send(len: u32) -> Request {
    Request::new(SendOp::Send, len, 0, 0, signaled())
}

fn transmit(qp: &mut UdQp, owner: &Owner) -> Transmit {
    qp.poll_transmit(|| MTU, owner).expect("a packet")
}

/// The completions, after the payloads of all datagrams were copied.
fn statuses(qp: &mut UdQp, owner: &Owner) -> Vec<Status> {
    qp.release();
    std::iter::from_fn(|| qp.poll_send_completion(owner))
        .map(|done| done.status)
        .collect()
}

/// A packet of `len` bytes for the queue pair.
pub fn packet(len: u32) -> PacketRepr {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests.push(send(len));
    transmit(&mut qp, &owner).header
}

fn receive(owner: &mut Owner, state: State, len: u32) -> (Verdict, State) {
    let (mut qp, _) = in_state(state);
    let verdict = qp.handle_packet(&packet(len), len, owner);
    (verdict, qp.state())
}

pub fn receives(room: u32) -> Owner {
    Owner {
        receives: vec![(RecvStart::Taken, room)],
        ..Owner::default()
    }
}

#[test]
fn a_datagram_is_complete_when_its_payload_is_copied() {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests = vec![send(0), send(1), send(MTU)];
    owner.requests[1].signaled = false;
    assert!(statuses(&mut qp, &owner).is_empty());
    for n in 0..3 {
        let transmit = transmit(&mut qp, &owner);
        assert_eq!(transmit.origin, Origin::Request { n });
        assert_eq!(transmit.payload.len(), [0, 1, MTU][n as usize]);
        assert_eq!(transmit.header.bth.psn, Psn::new(5 + n));
        assert_eq!(transmit.segments, 1);
        assert_eq!(qp.poll_send_completion(&owner), None);
        assert!(qp.release());
        let done = qp.poll_send_completion(&owner).expect("a completion");
        assert_eq!((done.n, done.status), (n, Status::Success));
        assert_eq!(done.signaled, n != 1);
    }
    assert_eq!(qp.poll_transmit(|| MTU, &owner), None);
    assert!(!qp.release());
    assert_eq!(qp.poll_send_completion(&owner), None);
}

/// A message that does not fit in a packet of the port is a local length error (IBTA 11.6.2).
#[test]
fn one_that_is_too_long_for_the_port_fails() {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests = vec![send(MTU), send(MTU + 1), send(1)];
    let _ = transmit(&mut qp, &owner);
    assert_eq!(qp.poll_transmit(|| MTU, &owner), None);
    let expect = [Status::Success, Status::LocLen, Status::WrFlush];
    assert_eq!(statuses(&mut qp, &owner), expect);
    assert_eq!(qp.state(), Sqe);
    become_state(&mut qp, Rts);
    owner.requests.push(send(1));
    assert_eq!(transmit(&mut qp, &owner).header.bth.psn, Psn::new(6));
}

#[test]
fn a_packet_that_was_not_sent_is_given_again() {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests = vec![send(1), send(2)];
    let _ = transmit(&mut qp, &owner);
    let second = transmit(&mut qp, &owner);
    qp.undo(&second);
    assert_eq!(statuses(&mut qp, &owner), [Status::Success]);
    assert_eq!(transmit(&mut qp, &owner), second);
    assert_eq!(statuses(&mut qp, &owner), [Status::Success]);
}

/// IBTA 10.3.1.6: a datagram that fails takes the send queue to SQE, and the requests after it are
/// flushed.
#[test]
fn a_failed_request_stops_the_send_queue() {
    for garbage in [true, false] {
        let (mut qp, mut owner) = in_state(Rts);
        owner.requests = vec![send(1), send(2), send(3)];
        if garbage {
            owner.requests[1] = Request::with_local_error(Status::LocProt);
        }
        let _ = transmit(&mut qp, &owner);
        if !garbage {
            let second = transmit(&mut qp, &owner);
            qp.local_error(&second, Status::LocProt);
        }
        assert_eq!(qp.poll_transmit(|| MTU, &owner), None);
        let expect = [Status::Success, Status::LocProt, Status::WrFlush];
        assert_eq!(statuses(&mut qp, &owner), expect);
        assert_eq!(qp.state(), Sqe);
        // It still receives, and may send again after a modify to RTS.
        owner.receives = receives(100).receives;
        let verdict = qp.handle_packet(&packet(4), 4, &mut owner);
        assert_eq!(verdict, Verdict::Accepted);
        owner.requests.push(send(4));
        assert_eq!(statuses(&mut qp, &owner), [Status::WrFlush]);
        become_state(&mut qp, Rts);
        owner.requests.push(send(5));
        assert_eq!(transmit(&mut qp, &owner).payload.len(), 5);
    }
}

#[test]
fn only_a_ready_send_queue_sends() {
    for state in State::ALL {
        let (mut qp, mut owner) = in_state(state);
        owner.requests.push(send(1));
        let before = owner.tail() - 1;
        let sends = qp.poll_transmit(|| MTU, &owner).is_some();
        assert_eq!(sends, state == Rts, "{state:?}");
        let flushed = matches!(state, Sqe | Err);
        qp.release();
        let done = qp.poll_send_completion(&owner);
        let status = done.map(|done| (done.n, done.status));
        let expect = match state {
            Rts => Some((before, Status::Success)),
            _ => flushed.then_some((before, Status::WrFlush)),
        };
        assert_eq!(status, expect, "{state:?}");
    }
}

#[test]
fn the_port_is_asked_only_if_there_is_something_to_send() {
    // A queue pair that only receives runs this for each packet; the netdev has a lock.
    let no_mtu = || panic!("the path MTU was asked for");
    for state in State::ALL {
        let (mut qp, mut owner) = in_state(state);
        if state != Rts {
            owner.requests.push(send(1));
        }
        assert_eq!(qp.poll_transmit(no_mtu, &owner), None);
    }
}

#[test]
fn a_send_queue_that_stops_is_drained() {
    let (mut qp, _) = in_state(Rts);
    assert!(qp.take_events().is_empty());
    become_state(&mut qp, Sqd);
    assert!(qp.take_events().contains(Events::SQ_DRAINED));
    become_state(&mut qp, Sqd);
    assert!(qp.take_events().is_empty());
}

#[test]
fn a_send_queue_is_drained_when_no_payload_is_needed() {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests.push(send(1));
    let _ = transmit(&mut qp, &owner);
    become_state(&mut qp, Sqd);
    assert!(qp.take_events().is_empty());
    assert!(qp.release());
    assert!(qp.take_events().contains(Events::SQ_DRAINED));
    assert!(!qp.release());
    assert!(qp.take_events().is_empty());
}

#[test]
fn a_modify_does_all_or_nothing() {
    let (mut qp, _) = in_state(Init);
    let change = UdModify {
        state: Some(Rts),
        qkey: Some(1),
        sq_psn: Some(9),
    };
    assert!(qp.modify(&change).is_err());
    assert_eq!((qp.state(), qp.qkey()), (Init, QKEY));
    assert_eq!(qp.next_psn(), Psn::new(5));
}

#[test]
fn reset_forgets_everything() {
    let (mut qp, mut owner) = in_state(Rts);
    owner.requests = vec![send(1), Request::with_local_error(Status::LocProt)];
    let _ = transmit(&mut qp, &owner);
    assert_eq!(qp.poll_transmit(|| MTU, &owner), None);
    become_state(&mut qp, Reset);
    assert_eq!((qp.qkey(), qp.next_psn()), (0, Psn::ZERO));
    for state in [Init, Rtr, Rts] {
        become_state(&mut qp, state);
    }
    // Requests count from 0 again, and none has failed.
    let again = transmit(&mut qp, &owner);
    assert_eq!(again.origin, Origin::Request { n: 0 });
    assert_eq!(again.header.ext.deth().unwrap().src_qp, Qpn::new(17));
}

/// IBTA annex A17.4.5.2: 40 bytes come before the payload.
#[test]
fn a_datagram_takes_a_receive() {
    let mut owner = receives(41);
    let accepted = receive(&mut owner, Rtr, 1);
    assert_eq!(accepted, (Verdict::Accepted, Rtr));
    let (done, source) = owner.done[0];
    assert_eq!(done.status, Status::Success);
    assert_eq!((done.byte_len, source), (41, Qpn::new(17)));
    assert!(!done.write_imm && done.inv_rkey.is_none());
}

/// IBTA 9.8.3: a datagram without a receive, or with one that is too short, is dropped.
#[test]
fn one_without_a_place_is_lost() {
    let dropped = |cause, state| (Verdict::Dropped(cause), state);
    let mut none = Owner::default();
    let verdict = receive(&mut none, Rts, 1);
    assert_eq!(verdict, dropped(DropReason::NoReceive, Rts));
    // The receive that was too short stays for the next datagram.
    let mut short = receives(40);
    let verdict = receive(&mut short, Rts, 1);
    assert_eq!(verdict, dropped(DropReason::ReceiveTooShort, Rts));
    assert_eq!(receive(&mut short, Rts, 0), (Verdict::Accepted, Rts));
    let mut no_grh = Owner {
        no_grh: true,
        ..receives(100)
    };
    let verdict = receive(&mut no_grh, Rts, 1);
    assert_eq!(verdict, dropped(DropReason::NoGrh, Rts));
    assert_eq!(no_grh.receives.len(), 1);
}

#[test]
fn a_receive_that_fails_is_an_error_of_the_queue_pair() {
    let garbage = Owner {
        receives: vec![(RecvStart::LocalError(Status::LocQpOp), 0)],
        ..Owner::default()
    };
    let gone = Owner {
        placed: Some(Status::LocProt.into()),
        ..receives(100)
    };
    for (mut owner, status) in [(garbage, Status::LocQpOp), (gone, Status::LocProt)] {
        assert_eq!(receive(&mut owner, Rts, 1), (Verdict::Accepted, Err));
        assert_eq!(owner.done[0].0.status, status);
    }
}

#[test]
fn states_that_receive_nothing() {
    for state in [Reset, Init, Err] {
        let mut owner = receives(100);
        let verdict = receive(&mut owner, state, 1).0;
        assert_eq!(verdict, Verdict::Dropped(DropReason::State), "{state:?}");
        assert_eq!(owner.receives.len(), 1);
    }
}

#[test]
fn the_receivers_own_checks_come_first() {
    let (mut qp, _) = in_state(Rts);
    let other = UdModify {
        qkey: Some(QKEY_GSI),
        ..UdModify::default()
    };
    qp.modify(&other).unwrap();
    let mut owner = receives(100);
    let verdict = qp.handle_packet(&packet(1), 1, &mut owner);
    assert_eq!(verdict, Verdict::Dropped(DropReason::QKey));
    assert_eq!(owner.receives.len(), 1);
}

#[test]
fn completions_tell_who_wants_an_event() {
    let (mut sender, mut queue) = in_state(Rts);
    let flags = Flags {
        solicited: true,
        ..signaled()
    };
    let imm = SendOp::SendImm([1, 2, 3, 4]);
    queue.requests.push(Request::new(imm, 3, 0, 0, flags));
    let header = transmit(&mut sender, &queue).header;
    let (mut qp, mut owner) = (in_state(Rtr).0, receives(100));
    let verdict = qp.handle_packet(&header, 3, &mut owner);
    assert_eq!(verdict, Verdict::Accepted);
    let done = owner.done[0].0;
    assert!(done.solicited);
    assert_eq!(done.imm, Some([1, 2, 3, 4]));
}

/// A datagram whose page is missing (on-demand paging) is lost. Its receive serves the next one.
#[test]
fn a_datagram_without_its_page_is_lost() {
    let mut owner = receives(100);
    owner.placed = Some(PlaceError::NotPresent);
    let lost = Verdict::Dropped(DropReason::NotPresent);
    assert_eq!(receive(&mut owner, Rts, 4), (lost, Rts));
    assert!(owner.done.is_empty());
    owner.placed = None;
    assert_eq!(receive(&mut owner, Rts, 4), (Verdict::Accepted, Rts));
    assert_eq!(owner.done.len(), 1);
}
