/* SPDX-License-Identifier: GPL-2.0 */
/*
 * On-demand paging: memory of a process whose pages are not pinned. Pages are counted from the
 * first one of the region.
 */
#ifndef OXE_ODP_HELPERS_H
#define OXE_ODP_HELPERS_H

#include <linux/types.h>

struct ib_device;
struct ib_umem;
struct mm_struct;
struct task_struct;

/* The owner of a region, embedded in its own structure. */
struct oxe_odp_owner {
	/*
	 * Pages are about to go: on return the owner accesses none of them any more. Process
	 * context, with the region's mutex held; does not sleep and does not allocate.
	 */
	void (*gone)(struct oxe_odp_owner *owner, size_t first, size_t count);
};

struct ib_umem *oxe_odp_get(struct ib_device *ib, u64 addr, u64 len, int access,
			    struct oxe_odp_owner *owner);
void oxe_odp_release(struct ib_umem *umem);
size_t oxe_odp_page_count(struct ib_umem *umem);
size_t oxe_odp_first_byte(struct ib_umem *umem);
int oxe_odp_map_and_lock(struct ib_umem *umem, size_t first, size_t count, bool write, bool fault,
			 unsigned long *pfns);
void *oxe_odp_page(unsigned long pfn, bool *writable);
void oxe_odp_unlock(struct ib_umem *umem);
void oxe_odp_mark_dirty(void *address);
bool oxe_odp_get_mm(struct ib_umem *umem);
void oxe_odp_put_mm(struct ib_umem *umem);

struct mm_struct *oxe_odp_current_mm(void);
void oxe_odp_mm_grab(struct mm_struct *mm);
void oxe_odp_mm_drop(struct mm_struct *mm);
bool oxe_odp_mm_get(struct mm_struct *mm);
void oxe_odp_mm_put(struct mm_struct *mm);
bool oxe_odp_mm_get_orphan(struct mm_struct *mm, u32 held);
bool oxe_odp_mm_reap(struct mm_struct *mm);
struct task_struct *oxe_odp_current(void);
void oxe_odp_allow_kill(void);
void oxe_odp_forbid_kill(void);
void oxe_odp_kill(struct task_struct *task);

#endif
