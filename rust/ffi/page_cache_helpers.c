// SPDX-License-Identifier: GPL-2.0
/*
 * Page cache for GSO super-packets, and one of smaller chunks for packets that are longer than a
 * page. Memory is reused: where the kernel clears pages when it allocates them, that costs as much
 * as a copy. Each CPU has a few chunks of either size. When the packet of a chunk is freed, the
 * chunk has no reference left but ours.
 */
#include <linux/gfp.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sizes.h>

#include "net_helpers.h"

#define CHUNKS 8

/*
 * The lock is for PREEMPT_RT, where code with bottom halves off may be preempted. On other kernels
 * it only checks that they are off.
 */
struct page_cache {
	local_lock_t lock;
	struct chunks {
		struct page *pages[CHUNKS];
		unsigned int next;
	} small, large;
};

static DEFINE_PER_CPU(struct page_cache, page_cache) = { .lock = INIT_LOCAL_LOCK(lock) };

/* One of this CPU's chunks, or a new one, with a reference for the caller. */
static void *get_page_chunk(struct chunks *mine, u32 size)
{
	struct page **place, *page;
	unsigned int i;

	for (i = 0; i < CHUNKS; i++) {
		place = &mine->pages[mine->next++ % CHUNKS];
		page = *place;
		if (!page)
			break;
		/*
		 * Only this code takes references to the page, so the count stays at one. Code that
		 * merely looks at pages does no harm.
		 */
		if (page_ref_count(page) == 1) {
			get_page(page);
			return page_address(page);
		}
	}
	/* If all chunks are still in flight, they stay, and this one is used only once. */
	page = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP, get_order(size));
	if (!page)
		return NULL;
	if (!*place && !page_is_pfmemalloc(page)) {
		get_page(page);
		*place = page;
	}
	return page_address(page);
}

/*
 * A chunk of OXE_SMALL_CHUNK or OXE_CHUNK bytes with a reference that the caller drops with
 * page_frag_free; or NULL. It holds old content of an earlier packet. Bottom halves off.
 */
void *oxe_page_cache_get(u32 size)
{
	struct page_cache *mine;
	void *chunk;

	local_lock_nested_bh(&page_cache.lock);
	mine = this_cpu_ptr(&page_cache);
	chunk = get_page_chunk(size == OXE_CHUNK ? &mine->large : &mine->small, size);
	local_unlock_nested_bh(&page_cache.lock);
	return chunk;
}

static void free_chunks(struct chunks *its)
{
	unsigned int i;

	for (i = 0; i < CHUNKS; i++) {
		if (its->pages[i])
			put_page(its->pages[i]);
		its->pages[i] = NULL;
	}
}

/* Frees all chunks. The caller ensures that none is requested any more. */
void oxe_page_cache_free(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		free_chunks(&per_cpu_ptr(&page_cache, cpu)->small);
		free_chunks(&per_cpu_ptr(&page_cache, cpu)->large);
	}
}
