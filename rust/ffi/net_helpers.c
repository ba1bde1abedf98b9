// SPDX-License-Identifier: GPL-2.0
/*
 * Routes, and packets to send. See net_helpers.h. The callers in rust/net document what the
 * functions promise.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/pkt_sched.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/dsfield.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <net/xfrm.h>

#include "net_helpers.h"

static struct dst_entry *lookup4(const struct net_device *near, const struct oxe_flow *flow)
{
	struct flowi4 fl = {
		.flowi4_oif = near->ifindex,
		.flowi4_dscp = inet_dsfield_to_dscp(flow->tclass),
		.flowi4_proto = IPPROTO_UDP,
		.fl4_sport = htons(flow->sport),
		.fl4_dport = htons(flow->dport),
	};
	struct rtable *rt;

	memcpy(&fl.saddr, flow->saddr + 12, sizeof(fl.saddr));
	memcpy(&fl.daddr, flow->daddr + 12, sizeof(fl.daddr));
	rt = ip_route_output_key(dev_net_rcu(near), &fl);
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

static struct dst_entry *lookup6(const struct net_device *near, const struct oxe_flow *flow,
				 u32 *cookie)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct net *net = dev_net_rcu(near);
	struct flowi6 fl = {
		.flowi6_oif = near->ifindex,
		.flowlabel = ip6_make_flowinfo(flow->tclass, htonl(flow->label)),
		.flowi6_proto = IPPROTO_UDP,
		.fl6_sport = htons(flow->sport),
		.fl6_dport = htons(flow->dport),
	};
	struct dst_entry *dst;

	memcpy(&fl.saddr, flow->saddr, sizeof(fl.saddr));
	memcpy(&fl.daddr, flow->daddr, sizeof(fl.daddr));
	/*
	 * IPv4's lookup refuses a source address that is not this host's. The default GID may be
	 * one: a link-local address made from the MAC.
	 */
	if (!(ipv6_addr_type(&fl.saddr) & IPV6_ADDR_LINKLOCAL) &&
	    !ipv6_chk_addr_and_flags(net, &fl.saddr, near, false, 0, 0))
		return ERR_PTR(-EINVAL);
	dst = ip6_route_output(net, NULL, &fl);
	if (dst->error) {
		int err = dst->error;

		dst_release(dst);
		return ERR_PTR(err);
	}
	*cookie = rt6_get_cookie(dst_rt6_info(dst));
	/* IPsec, which IPv4's lookup asks, too. A bundle checks itself and needs no cookie. */
	return xfrm_lookup_route(net, dst, flowi6_to_flowi(&fl), NULL, 0);
#else
	return ERR_PTR(-EAFNOSUPPORT);
#endif
}

/* The route to the destination by the interface @near, with a reference; or an error. */
struct dst_entry *oxe_route_lookup(const struct net_device *near, const struct oxe_flow *flow,
				   u32 *cookie)
{
	struct dst_entry *dst;

	*cookie = 0;
	rcu_read_lock();
	dst = flow->v6 ? lookup6(near, flow, cookie) : lookup4(near, flow);
	rcu_read_unlock();
	return dst;
}

void oxe_route_put(struct dst_entry *dst)
{
	dst_release(dst);
}

bool oxe_route_is_valid(struct dst_entry *dst, u32 cookie)
{
	bool valid;

	rcu_read_lock();
	valid = dst_check(dst, cookie);
	rcu_read_unlock();
	return valid;
}

/* Whether the device takes GSO packets of UDP whole. */
bool oxe_netdev_supports_udp_gso(const struct net_device *dev, bool v6)
{
	netdev_features_t csum = NETIF_F_HW_CSUM | (v6 ? NETIF_F_IPV6_CSUM : NETIF_F_IP_CSUM);
	netdev_features_t features = READ_ONCE(dev->features);

	return (features & csum) && (features & NETIF_F_GSO_UDP_L4);
}

/*
 * Whether GSO packets may be sent there: if UDP itself would send some, and the device takes them
 * whole. To segment them in software costs more than to send the datagrams one by one.
 */
bool oxe_route_supports_udp_gso(const struct dst_entry *dst, bool v6)
{
	bool takes;

	rcu_read_lock();
	takes = !dst_xfrm(dst) && oxe_netdev_supports_udp_gso(dst_dev_rcu(dst), v6);
	rcu_read_unlock();
	return takes;
}

/* The number that rust/net/route.rs knows. */
static_assert(TC_PRIO_MAX == 15);

/* The priority that goes with a traffic class. */
u32 oxe_priority_of(u8 tclass)
{
	return rt_tos2priority(tclass);
}

/*
 * The class to which the destination's device maps a packet's priority: the PCP of a VLAN's tag, or
 * the traffic class of another device; -1 if it maps none.
 */
int oxe_route_class(const struct dst_entry *dst, u32 priority)
{
	struct net_device *dev;
	int class = -1;

	rcu_read_lock();
	dev = dst_dev_rcu(dst);
	if (is_vlan_dev(dev))
		class = (vlan_dev_get_egress_qos_mask(dev, priority) & VLAN_PRIO_MASK) >>
			VLAN_PRIO_SHIFT;
	else if (netdev_get_num_tc(dev))
		class = netdev_get_prio_tc_map(dev, priority);
	rcu_read_unlock();
	return class;
}

