// SPDX-License-Identifier: GPL-2.0

//! Completions in the ring of a CQ.

abi! {
    /// A CQE: `struct ib_uverbs_wc`, which is also libibverbs' `struct ibv_wc`.
    pub(crate) struct UverbsWc = ib_uverbs_wc {
        pub(crate) wr_id: u64,
        /// `enum ib_wc_status`.
        pub(crate) status: u32,
        /// `enum ib_wc_opcode`.
        pub(crate) opcode: u32,
        pub(crate) vendor_err: u32,
        pub(crate) byte_len: u32,
        /// Immediate data in wire order, or the invalidated key in the processor's byte order.
        pub(crate) ex: [u8; 4],
        pub(crate) qp_num: u32,
        pub(crate) src_qp: u32,
        /// See [`wc_flag`].
        pub(crate) wc_flags: u32,
        pub(crate) pkey_index: u16,
        pub(crate) slid: u16,
        /// The packet type of a datagram: see [`packet_type`].
        pub(crate) sl: u8,
        pub(crate) dlid_path_bits: u8,
        pub(crate) port_num: u8,
        pub(crate) reserved: u8,
    }
}

/// Flags of completions: libibverbs' `enum ibv_wc_flags`, which is in no header of the kernel. The
/// flags of kernel consumers differ (`enum ib_wc_flags`).
pub(crate) mod wc_flag {
    pub(crate) const GRH: u32 = 1 << 0;
    pub(crate) const WITH_IMM: u32 = 1 << 1;
    pub(crate) const WITH_INV: u32 = 1 << 3;
}

/// The packet type of a datagram, as mlx5 completions carry it in `sl`: RoCE with a GRH (bit 3),
/// and the IP version. UCX reads it there to find the IP header in front of the datagram.
pub(crate) mod packet_type {
    const ROCE: u8 = 0x8;
    pub(crate) const ROCE_V2_IPV6: u8 = ROCE | 1;
    pub(crate) const ROCE_V2_IPV4: u8 = ROCE | 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::{FromBytes as _, IntoBytes as _};

    const LEN: usize = 48;

    /// Each byte has its offset as value.
    fn counting() -> [u8; LEN] {
        core::array::from_fn(|at| at as u8)
    }

    fn u16_at(at: u8) -> u16 {
        u16::from_ne_bytes([at, at + 1])
    }

    fn u32_at(at: u8) -> u32 {
        u32::from_ne_bytes([at, at + 1, at + 2, at + 3])
    }

    #[test]
    fn the_fields_are_where_the_documentation_says() {
        let wc = UverbsWc {
            wr_id: u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7]),
            status: u32_at(8),
            opcode: u32_at(12),
            vendor_err: u32_at(16),
            byte_len: u32_at(20),
            ex: [24, 25, 26, 27],
            qp_num: u32_at(28),
            src_qp: u32_at(32),
            wc_flags: u32_at(36),
            pkey_index: u16_at(40),
            slid: u16_at(42),
            sl: 44,
            dlid_path_bits: 45,
            port_num: 46,
            reserved: 47,
        };
        assert_eq!(wc.as_bytes(), counting());
        assert_eq!(UverbsWc::read_from_bytes(&counting()), Ok(wc));
    }

    #[test]
    fn no_other_length_is_read() {
        let bytes = [0; LEN + 1];
        for len in (0..=bytes.len()).filter(|len| *len != LEN) {
            assert!(UverbsWc::read_from_bytes(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn flags_and_packet_types_are_those_that_processes_know() {
        assert_eq!(
            (wc_flag::GRH, wc_flag::WITH_IMM, wc_flag::WITH_INV),
            (1, 2, 8)
        );
        assert_eq!(packet_type::ROCE_V2_IPV6, 9);
        assert_eq!(packet_type::ROCE_V2_IPV4, 10);
    }

    proptest! {
        #[test]
        fn writing_then_reading_keeps_all(bytes in proptest::collection::vec(any::<u8>(), LEN)) {
            let wc = UverbsWc::read_from_bytes(&bytes).expect("as long as one");
            prop_assert_eq!(wc.as_bytes(), &bytes[..]);
            prop_assert_eq!(UverbsWc::read_from_bytes(wc.as_bytes()), Ok(wc));
        }
    }
}
