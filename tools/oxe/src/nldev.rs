// SPDX-License-Identifier: GPL-2.0

//! The RDMA core's netlink interface (`include/uapi/rdma/rdma_netlink.h`): devices, ports, objects.

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::rtnl::{Rtattr, RtattrBuilder};
use neli::types::{Buffer, RtBuffer};
use neli::utils::Groups;
use neli::FromBytesWithInput;
use std::io::{self, Cursor};

/// `RDMA_NL_NLDEV`, as `RDMA_NL_GET_TYPE` places it.
const NLDEV: u16 = 5 << 10;

/// `enum rdma_nldev_command`.
#[derive(Clone, Copy)]
#[repr(u16)]
pub(crate) enum Command {
    Devices = 1,
    Ports = 5,
    System = 6,
    Qps = 10,
    CharacterDevice = 15,
    Statistics = 17,
}

/// `enum rdma_nldev_attr`.
#[derive(Clone, Copy)]
#[repr(u16)]
pub(crate) enum Attr {
    DevIndex = 1,
    DevName = 2,
    PortIndex = 3,
    PortState = 12,
    Qps = 19,
    Qp = 20,
    Lqpn = 21,
    Rqpn = 22,
    Type = 26,
    State = 27,
    Pid = 28,
    KernelName = 29,
    NetdevName = 51,
    Driver = 52,
    DriverString = 54,
    DriverU32 = 57,
    DriverU64 = 59,
    NetnsMode = 66,
    CharacterDeviceType = 69,
    UverbsDriverId = 73,
    Counters = 80,
    Counter = 81,
    CounterName = 82,
    CounterValue = 83,
    DriverDetails = 97,
}

/// The bits of an attribute's type that are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const TYPE_FLAGS: u16 = 0xc000;

/// Attributes of one message, or of one attribute.
pub(crate) struct Attrs(Vec<(u16, Vec<u8>)>);

impl Attrs {
    fn of(buffer: &RtBuffer<u16, Buffer>) -> Self {
        let attr = |attr: &Rtattr<u16, Buffer>| {
            let kind = attr.rta_type() & !TYPE_FLAGS;
            (kind, attr.rta_payload().as_ref().to_vec())
        };
        Attrs(buffer.iter().map(attr).collect())
    }

    /// All attributes of a kind.
    fn all(&self, kind: Attr) -> impl Iterator<Item = &[u8]> {
        let of_kind = move |(found, _): &&(u16, Vec<u8>)| *found == kind as u16;
        self.0.iter().filter(of_kind).map(|(_, bytes)| &bytes[..])
    }

    /// The attributes in each attribute of a kind.
    pub(crate) fn nested(&self, kind: Attr) -> impl Iterator<Item = Attrs> + '_ {
        self.all(kind).filter_map(|bytes| {
            let mut cursor = Cursor::new(bytes);
            let buffer = RtBuffer::from_bytes_with_input(&mut cursor, bytes.len()).ok()?;
            Some(Attrs::of(&buffer))
        })
    }

    /// A number of 8, 32 or 64 bits.
    pub(crate) fn number(&self, kind: Attr) -> Option<u64> {
        let bytes = self.all(kind).next()?;
        Some(match bytes.len() {
            1 => bytes[0].into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A number that has 32 bits.
    pub(crate) fn number32(&self, kind: Attr) -> Option<u32> {
        self.number(kind)?.try_into().ok()
    }

    pub(crate) fn text(&self, kind: Attr) -> Option<String> {
        let bytes = self.all(kind).next()?;
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// What a driver tells of an object: names and values, in its order.
    pub(crate) fn details(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut name = None;
        for (kind, bytes) in self.nested(Attr::Driver).flat_map(|driver| driver.0) {
            let entry = Attrs(vec![(kind, bytes)]);
            let texts = [
                entry.text(Attr::DriverString),
                entry.number(Attr::DriverU32).map(|n| n.to_string()),
                entry.number(Attr::DriverU64).map(|n| n.to_string()),
            ];
            let Some(text) = texts.into_iter().flatten().next() else {
                continue;
            };
            match name.take() {
                None => name = Some(text),
                Some(name) => found.push((name, text)),
            }
        }
        found
    }
}

/// A value for a request.
pub(crate) enum Value<'a> {
    U8(u8),
    U32(u32),
    Text(&'a str),
}

fn attribute((kind, value): &(Attr, Value<'_>)) -> io::Result<Rtattr<u16, Buffer>> {
    let bytes = match value {
        Value::U8(number) => vec![*number],
        Value::U32(number) => number.to_ne_bytes().to_vec(),
        Value::Text(text) => [text.as_bytes(), b"\0"].concat(),
    };
    let built = RtattrBuilder::default()
        .rta_type(*kind as u16)
        .rta_payload(Buffer::from(bytes))
        .build();
    built.map_err(io::Error::other)
}

/// A connection to the RDMA core.
pub(crate) struct Nldev(NlRouter);

impl Nldev {
    /// Fails with ENOENT, EPROTONOSUPPORT or ECONNREFUSED where the kernel has no RDMA core.
    pub(crate) fn open() -> io::Result<Self> {
        let (router, _) = NlRouter::connect(NlFamily::Rdma, None, Groups::empty())
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Nldev(router))
    }

    /// The answers to a request, each with its attributes.
    fn ask(
        &self,
        command: Command,
        flags: NlmF,
        with: &[(Attr, Value<'_>)],
    ) -> io::Result<Vec<Attrs>> {
        let attributes: io::Result<RtBuffer<u16, Buffer>> = with.iter().map(attribute).collect();
        let answers = self
            .0
            .send::<u16, _, u16, RtBuffer<u16, Buffer>>(
                NLDEV + command as u16,
                flags,
                NlPayload::Payload(attributes?),
            )
            .map_err(|error| io::Error::other(error.to_string()))?;
        let mut found = Vec::new();
        for answer in answers {
            match answer {
                Ok(message) => found.extend(message.get_payload().map(Attrs::of)),
                Err(RouterError::Nlmsgerr(error)) => {
                    return Err(io::Error::from_raw_os_error(-error.error()));
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        Ok(found)
    }

    /// Of each object.
    pub(crate) fn dump(
        &self,
        command: Command,
        with: &[(Attr, Value<'_>)],
    ) -> io::Result<Vec<Attrs>> {
        self.ask(command, NlmF::DUMP, with)
    }

    /// Of one object.
    pub(crate) fn get(&self, command: Command, with: &[(Attr, Value<'_>)]) -> io::Result<Attrs> {
        let found = self.ask(command, NlmF::empty(), with)?;
        let none = || io::Error::from(io::ErrorKind::NotFound);
        found.into_iter().next().ok_or_else(none)
    }
}
