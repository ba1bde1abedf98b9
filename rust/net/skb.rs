// SPDX-License-Identifier: GPL-2.0

//! Packets: those that a UDP socket received, and those to be sent.

use super::netdev::{Namespace, NetDevice, NetdevId};
use super::route::{Header, Route};
use super::tx_limit::{TxLimit, TxLimitHandler};
use crate::ffi;
use crate::sync::bh::BhGuard;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{null, null_mut, NonNull};
use kernel::error::to_result;
use kernel::prelude::*;

/// A UDP datagram that arrived, in a [`struct sk_buff`]: the payload, and the headers in front of
/// it. Dropping it frees it (any context) as a consumed packet, not as a lost one.
///
/// It may be one segment of a GSO super-packet (UDP GSO), whose segments share their headers except
/// for lengths and IPv4 identification; [`RxSkb::advance`] goes from one to the next.
///
/// Offsets and lengths are bytes of the UDP payload of the datagram. A part of it is linear in
/// memory. The rest is in pages that may still belong to a sender on this machine, which may change
/// them. So read each byte of the payload only once, and read headers by [`RxSkb::headers`], which
/// copies those that are not linear.
///
/// [`struct sk_buff`]: srctree/include/linux/skbuff.h
///
/// # Invariants
///
/// `skb` is owned. `rx` tells where its parts are: `ip_len` readable bytes at `ip`, 8 at `udp`,
/// `linear` at `data`, all inside the linear part of the packet, or in a chunk that the packet was
/// copied to, which is ours alone.
pub(crate) struct RxSkb {
    pub(super) skb: NonNull<ffi::sk_buff>,
    rx: ffi::oxe_rx,
    /// Where the datagram begins in the packet's payload, and how long it is: `base + len` is at
    /// most `rx.len`.
    base: u32,
    len: u32,
    /// The number of the datagram in its super-packet.
    index: u16,
}

// SAFETY: a packet has one owner, which may be in any context.
unsafe impl Send for RxSkb {}

impl RxSkb {
    /// Takes a packet over from a UDP socket; drops it if its lengths or its protocol are not those
    /// of a whole UDP datagram.
    ///
    /// # Safety
    ///
    /// `skb` is owned by the caller and is as `encap_rcv` gets it: its data begins with the UDP
    /// header, in front of which there is the IP header. Softirq, under RCU.
    pub(crate) unsafe fn new(skb: NonNull<ffi::sk_buff>) -> Option<Self> {
        // Made where it stays, and dropped only once its attributes are there.
        let mut packet = ManuallyDrop::new(Self {
            skb,
            rx: ffi::oxe_rx::default(),
            base: 0,
            len: 0,
            index: 0,
        });
        let rx = &mut packet.rx;
        // SAFETY: the packet is the caller's, and the attributes are filled in before they are
        // read.
        unsafe {
            if !ffi::oxe_rx_attrs(skb.as_ptr(), rx) {
                ffi::oxe_skb_drop(skb.as_ptr());
                return None;
            }
            // GRO leaves the datagrams that it merges in buffers of their own. To search for the
            // buffer of each one again and again costs more than to copy them into one.
            if rx.gso_size < rx.len && rx.linear < rx.len {
                ffi::oxe_rx_linearize(skb.as_ptr(), rx);
            }
        }
        // INVARIANT: the attributes are the helper's.
        packet.len = packet.rx.gso_size;
        Some(ManuallyDrop::into_inner(packet))
    }

