// SPDX-License-Identifier: GPL-2.0

//! Frames: IP, UDP and RoCEv2 as bytes, written and read with the code under test.

use oxe_proto::wire::{ip, Ecn, IcrcHead, PacketRepr, Parsed, ICRC_LEN, ROCE_UDP_PORT};

const UDP_LEN: usize = ip::UDP_LEN;
const BTH_LEN: usize = 12;

/// The CRC register after more bytes, as [`IcrcHead::start`] wants it.
fn crc(register: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!register);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Addresses of a frame: numbers of hosts.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub from: usize,
    pub to: usize,
    pub ipv6: bool,
}

impl Route {
    fn ip_len(self) -> usize {
        if self.ipv6 {
            ip::IPV6_LEN
        } else {
            ip::IPV4_MIN_LEN
        }
    }

    /// IP and UDP headers for a UDP payload of `len` bytes. `id` goes into the IPv4 header. A
    /// loopback payload may be longer than the length fields can hold: they wrap.
    fn headers(self, len: usize, id: u16) -> Vec<u8> {
        let udp_len = (len + UDP_LEN) as u16;
        let (from, to) = (self.from as u8 + 1, self.to as u8 + 1);
        let mut out = Vec::with_capacity(self.ip_len() + UDP_LEN + len);
        if self.ipv6 {
            out.extend([0x60, 0, 0, 0]);
            out.extend(udp_len.to_be_bytes());
            out.extend([17, 64]);
            for host in [from, to] {
                out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
        } else {
            let total = udp_len.wrapping_add(ip::IPV4_MIN_LEN as u16);
            out.extend([0x45, 0]);
            out.extend(total.to_be_bytes());
            out.extend(id.to_be_bytes());
            out.extend([0x40, 0, 64, 17, 0, 0]);
            out.extend([10, 0, 0, from, 10, 0, 0, to]);
        }
        out.extend(0xc000_u16.to_be_bytes());
        out.extend(ROCE_UDP_PORT.to_be_bytes());
        out.extend(udp_len.to_be_bytes());
        out.extend([0, 0]);
        out
    }
}

/// Why a frame is dropped before any QP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// Not IP and UDP of the right lengths.
    NotOurs,
    /// [`PacketRepr::parse`] refused.
    Malformed,
    /// The ICRC is wrong.
    BadIcrc,
}

/// A frame as bytes.
pub fn build(route: Route, id: u16, repr: &PacketRepr, payload: &[u8]) -> Result<Vec<u8>, String> {
    let len = repr.wire_len(payload.len());
    let mut frame = route.headers(len, id);
    let start = frame.len();
    frame.resize(start + len, 0);
    let emitted = repr.emit(&mut frame[start..]);
    let head = emitted.map_err(|e| format!("{repr:?}: {e:?}"))?;
    frame[start + head..start + head + payload.len()].copy_from_slice(payload);
    seal(&mut frame, route.ip_len());
    Ok(frame)
}

/// A frame around any bytes, with a right ICRC, as an attacker can make it. `roce` includes the
/// room for the ICRC.
pub fn forge(route: Route, roce: &[u8]) -> Vec<u8> {
    let mut frame = route.headers(roce.len(), 0);
    frame.extend_from_slice(roce);
    if roce.len() >= BTH_LEN + ICRC_LEN {
        seal(&mut frame, route.ip_len());
    }
    frame
}

/// Writes the ICRC that the frame should have.
fn seal(frame: &mut [u8], ip_len: usize) {
    let end = frame.len() - ICRC_LEN;
    if let Some(value) = icrc_of(frame, ip_len, end) {
        frame[end..].copy_from_slice(&value);
    }
}

fn icrc_of(frame: &[u8], ip_len: usize, end: usize) -> Option<[u8; ICRC_LEN]> {
    let udp = frame.get(ip_len..)?.first_chunk()?;
    let mut roce = frame.get(ip_len + UDP_LEN..end)?.to_vec();
    IcrcHead::new(frame.get(..ip_len)?, udp)
        .ok()?
        .over(crc, &mut roce)
}

/// The RoCEv2 part of a frame, ICRC included.
pub fn roce(frame: &[u8]) -> Option<&[u8]> {
    let ip_len = match frame.first()? >> 4 {
        4 => ip::IPV4_MIN_LEN,
        6 => ip::IPV6_LEN,
        _ => return None,
    };
    let udp = frame.get(ip_len..ip_len + UDP_LEN)?;
    let port = u16::from_be_bytes([udp[2], udp[3]]);
    let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let whole = port == ROCE_UDP_PORT && len == (frame.len() - ip_len) & 0xffff;
    whole.then_some(&frame[ip_len + UDP_LEN..])
}

/// Writes the ECN field, which the ICRC does not cover.
pub fn set_ecn(frame: &mut [u8], ecn: Ecn) {
    let field = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let shift = if frame[0] >> 4 == 4 { 0 } else { 4 };
    frame[1] = (frame[1] & !(3 << shift)) | (field << shift);
}

/// Bytes of the payload of a frame that was read.
pub fn payload_len(frame: &[u8]) -> u32 {
    read_unchecked(frame).map_or(0, |(_, payload)| payload.len() as u32)
}

/// Reads a frame as the receive path does: parse, then check the ICRC. Gives the headers and the
/// payload.
pub fn read(frame: &[u8]) -> Result<(Parsed, &[u8]), Drop> {
    let roce = roce(frame).ok_or(Drop::NotOurs)?;
    let parsed = PacketRepr::parse(roce, roce.len()).map_err(|_| Drop::Malformed)?;
    let start = frame.len() - roce.len();
    let end = start + parsed.icrc_offset();
    let found = icrc_of(frame, start - UDP_LEN, end).ok_or(Drop::Malformed)?;
    if frame.get(end..) != Some(&found[..]) {
        return Err(Drop::BadIcrc);
    }
    let payload = &roce[parsed.header_len..][..parsed.payload_len];
    Ok((parsed, payload))
}

/// As [`read`], but believes the ICRC: for sabotage.
pub fn read_unchecked(frame: &[u8]) -> Result<(Parsed, &[u8]), Drop> {
    let roce = roce(frame).ok_or(Drop::NotOurs)?;
    let parsed = PacketRepr::parse(roce, roce.len()).map_err(|_| Drop::Malformed)?;
    let payload = &roce[parsed.header_len..][..parsed.payload_len];
    Ok((parsed, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxe_proto::wire::{Ext, Opcode, PKey, Psn, Qpn};

    #[test]
    fn what_is_built_is_read_and_no_flipped_bit_passes() {
        for ipv6 in [false, true] {
            let route = Route {
                from: 0,
                to: 1,
                ipv6,
            };
            let payload = [1, 2, 3, 4, 5];
            let (key, qp, psn) = (PKey::DEFAULT, Qpn::new(17), Psn::new(9));
            let opcode = Opcode::RcSendOnly;
            let repr = PacketRepr::new(opcode, key, qp, psn, Ext::None, payload.len());
            let frame = build(route, 7, &repr, &payload).unwrap();
            let (parsed, found) = read(&frame).unwrap();
            assert_eq!((parsed.repr, found), (repr, &payload[..]));
            let start = frame.len() - roce(&frame).unwrap().len();
            for bit in start * 8..frame.len() * 8 {
                let mut bad = frame.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                // The FECN byte is not covered.
                let covered = bit / 8 != start + 4;
                assert_eq!(read(&bad).is_err(), covered, "bit {bit}");
            }
            for len in 0..frame.len() {
                assert!(read(&frame[..len]).is_err());
            }
        }
    }
}
