// SPDX-License-Identifier: GPL-2.0

//! The user ABI of the RDMA connection manager (`include/uapi/rdma/rdma_user_cm.h`): commands are
//! written to a file, and the kernel writes what it answers to an address that the command names.

use crate::problem::Problem;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// The file of the connection manager.
pub(crate) const FILE: &str = "/dev/infiniband/rdma_cm";

/// The file does not exist.
pub(crate) fn missing() -> Problem {
    Problem::new(
        "no-rdma_cm",
        format!("There is no {FILE}, by which programs connect."),
        "modprobe rdma_ucm",
    )
}

/// `RDMA_USER_CM_CMD_...`
#[derive(Clone, Copy)]
#[repr(u32)]
enum Command {
    CreateId = 0,
    ResolveRoute = 4,
    Connect = 6,
    GetEvent = 12,
    ResolveAddr = 21,
}

/// `RDMA_PS_TCP`, `IB_QPT_RC`.
const PORT_SPACE: u16 = 0x0106;
const QP_TYPE: u8 = 2;

/// sizeof(struct rdma_ucm_event_resp), the longest answer.
const EVENT_BYTES: u16 = 336;
const WORDS: usize = EVENT_BYTES as usize / 4;

/// sizeof(struct __kernel_sockaddr_storage).
const SOCKADDR: usize = 128;

/// `RDMA_MAX_PRIVATE_DATA`
const PRIVATE_DATA: usize = 256;

/// How often a requester retries; no request is made over a connection here.
const RETRIES: u8 = 7;

/// `enum rdma_cm_event_type`, as far as a requester of a connection sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AddrResolved,
    AddrError,
    RouteResolved,
    RouteError,
    /// The peer accepts.
    ConnectResponse,
    ConnectError,
    Unreachable,
    Rejected,
    Other,
}

/// An event of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// A negative errno, or the reason of a rejection.
    pub(crate) status: i32,
}

impl Event {
    /// From the words of struct rdma_ucm_event_resp: uid (two words), id, event, status.
    fn decode(words: [u32; 5]) -> Self {
        let kind = match words[3] {
            0 => Kind::AddrResolved,
            1 => Kind::AddrError,
            2 => Kind::RouteResolved,
            3 => Kind::RouteError,
            5 | 9 => Kind::ConnectResponse,
            6 => Kind::ConnectError,
            7 => Kind::Unreachable,
            8 => Kind::Rejected,
            _ => Kind::Other,
        };
        Event {
            kind,
            status: i32::from_ne_bytes(words[4].to_ne_bytes()),
        }
    }
}

/// An identifier of the connection manager, with a file of its own: closing the file ends what is
/// under way, and destroys it.
pub(crate) struct CmId {
    file: File,
    id: u32,
    /// The kernel writes answers here while a command is written, which the compiler does not see.
    /// Atomics may change at any time; and as the box's address is exposed (`address`), the call
    /// that writes the command may be the one that changes them. The box outlives each command.
    answer: Box<[AtomicU32; WORDS]>,
}

impl CmId {
    pub(crate) fn create() -> io::Result<Self> {
        let mut this = CmId {
            file: OpenOptions::new().read(true).write(true).open(FILE)?,
            id: 0,
            answer: Box::new([const { AtomicU32::new(0) }; WORDS]),
        };
        this.write(Command::CreateId, &create_id(this.address()), 4)?;
        this.id = this.word(0);
        Ok(this)
    }

    /// Begins to look for the peer's Ethernet address, and for the device of the source.
    pub(crate) fn resolve_addr(
        &self,
        source: Option<SocketAddr>,
        to: SocketAddr,
        timeout_ms: u32,
    ) -> io::Result<()> {
        let body = resolve_addr(self.id, source, to, timeout_ms);
        self.write(Command::ResolveAddr, &body, 0)
    }

    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> io::Result<()> {
        let body = [self.id, timeout_ms].map(u32::to_ne_bytes).concat();
        self.write(Command::ResolveRoute, &body, 0)
    }

    /// Sends a request for a connection to a queue pair of that number.
    pub(crate) fn connect(&self, qpn: u32) -> io::Result<()> {
        self.write(Command::Connect, &connect(self.id, qpn), 0)
    }

    /// The next event; `None` if there is none until the deadline.
    pub(crate) fn event(&self, deadline: Instant) -> io::Result<Option<Event>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut files = [PollFd::new(&self.file, PollFlags::IN)];
        if poll(&mut files, Some(&left))? == 0 {
            return Ok(None);
        }
        let body = self.address().to_ne_bytes();
        self.write(Command::GetEvent, &body, EVENT_BYTES)?;
        let words = [0, 1, 2, 3, 4].map(|index| self.word(index));
        Ok(Some(Event::decode(words)))
    }

    fn address(&self) -> u64 {
        self.answer.as_ptr().expose_provenance() as u64
    }

    fn word(&self, index: usize) -> u32 {
        self.answer[index].load(Ordering::Relaxed)
    }

    fn write(&self, command: Command, body: &[u8], answer: u16) -> io::Result<()> {
        let bytes = frame(command, body, answer)?;
        if (&self.file).write(&bytes)? == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    }
}

