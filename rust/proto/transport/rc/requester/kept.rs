// SPDX-License-Identifier: GPL-2.0

//! READ responses that were placed although an earlier one is missing, and the request for those
//! that are missing before them (see `gap`).

use super::wire::Psn;

/// Responses are kept up to so many PSNs behind the oldest one that is missing: more than a path of
/// 10 Gb/s holds in half a millisecond.
pub(in super::super::super) const KEPT_SPAN: u32 = 1024;

const WORD_BITS: u32 = u64::BITS;
const WORDS: usize = (KEPT_SPAN / WORD_BITS) as usize;

/// The request for the oldest gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GapRequest {
    /// There is none.
    None,
    /// It is to be sent.
    Due,
    /// It was sent for the PSNs before `end`. `max` was one past the highest PSN that was sent
    /// then.
    Sent { end: Psn, max: Psn },
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Kept {
    /// Responses are kept at all.
    enabled: bool,
    /// There is something behind a gap, or a loss whose round trip is not over.
    active: bool,
    /// There is something behind a gap.
    behind: bool,
    /// A bit for each PSN modulo [`KEPT_SPAN`].
    bits: [u64; WORDS],
    /// How many of them are set.
    count: u16,
    /// Everything before this PSN was carried out by the responder, if anything is `behind`.
    end: Psn,
    request: GapRequest,
    /// The PSN and the end of the request that was sent last, until the requester goes back.
    latest: Option<(Psn, Psn)>,
    /// One past the newest PSN that was part of a gap request.
    asked: Option<Psn>,
    /// Losses before this PSN belong to one round trip.
    episode: Option<Psn>,
}

impl Kept {
    /// Nothing is kept yet.
    pub(super) const NEW: Self = Kept {
        enabled: true,
        active: false,
        behind: false,
        bits: [0; WORDS],
        count: 0,
        end: Psn::ZERO,
        request: GapRequest::None,
        latest: None,
        asked: None,
        episode: None,
    };

