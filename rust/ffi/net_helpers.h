/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the network stack that rust/net needs: network devices, sockets, packets and routes.
 */
#ifndef OXE_NET_HELPERS_H
#define OXE_NET_HELPERS_H

#include <linux/types.h>

struct dst_entry;
struct net;
struct net_device;
struct notifier_block;
struct sk_buff;
struct sock;

/* Network devices. A tracker is room for one pointer, which the owner of the reference keeps. */
void oxe_netdev_hold(struct net_device *dev, void **tracker);
void oxe_netdev_put(struct net_device *dev, void **tracker);
u32 oxe_netdev_mtu(const struct net_device *dev);
bool oxe_netdev_supports_udp_gso(const struct net_device *dev, bool v6);
void oxe_netdev_name(const struct net_device *dev, char name[16]);
void oxe_netdev_address(const struct net_device *dev, u8 address[6]);
/* Kinds of network devices. */
enum oxe_netdev_kind {
	OXE_NETDEV_OTHER,
	OXE_NETDEV_ETHERNET,
	OXE_NETDEV_VLAN,
	OXE_NETDEV_IP,		/* carries IP without a hardware address: lo, tunnels */
};

enum oxe_netdev_kind oxe_netdev_kind(const struct net_device *dev);
bool oxe_netdev_is_loopback(const struct net_device *dev);
bool oxe_netdev_is_up(const struct net_device *dev);
struct net_device *oxe_netdev_vlan_real(struct net_device *dev);
struct net_device *oxe_netdev_first_lower(struct net_device *dev,
					  bool (*is_wanted)(struct net_device *lower, void *data),
					  void *data);
struct net_device *oxe_netdev_owner(const struct net_device *near, const u8 address[16]);

u64 oxe_netdev_namespace(const struct net_device *dev);
u64 oxe_netdev_net(const struct net_device *dev);
u64 oxe_net_cookie(const struct net *net);
u64 oxe_net_of_caller(void);
int oxe_addr_notifier_register(void (*added)(struct net_device *dev));
void oxe_addr_notifier_unregister(void);
int oxe_netdev_notifier_register(struct notifier_block *nb);
void oxe_netdev_notifier_unregister(struct notifier_block *nb);
struct net_device *oxe_netdev_of_notice(void *info);

/* Network namespaces and UDP sockets in them. */
int oxe_net_register(void (*exit)(struct net *net));
void oxe_net_unregister(void);
struct net *oxe_net_get(const struct net_device *dev);
void oxe_net_put(struct net *net);

/* A packet to a port of ours, before the UDP layer. By value: it fits in two registers. */
struct oxe_arrival {
	u32 len;		/* from the UDP header on */
	u32 gso_size;		/* 0 if it is no super-packet */
	u16 udp_len;		/* as in the UDP header */
	bool to_host;		/* its link-layer address is this machine's */
	bool udp_gso;		/* a super-packet is one of UDP */
	bool checked;		/* the UDP checksum is known to be good, or there is none */
};

int oxe_udp_open(struct net *net, bool v6, u16 port,
		 int (*receive)(struct sock *sk, struct sk_buff *skb),
		 bool (*is_plain)(struct oxe_arrival arrival), struct sock **sk);
void oxe_udp_close(struct sock *sk);
void oxe_udp_synchronize(void);

/* Membership in multicast groups. Addresses are GIDs. */
void oxe_rtnl_lock(void);
void oxe_rtnl_unlock(void);
int oxe_group_join(struct net_device *dev, const u8 *gid, bool v6);
void oxe_group_leave(struct net_device *dev, const u8 *gid, bool v6);

/* The parts of a packet that a UDP socket's encap_rcv or our hook got. */
struct oxe_rx {
	const u8 *ip;		/* the IP header: ip_len bytes */
	const u8 *udp;		/* the UDP header: 8 bytes */
	const u8 *data;		/* the UDP payload: linear bytes of it */
	void *chunk;		/* where the payload was copied to, or NULL */
	struct net_device *dev;
	u64 net;		/* the cookie of its namespace */
	u32 ip_len;
	u32 linear;
	u32 len;		/* all of the UDP payload, fragments included */
	u32 gso_size;		/* the payload of one datagram; the last may have less */
	u16 vlan;		/* the id of the VLAN that it came by, 0xffff for none */
	bool v6;
	bool exclusive;		/* the linear part has no other user */
};

