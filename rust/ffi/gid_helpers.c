// SPDX-License-Identifier: GPL-2.0
/*
 * The GIDs of our devices: see gid_helpers.h. ib_core keeps a table of its own for each port, which
 * is searched entry by entry, under a lock. This one is read for packets, under RCU.
 */
#include <linux/hashtable.h>
#include <linux/jhash.h>
#include <rdma/ib_cache.h>

#include "gid_helpers.h"

/* A GID of a device. Two devices below one interface (ports of a bridge) have the same GIDs. */
struct oxe_gid {
	struct hlist_node node;
	struct rcu_head rcu;
	struct ib_device *ib;
	struct net_device *ndev;
	union ib_gid gid;
};

static DEFINE_HASHTABLE(gids, 10);
static DEFINE_SPINLOCK(gids_lock);

static u32 hash_of(unsigned long ndev, const u8 *gid)
{
	return jhash(gid, sizeof(union ib_gid), hash_long(ndev, 32));
}

static bool is_same(const struct oxe_gid *entry, unsigned long ndev, const u8 *gid)
{
	return (unsigned long)entry->ndev == ndev &&
	       !memcmp(entry->gid.raw, gid, sizeof(entry->gid));
}

/*
 * An entry for @attr, until oxe_gid_del(); NULL without memory. ib_core holds the interface for as
 * long, and a grace period more. Process context.
 */
struct oxe_gid *oxe_gid_add(const struct ib_gid_attr *attr)
{
	struct oxe_gid *entry = kzalloc(sizeof(*entry), GFP_KERNEL);

	if (!entry)
		return NULL;
	entry->ib = attr->device;
	entry->ndev = oxe_gid_entry_netdev(attr);
	entry->gid = attr->gid;
	spin_lock(&gids_lock);
	hash_add_rcu(gids, &entry->node, hash_of((unsigned long)entry->ndev, entry->gid.raw));
	spin_unlock(&gids_lock);
	return entry;
}

/* Process context. */
void oxe_gid_del(struct oxe_gid *entry)
{
	spin_lock(&gids_lock);
	hash_del_rcu(&entry->node);
	spin_unlock(&gids_lock);
	kfree_rcu(entry, rcu);
}

/* The interface of an entry that ib_core adds or deletes: it holds the interface meanwhile. */
struct net_device *oxe_gid_entry_netdev(const struct ib_gid_attr *attr)
{
	return rcu_dereference_protected(attr->ndev, true);
}

/*
 * The @index'th of the devices that have @gid as an address of @ndev, with a reference that keeps
 * it registered; NULL if there are no more. Any context but hard irqs.
 */
struct ib_device *oxe_gid_device(const struct net_device *ndev, const u8 *gid, u32 index)
{
	struct ib_device *ib = NULL;
	struct oxe_gid *entry;

	rcu_read_lock();
	hash_for_each_possible_rcu(gids, entry, node, hash_of((unsigned long)ndev, gid)) {
		if (!is_same(entry, (unsigned long)ndev, gid) || index--)
			continue;
		/* ib_core frees a device a grace period after its GIDs. */
		if (ib_device_try_get(entry->ib))
			ib = entry->ib;
		break;
	}
	rcu_read_unlock();
	return ib;
}

/* The interface @ndev, if it lives and has the address @gid. Under RCU. */
struct net_device *oxe_gid_netdev(unsigned long ndev, const u8 *gid)
{
	struct oxe_gid *entry;

	hash_for_each_possible_rcu(gids, entry, node, hash_of(ndev, gid))
		if (is_same(entry, ndev, gid))
			return entry->ndev;
	return NULL;
}

/* Whether @ib has @gid as an address of the interface @ndev. Any context. */
bool oxe_gid_is_of(const struct ib_device *ib, unsigned long ndev, const u8 *gid)
{
	struct oxe_gid *entry;
	bool found = false;

	rcu_read_lock();
	hash_for_each_possible_rcu(gids, entry, node, hash_of(ndev, gid)) {
		found = entry->ib == ib && is_same(entry, ndev, gid);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

/* Any context; the caller keeps a reference on the entry. ENODEV if its interface is gone. */
int oxe_gid_attrs(const struct ib_gid_attr *attr, struct oxe_gid_attrs *attrs)
{
	struct net_device *ndev;
	int ret;

	ret = rdma_read_gid_l2_fields(attr, &attrs->vlan, NULL);
	if (ret)
		return ret;
	memcpy(attrs->gid, attr->gid.raw, sizeof(attrs->gid));
	attrs->roce_v2 = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP;
	attrs->ipv4 = rdma_gid_attr_network_type(attr) == RDMA_NETWORK_IPV4;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev)) {
		attrs->ndev = (unsigned long)ndev;
		attrs->net = dev_net_rcu(ndev)->net_cookie;
	}
	rcu_read_unlock();
	return PTR_ERR_OR_ZERO(ndev);
}
