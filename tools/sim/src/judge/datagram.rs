// SPDX-License-Identifier: GPL-2.0

//! The judge of unreliable datagrams: each one that arrives was sent to this QP by a permitted
//! sender; each one that is sent on a network without faults arrives once.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::datagram::{Datagrams, Message, Receiver, Sent};
use oxe_proto::wire::{PacketRepr, GRH_LEN};

/// A request completes once, with the status that it deserves. One that fails takes the QP to SQE.
pub fn check_completion(
    message: &Message,
    n: u32,
    status: Status,
    done: Option<SendCompletion>,
    state: State,
) -> Result<(), Violation> {
    let wanted = (n, status, message.signaled);
    let right = done.is_some_and(|d| (d.n, d.status, d.signaled) == wanted);
    ensure!(right, "{message:?} completes as {done:?}");
    let expected = match status {
        Status::Success => State::Rts,
        _ => State::Sqe,
    };
    ensure!(state == expected, "{status:?} leaves it in {state:?}");
    Ok(())
}

/// The datagram that reached the QP `to`: its number among those that were sent.
pub fn identify(
    datagrams: &Datagrams,
    to: usize,
    repr: &PacketRepr,
    payload: &[u8],
) -> Result<usize, Violation> {
    let deth = repr.ext.deth().ok_or("no datagram")?;
    let (psn, qpn) = (repr.bth.psn.get(), deth.src_qp.get());
    let this = |s: &Sent| s.psn == psn && datagrams.endpoints[s.src].qpn == qpn;
    let found = datagrams.sent.iter().position(this);
    let index = found.ok_or_else(|| format!("datagram that nobody sent: {repr:?}"))?;
    let sent = &datagrams.sent[index];
    let same = sent.dest == to && payload == sent.payload;
    ensure!(same, "datagram changed on its way: {repr:?}");
    Ok(index)
}

/// The QP takes a datagram if partition and Q_Key match and a receive of `room` bytes is long
/// enough (IBTA 9.6.1, 9.8.3, 10.9.3). The receive completes with what was sent.
pub fn check_taken(
    datagrams: &Datagrams,
    sent: &Sent,
    room: Option<u32>,
    verdict: Verdict,
    receiver: &Receiver,
) -> Result<(), Violation> {
    let byte_len = (sent.payload.len() + GRH_LEN) as u32;
    let expected = match room {
        _ if !sent.welcome => None,
        None => Some(Verdict::Dropped(DropReason::NoReceive)),
        Some(room) if room < byte_len => Some(Verdict::Dropped(DropReason::ReceiveTooShort)),
        Some(_) => Some(Verdict::Accepted),
    };
    let right = match expected {
        Some(expected) => verdict == expected,
        // The transport may name any of several reasons.
        None => verdict != Verdict::Accepted && room == receiver.room(),
    };
    ensure!(right, "{verdict:?}, expected {expected:?}");
    let (done, accepted) = (receiver.done(), verdict == Verdict::Accepted);
    ensure!(done.is_some() == accepted, "{verdict:?} and {done:?}");
    let Some((done, source)) = done else {
        return Ok(());
    };
    let right = done.status == Status::Success
        && done.imm == sent.imm
        && done.solicited == sent.solicited
        && done.byte_len == byte_len
        && source.get() == datagrams.endpoints[sent.src].qpn;
    ensure!(right, "completes as {done:?}");
    Ok(())
}