/* An skb_seq_state, opaque. */
struct oxe_walk {
	u64 state[6];
};

bool oxe_rx_attrs(struct sk_buff *skb, struct oxe_rx *rx);
void oxe_rx_linearize(const struct sk_buff *skb, struct oxe_rx *rx);
int oxe_rx_copy(const struct sk_buff *skb, u32 offset, u8 *to, u32 len);
void oxe_rx_walk(struct sk_buff *skb, u32 offset, u32 len, struct oxe_walk *walk);
u32 oxe_rx_walk_next(struct oxe_walk *walk, u32 consumed, const u8 **data);
void oxe_rx_walk_abort(struct oxe_walk *walk);
struct net_device *oxe_rx_l3_slave(const struct sk_buff *skb, const struct net_device *dev,
				   bool v6);
bool oxe_rx_source_mac(const struct sk_buff *skb, u8 mac[6]);
void oxe_rx_reject(struct sk_buff *skb, const struct oxe_rx *rx);
void oxe_rx_detach(struct sk_buff *skb, struct oxe_rx *rx);
void oxe_rx_end(struct sk_buff *skb, const struct oxe_rx *rx);
void oxe_skb_drop(struct sk_buff *skb);

/* Routes, and sending. Addresses are GIDs: IPv4 is mapped into IPv6. Ports in host byte order. */
struct oxe_flow {
	u8 saddr[16];
	u8 daddr[16];
	u32 label;
	u16 sport;
	u16 dport;
	u8 tclass;
	bool v6;
};

struct dst_entry *oxe_route_lookup(const struct net_device *near, const struct oxe_flow *flow,
				   u32 *cookie);
void oxe_route_put(struct dst_entry *dst);
bool oxe_route_is_valid(struct dst_entry *dst, u32 cookie);
u32 oxe_priority_of(u8 tclass);
int oxe_route_class(const struct dst_entry *dst, u32 priority);
bool oxe_route_supports_udp_gso(const struct dst_entry *dst, bool v6);
/*
 * The sizes of chunks. The longest packet of rust/net/skb.rs fits into the larger one, the longest
 * that is no super-packet into the smaller one.
 */
#define OXE_SMALL_CHUNK (8 * 1024)
#define OXE_CHUNK (64 * 1024)

void *oxe_page_cache_get(u32 size);
void oxe_page_cache_free(void);
struct sk_buff *oxe_tx_alloc(struct dst_entry *dst, u32 priority, u32 len, const u8 *header,
			     u32 header_len, bool v6, u8 **data);
void oxe_tx_finish(struct sk_buff *skb, u32 len, u32 gso_size);
void oxe_tx_link(struct sk_buff *tail, struct sk_buff *skb);
void oxe_tx_drop(struct sk_buff *list);

/* How many packets were sent, and how many failed. */
struct oxe_sent {
	u32 sent;
	u32 failed;
	u32 bytes;
};

void oxe_tx_send(struct sk_buff *list, struct oxe_sent *count);

/* The bytes that a sender has in flight. */
struct oxe_tx_limit;
enum oxe_tx_limit_wait {
	OXE_TX_LIMIT_BELOW,
	OXE_TX_LIMIT_WAITS,
	OXE_TX_LIMIT_WAITS_ALREADY,
};

struct oxe_tx_limit *oxe_tx_limit_new(void (*wake)(void *owner),
				      u32 (*adapt)(u32 limit, u64 waited), u32 limit);
void oxe_tx_limit_free(struct oxe_tx_limit *tx);
bool oxe_tx_limit_below(const struct oxe_tx_limit *tx);
void oxe_tx_limit_charge(const struct oxe_tx_limit *tx, struct sk_buff *skb);
enum oxe_tx_limit_wait oxe_tx_limit_wait(struct oxe_tx_limit *tx, void *owner);
void *oxe_tx_limit_cancel(struct oxe_tx_limit *tx);

u32 oxe_crc32_le(u32 crc, const u8 *data, size_t len);

#endif
