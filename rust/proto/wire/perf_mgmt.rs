// SPDX-License-Identifier: GPL-2.0

//! Management datagrams of the performance management class (IBTA 13.4, 16.1). By them ib_core
//! reads the counters of a port that it shows in sysfs.
//!
//! Counters can be read, but not reset: a `Set` would let any peer do that. The extended counters
//! are those without unicast and multicast packets.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a management datagram in bytes (IBTA 13.4.2).
pub const MAD_LEN: usize = 256;

/// The offset of the attribute in a datagram of this class (IBTA 16.1.1).
const ATTR: usize = 64;

/// The version of the base format, and of this class (IBTA 13.4.2, 16.1.1).
const VERSION: u8 = 1;
/// The class (IBTA 13.4.4).
const CLASS: u8 = 0x04;

/// Methods (IBTA 13.4.5).
const GET: u8 = 0x01;
const SET: u8 = 0x02;
const GET_RESP: u8 = 0x81;

/// Attributes of the class (IBTA 13.4.8, 16.1.3, 16.1.4).
const CLASS_PORT_INFO: u16 = 0x0001;
const PORT_COUNTERS: u16 = 0x0012;
const PORT_COUNTERS_EXTENDED: u16 = 0x001d;

/// Statuses: not this version; not this method with this attribute; a field's value is not valid
/// (IBTA 13.4.7).
const BAD_VERSION: u16 = 1 << 2;
const BAD_METHOD_ATTR: u16 = 3 << 2;
const BAD_FIELD: u16 = 7 << 2;

/// ClassPortInfo:CapabilityMask: extended counters without those of unicast and multicast packets
/// (IBTA 16.1.3.1).
const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;

/// ClassPortInfo:RespTimeValue: a reply comes within 4.096 us * 2^this (IBTA 13.4.8.1).
const RESP_TIME: u8 = 18;

/// PortSelect: the only port, or all ports.
const PORT: u8 = 1;
const ALL_PORTS: u8 = 0xff;

/// The values from which the counters of a port are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Bytes, each packet from its BTH to its ICRC.
    pub sent_bytes: u64,
    /// See `sent_bytes`.
    pub rcvd_bytes: u64,
    /// Packets.
    pub sent_packets: u64,
    /// Packets, those with an error among them.
    pub rcvd_packets: u64,
    /// Packets that could not be sent.
    pub send_errors: u64,
    /// Packets that are malformed, or have a wrong ICRC.
    pub rcv_errors: u64,
    /// How often the link went down.
    pub link_downed: u64,
}

/// The header (IBTA 13.4.3).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    base_version: u8,
    mgmt_class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    tid: U64,
    attr_id: U16,
    reserved: U16,
    attr_mod: U32,
}

/// The beginning of ClassPortInfo (IBTA 13.4.8.1).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ClassPortInfo {
    base_version: u8,
    class_version: u8,
    capability_mask: U16,
    reserved: [u8; 3],
    resp_time: u8,
}

/// PortCounters (IBTA 16.1.3.5). Data are counted in words of four bytes.
#[derive(Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Counters {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    symbol_errors: U16,
    link_error_recovery: u8,
    link_downed: u8,
    rcv_errors: U16,
    rcv_remote_physical_errors: U16,
    rcv_switch_relay_errors: U16,
    xmit_discards: U16,
    constraint_errors: [u8; 2],
    reserved2: u8,
    overrun_errors: u8,
    reserved3: U16,
    vl15_dropped: U16,
    xmit_data: U32,
    rcv_data: U32,
    xmit_packets: U32,
    rcv_packets: U32,
    xmit_wait: U32,
}

/// The beginning of PortCountersExtended (IBTA 16.1.4.11).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ExtendedCounters {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    reserved2: U32,
    xmit_data: U64,
    rcv_data: U64,
    xmit_packets: U64,
    rcv_packets: U64,
}

/// The reply to `request`; `None` if that is not a request of this class.
pub fn reply(request: &[u8; MAD_LEN], counters: &PortCounters) -> Option<[u8; MAD_LEN]> {
    let (mut header, _) = Header::read_from_prefix(request).ok()?;
    if header.mgmt_class != CLASS || !matches!(header.method, GET | SET) {
        return None;
    }
    let mut reply = *request;
    let status = match attribute(&header, request, counters) {
        Ok((attr, len)) => {
            reply.get_mut(ATTR..)?.fill(0);
            let place = reply.get_mut(ATTR..)?.get_mut(..len)?;
            place.copy_from_slice(attr.get(..len)?);
            0
        }
        Err(status) => status,
    };
    header.method = GET_RESP;
    header.status = status.into();
    header.write_to_prefix(&mut reply).ok()?;
    Some(reply)
}

/// Room for each attribute.
type Attribute = ([u8; 64], usize);

/// The attribute that `request` asks for, or a status.
fn attribute(
    header: &Header,
    request: &[u8; MAD_LEN],
    counters: &PortCounters,
) -> Result<Attribute, u16> {
    if (header.base_version, header.class_version) != (VERSION, VERSION) {
        return Err(BAD_VERSION);
    }
    if header.method != GET {
        return Err(BAD_METHOD_ATTR);
    }
    let selected = request.get(ATTR + 1).copied().unwrap_or_default();
    match header.attr_id.get() {
        CLASS_PORT_INFO => bytes(&class_port_info()),
        PORT_COUNTERS | PORT_COUNTERS_EXTENDED if selected != PORT && selected != ALL_PORTS => {
            Err(BAD_FIELD)
        }
        PORT_COUNTERS => bytes(&port_counters(selected, counters)),
        PORT_COUNTERS_EXTENDED => bytes(&extended_counters(selected, counters)),
        _ => Err(BAD_METHOD_ATTR),
    }
}

