// SPDX-License-Identifier: GPL-2.0

//! Whether the peer keeps packets behind a lost one, as far as the requester knows, and the packet
//! that it sends again alone (see `repair`).

use super::wire::Psn;

/// How many losses a peer that has dropped what came behind a lost packet is taken to do so.
const GOES_BACK: u8 = 64;

/// How many packets in a row are sent again alone. A requester that goes back needs one round trip
/// for all of them.
const MAX_RUN: u8 = 2;

/// How the peer treats packets behind a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// Nothing: the next loss is a trial.
    Unknown,
    /// It keeps packets behind a lost one.
    Keeps,
    /// It dropped them, and is taken to do so for this many losses.
    GoesBack(u8),
}

/// The packet that is sent again alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// There is none.
    None,
    /// The packet with this PSN is to be sent.
    Due(Psn),
    /// It was sent.
    Sent(Psn),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Selective {
    /// Packets are sent again alone at all.
    enabled: bool,
    /// There is a repair, or a loss whose round trip is not over.
    active: bool,
    peer: Peer,
    repair: Repair,
    /// The repair that was sent last, until its round trip is over.
    latest: Option<Psn>,
    /// The latest repair was acknowledged alone.
    exact: bool,
    /// Packets in a row that were sent again alone.
    run: u8,
    /// Losses before this PSN belong to one round trip.
    episode: Option<Psn>,
}

impl Selective {
    /// Nothing is lost, or known.
    pub(super) const NEW: Self = Selective {
        enabled: true,
        active: false,
        peer: Peer::Unknown,
        repair: Repair::None,
        latest: None,
        exact: false,
        run: 0,
        episode: None,
    };

    /// Whether packets are to be sent again alone from now on.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Whether [`Selective::settle`] is to be called when `una` advances.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether a repair is to be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        matches!(self.repair, Repair::Due(_))
    }

    /// Whether a repair is to be sent, or was and is not acknowledged.
    pub(super) fn is_repairing(&self) -> bool {
        self.repair != Repair::None
    }

    /// `una` has advanced.
    #[cold]
    pub(super) fn settle(&mut self, una: Psn) {
        self.exact = false;
        if let Repair::Due(psn) | Repair::Sent(psn) = self.repair {
            let beyond = una.distance(psn.next());
            if beyond >= 0 {
                self.exact = beyond == 0 && self.repair == Repair::Sent(psn);
                if beyond > 0 && self.repair == Repair::Sent(psn) {
                    self.peer = Peer::Keeps;
                    self.run = 0;
                }
                self.repair = Repair::None;
            }
        }
        self.episode = self.episode.filter(|end| end.is_after(una));
        self.active = self.episode.is_some();
        self.exact &= self.active;
        if !self.active {
            self.latest = None;
        }
    }

    /// Whether the latest repair has just been acknowledged alone: once.
    #[cold]
    pub(super) fn take_exact(&mut self) -> bool {
        core::mem::take(&mut self.exact)
    }

    /// The peer has dropped what came behind a lost packet.
    pub(super) fn note_dropped(&mut self) {
        self.peer = Peer::GoesBack(GOES_BACK);
    }

    /// The packet at `una` is lost; `exact` if it is the one behind a repair. Gives whether it is
    /// to be sent again alone.
    pub(super) fn may_repair(&mut self, exact: bool) -> bool {
        match self.peer {
            _ if !self.enabled => false,
            // A second loss at once, or a trial that says nothing.
            Peer::Unknown => !exact,
            Peer::Keeps => !exact || self.run < MAX_RUN,
            Peer::GoesBack(0) => {
                self.peer = Peer::Unknown;
                true
            }
            Peer::GoesBack(left) => {
                self.peer = Peer::GoesBack(left.saturating_sub(1));
                false
            }
        }
    }

    /// Whether a loss at `una` belongs to a round trip of which another loss is known. If not,
    /// losses before `next`, the packet to be sent next, do from now on.
    pub(super) fn is_known_loss(&mut self, una: Psn, next: Psn) -> bool {
        let known = self.episode.is_some_and(|end| end.is_after(una));
        if !known {
            self.episode = Some(next);
            self.active = true;
        }
        known
    }

    /// The packet at `una` is to be sent again alone; `exact` as for [`Selective::may_repair`].
    pub(super) fn ask(&mut self, una: Psn, exact: bool) {
        self.run = if exact { self.run.saturating_add(1) } else { 0 };
        self.repair = Repair::Due(una);
    }

    /// The repair of the packet with `psn` is sent.
    pub(super) fn on_sent(&mut self, psn: Psn) {
        self.repair = Repair::Sent(psn);
        self.latest = Some(psn);
    }

    /// The packet with `psn` was not sent. Gives whether it was a repair, which is due again unless
    /// it was acknowledged meanwhile.
    pub(super) fn undo(&mut self, psn: Psn) -> bool {
        let repair = self.latest.take_if(|latest| *latest == psn).is_some();
        if repair && self.repair == Repair::Sent(psn) {
            self.repair = Repair::Due(psn);
        }
        repair
    }

    /// The requester goes back to `una`.
    #[cold]
    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.repair = Repair::None;
        self.latest = None;
        self.exact = false;
        self.run = 0;
        self.episode = None;
        self.active = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_goes_back_is_tried_again_after_some_losses() {
        let mut selective = Selective::NEW;
        for _ in 0..3 {
            assert!(selective.may_repair(false));
            selective.note_dropped();
            for loss in 0..GOES_BACK {
                assert!(!selective.may_repair(false), "{loss}");
            }
        }
        assert!(selective.may_repair(false));
        selective.enabled = false;
        assert!(!selective.may_repair(false));
    }
}
