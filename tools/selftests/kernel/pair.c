// SPDX-License-Identifier: GPL-2.0
/*
 * Pairs of connected QPs, and the memory and work requests that cases use them with.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include "ktest.h"

#define LIMIT_SECONDS 60
/* More than a case has completions that it did not poll. */
#define CQ_SIZE 1024

static struct ib_cq *make_cq(struct ib_device *dev, u32 cqe)
{
	const struct ib_cq_init_attr attr = { .cqe = cqe };

	return ib_create_cq(dev, NULL, NULL, NULL, &attr);
}

int kt_open_end(struct kt_end *end, const struct kt_how *how, bool is_b)
{
	struct ib_cq *shared = is_b ? how->cq_b : how->cq_a;
	struct ib_qp_init_attr attr = {
		.event_handler = how->event,
		.qp_context = how->context,
		.srq = is_b ? how->srq_b : NULL,
		.cap = {
			.max_send_wr = how->send_wr ?: 64,
			.max_recv_wr = how->recv_wr ?: 64,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = how->inline_data,
		},
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};

	if (!end->pd)
		end->pd = ib_alloc_pd(end->host->dev, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	if (!shared) {
		end->scq = make_cq(end->host->dev, CQ_SIZE);
		if (IS_ERR(end->scq))
			return PTR_ERR(end->scq);
		end->rcq = make_cq(end->host->dev, CQ_SIZE);
		if (IS_ERR(end->rcq))
			return PTR_ERR(end->rcq);
	}
	attr.send_cq = shared ?: end->scq;
	attr.recv_cq = shared ?: end->rcq;
	end->qp = ib_create_qp(end->pd, &attr);
	return PTR_ERR_OR_ZERO(end->qp);
}

static void close_end(struct kt_end *end)
{
	if (!IS_ERR_OR_NULL(end->qp))
		ib_destroy_qp(end->qp);
	if (!IS_ERR_OR_NULL(end->scq))
		ib_destroy_cq(end->scq);
	if (!IS_ERR_OR_NULL(end->rcq))
		ib_destroy_cq(end->rcq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
	*end = (struct kt_end){ .host = end->host };
}

void kt_close(struct kt_pair *pair)
{
	close_end(&pair->a);
	close_end(&pair->b);
}

/*
 * The end's QP goes from RESET to RTS, connected to the peer's. It expects the peer to begin with
 * this PSN.
 */
int kt_connect_at(struct kt_end *end, const struct kt_end *peer, u32 rq_psn)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				   IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC,
	};
	int error;

	error = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			     IB_QP_ACCESS_FLAGS);
	if (error)
		return error;
	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = IB_MTU_1024;
	attr.dest_qp_num = peer->qp->qp_num;
	attr.rq_psn = rq_psn & 0xffffff;
	attr.max_dest_rd_atomic = 16;
	attr.min_rnr_timer = 1;
	attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&peer->host->gid, 0, end->host->sgid_index,
			64, 0);
	error = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			     IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			     IB_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.sq_psn = end->qp->qp_num & 0xffffff;
	attr.max_rd_atomic = 16;
	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

/* The peer begins with the PSN that kt_connect_at() gives it: its QP number. */
int kt_connect(struct kt_end *end, const struct kt_end *peer)
{
	return kt_connect_at(end, peer, peer->qp->qp_num);
}

int kt_connect_pair(struct kt_pair *pair)
{
	return kt_connect(&pair->a, &pair->b) ?: kt_connect(&pair->b, &pair->a);
}

int kt_open(struct kt_pair *pair, const struct kt_how *how)
{
	return kt_open_end(&pair->a, how, false) ?: kt_open_end(&pair->b, how, true) ?:
	       kt_connect_pair(pair);
}

