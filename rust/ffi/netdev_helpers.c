// SPDX-License-Identifier: GPL-2.0
/*
 * Network devices, their addresses, namespaces and multicast groups. See net_helpers.h. The callers
 * in rust/net document what the functions promise.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/route.h>

#include "net_helpers.h"

/* --- Network devices --- */

static_assert(sizeof(netdevice_tracker) <= sizeof(void *));
static_assert(IFNAMSIZ == 16);
/* The numbers that rust/net/notifier.rs knows. */
static_assert(NETDEV_UP == 1 && NETDEV_DOWN == 2 && NETDEV_CHANGE == 4 && NETDEV_REGISTER == 5 &&
	      NETDEV_UNREGISTER == 6 && NETDEV_CHANGEMTU == 7 && NETDEV_CHANGEADDR == 8 &&
	      NETDEV_CHANGENAME == 11 && NOTIFY_OK == 1);

void oxe_netdev_hold(struct net_device *dev, void **tracker)
{
	netdev_hold(dev, (netdevice_tracker *)tracker, GFP_ATOMIC);
}

void oxe_netdev_put(struct net_device *dev, void **tracker)
{
	netdev_put(dev, (netdevice_tracker *)tracker);
}

u32 oxe_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

void oxe_netdev_name(const struct net_device *dev, char name[16])
{
	/*
	 * Renaming writes in place: a reader without the RTNL lock may see a mixture of both names,
	 * but stays in bounds.
	 */
	strscpy(name, dev->name, IFNAMSIZ);
}

void oxe_netdev_address(const struct net_device *dev, u8 address[6])
{
	memcpy(address, dev->dev_addr, ETH_ALEN);
}

enum oxe_netdev_kind oxe_netdev_kind(const struct net_device *dev)
{
	if (is_vlan_dev(dev))
		return OXE_NETDEV_VLAN;
	switch (dev->type) {
	case ARPHRD_ETHER:
		return dev->addr_len == ETH_ALEN ? OXE_NETDEV_ETHERNET : OXE_NETDEV_OTHER;
	case ARPHRD_LOOPBACK:
	case ARPHRD_NONE:
	case ARPHRD_PPP:
	case ARPHRD_RAWIP:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
		return OXE_NETDEV_IP;
	default:
		return OXE_NETDEV_OTHER;
	}
}

bool oxe_netdev_is_loopback(const struct net_device *dev)
{
	return READ_ONCE(dev->flags) & IFF_LOOPBACK;
}

bool oxe_netdev_is_up(const struct net_device *dev)
{
	return netif_running(dev) && netif_carrier_ok(dev);
}

/* The device below a VLAN, or NULL. */
struct net_device *oxe_netdev_vlan_real(struct net_device *dev)
{
	return is_vlan_dev(dev) ? vlan_dev_real_dev(dev) : NULL;
}

struct wanted_lower {
	bool (*is_wanted)(struct net_device *lower, void *data);
	void *data;
	struct net_device *found;
};

static int look_at_lower(struct net_device *lower, struct netdev_nested_priv *priv)
{
	struct wanted_lower *wanted = priv->data;

	if (!wanted->is_wanted(lower, wanted->data))
		return 0;
	wanted->found = lower;
	return 1;
}

/* The first device below @dev, at any depth, that is wanted; or NULL. Under RCU. */
struct net_device *oxe_netdev_first_lower(struct net_device *dev,
					  bool (*is_wanted)(struct net_device *lower, void *data),
					  void *data)
{
	struct wanted_lower wanted = { .is_wanted = is_wanted, .data = data };
	struct netdev_nested_priv priv = { .data = &wanted };

	netdev_walk_all_lower_dev_rcu(dev, look_at_lower, &priv);
	return wanted.found;
}

/* The device that has the address, in the namespace where @near is. Under RCU. */
struct net_device *oxe_netdev_owner(const struct net_device *near, const u8 address[16])
{
	struct in6_addr addr;

	memcpy(&addr, address, sizeof(addr));
	if (ipv6_addr_v4mapped(&addr))
		return __ip_dev_find(dev_net_rcu(near), addr.s6_addr32[3], false);
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_dev_find(dev_net_rcu(near), &addr, NULL);
#else
	return NULL;
#endif
}

/*
 * The cookie of the namespace of a device; 0 if the device is going away. If it is just being
 * moved, that of the new namespace. Process context.
 */
u64 oxe_netdev_namespace(const struct net_device *dev)
{
	u64 cookie;

	rtnl_lock();
	cookie = dev->reg_state == NETREG_REGISTERED ? dev_net(dev)->net_cookie : 0;
	rtnl_unlock();
	return cookie;
}

