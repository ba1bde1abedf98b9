// SPDX-License-Identifier: GPL-2.0

//! Work requests of kernel users, as the driver sees them.
//!
//! They are the kernel's own structures. ib_core's rules define which structure goes with each
//! opcode. The glue checks that the opcode goes with the service before the driver can ask for the
//! part that the opcode has.

use super::access::Access;
use super::object::Object;
use super::qp::QpType;
use super::umem::KernelMemory;
use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::prelude::*;

/// An element of a scatter/gather list: `struct ib_sge`, at any address. Kernel users have such
/// elements in packed structures, too (iSER in its receive descriptors).
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub(crate) struct IbSge {
    addr: u64,
    length: u32,
    lkey: u32,
}

const _: () = assert!(core::mem::size_of::<IbSge>() == core::mem::size_of::<ffi::ib_sge>());
const _: () = assert!(core::mem::align_of::<IbSge>() == 1);
const _: () =
    assert!(core::mem::offset_of!(IbSge, length) == core::mem::offset_of!(ffi::ib_sge, length));
const _: () =
    assert!(core::mem::offset_of!(IbSge, lkey) == core::mem::offset_of!(ffi::ib_sge, lkey));

impl IbSge {
    /// The address, in the address space of the key's region.
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// The key of the memory region.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }
}

/// The `n` elements at `list`. EINVAL if `n` is negative, or if `list` is null and `n` is not zero.
///
/// # Safety
///
/// `list` points to `n` elements that do not change during `'a`, if `n` is more than zero; it need
/// not be aligned.
unsafe fn sges<'a>(list: *const ffi::ib_sge, n: kernel::ffi::c_int) -> Result<&'a [IbSge]> {
    match usize::try_from(n) {
        Ok(0) => Ok(&[]),
        Ok(_) if list.is_null() => Err(EINVAL),
        // SAFETY: by the requirement of this function; the layouts are the same, as asserted above.
        Ok(n) => Ok(unsafe { core::slice::from_raw_parts(list.cast(), n) }),
        Err(_) => Err(EINVAL),
    }
}

/// The part of a request about remote memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaPart {
    /// The peer's address.
    pub(crate) remote_addr: u64,
    /// The peer's key.
    pub(crate) rkey: u32,
}

/// The part of a request about an atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicPart {
    /// The peer's address.
    pub(crate) remote_addr: u64,
    /// The peer's key.
    pub(crate) rkey: u32,
    /// The value to add, or to compare with.
    pub(crate) compare_add: u64,
    /// The value to swap in.
    pub(crate) swap: u64,
}

/// The part of a request about a datagram's destination.
pub(crate) struct UdPart<'a, Ah> {
    /// The address handle of the destination.
    pub(crate) ah: &'a Ah,
    /// The peer's QP number.
    pub(crate) remote_qpn: u32,
    /// The Q_Key to send. If its highest bit is set, that of the queue pair is sent instead.
    pub(crate) remote_qkey: u32,
    /// The index of the P_Key, of a management datagram (MAD).
    pub(crate) pkey_index: u16,
}

/// The part of a request about a fast registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegPart {
    /// The latest key of the region.
    pub(crate) mr_key: u32,
    /// The key to register.
    pub(crate) key: u32,
    /// The access rights to grant.
    pub(crate) access: Access,
    /// The address of the first byte, as work requests and peers will use it.
    pub(crate) iova: u64,
    /// The length in bytes.
    pub(crate) length: u64,
}

/// The part that goes with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    Rdma,
    Atomic,
    Ud,
    Reg,
}

/// A send request, [`struct ib_send_wr`], whose destination is the driver's `Ah` if it is a
/// datagram.
///
/// [`struct ib_send_wr`]: srctree/include/rdma/ib_verbs.h
///
/// # Invariants
///
/// `raw` is the `wr` member of the structure that goes with `part`, and a pointer to all of that;
/// it, the list in `sges`, and the address handle of a datagram do not change and stay valid during
/// `'a`. With IB_SEND_INLINE the list names memory that may be read during `'a`, by its addresses
/// in the kernel.
pub(crate) struct SendWr<'a, Ah> {
    raw: NonNull<ffi::ib_send_wr>,
    sges: &'a [IbSge],
    part: Part,
    _ah: PhantomData<fn() -> Ah>,
}

