// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that lie apart from each other, and their registration.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include "pages.h"

/*
 * No two blocks are neighbours in memory: each is the first half of an allocation of twice its
 * size. A count of 0 says that there was no memory.
 */
struct kt_pages kt_pages_alloc(unsigned int count, unsigned int order)
{
	struct kt_pages pages = { .order = order };

	pages.pages = kvcalloc(count, sizeof(*pages.pages), GFP_KERNEL);
	pages.sgl = kvcalloc(count, sizeof(*pages.sgl), GFP_KERNEL);
	if (!pages.pages || !pages.sgl)
		goto fail;
	for (; pages.count < count; pages.count++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO, order + 1);

		if (!page)
			goto fail;
		pages.pages[pages.count] = page;
	}
	kt_pages_cut(&pages, count, 0, PAGE_SIZE << order);
	return pages;
fail:
	kt_pages_free(&pages);
	return (struct kt_pages){};
}

void kt_pages_free(struct kt_pages *pages)
{
	unsigned int i;

	for (i = 0; i < pages->count; i++)
		__free_pages(pages->pages[i], pages->order + 1);
	kvfree(pages->pages);
	kvfree(pages->sgl);
}

/*
 * The scatter list has the first "count" blocks, the first of them without its first "first" bytes,
 * and of the last one no more than "last" bytes from its start.
 */
void kt_pages_cut(struct kt_pages *pages, unsigned int count, unsigned int first,
		  unsigned int last)
{
	unsigned int i, from, end;

	sg_init_table(pages->sgl, count);
	for (i = 0; i < count; i++) {
		from = i ? 0 : first;
		end = i == count - 1 ? last : PAGE_SIZE << pages->order;
		sg_set_page(&pages->sgl[i], pages->pages[i], end - from, from);
		/* RDMA devices in software take virtual addresses. */
		sg_dma_address(&pages->sgl[i]) = (uintptr_t)sg_virt(&pages->sgl[i]);
		sg_dma_len(&pages->sgl[i]) = end - from;
	}
}

/* The next part of the "len" bytes at "at" that lies in one block; returns its length. */
static size_t part_of(struct kt_pages *pages, size_t at, size_t len, u8 **va)
{
	size_t size = PAGE_SIZE << pages->order, skip = at & (size - 1);

	*va = (u8 *)page_address(pages->pages[at / size]) + skip;
	return min(len, size - skip);
}

void kt_pages_fill(struct kt_pages *pages, u8 byte)
{
	unsigned int i;

	for (i = 0; i < pages->count; i++)
		memset(page_address(pages->pages[i]), byte, PAGE_SIZE << pages->order);
}

/* Whether the "len" bytes from "from" on are other ones than the pattern has at "at". */
bool kt_pages_differ(struct kt_pages *pages, size_t from, size_t len, u64 at, u32 seed)
{
	size_t done, n;
	u8 *va;

	for (done = 0; done < len; done += n) {
		n = part_of(pages, from + done, len - done, &va);
		if (kt_differs(va, n, at + done, seed))
			return true;
	}
	return false;
}

/* Whether any of these bytes is another one than "byte". */
bool kt_pages_touched(struct kt_pages *pages, size_t from, size_t len, u8 byte)
{
	size_t done, n;
	u8 *va;

	for (done = 0; done < len; done += n) {
		n = part_of(pages, from + done, len - done, &va);
		if (memchr_inv(va, byte, n)) {
			kt_note("bytes from %zu on were changed", from + done);
			return true;
		}
	}
	return false;
}

int kt_register_status(struct kt_end *end, struct ib_mr *mr, u32 key, int access, int status)
{
	struct ib_reg_wr wr = {
		.wr = {
			.wr_id = 11,
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.mr = mr,
		.key = key,
		.access = access,
	};

	KT_OK(ib_post_send(end->qp, &wr.wr, NULL));
	return kt_wait_for(end->scq, 11, status, NULL);
}

int kt_register(struct kt_end *end, struct ib_mr *mr, int access)
{
	return kt_register_status(end, mr, mr->rkey, access, IB_WC_SUCCESS);
}

int kt_invalidate(struct kt_end *end, u32 key, int status)
{
	struct ib_send_wr wr = {
		.wr_id = 12,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};

	KT_OK(ib_post_send(end->qp, &wr, NULL));
	return kt_wait_for(end->scq, 12, status, NULL);
}