/// A command: struct rdma_ucm_cmd_hdr (number, bytes that follow, bytes of the answer), and a body.
fn frame(command: Command, body: &[u8], answer: u16) -> io::Result<Vec<u8>> {
    let length = u16::try_from(body.len()).map_err(io::Error::other)?;
    let number = command as u32;
    let header = [
        &number.to_ne_bytes()[..],
        &length.to_ne_bytes(),
        &answer.to_ne_bytes(),
    ];
    Ok([&header.concat()[..], body].concat())
}

/// struct rdma_ucm_create_id. Events come only with a uid that is not 0.
fn create_id(answer: u64) -> Vec<u8> {
    let uid = 1_u64;
    [
        &uid.to_ne_bytes()[..],
        &answer.to_ne_bytes(),
        &PORT_SPACE.to_ne_bytes(),
        &[QP_TYPE, 0, 0, 0, 0, 0],
    ]
    .concat()
}

/// struct rdma_ucm_resolve_addr.
fn resolve_addr(id: u32, source: Option<SocketAddr>, to: SocketAddr, timeout_ms: u32) -> Vec<u8> {
    let source = source.map(sockaddr).unwrap_or_default();
    let to = sockaddr(to);
    let mut bytes = [id, timeout_ms].map(u32::to_ne_bytes).concat();
    for address in [&source, &to] {
        // One of them is at most sizeof(struct sockaddr_in6).
        let length = u16::try_from(address.len()).unwrap_or(0);
        bytes.extend(length.to_ne_bytes());
    }
    bytes.extend([0; 4]);
    for mut address in [source, to] {
        address.resize(SOCKADDR, 0);
        bytes.extend(address);
    }
    bytes
}

/// struct sockaddr_in or sockaddr_in6.
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let (family, port) = (if address.is_ipv4() { 2_u16 } else { 10 }, address.port());
    let mut bytes = family.to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            bytes.extend(address.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend(address.flowinfo().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// struct rdma_ucm_connect: struct rdma_ucm_conn_param (numbers of the queue pair and of the Q_Key,
/// private data and its length, SRQ, responder resources, initiator depth, flow control, two retry
/// counts, validity), id, reserved, struct rdma_ucm_ece.
fn connect(id: u32, qpn: u32) -> Vec<u8> {
    let mut bytes = [qpn, 0].map(u32::to_ne_bytes).concat();
    bytes.extend([0; PRIVATE_DATA]);
    bytes.extend([0, 0, 0, 0, 0, RETRIES, RETRIES, 1]);
    bytes.extend([id, 0, 0, 0].map(u32::to_ne_bytes).concat());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_header_of_the_abi() {
        let bytes = frame(Command::GetEvent, &[1; 8], EVENT_BYTES).unwrap();
        assert_eq!(bytes.len(), 16);
        assert_eq!(bytes[..4], 12_u32.to_ne_bytes());
        assert_eq!(bytes[4..6], 8_u16.to_ne_bytes());
        assert_eq!(bytes[6..8], 336_u16.to_ne_bytes());
    }

    /// Sizes and offsets are those that a C compiler gives the structures.
    #[test]
    fn bodies_are_those_of_the_abi() {
        let bytes = create_id(0x1122_3344);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[8..16], 0x1122_3344_u64.to_ne_bytes());
        assert_eq!(bytes[16..18], 0x0106_u16.to_ne_bytes());
        assert_eq!(bytes[18], 2);

        let to = "10.0.0.2:1".parse().unwrap();
        let bytes = resolve_addr(5, None, to, 2000);
        assert_eq!(bytes.len(), 272);
        assert_eq!(bytes[..8], [5_u32, 2000].map(u32::to_ne_bytes).concat());
        assert_eq!(bytes[8..12], [0_u16, 16].map(u16::to_ne_bytes).concat());
        assert_eq!(bytes[12..144], [0; 132]);
        assert_eq!(bytes[144..146], 2_u16.to_ne_bytes());
        assert_eq!(bytes[146..152], [0, 1, 10, 0, 0, 2]);

        let bytes = connect(5, 17);
        assert_eq!(bytes.len(), 288);
        assert_eq!(bytes[..4], 17_u32.to_ne_bytes());
        assert_eq!(bytes[264..272], [0, 0, 0, 0, 0, 7, 7, 1]);
        assert_eq!(bytes[272..276], 5_u32.to_ne_bytes());
    }

    #[test]
    fn a_link_local_address_has_its_netdev() {
        let address = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, 3);
        let bytes = sockaddr(address.into());
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[..2], 10_u16.to_ne_bytes());
        assert_eq!(bytes[8..10], [0xfe, 0x80]);
        assert_eq!(bytes[24..], 3_u32.to_ne_bytes());
    }

    #[test]
    fn events_are_read() {
        let event = Event::decode([1, 0, 5, 8, 28]);
        assert_eq!((event.kind, event.status), (Kind::Rejected, 28));
        let event = Event::decode([1, 0, 5, 1, u32::MAX - 109]);
        assert_eq!((event.kind, event.status), (Kind::AddrError, -110));
        assert_eq!(Event::decode([1, 0, 5, 11, 0]).kind, Kind::Other);
    }
}