fn bytes<T: IntoBytes + zerocopy::Immutable>(attr: &T) -> Result<Attribute, u16> {
    let mut room = [0; 64];
    attr.write_to_prefix(&mut room).map_err(|_| BAD_FIELD)?;
    Ok((room, size_of::<T>()))
}

fn class_port_info() -> ClassPortInfo {
    ClassPortInfo {
        base_version: VERSION,
        class_version: VERSION,
        capability_mask: EXTENDED_WIDTH_NO_IETF.into(),
        reserved: [0; 3],
        resp_time: RESP_TIME,
    }
}

/// A counter stays at its largest value (IBTA 16.1.3.5).
fn port_counters(port_select: u8, counters: &PortCounters) -> Counters {
    let narrow = |value: u64| u16::try_from(value).unwrap_or(u16::MAX).into();
    let wide = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).into();
    Counters {
        port_select,
        link_downed: u8::try_from(counters.link_downed).unwrap_or(u8::MAX),
        rcv_errors: narrow(counters.rcv_errors),
        xmit_discards: narrow(counters.send_errors),
        xmit_data: wide(counters.sent_bytes / 4),
        rcv_data: wide(counters.rcvd_bytes / 4),
        xmit_packets: wide(counters.sent_packets),
        rcv_packets: wide(counters.rcvd_packets),
        ..Counters::default()
    }
}

fn extended_counters(port_select: u8, counters: &PortCounters) -> ExtendedCounters {
    ExtendedCounters {
        reserved: 0,
        port_select,
        counter_select: 0.into(),
        reserved2: 0.into(),
        xmit_data: (counters.sent_bytes / 4).into(),
        rcv_data: (counters.rcvd_bytes / 4).into(),
        xmit_packets: counters.sent_packets.into(),
        rcv_packets: counters.rcvd_packets.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTERS: PortCounters = PortCounters {
        sent_bytes: 0x1_0000_0004,
        rcvd_bytes: 0x5_0000_0013,
        sent_packets: 7,
        rcvd_packets: 0x1_0000_0000,
        send_errors: 0x1_0000,
        rcv_errors: 3,
        link_downed: 0x100,
    };

    /// A request for attribute `attr_id` of port `port`.
    fn request(method: u8, attr_id: u16, port: u8) -> [u8; MAD_LEN] {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[1, 4, 1, method]);
        mad[8..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        mad[16..18].copy_from_slice(&attr_id.to_be_bytes());
        mad[65] = port;
        mad
    }

    fn ask(attr_id: u16) -> [u8; MAD_LEN] {
        let mad = reply(&request(1, attr_id, 1), &COUNTERS).expect("a request");
        assert_eq!(mad[..6], [1, 4, 1, 0x81, 0, 0]);
        assert_eq!(mad[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        mad
    }

    /// IBTA 13.4.8.1: versions, capability mask, response time.
    #[test]
    fn class_port_info_has_the_extended_width() {
        assert_eq!(ask(1)[64..72], [1, 1, 0x04, 0, 0, 0, 0, 18]);
    }

    /// IBTA 16.1.3.5: words of four bytes; a counter stays at its largest value.
    #[test]
    fn port_counters_are_words_and_saturate() {
        let mad = ask(0x12);
        let attr = &mad[64..];
        assert_eq!(attr[..8], [0, 1, 0, 0, 0, 0, 0, 0xff]);
        assert_eq!(attr[8..10], [0, 3]);
        assert_eq!(attr[14..16], [0xff, 0xff]);
        assert_eq!(attr[24..28], 0x4000_0001_u32.to_be_bytes());
        assert_eq!(attr[28..32], [0xff; 4]);
        assert_eq!(attr[32..36], [0, 0, 0, 7]);
        assert_eq!(attr[36..40], [0xff; 4]);
        assert_eq!(attr[40..], [0; 152]);
    }

    /// IBTA 16.1.4.11.
    #[test]
    fn extended_counters_have_eight_bytes() {
        let mad = ask(0x1d);
        let attr = &mad[64..];
        assert_eq!(attr[..8], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(attr[8..16], 0x4000_0001_u64.to_be_bytes());
        assert_eq!(attr[16..24], 0x1_4000_0004_u64.to_be_bytes());
        assert_eq!(attr[24..32], 7_u64.to_be_bytes());
        assert_eq!(attr[32..40], 0x1_0000_0000_u64.to_be_bytes());
    }

    /// IBTA 13.4.7: what is not supported has a status; what is no request has no reply.
    #[test]
    fn other_requests_have_a_status_or_no_reply() {
        let status = |mad: &[u8; MAD_LEN]| {
            let mad = reply(mad, &COUNTERS).expect("a request");
            assert_eq!(mad[3], 0x81);
            u16::from_be_bytes([mad[4], mad[5]])
        };
        assert_eq!(status(&request(2, 0x12, 1)), 0x000c);
        assert_eq!(status(&request(1, 0x10, 1)), 0x000c);
        assert_eq!(status(&request(1, 0x12, 2)), 0x001c);
        assert_eq!(status(&request(1, 0x12, 0xff)), 0);
        let mut other = request(1, 0x12, 1);
        other[2] = 2;
        assert_eq!(status(&other), 0x0004);
        // Another class; a response; a trap.
        other[1] = 7;
        assert_eq!(reply(&other, &COUNTERS), None);
        assert_eq!(reply(&request(0x81, 0x12, 1), &COUNTERS), None);
        assert_eq!(reply(&request(5, 0x12, 1), &COUNTERS), None);
    }
}
