// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC, which ends every packet and covers all fields that a router may not change
//! (IBTA annex A17.3.3; the CRC itself in IBTA 7.8.1).
//!
//! It is the CRC-32 of Ethernet over eight bytes of ones (where InfiniBand has its local route
//! header), the IP header, the UDP header, the BTH and everything after it up to the ICRC, where
//! these count as all ones: IPv4 TOS, TTL and header checksum; IPv6 traffic class, flow label and
//! hop limit; UDP checksum; the BTH byte of FECN and BECN. IPv4 ID, flags and lengths do count:
//! they must be final before the ICRC is made.
//!
//! Computing it takes three steps, so that payload may come in chunks and headers are touched once:
//! [`IcrcHead`] holds the IP and UDP headers, already masked, of a packet, or of the segments of a
//! GSO super-packet, which differ in length and ID; [`IcrcHead::start`] adds a BTH;
//! [`Icrc::update`] adds the rest. [`IcrcHead::over`] does the last two for a packet that is in one
//! piece and may be written to, with one call of the engine.
//!
//! The CRC engine belongs to the caller: `Fn(register, bytes) -> register`, reflected, without
//! inversion before or after. That is the kernel's `crc32_le`.

use super::bth::BTH_LEN;
use super::ip::{DatagramFields, IPV4_MAX_LEN, IPV4_MIN_LEN, IPV6_LEN, UDP_LEN};

/// Length of the ICRC in bytes.
pub const ICRC_LEN: usize = 4;

/// Room for the longest IP and UDP headers and the BTH. Behind headers of the usual length this
/// also holds a whole short packet, such as a SEND of 64 bytes over IPv4, as one call of the engine
/// costs less than two.
const ROOM: usize = IPV4_MAX_LEN + UDP_LEN + BTH_LEN + 24;

/// The CRC register after eight bytes of ones.
const SEED: u32 = {
    let mut register = u32::MAX;
    let mut count = 0;
    while count < 8 {
        register = byte(register, 0xff);
        count += 1;
    }
    register
};

/// How many bytes of an IPv4 header without options and a UDP header come after the identification.
const AFTER_ID: usize = IPV4_MIN_LEN - 6 + UDP_LEN;

/// The part of the register, after an IPv4 header without options and the UDP header, that depends
/// on the IPv4 identification. The CRC is linear, so there is a table for each nibble, the highest
/// first. The segments of a super-packet differ in nothing else.
static ID_PART: [[u32; 16]; 4] = {
    let mut table = [[0; 16]; 4];
    let mut place = 0;
    while place < 4 {
        let mut nibble = 0;
        while nibble < 16 {
            let id = (nibble as u16) << (12 - 4 * place);
            let mut register = byte(byte(0, (id >> 8) as u8), id as u8);
            let mut after = 0;
            while after < AFTER_ID {
                register = byte(register, 0);
                after += 1;
            }
            table[place][nibble] = register;
            nibble += 1;
        }
        place += 1;
    }
    table
};

/// The change of [`ID_PART`] when an identification is incremented, by the number of its trailing
/// ones.
static ID_STEP: [u32; 17] = {
    let mut steps = [0; 17];
    let mut ones = 0;
    while ones < 17 {
        // All bits that the carry reaches change.
        let change = if ones < 16 {
            (2_u32 << ones) - 1
        } else {
            0xffff
        } as u16;
        let mut place = 0;
        while place < 4 {
            steps[ones] ^= ID_PART[place][(change >> (12 - 4 * place)) as usize & 15];
            place += 1;
        }
        ones += 1;
    }
    steps
};

/// The register after one more byte.
const fn byte(register: u32, byte: u8) -> u32 {
    let mut register = register ^ byte as u32;
    let mut bit = 0;
    while bit < 8 {
        let feedback = register & 1;
        register >>= 1;
        if feedback == 1 {
            register ^= 0xedb8_8320;
        }
        bit += 1;
    }
    register
}