/* The cookie of the namespace where a device is. Any context. */
u64 oxe_netdev_net(const struct net_device *dev)
{
	u64 cookie;

	rcu_read_lock();
	cookie = dev_net_rcu(dev)->net_cookie;
	rcu_read_unlock();
	return cookie;
}

u64 oxe_net_cookie(const struct net *net)
{
	return net->net_cookie;
}

/* The cookie of the calling process's namespace; 0 if the process has left it to exit. */
u64 oxe_net_of_caller(void)
{
	const struct nsproxy *proxy = current->nsproxy;

	return proxy ? proxy->net_ns->net_cookie : 0;
}

int oxe_netdev_notifier_register(struct notifier_block *nb)
{
	return register_netdevice_notifier(nb);
}

void oxe_netdev_notifier_unregister(struct notifier_block *nb)
{
	unregister_netdevice_notifier(nb);
}

struct net_device *oxe_netdev_of_notice(void *info)
{
	return netdev_notifier_info_to_dev(info);
}

/* --- Addresses --- */

static void (*oxe_addr_added)(struct net_device *dev);

static int inetaddr_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct in_ifaddr *addr = info;

	if (event == NETDEV_UP)
		oxe_addr_added(addr->ifa_dev->dev);
	return NOTIFY_DONE;
}

static int inet6addr_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct inet6_ifaddr *addr = info;

	if (event == NETDEV_UP)
		oxe_addr_added(addr->idev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block oxe_inetaddr = { .notifier_call = inetaddr_event };
static struct notifier_block oxe_inet6addr = { .notifier_call = inet6addr_event };

/* Has @added called, in any context but hard irqs, for the device that has got an address. */
int oxe_addr_notifier_register(void (*added)(struct net_device *dev))
{
	int err;

	oxe_addr_added = added;
	err = register_inetaddr_notifier(&oxe_inetaddr);
#if IS_ENABLED(CONFIG_IPV6)
	if (!err) {
		err = register_inet6addr_notifier(&oxe_inet6addr);
		if (err)
			unregister_inetaddr_notifier(&oxe_inetaddr);
	}
#endif
	return err;
}

void oxe_addr_notifier_unregister(void)
{
#if IS_ENABLED(CONFIG_IPV6)
	unregister_inet6addr_notifier(&oxe_inet6addr);
#endif
	unregister_inetaddr_notifier(&oxe_inetaddr);
}

/* --- Network namespaces --- */

static struct pernet_operations oxe_net_ops;

/* Has @exit called for each namespace that ends, after its devices have gone. */
int oxe_net_register(void (*exit)(struct net *net))
{
	oxe_net_ops.exit = exit;
	return register_pernet_subsys(&oxe_net_ops);
}

void oxe_net_unregister(void)
{
	unregister_pernet_subsys(&oxe_net_ops);
}

/* The namespace of a device with a reference, or NULL if it is about to end. */
struct net *oxe_net_get(const struct net_device *dev)
{
	struct net *net;

	rcu_read_lock();
	net = maybe_get_net(dev_net_rcu(dev));
	rcu_read_unlock();
	return net;
}

void oxe_net_put(struct net *net)
{
	put_net(net);
}

/* --- Multicast groups --- */

void oxe_rtnl_lock(void)
{
	rtnl_lock();
}

void oxe_rtnl_unlock(void)
{
	rtnl_unlock();
}

/*
 * The device receives packets to the group, and the IP stack takes them, until as many calls of
 * oxe_group_leave(), or until the device leaves its namespace. Under RTNL.
 */
int oxe_group_join(struct net_device *dev, const u8 *gid, bool v6)
{
	struct in_device *in_dev;
	__be32 group;

	if (v6) {
#if IS_ENABLED(CONFIG_IPV6)
		return ipv6_dev_mc_inc(dev, (const struct in6_addr *)gid);
#else
		return -EAFNOSUPPORT;
#endif
	}
	in_dev = __in_dev_get_rtnl(dev);
	if (!in_dev)
		return -ENODEV;
	memcpy(&group, gid + 12, sizeof(group));
	ip_mc_inc_group(in_dev, group);
	return 0;
}

void oxe_group_leave(struct net_device *dev, const u8 *gid, bool v6)
{
	struct in_device *in_dev;
	__be32 group;

	if (v6) {
#if IS_ENABLED(CONFIG_IPV6)
		ipv6_dev_mc_dec(dev, (const struct in6_addr *)gid);
#endif
		return;
	}
	in_dev = __in_dev_get_rtnl(dev);
	memcpy(&group, gid + 12, sizeof(group));
	if (in_dev)
		ip_mc_dec_group(in_dev, group);
}
