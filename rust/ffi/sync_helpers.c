// SPDX-License-Identifier: GPL-2.0
/* See sync_helpers.h. The callers in rust/sync document what the functions promise. */
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include <asm/barrier.h>

#include "sync_helpers.h"

bool oxe_may_log(void)
{
	static struct ratelimit_state limit =
		RATELIMIT_STATE_INIT_FLAGS(oxe_log, DEFAULT_RATELIMIT_INTERVAL,
					   DEFAULT_RATELIMIT_BURST, RATELIMIT_MSG_ON_RELEASE);

	return __ratelimit(&limit);
}

void oxe_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

void oxe_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

bool oxe_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

unsigned long oxe_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void oxe_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

bool oxe_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void oxe_bh_disable(void)
{
	local_bh_disable();
}

/* As vfree() sees it: also where bottom halves are disabled. */
bool oxe_in_interrupt(void)
{
	return in_interrupt();
}

bool oxe_irqs_disabled(void)
{
	return in_hardirq() || irqs_disabled();
}

void oxe_memory_barrier(void)
{
	mb();
}

bool oxe_cond_resched_killable(void)
{
	cond_resched();
	return fatal_signal_pending(current);
}

void oxe_bh_enable(void)
{
	local_bh_enable();
}

/*
 * Sleeps until *place is the value. The context that sets the value calls oxe_wake_for_value after
 * a full barrier.
 */
void oxe_wait_for_value(u32 *place, u32 value)
{
	wait_var_event(place, smp_load_acquire(place) == value);
}

/* Uses only the address: the memory there may be freed already. */
void oxe_wake_for_value(u32 *place)
{
	wake_up_var(place);
}

u32 oxe_random_u32(void)
{
	return get_random_u32();
}

/* See rust/sync/user.rs: a real user ID of the initial namespace, or the number of another one. */
u64 oxe_user_id(void)
{
	const struct cred *cred = current_cred();
	const struct user_namespace *ns = cred->user_ns;

	if (ns == &init_user_ns)
		return __kuid_val(cred->uid);
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return 1ULL << 32 | ns->ns.inum;
	return __kuid_val(ns->owner);
}

/* The cgroup of the calling process, with a reference; NULL without memory cgroups. */
struct mem_cgroup *oxe_memcg_get(void)
{
	return get_mem_cgroup_from_mm(current->mm);
}

void oxe_memcg_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

/*
 * Allocations with __GFP_ACCOUNT in this context are charged to memcg from now on. Returns the
 * previous one.
 */
struct mem_cgroup *oxe_memcg_enter(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void oxe_xa_init(struct xarray *xa)
{
	/* LOCK_IRQ: the array drops and retakes its lock while it allocates, the way we do. */
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
}

/*
 * Stores the entry at a free index of min..=max, searched for from *next on and, if there is none,
 * from min on. Process context with interrupts on, where the lock is dropped to allocate; any
 * context if atomic.
 */
int oxe_xa_alloc(struct xarray *xa, u32 *id, void *entry, u32 min, u32 max, u32 *next,
		 bool atomic)
{
	unsigned long flags;
	int err;

	xa_lock_irqsave(xa, flags);
	err = __xa_alloc_cyclic(xa, id, entry, XA_LIMIT(min, max), next,
				atomic ? GFP_ATOMIC : OXE_GFP_CHARGED);
	xa_unlock_irqrestore(xa, flags);
	return err < 0 ? err : 0;
}

/* Stores the entry at an index if that is free, else returns -EBUSY. Process context, too. */
int oxe_xa_insert(struct xarray *xa, u32 id, void *entry)
{
	unsigned long flags;
	int err;

	xa_lock_irqsave(xa, flags);
	err = __xa_insert(xa, id, entry, OXE_GFP_CHARGED);
	xa_unlock_irqrestore(xa, flags);
	return err;
}

void *oxe_xa_erase(struct xarray *xa, u32 id)
{
	unsigned long flags;
	void *old;

	xa_lock_irqsave(xa, flags);
	old = __xa_erase(xa, id);
	xa_unlock_irqrestore(xa, flags);
	return old;
}

/*
 * The first filled entry at *id or later (if after: later only). Its index is stored in *id. Under
 * RCU.
 */
void *oxe_xa_next(struct xarray *xa, unsigned long *id, bool after)
{
	return after ? xa_find_after(xa, id, U32_MAX, XA_PRESENT) :
		       xa_find(xa, id, U32_MAX, XA_PRESENT);
}

bool oxe_hrtimer_is_queued(struct hrtimer *timer)
{
	return hrtimer_is_queued(timer);
}

struct workqueue_struct *oxe_wq_alloc_bh(void)
{
	return alloc_workqueue("oxe_bh", WQ_BH | WQ_PERCPU, 0);
}

struct workqueue_struct *oxe_wq_alloc_process(const char *name)
{
	/*
	 * No WQ_MEM_RECLAIM: work on such a queue must not wait for other work, as teardown does.
	 */
	return alloc_workqueue("%s", WQ_UNBOUND, 0, name);
}

/*
 * Its workers never wait for each other and keep their CPUs busy, so there are no more than CPUs:
 * other tasks would get little beside a thousand of them. The files in sysfs let an administrator
 * choose their CPUs and their nice value.
 */
struct workqueue_struct *oxe_wq_alloc_bulk(void)
{
	return alloc_workqueue("oxe_bulk", WQ_UNBOUND | WQ_SYSFS, num_online_cpus());
}

/* The accounts of users on each CPU, see sync/budget.rs. */
static DEFINE_PER_CPU(u64 [OXE_SOFTIRQ_ACCOUNTS], softirq_accounts);

/* One of those of this CPU, by the upper bits of a hash. The caller stays on this CPU. */
u64 *oxe_softirq_account(u32 hash)
{
	return this_cpu_ptr(&softirq_accounts[hash >> (32 - ilog2(OXE_SOFTIRQ_ACCOUNTS))]);
}

/* Whether that CPU is another one than this, and online. With bottom halves disabled. */
bool oxe_is_elsewhere(u32 cpu)
{
	return cpu != raw_smp_processor_id() && cpu < nr_cpu_ids && cpu_online(cpu);
}

/*
 * Bottom-half work of a CPU that goes offline is run by another one, but work that is queued there
 * afterwards waits until it comes back. A CPU does not go while preemption is disabled on another.
 */
bool oxe_queue_work_on(u32 cpu, struct workqueue_struct *queue, struct work_struct *work)
{
	bool queued;

	preempt_disable();
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		cpu = smp_processor_id();
	queued = queue_work_on(cpu, queue, work);
	preempt_enable();
	return queued;
}