/// See [`ID_PART`].
#[inline]
fn id_part(id: u16) -> u32 {
    let [a, b, c, d] = &ID_PART;
    let part = |table: &[u32; 16], shift: u32| table[usize::from((id >> shift) & 15)];
    part(a, 12) ^ part(b, 8) ^ part(c, 4) ^ part(d, 0)
}

/// The reason that headers were not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The slice is not exactly one IP header: wrong version, or wrong length.
    NotIp,
}

/// The masked IP and UDP headers that a packet's ICRC starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcrcHead {
    /// The headers, and behind them room for the BTH or a short packet.
    bytes: [u8; ROOM],
    /// Length of the IP header, 20 to 60. With the UDP header and BTH it never exceeds `bytes`.
    ip_len: u8,
    /// The length field of the UDP header.
    udp_len: u16,
    /// The identification field of an IPv4 header.
    ip_id: u16,
    /// The cached register before the BTH, for datagrams with this UDP length. If [`ID_PART`]
    /// applies, it is the register for the identification 0.
    before: Option<(u16, u32)>,
}

impl IcrcHead {
    /// A head without headers, to be set by [`IcrcHead::set`].
    pub const EMPTY: Self = IcrcHead {
        bytes: [0; ROOM],
        ip_len: 0,
        udp_len: 0,
        ip_id: 0,
        before: None,
    };

    /// Takes the IP header (IPv4 with its options, or IPv6) and the UDP header of a packet.
    ///
    /// # Errors
    ///
    /// [`HeadError::NotIp`] unless `ip` is exactly one IP header.
    #[inline]
    pub fn new(ip: &[u8], udp: &[u8; UDP_LEN]) -> Result<Self, HeadError> {
        let mut head = Self::EMPTY;
        head.set(ip, udp)?;
        Ok(head)
    }

    /// As [`IcrcHead::new`], in place: `self` is [`IcrcHead::EMPTY`].
    ///
    /// # Errors
    ///
    /// As [`IcrcHead::new`]; `self` is of no use then.
    #[inline]
    pub fn set(&mut self, ip: &[u8], udp: &[u8; UDP_LEN]) -> Result<(), HeadError> {
        match ip.first().map(|byte| byte >> 4) {
            Some(4) => self.set_ipv4(ip, udp),
            Some(6) => self.set_ipv6(ip, udp),
            _ => None,
        }
        .ok_or(HeadError::NotIp)
    }

    /// Takes an IPv4 header, which must be as long as its own length field says.
    #[inline]
    fn set_ipv4(&mut self, ip: &[u8], udp: &[u8; UDP_LEN]) -> Option<()> {
        let fixed = ip.first_chunk::<IPV4_MIN_LEN>()?;
        let words = usize::from(fixed[0] & 0x0f);
        if fixed[0] >> 4 != 4 || ip.len() != words * 4 {
            return None;
        }
        *self.bytes.first_chunk_mut()? = *fixed;
        let options = ip.get(IPV4_MIN_LEN..)?;
        if !options.is_empty() {
            let room = self.bytes.get_mut(IPV4_MIN_LEN..ip.len())?;
            room.copy_from_slice(options);
        }
        self.bytes[1] = 0xff; // TOS
        self.bytes[8] = 0xff; // TTL
        self.bytes[10] = 0xff; // header checksum
        self.bytes[11] = 0xff;
        self.ip_id = u16::from_be_bytes([fixed[4], fixed[5]]);
        self.set_udp(ip.len(), udp)
    }

    /// Takes an IPv6 header. There is nothing between it and the UDP header: a RoCEv2 packet has no
    /// extension headers.
    #[inline]
    fn set_ipv6(&mut self, ip: &[u8], udp: &[u8; UDP_LEN]) -> Option<()> {
        let fixed = <&[u8; IPV6_LEN]>::try_from(ip).ok()?;
        if fixed[0] >> 4 != 6 {
            return None;
        }
        *self.bytes.first_chunk_mut()? = *fixed;
        self.bytes[0] |= 0x0f; // traffic class
        self.bytes[1] = 0xff; // traffic class, flow label
        self.bytes[2] = 0xff; // flow label
        self.bytes[3] = 0xff;
        self.bytes[7] = 0xff; // hop limit
        self.set_udp(IPV6_LEN, udp)
    }

