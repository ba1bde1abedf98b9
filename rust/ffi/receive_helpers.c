// SPDX-License-Identifier: GPL-2.0
/*
 * Reception of packets: sockets, the hook in front of them, and the parts of a packet. See
 * net_helpers.h.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/ipv6.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
#include <net/netfilter/nf_conntrack.h>
#endif
#include <net/sock.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>

#include "net_helpers.h"

/* --- Sockets --- */

/*
 * The fast path: a netfilter hook behind those of the firewall takes packets to the port before the
 * UDP socket lookup, and takes GSO packets whole. Packets that are not plain go on to the socket,
 * which decides on them. The socket also reserves the port.
 */
struct oxe_hook {
	struct nf_hook_ops ops;
	struct rcu_head rcu;
	int (*receive)(struct sock *sk, struct sk_buff *skb);
	bool (*is_plain)(struct oxe_arrival arrival);
	__be16 port;
};

/*
 * Whether connection tracking has yet to confirm the packet's connection, which it does after our
 * hook.
 */
static bool is_tracked_anew(const struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
	enum ip_conntrack_info info;
	const struct nf_conn *ct = nf_ct_get(skb, &info);

	return ct && !nf_ct_is_confirmed(ct);
#else
	return false;
#endif
}

/*
 * Whether this is a super-packet of UDP datagrams. A virtual machine's cannot be trusted (DODGY).
 * Nor can that of any peer, so each datagram is checked. Super-packets of other kinds come, too, if
 * a virtual machine says that there is a tunnel in its datagrams: the UDP layer gives those whole
 * to a socket as ours, and gso_size means something else in them.
 */
static bool is_udp_gso(const struct sk_buff *skb)
{
	return skb_is_gso(skb) && (skb_shinfo(skb)->gso_type & ~SKB_GSO_DODGY) == SKB_GSO_UDP_L4;
}

/* The facts about a packet that is_plain needs; at is the offset of the UDP header. */
static struct oxe_arrival arrival_of(struct sk_buff *skb, const struct udphdr *udp, u32 at)
{
	return (struct oxe_arrival){
		.len = skb->len - at,
		.gso_size = skb_shinfo(skb)->gso_size,
		.udp_len = ntohs(udp->len),
		.to_host = skb->pkt_type == PACKET_HOST,
		.udp_gso = is_udp_gso(skb),
		.checked = !udp->check || skb_csum_unnecessary(skb),
	};
}

static unsigned int take(const struct oxe_hook *hook, struct sk_buff *skb, u32 at, u16 family)
{
	const struct udphdr *udp;

	/*
	 * A packet that a process returns (NFQUEUE) goes through the remaining hooks in that
	 * process's context, but the code behind this hook needs bottom halves off. The socket is
	 * always reached with them off.
	 */
	if (!in_softirq() || !pskb_may_pull(skb, at + sizeof(*udp)))
		return NF_ACCEPT;
	udp = (const struct udphdr *)(skb->data + at);
	if (udp->dest != hook->port || !hook->is_plain(arrival_of(skb, udp, at)))
		return NF_ACCEPT;
	if (is_tracked_anew(skb) || !xfrm_policy_check(NULL, XFRM_POLICY_IN, skb, family))
		return NF_ACCEPT;
	/* Pass the packet on as a socket's encap_rcv gets it. */
	__skb_pull(skb, at);
	skb_reset_transport_header(skb);
	hook->receive(NULL, skb);
	return NF_STOLEN;
}

static unsigned int hook4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->protocol != IPPROTO_UDP || skb_network_offset(skb))
		return NF_ACCEPT;
	return take(priv, skb, ip->ihl * 4, NFPROTO_IPV4);
}

static unsigned int hook6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP || skb_network_offset(skb))
		return NF_ACCEPT;
	return take(priv, skb, sizeof(struct ipv6hdr), NFPROTO_IPV6);
}