    /// Goes on to the next datagram of the super-packet; `false` if this is the last one.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        // INVARIANT: neither sum is more than `rx.len`.
        let base = self.base + self.len;
        let len = self.rx.gso_size.min(self.rx.len - base);
        if len == 0 {
            return false;
        }
        (self.base, self.len) = (base, len);
        self.index = self.index.wrapping_add(1);
        true
    }

    /// Whether several datagrams arrived as one GSO super-packet.
    #[inline]
    pub(crate) fn is_gso(&self) -> bool {
        self.rx.gso_size < self.rx.len
    }

    /// How many datagrams the super-packet has; 1 if it is none.
    pub(crate) fn segments(&self) -> u32 {
        let whole = self.rx.len.checked_next_multiple_of(self.rx.gso_size);
        whole.map_or(1, |len| len / self.rx.gso_size)
    }

    /// The number of the datagram in its super-packet: 0 for the first, or only, one.
    #[inline]
    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// The receiving device: the loopback device for a packet that this machine sent to itself.
    ///
    /// # Safety
    ///
    /// Only within the RCU section in which the packet arrived, and for `'a` no longer than that.
    pub(crate) unsafe fn device<'a>(&self) -> &'a NetDevice {
        // SAFETY: a packet's device is there as long as the RCU section in which it arrived.
        unsafe { NetDevice::from_raw(self.rx.dev) }
    }

    /// The identity of the receiving device; of none once it is detached.
    pub(crate) fn device_id(&self) -> NetdevId {
        NetdevId(self.rx.dev as usize)
    }

    /// The network namespace in which it arrived.
    #[inline]
    pub(crate) fn namespace(&self) -> Namespace {
        Namespace(self.rx.net)
    }

    /// Drops the packet's socket, route and device, which may go when the RCU section ends in which
    /// it arrived. Softirq, within that section.
    #[cold]
    pub(crate) fn detach(&mut self) {
        // SAFETY: the packet is ours. `device` is not called any more: see its requirement.
        unsafe { ffi::oxe_rx_detach(self.skb.as_ptr(), &mut self.rx) };
    }

    /// Whether it came in IPv6 rather than in IPv4.
    #[inline]
    pub(crate) fn is_v6(&self) -> bool {
        self.rx.v6
    }

    /// The IP header: 20 to 60 bytes of IPv4, or the 40 of IPv6 without extensions. Length and IPv4
    /// identification are those of the whole super-packet.
    #[inline]
    pub(crate) fn ip_header(&self) -> &[u8] {
        // SAFETY: by the type's invariants.
        unsafe { core::slice::from_raw_parts(self.rx.ip, self.rx.ip_len as usize) }
    }

    /// The UDP header. Its length is that of the whole super-packet.
    #[inline]
    pub(crate) fn udp_header(&self) -> &[u8; 8] {
        // SAFETY: by the type's invariants; bytes need no alignment.
        unsafe { &*self.rx.udp.cast::<[u8; 8]>() }
    }

    /// The sender's address as a GID: IPv4 is mapped into IPv6.
    #[inline]
    pub(crate) fn source(&self) -> [u8; 16] {
        self.address(12, 8)
    }

    /// The receiver's address as a GID.
    #[inline]
    pub(crate) fn destination(&self) -> [u8; 16] {
        self.address(16, 24)
    }

    /// The address at `v4` of an IPv4 header, or at `v6` of an IPv6 one.
    fn address(&self, v4: usize, v6: usize) -> [u8; 16] {
        let header = self.ip_header();
        if self.rx.v6 {
            let bytes = header.get(v6..).and_then(|rest| rest.first_chunk());
            return bytes.copied().unwrap_or_default();
        }
        let bytes = header.get(v4..).and_then(|rest| rest.first_chunk());
        let [a, b, c, d] = bytes.copied().unwrap_or_default();
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }

    /// The hardware address it came from, if it came in an Ethernet frame.
    pub(crate) fn source_mac(&self) -> Option<[u8; 6]> {
        let mut mac = [0; 6];
        // SAFETY: the packet is ours, and there is room for the address.
        unsafe { ffi::oxe_rx_source_mac(self.skb.as_ptr(), mac.as_mut_ptr()) }.then_some(mac)
    }

    /// The id of the VLAN that it came by: 12 bits (IEEE 802.1Q).
    pub(crate) fn vlan(&self) -> Option<u16> {
        Some(self.rx.vlan).filter(|id| *id < 0x1000)
    }

    /// How many bytes the UDP payload has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The beginning of the payload: as much of it as is linear in memory.
    #[inline]
    pub(crate) fn linear(&self) -> &[u8] {
        // SAFETY: by the type's invariants.
        let all = unsafe { core::slice::from_raw_parts(self.rx.data, self.rx.linear as usize) };
        let rest = all.get(self.base as usize..).unwrap_or_default();
        rest.get(..self.len as usize).unwrap_or(rest)
    }

    /// As [`RxSkb::linear`], but begins `back` datagrams earlier in the super-packet. `None` unless
    /// all of it is linear.
    #[inline]
    pub(crate) fn linear_from(&self, back: u16) -> Option<&[u8]> {
        // SAFETY: by the type's invariants.
        let all = unsafe { core::slice::from_raw_parts(self.rx.data, self.rx.linear as usize) };
        let start = u32::from(back).checked_mul(self.rx.gso_size)?;
        let start = self.base.checked_sub(start)?;
        all.get(start as usize..(self.base + self.len) as usize)
    }

    /// This datagram and all that follow in the super-packet, if they are linear in memory and not
    /// shared.
    #[inline]
    pub(crate) fn exclusive_rest(&mut self) -> Option<&mut [u8]> {
        if !self.rx.exclusive {
            return None;
        }
        // SAFETY: as for `exclusive`.
        let all = unsafe {
            core::slice::from_raw_parts_mut(self.rx.data.cast_mut(), self.rx.linear as usize)
        };
        all.get_mut(self.base as usize..self.rx.len as usize)
    }

    /// Skips `count` datagrams of the super-packet; does nothing if there are not that many.
    #[inline]
    pub(crate) fn skip(&mut self, count: u16) {
        let step = u32::from(count).saturating_mul(self.rx.gso_size);
        let base = self.base.saturating_add(step);
        if base < self.rx.len {
            // INVARIANT: the sum is not more than `rx.len`.
            self.len = self.rx.gso_size.min(self.rx.len - base);
            self.base = base;
            self.index = self.index.wrapping_add(count);
        }
    }

    /// The whole payload for writing, if it is linear in memory and not shared.
    #[inline]
    pub(crate) fn exclusive(&mut self) -> Option<&mut [u8]> {
        if !self.rx.exclusive {
            return None;
        }
        // SAFETY: by the type's invariants; nothing else accesses the bytes, and only the helper's
        // declaration makes them const.
        let all = unsafe {
            core::slice::from_raw_parts_mut(self.rx.data.cast_mut(), self.rx.linear as usize)
        };
        all.get_mut(self.base as usize..)?
            .get_mut(..self.len as usize)
    }

    /// The first bytes of the payload, as many as `copy` has room for, or all of it; they are
    /// copied there if they are not linear. `None` if they cannot be read.
    #[inline]
    pub(crate) fn headers<'a>(&'a self, copy: &'a mut [u8]) -> Option<&'a [u8]> {
        let n = copy.len().min(self.len());
        if let Some(bytes) = self.linear().get(..n) {
            return Some(bytes);
        }
        let bytes = copy.get_mut(..n)?;
        self.copy(0, bytes).ok()?;
        Some(bytes)
    }

    /// Copies the payload from `offset` on to `to`. `EFAULT` if the payload has fewer bytes.
    #[inline]
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        if let Some(from) = self
            .linear()
            .get(offset..)
            .and_then(|rest| rest.get(..to.len()))
        {
            to.copy_from_slice(from);
            return Ok(());
        }
        let (offset, len) = self.range(offset, to.len())?;
        // SAFETY: the packet is ours, and `to` is writable.
        to_result(unsafe { ffi::oxe_rx_copy(self.skb.as_ptr(), offset, to.as_mut_ptr(), len) })
    }

    /// Calls `f` with the payload's `len` bytes from `offset` on, chunk by chunk and in order; `f`
    /// must not sleep. `EFAULT` if the payload has not that many bytes, or cannot be read.
    #[inline]
    pub(crate) fn for_each(&self, offset: usize, len: usize, mut f: impl FnMut(&[u8])) -> Result {
        self.try_for_each(offset, len, |chunk| {
            f(chunk);
            Ok(())
        })
    }

    /// As [`RxSkb::for_each`], and ends with the first error of `f`.
    pub(crate) fn try_for_each(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(&[u8]) -> Result,
    ) -> Result {
        let (start, count) = self.range(offset, len)?;
        if let Some(chunk) = self.linear().get(offset..offset + len) {
            return f(chunk);
        }
        let mut walk = ffi::oxe_walk::default();
        // SAFETY: the packet is ours, and stays as it is until the walk is over.
        unsafe { ffi::oxe_rx_walk(self.skb.as_ptr(), start, count, &mut walk) };
        let mut done = 0;
        while done < count {
            let mut data = null();
            // SAFETY: the walk has begun and is not over.
            let chunk = unsafe { ffi::oxe_rx_walk_next(&mut walk, done, &mut data) };
            if chunk == 0 {
                // The walk is over, and has cleaned up.
                return Err(EFAULT);
            }
            // A chunk may go beyond the end of the range, as that of the linear part does.
            let chunk = chunk.min(count - done);
            // SAFETY: the walk says that as many bytes can be read there, until it goes on.
            let result = f(unsafe { core::slice::from_raw_parts(data, chunk as usize) });
            done += chunk;
            if result.is_err() || done == count {
                // SAFETY: the walk has begun and is not over.
                unsafe { ffi::oxe_rx_walk_abort(&mut walk) };
                return result;
            }
        }
        Ok(())
    }

    /// Checks that the payload has `len` bytes from `offset` on, so their sum does not overflow;
    /// gives where they begin in the packet, and how many they are.
    #[inline]
    fn range(&self, offset: usize, len: usize) -> Result<(u32, u32)> {
        let (offset, len) = (u32::try_from(offset)?, u32::try_from(len)?);
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok((self.base + offset, len)),
            _ => Err(EFAULT),
        }
    }
}

