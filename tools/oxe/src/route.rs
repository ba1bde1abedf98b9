// SPDX-License-Identifier: GPL-2.0

//! Routes and netdevs, by rtnetlink.

use neli::consts::nl::{NlType, NlmF};
use neli::consts::rtnl::{Ifla, RtAddrFamily, RtScope, RtTable, Rta, Rtm, Rtn, Rtprot};
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::rtnl::{Ifinfomsg, IfinfomsgBuilder, RtattrBuilder, Rtmsg, RtmsgBuilder};
use neli::types::{Buffer, RtBuffer};
use neli::utils::Groups;
use neli::{FromBytesWithInput, Size, ToBytes};
use serde::Serialize;
use std::io;
use std::net::IpAddr;

/// `IFF_UP` and `IFF_LOWER_UP` of `ifi_flags`.
const UP: u32 = 1;
const LOWER_UP: u32 = 1 << 16;

/// A netdev of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// In bytes.
    pub(crate) mtu: u64,
    pub(crate) is_up: bool,
    pub(crate) has_carrier: bool,
}

/// How packets to an address leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Route {
    /// The address that they come from.
    pub(crate) source: IpAddr,
    /// `lo` for an address of this machine.
    pub(crate) netdev: String,
    pub(crate) gateway: Option<IpAddr>,
    /// Whether the address is one of this machine's.
    pub(crate) is_local: bool,
}

/// How a netdev is asked for.
pub(crate) enum Key<'a> {
    Index(u32),
    Name(&'a str),
}

/// A connection to the IP stack of this network namespace.
pub(crate) struct Rtnetlink(NlRouter);

impl Rtnetlink {
    pub(crate) fn open() -> io::Result<Self> {
        let (router, _) = NlRouter::connect(NlFamily::Route, None, Groups::empty())
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Rtnetlink(router))
    }

    /// The route to an address, by this netdev if one is named. Fails with the errno of the lookup:
    /// ENETUNREACH where there is none.
    pub(crate) fn route(&self, to: IpAddr, by: Option<u32>) -> io::Result<Route> {
        let answer: Rtmsg = self.ask(Rtm::Getroute, route_request(to, by)?)?;
        let found = decode(&answer).ok_or_else(malformed)?;
        let source = found.source.unwrap_or(to);
        Ok(Route {
            source,
            netdev: self.link(Key::Index(found.netdev))?.name,
            gateway: found.gateway,
            is_local: found.is_local,
        })
    }

    /// Fails with ENODEV where there is no such netdev.
    pub(crate) fn link(&self, key: Key<'_>) -> io::Result<Link> {
        let answer: Ifinfomsg = self.ask(Rtm::Getlink, link_request(key)?)?;
        decode_link(&answer).ok_or_else(malformed)
    }

    /// The answer to a request for one object.
    fn ask<M, A>(&self, kind: Rtm, message: M) -> io::Result<A>
    where
        M: Size + ToBytes,
        A: Clone + Size + FromBytesWithInput<Input = usize>,
        Rtm: NlType,
    {
        let payload = NlPayload::Payload(message);
        let answers = self
            .0
            .send::<Rtm, M, Rtm, A>(kind, NlmF::empty(), payload)
            .map_err(|_| io::Error::other("rtnetlink takes no request"))?;
        for answer in answers {
            match answer {
                Ok(message) => {
                    if let Some(found) = message.get_payload() {
                        return Ok(found.clone());
                    }
                }
                Err(RouterError::Nlmsgerr(error)) => {
                    return Err(io::Error::from_raw_os_error(-error.error()));
                }
                Err(_) => return Err(malformed()),
            }
        }
        Err(malformed())
    }
}

fn malformed() -> io::Error {
    io::Error::other("rtnetlink's answer cannot be read")
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    let v6 = || Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    v4().or_else(v6)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn route_request(to: IpAddr, by: Option<u32>) -> io::Result<Rtmsg> {
    let destination = bytes_of(to);
    let bits = if to.is_ipv4() { 32 } else { 128 };
    let mut values = vec![(Rta::Dst, destination)];
    values.extend(by.map(|index| (Rta::Oif, index.to_ne_bytes().to_vec())));
    let attribute = |(kind, value): (Rta, Vec<u8>)| {
        RtattrBuilder::default()
            .rta_type(kind)
            .rta_payload(Buffer::from(value))
            .build()
    };
    let attributes: Result<RtBuffer<Rta, Buffer>, _> = values.into_iter().map(attribute).collect();
    let family = if to.is_ipv4() {
        RtAddrFamily::Inet
    } else {
        RtAddrFamily::Inet6
    };
    RtmsgBuilder::default()
        .rtm_family(family)
        .rtm_dst_len(bits)
        .rtm_src_len(0)
        .rtm_tos(0)
        .rtm_table(RtTable::Unspec)
        .rtm_protocol(Rtprot::Unspec)
        .rtm_scope(RtScope::Universe)
        .rtm_type(Rtn::Unspec)
        .rtattrs(attributes.map_err(io::Error::other)?)
        .build()
        .map_err(io::Error::other)
}

fn link_request(key: Key<'_>) -> io::Result<Ifinfomsg> {
    let message = IfinfomsgBuilder::default().ifi_family(RtAddrFamily::Unspecified);
    let built = match key {
        Key::Index(index) => {
            let index = i32::try_from(index).map_err(io::Error::other)?;
            message.ifi_index(index).build()
        }
        Key::Name(name) => {
            let name = RtattrBuilder::default()
                .rta_type(Ifla::Ifname)
                .rta_payload(Buffer::from([name.as_bytes(), b"\0"].concat()))
                .build();
            let attributes = [name.map_err(io::Error::other)?];
            message.rtattrs(attributes.into_iter().collect()).build()
        }
    };
    built.map_err(io::Error::other)
}

/// What the answer about a route says.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    source: Option<IpAddr>,
    /// By its index.
    netdev: u32,
    gateway: Option<IpAddr>,
    is_local: bool,
}

