// SPDX-License-Identifier: GPL-2.0
//! A stream over a reliable connection, by librdmacm's rsocket.

use std::ffi::{c_int, c_void};
use std::io::{Error, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

const AF_INET: u16 = 2;
const SOCK_STREAM: c_int = 1;

/// `struct sockaddr_in`.
#[repr(C)]
struct Address {
    family: u16,
    port: u16,
    address: u32,
    zero: [u8; 8],
}

impl Address {
    fn new(host: Ipv4Addr, port: u16) -> Self {
        Self {
            family: AF_INET,
            port: port.to_be(),
            address: u32::from(host).to_be(),
            zero: [0; 8],
        }
    }
}

#[link(name = "rdmacm")]
extern "C" {
    fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn rbind(socket: c_int, address: *const Address, size: u32) -> c_int;
    fn rlisten(socket: c_int, backlog: c_int) -> c_int;
    fn raccept(socket: c_int, address: *mut c_void, size: *mut u32) -> c_int;
    fn rconnect(socket: c_int, address: *const Address, size: u32) -> c_int;
    fn rrecv(socket: c_int, data: *mut u8, size: usize, flags: c_int) -> isize;
    fn rsend(socket: c_int, data: *const u8, size: usize, flags: c_int) -> isize;
    fn rclose(socket: c_int) -> c_int;
}

const SIZE: u32 = size_of::<Address>() as u32;

/// What the C library calls a failure: a negative number, with the reason in `errno`.
fn checked<T: Into<i64> + Copy>(result: T) -> Result<T> {
    if result.into() < 0 {
        return Err(Error::last_os_error());
    }
    Ok(result)
}

/// An rsocket, closed when it is dropped.
struct Socket(c_int);

impl Socket {
    fn new() -> Result<Self> {
        // SAFETY: no memory is passed.
        Ok(Self(checked(unsafe {
            rsocket(AF_INET.into(), SOCK_STREAM, 0)
        })?))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: this is the owner, and nothing uses the socket afterwards.
        unsafe { rclose(self.0) };
    }
}

/// Accepts connections.
pub struct Listener(Socket);

impl Listener {
    /// Listens on a host's own address.
    pub fn bind(at: SocketAddrV4) -> Result<Self> {
        let (socket, address) = (Socket::new()?, Address::new(*at.ip(), at.port()));
        // SAFETY: `address` has this size, and lives until the call returns.
        checked(unsafe { rbind(socket.0, &address, SIZE) })?;
        // SAFETY: no memory is passed.
        checked(unsafe { rlisten(socket.0, 1) })?;
        Ok(Self(socket))
    }

    /// Waits for a peer.
    pub fn accept(&self) -> Result<Stream> {
        let (address, size) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the peer's address is not asked for.
        Ok(Stream(Socket(checked(unsafe {
            raccept(self.0 .0, address, size)
        })?)))
    }
}

/// A connection.
pub struct Stream(Socket);

impl Stream {
    /// Connects to a listener.
    pub fn connect(to: SocketAddrV4) -> Result<Self> {
        let (socket, address) = (Socket::new()?, Address::new(*to.ip(), to.port()));
        // SAFETY: `address` has this size, and lives until the call returns.
        checked(unsafe { rconnect(socket.0, &address, SIZE) })?;
        Ok(Self(socket))
    }
}

impl Read for Stream {
    fn read(&mut self, data: &mut [u8]) -> Result<usize> {
        // SAFETY: the call writes into `data` alone.
        let count = unsafe { rrecv(self.0 .0, data.as_mut_ptr(), data.len(), 0) };
        Ok(checked(count as i64)? as usize)
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        // SAFETY: the call reads from `data` alone.
        let count = unsafe { rsend(self.0 .0, data.as_ptr(), data.len(), 0) };
        Ok(checked(count as i64)? as usize)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