/* The hook that is returned belongs to the socket's owner, until oxe_udp_close. */
static struct oxe_hook *hook_up(struct net *net, bool v6, u16 port,
				int (*receive)(struct sock *sk, struct sk_buff *skb),
				bool (*is_plain)(struct oxe_arrival arrival))
{
	struct oxe_hook *hook = kzalloc(sizeof(*hook), GFP_KERNEL);
	int err;

	if (!hook)
		return ERR_PTR(-ENOMEM);
	hook->receive = receive;
	hook->is_plain = is_plain;
	hook->port = htons(port);
	hook->ops.hook = v6 ? hook6 : hook4;
	hook->ops.priv = hook;
	hook->ops.pf = v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
	hook->ops.hooknum = NF_INET_LOCAL_IN;
	/* Behind filters, address translation and all other hooks that look at packets. */
	hook->ops.priority = INT_MAX;
	err = nf_register_net_hook(net, &hook->ops);
	if (err) {
		kfree(hook);
		return ERR_PTR(err);
	}
	return hook;
}

/*
 * A socket that hands packets to the port on to receive. It does not keep the namespace alive.
 * is_plain decides which packets need none of what the UDP layer does.
 */
int oxe_udp_open(struct net *net, bool v6, u16 port,
		 int (*receive)(struct sock *sk, struct sk_buff *skb),
		 bool (*is_plain)(struct oxe_arrival arrival), struct sock **sk)
{
	/* No option for zero checksums: udp_port_cfg accepts them over IPv6 by default. */
	struct udp_port_cfg where = {
		.family = v6 ? AF_INET6 : AF_INET,
		.local_udp_port = htons(port),
		.ipv6_v6only = v6,
	};
	struct udp_tunnel_sock_cfg how = {
		.encap_type = 1,
		.encap_rcv = receive,
	};
	struct oxe_hook *hook;
	struct socket *sock;
	int err;

	/*
	 * The caller has a lock that the end of a namespace waits for. To load IPv6 here would wait
	 * for that end in turn.
	 */
	BUILD_BUG_ON(IS_MODULE(CONFIG_IPV6));
	err = udp_sock_create(net, &where, &sock);
	if (err < 0)
		return err;
	hook = hook_up(net, v6, port, receive, is_plain);
	if (IS_ERR(hook)) {
		udp_tunnel_sock_release(sock->sk);
		return PTR_ERR(hook);
	}
	how.sk_user_data = hook;
	setup_udp_tunnel_sock(net, sock->sk, &how);
	/*
	 * GRO merges the packets of a super-packet that was segmented on its way, if they have UDP
	 * checksums as ours do.
	 */
	udp_set_bit(GRO_ENABLED, sock->sk);
	*sk = sock->sk;
	return 0;
}

void oxe_udp_close(struct sock *sk)
{
	struct oxe_hook *hook = sk->sk_user_data;

	nf_unregister_net_hook(sock_net(sk), &hook->ops);
	udp_tunnel_sock_release(sk);
	/* A packet may still be passing through the hook, until oxe_udp_synchronize. */
	kfree_rcu(hook, rcu);
}

/* Waits until no receive function of a closed socket is running. */
void oxe_udp_synchronize(void)
{
	synchronize_net();
}

/* --- Packets that arrived --- */

/*
 * Returns false if a UDP socket would not take the packet: then rx is not valid. Otherwise the
 * caller must call oxe_rx_end. Bottom halves off.
 */
bool oxe_rx_attrs(struct sk_buff *skb, struct oxe_rx *rx)
{
	if (skb_headlen(skb) < sizeof(struct udphdr) ||
	    ntohs(((struct udphdr *)skb->data)->len) != skb->len)
		return false;
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		rx->v6 = false;
		rx->ip_len = ip_hdrlen(skb);
		break;
	case htons(ETH_P_IPV6):
		rx->v6 = true;
		rx->ip_len = sizeof(struct ipv6hdr);
		break;
	default:
		return false;
	}
	rx->dev = skb->dev;
	rx->net = dev_net_rcu(skb->dev)->net_cookie;
	rx->vlan = is_vlan_dev(skb->dev) ? vlan_dev_vlan_id(skb->dev) : 0xffff;
	rx->len = skb->len - sizeof(struct udphdr);
	rx->gso_size = rx->len;
	if (is_udp_gso(skb) && skb_shinfo(skb)->gso_size < rx->len)
		rx->gso_size = skb_shinfo(skb)->gso_size;
	rx->ip = skb_network_header(skb);
	rx->udp = skb->data;
	rx->data = skb->data + sizeof(struct udphdr);
	rx->linear = skb_headlen(skb) - sizeof(struct udphdr);
	rx->exclusive = !skb_cloned(skb);
	rx->chunk = NULL;
	return true;
}

