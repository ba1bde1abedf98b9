// SPDX-License-Identifier: GPL-2.0

//! The receiver-not-ready timer field: how long a requester is to wait (IBTA 9.7.5.2.8, Table 45).

/// A 5-bit RNR NAK timer code, as it stands in an AETH and in the `min_rnr_timer` attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct RnrTimer(u8);

/// The waiting times in units of 10 us. Code 0 is the longest time; it does not mean that there is
/// none.
const UNITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// The bits that count.
    pub const MASK: u8 = 0x1f;

    /// Takes the low five bits of `code`.
    #[inline]
    pub const fn new(code: u8) -> Self {
        RnrTimer(code & Self::MASK)
    }

    /// The code, less than 32.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The time it stands for, in nanoseconds: 10 us to 655.36 ms.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        // The mask shows the compiler that the index is in bounds.
        UNITS[(self.0 & Self::MASK) as usize] as u64 * 10_000
    }
}

#[cfg(test)]
mod tests {
    use super::RnrTimer;

    /// IBTA 9.7.5.2.8: each of the 32 timer codes stands for its time.
    #[test]
    fn the_times_of_the_table() {
        let ms = [
            655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96,
            1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92,
            122.88, 163.84, 245.76, 327.68, 491.52,
        ];
        for (code, ms) in (0u8..).zip(ms) {
            let nanos: f64 = ms * 1e6;
            assert_eq!(
                RnrTimer::new(code).as_nanos(),
                nanos.round() as u64,
                "{code}"
            );
        }
        assert_eq!(RnrTimer::new(0x21), RnrTimer::new(1));
    }
}