/* Both QPs go back to RESET, the completions are forgotten, and they are connected again. */
int kt_reset(struct kt_pair *pair)
{
	struct kt_end *ends[] = { &pair->a, &pair->b };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_wc wc;
	int i, error;

	for (i = 0; i < 2; i++) {
		error = ib_modify_qp(ends[i]->qp, &attr, IB_QP_STATE);
		if (error)
			return error;
	}
	for (i = 0; i < 2; i++) {
		while (ib_poll_cq(ends[i]->qp->send_cq, 1, &wc) > 0)
			;
		while (ib_poll_cq(ends[i]->qp->recv_cq, 1, &wc) > 0)
			;
	}
	return kt_connect_pair(pair);
}

/* The next completion, waited for. */
int kt_wait(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + LIMIT_SECONDS * kt_slow * HZ;
	int n;

	do {
		n = ib_poll_cq(cq, 1, wc);
		if (n)
			return n < 0 ? n : 0;
		usleep_range(50, 200);
	} while (time_before(jiffies, end));
	return -ETIMEDOUT;
}

/* The next completion has to be of this request, with this status. */
int kt_wait_for(struct ib_cq *cq, u64 wr_id, int status, struct ib_wc *wc)
{
	struct ib_wc own;
	int error;

	wc = wc ?: &own;
	error = kt_wait(cq, wc);
	if (error)
		kt_note("request %llu never completed", wr_id);
	KT_OK(error);
	KT_EQ(wc->wr_id, wr_id);
	KT_EQ(wc->status, status);
	return 0;
}

struct kt_buf kt_alloc(size_t len)
{
	return (struct kt_buf){ .va = alloc_pages_exact(len, GFP_KERNEL | __GFP_ZERO), .len = len };
}

void kt_free(struct kt_buf *buf)
{
	if (buf->va)
		free_pages_exact(buf->va, buf->len);
}

static u8 pattern(u64 at, u32 seed)
{
	return (at * 31 + (at >> 8) * 7 + seed) & 0xff;
}

/* Fills memory with the bytes that a pattern has from "at" on. */
void kt_fill(void *va, size_t len, u64 at, u32 seed)
{
	u8 *bytes = va;
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = pattern(at + i, seed);
}

bool kt_differs(const void *va, size_t len, u64 at, u32 seed)
{
	const u8 *bytes = va;
	size_t i;

	for (i = 0; i < len; i++) {
		if (bytes[i] != pattern(at + i, seed)) {
			kt_note("byte %zu of %zu is %u, not %u", i, len, bytes[i],
				pattern(at + i, seed));
			return true;
		}
	}
	return false;
}

static struct ib_sge sge_of(struct kt_end *end, const void *va, u32 len)
{
	return (struct ib_sge){
		.addr = (uintptr_t)va,
		.length = len,
		.lkey = end->pd->local_dma_lkey,
	};
}

int kt_send(struct kt_end *end, u64 wr_id, const void *va, u32 len)
{
	struct ib_sge sge = sge_of(end, va, len);
	struct ib_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(end->qp, &wr, NULL);
}

int kt_recv(struct kt_end *end, u64 wr_id, void *va, u32 len)
{
	struct ib_sge sge = sge_of(end, va, len);
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(end->qp, &wr, NULL);
}

int kt_rdma(struct kt_end *end, enum ib_wr_opcode opcode, u64 wr_id, void *va, u32 len,
	    u64 remote, u32 rkey)
{
	struct ib_sge sge = sge_of(end, va, len);
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_id = wr_id,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = remote,
		.rkey = rkey,
	};

	return ib_post_send(end->qp, &wr.wr, NULL);
}

/* Posts a WRITE or READ and waits for it to end with this status. */
int kt_rdma_status(struct kt_end *end, enum ib_wr_opcode opcode, void *va, u32 len, u64 remote,
		   u32 rkey, int status)
{
	KT_OK(kt_rdma(end, opcode, 77, va, len, remote, rkey));
	return kt_wait_for(end->scq, 77, status, NULL);
}
