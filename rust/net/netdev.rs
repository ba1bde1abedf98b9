// SPDX-License-Identifier: GPL-2.0

//! Network devices.

use crate::ffi;
use core::ops::Deref;
use core::ptr::{null_mut, NonNull};
use kernel::ffi::c_void;
use kernel::str::CStr;
use kernel::types::Opaque;

/// A borrowed network device, [`struct net_device`]. A [`Netdev`] keeps it alive, or the notifier
/// call, packet or RCU section that the borrow came with.
///
/// Its methods may be called in any context unless they say otherwise. Their results may be
/// outdated at once, except under the RTNL lock.
///
/// [`struct net_device`]: srctree/include/linux/netdevice.h
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<ffi::net_device>);

// SAFETY: what the methods touch is made for concurrent use from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: as above.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// A borrow of the device at `dev`.
    ///
    /// # Safety
    ///
    /// `dev` points to a network device that stays there for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(dev: *mut ffi::net_device) -> &'a Self {
        // SAFETY: the layout is that of the device, which lives long enough.
        unsafe { &*dev.cast::<Self>() }
    }

    /// The pointer to the device, for the RDMA core.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut ffi::net_device {
        self.0.get()
    }

    /// Its identity.
    pub(crate) fn id(&self) -> NetdevId {
        NetdevId(self.as_raw() as usize)
    }

    /// Takes a reference. The network stack waits for it (and warns about it) when the device is to
    /// go, so drop it on [`super::notifier::Event::Unregister`].
    pub(crate) fn hold(&self) -> Netdev {
        let mut tracker = null_mut();
        // SAFETY: the device lives, and the tracker is kept beside its address.
        unsafe { ffi::oxe_netdev_hold(self.as_raw(), &mut tracker) };
        Netdev {
            dev: NonNull::from(self),
            tracker,
        }
    }

    /// The interface name.
    pub(crate) fn name(&self) -> Name {
        let mut name = Name([0; 16]);
        // SAFETY: the device lives, and there is room for the longest name with its terminator.
        unsafe { ffi::oxe_netdev_name(self.as_raw(), name.0.as_mut_ptr().cast()) };
        name
    }

    /// The MTU in bytes: the largest IP packet.
    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: the device lives.
        unsafe { ffi::oxe_netdev_mtu(self.as_raw()) }
    }

    /// Whether it takes super-packets (UDP GSO) of IPv4 whole.
    pub(crate) fn supports_udp_gso(&self) -> bool {
        // SAFETY: the device lives.
        unsafe { ffi::oxe_netdev_supports_udp_gso(self.as_raw(), false) }
    }

    /// The hardware address. Meaningful for [`Kind::Ethernet`].
    pub(crate) fn address(&self) -> [u8; 6] {
        let mut address = [0; 6];
        // SAFETY: the device lives; its address has room for 32 bytes, ours for the 6 that are
        // copied.
        unsafe { ffi::oxe_netdev_address(self.as_raw(), address.as_mut_ptr()) };
        address
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: the device lives.
        match unsafe { ffi::oxe_netdev_kind(self.as_raw()) } {
            ffi::oxe_netdev_kind_OXE_NETDEV_ETHERNET => Kind::Ethernet,
            ffi::oxe_netdev_kind_OXE_NETDEV_VLAN => Kind::Vlan,
            ffi::oxe_netdev_kind_OXE_NETDEV_IP => Kind::Ip,
            _ => Kind::Other,
        }
    }

    /// Whether it is a namespace's loopback device.
    #[inline]
    pub(crate) fn is_loopback(&self) -> bool {
        // SAFETY: the device lives.
        unsafe { ffi::oxe_netdev_is_loopback(self.as_raw()) }
    }

    /// Whether it can carry packets: it is up and has a carrier.
    pub(crate) fn is_up(&self) -> bool {
        // SAFETY: the device lives.
        unsafe { ffi::oxe_netdev_is_up(self.as_raw()) }
    }

    /// The namespace of the device, unless the device is going away. If it is just being moved, the
    /// new namespace.
    ///
    /// Process context, without the RTNL lock, for which it waits.
    pub(crate) fn namespace(&self) -> Option<Namespace> {
        // SAFETY: the device lives.
        let cookie = unsafe { ffi::oxe_netdev_namespace(self.as_raw()) };
        (cookie != 0).then_some(Namespace(cookie))
    }

    /// The namespace where the device is now, even if it is going away.
    pub(crate) fn present_namespace(&self) -> Namespace {
        // SAFETY: the device lives.
        Namespace(unsafe { ffi::oxe_netdev_net(self.as_raw()) })
    }

    /// Calls `f` with the real device at the bottom, if this is a VLAN. `f` must not sleep.
    pub(crate) fn with_vlan_real<R>(&self, f: impl FnOnce(&NetDevice) -> R) -> Option<R> {
        let _reading = kernel::sync::rcu::read_lock();
        // SAFETY: the device lives.
        let real = unsafe { ffi::oxe_netdev_vlan_real(self.as_raw()) };
        // SAFETY: a VLAN holds the device below it until it is freed itself.
        (!real.is_null()).then(|| f(unsafe { Self::from_raw(real) }))
    }
}

/// A kind of network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It sends Ethernet frames.
    Ethernet,
    /// A VLAN on another one.
    Vlan,
    /// It carries IP packets, and has no hardware address: the loopback device, tunnels.
    Ip,
    /// Any other.
    Other,
}

/// A reference to a network device, given up when dropped (any context).
///
/// # Invariants
///
/// `dev` points to a device of which a reference is owned, and `tracker` is the tracker of that
/// reference.
pub(crate) struct Netdev {
    dev: NonNull<NetDevice>,
    tracker: *mut c_void,
}

// SAFETY: a reference may be given up anywhere, and the device is `Send` and `Sync`.
unsafe impl Send for Netdev {}
// SAFETY: sharing it gives `&NetDevice` alone.
unsafe impl Sync for Netdev {}

impl Deref for Netdev {
    type Target = NetDevice;

    #[inline]
    fn deref(&self) -> &NetDevice {
        // SAFETY: the reference keeps it alive.
        unsafe { self.dev.as_ref() }
    }
}

impl Clone for Netdev {
    fn clone(&self) -> Self {
        self.hold()
    }
}

impl Drop for Netdev {
    fn drop(&mut self) {
        // SAFETY: the reference and its tracker are ours, and not used again.
        unsafe { ffi::oxe_netdev_put(self.as_raw(), &mut self.tracker) };
    }
}

/// The identity of a network namespace: its cookie. No other namespace ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(pub(super) u64);

impl Namespace {
    /// The namespace with this cookie.
    pub(crate) fn from_cookie(cookie: u64) -> Self {
        Namespace(cookie)
    }

    /// The namespace of the calling process. Process context.
    pub(crate) fn of_caller() -> Self {
        // SAFETY: no requirements beyond the context.
        Namespace(unsafe { ffi::oxe_net_of_caller() })
    }
}

/// The identity of a network device: an address to compare, which is never dereferenced. Another
/// device may have it after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetdevId(pub(crate) usize);

/// An interface name.
#[derive(Clone, Copy)]
pub(crate) struct Name([u8; 16]);

impl Name {
    /// The name as C has it.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    /// The bytes of the name, without a terminator.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&byte| byte == 0);
        self.0.get(..len.unwrap_or(self.0.len())).unwrap_or(&[])
    }
}

impl kernel::fmt::Display for Name {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        kernel::fmt::Display::fmt(kernel::str::BStr::from_bytes(self.as_bytes()), f)
    }
}
