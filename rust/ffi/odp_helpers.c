// SPDX-License-Identifier: GPL-2.0
/* On-demand paging: between the RDMA core, which faults pages in, and rust/rdma/odp.rs. */

#include <linux/hmm.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/oom.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem_odp.h>

#include "odp_helpers.h"

/* The memory manager takes pages back, or their protection changes. */
static bool invalidate(struct mmu_interval_notifier *notifier,
		       const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *odp = container_of(notifier, struct ib_umem_odp, notifier);
	unsigned long base = ib_umem_start(odp);
	unsigned long start = max(base, range->start);
	unsigned long end = min(ib_umem_end(odp), range->end);
	struct oxe_odp_owner *owner;

	if (mmu_notifier_range_blockable(range))
		mutex_lock(&odp->umem_mutex);
	else if (!mutex_trylock(&odp->umem_mutex))
		return false;
	mmu_interval_set_seq(notifier, seq);
	/* There is no owner until oxe_odp_get() is done, and no page is mapped before that. */
	owner = odp->private;
	if (owner)
		owner->gone(owner, (start - base) >> PAGE_SHIFT,
			    (PAGE_ALIGN(end) - round_down(start, PAGE_SIZE)) >> PAGE_SHIFT);
	mutex_unlock(&odp->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_ops = {
	.invalidate = invalidate,
};

/* Process context. Returns an error pointer if the range or the rights are not possible. */
struct ib_umem *oxe_odp_get(struct ib_device *ib, u64 addr, u64 len, int access,
			    struct oxe_odp_owner *owner)
{
	struct ib_umem_odp *odp = ib_umem_odp_get(ib, addr, len, access, &notifier_ops);

	if (IS_ERR(odp))
		return ERR_CAST(odp);
	mutex_lock(&odp->umem_mutex);
	odp->private = owner;
	mutex_unlock(&odp->umem_mutex);
	return &odp->umem;
}

/* The owner is told that all pages go, and is not called any more on return. */
void oxe_odp_release(struct ib_umem *umem)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(umem);
	struct oxe_odp_owner *owner;

	mutex_lock(&odp->umem_mutex);
	owner = odp->private;
	owner->gone(owner, 0, oxe_odp_page_count(umem));
	odp->private = NULL;
	mutex_unlock(&odp->umem_mutex);
	ib_umem_odp_release(odp);
}

size_t oxe_odp_page_count(struct ib_umem *umem)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(umem);

	return (ib_umem_end(odp) - ib_umem_start(odp)) >> PAGE_SHIFT;
}

/* The offset of the region's first byte in its first page, which may be a huge one. */
size_t oxe_odp_first_byte(struct ib_umem *umem)
{
	return umem->address - ib_umem_start(to_ib_umem_odp(umem));
}

/* How often a page is asked for, and a range looked up, before the access has to come again. */
enum { ROUNDS = 16 };

/*
 * Makes a page present, with the mmap lock held; *locked tells whether it still is. Without
 * FAULT_FLAG_TRIED a wait for a file drops the lock each time. -EAGAIN to look for it again.
 *
 * A fault handler of a file may wait in a way that no signal ends. A thread in it would be in the
 * module's code when that is unloaded: *pinned keeps the module. It is the caller's to give back.
 */
static int fault_in(struct mm_struct *mm, unsigned long addr, bool write, bool *locked,
		    bool *pinned)
{
	struct vm_area_struct *vma = vma_lookup(mm, addr);
	vm_fault_t fault;

	if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP) || !(vma->vm_flags & VM_READ))
		return -EFAULT;
	if (write && !(vma->vm_flags & VM_WRITE))
		return -EPERM;
	if (vma->vm_ops && !*pinned) {
		if (!try_module_get(THIS_MODULE))
			return -EINTR;
		*pinned = true;
	}
	fault = handle_mm_fault(vma, addr,
				FAULT_FLAG_REMOTE | FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE |
					(write ? FAULT_FLAG_WRITE : 0),
				NULL);
	if (fault & (VM_FAULT_COMPLETED | VM_FAULT_RETRY)) {
		*locked = false;
		if (fatal_signal_pending(current))
			return -EINTR;
		return fault & VM_FAULT_COMPLETED ? 0 : -EAGAIN;
	}
	return fault & VM_FAULT_ERROR ? vm_fault_to_errno(fault, 0) : 0;
}

