// SPDX-License-Identifier: GPL-2.0

//! The attributes of a connected queue pair, with their ranges (IBTA 11.2.5.2, Modify Queue Pair).

use super::wire::{PKey, Psn, Qpn};
use super::State;

/// The path MTU of loopback packets, in bytes.
pub const LOOPBACK_MTU: u32 = 65_536;

/// The largest path MTU on a wire, in bytes (IBTA 9.2, Table 64).
pub(in super::super) const MAX_PMTU: u32 = 4096;

/// A path MTU: 256, 512, 1024, 2048 or 4096 bytes (IBTA 9.2, Table 64), or [`LOOPBACK_MTU`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmtu {
    shift: u8,
}

impl Pmtu {
    /// The path MTU of `bytes` bytes, or `None` when there is no such path MTU.
    #[inline]
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            256 => Some(Pmtu { shift: 8 }),
            512 => Some(Pmtu { shift: 9 }),
            1024 => Some(Pmtu { shift: 10 }),
            2048 => Some(Pmtu { shift: 11 }),
            MAX_PMTU => Some(Pmtu { shift: 12 }),
            LOOPBACK_MTU => Some(Pmtu { shift: 16 }),
            _ => None,
        }
    }

    /// The size in bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        1 << (self.shift & 31)
    }

    /// Whether it is that of loopback packets.
    #[inline]
    pub(in super::super) const fn is_loopback(self) -> bool {
        self.bytes() == LOOPBACK_MTU
    }

    /// How many packets a message of `len` bytes takes; an empty one takes one.
    #[inline]
    pub const fn packets(self, len: u32) -> u32 {
        (len.saturating_sub(1) >> (self.shift & 31)).wrapping_add(1)
    }

    /// The number of bytes before packet `index` of a message. The caller knows that the message
    /// has that packet, so the result is less than 2^31.
    #[inline]
    pub const fn offset(self, index: u32) -> u32 {
        index << (self.shift & 31)
    }
}

/// The access of the peer to this side's memory through the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RemoteAccess {
    /// RDMA WRITE and ATOMIC WRITE.
    pub write: bool,
    /// RDMA READ.
    pub read: bool,
    /// Atomic operations.
    pub atomic: bool,
    /// FLUSH for global visibility.
    pub flush_global: bool,
    /// FLUSH for persistence.
    pub flush_persistent: bool,
}

impl RemoteAccess {
    /// Everything.
    pub const ALL: RemoteAccess = RemoteAccess {
        write: true,
        read: true,
        atomic: true,
        flush_global: true,
        flush_persistent: true,
    };
}

/// The attributes of a connected queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The peer's QP number.
    pub dest_qpn: Qpn,
    /// The partition.
    pub pkey: PKey,
    /// The path MTU.
    pub pmtu: Pmtu,
    /// The first PSN that this side sends; counts on the way from RTR to RTS.
    pub sq_psn: Psn,
    /// The first PSN that this side expects; counts on the way from INIT to RTR.
    pub rq_psn: Psn,
    /// Exponent of the local ACK timeout, 0 to 31; see [`super::time::ack_timeout`].
    pub timeout: u8,
    /// How often to retransmit without progress, 0 to 7. Unlike for `rnr_retry`, 7 is no infinity.
    pub retry_cnt: u8,
    /// How often to retransmit after RNR NAKs without progress, 0 to 6; 7 means for ever.
    pub rnr_retry: u8,
    /// The timer code in RNR NAKs that this side sends, 0 to 31.
    pub min_rnr_timer: u8,
    /// How many READs, atomics, FLUSHes and ATOMIC WRITEs this side may have outstanding.
    pub max_rd_atomic: u8,
    /// The access of the peer.
    pub access: RemoteAccess,
}

impl Attr {
    /// The attributes of a queue pair that was never modified.
    pub const DEFAULT: Attr = Attr {
        dest_qpn: Qpn::new(0),
        pkey: PKey::DEFAULT,
        pmtu: Pmtu { shift: 8 },
        sq_psn: Psn::ZERO,
        rq_psn: Psn::ZERO,
        timeout: 0,
        retry_cnt: 0,
        rnr_retry: 0,
        min_rnr_timer: 0,
        max_rd_atomic: 0,
        access: RemoteAccess {
            write: false,
            read: false,
            atomic: false,
            flush_global: false,
            flush_persistent: false,
        },
    };
}

impl Default for Attr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A change of attributes and, perhaps, of the state: `None` leaves a value as it is. Numbers are
/// in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Modify {
    /// The new state.
    pub state: Option<State>,
    /// See [`Attr::dest_qpn`].
    pub dest_qpn: Option<u32>,
    /// See [`Attr::pkey`].
    pub pkey: Option<u16>,
    /// See [`Attr::pmtu`]; in bytes.
    pub pmtu: Option<u32>,
    /// See [`Attr::sq_psn`]; the low 24 bits count, as programs pass random numbers here.
    pub sq_psn: Option<u32>,
    /// See [`Attr::rq_psn`]; the low 24 bits count.
    pub rq_psn: Option<u32>,
    /// See [`Attr::timeout`].
    pub timeout: Option<u8>,
    /// See [`Attr::retry_cnt`].
    pub retry_cnt: Option<u8>,
    /// See [`Attr::rnr_retry`].
    pub rnr_retry: Option<u8>,
    /// See [`Attr::min_rnr_timer`].
    pub min_rnr_timer: Option<u8>,
    /// See [`Attr::max_rd_atomic`].
    pub max_rd_atomic: Option<u8>,
    /// See [`Attr::access`].
    pub access: Option<RemoteAccess>,
}

