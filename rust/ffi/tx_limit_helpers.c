// SPDX-License-Identifier: GPL-2.0
/*
 * The bytes that a queue pair has in flight in the network stack. A kernel socket counts them, as
 * for any program: packets belong to it, and sock_wfree gives their bytes back when they are freed.
 * Packets hold a reference neither to the queue pair nor to this module. No code of the module runs
 * when they are freed, except for a wake-up if the queue pair waits.
 */
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/udp.h>

#include "net_helpers.h"
#include "sync_helpers.h"

struct oxe_tx_limit {
	struct socket_wq wq;
	struct wait_queue_entry entry;
	struct sock *sk;
	void (*wake)(void *owner);
	u32 (*adapt)(u32 limit, u64 waited);
	void *owner;
	u64 since;
};

/* Called when half of the limit is free again. Any context; under the lock of the wait queue. */
static int half_free(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct oxe_tx_limit *tx = container_of(entry, struct oxe_tx_limit, entry);
	u64 waited = ktime_get_ns() - tx->since;
	u32 limit = READ_ONCE(tx->sk->sk_sndbuf);

	WRITE_ONCE(tx->sk->sk_sndbuf, tx->adapt(limit, waited));
	list_del_init(&entry->entry);
	tx->wake(tx->owner);
	return 0;
}

/*
 * A limit of so many bytes (of skb->truesize). adapt returns the limit after a wait of so many
 * nanoseconds for half of it. Process context; charged to the process. NULL without memory.
 */
struct oxe_tx_limit *oxe_tx_limit_new(void (*wake)(void *owner),
				      u32 (*adapt)(u32 limit, u64 waited), u32 limit)
{
	struct oxe_tx_limit *tx = kzalloc(sizeof(*tx), OXE_GFP_CHARGED);

	if (!tx)
		return NULL;
	/*
	 * No protocol ever sees the socket: it only owns packets. It is in the namespace that never
	 * ends.
	 */
	tx->sk = sk_alloc(&init_net, PF_INET, OXE_GFP_CHARGED, &udp_prot, 1);
	if (!tx->sk) {
		kfree(tx);
		return NULL;
	}
	sock_init_data(NULL, tx->sk);
	sock_set_flag(tx->sk, SOCK_RCU_FREE);
	tx->sk->sk_sndbuf = limit;
	tx->wake = wake;
	tx->adapt = adapt;
	init_waitqueue_head(&tx->wq.wait);
	init_waitqueue_func_entry(&tx->entry, half_free);
	INIT_LIST_HEAD(&tx->entry.entry);
	rcu_assign_pointer(tx->sk->sk_wq, &tx->wq);
	return tx;
}

/*
 * There is no wait any more. Packets may still be in flight: the socket is freed with the last one.
 */
void oxe_tx_limit_free(struct oxe_tx_limit *tx)
{
	RCU_INIT_POINTER(tx->sk->sk_wq, NULL);
	sock_put(tx->sk);
	/* A context that frees a packet may be checking for a wait. */
	kfree_rcu(tx, wq.rcu);
}

bool oxe_tx_limit_below(const struct oxe_tx_limit *tx)
{
	return sk_wmem_alloc_get(tx->sk) < READ_ONCE(tx->sk->sk_sndbuf);
}

/* Charges the packet to the limit until it is freed, in whatever context that is. */
void oxe_tx_limit_charge(const struct oxe_tx_limit *tx, struct sk_buff *skb)
{
	skb->sk = tx->sk;
	skb->destructor = sock_wfree;
	refcount_add(skb->truesize, &tx->sk->sk_wmem_alloc);
}

/* Has wake called with the owner once half of the limit is free. Any context. */
enum oxe_tx_limit_wait oxe_tx_limit_wait(struct oxe_tx_limit *tx, void *owner)
{
	enum oxe_tx_limit_wait state = OXE_TX_LIMIT_WAITS_ALREADY;
	unsigned long flags;

	spin_lock_irqsave(&tx->wq.wait.lock, flags);
	if (list_empty(&tx->entry.entry)) {
		tx->owner = owner;
		tx->since = ktime_get_ns();
		__add_wait_queue(&tx->wq.wait, &tx->entry);
		/* A context that gives bytes back checks for a wait after that. */
		smp_mb();
		state = OXE_TX_LIMIT_WAITS;
		if (sock_writeable(tx->sk)) {
			list_del_init(&tx->entry.entry);
			state = OXE_TX_LIMIT_BELOW;
		}
	}
	spin_unlock_irqrestore(&tx->wq.wait.lock, flags);
	return state;
}

/*
 * Ends the wait: wake is not called any more. Returns the owner, or NULL without a wait. wake is
 * not running when this returns.
 */
void *oxe_tx_limit_cancel(struct oxe_tx_limit *tx)
{
	void *owner = NULL;
	unsigned long flags;

	spin_lock_irqsave(&tx->wq.wait.lock, flags);
	if (!list_empty(&tx->entry.entry)) {
		list_del_init(&tx->entry.entry);
		owner = tx->owner;
	}
	spin_unlock_irqrestore(&tx->wq.wait.lock, flags);
	return owner;
}