/* As fault_in(), until the page is there. -EBUSY if it goes again each time. */
static int fault_in_page(struct mm_struct *mm, unsigned long addr, bool write, bool *locked,
			 bool *pinned)
{
	int round, err;

	for (round = 0; round < ROUNDS; round++) {
		if (!*locked && mmap_read_lock_killable(mm))
			return -EINTR;
		*locked = true;
		if (check_stable_address_space(mm))
			return -EFAULT;
		err = fault_in(mm, addr, write, locked, pinned);
		if (err != -EAGAIN)
			return err;
	}
	return -EBUSY;
}

/*
 * Looks the pages of @range up, and makes those present that are missing, if @fault: then they are
 * to be looked up again, -EAGAIN. The memory manager may take them back meanwhile.
 */
static int walk(struct hmm_range *range, bool write, bool fault, bool *pinned)
{
	struct mm_struct *mm = range->notifier->mm;
	unsigned long wanted = HMM_PFN_VALID | (write ? HMM_PFN_WRITE : 0);
	unsigned long addr = range->start;
	unsigned long *pfn = range->hmm_pfns;
	bool locked = true;
	int err;

	range->notifier_seq = mmu_interval_read_begin(range->notifier);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	err = hmm_range_fault(range);
	if (err == -EBUSY)
		err = -EAGAIN;
	for (; fault && (!err || err == -EAGAIN) && addr < range->end; addr += PAGE_SIZE, pfn++) {
		if ((*pfn & wanted) == wanted)
			continue;
		err = *pfn & HMM_PFN_ERROR ? -EFAULT :
					     fault_in_page(mm, addr, write, &locked, pinned);
		if (!err)
			err = -EAGAIN;
	}
	if (locked)
		mmap_read_unlock(mm);
	return err;
}

/*
 * Looks up pages, and with @fault makes them present, for writing if @write. Returns 0 with the
 * region's mutex held until oxe_odp_unlock(): for so long the entries of @pfns hold, which were
 * zero before. Otherwise returns a negative errno: -EBUSY if the memory manager takes the pages
 * back again and again, -EINTR if the thread is to end. Process context, any process; sleeps. The
 * caller keeps the memory of the process.
 *
 * Several calls for one region may run at a time, each with its own @pfns. Calls of
 * ib_umem_odp_map_dma_and_lock() write into one array, without the mutex: a call that was held up
 * can enter a page there that is freed by then, and another one takes it for its own result.
 */
int oxe_odp_map_and_lock(struct ib_umem *umem, size_t first, size_t count, bool write, bool fault,
			 unsigned long *pfns)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(umem);
	unsigned long start = ib_umem_start(odp) + (first << PAGE_SHIFT);
	struct hmm_range range = {
		.notifier = &odp->notifier,
		.start = start,
		.end = start + (count << PAGE_SHIFT),
		.hmm_pfns = pfns,
	};
	bool pinned = false;
	int round, err = -EAGAIN;

	for (round = 0; round < ROUNDS && err == -EAGAIN; round++) {
		err = walk(&range, write, fault, &pinned);
		if (!err) {
			mutex_lock(&odp->umem_mutex);
			if (mmu_interval_read_retry(&odp->notifier, range.notifier_seq)) {
				mutex_unlock(&odp->umem_mutex);
				err = -EAGAIN;
			}
		}
		cond_resched();
	}
	if (pinned)
		module_put(THIS_MODULE);
	return err == -EAGAIN ? -EBUSY : err;
}

/*
 * The kernel address of a page that was found, or null if it is not present. -EFAULT if the kernel
 * has no access to it there: memory of memfd_secret() has struct pages, and is taken out of the
 * kernel's map before a process gets it. Pinning refuses such memory, looking up pages for a device
 * does not. With the region's mutex held.
 */
