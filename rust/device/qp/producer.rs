// SPDX-License-Identifier: GPL-2.0

//! Posting by kernel users: work requests are written into the same rings that processes use, in
//! the same form, so that the queues fetch both in the same way.
//!
//! A kernel user may post in any context, hard irqs included. Posting therefore has a lock of its
//! own, below all others, and does not run the engine where that is not allowed.

use super::operation::{Form, Operation};
use crate::device::mem::mkeys;
use crate::device::packet::ah::AhObject;
use crate::device::ring::Ring;
use crate::device::uabi::wqe::{
    send_flag, AtomicWr, Op, RdmaWr, RegWr, RxeRecvWqe, RxeSendWqe, RxeSge, UdWr,
};
use crate::rdma::wr::{IbSge, RecvWr, SendWr};
use crate::sync::lock::{new_spinlock_irq, SpinLockIrq};
use core::mem::size_of;
use kernel::prelude::*;

/// The producer's side of a ring.
#[pin_data]
pub(crate) struct WqProducer {
    max_sge: u32,
    max_inline: u32,
    #[pin]
    state: SpinLockIrq<State>,
}

/// The ring, and the producer's index.
struct State {
    ring: Ring,
    index: u32,
}

impl WqProducer {
    /// The producer's side of `ring`, which must have no other producer.
    pub(crate) fn new(ring: Ring, max_sge: u32, max_inline: u32) -> impl PinInit<Self> {
        pin_init!(WqProducer {
            max_sge,
            max_inline,
            state <- new_spinlock_irq!(State { ring, index: 0 }, "oxe_post"),
        })
    }

    /// Lets `fill` write an element, and publishes it.
    ///
    /// ENOMEM when the queue is full.
    fn push(&self, fill: impl FnOnce(&Ring, u32) -> Option<()>) -> Result {
        let mut state = self.state.lock();
        let State { ring, index } = &mut *state;
        let next = index.wrapping_add(1);
        if ring.distance(ring.consumer(), next) == 0 {
            return Err(ENOMEM);
        }
        fill(ring, *index).ok_or(EINVAL)?;
        *index = next;
        ring.set_producer(next);
        Ok(())
    }

    /// Changes over to another ring, which `change` puts in the place of this one. `change` returns
    /// how many elements are in it already. Any context.
    pub(crate) fn replace(&self, change: impl FnOnce(&mut Ring) -> Result<u32>) -> Result {
        let mut state = self.state.lock();
        state.index = change(&mut state.ring)?;
        Ok(())
    }

    /// Whether the ring is empty according to its indices, which a process may write. Any context.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.ring.consumer() == state.ring.producer()
    }

    /// Posts a receive request. Any context.
    ///
    /// EINVAL for too many SGEs, ENOMEM when the queue is full.
    pub(crate) fn recv(&self, wr: &RecvWr<'_>) -> Result {
        let sges = wr.sges();
        if sges.len() > self.max_sge as usize {
            return Err(EINVAL);
        }
        let wqe = RxeRecvWqe::new(wr.wr_id(), sges.len() as u32);
        self.push(|ring, index| {
            ring.store(index, 0, &wqe)?;
            write_sges(ring, index, RxeRecvWqe::DATA, sges)
        })
    }

    /// Posts a send request. Any context.
    ///
    /// EINVAL for too many SGEs, too much inline data, or an opcode that the driver does not have;
    /// ENOMEM when the queue is full.
    pub(crate) fn send(&self, wr: &SendWr<'_, AhObject>) -> Result {
        let op = Op::from_u32(wr.opcode()).ok_or(EINVAL)?;
        let mut wqe = RxeSendWqe::new(wr.wr_id(), op, wr.flags(), wr.ex());
        match Operation::of(op).form {
            Form::None => {}
            Form::Rdma => {
                let rdma = wr.rdma().ok_or(EINVAL)?;
                wqe.wr.set_form(&RdmaWr {
                    remote_addr: rdma.remote_addr,
                    rkey: rdma.rkey,
                    reserved: 0,
                });
            }
            Form::Atomic => {
                let atomic = wr.atomic().ok_or(EINVAL)?;
                wqe.wr.set_form(&AtomicWr {
                    remote_addr: atomic.remote_addr,
                    compare_add: atomic.compare_add,
                    swap: atomic.swap,
                    rkey: atomic.rkey,
                    reserved: 0,
                });
            }
            // Kernel users have no windows, and ib_core has no structure for FLUSH.
            Form::Bind | Form::Flush => return Err(EINVAL),
            Form::Register => {
                let reg = wr.reg().ok_or(EINVAL)?;
                if !mkeys::same_index(reg.mr_key, reg.key) {
                    return Err(EINVAL);
                }
                wqe.wr.set_form(&RegWr {
                    iova: reg.iova,
                    length: reg.length,
                    key: reg.key,
                    access: reg.access.bits(),
                });
            }
        }
        if let Some(ud) = wr.ud() {
            wqe.wr.set_form(&UdWr {
                remote_qpn: ud.remote_qpn,
                remote_qkey: ud.remote_qkey,
                pkey_index: ud.pkey_index,
                ah_num: ud.ah.number(),
                ..UdWr::default()
            });
        }
        let sges = wr.sges();
        if wqe.wr.has(send_flag::INLINE) {
            return self.send_inline(wqe, wr);
        }
        if sges.len() > self.max_sge as usize {
            return Err(EINVAL);
        }
        wqe.dma.head.num_sge = sges.len() as u32;
        self.push(|ring, index| {
            ring.store(index, 0, &wqe)?;
            write_sges(ring, index, RxeSendWqe::DATA, sges)
        })
    }

    /// Posts a send request with inline data: copies the data now.
    fn send_inline(&self, mut wqe: RxeSendWqe, wr: &SendWr<'_, AhObject>) -> Result {
        let total = wr
            .sges()
            .iter()
            .try_fold(0_u32, |sum, sge| sum.checked_add(sge.length()));
        wqe.dma.head.length = total.filter(|len| *len <= self.max_inline).ok_or(EINVAL)?;
        self.push(|ring, index| {
            ring.store(index, 0, &wqe)?;
            let mut at = RxeSendWqe::DATA;
            wr.for_inline(|bytes| {
                ring.write(index, at, bytes)?;
                at = at.wrapping_add(bytes.len());
                Some(())
            })
        })
    }
}

fn write_sges(ring: &Ring, index: u32, mut at: usize, sges: &[IbSge]) -> Option<()> {
    for sge in sges {
        let raw = RxeSge {
            addr: sge.addr(),
            length: sge.length(),
            lkey: sge.lkey(),
        };
        ring.store(index, at, &raw)?;
        at = at.wrapping_add(size_of::<RxeSge>());
    }
    Some(())
}
