// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for GSO super-packets, used again and again: where the kernel clears pages when it allocates them, that costs as
 * much as a copy. Each CPU has a few chunks; one whose packet is freed has no reference left but ours.
 */
#include <linux/gfp.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sizes.h>

#include "net_helpers.h"

#define CHUNKS 8

/* The lock is for kernels where bottom halves that are off may be preempted (PREEMPT_RT); on others it only checks that. */
struct page_cache {
	local_lock_t lock;
	struct page *pages[CHUNKS];
	unsigned int next;
};

static DEFINE_PER_CPU(struct page_cache, page_cache) = { .lock = INIT_LOCAL_LOCK(lock) };

/* One of this CPU's chunks, or a new one, with a reference for the caller. */
static void *get_page_chunk(struct page_cache *mine)
{
	struct page **place, *page;
	unsigned int i;

	for (i = 0; i < CHUNKS; i++) {
		place = &mine->pages[mine->next++ % CHUNKS];
		page = *place;
		if (!page)
			break;
		/* Only we take references to it, so that it stays at one; somebody who merely looks at pages does no harm. */
		if (page_ref_count(page) == 1) {
			get_page(page);
			return page_address(page);
		}
	}
	/* If all are still on their way, they stay, and this one serves once. */
	page = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP, get_order(OXE_CHUNK));
	if (!page)
		return NULL;
	if (!*place && !page_is_pfmemalloc(page)) {
		get_page(page);
		*place = page;
	}
	return page_address(page);
}

/*
 * A chunk of OXE_CHUNK bytes with a reference for the caller, who gives it up with page_frag_free; or NULL. What is in
 * it is left over from an earlier packet. Bottom halves off.
 */
void *oxe_page_cache_get(void)
{
	void *chunk;

	local_lock_nested_bh(&page_cache.lock);
	chunk = get_page_chunk(this_cpu_ptr(&page_cache));
	local_unlock_nested_bh(&page_cache.lock);
	return chunk;
}

/* Give all of them back. Nobody asks for one any more. */
void oxe_page_cache_free(void)
{
	unsigned int cpu, i;

	for_each_possible_cpu(cpu) {
		struct page_cache *its = per_cpu_ptr(&page_cache, cpu);

		for (i = 0; i < CHUNKS; i++) {
			if (its->pages[i])
				put_page(its->pages[i]);
			its->pages[i] = NULL;
		}
	}
}