void *oxe_odp_page(unsigned long pfn, bool *writable)
{
	void *address;
	u8 byte;

	if (!(pfn & HMM_PFN_VALID) || pfn & HMM_PFN_ERROR)
		return NULL;
	*writable = pfn & HMM_PFN_WRITE;
	address = page_address(hmm_pfn_to_page(pfn));
	return copy_from_kernel_nofault(&byte, address, 1) ? ERR_PTR(-EFAULT) : address;
}

void oxe_odp_unlock(struct ib_umem *umem)
{
	mutex_unlock(&to_ib_umem_odp(umem)->umem_mutex);
}

/* The page of this kernel address was written to. Does not sleep. */
void oxe_odp_mark_dirty(void *address)
{
	folio_mark_dirty(virt_to_folio(address));
}

/* ---- The memory of a process, and the threads that fault in it. */

struct mm_struct *oxe_odp_current_mm(void)
{
	return current->mm;
}

/* A reference to the structure, not to the memory. */
void oxe_odp_mm_grab(struct mm_struct *mm)
{
	mmgrab(mm);
}

void oxe_odp_mm_drop(struct mm_struct *mm)
{
	mmdrop(mm);
}

/* A reference to the memory. False if it is gone. */
bool oxe_odp_mm_get(struct mm_struct *mm)
{
	return mmget_not_zero(mm);
}

/* Any context. */
void oxe_odp_mm_put(struct mm_struct *mm)
{
	mmput_async(mm);
}

/* The same for the process that a region belongs to; see ib_umem_odp_get(). */
bool oxe_odp_get_mm(struct ib_umem *umem)
{
	return mmget_not_zero(umem->owning_mm);
}

void oxe_odp_put_mm(struct ib_umem *umem)
{
	mmput_async(umem->owning_mm);
}

/*
 * Whether there are no references to the memory but those @held: no process has it. Then a further
 * one is taken. The caller sees to it that @held does not change.
 */
bool oxe_odp_mm_get_orphan(struct mm_struct *mm, u32 held)
{
	return atomic_read(&mm->mm_users) == held && mmget_not_zero(mm);
}

/*
 * Gives the pages of the memory back, and one reference to it, which no process has any more.
 * Returns whether all are given back; it does not wait for the lock that a fault may hold. Process
 * context, a kernel thread.
 */
bool oxe_odp_mm_reap(struct mm_struct *mm)
{
	unsigned long start, end = 0;
	struct vm_area_struct *vma;
	bool all = true;

	/* This thread is in a function of the module: see fault_in(). */
	if (!try_module_get(THIS_MODULE)) {
		mmput_async(mm);
		return false;
	}
	kthread_use_mm(mm);
	for (;;) {
		if (!mmap_read_trylock(mm)) {
			all = false;
			break;
		}
		vma = find_vma(mm, end);
		if (!vma) {
			mmap_read_unlock(mm);
			break;
		}
		start = vma->vm_start;
		end = vma->vm_end;
		/* Memory that is sealed cannot be unmapped. */
		if (!(vma->vm_flags & (VM_IO | VM_PFNMAP)))
			zap_vma_range(vma, start, end - start);
		mmap_read_unlock(mm);
		if (rwsem_is_locked(&mm->mmap_lock))
			all = false;
		else
			vm_munmap(start, end - start);
		cond_resched();
	}
	kthread_unuse_mm(mm);
	mmput_async(mm);
	module_put(THIS_MODULE);
	return all;
}

struct task_struct *oxe_odp_current(void)
{
	return current;
}

/* From now on this kernel thread may be sent SIGKILL, by the kernel alone. */
void oxe_odp_allow_kill(void)
{
	allow_kernel_signal(SIGKILL);
}

/* Takes oxe_odp_allow_kill() back, and a signal that has come. */
void oxe_odp_forbid_kill(void)
{
	disallow_signal(SIGKILL);
}

/* Ends a wait of the thread, if it heeds signals. The thread is there. Process context. */
void oxe_odp_kill(struct task_struct *task)
{
	send_sig(SIGKILL, task, 1);
}
