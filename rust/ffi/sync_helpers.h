/* SPDX-License-Identifier: GPL-2.0 */
/* Locks, tables, timers and work queues: the static inlines and macros that rust/sync needs. */
#ifndef OXE_SYNC_HELPERS_H
#define OXE_SYNC_HELPERS_H

#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

void oxe_spin_lock_bh(spinlock_t *lock);
void oxe_spin_unlock_bh(spinlock_t *lock);
bool oxe_spin_trylock_bh(spinlock_t *lock);
unsigned long oxe_spin_lock_irqsave(spinlock_t *lock);
void oxe_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
bool oxe_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);

void oxe_bh_disable(void);
void oxe_bh_enable(void);
bool oxe_irqs_disabled(void);
bool oxe_in_interrupt(void);
void oxe_memory_barrier(void);
bool oxe_cond_resched_killable(void);

void oxe_wait_for_value(u32 *place, u32 value);
void oxe_wake_for_value(u32 *place);

u32 oxe_random_u32(void);

/*
 * Charged to the process. At the limit of its memory cgroup the allocation fails; see
 * rust/sync/memory.rs.
 */
enum oxe_gfp {
	OXE_GFP_CHARGED = GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN,
	OXE_GFP_CHARGED_NOWAIT = GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN,
};
u64 oxe_user_id(void);
struct mem_cgroup *oxe_memcg_get(void);
void oxe_memcg_put(struct mem_cgroup *memcg);
struct mem_cgroup *oxe_memcg_enter(struct mem_cgroup *memcg);

void oxe_xa_init(struct xarray *xa);
int oxe_xa_alloc(struct xarray *xa, u32 *id, void *entry, u32 min, u32 max, u32 *next,
		 bool atomic);
int oxe_xa_insert(struct xarray *xa, u32 id, void *entry);
void *oxe_xa_erase(struct xarray *xa, u32 id);
void *oxe_xa_next(struct xarray *xa, unsigned long *id, bool after);

bool oxe_hrtimer_is_queued(struct hrtimer *timer);

/* A power of two. */
#define OXE_SOFTIRQ_ACCOUNTS 64

u64 *oxe_softirq_account(u32 hash);
bool oxe_may_log(void);

struct workqueue_struct *oxe_wq_alloc_bh(void);
struct workqueue_struct *oxe_wq_alloc_process(const char *name);
struct workqueue_struct *oxe_wq_alloc_bulk(void);
bool oxe_is_elsewhere(u32 cpu);
bool oxe_queue_work_on(u32 cpu, struct workqueue_struct *queue, struct work_struct *work);

#endif
