// SPDX-License-Identifier: GPL-2.0

//! Queue pair numbers (IBTA 9.2, destination QP; IBTA 11.2.4 for the special ones).

use core::fmt;

/// A 24-bit queue pair number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The bits that count.
    pub const MASK: u32 = 0xff_ffff;
    /// QP 0, the subnet management interface; not used on RoCE.
    pub const SMI: Qpn = Qpn(0);
    /// QP 1, the general services interface, which the connection manager uses.
    pub const GSI: Qpn = Qpn(1);
    /// The destination of multicast packets (IBTA 10.5.2).
    pub const MULTICAST: Qpn = Qpn(Self::MASK);

    /// Takes the low 24 bits of `value`, which is in host order.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Qpn(value & Self::MASK)
    }

    /// The number, less than 2^24, in host order.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Qpn;

    /// IBTA 9.2, 10.5.2, 11.2.4: a QP number has 24 bits; QP 1 is the GSI, and all ones is
    /// multicast.
    #[test]
    fn only_24_bits_count() {
        assert_eq!(Qpn::new(0xab12_3456).get(), 0x12_3456);
        assert_eq!(Qpn::new(u32::MAX), Qpn::MULTICAST);
        assert_eq!(Qpn::new(1), Qpn::GSI);
    }
}