/// A value out of its range, or a transition between states that does not exist: EINVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Sets `field` if there is a `value` and it is at most `max`.
fn set(field: &mut u8, value: Option<u8>, max: u8) -> Result<(), Invalid> {
    match value {
        Some(value) if value > max => return Err(Invalid),
        Some(value) => *field = value,
        None => {}
    }
    Ok(())
}

impl Modify {
    /// A change of the state alone.
    #[inline]
    pub fn to_state(state: State) -> Self {
        Modify {
            state: Some(state),
            ..Modify::default()
        }
    }

    /// The state and the attributes of a connected queue pair with this change, or an error when
    /// there is no such transition, or an attribute is out of its range.
    pub(in super::super) fn transition(
        &self,
        from: State,
        old: &Attr,
    ) -> Result<(State, Attr), Invalid> {
        match self.state {
            Some(to) if !from.may_become(to) => Err(Invalid),
            to => Ok((to.unwrap_or(from), self.apply(old)?)),
        }
    }

    /// The attributes `old` with this change, or an error when one is out of its range.
    fn apply(&self, old: &Attr) -> Result<Attr, Invalid> {
        let mut new = *old;
        if let Some(qpn) = self.dest_qpn {
            if qpn > Qpn::MASK {
                return Err(Invalid);
            }
            new.dest_qpn = Qpn::new(qpn);
        }
        if let Some(bytes) = self.pmtu {
            new.pmtu = Pmtu::from_bytes(bytes).ok_or(Invalid)?;
        }
        new.pkey = self.pkey.map_or(new.pkey, PKey::new);
        new.sq_psn = self.sq_psn.map_or(new.sq_psn, Psn::new);
        new.rq_psn = self.rq_psn.map_or(new.rq_psn, Psn::new);
        new.access = self.access.unwrap_or(new.access);
        set(&mut new.timeout, self.timeout, 31)?;
        set(&mut new.retry_cnt, self.retry_cnt, 7)?;
        set(&mut new.rnr_retry, self.rnr_retry, 7)?;
        set(&mut new.min_rnr_timer, self.min_rnr_timer, 31)?;
        set(&mut new.max_rd_atomic, self.max_rd_atomic, u8::MAX)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IBTA 9.2: a path MTU is 256, 512, 1024, 2048 or 4096 bytes.
    #[test]
    fn path_mtus_are_five() {
        let good = (0..=u32::from(u16::MAX)).filter(|b| Pmtu::from_bytes(*b).is_some());
        assert_eq!(good.collect::<Vec<_>>(), [256, 512, 1024, 2048, 4096]);
    }

    /// IBTA 9.7.2: a message takes a packet for each path MTU of its bytes, and an empty one takes
    /// one.
    #[test]
    fn packets_of_a_message() {
        for bytes in [256, 512, 1024, 2048, 4096, LOOPBACK_MTU] {
            let pmtu = Pmtu::from_bytes(bytes).unwrap();
            assert_eq!(pmtu.bytes(), bytes);
            assert_eq!(pmtu.packets(0), 1);
            assert_eq!(pmtu.packets(1), 1);
            assert_eq!(pmtu.packets(bytes), 1);
            assert_eq!(pmtu.packets(bytes + 1), 2);
            assert_eq!(pmtu.packets(1 << 31), (1 << 31) / bytes);
            assert_eq!(pmtu.offset(3), 3 * bytes);
        }
    }

    /// IBTA 11.2.5.2: a modify with an attribute out of its range fails.
    #[test]
    fn values_out_of_range_change_nothing() {
        let none = Modify::default();
        assert_eq!(none.apply(&Attr::DEFAULT), Ok(Attr::DEFAULT));
        let bad = [
            Modify {
                dest_qpn: Some(1 << 24),
                ..none
            },
            Modify {
                pmtu: Some(1500),
                ..none
            },
            Modify {
                timeout: Some(32),
                ..none
            },
            Modify {
                retry_cnt: Some(8),
                ..none
            },
            Modify {
                rnr_retry: Some(8),
                ..none
            },
            Modify {
                min_rnr_timer: Some(32),
                ..none
            },
        ];
        for bad in bad {
            assert_eq!(bad.apply(&Attr::DEFAULT), Err(Invalid), "{bad:?}");
        }
    }

    #[test]
    fn each_attribute_is_set_alone() {
        let change = Modify {
            sq_psn: Some(0xff00_0001),
            ..Modify::default()
        };
        let want = Attr {
            sq_psn: Psn::new(1),
            ..Attr::DEFAULT
        };
        assert_eq!(change.apply(&Attr::DEFAULT), Ok(want));
    }
}