impl<'a, Ah: Send + Sync> SendWr<'a, Ah> {
    /// Wraps a request to a queue pair of type `kind`.
    ///
    /// EINVAL for an opcode that the service does not have, a wrong list, or a datagram without an
    /// address handle.
    ///
    /// # Safety
    ///
    /// `raw` is a request that a kernel user posted to a queue pair of type `kind` of a device
    /// whose driver has address handles `Ah`, following the rules of ib_core. It is the pointer
    /// that the user gave, not one made of a reference: the structure that goes with the opcode is
    /// larger.
    pub(super) unsafe fn new(raw: NonNull<ffi::ib_send_wr>, kind: QpType) -> Result<Self> {
        // SAFETY: by the requirement of this function.
        let head = unsafe { raw.as_ref() };
        // SAFETY: users give a list of that many elements.
        let sges = unsafe { sges(head.sg_list, head.num_sge) }?;
        let connected = kind.is_connected();
        let part = match head.opcode {
            ffi::ib_wr_opcode_IB_WR_SEND | ffi::ib_wr_opcode_IB_WR_SEND_WITH_IMM if !connected => {
                Part::Ud
            }
            ffi::ib_wr_opcode_IB_WR_SEND
            | ffi::ib_wr_opcode_IB_WR_SEND_WITH_IMM
            | ffi::ib_wr_opcode_IB_WR_LOCAL_INV
                if connected =>
            {
                Part::None
            }
            ffi::ib_wr_opcode_IB_WR_SEND_WITH_INV if kind == QpType::Rc => Part::None,
            ffi::ib_wr_opcode_IB_WR_RDMA_WRITE | ffi::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM
                if connected =>
            {
                Part::Rdma
            }
            ffi::ib_wr_opcode_IB_WR_RDMA_READ | ffi::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV
                if kind == QpType::Rc =>
            {
                Part::Rdma
            }
            ffi::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | ffi::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
                if kind == QpType::Rc =>
            {
                Part::Atomic
            }
            ffi::ib_wr_opcode_IB_WR_REG_MR if connected => Part::Reg,
            _ => return Err(EINVAL),
        };
        // INVARIANT: the opcode and the service say which structure the user has filled in. By the
        // rules of ib_core the elements of inline data are kernel addresses.
        let wr = SendWr {
            raw,
            sges,
            part,
            _ah: PhantomData,
        };
        // SAFETY: `part` says that the structure is an `ib_ud_wr`.
        if part == Part::Ud && unsafe { (*wr.raw_as::<ffi::ib_ud_wr>()).ah }.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: `part` says that the structure is an `ib_reg_wr`.
        if part == Part::Reg && unsafe { (*wr.raw_as::<ffi::ib_reg_wr>()).mr }.is_null() {
            return Err(EINVAL);
        }
        Ok(wr)
    }

    /// The structure around `raw`.
    fn raw_as<T>(&self) -> *const T {
        self.raw.as_ptr().cast_const().cast()
    }

