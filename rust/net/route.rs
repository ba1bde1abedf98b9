// SPDX-License-Identifier: GPL-2.0

//! The route to a destination, and the headers in front of a packet that is sent there.
//!
//! Headers are built here, once, and not by the network stack. So a checksum that covers them, such
//! as the ICRC, can be computed before the packet is sent, over the very bytes that are sent. Only
//! the lengths and the checksums of IPv4 and UDP are filled in later.

use super::netdev::NetDevice;
use crate::ffi;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const PROTOCOL_UDP: u8 = 17;

/// The source and the destination of packets, and their header fields. Addresses are GIDs: IPv4 is
/// mapped into IPv6 (::ffff:a.b.c.d), and `destination` decides the IP version. Ports are in host
/// byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The address that packets come from.
    pub(crate) source: [u8; 16],
    /// The address that they go to.
    pub(crate) destination: [u8; 16],
    /// The UDP port that they come from.
    pub(crate) source_port: u16,
    /// The UDP port that they go to.
    pub(crate) destination_port: u16,
    /// IPv4 type of service, or IPv6 traffic class.
    pub(crate) traffic_class: u8,
    /// The class to which the device is to map the packets' priority, if it maps priorities: the
    /// PCP of a VLAN (IEEE 802.1Q), or a traffic class of the device. If this is 0, or no priority
    /// maps to it, the priority is the one that goes with `traffic_class`.
    pub(crate) priority_class: u8,
    /// IPv4 time to live, or IPv6 hop limit.
    pub(crate) hop_limit: u8,
    /// IPv6 flow label: 20 bits.
    pub(crate) flow_label: u32,
}

impl Flow {
    /// Whether it is IPv6 rather than IPv4.
    #[inline]
    pub(crate) fn is_v6(&self) -> bool {
        self.v4(&self.destination).is_none()
    }

    /// The IPv4 address in a GID, if there is one.
    #[inline]
    fn v4(&self, gid: &[u8; 16]) -> Option<[u8; 4]> {
        match *gid {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// The headers of its packets, lengths left out: an IPv4 header without options (RFC 791;
    /// don't-fragment set, identification zero) or an IPv6 header (RFC 8200), and the UDP header
    /// (RFC 768), its checksum left out. `None` if only one of the addresses is of IPv4.
    pub(crate) fn header(&self) -> Option<Header> {
        let v4 = (self.v4(&self.source), self.v4(&self.destination));
        let mut header = Header {
            bytes: [0; IPV6_LEN + UDP_LEN],
            v6: v4.1.is_none(),
        };
        let udp = match v4 {
            (Some(source), Some(destination)) => {
                let (ip, rest) = header.bytes.split_first_chunk_mut::<IPV4_LEN>()?;
                ip[0] = 0x45;
                ip[1] = self.traffic_class;
                ip[6] = 0x40;
                ip[8] = self.hop_limit;
                ip[9] = PROTOCOL_UDP;
                ip[12..16].copy_from_slice(&source);
                ip[16..20].copy_from_slice(&destination);
                rest
            }
            (None, None) => {
                let (ip, rest) = header.bytes.split_first_chunk_mut::<IPV6_LEN>()?;
                let label = self.flow_label & 0x000f_ffff;
                let word = 6 << 28 | u32::from(self.traffic_class) << 20 | label;
                ip[..4].copy_from_slice(&word.to_be_bytes());
                ip[6] = PROTOCOL_UDP;
                ip[7] = self.hop_limit;
                ip[8..24].copy_from_slice(&self.source);
                ip[24..40].copy_from_slice(&self.destination);
                rest
            }
            _ => return None,
        };
        let (udp, _) = udp.split_first_chunk_mut::<UDP_LEN>()?;
        udp[..2].copy_from_slice(&self.source_port.to_be_bytes());
        udp[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        Some(header)
    }
}

/// The IP and UDP headers of the packets of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// The headers. With IPv4, the last 20 bytes are unused.
    bytes: [u8; IPV6_LEN + UDP_LEN],
    pub(super) v6: bool,
}

impl Header {
    /// The bytes as they are sent, except for lengths and checksums, which are zero here.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let len = if self.v6 { IPV6_LEN } else { IPV4_LEN } + UDP_LEN;
        self.bytes.get(..len).unwrap_or(&[])
    }

    /// Sets the IPv4 type of service or IPv6 traffic class.
    pub(crate) fn set_traffic_class(&mut self, class: u8) {
        if self.v6 {
            // The class begins in the middle of the first byte.
            self.bytes[0] = self.bytes[0] & 0xf0 | class >> 4;
            self.bytes[1] = self.bytes[1] & 0x0f | class << 4;
        } else {
            self.bytes[1] = class;
        }
    }

    /// Sets the IPv4 identification; IPv6 has none.
    #[inline]
    pub(crate) fn set_id(&mut self, id: u16) {
        if !self.v6 {
            [self.bytes[4], self.bytes[5]] = id.to_be_bytes();
        }
    }
}

/// The highest priority of a packet (pkt_sched.h).
const TC_PRIO_MAX: u32 = 15;

/// A route to a destination, looked up once for many packets.
///
/// # Invariants
///
/// `dst` is a destination of IPv6 if `v6`, else of IPv4, of which a reference is owned.
pub(crate) struct Route {
    dst: NonNull<ffi::dst_entry>,
    cookie: u32,
    v6: bool,
    /// The priority of its packets in the network stack.
    priority: u32,
}

// SAFETY: destinations are shared by all CPUs.
unsafe impl Send for Route {}
// SAFETY: as above.
unsafe impl Sync for Route {}

impl Route {
    /// Looks up the route for `flow`, which has an address of `near`: by that interface, in its
    /// network namespace. Process and softirq context.
    ///
    /// Fails as sending would: `ENETUNREACH`, `EHOSTUNREACH`, `EINVAL` for a source address that is
    /// not this machine's.
    pub(crate) fn lookup(near: &NetDevice, flow: &Flow) -> Result<Self> {
        let v6 = flow.is_v6();
        let key = ffi::oxe_flow {
            saddr: flow.source,
            daddr: flow.destination,
            label: flow.flow_label & 0x000f_ffff,
            sport: flow.source_port,
            dport: flow.destination_port,
            tclass: flow.traffic_class,
            v6,
        };
        let mut cookie = 0;
        // SAFETY: the device lives, the flow is readable and the cookie writable.
        let dst = unsafe { ffi::oxe_route_lookup(near.as_raw(), &key, &mut cookie) };
        let dst = NonNull::new(from_err_ptr(dst)?).ok_or(EINVAL)?;
        let mut route = Self {
            dst,
            cookie,
            v6,
            priority: 0,
        };
        route.priority = route.priority_for(flow.traffic_class, flow.priority_class);
        Ok(route)
    }

