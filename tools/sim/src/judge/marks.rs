// SPDX-License-Identifier: GPL-2.0

//! The judge of a notification point: no CNP without a packet that was marked, one for each such
//! packet at most, one in the interval, and none is left out.

use super::decode::Seen;
use crate::check::{ensure, Violation};

/// The first bytes of a CNP: opcode, flags, P_Key, BECN.
const HEAD: [u8; 5] = [0x81, 0, 0xff, 0xff, 0x40];
/// Bytes of a CNP without its ICRC.
const LEN: usize = 28;

/// Whether the IP header of a frame has the mark: the low bits of TOS or traffic class are CE (RFC
/// 3168 5).
pub fn is_marked(frame: &[u8]) -> bool {
    let field = match frame.first().map(|byte| byte >> 4) {
        Some(4) => frame[1] & 3,
        Some(6) => (frame[1] >> 4) & 3,
        _ => 0,
    };
    field == 3
}

/// A queue pair that receives.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Since when a CNP may be sent again, ns.
    quiet_until: u64,
}

impl Marks {
    /// Whether no CNP may be sent yet.
    pub fn is_quiet(&self, now: u64) -> bool {
        now < self.quiet_until
    }

    /// Packets came together, and were taken or not; `sent` is the UDP payload of the CNP that the
    /// queue pair sends to queue pair `peer` for them.
    pub fn judge(
        &mut self,
        now: u64,
        interval: u64,
        taken: &Taken,
        peer: u32,
        sent: Option<&[u8]>,
    ) -> Result<(), Violation> {
        let payload = taken.seen.iter().any(|seen| !seen.payload.is_empty());
        let deserved = taken.marked && taken.accepted && payload;
        let due = deserved && !self.is_quiet(now);
        let Some(cnp) = sent else {
            ensure!("IBTA A17.9.3", !due, "no CNP for a marked packet");
            return Ok(());
        };
        ensure!("IBTA A17.9.3", deserved, "a CNP, and no mark: {taken:?}");
        let early = self.quiet_until.saturating_sub(now);
        ensure!(
            "design: one CNP in the interval",
            due,
            "{early} ns too early"
        );
        self.quiet_until = now + interval;
        let mut want = vec![0; LEN];
        want[..HEAD.len()].copy_from_slice(&HEAD);
        want[5..8].copy_from_slice(&peer.to_be_bytes()[1..]);
        let got = &cnp[..cnp.len().saturating_sub(4)];
        ensure!("IBTA A17.9.3", got == want, "a CNP of {got:02x?}");
        Ok(())
    }
}

/// What has come.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    pub seen: &'a [Seen<'a>],
    pub marked: bool,
    pub accepted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CNP: [u8; 32] = {
        let mut bytes = [0; 32];
        let head = [0x81, 0, 0xff, 0xff, 0x40, 0, 0, 9];
        let mut i = 0;
        while i < head.len() {
            bytes[i] = head[i];
            i += 1;
        }
        bytes
    };

    /// The rule that is broken, if a packet comes at this time.
    fn broken(marks: &mut Marks, now: u64, taken: Taken, sent: Option<&[u8]>) -> bool {
        marks.judge(now, 100, &taken, 9, sent).is_err()
    }

    #[test]
    fn each_rule_is_seen() {
        let with = [Seen {
            payload: &[1],
            ..Seen::default()
        }];
        let good = Taken {
            seen: &with,
            marked: true,
            accepted: true,
        };
        let mut marks = Marks::default();
        assert!(broken(&mut marks.clone(), 5, good, None));
        assert!(!broken(&mut marks, 5, good, Some(&CNP)));
        assert!(broken(&mut marks.clone(), 104, good, Some(&CNP)));
        assert!(!broken(&mut marks.clone(), 104, good, None));
        assert!(broken(&mut marks.clone(), 105, good, None));
        assert!(!broken(&mut marks, 105, good, Some(&CNP)));
        let without = [Seen::default()];
        for bad in [
            Taken {
                marked: false,
                ..good
            },
            Taken {
                accepted: false,
                ..good
            },
            Taken {
                seen: &without,
                ..good
            },
        ] {
            assert!(broken(&mut Marks::default(), 5, bad, Some(&CNP)), "{bad:?}");
            assert!(!broken(&mut Marks::default(), 5, bad, None), "{bad:?}");
        }
        for at in 0..28 {
            let mut wrong = CNP;
            wrong[at] ^= 0x40;
            let result = broken(&mut Marks::default(), 5, good, Some(&wrong));
            assert!(result, "byte {at}");
        }
    }

    #[test]
    fn the_mark_is_ce() {
        for (tos, marked) in [(0, false), (1, false), (2, false), (3, true), (0xc3, true)] {
            assert_eq!(is_marked(&[0x45, tos]), marked);
            assert_eq!(is_marked(&[0x60 | (tos >> 4), tos << 4]), marked);
        }
        assert!(!is_marked(&[]));
    }
}
