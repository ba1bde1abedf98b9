// SPDX-License-Identifier: GPL-2.0
/*
 * Objects that are made and destroyed one by one, for faults.sh, which makes the allocations of
 * each call fail. The call's own error is returned.
 */
#include <linux/err.h>
#include "pages.h"

#define DEPTH 100
#define PAGES 8

/* One of each kind; they are destroyed in the reverse order. */
struct objects {
	const struct kt_host *host, *peer;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ib_mr *mr;
	struct ib_ah *ah;
};

static void objects_free(struct objects *all)
{
	if (!IS_ERR_OR_NULL(all->ah))
		rdma_destroy_ah(all->ah, RDMA_DESTROY_AH_SLEEPABLE);
	if (!IS_ERR_OR_NULL(all->mr))
		ib_dereg_mr(all->mr);
	if (!IS_ERR_OR_NULL(all->qp))
		ib_destroy_qp(all->qp);
	if (!IS_ERR_OR_NULL(all->srq))
		ib_destroy_srq(all->srq);
	if (!IS_ERR_OR_NULL(all->cq))
		ib_destroy_cq(all->cq);
	if (!IS_ERR_OR_NULL(all->pd))
		ib_dealloc_pd(all->pd);
}
DEFINE_FREE(objects, struct objects, objects_free(&_T))

static int pd(struct objects *all)
{
	all->pd = ib_alloc_pd(all->host->dev, 0);
	return PTR_ERR_OR_ZERO(all->pd);
}

/* The PD has a region of all memory, by ib_core's call of get_dma_mr. */
static int pd_rkey(struct objects *all)
{
	all->pd = ib_alloc_pd(all->host->dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	return PTR_ERR_OR_ZERO(all->pd);
}

static int cq(struct objects *all)
{
	const struct ib_cq_init_attr attr = { .cqe = DEPTH };

	all->cq = ib_create_cq(all->host->dev, NULL, NULL, NULL, &attr);
	return PTR_ERR_OR_ZERO(all->cq);
}

/* ib_core polls the CQ; it moderates it itself if the device's adaptive moderation is on. */
static int cq_polled(struct objects *all)
{
	struct ib_cq *polled = ib_alloc_cq(all->host->dev, NULL, DEPTH, 0, IB_POLL_WORKQUEUE);

	if (IS_ERR(polled))
		return PTR_ERR(polled);
	ib_free_cq(polled);
	return 0;
}

static int cq_moderated(struct objects *all)
{
	return cq(all) ?: rdma_set_cq_moderation(all->cq, 8, 100);
}

static int srq(struct objects *all)
{
	struct ib_srq_init_attr attr = {
		.attr = { .max_wr = DEPTH, .max_sge = 2 },
		.srq_type = IB_SRQT_BASIC,
	};
	int error = pd(all);

	if (error)
		return error;
	all->srq = ib_create_srq(all->pd, &attr);
	return PTR_ERR_OR_ZERO(all->srq);
}

static int srq_limit(struct objects *all)
{
	struct ib_srq_attr attr = { .srq_limit = 4 };

	return srq(all) ?: ib_modify_srq(all->srq, &attr, IB_SRQ_LIMIT);
}

/* It takes its receives from the SRQ if there is one. */
static int qp_of(struct objects *all, enum ib_qp_type type)
{
	struct ib_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 3, .max_inline_data = 64 },
		.qp_type = type,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.srq = all->srq,
	};
	int error = cq(all);

	if (!error && !all->pd)
		error = pd(all);
	if (error)
		return error;
	if (!all->srq) {
		attr.cap.max_recv_wr = DEPTH;
		attr.cap.max_recv_sge = 3;
	}
	attr.send_cq = all->cq;
	attr.recv_cq = all->cq;
	all->qp = ib_create_qp(all->pd, &attr);
	return PTR_ERR_OR_ZERO(all->qp);
}

static int rc(struct objects *all)
{
	return qp_of(all, IB_QPT_RC);
}

static int ud(struct objects *all)
{
	return qp_of(all, IB_QPT_UD);
}

static int rc_srq(struct objects *all)
{
	return srq(all) ?: rc(all);
}

static int ud_srq(struct objects *all)
{
	return srq(all) ?: ud(all);
}

static int mcast(struct objects *all)
{
	union ib_gid group = { .raw = { [10] = 0xff, 0xff, 239, 9, 9, 9 } };
	int error = ud(all) ?: ib_attach_mcast(all->qp, &group, 0);

	return error ?: ib_detach_mcast(all->qp, &group, 0);
}

/* Both ends of a connection, from RESET to RTS. */
static int connection(struct objects *all)
{
	struct kt_pair pair = { .a.host = all->host, .b.host = all->peer };
	const struct kt_how how = {};
	int error = kt_open(&pair, &how);

	kt_close(&pair);
	return error;
}

static int mr(struct objects *all)
{
	int error = pd(all);

	if (error)
		return error;
	all->mr = ib_alloc_mr(all->pd, IB_MR_TYPE_MEM_REG, 1000);
	return PTR_ERR_OR_ZERO(all->mr);
}

static int map_and_post(struct kt_end *end)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(PAGES, 0);
	struct ib_mr *region __free(kt_mr) = NULL;
	int count;

	if (!pages.count)
		return -ENOMEM;
	region = ib_alloc_mr(end->pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (IS_ERR(region))
		return PTR_ERR(region);
	count = ib_map_mr_sg(region, pages.sgl, PAGES, NULL, PAGE_SIZE);
	if (count != PAGES)
		return count < 0 ? count : -EPROTO;
	return kt_register(end, region, KT_ACCESS_ALL) ?:
	       kt_invalidate(end, region->rkey, IB_WC_SUCCESS);
}

static int mr_registered(struct objects *all)
{
	struct kt_pair pair = { .a.host = all->host, .b.host = all->peer };
	const struct kt_how how = {};
	int error = kt_open(&pair, &how) ?: map_and_post(&pair.a);

	kt_close(&pair);
	return error;
}

static int ah(struct objects *all)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };
	int error = pd(all);

	if (error)
		return error;
	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, (union ib_gid *)&all->peer->gid, 0, all->host->sgid_index, 64, 0);
	all->ah = rdma_create_ah(all->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	return PTR_ERR_OR_ZERO(all->ah);
}

static const struct {
	const char *name;
	int (*make)(struct objects *all);
} kinds[] = {
	{ "pd", pd },
	{ "pd_rkey", pd_rkey },
	{ "cq", cq },
	{ "cq_polled", cq_polled },
	{ "cq_moderated", cq_moderated },
	{ "srq", srq },
	{ "srq_limit", srq_limit },
	{ "rc", rc },
	{ "ud", ud },
	{ "rc_srq", rc_srq },
	{ "ud_srq", ud_srq },
	{ "mcast", mcast },
	{ "connection", connection },
	{ "mr", mr },
	{ "mr_registered", mr_registered },
	{ "ah", ah },
};

/* Makes an object of this kind, with those that it needs, and destroys them. */
int kt_create(const char *kind, const struct kt_host *host, const struct kt_host *peer)
{
	struct objects all __free(objects) = { .host = host, .peer = peer };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, kind))
			return kinds[i].make(&all);
	return -EINVAL;
}
