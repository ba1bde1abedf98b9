// SPDX-License-Identifier: GPL-2.0

//! Attributes of a device and of its port, as verbs report them.

use crate::ffi;
use crate::ffi::compat::attr_count;
use kernel::prelude::*;

/// A port capability: communication management (IBTA Vol 1, 14.2.5.6, PortInfo:CapabilityMask bit
/// 16).
pub(crate) const PORT_CAP_CM: u32 = 1 << 16;

/// A driver's number: `enum rdma_driver_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverId(pub(super) ffi::rdma_driver_id);

impl DriverId {
    /// That of rdma_rxe, and so of librxe, its provider.
    pub(crate) const RXE: Self = Self(ffi::rdma_driver_id_RDMA_DRIVER_RXE);
}

/// Capabilities that are flags: [`enum ib_device_cap_flags`].
///
/// [`enum ib_device_cap_flags`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCaps(u64);

impl DeviceCaps {
    /// Counts packets with a wrong P_Key.
    pub(crate) const BAD_PKEY_CNTR: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR as u64);
    /// Counts packets with a wrong Q_Key.
    pub(crate) const BAD_QKEY_CNTR: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR as u64);
    /// Checks that an address vector's port is the queue pair's.
    pub(crate) const UD_AV_PORT_ENFORCE: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_UD_AV_PORT_ENFORCE as u64);
    /// Reports when the port becomes active.
    pub(crate) const PORT_ACTIVE_EVENT: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64);
    /// Has a system image GUID.
    pub(crate) const SYS_IMAGE_GUID: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64);
    /// Makes RNR NAKs for RC.
    pub(crate) const RC_RNR_NAK_GEN: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64);
    /// Resizes shared receive queues.
    pub(crate) const SRQ_RESIZE: Self = Self(ffi::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE as u64);
    /// Fast registration, local invalidation, and SEND with invalidate.
    pub(crate) const MEM_MGT_EXTENSIONS: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64);
    /// Memory windows.
    pub(crate) const MEM_WINDOW: Self = Self(ffi::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW as u64);
    /// Memory windows of type 2B.
    pub(crate) const MEM_WINDOW_TYPE_2B: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B as u64);
    /// FLUSH for global visibility.
    pub(crate) const FLUSH_GLOBAL: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64);
    /// ATOMIC WRITE.
    pub(crate) const ATOMIC_WRITE: Self =
        Self(ffi::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE as u64);
    /// The flags in `enum ib_device_cap_flags`'s numbering.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

impl core::ops::BitOr for DeviceCaps {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The atomicity that atomic operations guarantee (IBTA Vol 1, 11.2.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AtomicCap {
    /// No atomic operations.
    #[default]
    None,
    /// Atomic with respect to the processors, too.
    Glob,
}

/// The operations of a transport service that may use memory with on-demand paging: `enum
/// ib_odp_transport_cap_bits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OdpOps(u32);

impl OdpOps {
    /// Sending from it.
    pub(crate) const SEND: Self = Self(ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND);
    /// All operations.
    pub(crate) const ALL: Self = Self(
        ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH
            | ffi::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE,
    );
}

/// On-demand paging, by transport service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OdpCaps {
    pub(crate) rc: OdpOps,
    pub(crate) uc: OdpOps,
    pub(crate) ud: OdpOps,
}

/// The attributes that `ibv_query_device` reports. Limits are counts, unless their documentation
/// says otherwise. Zero means not supported.
///
/// Values beyond the C field's range are clamped to it.
#[derive(Clone, Debug, Default)]
// The fields have the names of those of `struct ib_device_attr`.
pub(crate) struct DeviceAttr {
    /// As a number: the first byte on the wire is the most significant.
    pub(crate) sys_image_guid: u64,
    /// In bytes.
    pub(crate) max_mr_size: u64,
    /// Bit n: pages of 2^n bytes.
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) device_cap_flags: DeviceCaps,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_sge_rd: u32,
    pub(crate) max_cq: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_mr: u32,
    pub(crate) max_pd: u32,
    pub(crate) max_qp_rd_atom: u32,
    pub(crate) max_res_rd_atom: u32,
    pub(crate) max_qp_init_rd_atom: u32,
    pub(crate) atomic_cap: AtomicCap,
    pub(crate) max_mw: u32,
    pub(crate) max_mcast_grp: u32,
    pub(crate) max_mcast_qp_attach: u32,
    pub(crate) max_total_mcast_qp_attach: u32,
    pub(crate) max_ah: u32,
    pub(crate) max_srq: u32,
    pub(crate) max_srq_wr: u32,
    pub(crate) max_srq_sge: u32,
    pub(crate) max_fast_reg_page_list_len: u32,
    /// Completions.
    pub(crate) max_cq_moderation_count: u16,
    /// In microseconds.
    pub(crate) max_cq_moderation_period: u16,
    /// The exponent of 4.096 us * 2^n.
    pub(crate) local_ca_ack_delay: u8,
    /// `None`: no region pages on demand.
    pub(crate) odp: Option<OdpCaps>,
}

