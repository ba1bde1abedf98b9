// SPDX-License-Identifier: GPL-2.0

//! The programs behind UD QPs.

use crate::host::datagram::{Datagrams, Message};
use crate::profile::US;
use crate::rng::Rng;
use oxe_proto::transport::UdDest;

/// A Q_Key with the top bit stands for the sender's own.
pub const OWN_QKEY: u32 = 1 << 31;

/// A datagram that a program sends.
pub struct Datagram {
    /// The QPs.
    pub src: usize,
    pub dest: usize,
    pub message: Message,
}

/// The programs of all hosts.
pub struct Senders<'a> {
    pub rng: &'a mut Rng,
    pub datagrams: &'a mut Datagrams,
}

impl Senders<'_> {
    /// The next datagram of a host, if there are any left to be sent.
    pub fn next(&mut self, host: usize) -> Option<Datagram> {
        let rng = &mut *self.rng;
        self.datagrams.todo = self.datagrams.todo.checked_sub(1)?;
        let ends = &self.datagrams.endpoints;
        let (src, dest) = (host * 2 + rng.index(2), rng.index(ends.len()));
        let (own_mtu, to) = (ends[src].mtu, &ends[dest]);
        let message = Message {
            len: match rng.below(8) {
                0 => 0,
                1 => own_mtu,
                2 => own_mtu + rng.range(1, 10) as u32,
                _ => rng.below(600) as u32,
            },
            dest: UdDest {
                qpn: to.qpn,
                qkey: match rng.below(8) {
                    0 => rng.next_u32() & !OWN_QKEY,
                    1 | 2 => rng.next_u32() | OWN_QKEY,
                    _ => to.qkey,
                },
            },
            imm: rng.one_in(3).then(|| rng.next_u32().to_be_bytes()),
            solicited: rng.one_in(3),
            signaled: rng.one_in(2),
        };
        Some(Datagram { src, dest, message })
    }

    /// How long a program rests, ns.
    pub fn rest(&mut self) -> u64 {
        self.rng.below(400 * US)
    }
}
