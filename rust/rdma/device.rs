// SPDX-License-Identifier: GPL-2.0

//! Devices, and what they tell ib_core.

use crate::ffi;
use core::ops::Deref;
use kernel::types::Opaque;

/// A device: ib_core's [`struct ib_device`], and the driver's data behind it, to which this
/// dereferences.
///
/// [`struct ib_device`]: srctree/include/rdma/ib_verbs.h
///
/// # Invariants
///
/// `ib` was allocated by ib_core with this type's size; `data` is initialised. It stays in its
/// place until ib_core calls `dealloc_driver`; by then it has no users any more.
#[repr(C)]
pub(crate) struct Device<D> {
    ib: Opaque<ffi::ib_device>,
    pub(super) data: D,
}

// SAFETY: ib_core's structure is made for concurrent use.
unsafe impl<D: Send> Send for Device<D> {}
// SAFETY: as above.
unsafe impl<D: Sync> Sync for Device<D> {}

impl<D> Deref for Device<D> {
    type Target = D;

    #[inline]
    fn deref(&self) -> &D {
        &self.data
    }
}

impl<D> Device<D> {
    /// The device behind ib_core's structure.
    ///
    /// # Safety
    ///
    /// `ib` is a device that [`Device::register`] of the same `D` made, and whose data are not
    /// dropped during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(ib: *mut ffi::ib_device) -> &'a Self {
        // SAFETY: `ib` is the first member; the rest is the requirement of this function.
        unsafe { &*ib.cast::<Self>() }
    }

    /// ib_core's structure.
    pub(super) fn as_raw(&self) -> *mut ffi::ib_device {
        self.ib.get()
    }

    /// Notifies the device's users if the state of the port has changed since the last
    /// notification.
    ///
    /// ib_core does this by itself on events of the network interface, except that it leaves bonds
    /// to their drivers. Doing it twice does no harm. Process context, also under RTNL.
    pub(crate) fn port_changed(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::oxe_ib_port_changed(self.as_raw()) };
    }

    /// The node GUID. Its first byte on the wire is the most significant.
    pub(crate) fn node_guid(&self) -> u64 {
        // SAFETY: the device is valid, and this does not change.
        u64::from_be(unsafe { (*self.as_raw()).node_guid })
    }
}

/// Sets the node description to `text`, truncated to the field's size or padded with zeroes.
/// Process context.
pub(super) fn set_node_desc(ib: *mut ffi::ib_device, text: &[u8]) {
    let mut desc = [0_u8; ffi::IB_DEVICE_NODE_DESC_MAX as usize];
    for (to, from) in desc.iter_mut().zip(text) {
        *to = *from;
    }
    // SAFETY: callers have a valid device; the text has the size of the field.
    unsafe { ffi::oxe_ib_set_node_desc(ib, desc.as_ptr().cast()) };
}

/// The operation `dealloc_driver`: the device has no users any more.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_driver<D>(ib: *mut ffi::ib_device) {
    // SAFETY: ib_core gives a device of ours, once; the data were initialised before this operation
    // was set. They are not used again.
    unsafe { core::ptr::drop_in_place(&raw mut (*ib.cast::<Device<D>>()).data) };
}
