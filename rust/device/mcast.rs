// SPDX-License-Identifier: GPL-2.0

//! Multicast (IBTA 10.5.2): the groups of a device, and the queue pairs that are attached to them.
//!
//! The first queue pair of a group joins it on the netdev, so that the network delivers its packets
//! here; the last one leaves it.

use super::limits;
use super::port::Port;
use crate::net::mcast::{self, Address, Rtnl};
use crate::proto::wire::Gid;
use crate::sync::lock::SpinLockBh;
use crate::sync::memory::GFP_CHARGED;
use core::mem::replace;
use kernel::prelude::*;

/// A group, and the numbers of its queue pairs.
struct Group {
    gid: Gid,
    qpns: KVec<u32>,
}

/// The groups of one device. Only a context with the RTNL lock changes them.
#[pin_data]
pub(crate) struct Groups {
    #[pin]
    list: SpinLockBh<KVec<Group>>,
}

/// The address of a group in the IP stack.
fn address(gid: &Gid) -> Address<'_> {
    Address {
        gid: gid.bytes(),
        v6: gid.to_ipv4().is_none(),
    }
}

impl Groups {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Groups {
            list <- crate::new_spinlock_bh!(KVec::new(), "oxe_mcast"),
        })
    }

    /// Attaches queue pair `qpn` to the group `gid`. Process context, sleeps.
    ///
    /// # Errors
    ///
    /// EINVAL if `gid` is no multicast address, or the queue pair is attached already; ENOMEM, also
    /// beyond the limits of the device; ENODEV without a netdev; the errors of [`mcast::join`].
    pub(crate) fn attach(&self, port: &Port, gid: &Gid, qpn: u32) -> Result {
        if !gid.is_multicast() {
            return Err(EINVAL);
        }
        let rtnl = Rtnl::lock();
        let netdev = port.with_netdev(|netdev| netdev.hold()).ok_or(ENODEV)?;
        let Some(members) = self.members_with(gid, qpn)? else {
            self.reserve()?;
            let mut qpns = KVec::with_capacity(1, GFP_CHARGED)?;
            qpns.push(qpn, GFP_CHARGED)?;
            mcast::join(&rtnl, &netdev, address(gid))?;
            // There is room: no other context has added a group.
            let group = Group { gid: *gid, qpns };
            let _ = self.list.lock().push_within_capacity(group);
            return Ok(());
        };
        self.set_members(gid, members);
        Ok(())
    }

    /// The queue pairs of the group with `qpn` in addition, or `None` if there is no such group.
    fn members_with(&self, gid: &Gid, qpn: u32) -> Result<Option<KVec<u32>>> {
        let mut members = KVec::with_capacity(limits::MAX_MCAST_QP_ATTACH as usize, GFP_CHARGED)?;
        let list = self.list.lock();
        let Some(group) = list.iter().find(|group| group.gid == *gid) else {
            return Ok(None);
        };
        if group.qpns.contains(&qpn) {
            return Err(EINVAL);
        }
        for member in &group.qpns {
            members.push_within_capacity(*member).map_err(|_| ENOMEM)?;
        }
        members.push_within_capacity(qpn).map_err(|_| ENOMEM)?;
        Ok(Some(members))
    }

    fn set_members(&self, gid: &Gid, members: KVec<u32>) {
        let mut list = self.list.lock();
        let group = list.iter_mut().find(|group| group.gid == *gid);
        let old = group.map(|group| replace(&mut group.qpns, members));
        drop(list);
        drop(old);
    }

    /// Makes room for one more group. ENOMEM.
    fn reserve(&self) -> Result {
        let count = self.list.lock().len();
        if count >= limits::MAX_MCAST_GRP as usize {
            return Err(ENOMEM);
        }
        if count < self.list.lock().capacity() {
            return Ok(());
        }
        let mut larger = KVec::with_capacity(count.saturating_mul(2).max(4), GFP_CHARGED)?;
        let mut list = self.list.lock();
        for group in list.drain_all() {
            // There is room for more than `count`.
            let _ = larger.push_within_capacity(group);
        }
        let old = replace(&mut *list, larger);
        drop(list);
        drop(old);
        Ok(())
    }

    /// Detaches queue pair `qpn` from the group `gid`. Process context, sleeps. EINVAL if it is not
    /// attached.
    pub(crate) fn detach(&self, port: &Port, gid: &Gid, qpn: u32) -> Result {
        let rtnl = Rtnl::lock();
        let empty = {
            let mut list = self.list.lock();
            let at = list.iter().position(|group| group.gid == *gid);
            let at = at.ok_or(EINVAL)?;
            let group = list.get_mut(at).ok_or(EINVAL)?;
            let member = group.qpns.iter().position(|member| *member == qpn);
            let _ = group.qpns.remove(member.ok_or(EINVAL)?);
            if group.qpns.is_empty() {
                list.remove(at).ok()
            } else {
                None
            }
        };
        if empty.is_some() {
            if let Some(netdev) = port.with_netdev(|netdev| netdev.hold()) {
                mcast::leave(&rtnl, &netdev, address(gid));
            }
        }
        Ok(())
    }

    /// The `index`th queue pair of the group, whose place among the groups is probably `place`; the
    /// next call gets it back. Softirq or process context.
    pub(crate) fn member(&self, gid: &Gid, index: usize, place: &mut usize) -> Option<u32> {
        let list = self.list.lock();
        if list.get(*place).is_none_or(|group| group.gid != *gid) {
            *place = list.iter().position(|group| group.gid == *gid)?;
        }
        list.get(*place)?.qpns.get(index).copied()
    }
}
