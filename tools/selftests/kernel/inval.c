// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a registration, and registrations that are refused.
 */
#include <linux/mm.h>
#include "pages.h"

/* A registered region of two pages, which the peer has written to once. */
struct region {
	struct kt_pages pages;
	struct kt_buf buf;
	struct ib_mr *mr;
};

static void region_free(struct region *region)
{
	if (!IS_ERR_OR_NULL(region->mr))
		ib_dereg_mr(region->mr);
	kt_free(&region->buf);
	kt_pages_free(&region->pages);
}
DEFINE_FREE(region, struct region, region_free(&_T))

static int region_make(struct region *region, struct kt_pair *pair, int access)
{
	region->pages = kt_pages_alloc(2, 0);
	region->buf = kt_alloc(2 * PAGE_SIZE);
	KT_EXPECT(region->pages.count && region->buf.va);
	region->mr = ib_alloc_mr(pair->b.pd, IB_MR_TYPE_MEM_REG, 2);
	KT_OK(PTR_ERR_OR_ZERO(region->mr));
	KT_EQ(ib_map_mr_sg(region->mr, region->pages.sgl, 2, NULL, PAGE_SIZE), 2);
	return kt_register(&pair->b, region->mr, access);
}

/* The peer's WRITE or READ of "len" bytes at "at" ends with this status. */
static int use(struct kt_pair *pair, struct region *region, enum ib_wr_opcode opcode, u64 at,
	       u32 len, int status)
{
	return kt_rdma_status(&pair->a, opcode, region->buf.va, len, region->mr->iova + at,
			      region->mr->rkey, status);
}