/*
 * A packet with size bytes of memory. More than a page are a chunk, all of which counts as in
 * flight (tx_limit_helpers.c).
 */
static struct sk_buff *skb_of(u32 size)
{
	struct sk_buff *skb;
	void *memory;

	if (size <= PAGE_SIZE) {
		memory = napi_alloc_frag(size);
	} else {
		size = size <= OXE_SMALL_CHUNK ? OXE_SMALL_CHUNK : OXE_CHUNK;
		memory = oxe_page_cache_get(size);
	}
	if (!memory)
		return NULL;
	skb = napi_build_skb(memory, size);
	if (!skb)
		skb_free_frag(memory);
	return skb;
}

/*
 * A packet to a destination, with place for len bytes behind a header (IP and UDP, lengths left
 * out), and headroom for all layers below. Its memory comes from this CPU's caches, which are not
 * cleared for every packet. The destination must stay valid until the packet is sent. For both
 * reasons bottom halves stay off until then.
 */
struct sk_buff *oxe_tx_alloc(struct dst_entry *dst, u32 priority, u32 len, const u8 *header,
			     u32 header_len, bool v6, u8 **data)
{
	struct sk_buff *skb;
	u32 room, size;

	rcu_read_lock();
	room = LL_RESERVED_SPACE(dst_dev_rcu(dst));
	rcu_read_unlock();
	room = ALIGN(room + sizeof(struct ipv6hdr) + sizeof(struct udphdr), 16);
	size = SKB_DATA_ALIGN(room + len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	if (size > OXE_CHUNK)
		return NULL;
	skb = skb_of(size);
	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	*data = skb->data;
	memcpy(skb_push(skb, header_len), header, header_len);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, header_len - sizeof(struct udphdr));
	skb->protocol = v6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	skb->priority = priority;
	/* Code that keeps the packet beyond this section takes a reference (skb_dst_force). */
	skb_dst_set_noref(skb, dst);
	return skb;
}

/*
 * Leaves the UDP checksum to the network stack or the device. RoCEv2 needs none, but a receiver's
 * GRO merges only packets that have one. There, a packet without a checksum would overtake earlier
 * packets that GRO still holds.
 */
static void ask_for_checksum(struct sk_buff *skb, u32 udp_len)
{
	struct udphdr *udp = udp_hdr(skb);

	if (skb->protocol == htons(ETH_P_IPV6))
		udp->check = ~csum_ipv6_magic(&ipv6_hdr(skb)->saddr, &ipv6_hdr(skb)->daddr,
					      udp_len, IPPROTO_UDP, 0);
	else
		udp->check = ~csum_tcpudp_magic(ip_hdr(skb)->saddr, ip_hdr(skb)->daddr, udp_len,
						IPPROTO_UDP, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/*
 * Has the packet segmented, by a lower layer or on its way, into datagrams of gso_size bytes of UDP
 * payload (UDP GSO).
 */
static void set_gso(struct sk_buff *skb, u32 len, u32 gso_size)
{
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_size = gso_size;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(len, gso_size);
}

/* The packet has len bytes, gso_size of them in each datagram; the last may have less. */
void oxe_tx_finish(struct sk_buff *skb, u32 len, u32 gso_size)
{
	u32 udp_len = len + sizeof(struct udphdr);

	skb_put(skb, len);
	udp_hdr(skb)->len = htons(udp_len);
	ask_for_checksum(skb, udp_len);
	if (len > gso_size)
		set_gso(skb, len, gso_size);
}

void oxe_tx_link(struct sk_buff *tail, struct sk_buff *skb)
{
	tail->next = skb;
}

/* Frees packets that were not sent. */
void oxe_tx_drop(struct sk_buff *list)
{
	kfree_skb_list(list);
}

/*
 * Hands prepared packets to the IP layer, which fills in total length and IPv4 checksum. Consumes
 * them all. Packets that could not be sent are counted as failed: a full queue, a firewall, an MTU,
 * no neighbour.
 */
void oxe_tx_send(struct sk_buff *list, struct oxe_sent *count)
{
	struct sk_buff *skb, *next;
	struct net_device *dev;
	struct net *net;
	u32 packets, bytes;
	int err;

	rcu_read_lock();
	for (skb = list; skb; skb = next) {
		next = skb->next;
		skb_mark_not_on_list(skb);
		packets = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
		bytes = skb->len - skb_transport_offset(skb) - sizeof(struct udphdr);
		dev = dst_dev_rcu(skb_dst(skb));
		net = dev_net_rcu(dev);
		skb->dev = dev;
#if IS_ENABLED(CONFIG_IPV6)
		if (skb->protocol == htons(ETH_P_IPV6))
			err = ip6_local_out(net, NULL, skb);
		else
#endif
			err = ip_local_out(net, NULL, skb);
		if (net_xmit_eval(err)) {
			count->failed += packets;
		} else {
			count->sent += packets;
			count->bytes += bytes;
		}
	}
	rcu_read_unlock();
}

u32 oxe_crc32_le(u32 crc, const u8 *data, size_t len)
{
	return crc32_le(crc, data, len);
}