impl DeviceAttr {
    /// Fills the C structure, which the caller has zeroed.
    pub(super) fn fill(&self, c: &mut ffi::ib_device_attr) {
        // SAFETY: it only reads a string of the module's.
        c.fw_ver = unsafe { ffi::oxe_fw_ver() };
        c.sys_image_guid = self.sys_image_guid.to_be();
        c.max_mr_size = self.max_mr_size;
        c.page_size_cap = self.page_size_cap;
        c.vendor_id = self.vendor_id;
        c.vendor_part_id = self.vendor_part_id;
        c.hw_ver = self.hw_ver;
        c.device_cap_flags = self.device_cap_flags.bits();
        c.cq_caps.max_cq_moderation_count = self.max_cq_moderation_count;
        c.cq_caps.max_cq_moderation_period = self.max_cq_moderation_period;
        c.max_qp = attr_count(self.max_qp);
        c.max_qp_wr = attr_count(self.max_qp_wr);
        c.max_send_sge = attr_count(self.max_send_sge);
        c.max_recv_sge = attr_count(self.max_recv_sge);
        c.max_sge_rd = attr_count(self.max_sge_rd);
        c.max_cq = attr_count(self.max_cq);
        c.max_cqe = attr_count(self.max_cqe);
        c.max_mr = attr_count(self.max_mr);
        c.max_pd = attr_count(self.max_pd);
        c.max_qp_rd_atom = attr_count(self.max_qp_rd_atom);
        c.max_res_rd_atom = attr_count(self.max_res_rd_atom);
        c.max_qp_init_rd_atom = attr_count(self.max_qp_init_rd_atom);
        c.atomic_cap = match self.atomic_cap {
            AtomicCap::None => ffi::ib_atomic_cap_IB_ATOMIC_NONE,
            AtomicCap::Glob => ffi::ib_atomic_cap_IB_ATOMIC_GLOB,
        };
        c.max_mw = attr_count(self.max_mw);
        c.max_mcast_grp = attr_count(self.max_mcast_grp);
        c.max_mcast_qp_attach = attr_count(self.max_mcast_qp_attach);
        c.max_total_mcast_qp_attach = attr_count(self.max_total_mcast_qp_attach);
        c.max_ah = attr_count(self.max_ah);
        c.max_srq = attr_count(self.max_srq);
        c.max_srq_wr = attr_count(self.max_srq_wr);
        c.max_srq_sge = attr_count(self.max_srq_sge);
        c.max_fast_reg_page_list_len = self.max_fast_reg_page_list_len;
        c.max_pkeys = super::port::PKEY_TABLE_LEN;
        c.local_ca_ack_delay = self.local_ca_ack_delay;
        c.kernel_cap_flags = u64::from(ffi::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
        if let Some(odp) = self.odp {
            c.kernel_cap_flags |= u64::from(ffi::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
            c.odp_caps.general_caps = ffi::ib_odp_general_cap_bits_IB_ODP_SUPPORT.into();
            c.odp_caps.per_transport_caps.rc_odp_caps = odp.rc.0;
            c.odp_caps.per_transport_caps.uc_odp_caps = odp.uc.0;
            c.odp_caps.per_transport_caps.ud_odp_caps = odp.ud.0;
        }
    }
}

/// A path or port MTU: bytes of payload a packet carries (IBTA Vol 1, 11.2.5.2, path MTU).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Mtu {
    M256 = ffi::ib_mtu_IB_MTU_256,
    M512 = ffi::ib_mtu_IB_MTU_512,
    M1024 = ffi::ib_mtu_IB_MTU_1024,
    M2048 = ffi::ib_mtu_IB_MTU_2048,
    M4096 = ffi::ib_mtu_IB_MTU_4096,
}

impl Mtu {
    /// From `enum ib_mtu`; EINVAL for anything that is not one.
    pub(crate) fn from_raw(raw: u32) -> Result<Self> {
        Ok(match raw {
            ffi::ib_mtu_IB_MTU_256 => Mtu::M256,
            ffi::ib_mtu_IB_MTU_512 => Mtu::M512,
            ffi::ib_mtu_IB_MTU_1024 => Mtu::M1024,
            ffi::ib_mtu_IB_MTU_2048 => Mtu::M2048,
            ffi::ib_mtu_IB_MTU_4096 => Mtu::M4096,
            _ => return Err(EINVAL),
        })
    }

