// SPDX-License-Identifier: GPL-2.0

//! Address vectors: the source and the destination of the RoCEv2 packets of a queue pair or an
//! address handle.

use super::gid_table;
use crate::ffi;
use crate::net::netdev::{Namespace, NetdevId};
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;

/// The IP version of a RoCEv2 address vector: that of its GIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Both GIDs are IPv4-mapped addresses.
    V4,
    /// Both GIDs are IPv6 addresses.
    V6,
}

impl Network {
    /// In `enum rdma_network_type`'s numbering.
    pub(crate) const fn raw(self) -> u8 {
        // CAST: the C structures have the numbers in an u8.
        match self {
            Network::V4 => ffi::rdma_network_type_RDMA_NETWORK_IPV4 as u8,
            Network::V6 => ffi::rdma_network_type_RDMA_NETWORK_IPV6 as u8,
        }
    }
}

/// An address vector, resolved: the source GID has been looked up in the port's GID table (IBTA Vol
/// 1, 11.2.2.1 and annex A17 for its meaning in RoCEv2). In C it is a [`struct rdma_ah_attr`].
///
/// [`struct rdma_ah_attr`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AhAttr {
    sgid: [u8; 16],
    dgid: [u8; 16],
    dmac: [u8; 6],
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    sl: u8,
    flow_label: u32,
    netdev: NetdevId,
    namespace: Namespace,
    vlan: Option<u16>,
    own: Option<u32>,
}

impl AhAttr {
    /// The source GID: an IPv4-mapped address or an IPv6 address, most significant byte first.
    pub(crate) fn sgid(&self) -> &[u8; 16] {
        &self.sgid
    }

    /// The destination GID, likewise.
    pub(crate) fn dgid(&self) -> &[u8; 16] {
        &self.dgid
    }

    /// 20 bits; 0 lets the device choose the UDP source port by itself.
    pub(crate) fn flow_label(&self) -> u32 {
        self.flow_label
    }

    /// The IPv4 TTL or IPv6 hop limit.
    pub(crate) fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// The IPv4 TOS or IPv6 traffic class.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    /// The service level (IBTA 9.2, 7.6.5): 4 bits.
    pub(crate) fn service_level(&self) -> u8 {
        self.sl
    }

    /// The network interface that has the source GID: the device's, or an upper one such as a VLAN.
    pub(crate) fn netdev(&self) -> NetdevId {
        self.netdev
    }

    /// The network namespace of that interface.
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// The id of the VLAN that this interface is: 12 bits (IEEE 802.1Q).
    pub(crate) fn vlan(&self) -> Option<u16> {
        self.vlan
    }

    /// The generation of GIDs ([`gid_table::generation`]) when the address vector was read, if the
    /// destination was then an address of the same interface as the source.
    pub(crate) fn own(&self) -> Option<u32> {
        self.own
    }

    /// Reads ib_core's address vector. Any context.
    ///
    /// EINVAL if it is not a RoCE address vector with a GRH, or the IP versions of the GIDs differ;
    /// EOPNOTSUPP if the source GID is one of RoCE version 1; ENODEV if the source GID's interface
    /// is gone.
    ///
    /// # Safety
    ///
    /// If `raw.grh.sgid_attr` is not null, it is valid and referenced.
    pub(super) unsafe fn from_raw(raw: &ffi::rdma_ah_attr) -> Result<Self> {
        if raw.type_ != ffi::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
            || u32::from(raw.ah_flags) & ffi::ib_ah_flags_IB_AH_GRH == 0
            || raw.port_num != super::port::PORT
        {
            return Err(EINVAL);
        }
        let entry = NonNull::new(raw.grh.sgid_attr.cast_mut()).ok_or(EINVAL)?;
        let mut attrs = ffi::oxe_gid_attrs::default();
        // SAFETY: the entry is valid and referenced by the requirement of this function.
        to_result(unsafe { ffi::oxe_gid_attrs(entry.as_ptr(), &mut attrs) })?;
        if !attrs.roce_v2 {
            return Err(super::error::unsupported());
        }
        let generation = gid_table::generation();
        // SAFETY: both members of the union are made of plain bytes.
        let dgid = unsafe { *raw.grh.dgid.raw.as_ref() };
        if attrs.ipv4 != is_mapped(&dgid) {
            return Err(EINVAL);
        }
        Ok(AhAttr {
            sgid: attrs.gid,
            dgid,
            // SAFETY: the type was checked to be RoCE.
            dmac: unsafe { raw.__bindgen_anon_1.roce.as_ref() }.dmac,
            sgid_index: raw.grh.sgid_index,
            hop_limit: raw.grh.hop_limit,
            traffic_class: raw.grh.traffic_class,
            sl: raw.sl,
            flow_label: raw.grh.flow_label & ffi::IB_GRH_FLOWLABEL_MASK,
            netdev: NetdevId(attrs.ndev),
            namespace: Namespace::from_cookie(attrs.net),
            vlan: Some(attrs.vlan).filter(|id| *id < 0x1000),
            // SAFETY: as above; `dgid` is 16 bytes.
            own: unsafe { ffi::oxe_gid_is_of(entry.as_ref().device, attrs.ndev, dgid.as_ptr()) }
                .then_some(generation),
        })
    }

    /// Writes ib_core's address vector, for queries. The reference on the source GID's entry stays
    /// as it is.
    pub(super) fn fill(&self, raw: &mut ffi::rdma_ah_attr) {
        raw.type_ = ffi::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        // CAST: it is bit 0.
        raw.ah_flags = ffi::ib_ah_flags_IB_AH_GRH as u8;
        raw.port_num = super::port::PORT;
        raw.sl = self.sl;
        raw.static_rate = 0;
        raw.grh.sgid_index = self.sgid_index;
        raw.grh.flow_label = self.flow_label;
        raw.grh.hop_limit = self.hop_limit;
        raw.grh.traffic_class = self.traffic_class;
        // SAFETY: both members of the union are made of plain bytes.
        unsafe { *raw.grh.dgid.raw.as_mut() = self.dgid };
        // SAFETY: this is the member that goes with the type set above.
        unsafe { raw.__bindgen_anon_1.roce.as_mut() }.dmac = self.dmac;
    }
}

/// Whether a GID is an IPv4-mapped address (RFC 4291, 2.5.5.2).
fn is_mapped(gid: &[u8; 16]) -> bool {
    matches!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..])
}
