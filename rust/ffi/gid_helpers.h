/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GIDs of all our devices, to be found by network interface and address. A GID is 16 bytes; an
 * interface is an address to compare where it is an unsigned long.
 */
#ifndef OXE_GID_HELPERS_H
#define OXE_GID_HELPERS_H

#include <linux/types.h>

struct ib_device;
struct ib_gid_attr;
struct net_device;

/* The attributes of an entry of a port's GID table. */
struct oxe_gid_attrs {
	u8 gid[16];
	unsigned long ndev;	/* the entry's network interface */
	u64 net;		/* the cookie of the namespace of that */
	u16 vlan;		/* its VLAN id, 0xffff for none */
	bool roce_v2;
	bool ipv4;		/* the GID is an IPv4-mapped address */
};

int oxe_gid_attrs(const struct ib_gid_attr *attr, struct oxe_gid_attrs *attrs);
struct net_device *oxe_gid_entry_netdev(const struct ib_gid_attr *attr);

struct oxe_gid;
struct oxe_gid *oxe_gid_add(const struct ib_gid_attr *attr);
void oxe_gid_del(struct oxe_gid *entry);

struct ib_device *oxe_gid_device(const struct net_device *ndev, const u8 *gid, u32 index);
struct net_device *oxe_gid_netdev(unsigned long ndev, const u8 *gid);
bool oxe_gid_is_of(const struct ib_device *ib, unsigned long ndev, const u8 *gid);

#endif