/* Copies the payload into one chunk. Without memory for that it stays where it is. */
void oxe_rx_linearize(const struct sk_buff *skb, struct oxe_rx *rx)
{
	BUILD_BUG_ON(OXE_CHUNK < U16_MAX);
	rx->chunk = oxe_page_cache_get(OXE_CHUNK);
	if (!rx->chunk)
		return;
	if (skb_copy_bits(skb, sizeof(struct udphdr), rx->chunk, rx->len)) {
		skb_free_frag(rx->chunk);
		rx->chunk = NULL;
		return;
	}
	rx->data = rx->chunk;
	rx->linear = rx->len;
	rx->exclusive = true;
}

int oxe_rx_copy(const struct sk_buff *skb, u32 offset, u8 *to, u32 len)
{
	return skb_copy_bits(skb, offset + sizeof(struct udphdr), to, len);
}

static_assert(sizeof(struct oxe_walk) >= sizeof(struct skb_seq_state));
static_assert(__alignof__(struct oxe_walk) >= __alignof__(struct skb_seq_state));

void oxe_rx_walk(struct sk_buff *skb, u32 offset, u32 len, struct oxe_walk *walk)
{
	offset += sizeof(struct udphdr);
	skb_prepare_seq_read(skb, offset, offset + len, (struct skb_seq_state *)walk);
}

u32 oxe_rx_walk_next(struct oxe_walk *walk, u32 consumed, const u8 **data)
{
	return skb_seq_read(consumed, data, (struct skb_seq_state *)walk);
}

void oxe_rx_walk_abort(struct oxe_walk *walk)
{
	skb_abort_seq_read((struct skb_seq_state *)walk);
}

/*
 * The device by which a packet came that arrived at @dev, if that is a VRF (or another l3 master)
 * above it; else NULL. Under RCU.
 */
struct net_device *oxe_rx_l3_slave(const struct sk_buff *skb, const struct net_device *dev,
				   bool v6)
{
	int index;

	if (!netif_is_l3_master(dev))
		return NULL;
	index = v6 ? inet6_sdif(skb) : inet_sdif(skb);
	return index ? dev_get_by_index_rcu(dev_net_rcu(dev), index) : NULL;
}

bool oxe_rx_source_mac(const struct sk_buff *skb, u8 mac[6])
{
	if (!skb_mac_header_was_set(skb) || skb_mac_header_len(skb) < ETH_HLEN)
		return false;
	memcpy(mac, eth_hdr(skb)->h_source, ETH_ALEN);
	return true;
}

/*
 * Drops what holds only within the RCU section in which the packet arrived: the socket of early
 * demultiplexing and the route, of which it has no references, and the device.
 */
void oxe_rx_detach(struct sk_buff *skb, struct oxe_rx *rx)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	skb->dev = NULL;
	rx->dev = NULL;
}

void oxe_rx_end(struct sk_buff *skb, const struct oxe_rx *rx)
{
	if (rx->chunk)
		skb_free_frag(rx->chunk);
	/*
	 * In a softirq the sk_buff goes to the cache from which the next packet to be sent takes
	 * its own.
	 */
	napi_consume_skb(skb, in_softirq());
}

/* Ends a packet that no device is there for. Under RCU. */
void oxe_rx_reject(struct sk_buff *skb, const struct oxe_rx *rx)
{
	struct net *net = dev_net_rcu(skb->dev);

	if (rx->v6)
		__UDP6_INC_STATS(net, UDP_MIB_NOPORTS);
	else
		__UDP_INC_STATS(net, UDP_MIB_NOPORTS);
	if (rx->chunk)
		skb_free_frag(rx->chunk);
	kfree_skb_reason(skb, SKB_DROP_REASON_NO_SOCKET);
}

void oxe_skb_drop(struct sk_buff *skb)
{
	kfree_skb(skb);
}