/* The key is refused, and the pages stay as they are. */
static int is_dead(struct kt_pair *pair, struct region *region)
{
	kt_pages_fill(&region->pages, 0x55);
	memset(region->buf.va, 0xaa, region->buf.len);
	KT_OK(use(pair, region, IB_WR_RDMA_WRITE, 0, 64, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(use(pair, region, IB_WR_RDMA_READ, 0, 64, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_EXPECT(!kt_pages_touched(&region->pages, 0, 2 * PAGE_SIZE, 0x55));
	KT_EXPECT(!memchr_inv(region->buf.va, 0xaa, region->buf.len));
	return 0;
}

static int local_inv(struct kt_pair *pair)
{
	struct region region __free(region) = {};

	KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
	KT_OK(use(pair, &region, IB_WR_RDMA_WRITE, 0, 8192, IB_WC_SUCCESS));
	KT_OK(kt_invalidate(&pair->b, region.mr->rkey, IB_WC_SUCCESS));
	KT_OK(is_dead(pair, &region));
	/* It does no harm again. */
	return kt_invalidate(&pair->b, region.mr->rkey, IB_WC_SUCCESS);
}

static int send_with_inv(struct kt_pair *pair)
{
	struct region region __free(region) = {};
	struct ib_sge sge = { .lkey = pair->a.pd->local_dma_lkey, .length = 16 };
	struct ib_send_wr wr = {
		.wr_id = 5, .opcode = IB_WR_SEND_WITH_INV, .sg_list = &sge, .num_sge = 1,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_wc wc;

	KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
	KT_OK(use(pair, &region, IB_WR_RDMA_READ, 0, 8192, IB_WC_SUCCESS));
	sge.addr = (uintptr_t)region.buf.va;
	wr.ex.invalidate_rkey = region.mr->rkey;
	KT_OK(kt_recv(&pair->b, 6, region.buf.va + PAGE_SIZE, 16));
	kt_fill(region.buf.va, 16, 0, 8);
	KT_OK(ib_post_send(pair->a.qp, &wr, NULL));
	KT_OK(kt_wait_for(pair->a.scq, 5, IB_WC_SUCCESS, NULL));
	KT_OK(kt_wait_for(pair->b.rcq, 6, IB_WC_SUCCESS, &wc));
	KT_EXPECT(wc.wc_flags & IB_WC_WITH_INVALIDATE);
	KT_EQ(wc.ex.invalidate_rkey, region.mr->rkey);
	KT_EQ(wc.byte_len, 16);
	KT_EXPECT(!kt_differs(region.buf.va + PAGE_SIZE, 16, 0, 8));
	KT_OK(is_dead(pair, &region));
	/* A key that is dead already is an error of both. */
	sge.addr = (uintptr_t)region.buf.va;
	KT_OK(kt_recv(&pair->b, 6, region.buf.va + PAGE_SIZE, 16));
	KT_OK(ib_post_send(pair->a.qp, &wr, NULL));
	KT_OK(kt_wait_for(pair->a.scq, 5, IB_WC_REM_ACCESS_ERR, NULL));
	return kt_wait_for(pair->b.rcq, 6, IB_WC_REM_INV_REQ_ERR, NULL);
}

/* A READ into the region, whose key ends with it. */
static int read_with_inv(struct kt_pair *pair)
{
	struct region source __free(region) = {}, sink __free(region) = {};
	struct ib_sge sge = { .length = 8192 };
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_id = 7, .opcode = IB_WR_RDMA_READ_WITH_INV, .sg_list = &sge,
			.num_sge = 1, .send_flags = IB_SEND_SIGNALED,
		},
	};
	struct kt_pair back = { .a = pair->b, .b = pair->a };

	KT_OK(region_make(&source, &back, IB_ACCESS_REMOTE_READ));
	KT_OK(region_make(&sink, pair, KT_ACCESS_ALL));
	kt_fill(page_address(source.pages.pages[0]), PAGE_SIZE, 0, 4);
	kt_fill(page_address(source.pages.pages[1]), PAGE_SIZE, PAGE_SIZE, 4);
	sge.addr = sink.mr->iova;
	sge.lkey = sink.mr->lkey;
	wr.remote_addr = source.mr->iova;
	wr.rkey = source.mr->rkey;
	wr.wr.ex.invalidate_rkey = sink.mr->rkey;
	KT_OK(ib_post_send(pair->b.qp, &wr.wr, NULL));
	KT_OK(kt_wait_for(pair->b.scq, 7, IB_WC_SUCCESS, NULL));
	KT_EXPECT(!kt_pages_differ(&sink.pages, 0, 8192, 0, 4));
	return is_dead(pair, &sink);
}

/* Each access right by itself, and the bounds. */
static int rights(struct kt_pair *pair)
{
	struct region reads __free(region) = {}, writes __free(region) = {};

	KT_OK(region_make(&reads, pair, IB_ACCESS_REMOTE_READ));
	KT_OK(region_make(&writes, pair, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	KT_OK(use(pair, &reads, IB_WR_RDMA_READ, 0, 8192, IB_WC_SUCCESS));
	KT_OK(use(pair, &writes, IB_WR_RDMA_WRITE, 0, 8192, IB_WC_SUCCESS));
	KT_OK(use(pair, &reads, IB_WR_RDMA_WRITE, 0, 1, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(use(pair, &writes, IB_WR_RDMA_READ, 0, 1, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(use(pair, &reads, IB_WR_RDMA_READ, 1, 8192, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(use(pair, &writes, IB_WR_RDMA_WRITE, -1, 1, IB_WC_REM_ACCESS_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(use(pair, &reads, IB_WR_RDMA_READ, 0, 8192, IB_WC_SUCCESS));
	return 0;
}

/* The request is refused, and the QP is in the error state: what follows is flushed. */
static int refused(struct kt_pair *pair, struct ib_mr *mr, u32 key, int access)
{
	KT_OK(kt_register_status(&pair->b, mr, key, access, IB_WC_MW_BIND_ERR));
	KT_OK(kt_invalidate(&pair->b, mr->rkey, IB_WC_WR_FLUSH_ERR));
	return kt_reset(pair);
}

static int register_valid(struct kt_pair *pair)
{
	struct region region __free(region) = {};
	struct kt_pages other __free(kt_pages) = kt_pages_alloc(2, 0);

	KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
	KT_EXPECT(other.count);
	KT_OK(refused(pair, region.mr, region.mr->rkey, KT_ACCESS_ALL));
	KT_OK(refused(pair, region.mr, ib_inc_rkey(region.mr->rkey), KT_ACCESS_ALL));
	/* The pages that were mapped for the request that failed are not used. */
	KT_EQ(ib_map_mr_sg(region.mr, other.sgl, 2, NULL, PAGE_SIZE), 2);
	KT_OK(refused(pair, region.mr, region.mr->rkey, KT_ACCESS_ALL));
	region.mr->iova = sg_dma_address(region.pages.sgl);
	kt_fill(region.buf.va, 8192, 0, 44);
	KT_OK(use(pair, &region, IB_WR_RDMA_WRITE, 0, 8192, IB_WC_SUCCESS));
	KT_EXPECT(!kt_pages_differ(&region.pages, 0, 8192, 0, 44));
	KT_EXPECT(!kt_pages_touched(&other, 0, 8192, 0));
	return 0;
}

/* Local and remote keys of another protection domain than the QP's. */
static int other_pd(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(1, 0);
	struct ib_pd *pd = ib_alloc_pd(pair->b.host->dev, 0);
	struct ib_mr *mr;
	int error;

	KT_OK(PTR_ERR_OR_ZERO(pd));
	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	error = PTR_ERR_OR_ZERO(mr);
	if (!error) {
		error = ib_map_mr_sg(mr, pages.sgl, 1, NULL, PAGE_SIZE) == 1 ? 0 : -EPROTO;
		error = error ?: refused(pair, mr, mr->rkey, KT_ACCESS_ALL);
		error = error ?: kt_invalidate(&pair->b, mr->rkey, IB_WC_MW_BIND_ERR);
		ib_dereg_mr(mr);
	}
	ib_dealloc_pd(pd);
	return error;
}

/* Remote writes need the right to write locally; there are no pages on demand. */
static int wrong_rights(struct kt_pair *pair)
{
	struct region region __free(region) = {};

	KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
	KT_OK(kt_invalidate(&pair->b, region.mr->rkey, IB_WC_SUCCESS));
	KT_OK(refused(pair, region.mr, region.mr->rkey, IB_ACCESS_REMOTE_WRITE));
	KT_OK(refused(pair, region.mr, region.mr->rkey, IB_ACCESS_REMOTE_ATOMIC));
	KT_OK(refused(pair, region.mr, region.mr->rkey, KT_ACCESS_ALL | IB_ACCESS_ON_DEMAND));
	KT_OK(kt_register(&pair->b, region.mr, KT_ACCESS_ALL));
	return use(pair, &region, IB_WR_RDMA_WRITE, 0, 8192, IB_WC_SUCCESS);
}

/* LOCAL_INV of keys that name nothing, or a region that lasts. */
static int wrong_keys(struct kt_pair *pair)
{
	struct region region __free(region) = {};

	KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
	KT_OK(kt_invalidate(&pair->b, ib_inc_rkey(region.mr->rkey), IB_WC_MW_BIND_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(kt_invalidate(&pair->b, pair->b.pd->local_dma_lkey, IB_WC_MW_BIND_ERR));
	KT_OK(kt_reset(pair));
	KT_OK(kt_invalidate(&pair->b, 0, IB_WC_MW_BIND_ERR));
	KT_OK(kt_reset(pair));
	return use(pair, &region, IB_WR_RDMA_WRITE, 0, 8192, IB_WC_SUCCESS);
}

/* A region that is deregistered while the peer writes to it: its pages are left alone then. */
static int dereg_in_use(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(2 * PAGE_SIZE);
	struct ib_wc wc;
	int i, n;

	KT_EXPECT(buf.va);
	for (n = 0; n < 20; n++) {
		struct region region __free(region) = {};

		KT_OK(region_make(&region, pair, KT_ACCESS_ALL));
		for (i = 0; i < 32; i++)
			KT_OK(kt_rdma(&pair->a, IB_WR_RDMA_WRITE, i, buf.va, buf.len,
				      region.mr->iova, region.mr->rkey));
		KT_OK(kt_wait_for(pair->a.scq, 0, IB_WC_SUCCESS, NULL));
		KT_OK(ib_dereg_mr(region.mr));
		region.mr = NULL;
		kt_pages_fill(&region.pages, 0x33);
		for (i = 1; i < 32; i++)
			KT_OK(kt_wait(pair->a.scq, &wc));
		KT_EXPECT(wc.status == IB_WC_SUCCESS || wc.status == IB_WC_REM_ACCESS_ERR ||
			  wc.status == IB_WC_WR_FLUSH_ERR);
		KT_EXPECT(!kt_pages_touched(&region.pages, 0, 8192, 0x33));
		KT_OK(kt_reset(pair));
	}
	return 0;
}

/* SENDs from a region and, unfenced, the end of its key, by one call: the peer has the bytes. */
static int inv_behind_sends(struct kt_pair *pair)
{
	struct region region __free(region) = {};
	struct kt_pair back = { .a = pair->b, .b = pair->a };
	struct ib_sge sge = { .length = 2 * PAGE_SIZE };
	struct ib_send_wr send[4] = {}, inv = {
		.wr_id = 4, .opcode = IB_WR_LOCAL_INV, .send_flags = IB_SEND_SIGNALED,
	};
	int i;

	KT_OK(region_make(&region, &back, KT_ACCESS_ALL));
	kt_fill(page_address(region.pages.pages[0]), PAGE_SIZE, 0, 9);
	kt_fill(page_address(region.pages.pages[1]), PAGE_SIZE, PAGE_SIZE, 9);
	sge.addr = region.mr->iova;
	sge.lkey = region.mr->lkey;
	inv.ex.invalidate_rkey = region.mr->rkey;
	for (i = 0; i < 4; i++) {
		KT_OK(kt_recv(&pair->b, i, region.buf.va, 2 * PAGE_SIZE));
		send[i] = (struct ib_send_wr){
			.next = i < 3 ? &send[i + 1] : &inv, .wr_id = i, .opcode = IB_WR_SEND,
			.sg_list = &sge, .num_sge = 1, .send_flags = IB_SEND_SIGNALED,
		};
	}
	KT_OK(ib_post_send(pair->a.qp, send, NULL));
	for (i = 0; i < 4; i++)
		KT_OK(kt_wait_for(pair->b.rcq, i, IB_WC_SUCCESS, NULL));
	for (i = 0; i < 5; i++)
		KT_OK(kt_wait_for(pair->a.scq, i, IB_WC_SUCCESS, NULL));
	KT_EXPECT(!kt_differs(region.buf.va, 2 * PAGE_SIZE, 0, 9));
	return is_dead(&back, &region);
}

const struct kt_case kt_inval_cases[] = {
	{ "LOCAL_INV ends a key", local_inv },
	{ "SEND with invalidate ends a key", send_with_inv },
	{ "READ with invalidate ends a key", read_with_inv },
	{ "rights and bounds of a registration", rights },
	{ "REG_MR on a valid region is refused", register_valid },
	{ "REG_MR and LOCAL_INV of another PD are refused", other_pd },
	{ "REG_MR with rights that do not go together is refused", wrong_rights },
	{ "LOCAL_INV of wrong keys is refused", wrong_keys },
	{ "a region is deregistered while it is in use", dereg_in_use },
	{ "LOCAL_INV behind SENDs from the region", inv_behind_sends },
	{}
};
