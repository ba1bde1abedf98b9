// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: pages that a peer reads and writes by keys that live for a while.
 */
#include <linux/mm.h>
#include "pages.h"

#define MIB (1024 * 1024)
#define GUARD 0xee

/*
 * The peer writes to the whole region and reads it back, by requests of up to a MiB. Every byte of
 * the blocks is compared: "first" bytes before the region and those behind it keep their value.
 */
static int write_read(struct kt_pair *pair, struct kt_pages *pages, struct ib_mr *mr,
		      struct kt_buf *buf, size_t first, u32 seed)
{
	size_t all = pages->count * (PAGE_SIZE << pages->order), done, n;

	for (done = 0; done < mr->length; done += n) {
		n = min_t(size_t, mr->length - done, buf->len);
		kt_fill(buf->va, n, done, seed);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, buf->va, n, mr->iova + done,
				     mr->rkey, IB_WC_SUCCESS));
	}
	KT_EXPECT(!kt_pages_touched(pages, 0, first, GUARD));
	KT_EXPECT(!kt_pages_differ(pages, first, mr->length, 0, seed));
	KT_EXPECT(!kt_pages_touched(pages, first + mr->length, all - first - mr->length, GUARD));
	for (done = 0; done < mr->length; done += n) {
		n = min_t(size_t, mr->length - done, buf->len);
		memset(buf->va, 0, n);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_READ, buf->va, n, mr->iova + done,
				     mr->rkey, IB_WC_SUCCESS));
		KT_EXPECT(!kt_differs(buf->va, n, done, seed));
	}
	return 0;
}

/* Registers these blocks under a new key, uses them, and invalidates the key. */
static int round_of(struct kt_pair *pair, struct kt_pages *pages, struct ib_mr *mr,
		    struct kt_buf *buf, size_t first, u32 seed)
{
	kt_pages_fill(pages, GUARD);
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	KT_OK(kt_register(&pair->b, mr, KT_ACCESS_ALL));
	KT_OK(write_read(pair, pages, mr, buf, first, seed));
	return kt_invalidate(&pair->b, mr->rkey, IB_WC_SUCCESS);
}

static int sizes(struct kt_pair *pair)
{
	static const unsigned int counts[] = { 1, 2, 3, 16, 255, 256 };
	static const unsigned int firsts[] = { 0, 1, 100, 4095 };
	static const unsigned int lasts[] = { 4096, 1, 2049 };
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(256, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(MIB);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 256);
	unsigned int i, j, k, first, count, last;

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		for (j = 0; j < ARRAY_SIZE(firsts); j++) {
			for (k = 0; k < ARRAY_SIZE(lasts); k++) {
				count = counts[i], first = firsts[j], last = lasts[k];
				if (count == 1 && last <= first)
					continue;
				kt_pages_cut(&pages, count, first, last);
				KT_EQ(ib_map_mr_sg(mr, pages.sgl, count, NULL, PAGE_SIZE), count);
				KT_EQ(mr->length, (count - 1) * PAGE_SIZE + last - first);
				KT_EQ(mr->iova & (PAGE_SIZE - 1), first);
				KT_OK(round_of(pair, &pages, mr, &buf, first, i + 5 * j + 23 * k));
			}
		}
	}
	return 0;
}

/* As many pages as the device takes, and one more, for which there is no room. */
static int longest(struct kt_pair *pair)
{
	unsigned int max = pair->b.pd->device->attrs.max_fast_reg_page_list_len;
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(max + 1, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(MIB);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, max);

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	kt_pages_cut(&pages, max + 1, 0, PAGE_SIZE);
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, max + 1, NULL, PAGE_SIZE), max);
	KT_EQ(mr->length, max * PAGE_SIZE);
	KT_OK(round_of(pair, &pages, mr, &buf, 0, 3));
	KT_EQ(PTR_ERR(ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, max + 1)), -EINVAL);
	return 0;
}

/* A list that begins in the middle of its first element. */
static int offset(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(4, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(MIB);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 4);
	unsigned int at = 1000;

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	kt_pages_cut(&pages, 4, 0, 123);
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, 4, &at, PAGE_SIZE), 4);
	KT_EQ(mr->length, 3 * PAGE_SIZE + 123 - 1000);
	return round_of(pair, &pages, mr, &buf, 1000, 9);
}

/* Pages larger than the CPU's. */
static int big_pages(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(8, 4);
	struct kt_buf buf __free(kt_buf) = kt_alloc(MIB);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 8);

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	kt_pages_cut(&pages, 8, 5000, 60001);
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, 8, NULL, PAGE_SIZE << 4), 8);
	KT_EQ(mr->length, 7 * (PAGE_SIZE << 4) + 60001 - 5000);
	return round_of(pair, &pages, mr, &buf, 5000, 17);
}