impl RxSkb {
    /// Drops the packet as one without a receiver: UDP counts it so (NoPorts), in the network
    /// namespace where it arrived, and the kernel's drop monitor sees it. Softirq, within the RCU
    /// section in which it arrived.
    #[cold]
    pub(crate) fn reject(self) {
        let packet = ManuallyDrop::new(self);
        // SAFETY: the packet is ours, and not used again.
        unsafe { ffi::oxe_rx_reject(packet.skb.as_ptr(), &packet.rx) };
    }
}

impl Drop for RxSkb {
    fn drop(&mut self) {
        // SAFETY: the packet is ours, and not used again.
        unsafe { ffi::oxe_rx_end(self.skb.as_ptr(), &self.rx) };
    }
}

/// The longest packet in bytes that [`TxSkb::alloc`] has memory for: a chunk of 64 KiB, less the
/// headers, the headroom, and the `skb_shared_info` at the end.
pub(crate) const TX_MAX: usize = 62 * 1024;

/// A packet to be sent, a [`struct sk_buff`]: the UDP payload. The headers are in front of it
/// already. Dropping it frees it.
///
/// [`struct sk_buff`]: srctree/include/linux/skbuff.h
///
/// # Invariants
///
/// `skb` is owned, and charged to a [`TxLimit`]; `len` bytes at `data` are the place for its
/// content, and writable. Bottom halves are off as long as it lives, so the `dst_entry` that it
/// points to is valid: a `dst_entry` is freed a grace period after its last reference is gone.
pub(crate) struct TxSkb<'bh> {
    skb: NonNull<ffi::sk_buff>,
    data: NonNull<u8>,
    len: usize,
    _bh: PhantomData<&'bh BhGuard>,
}