fn decode(message: &Rtmsg) -> Option<Found> {
    let value = |kind: Rta| {
        let mut attributes = message.rtattrs().iter();
        let found = attributes.find(|attribute| *attribute.rta_type() == kind)?;
        Some(found.rta_payload().as_ref())
    };
    // A gateway of the other family has its family before it (`struct rtvia`).
    let via = || address_of(value(Rta::Via)?.get(2..)?);
    Some(Found {
        source: value(Rta::Prefsrc).and_then(address_of),
        netdev: number(value(Rta::Oif)?)?,
        gateway: value(Rta::Gateway).and_then(address_of).or_else(via),
        is_local: *message.rtm_type() == Rtn::Local,
    })
}

fn decode_link(message: &Ifinfomsg) -> Option<Link> {
    let value = |kind: Ifla| {
        let mut attributes = message.rtattrs().iter();
        let found = attributes.find(|attribute| *attribute.rta_type() == kind)?;
        Some(found.rta_payload().as_ref())
    };
    let flags = message.ifi_flags().bits();
    let name = value(Ifla::Ifname)?;
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    Some(Link {
        index: u32::try_from(*message.ifi_index()).ok()?,
        name: String::from_utf8_lossy(name).into_owned(),
        mtu: number(value(Ifla::Mtu)?)?.into(),
        is_up: flags & UP != 0,
        has_carrier: flags & LOWER_UP != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use neli::rtnl::Rtattr;
    use std::io::Cursor;

    /// What a message of these bytes after `struct rtmsg` says.
    fn answer(kind: u8, attributes: &[(u16, &[u8])]) -> Option<Found> {
        let mut bytes = vec![2, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
        for (kind, value) in attributes {
            bytes.extend((4 + u16::try_from(value.len()).unwrap()).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len();
        let read = Rtmsg::from_bytes_with_input(&mut Cursor::new(&bytes[..]), length);
        decode(&read.unwrap())
    }

    #[test]
    fn a_request_names_address_and_netdev() {
        let request = route_request("10.0.0.2".parse().unwrap(), Some(7)).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        request.to_bytes(&mut bytes).unwrap();
        let bytes = bytes.into_inner();
        assert_eq!(bytes[..2], [2, 32]);
        let attributes: Vec<u8> = [
            &8_u16.to_ne_bytes()[..],
            &1_u16.to_ne_bytes(),
            &[10, 0, 0, 2],
            &8_u16.to_ne_bytes(),
            &4_u16.to_ne_bytes(),
            &7_u32.to_ne_bytes(),
        ]
        .concat();
        assert_eq!(bytes[12..], attributes);
    }

    #[test]
    fn answers_are_read() {
        let netdev = 3_u32.to_ne_bytes();
        let direct = [(4, &netdev[..]), (7, &[10, 0, 0, 1])];
        let mut want = Found {
            source: Some("10.0.0.1".parse().unwrap()),
            netdev: 3,
            gateway: None,
            is_local: false,
        };
        assert_eq!(answer(1, &direct).as_ref(), Some(&want));
        want.is_local = true;
        assert_eq!(answer(2, &direct).as_ref(), Some(&want));
        want.is_local = false;
        want.gateway = Some("10.0.0.254".parse().unwrap());
        let by_gateway = [&direct[..], &[(5, &[10, 0, 0, 254])]].concat();
        assert_eq!(answer(1, &by_gateway).as_ref(), Some(&want));
        want.gateway = Some("fe80::1".parse().unwrap());
        let mut via = vec![10, 0, 0xfe, 0x80];
        via.resize(17, 0);
        via.push(1);
        let by_other_family = [&direct[..], &[(18, &via)]].concat();
        assert_eq!(answer(1, &by_other_family).as_ref(), Some(&want));
    }

    #[test]
    fn an_answer_without_a_netdev_is_none() {
        assert_eq!(answer(1, &[(7, &[10, 0, 0, 1])]), None);
        assert_eq!(answer(1, &[(4, &[1, 2])]), None);
    }

    #[test]
    fn a_netdev_is_read() {
        let attribute = |kind: Ifla, value: &[u8]| -> Rtattr<Ifla, Buffer> {
            RtattrBuilder::default()
                .rta_type(kind)
                .rta_payload(Buffer::from(value))
                .build()
                .unwrap()
        };
        let attributes = [
            attribute(Ifla::Ifname, b"eth0\0"),
            attribute(Ifla::Mtu, &1500_u32.to_ne_bytes()),
        ];
        let message = IfinfomsgBuilder::default()
            .ifi_family(RtAddrFamily::Unspecified)
            .ifi_index(3)
            .up()
            .rtattrs(attributes.into_iter().collect())
            .build();
        let want = Link {
            index: 3,
            name: "eth0".to_owned(),
            mtu: 1500,
            is_up: true,
            has_carrier: false,
        };
        assert_eq!(decode_link(&message.unwrap()), Some(want));
    }
}
