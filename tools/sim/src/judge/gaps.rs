// SPDX-License-Identifier: GPL-2.0

//! A gap in READ responses, as the judge on the wire knows it.

use std::collections::{BTreeMap, BTreeSet};

/// The packets behind a gap.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// The READ responses that the requester has kept, each with the number of reasons to forget
    /// what is kept that there were before.
    kept: BTreeMap<u64, u32>,
    /// How many reasons there were.
    reasons: u32,
    /// The latest reason for which it may have forgotten, as far as the judge knows.
    doubt: u32,
    /// One past the newest packet of which a response has shown that it was carried out.
    pub shown: u64,
    /// One past the last packet of each gap request.
    pub ends: BTreeSet<u64>,
    /// Gap requests since the last progress.
    pub asked: u32,
    /// Losses before this packet are of one round trip.
    pub round_end: u64,
}

impl Gaps {
    /// How many responses are kept, at most.
    pub fn kept(&self) -> u64 {
        self.kept.len() as u64
    }

    /// The requester has kept this response; gives whether it had not yet.
    pub fn keep(&mut self, packet: u64) -> bool {
        let new = self.must_lack(packet);
        self.kept.insert(packet, self.reasons);
        new
    }

    /// The requester goes on over this response as over one that it has; gives whether it may. If
    /// so it has forgotten nothing since it kept that one.
    pub fn take(&mut self, packet: u64) -> bool {
        let since = self.kept.remove(&packet);
        self.doubt = self.doubt.min(since.unwrap_or(self.doubt));
        since.is_some()
    }

    /// The requester has shown that it has this response.
    pub fn must_have(&mut self, packet: u64) {
        if let Some(since) = self.kept.get(&packet) {
            self.doubt = self.doubt.min(*since);
        }
    }

    /// The requester has shown that it does not have this response; gives whether that may be. If
    /// it had kept it, it has forgotten that and all that it had kept before the same reason.
    pub fn must_lack(&mut self, packet: u64) -> bool {
        let Some(since) = self.kept.get(&packet).copied() else {
            return true;
        };
        self.kept.retain(|_, reasons| *reasons > since);
        since < self.doubt
    }

    /// The requester has everything before `una`.
    pub fn pass(&mut self, una: u64) {
        self.kept = self.kept.split_off(&una);
    }

    /// A response has shown that everything before `end` was carried out.
    pub fn show(&mut self, end: u64) {
        self.shown = self.shown.max(end);
    }

    /// The requester may go back, and forget what it has kept.
    pub fn may_forget(&mut self) {
        self.reasons += 1;
        self.doubt = self.reasons;
    }

    /// Whether a loss is the first of its round trip, when the requester misses `una`.
    pub fn is_new_loss(&self, una: u64) -> bool {
        una >= self.round_end
    }

    /// Whether a response may end before this packet.
    pub fn may_end(&self, end: u64) -> bool {
        self.ends.contains(&end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_forgotten_for_a_reason_and_all_at_once() {
        let mut gaps = Gaps::default();
        assert!(gaps.keep(3) && gaps.keep(4));
        assert!(!gaps.clone().keep(3) && !gaps.clone().must_lack(4));
        gaps.may_forget();
        assert!(gaps.keep(5));
        // It has forgotten both, or neither.
        let mut other = gaps.clone();
        assert!(other.keep(3) && !other.take(4) && other.take(5));
        let mut other = gaps.clone();
        assert!(other.take(3) && !other.must_lack(4));
        other = gaps.clone();
        other.must_have(4);
        assert!(!other.keep(3));
        // Packet 5 says nothing of the reason before it.
        gaps.may_forget();
        assert!(gaps.take(5) && gaps.must_lack(3));
        assert_eq!(gaps.kept(), 0);
    }
}
