// SPDX-License-Identifier: GPL-2.0

//! Inputs and responses of verbs, beside those of ib_uverbs.

abi! {
    /// The place where a process maps a ring: `struct mminfo`.
    #[derive(Default)]
    pub(crate) struct MmInfo = mminfo {
        /// The offset for mmap(), opaque to the process.
        pub(crate) offset: u64,
        /// The length to map in bytes.
        pub(crate) size: u32,
        pub(crate) pad: u32,
    }

    /// `struct rxe_create_cq_resp`.
    pub(crate) struct RxeCreateCqResp = rxe_create_cq_resp {
        pub(crate) mi: MmInfo,
    }

    /// `struct rxe_resize_cq_resp`.
    pub(crate) struct RxeResizeCqResp = rxe_resize_cq_resp {
        pub(crate) mi: MmInfo,
    }

    /// `struct rxe_create_qp_resp`.
    pub(crate) struct RxeCreateQpResp = rxe_create_qp_resp {
        /// The receive ring.
        pub(crate) rq_mi: MmInfo,
        /// The send ring.
        pub(crate) sq_mi: MmInfo,
    }

    /// `struct rxe_create_srq_resp`.
    pub(crate) struct RxeCreateSrqResp = rxe_create_srq_resp {
        pub(crate) mi: MmInfo,
        /// The number of the queue. Only XRC names a queue by it.
        pub(crate) srq_num: u32,
        pub(crate) reserved: u32,
    }

    /// `struct rxe_modify_srq_cmd`.
    pub(crate) struct RxeModifySrqCmd = rxe_modify_srq_cmd {
        /// Where the process wants the [`MmInfo`] of the new ring, when the queue is resized.
        pub(crate) mmap_info_addr: u64,
    }
}

impl MmInfo {
    /// The information for a ring of `size` bytes.
    pub(crate) fn new(offset: u64, size: usize) -> Self {
        MmInfo {
            offset,
            size: size as u32,
            pad: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromBytes as _, IntoBytes as _};

    #[test]
    fn the_fields_are_where_the_documentation_says() {
        let rq_mi = MmInfo::new(0x1122_3344_5566_7788, 0x99aa_bbcc);
        let sq_mi = MmInfo::new(0x0102_0304_0506_0708, 0x090a_0b0c);
        let resp = RxeCreateQpResp { rq_mi, sq_mi };
        let bytes = resp.as_bytes();
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[0..8], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        assert_eq!(bytes[8..12], 0x99aa_bbcc_u32.to_ne_bytes());
        assert_eq!(bytes[12..16], [0; 4]);
        assert_eq!(bytes[16..24], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(bytes[24..28], 0x090a_0b0c_u32.to_ne_bytes());
        assert_eq!(bytes[28..32], [0; 4]);
        assert_eq!(RxeCreateQpResp::read_from_bytes(bytes), Ok(resp));
        assert_eq!(RxeCreateCqResp { mi: sq_mi }.as_bytes(), &bytes[16..]);
    }
}