    /// Takes the UDP header behind an IP header of `ip_len` bytes. `None` if there is no room for
    /// it and a BTH.
    #[inline]
    fn set_udp(&mut self, ip_len: usize, udp: &[u8; UDP_LEN]) -> Option<()> {
        let room = self.bytes.get_mut(ip_len..)?;
        let (header, rest) = room.split_first_chunk_mut()?;
        rest.first_chunk::<BTH_LEN>()?;
        *header = *udp;
        header[6] = 0xff; // checksum
        header[7] = 0xff;
        self.ip_len = u8::try_from(ip_len).ok()?;
        self.udp_len = u16::from_be_bytes([udp[4], udp[5]]);
        Some(())
    }

    /// The lengths and ID that the headers had when they were taken.
    #[inline]
    pub const fn datagram_fields(&self) -> DatagramFields {
        DatagramFields {
            udp_len: self.udp_len,
            ip_id: self.ip_id,
        }
    }

    /// Makes these the headers of another datagram of the same flow: of datagram *i* of a
    /// super-packet, the ID is the first's plus *i*, modulo 2^16.
    ///
    /// An IPv4 length beyond 65535 is impossible on the wire and wraps here.
    #[inline]
    pub fn set_datagram_fields(&mut self, datagram: DatagramFields) {
        let udp_len = datagram.udp_len.to_be_bytes();
        if self.bytes[0] >> 4 == 4 {
            let total = datagram.udp_len.wrapping_add(u16::from(self.ip_len));
            [self.bytes[2], self.bytes[3]] = total.to_be_bytes();
            [self.bytes[4], self.bytes[5]] = datagram.ip_id.to_be_bytes();
        } else {
            // The payload length of IPv6 is what follows its header.
            [self.bytes[4], self.bytes[5]] = udp_len;
        }
        let udp = self.bytes.get_mut(usize::from(self.ip_len)..);
        if let Some([_, _, _, _, high, low, ..]) = udp {
            [*high, *low] = udp_len;
        }
        self.udp_len = datagram.udp_len;
        self.ip_id = datagram.ip_id;
    }

    /// Starts the ICRC of a packet: the headers, and `bth` as it stands on the wire. The rest is
    /// everything after the BTH: extended headers, payload, pad.
    #[inline]
    pub fn start<E: Fn(u32, &[u8]) -> u32>(&mut self, engine: E, bth: &[u8; BTH_LEN]) -> Icrc<E> {
        // There is always room for a BTH.
        let covered = self.with(bth).unwrap_or(&[]);
        Icrc {
            register: engine(SEED, covered),
            engine,
        }
    }

    /// The ICRC of a packet that is in one piece: `packet` begins with the BTH as it stands on the
    /// wire and ends where the ICRC does. `None` if it is too short for a BTH.
    ///
    /// The call changes one byte of the packet for a moment.
    #[inline]
    pub fn over<E: Fn(u32, &[u8]) -> u32>(
        &mut self,
        engine: E,
        packet: &mut [u8],
    ) -> Option<[u8; ICRC_LEN]> {
        packet.first_chunk::<BTH_LEN>()?;
        let register = match self.with(packet) {
            Some(covered) => engine(SEED, covered),
            None => {
                let before = self.before_bth(&engine);
                over_packet(&engine, before, packet)?
            }
        };
        Some(Icrc { register, engine }.finish())
    }

    /// The ICRCs of the segments of a super-packet, from datagram `first` on; `None` if there are
    /// IPv4 options.
    #[inline]
    pub fn segments<E: Fn(u32, &[u8]) -> u32>(
        &mut self,
        engine: E,
        first: DatagramFields,
    ) -> Option<IcrcSegments> {
        let v4 = self.bytes[0] >> 4 == 4;
        if v4 && self.bytes[0] != 0x45 {
            return None;
        }
        self.set_datagram_fields(first);
        let before = self.before_bth(&engine);
        let ip_id = v4.then_some(first.ip_id);
        Some(IcrcSegments { before, ip_id })
    }

