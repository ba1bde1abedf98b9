// SPDX-License-Identifier: GPL-2.0

//! Multicast (IBTA 10.5.2): the groups of a device, and the queue pairs that are attached to them.
//!
//! The first queue pair of a group joins it on the netdev, so that the network delivers its packets
//! here; the last one leaves it.

use super::limits::{Kind, MAX_MCAST_GRP, MAX_MCAST_QP_ATTACH};
use super::port::Port;
use crate::net::mcast::{self, Address, Rtnl};
use crate::proto::wire::Gid;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use core::mem::replace;
use kernel::prelude::*;

/// A queue pair of a group.
struct Member {
    qpn: u32,
    owner: Owner,
}

/// A group with its queue pairs.
struct Group {
    gid: Gid,
    members: KVec<Member>,
}

impl Group {
    /// How many of the queue pairs are this user's.
    fn count(&self, owner: &Owner) -> usize {
        let members = self.members.iter();
        members.filter(|member| member.owner.is(owner)).count()
    }
}

/// The groups of one device, in the order of their GIDs. Only a context with the RTNL lock changes
/// them.
#[pin_data]
pub(crate) struct Groups {
    #[pin]
    list: SpinLockBh<KVec<Group>>,
}

/// Memory for one more group, and for one more queue pair.
#[derive(Default)]
struct Reserve {
    groups: KVec<Group>,
    members: KVec<Member>,
}

/// Moves all to the reserve if `list` is full. Returns false if it is, and that has not enough.
/// The caller drops the rest of the reserve without the lock.
fn grow<T>(list: &mut KVec<T>, reserve: &mut KVec<T>) -> bool {
    if list.len() == list.capacity() {
        if reserve.capacity() <= list.len() {
            return false;
        }
        for value in list.drain_all() {
            // There is room for more than these.
            let _ = reserve.push_within_capacity(value);
        }
        core::mem::swap(list, reserve);
    }
    true
}

/// The address of a group in the IP stack.
fn address(gid: &Gid) -> Address<'_> {
    Address {
        gid: gid.bytes(),
        v6: gid.to_ipv4().is_none(),
    }
}

/// The place of a group, or the one where it would be.
fn find(list: &[Group], gid: &Gid) -> Result<usize, usize> {
    list.binary_search_by(|group| group.gid.bytes().cmp(gid.bytes()))
}

