// SPDX-License-Identifier: GPL-2.0

//! The one source of chance: everything random in a run comes from its seed through this generator.

/// SplitMix64: a counter that steps by an odd constant, and a mixing function over it.
#[derive(Clone, Debug)]
pub struct Rng(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a separate generator is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The impairments of the network.
    Network,
    /// What happens in the run.
    Run,
    /// Hosts and connections as they are built.
    Build,
    /// Whether programs post local operations.
    LocalOperations,
    /// Whether there are UC QPs.
    UcChoice,
    /// The UC QPs as they are built.
    UcBuild,
    /// For how long the payload of a packet may be missing.
    LongAbsence,
    /// Pages that packets taken, requests sent, and READ responses sent find missing.
    TakenPages,
    SentPages,
    ReadPages,
}

impl Stream {
    /// Its number. Two have the same: the generators that they come from differ. A change of a
    /// number changes the runs of all seeds.
    fn number(self) -> u64 {
        match self {
            Stream::Network => 1,
            Stream::Run => 2,
            Stream::Build => 3,
            Stream::LocalOperations => 9,
            Stream::UcChoice => 10,
            Stream::UcBuild | Stream::LongAbsence => 11,
            Stream::TakenPages => 12,
            Stream::SentPages => 13,
            Stream::ReadPages => 14,
        }
    }
}

/// Parts per million, the unit of every probability here.
pub type Ppm = u32;

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        // Neighbouring seeds are neighbouring counters: step away from each other.
        rng.0 = rng.next() ^ seed.rotate_left(32);
        rng
    }

    /// A separate generator: one more choice there changes nothing elsewhere.
    pub fn fork(&mut self, stream: Stream) -> Rng {
        Rng(self.next() ^ stream.number().wrapping_mul(STEP))
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)] // an endless generator is no iterator
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number in `0..n`; `n` is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index into something of length `len`, at least 1.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with the given probability.
    pub fn chance(&mut self, ppm: Ppm) -> bool {
        ppm != 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, which is not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// Random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_repeats_and_its_neighbour_differs() {
        let run = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.range(3, 9), rng.below(1000)]
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn ranges_reach_both_ends_and_no_further() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[(rng.range(10, 14) - 10) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn probabilities_are_probabilities() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(100_000)).count();
        assert!((9_000..11_000).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| rng.chance(0)));
        assert!((0..1000).all(|_| rng.chance(1_000_000)));
    }
}