/* A list with a gap is mapped up to there. */
static int gap(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(4, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(MIB);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 4);

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	sg_dma_len(&pages.sgl[1]) = 512;
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, 4, NULL, PAGE_SIZE), 2);
	KT_EQ(mr->length, PAGE_SIZE + 512);
	return round_of(pair, &pages, mr, &buf, 0, 31);
}

/*
 * The next pages are mapped while the previous ones are registered and used; then REG_MR changes
 * over. The chain of INV, REG and SEND is posted at once, as storage does.
 */
static int next_pages(struct kt_pair *pair)
{
	struct kt_pages one __free(kt_pages) = kt_pages_alloc(4, 0);
	struct kt_pages two __free(kt_pages) = kt_pages_alloc(4, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(4 * PAGE_SIZE);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 4);
	struct ib_send_wr inv = { .wr_id = 1, .opcode = IB_WR_LOCAL_INV };
	struct ib_reg_wr reg = { .wr.opcode = IB_WR_REG_MR, .wr.wr_id = 2, .mr = mr };
	struct ib_sge sge = { .lkey = pair->b.pd->local_dma_lkey, .length = 8 };
	struct ib_send_wr send = {
		.wr_id = 3, .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct kt_pages *pages[] = { &one, &two };
	u64 iova;
	int i;

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(one.count && two.count && buf.va);
	KT_EQ(ib_map_mr_sg(mr, one.sgl, 4, NULL, PAGE_SIZE), 4);
	KT_OK(kt_register(&pair->b, mr, KT_ACCESS_ALL));
	sge.addr = (uintptr_t)page_address(one.pages[0]);
	for (i = 0; i < 100; i++) {
		iova = mr->iova;
		KT_EQ(ib_map_mr_sg(mr, pages[!(i & 1)]->sgl, 4, NULL, PAGE_SIZE), 4);
		kt_fill(buf.va, buf.len, 0, i);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, buf.va, buf.len, iova, mr->rkey,
				     IB_WC_SUCCESS));
		KT_EXPECT(!kt_pages_differ(pages[i & 1], 0, buf.len, 0, i));
		inv.ex.invalidate_rkey = mr->rkey;
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		reg.key = mr->rkey;
		reg.access = KT_ACCESS_ALL;
		inv.next = &reg.wr;
		reg.wr.next = &send;
		KT_OK(kt_recv(&pair->a, i, buf.va, 64));
		KT_OK(ib_post_send(pair->b.qp, &inv, NULL));
		KT_OK(kt_wait_for(pair->b.scq, 3, IB_WC_SUCCESS, NULL));
		KT_OK(kt_wait_for(pair->a.rcq, i, IB_WC_SUCCESS, NULL));
	}
	return 0;
}

/* All 256 keys of a region, one after the other: the one before is refused. */
static int old_keys(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(2, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 2);
	u32 old;
	int i;

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	for (i = 0; i < 260; i++) {
		KT_EQ(ib_map_mr_sg(mr, pages.sgl, 2, NULL, PAGE_SIZE), 2);
		old = mr->rkey;
		ib_update_fast_reg_key(mr, ib_inc_rkey(old));
		KT_EXPECT(mr->rkey != old && mr->lkey == mr->rkey);
		KT_OK(kt_register(&pair->b, mr, KT_ACCESS_ALL));
		kt_fill(buf.va, 64, 0, i);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, buf.va, 64, mr->iova, mr->rkey,
				     IB_WC_SUCCESS));
		KT_EXPECT(!kt_pages_differ(&pages, 0, 64, 0, i));
		if (i % 16 == 0) {
			kt_fill(buf.va, 64, 0, i + 1);
			KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, buf.va, 64, mr->iova, old,
					     IB_WC_REM_ACCESS_ERR));
			KT_EXPECT(!kt_pages_differ(&pages, 0, 64, 0, i));
			KT_OK(kt_reset(pair));
		}
		KT_OK(kt_invalidate(&pair->b, mr->rkey, IB_WC_SUCCESS));
	}
	return 0;
}

const struct kt_case kt_fastreg_cases[] = {
	{ "regions of 1 to 256 pages, with parts of pages, are written and read", sizes },
	{ "a region of as many pages as the device takes", longest },
	{ "a list that begins within its first element", offset },
	{ "a region of large pages", big_pages },
	{ "a list with a gap is mapped as far as that", gap },
	{ "next pages are mapped while the previous ones are in use", next_pages },
	{ "all keys of a region, and the one before is refused", old_keys },
	{}
};