    /// The part that all requests have.
    fn head(&self) -> &'a ffi::ib_send_wr {
        // SAFETY: by the type's invariant.
        unsafe { self.raw.as_ref() }
    }

    /// The kernel user's identifier of the request.
    pub(crate) fn wr_id(&self) -> u64 {
        self.head().__bindgen_anon_1.bindgen_union_field
    }

    /// The operation, in `enum ib_wr_opcode`'s numbering, which processes use too; one that goes
    /// with the service.
    pub(crate) fn opcode(&self) -> u32 {
        self.head().opcode
    }

    /// Flags, in `enum ib_send_flags`'s numbering, which processes use too.
    pub(crate) fn flags(&self) -> u32 {
        // CAST: flags are bits, whatever their sign.
        self.head().send_flags as u32
    }

    /// Immediate data in network byte order, or the key to invalidate in host byte order, depending
    /// on the opcode.
    pub(crate) fn ex(&self) -> [u8; 4] {
        self.head().ex.bindgen_union_field.to_ne_bytes()
    }

    /// The scatter/gather list of the data.
    pub(crate) fn sges(&self) -> &'a [IbSge] {
        self.sges
    }

    /// The remote memory of a WRITE or READ.
    pub(crate) fn rdma(&self) -> Option<RdmaPart> {
        if self.part != Part::Rdma {
            return None;
        }
        // SAFETY: by the type's invariant.
        let wr = unsafe { &*self.raw_as::<ffi::ib_rdma_wr>() };
        Some(RdmaPart {
            remote_addr: wr.remote_addr,
            rkey: wr.rkey,
        })
    }

    /// The operands of an atomic operation.
    pub(crate) fn atomic(&self) -> Option<AtomicPart> {
        if self.part != Part::Atomic {
            return None;
        }
        // SAFETY: by the type's invariant.
        let wr = unsafe { &*self.raw_as::<ffi::ib_atomic_wr>() };
        Some(AtomicPart {
            remote_addr: wr.remote_addr,
            rkey: wr.rkey,
            compare_add: wr.compare_add,
            swap: wr.swap,
        })
    }

    /// The destination of a datagram.
    pub(crate) fn ud(&self) -> Option<UdPart<'a, Ah>> {
        if self.part != Part::Ud {
            return None;
        }
        // SAFETY: by the type's invariant.
        let wr = unsafe { &*self.raw_as::<ffi::ib_ud_wr>() };
        // SAFETY: not null (see `new`), an address handle of this device, which the user keeps
        // meanwhile.
        let ah = unsafe { Object::<ffi::ib_ah, Ah>::get(wr.ah) };
        Some(UdPart {
            ah,
            remote_qpn: wr.remote_qpn,
            remote_qkey: wr.remote_qkey,
            pkey_index: wr.pkey_index,
        })
    }

    /// The parameters of a fast registration.
    pub(crate) fn reg(&self) -> Option<RegPart> {
        if self.part != Part::Reg {
            return None;
        }
        // SAFETY: by the type's invariant.
        let wr = unsafe { &*self.raw_as::<ffi::ib_reg_wr>() };
        // SAFETY: not null (see `new`), a region that the user keeps and does not change meanwhile.
        let mr = unsafe { &*wr.mr };
        Some(RegPart {
            mr_key: mr.lkey,
            key: wr.key,
            access: Access::from_raw(wr.access),
            iova: mr.iova,
            length: mr.length,
        })
    }

    /// Calls `each` with the bytes that the list names by kernel addresses, part by part. It is for
    /// data that are copied when they are posted (IB_SEND_INLINE). Returns `None` as soon as `each`
    /// does, if the request has no such data, or if an element is not in the kernel's memory.
    pub(crate) fn for_inline(&self, mut each: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        if self.head().send_flags & ffi::ib_send_flags_IB_SEND_INLINE == 0 {
            return None;
        }
        let mut chunk = [0; 64];
        for sge in self.sges {
            let mut done = 0_u32;
            while done < sge.length {
                // CAST: it is 64.
                let n = (sge.length - done).min(chunk.len() as u32);
                let part = chunk.get_mut(..n as usize)?;
                let from = sge.addr.checked_add(done.into())?;
                // SAFETY: by the type's invariant, as the flag is set.
                unsafe { KernelMemory::read(from, part) }?;
                each(part)?;
                done += n;
            }
        }
        Some(())
    }
}

/// A receive request, [`struct ib_recv_wr`].
///
/// [`struct ib_recv_wr`]: srctree/include/rdma/ib_verbs.h
pub(crate) struct RecvWr<'a> {
    raw: &'a ffi::ib_recv_wr,
    sges: &'a [IbSge],
}

impl<'a> RecvWr<'a> {
    /// Wraps a request. EINVAL for a wrong list.
    ///
    /// # Safety
    ///
    /// `raw` is a request that a user posted, following the rules of ib_core.
    pub(super) unsafe fn new(raw: &'a ffi::ib_recv_wr) -> Result<Self> {
        // SAFETY: users give a list of that many elements.
        let sges = unsafe { sges(raw.sg_list, raw.num_sge) }?;
        Ok(RecvWr { raw, sges })
    }

    /// The kernel user's identifier of the request.
    pub(crate) fn wr_id(&self) -> u64 {
        self.raw.__bindgen_anon_1.bindgen_union_field
    }

    /// The scatter/gather list for the data.
    pub(crate) fn sges(&self) -> &'a [IbSge] {
        self.sges
    }
}