impl Groups {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Groups {
            list <- new_spinlock_bh!(KVec::new(), "oxe_mcast"),
        })
    }

    /// Attaches queue pair `qpn` to the group `gid`. Process context, sleeps.
    ///
    /// # Errors
    ///
    /// EINVAL if `gid` is no multicast address, or the queue pair is attached already; ENOMEM, also
    /// beyond the limits of the device and the share of a user; ENODEV without a netdev; the errors
    /// of [`mcast::join`].
    pub(crate) fn attach(&self, port: &Port, gid: &Gid, qpn: u32, owner: &Owner) -> Result {
        if !gid.is_multicast() {
            return Err(EINVAL);
        }
        let mut reserve = Reserve::default();
        loop {
            let rtnl = Rtnl::lock();
            let done = self.attach_with(&rtnl, port, gid, (qpn, owner), &mut reserve);
            drop(rtnl);
            if done? {
                return Ok(());
            }
            // Without the lock, as a process at the limit of its cgroup may wait long for memory.
            reserve = self.reserve(gid)?;
        }
    }

    /// Memory for more groups and members than there are now. ENOMEM.
    fn reserve(&self, gid: &Gid) -> Result<Reserve> {
        let (groups, members) = {
            let list = self.list.lock();
            let group = find(&list, gid).ok().and_then(|at| list.get(at));
            (list.len(), group.map_or(0, |group| group.members.len()))
        };
        let more = |count: usize| count.saturating_mul(2).max(4);
        Ok(Reserve {
            groups: KVec::with_capacity(more(groups), GFP_CHARGED)?,
            members: KVec::with_capacity(more(members), GFP_CHARGED)?,
        })
    }

    /// As [`Groups::attach`], with the lock. Returns false if it needs more memory.
    fn attach_with(
        &self,
        rtnl: &Rtnl,
        port: &Port,
        gid: &Gid,
        (qpn, owner): (u32, &Owner),
        reserve: &mut Reserve,
    ) -> Result<bool> {
        let member = Member {
            qpn,
            owner: owner.clone(),
        };
        let netdev = port.with_netdev(|netdev| netdev.hold()).ok_or(ENODEV)?;
        let mut list = self.list.lock();
        if let Ok(at) = find(&list, gid) {
            let group = list.get_mut(at).ok_or(EINVAL)?;
            if group.members.iter().any(|member| member.qpn == qpn) {
                return Err(EINVAL);
            }
            let (all, own) = (group.members.len(), group.count(owner));
            let most = Owner::KERNEL.most(MAX_MCAST_QP_ATTACH);
            if all >= most as usize || own >= owner.most(MAX_MCAST_QP_ATTACH) as usize {
                return Err(ENOMEM);
            }
            if !grow(&mut group.members, &mut reserve.members) {
                return Ok(false);
            }
            if own == 0 {
                owner.take(Kind::Group as usize, MAX_MCAST_GRP)?;
            }
            let _ = group.members.push_within_capacity(member);
            return Ok(true);
        }
        if list.len() >= Owner::KERNEL.most(MAX_MCAST_GRP) as usize {
            return Err(ENOMEM);
        }
        if reserve.members.capacity() == 0 || !grow(&mut list, &mut reserve.groups) {
            return Ok(false);
        }
        drop(list);
        owner.take(Kind::Group as usize, MAX_MCAST_GRP)?;
        mcast::join(rtnl, &netdev, address(gid))
            .inspect_err(|_| owner.give(Kind::Group as usize))?;
        let mut members = replace(&mut reserve.members, KVec::new());
        let _ = members.push_within_capacity(member);
        let group = Group { gid: *gid, members };
        let mut list = self.list.lock();
        // There is room: no other context has added a group.
        let (Ok(at) | Err(at)) = find(&list, gid);
        let _ = list.insert_within_capacity(at, group);
        Ok(true)
    }

    /// Detaches queue pair `qpn` from the group `gid`. Process context, sleeps. EINVAL if it is not
    /// attached.
    pub(crate) fn detach(&self, port: &Port, gid: &Gid, qpn: u32) -> Result {
        let rtnl = Rtnl::lock();
        let (member, empty) = {
            let mut list = self.list.lock();
            let at = find(&list, gid).map_err(|_| EINVAL)?;
            let group = list.get_mut(at).ok_or(EINVAL)?;
            let member = group.members.iter().position(|member| member.qpn == qpn);
            let member = group.members.remove(member.ok_or(EINVAL)?);
            let member = member.map_err(|_| EINVAL)?;
            if group.count(&member.owner) == 0 {
                member.owner.give(Kind::Group as usize);
            }
            let is_empty = group.members.is_empty();
            (member, is_empty.then(|| list.remove(at)))
        };
        if empty.is_some() {
            if let Some(netdev) = port.with_netdev(|netdev| netdev.hold()) {
                mcast::leave(&rtnl, &netdev, address(gid));
            }
        }
        drop(rtnl);
        drop((member, empty));
        Ok(())
    }

    /// How many queue pairs the group has. Softirq or process context.
    pub(crate) fn count(&self, gid: &Gid) -> usize {
        let list = self.list.lock();
        let group = find(&list, gid).ok().and_then(|at| list.get(at));
        group.map_or(0, |group| group.members.len())
    }

    /// The `index`th queue pair of the group, whose place among the groups is probably `place`; the
    /// next call gets it back. Softirq or process context.
    pub(crate) fn member(&self, gid: &Gid, index: usize, place: &mut usize) -> Option<u32> {
        let list = self.list.lock();
        if list.get(*place).is_none_or(|group| group.gid != *gid) {
            *place = find(&list, gid).ok()?;
        }
        let member = list.get(*place)?.members.get(index)?;
        Some(member.qpn)
    }
}
