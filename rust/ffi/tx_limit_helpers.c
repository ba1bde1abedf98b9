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

struct oxe_room {
	struct socket_wq wq;
	struct wait_queue_entry entry;
	struct sock *sk;
	void (*wake)(void *owner);
	u32 (*adapt)(u32 limit, u64 waited);
	void *owner;
	u64 since;
};

/* Called when half of the limit is free again. Any context; under the lock of the wait queue. */
static int room_made(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct oxe_room *room = container_of(entry, struct oxe_room, entry);
	u64 waited = ktime_get_ns() - room->since;
	u32 limit = READ_ONCE(room->sk->sk_sndbuf);

	WRITE_ONCE(room->sk->sk_sndbuf, room->adapt(limit, waited));
	list_del_init(&entry->entry);
	room->wake(room->owner);
	return 0;
}

/*
 * A room of limit bytes (of skb->truesize). adapt returns the limit after a wait of so many
 * nanoseconds for half of it. Process context; charged to the process. NULL without memory.
 */
struct oxe_room *oxe_room_new(void (*wake)(void *owner), u32 (*adapt)(u32 limit, u64 waited),
			      u32 limit)
{
	struct oxe_room *room = kzalloc(sizeof(*room), OXE_GFP_CHARGED);

	if (!room)
		return NULL;
	/*
	 * No protocol ever sees the socket: it only owns packets. It is in the namespace that never
	 * ends.
	 */
	room->sk = sk_alloc(&init_net, PF_INET, OXE_GFP_CHARGED, &udp_prot, 1);
	if (!room->sk) {
		kfree(room);
		return NULL;
	}
	sock_init_data(NULL, room->sk);
	sock_set_flag(room->sk, SOCK_RCU_FREE);
	room->sk->sk_sndbuf = limit;
	room->wake = wake;
	room->adapt = adapt;
	init_waitqueue_head(&room->wq.wait);
	init_waitqueue_func_entry(&room->entry, room_made);
	INIT_LIST_HEAD(&room->entry.entry);
	rcu_assign_pointer(room->sk->sk_wq, &room->wq);
	return room;
}

/*
 * There is no wait any more. Packets may still be in flight: the socket is freed with the last one.
 */
void oxe_room_free(struct oxe_room *room)
{
	RCU_INIT_POINTER(room->sk->sk_wq, NULL);
	sock_put(room->sk);
	/* A context that frees a packet may be checking for a wait. */
	kfree_rcu(room, wq.rcu);
}

bool oxe_room_left(const struct oxe_room *room)
{
	return sk_wmem_alloc_get(room->sk) < READ_ONCE(room->sk->sk_sndbuf);
}

/* Charges the packet to the room until it is freed, in whatever context that is. */
void oxe_room_take(const struct oxe_room *room, struct sk_buff *skb)
{
	skb->sk = room->sk;
	skb->destructor = sock_wfree;
	refcount_add(skb->truesize, &room->sk->sk_wmem_alloc);
}

/* Has wake called with the owner once there is room: half of the limit. Any context. */
enum oxe_room_wait oxe_room_wait(struct oxe_room *room, void *owner)
{
	enum oxe_room_wait state = OXE_ROOM_WAITS_ALREADY;
	unsigned long flags;

	spin_lock_irqsave(&room->wq.wait.lock, flags);
	if (list_empty(&room->entry.entry)) {
		room->owner = owner;
		room->since = ktime_get_ns();
		__add_wait_queue(&room->wq.wait, &room->entry);
		/* A context that gives bytes back checks for a wait after that. */
		smp_mb();
		state = OXE_ROOM_WAITS;
		if (sock_writeable(room->sk)) {
			list_del_init(&room->entry.entry);
			state = OXE_ROOM_IS_LEFT;
		}
	}
	spin_unlock_irqrestore(&room->wq.wait.lock, flags);
	return state;
}

/*
 * Ends the wait: wake is not called any more. Returns the owner, or NULL without a wait. wake is
 * not running when this returns.
 */
void *oxe_room_cancel(struct oxe_room *room)
{
	void *owner = NULL;
	unsigned long flags;

	spin_lock_irqsave(&room->wq.wait.lock, flags);
	if (!list_empty(&room->entry.entry)) {
		list_del_init(&room->entry.entry);
		owner = room->owner;
	}
	spin_unlock_irqrestore(&room->wq.wait.lock, flags);
	return owner;
}