    /// The largest that fits into `bytes`; the smallest if none does.
    pub(crate) fn fitting(bytes: u32) -> Self {
        match bytes {
            4096.. => Mtu::M4096,
            2048.. => Mtu::M2048,
            1024.. => Mtu::M1024,
            512.. => Mtu::M512,
            _ => Mtu::M256,
        }
    }

    /// In bytes.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Mtu::M256 => 256,
            Mtu::M512 => 512,
            Mtu::M1024 => 1024,
            Mtu::M2048 => 2048,
            Mtu::M4096 => 4096,
        }
    }

    /// In `enum ib_mtu`'s numbering.
    pub(crate) const fn raw(self) -> u32 {
        self as u32
    }
}

/// The logical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum PortState {
    #[default]
    Down = ffi::ib_port_state_IB_PORT_DOWN,
    Active = ffi::ib_port_state_IB_PORT_ACTIVE,
}

/// The physical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
// CAST: the numbers are 0 to 7 (IBTA, PortInfo).
pub(crate) enum PhysState {
    #[default]
    Disabled = ffi::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
    Polling = ffi::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8,
    LinkUp = ffi::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
}

/// The attributes that `ibv_query_port` reports. The glue presets those that follow from the
/// network interface: `state`, `phys_state`, `netdev_mtu` and the speed; the driver fills in the
/// rest.
#[derive(Clone, Debug)]
// The fields have the names of those of `struct ib_port_attr`.
pub(crate) struct PortAttr {
    pub(crate) state: PortState,
    pub(crate) phys_state: PhysState,
    pub(crate) max_mtu: Mtu,
    pub(crate) active_mtu: Mtu,
    /// The MTU of the network interface in bytes; not reported, for the driver's information.
    pub(crate) netdev_mtu: u32,
    /// The speed of the network interface in Mb/s, 0 if it is not known; for the driver's
    /// information, too.
    pub(crate) netdev_speed: u32,
    /// In bytes.
    pub(crate) max_msg_sz: u32,
    pub(crate) port_cap_flags: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    /// `enum ib_port_width`.
    pub(crate) active_width: u8,
    /// `enum ib_port_speed`, of one lane.
    pub(crate) active_speed: u16,
    pub(crate) subnet_timeout: u8,
}