    /// Whether responses are to be kept from now on.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Whether [`Kept::settle`] is to be called when `una` advances.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// How many responses are kept.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.into()
    }

    /// Whether a gap request is to be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.request == GapRequest::Due
    }

    /// Whether the response with `psn` may be kept, when that with `una` is missing.
    pub(super) fn admits(&self, psn: Psn, una: Psn) -> bool {
        self.enabled && psn.offset_from(una) < KEPT_SPAN
    }

    /// Everything before this PSN was carried out, if anything is behind a gap at `una`.
    pub(super) fn end(&self, una: Psn) -> Option<Psn> {
        (self.behind && self.end.is_after(una)).then_some(self.end)
    }

    fn place(psn: Psn) -> (usize, u64) {
        let bit = psn.get() % KEPT_SPAN;
        ((bit / WORD_BITS) as usize, 1 << (bit % WORD_BITS))
    }

    /// Whether the response with `psn` is kept.
    pub(super) fn has(&self, psn: Psn) -> bool {
        let (word, bit) = Self::place(psn);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// The response with `psn` was placed behind the gap at `una`.
    pub(super) fn insert(&mut self, psn: Psn, una: Psn) {
        let (word, bit) = Self::place(psn);
        if let Some(bits) = self.bits.get_mut(word) {
            if *bits & bit == 0 {
                *bits |= bit;
                self.count = self.count.saturating_add(1);
            }
        }
        self.carried_out(psn.next(), una);
    }

    /// The responder has carried out everything before `end`, which is behind the gap at `una`.
    pub(super) fn carried_out(&mut self, end: Psn, una: Psn) {
        if self.end(una).is_none_or(|old| end.is_after(old)) {
            self.end = end;
        }
        self.behind = true;
        self.active = true;
    }

    /// Forgets the response with `psn`; gives whether it was kept.
    fn remove(&mut self, psn: Psn) -> bool {
        let (word, bit) = Self::place(psn);
        let Some(bits) = self.bits.get_mut(word) else {
            return false;
        };
        let had = *bits & bit != 0;
        *bits &= !bit;
        self.count = self.count.saturating_sub(had.into());
        had
    }

    /// The `count` responses before `una` were taken: they are not kept any more.
    pub(super) fn pass(&mut self, una: Psn, count: u32) {
        for back in 1..=count.min(KEPT_SPAN) {
            self.remove(una.sub(back));
        }
    }

    /// Takes the kept responses from `from` on, up to the first one that is missing and `most` at
    /// most; gives their number.
    pub(super) fn take_run(&mut self, from: Psn, most: u32) -> u32 {
        let mut run = 0;
        while run < most && self.remove(from.add(run)) {
            run = run.wrapping_add(1);
        }
        run
    }

    /// How many responses are missing from `from` on in a row, `most` at most.
    pub(super) fn missing_run(&self, from: Psn, most: u32) -> u32 {
        if self.count == 0 {
            return most;
        }
        let kept = (0..most).find(|i| self.has(from.add(*i)));
        kept.unwrap_or(most)
    }

    /// The newest missing response of the `count` from `from` on ends so many PSNs behind `from`.
    pub(super) fn missing_end(&self, from: Psn, count: u32) -> u32 {
        let missing = (0..count).rev().find(|i| !self.has(from.add(*i)));
        missing.map_or(0, |i| i.wrapping_add(1))
    }

    /// Whether the gap at `una` may be asked for: it was not, or the response to that was lost. The
    /// responder responds in the order of the requests (IBTA 9.5), so that is shown by the last of
    /// these responses, and by any to a request that was sent later.
    pub(super) fn may_ask(&self, una: Psn) -> bool {
        match self.request {
            GapRequest::None => true,
            GapRequest::Due => false,
            GapRequest::Sent { end, max } => {
                !end.is_after(una) || self.has(end.prev()) || self.end.is_after(max)
            }
        }
    }

    /// Whether the gap at `una` was asked for.
    pub(super) fn has_asked(&self) -> bool {
        self.request != GapRequest::None
    }

    /// Whether the loss of the response with `una` belongs to a round trip of which another loss is
    /// known.
    pub(super) fn is_known_loss(&self, una: Psn) -> bool {
        self.episode.is_some_and(|end| end.is_after(una))
    }

    /// The gap at `una` is to be asked for; `max` is one past the highest PSN that was sent. Gives
    /// whether this is the first loss of its round trip. So is one of what was asked for again
    /// (RFC 5681 4.3).
    pub(super) fn ask(&mut self, una: Psn, max: Psn) -> bool {
        let new = self.has_asked() || !self.is_known_loss(una);
        self.request = GapRequest::Due;
        if new {
            self.episode = Some(max);
        }
        new
    }

    /// The gap from `psn` to `end` is asked for now.
    pub(super) fn on_asked(&mut self, psn: Psn, end: Psn, max: Psn) {
        self.request = GapRequest::Sent { end, max };
        self.latest = Some((psn, end));
        let old = self.asked.filter(|old| old.offset_from(psn) <= KEPT_SPAN);
        self.asked = old.filter(|old| old.is_after(end)).or(Some(end));
    }

    /// Whether the response with `psn` may be the last one to a gap request.
    #[cold]
    pub(super) fn was_asked(&self, psn: Psn) -> bool {
        let left = self.asked.map_or(0, |end| end.offset_from(psn));
        (1..=KEPT_SPAN).contains(&left)
    }

    /// The request with `psn` was not sent. If it was a gap request, for the gap at `una` or for
    /// one that was closed meanwhile, it is due again or forgotten; gives its end.
    #[cold]
    pub(super) fn undo(&mut self, psn: Psn, una: Psn) -> Option<Psn> {
        let recent = una.offset_from(psn) <= 2 * KEPT_SPAN;
        let asked = |latest: &mut (Psn, Psn)| recent && latest.0 == psn;
        let (_, end) = self.latest.take_if(asked)?;
        if self.request != GapRequest::None {
            self.request = GapRequest::Due;
        }
        Some(end)
    }

    /// `una` has advanced.
    pub(super) fn settle(&mut self, una: Psn) {
        match self.request {
            GapRequest::Sent { end, .. } if end.is_after(una) => {}
            _ => self.request = GapRequest::None,
        }
        self.episode = self.episode.filter(|end| end.is_after(una));
        self.behind &= self.end.is_after(una);
        self.active = self.behind || self.episode.is_some();
    }

    /// The requester goes back to `una`, and asks for everything from there on again.
    #[cold]
    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.bits = [0; WORDS];
        self.count = 0;
        self.request = GapRequest::None;
        self.latest = None;
        self.episode = None;
        self.behind = false;
        self.active = false;
    }
}