impl<'bh> TxSkb<'bh> {
    /// A packet with place for `len` bytes of payload behind `header`, to be sent by `route`. It is
    /// charged to `limit` until it is freed. `ENOMEM`, also for more than [`TX_MAX`] bytes;
    /// `EINVAL` if header and route are not of one IP version.
    ///
    /// The bytes hold old content of that memory: **write all** that are to be sent.
    #[inline]
    pub(crate) fn alloc<T: TxLimitHandler>(
        route: &Route,
        len: usize,
        header: &Header,
        limit: &TxLimit<T>,
        _bh: &'bh BhGuard,
    ) -> Result<Self> {
        if header.v6 != route.is_v6() {
            return Err(EINVAL);
        }
        let bytes = header.as_bytes();
        let mut data = null_mut();
        let size = u32::try_from(len.min(TX_MAX))?;
        if size as usize != len {
            return Err(ENOMEM);
        }
        // SAFETY: the route is held, bottom halves are off, and the header is one of its IP
        // version.
        let skb = unsafe {
            ffi::oxe_tx_alloc(
                route.as_raw(),
                route.priority(),
                size,
                bytes.as_ptr(),
                // CAST: headers have 48 bytes at most.
                bytes.len() as u32,
                header.v6,
                &mut data,
            )
        };
        let (Some(skb), Some(data)) = (NonNull::new(skb), NonNull::new(data)) else {
            return Err(ENOMEM);
        };
        // SAFETY: the packet is ours, and belongs to no socket yet.
        unsafe { ffi::oxe_tx_limit_charge(limit.as_raw(), skb.as_ptr()) };
        // INVARIANT: it was charged this once.
        Ok(Self {
            skb,
            data,
            len,
            _bh: PhantomData,
        })
    }

    /// How many bytes of payload there is place for.
    #[inline]
    pub(crate) fn tailroom(&self) -> usize {
        self.len
    }

    /// The place for the payload, to be written.
    #[inline]
    pub(crate) fn data(&mut self) -> &mut [u8] {
        // SAFETY: by the type's invariants. The memory came from an allocator that the compiler
        // knows nothing of, so its bytes have some value or other.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Ends the packet after `len` bytes: it is one datagram, or a GSO super-packet with segments
    /// of `gso_size` bytes, the last of which may be shorter. Segmentation gives them their own
    /// lengths, and IPv4 identifications counted up from that of the header. Gives the packet away.
    ///
    /// `EINVAL` if there is no place for `len` bytes.
    #[inline]
    pub(super) fn finish(self, len: usize, gso_size: usize) -> Result<*mut ffi::sk_buff> {
        if len > self.len || gso_size == 0 || gso_size > len {
            return Err(EINVAL);
        }
        let raw = ManuallyDrop::new(self).skb.as_ptr();
        // SAFETY: the packet is ours, and has place for the payload.
        // CAST: `len` is at most `self.len`, which was a `u32`, and `gso_size` at most `len`.
        unsafe { ffi::oxe_tx_finish(raw, len as u32, gso_size as u32) };
        Ok(raw)
    }
}

impl Drop for TxSkb<'_> {
    fn drop(&mut self) {
        // SAFETY: the packet is ours, and not used again.
        unsafe { ffi::oxe_skb_drop(self.skb.as_ptr()) };
    }
}