impl PortAttr {
    pub(super) fn new(attrs: &ffi::oxe_link_attrs) -> Self {
        let (active_width, active_speed) = width_and_speed(attrs.speed);
        PortAttr {
            state: if attrs.running {
                PortState::Active
            } else {
                PortState::Down
            },
            phys_state: match (attrs.running, attrs.up) {
                (true, _) => PhysState::LinkUp,
                (false, true) => PhysState::Polling,
                (false, false) => PhysState::Disabled,
            },
            max_mtu: Mtu::M4096,
            active_mtu: Mtu::M256,
            netdev_mtu: attrs.mtu,
            netdev_speed: attrs.speed,
            max_msg_sz: 1 << 31,
            port_cap_flags: PORT_CAP_CM,
            bad_pkey_cntr: 0,
            qkey_viol_cntr: 0,
            active_width,
            active_speed,
            subnet_timeout: 0,
        }
    }

    /// Fills the C structure, which the caller has zeroed.
    pub(super) fn fill(&self, c: &mut ffi::ib_port_attr, gid_table_len: u16) {
        c.state = self.state as u32;
        c.phys_state = self.phys_state as u8;
        c.max_mtu = self.max_mtu.raw();
        c.active_mtu = self.active_mtu.raw();
        c.phys_mtu = self.active_mtu.bytes();
        c.gid_tbl_len = i32::from(gid_table_len);
        c.pkey_tbl_len = super::port::PKEY_TABLE_LEN;
        c.port_cap_flags = self.port_cap_flags;
        c.max_msg_sz = self.max_msg_sz;
        c.bad_pkey_cntr = self.bad_pkey_cntr;
        c.qkey_viol_cntr = self.qkey_viol_cntr;
        c.max_vl_num = 1;
        c.active_width = self.active_width;
        c.active_speed = self.active_speed;
        c.subnet_timeout = self.subnet_timeout;
    }
}

/// Expresses a network interface's speed in Mb/s (0 if unknown) as lanes times speed of a lane. The
/// nominal rates of a lane are 2.5, 5, 10, 14, 25, 50, 100 Gb/s; where nothing fits exactly it is
/// the next one below.
fn width_and_speed(mbps: u32) -> (u8, u16) {
    let (width, speed) = match mbps {
        800_000.. => (
            ffi::ib_port_width_IB_WIDTH_8X,
            ffi::ib_port_speed_IB_SPEED_NDR,
        ),
        400_000.. => (
            ffi::ib_port_width_IB_WIDTH_4X,
            ffi::ib_port_speed_IB_SPEED_NDR,
        ),
        200_000.. => (
            ffi::ib_port_width_IB_WIDTH_4X,
            ffi::ib_port_speed_IB_SPEED_HDR,
        ),
        100_000.. => (
            ffi::ib_port_width_IB_WIDTH_4X,
            ffi::ib_port_speed_IB_SPEED_EDR,
        ),
        56_000.. => (
            ffi::ib_port_width_IB_WIDTH_4X,
            ffi::ib_port_speed_IB_SPEED_FDR,
        ),
        50_000.. => (
            ffi::ib_port_width_IB_WIDTH_1X,
            ffi::ib_port_speed_IB_SPEED_HDR,
        ),
        40_000.. => (
            ffi::ib_port_width_IB_WIDTH_4X,
            ffi::ib_port_speed_IB_SPEED_QDR,
        ),
        25_000.. => (
            ffi::ib_port_width_IB_WIDTH_1X,
            ffi::ib_port_speed_IB_SPEED_EDR,
        ),
        10_000.. => (
            ffi::ib_port_width_IB_WIDTH_1X,
            ffi::ib_port_speed_IB_SPEED_QDR,
        ),
        5_000.. => (
            ffi::ib_port_width_IB_WIDTH_1X,
            ffi::ib_port_speed_IB_SPEED_DDR,
        ),
        _ => (
            ffi::ib_port_width_IB_WIDTH_1X,
            ffi::ib_port_speed_IB_SPEED_SDR,
        ),
    };
    // CAST: both are flags, of 5 and of 9 bits.
    (width as u8, speed as u16)
}
