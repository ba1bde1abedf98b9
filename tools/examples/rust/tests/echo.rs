// SPDX-License-Identifier: GPL-2.0
//! Over the RDMA device of the host that this runs on.

use ping::{Listener, Stream};
use std::env;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::SocketAddrV4;
use std::thread;

fn at(port: u16) -> SocketAddrV4 {
    let host = env::var("OXE_ADDR").expect("run this by oxe-run");
    SocketAddrV4::new(host.parse().expect("an IPv4 address"), port)
}

#[test]
fn message_comes_back() -> Result<()> {
    let listener = Listener::bind(at(7471))?;
    let echo = thread::spawn(move || -> Result<()> {
        let (mut stream, mut message) = (listener.accept()?, [0; 4096]);
        stream.read_exact(&mut message)?;
        stream.write_all(&message)
    });
    let (mut stream, mut answer) = (Stream::connect(at(7471))?, [0; 4096]);
    let message: [u8; 4096] = std::array::from_fn(|i| (i % 251) as u8);
    stream.write_all(&message)?;
    stream.read_exact(&mut answer)?;
    echo.join().expect("the echo's thread")?;
    assert_eq!(answer, message);
    Ok(())
}

#[test]
fn connection_without_a_listener_is_refused() {
    let refused = Stream::connect(at(7472)).err().expect("nothing listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}