/// Every datagram that had to arrive has arrived, and none more than once, but for those that the
/// network has duplicated.
pub fn check_arrivals(sent: &[Sent], duplicates: bool) -> Result<(), Violation> {
    for sent in sent {
        let (n, psn, src) = (sent.arrived, sent.psn, sent.src);
        ensure!(n > 0 || !sent.safe, "datagram {psn:#x} of ud{src} lost");
        let most = if duplicates && !sent.safe { 2 } else { 1 };
        ensure!(n <= most, "datagram {psn:#x} of ud{src} arrived {n} times");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::datagram::{Endpoint, Requests};
    use crate::judge::tests::{received, refused};
    use oxe_proto::transport::{UdDest, UdQp, UdResponderOps};
    use oxe_proto::wire::{DethRepr, Ext, Opcode, PKey, Psn, Qpn};

    const DATA: [u8; 4] = [1, 2, 3, 4];
    const LEN: u32 = 44;

    /// Two QPs; the first has sent a datagram to the second.
    fn scene() -> Datagrams {
        let endpoint = |qpn| Endpoint {
            host: 0,
            qpn,
            qkey: 1,
            pkey: 0xffff,
            mtu: 1024,
            qp: UdQp::new(Qpn::new(qpn), PKey::new(0xffff)),
            requests: Requests::default(),
        };
        Datagrams {
            endpoints: vec![endpoint(2), endpoint(3)],
            sent: vec![Sent {
                src: 0,
                psn: 9,
                dest: 1,
                payload: DATA.to_vec(),
                imm: None,
                solicited: false,
                welcome: true,
                safe: true,
                arrived: 0,
            }],
            todo: 0,
        }
    }

    /// A packet with this PSN from this QP.
    fn packet(psn: u32, src: u32) -> PacketRepr {
        let deth = DethRepr {
            qkey: 1,
            src_qp: Qpn::new(src),
        };
        let (pkey, dest, psn) = (PKey::new(0xffff), Qpn::new(3), Psn::new(psn));
        PacketRepr::new(Opcode::UdSendOnly, pkey, dest, psn, Ext::Deth(deth), 4)
    }

    #[test]
    fn datagrams_are_those_that_were_sent() {
        let scene = scene();
        assert_eq!(identify(&scene, 1, &packet(9, 2), &DATA), Ok(0));
        refused(identify(&scene, 1, &packet(8, 2), &DATA), "nobody sent");
        refused(identify(&scene, 1, &packet(9, 3), &DATA), "nobody sent");
        refused(identify(&scene, 0, &packet(9, 2), &DATA), "changed");
        refused(identify(&scene, 1, &packet(9, 2), &[0; 4]), "changed");
    }

    /// IBTA 9.8.3: the Q_Key decides, and the receive is long enough.
    #[test]
    fn datagrams_are_taken_that_may_be() {
        let mut scene = scene();
        let check = |scene: &Datagrams, room, verdict, done: Option<(u32, u32)>| {
            let mut receiver = Receiver::new(room);
            if let Some((byte_len, source)) = done {
                receiver.recv_start();
                let completion = RecvCompletion {
                    byte_len,
                    ..received(Status::Success)
                };
                receiver.recv_done(completion, Qpn::new(source));
            }
            check_taken(scene, &scene.sent[0], room, verdict, &receiver)
        };
        let good = Some((LEN, 2));
        check(&scene, Some(LEN), Verdict::Accepted, good).unwrap();
        let none = Verdict::Dropped(DropReason::NoReceive);
        let short = Verdict::Dropped(DropReason::ReceiveTooShort);
        check(&scene, None, none, None).unwrap();
        check(&scene, Some(LEN - 1), short, None).unwrap();
        refused(check(&scene, Some(LEN), none, None), "expected Some(Acc");
        refused(
            check(&scene, Some(LEN - 1), Verdict::Accepted, good),
            "TooShort",
        );
        refused(
            check(&scene, Some(LEN), Verdict::Accepted, None),
            "and None",
        );
        let wrong = Some((LEN - 1, 2));
        refused(
            check(&scene, Some(LEN), Verdict::Accepted, wrong),
            "completes",
        );
        let stranger = Some((LEN, 3));
        refused(
            check(&scene, Some(LEN), Verdict::Accepted, stranger),
            "completes",
        );
        scene.sent[0].welcome = false;
        refused(
            check(&scene, Some(LEN), Verdict::Accepted, good),
            "expected None",
        );
        let unwelcome = Verdict::Dropped(DropReason::QKey);
        check(&scene, Some(LEN), unwelcome, None).unwrap();
    }

    #[test]
    fn each_datagram_arrives_once() {
        let mut sent = scene().sent;
        refused(check_arrivals(&sent, false), "0x9 of ud0 lost");
        sent[0].arrived = 1;
        check_arrivals(&sent, false).unwrap();
        sent[0].arrived = 2;
        refused(check_arrivals(&sent, true), "arrived 2 times");
        sent[0].safe = false;
        check_arrivals(&sent, true).unwrap();
        refused(check_arrivals(&sent, false), "arrived 2 times");
        sent[0].arrived = 0;
        check_arrivals(&sent, false).unwrap();
    }

    #[test]
    fn requests_complete_once_with_their_status() {
        let message = Message {
            len: 4,
            dest: UdDest { qpn: 3, qkey: 1 },
            imm: None,
            solicited: false,
            signaled: true,
        };
        let check = |n, status, got, state| {
            let done = SendCompletion {
                n: 7,
                status: got,
                byte_len: 4,
                signaled: true,
            };
            check_completion(&message, n, status, Some(done), state)
        };
        let (good, bad) = (Status::Success, Status::LocLen);
        check(7, good, good, State::Rts).unwrap();
        check(7, bad, bad, State::Sqe).unwrap();
        refused(check(6, good, good, State::Rts), "completes as");
        refused(check(7, good, bad, State::Rts), "completes as");
        refused(check(7, bad, bad, State::Rts), "leaves it in Rts");
        let nothing = check_completion(&message, 7, good, None, State::Rts);
        refused(nothing, "completes as None");
    }
}
