// SPDX-License-Identifier: GPL-2.0

//! The judge of the request packets that a responder keeps behind a missing one: each is handed on
//! once, in its turn and as it came, and none is forgotten but for a reason.

use crate::check::{ensure, Violation};
use std::collections::BTreeSet;

/// Packets are kept less than so many ahead of the one that is expected.
const SPAN: u64 = 128;

/// The packets that a responder keeps, counted from the first one of the flow.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    packets: BTreeSet<u64>,
}

impl Kept {
    /// The responder has kept a packet, and expects `expected`.
    pub fn keep(&mut self, packet: u64, expected: u64) -> Result<(), Violation> {
        let ahead = packet.saturating_sub(expected);
        ensure!(
            "design: kept requests",
            (1..SPAN).contains(&ahead),
            "keeps packet {packet}, expecting {expected}"
        );
        let new = self.packets.insert(packet);
        ensure!("design: kept requests", new, "keeps packet {packet} twice");
        Ok(())
    }

    /// The device hands on `packet`, a kept one, as the responder expects `expected`.
    pub fn hand_on(&mut self, packet: u64, expected: u64) -> Result<(), Violation> {
        ensure!(
            "design: kept requests",
            packet == expected && self.packets.remove(&packet),
            "hands on packet {packet}, expecting {expected}"
        );
        Ok(())
    }

    /// The device has processed an input: the packet that is expected now is none that was kept.
    pub fn check_rest(&mut self, expected: u64) -> Result<(), Violation> {
        self.packets = self.packets.split_off(&expected);
        let held = self.packets.contains(&expected);
        ensure!(
            "design: kept requests",
            !held,
            "does not go on with packet {expected}, which it has kept"
        );
        Ok(())
    }

    /// A packet was refused, or the connection has ended.
    pub fn forget(&mut self) {
        self.packets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<(), Violation>, reason: &str) {
        let found = result.expect_err("this is wrong");
        assert!(found.to_string().contains(reason), "{found}");
    }

    #[test]
    fn kept_packets_have_their_turn_once() {
        let mut kept = Kept::default();
        for packet in [4, 5, 7, 129] {
            kept.keep(packet, 2).unwrap();
        }
        refused(kept.keep(5, 2), "keeps packet 5 twice");
        refused(kept.keep(130, 2), "keeps packet 130, expecting 2");
        refused(kept.keep(2, 2), "keeps packet 2, expecting 2");
        kept.check_rest(2).unwrap();
        refused(kept.clone().check_rest(4), "does not go on with packet 4");
        refused(kept.clone().hand_on(5, 4), "hands on packet 5, expecting 4");
        kept.hand_on(4, 4).unwrap();
        refused(kept.clone().hand_on(4, 4), "hands on packet 4");
        kept.hand_on(5, 5).unwrap();
        refused(kept.clone().hand_on(6, 6), "hands on packet 6");
        kept.check_rest(6).unwrap();
        // What a longer packet has covered is not needed any more.
        kept.check_rest(8).unwrap();
        refused(kept.clone().hand_on(7, 7), "hands on packet 7");
        kept.forget();
        kept.check_rest(129).unwrap();
    }
}
