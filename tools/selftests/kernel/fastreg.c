// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: pages that a peer reads and writes by keys that live for a while.
 */
#include <linux/mm.h>
#include "ktest.h"
#include "pages.h"

static int simple(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(3, 0);
	struct kt_buf buf __free(kt_buf) = kt_alloc(3 * PAGE_SIZE);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 3);

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count && buf.va);
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, 3, NULL, PAGE_SIZE), 3);
	KT_OK(kt_register(&pair->b, mr, KT_ACCESS_ALL));
	kt_fill(buf.va, buf.len, 0, 1);
	KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, buf.va, buf.len, mr->iova, mr->rkey,
			     IB_WC_SUCCESS));
	KT_EXPECT(!kt_pages_differ(&pages, 0, buf.len, 0, 1));
	return 0;
}

const struct kt_case kt_fastreg_cases[] = {
	{ "a WRITE to registered pages", simple },
	{}
};
