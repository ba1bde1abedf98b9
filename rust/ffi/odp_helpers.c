// SPDX-License-Identifier: GPL-2.0
/* On-demand paging: between the RDMA core, which faults pages in, and rust/rdma/odp.rs. */

#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <linux/version.h>
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

/*
 * Looks the pages of @range up, and makes them present if its flags ask for that. The memory
 * manager may take them back meanwhile. -EBUSY after the time that the RDMA core waits, too.
 */
static int walk(struct hmm_range *range)
{
	unsigned long timeout = msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
	return hmm_range_fault_unlocked_timeout(range, timeout);
#else
	struct mm_struct *mm = range->notifier->mm;
	unsigned long end = jiffies + timeout;
	int err;

	do {
		range->notifier_seq = mmu_interval_read_begin(range->notifier);
		if (mmap_read_lock_killable(mm))
			return -EINTR;
		err = hmm_range_fault(range);
		mmap_read_unlock(mm);
	} while (err == -EBUSY && !time_after(jiffies, end));
	return err;
#endif
}

/*
 * Looks up pages, and with @fault makes them present, for writing if @write. Returns 0 with the
 * region's mutex held until oxe_odp_unlock(): for so long the entries of @pfns hold, which were
 * zero before. Otherwise returns a negative errno. Process context, any process; sleeps.
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
		.default_flags = !fault ? 0 : HMM_PFN_REQ_FAULT | (write ? HMM_PFN_REQ_WRITE : 0),
	};
	int err;

	/* The notifier keeps the structure, not the memory of a process that has ended. */
	if (!mmget_not_zero(umem->owning_mm))
		return -EINVAL;
	for (;;) {
		err = walk(&range);
		if (err)
			break;
		mutex_lock(&odp->umem_mutex);
		if (!mmu_interval_read_retry(&odp->notifier, range.notifier_seq))
			break;
		mutex_unlock(&odp->umem_mutex);
	}
	mmput_async(umem->owning_mm);
	return err;
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