    /// The register after the IP and UDP headers.
    #[inline]
    fn before_bth<E: Fn(u32, &[u8]) -> u32>(&mut self, engine: &E) -> u32 {
        let part = if self.bytes[0] == 0x45 {
            id_part(self.ip_id)
        } else {
            0
        };
        match self.before {
            Some((udp_len, register)) if udp_len == self.udp_len && self.bytes[0] >> 4 != 4 => {
                register
            }
            Some((udp_len, register)) if udp_len == self.udp_len && self.bytes[0] == 0x45 => {
                register ^ part
            }
            _ => {
                let end = usize::from(self.ip_len) + UDP_LEN;
                let register = engine(SEED, self.bytes.get(..end).unwrap_or(&[]));
                self.before = Some((self.udp_len, register ^ part));
                register
            }
        }
    }

    /// The headers with `packet` behind them, which begins with a BTH; `None` if there is no room.
    #[inline]
    fn with(&mut self, packet: &[u8]) -> Option<&[u8]> {
        let start = usize::from(self.ip_len) + UDP_LEN;
        let end = start.checked_add(packet.len())?;
        let room = self.bytes.get_mut(start..end)?;
        room.copy_from_slice(packet);
        *room.get_mut(4)? = 0xff; // FECN, BECN, reserved
        self.bytes.get(..end)
    }
}

/// The ICRCs of the segments of a GSO super-packet, all of one length.
#[derive(Clone, Copy, Debug)]
pub struct IcrcSegments {
    /// The register before the BTH of the next datagram.
    before: u32,
    /// Its IPv4 identification, if there is one.
    ip_id: Option<u16>,
}

impl IcrcSegments {
    /// As [`IcrcHead::over`], for the next datagram of the super-packet.
    #[inline]
    pub fn over<E: Fn(u32, &[u8]) -> u32>(
        &mut self,
        engine: E,
        packet: &mut [u8],
    ) -> Option<[u8; ICRC_LEN]> {
        let register = over_packet(&engine, self.before, packet)?;
        if let Some(id) = &mut self.ip_id {
            let [step, ..] = ID_STEP.get(id.trailing_ones() as usize..)? else {
                return None;
            };
            self.before ^= step;
            *id = id.wrapping_add(1);
        }
        Some(Icrc { register, engine }.finish())
    }
}

/// The register after `packet`, which begins with a BTH.
#[inline]
fn over_packet<E: Fn(u32, &[u8]) -> u32>(
    engine: &E,
    before: u32,
    packet: &mut [u8],
) -> Option<u32> {
    let kept = core::mem::replace(packet.get_mut(4)?, 0xff); // FECN, BECN, reserved
    let register = engine(before, packet);
    *packet.get_mut(4)? = kept;
    Some(register)
}

/// An ICRC that is being computed.
#[derive(Clone, Copy, Debug)]
pub struct Icrc<E> {
    register: u32,
    engine: E,
}

impl<E: Fn(u32, &[u8]) -> u32> Icrc<E> {
    /// Adds the next bytes of the packet. How they are cut into chunks does not matter.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.register = (self.engine)(self.register, bytes);
    }

    /// The register in between, for a caller whose payload passes through a copy routine that
    /// computes the CRC itself; give the result to [`Icrc::set_register`].
    #[inline]
    pub fn register(&self) -> u32 {
        self.register
    }

    /// Continues with a register that another routine computed from [`Icrc::register`].
    #[inline]
    pub fn set_register(&mut self, register: u32) {
        self.register = register;
    }

    /// The four bytes that end the packet, in wire order.
    #[inline]
    pub fn finish(self) -> [u8; ICRC_LEN] {
        // Low byte first (IBTA 7.8.1), unlike all else on this wire.
        (!self.register).to_le_bytes()
    }
}

#[cfg(test)]
#[path = "icrc_tests.rs"]
mod tests;
