// SPDX-License-Identifier: GPL-2.0

//! How much room in the window is too little to send into, as super-packets would be short (silly
//! window syndrome avoidance, as in RFC 9293 3.8.6.2.1).

/// Room for less than the window divided by this is little, but not for so many packets.
const DIVISOR: u16 = 4;
const ENOUGH: u16 = 32;
/// Room for fewer packets than these is little in any case, if they are not most of the window.
const FEW: u16 = 4;

/// Room for fewer packets than this is little where the window is `cwnd`.
#[inline]
pub(super) fn little(cwnd: u16) -> u16 {
    let few = (cwnd / 2).min(FEW);
    (cwnd / DIVISOR).clamp(few, ENOUGH)
}
