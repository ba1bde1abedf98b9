// SPDX-License-Identifier: GPL-2.0

//! Tests of the ICRC: against frames that scapy made, and of the bits that it covers.

use super::super::{PacketRepr, ROCE_UDP_PORT};
use super::*;
use proptest::prelude::*;

/// The checked-in frames, which tools/vectors/make-vectors.py generated.
const VECTORS: &str = include_str!("../../../tools/vectors/icrc.txt");

/// The CRC engine, in place of the kernel's `crc32_le`.
fn engine(register: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!register);
    hasher.update(bytes);
    !hasher.finalize()
}

/// The parts of a frame.
#[derive(Clone, Debug)]
struct Frame {
    name: &'static str,
    payload_len: usize,
    pad: u8,
    ip: Vec<u8>,
    udp: [u8; UDP_LEN],
    /// UDP payload, ICRC included.
    packet: Vec<u8>,
}

impl Frame {
    fn read(line: &'static str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, udp_payload_len, payload_len, pad, hex] = words[..] else {
            panic!("{line}: five words expected");
        };
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex"))
            .collect();
        let vlan = bytes[12..14] == [0x81, 0x00];
        assert_eq!(vlan, name.contains("-vlan-"));
        let ip_at = if vlan { 18 } else { 14 };
        let ip_len = match bytes[ip_at - 2..ip_at] {
            [0x08, 0x00] => usize::from(bytes[ip_at] & 0x0f) * 4,
            [0x86, 0xdd] => IPV6_LEN,
            ref other => panic!("{name}: ethertype {other:x?}"),
        };
        let (ip, rest) = bytes[ip_at..].split_at(ip_len);
        let (udp, packet) = rest.split_first_chunk().expect("UDP header");
        assert_eq!(packet.len().to_string(), udp_payload_len, "{name}");
        Frame {
            name,
            payload_len: payload_len.parse().expect("number"),
            pad: pad.parse().expect("number"),
            ip: ip.to_vec(),
            udp: *udp,
            packet: packet.to_vec(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
        lines.map(Frame::read)
    }

    fn named(name: &str, payload_len: usize) -> Self {
        Frame::all()
            .find(|f| f.name == name && f.payload_len == payload_len)
            .expect("there is such a vector")
    }

    /// The ICRC at the end of the packet.
    fn icrc(&self) -> [u8; ICRC_LEN] {
        *self.packet.last_chunk().expect("ICRC")
    }

    /// The ICRC as computed with the payload in one piece.
    fn compute(&self) -> Result<[u8; ICRC_LEN], HeadError> {
        Ok(self.compute_from(IcrcHead::new(&self.ip, &self.udp)?))
    }

    /// Computes the ICRC in both ways, which must agree.
    fn compute_from(&self, mut head: IcrcHead) -> [u8; ICRC_LEN] {
        let covered = &self.packet[..self.packet.len() - ICRC_LEN];
        let (bth, rest) = covered.split_first_chunk().expect("BTH");
        let mut copy = covered.to_vec();
        let whole = head.over(engine, &mut copy).expect("BTH");
        assert_eq!(copy, covered, "as before");
        let mut icrc = head.start(engine, bth);
        icrc.update(rest);
        assert_eq!(icrc.finish(), whole);
        whole
    }

    /// Writes new lengths and, for IPv4, a new ID into the headers.
    fn patch(&mut self, datagram: DatagramFields) {
        let be = datagram.udp_len.to_be_bytes();
        self.udp[4..6].copy_from_slice(&be);
        if self.ip[0] >> 4 == 6 {
            self.ip[4..6].copy_from_slice(&be);
        } else {
            let total = datagram.udp_len.wrapping_add(self.ip.len() as u16);
            self.ip[2..4].copy_from_slice(&total.to_be_bytes());
            self.ip[4..6].copy_from_slice(&datagram.ip_id.to_be_bytes());
        }
    }
}

/// IBTA annex A17.3.3: the ICRC begins with eight bytes of ones.
#[test]
fn the_seed_is_eight_bytes_of_ones() {
    assert_eq!(SEED, engine(u32::MAX, &[0xff; 8]));
}

/// IBTA 7.8.1: the ICRC is the CRC-32 of Ethernet, low byte first.
#[test]
fn the_crc_ends_as_ieee_802_3_says() {
    // The check value of CRC-32 over "123456789", low byte first.
    let icrc = Icrc {
        register: engine(u32::MAX, b"123456789"),
        engine,
    };
    assert_eq!(icrc.finish(), 0xcbf4_3926_u32.to_le_bytes());
}

/// IBTA 7.8.1, IBTA annex A17.3.1, A17.3.2.2 and A17.3.3: UDP port, headers and ICRC are those of
/// another implementation.
#[test]
fn every_vector() {
    let mut seen = std::collections::HashSet::new();
    for frame in Frame::all() {
        assert_eq!(frame.compute(), Ok(frame.icrc()), "{}", frame.name);
        assert_eq!(frame.udp[2..4], ROCE_UDP_PORT.to_be_bytes());
        let parsed = PacketRepr::parse(&frame.packet, frame.packet.len()).expect(frame.name);
        assert_eq!(parsed.payload_len, frame.payload_len, "{}", frame.name);
        assert_eq!(parsed.repr.bth.pad, frame.pad, "{}", frame.name);
        assert_eq!(parsed.icrc_offset(), frame.packet.len() - ICRC_LEN);
        let mut head = vec![0; parsed.header_len];
        assert_eq!(
            parsed.repr.emit(&mut head),
            Ok(head.len()),
            "{}",
            frame.name
        );
        // Reserved bits are arbitrary in the vectors and zero when written: compare the meaning.
        let again = PacketRepr::parse(&head, frame.packet.len()).expect(frame.name);
        assert_eq!(again, parsed, "{}", frame.name);
        let network = frame.name.split('-').next().expect("name");
        seen.insert((network, frame.name.contains("-vlan-"), frame.pad));
    }
    assert_eq!(
        seen.len(),
        3 * 2 * 4,
        "each network, tagged and not, with each pad"
    );
}

/// IBTA annex A17.3.3: the fields that routers change count as ones, and all others as they are.
#[test]
fn masked_bits_do_not_count_and_all_others_do() {
    for name in ["ipv4-plain", "ipv6-plain", "ipv4opt-vlan"] {
        let frame = Frame::named(&format!("{name}-rc-send-only"), 5);
        let v4 = frame.ip[0] >> 4 == 4;
        for bit in 0..frame.ip.len() * 8 {
            let (byte, mask) = (bit / 8, 0x80 >> (bit % 8));
            let mut other = frame.clone();
            other.ip[byte] ^= mask;
            let masked = match (v4, byte) {
                (true, 1 | 8 | 10 | 11) | (false, 1..=3 | 7) => true,
                (false, 0) => mask < 0x10,
                _ => false,
            };
            match other.compute() {
                Ok(icrc) => assert_eq!(icrc == frame.icrc(), masked, "{name} IP bit {bit}"),
                // The changed bit is in the version, or in the header length, which no longer
                // matches.
                Err(HeadError::NotIp) => assert!(byte == 0 && !masked, "{name} IP bit {bit}"),
            }
        }
        for bit in 0..UDP_LEN * 8 {
            let mut other = frame.clone();
            other.udp[bit / 8] ^= 0x80 >> (bit % 8);
            let same = other.compute() == Ok(frame.icrc());
            assert_eq!(same, bit / 8 >= 6, "{name} UDP bit {bit}");
        }
        for bit in 0..(frame.packet.len() - ICRC_LEN) * 8 {
            let mut other = frame.clone();
            other.packet[bit / 8] ^= 0x80 >> (bit % 8);
            let same = other.compute() == Ok(frame.icrc());
            assert_eq!(same, bit / 8 == 4, "{name} packet bit {bit}");
        }
    }
}

#[test]
fn only_a_whole_ip_header_is_taken() {
    for name in ["ipv4-plain", "ipv6-plain", "ipv4opt-plain"] {
        let frame = Frame::named(&format!("{name}-rc-ack"), 0);
        let mut longer = frame.ip.clone();
        longer.push(0);
        for ip in (0..frame.ip.len())
            .map(|len| &frame.ip[..len])
            .chain([&longer[..]])
        {
            assert_eq!(IcrcHead::new(ip, &frame.udp), Err(HeadError::NotIp));
        }
        let version = frame.ip[0] >> 4;
        let mut head = IcrcHead::EMPTY;
        let wrong = match version {
            4 => head.set_ipv6(&frame.ip, &frame.udp),
            _ => head.set_ipv4(&frame.ip, &frame.udp),
        };
        assert_eq!(wrong, None);
    }
}

#[test]
fn the_longest_ipv4_header_fits() {
    for words in 0..16_u8 {
        let mut ip = vec![0x11; usize::from(words) * 4];
        if let Some(first) = ip.first_mut() {
            *first = 0x40 | words;
        }
        let head = IcrcHead::new(&ip, &[0; UDP_LEN]);
        assert_eq!(head.is_ok(), words >= 5, "{words}");
        let Ok(mut head) = head else { continue };
        for at in [1, 8, 10, 11] {
            ip[at] = 0xff;
        }
        let expected = [
            &[0xff; 8][..],
            &ip,
            &[0, 0, 0, 0, 0, 0, 0xff, 0xff],
            &[0; 4],
        ]
        .concat();
        let expected = [&expected[..], &[0xff, 0, 0, 0, 0, 0, 0, 0]].concat();
        let register = engine(u32::MAX, &expected);
        assert_eq!(head.start(engine, &[0; BTH_LEN]).register(), register);
    }
}

proptest! {
    #[test]
    fn pieces_do_not_matter(cuts in proptest::collection::vec(0..1024_usize, 0..6)) {
        let frame = Frame::named("ipv4-plain-rc-send-only", 1024);
        let mut head = IcrcHead::new(&frame.ip, &frame.udp).expect("IPv4");
        let (bth, rest) = frame.packet.split_first_chunk().expect("BTH");
        let rest = &rest[..rest.len() - ICRC_LEN];
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut icrc = head.start(engine, bth);
        let mut from = 0;
        for cut in cuts {
            icrc.update(&rest[from..cut]);
            from = cut;
        }
        // A copy routine with a CRC of its own can compute a part.
        let register = engine(icrc.register(), &rest[from..]);
        icrc.set_register(register);
        prop_assert_eq!(icrc.finish(), frame.icrc());
    }

    /// One head serves all datagrams of a super-packet.
    #[test]
    fn another_datagram_of_the_flow(udp_len: u16, ip_id: u16, which in 0..3_usize) {
        let name = ["ipv4-plain", "ipv6-plain", "ipv4opt-plain"][which];
        let mut frame = Frame::named(&format!("{name}-rc-send-only"), 5);
        let mut head = IcrcHead::new(&frame.ip, &frame.udp).expect("IP");
        let first = head;
        let datagram = DatagramFields { udp_len, ip_id };
        head.set_datagram_fields(datagram);
        prop_assert_eq!(head.datagram_fields(), datagram);
        frame.patch(datagram);
        prop_assert_eq!(frame.compute(), Ok(frame.compute_from(head)));
        head.set_datagram_fields(first.datagram_fields());
        prop_assert_eq!(head, first);
    }

    /// The cached register is correct for each datagram, whatever came before it.
    #[test]
    fn datagrams_of_a_super_packet(
        segments in proptest::collection::vec(
            (prop_oneof![Just(300), Just(1060)], any::<u16>(), any::<u8>()),
            1..9,
        ),
        which in 0..3_usize,
    ) {
        let name = ["ipv4-plain", "ipv6-plain", "ipv4opt-plain"][which];
        let mut frame = Frame::named(&format!("{name}-rc-send-only"), 5);
        frame.packet.extend((0..2000).map(|i| (i * 7) as u8));
        let mut head = IcrcHead::new(&frame.ip, &frame.udp).expect("IP");
        for (udp_len, ip_id, fecn) in segments {
            let datagram = DatagramFields { udp_len, ip_id };
            head.set_datagram_fields(datagram);
            frame.patch(datagram);
            frame.packet[4] = fecn;
            let mut packet = frame.packet[..usize::from(udp_len) - 100].to_vec();
            let mut fresh = IcrcHead::new(&frame.ip, &frame.udp).expect("IP");
            let (bth, rest) = packet.split_first_chunk().expect("BTH");
            let mut icrc = fresh.start(engine, bth);
            icrc.update(rest);
            prop_assert_eq!(head.over(engine, &mut packet), Some(icrc.finish()));
        }
    }

    /// The ICRCs of a super-packet's segments are those of the single datagrams.
    #[test]
    fn segments_of_a_super_packet(
        first in prop_oneof![any::<u16>(), Just(0xfffd), Just(0x7ffe)],
        len in 12..300_usize,
        count in 1..40_u16,
        which in 0..3_usize,
    ) {
        let name = ["ipv4-plain", "ipv6-plain", "ipv4opt-plain"][which];
        let frame = Frame::named(&format!("{name}-rc-send-only"), 5);
        let mut head = IcrcHead::new(&frame.ip, &frame.udp).expect("IP");
        let datagram = |i: u16| DatagramFields { udp_len: 900, ip_id: first.wrapping_add(i) };
        let segments = head.segments(engine, datagram(0));
        prop_assert_eq!(segments.is_some(), which != 2);
        let Some(mut segments) = segments else { return Ok(()) };
        for i in 0..count {
            let mut packet: Vec<u8> = (0..len).map(|byte| (byte as u16 * 7 + i) as u8).collect();
            let unchanged = packet.clone();
            head.set_datagram_fields(datagram(i));
            let want = head.over(engine, &mut packet);
            prop_assert_eq!(segments.over(engine, &mut packet), want);
            prop_assert_eq!(packet, unchanged);
        }
    }

    #[test]
    fn arbitrary_headers_never_panic(
        ip in proptest::collection::vec(any::<u8>(), 0..70),
        udp: [u8; UDP_LEN],
        bth: [u8; BTH_LEN],
        packet in proptest::collection::vec(any::<u8>(), 0..200),
        udp_len: u16,
        ip_id: u16,
    ) {
        if let Ok(mut head) = IcrcHead::new(&ip, &udp) {
            head.set_datagram_fields(DatagramFields { udp_len, ip_id });
            let icrc = head.start(engine, &bth);
            prop_assert_eq!(icrc.finish(), icrc.finish());
            let long_enough = packet.len() >= BTH_LEN;
            let mut packet = packet;
            prop_assert_eq!(head.over(engine, &mut packet).is_some(), long_enough);
        }
    }
}