    /// The priority of packets to the destination: one that the device maps to `class`, if `class`
    /// is not 0 and there is one; else the one that goes with the traffic class.
    fn priority_for(&self, traffic_class: u8, class: u8) -> u32 {
        // SAFETY: this reads a table of the kernel, which has an entry for each traffic class.
        let usual = unsafe { ffi::oxe_priority_of(traffic_class) };
        let maps = |priority: &u32| {
            // SAFETY: the destination is held.
            let mapped = unsafe { ffi::oxe_route_class(self.as_raw(), *priority) };
            mapped == i32::from(class)
        };
        // The RDMA core's CM asks for the class of the usual priority; other priorities may map to
        // it, too.
        if class == 0 || maps(&usual) {
            return usual;
        }
        (0..=TC_PRIO_MAX).find(maps).unwrap_or(usual)
    }

    /// Whether a lookup would still find this route. Process and softirq context.
    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        // SAFETY: the destination is held.
        unsafe { ffi::oxe_route_is_valid(self.as_raw(), self.cookie) }
    }

    /// Whether GSO super-packets may be sent there: the device takes them whole. (Software
    /// segmentation costs more than single packets.)
    #[inline]
    pub(crate) fn supports_udp_gso(&self) -> bool {
        // SAFETY: the destination is held.
        unsafe { ffi::oxe_route_supports_udp_gso(self.as_raw(), self.v6) }
    }

    /// The pointer to the `dst_entry`, for the helpers.
    pub(super) fn as_raw(&self) -> *mut ffi::dst_entry {
        self.dst.as_ptr()
    }

    /// The priority of its packets.
    #[inline]
    pub(super) fn priority(&self) -> u32 {
        self.priority
    }

    /// Whether it is a route of IPv6.
    #[inline]
    pub(super) fn is_v6(&self) -> bool {
        self.v6
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and not used again.
        unsafe { ffi::oxe_route_put(self.as_raw()) };
    }
}
