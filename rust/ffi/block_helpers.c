// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for rows of packets, used again and again: the kernel clears pages before it gives them out, which costs as much
 * as a copy. Each CPU has a few blocks; one whose packet is gone has no reference left but ours.
 */
#include <linux/gfp.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sizes.h>

#include "net_helpers.h"

#define BLOCKS 8

/* The lock is for kernels where bottom halves that are off may be preempted (PREEMPT_RT); on others it only checks that. */
struct blocks {
	local_lock_t lock;
	struct page *pages[BLOCKS];
	unsigned int next;
};

static DEFINE_PER_CPU(struct blocks, blocks) = { .lock = INIT_LOCAL_LOCK(lock) };

/* One of this CPU's blocks, or a new one, with a reference for the caller. */
static void *get_block(struct blocks *mine)
{
	struct page **place, *page;
	unsigned int i;

	for (i = 0; i < BLOCKS; i++) {
		place = &mine->pages[mine->next++ % BLOCKS];
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
	page = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP, get_order(OXE_BLOCK));
	if (!page)
		return NULL;
	if (!*place && !page_is_pfmemalloc(page)) {
		get_page(page);
		*place = page;
	}
	return page_address(page);
}

/*
 * A block of OXE_BLOCK bytes with a reference for the caller, who gives it up with page_frag_free; or NULL. What is in
 * it is left over from an earlier packet. Bottom halves off.
 */
void *oxe_block_get(void)
{
	void *block;

	local_lock_nested_bh(&blocks.lock);
	block = get_block(this_cpu_ptr(&blocks));
	local_unlock_nested_bh(&blocks.lock);
	return block;
}

/* Give all of them back. Nobody asks for one any more. */
void oxe_blocks_free(void)
{
	unsigned int cpu, i;

	for_each_possible_cpu(cpu) {
		struct blocks *its = per_cpu_ptr(&blocks, cpu);

		for (i = 0; i < BLOCKS; i++) {
			if (its->pages[i])
				put_page(its->pages[i]);
			its->pages[i] = NULL;
		}
	}
}
