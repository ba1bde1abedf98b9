// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues: of connections and of datagrams, and their events.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include "ktest.h"

#define LEN 64

/* The events that came. */
struct events {
	atomic_t limit, last_wqe, others;
};

static void count_event(struct ib_event *event, void *context)
{
	struct events *events = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(&events->limit);
	else if (event->event == IB_EVENT_QP_LAST_WQE_REACHED)
		atomic_inc(&events->last_wqe);
	else if (event->event != IB_EVENT_COMM_EST)
		atomic_inc(&events->others);
}

static bool comes(atomic_t *count, int wanted)
{
	unsigned long end = jiffies + 30 * kt_slow * HZ;

	while (atomic_read(count) != wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	return atomic_read(count) == wanted;
}

static struct ib_srq *make_srq(struct ib_pd *pd, struct events *events)
{
	struct ib_srq_init_attr attr = {
		.event_handler = count_event,
		.srq_context = events,
		.attr = { .max_wr = 32, .max_sge = 2 },
		.srq_type = IB_SRQT_BASIC,
	};

	return ib_create_srq(pd, &attr);
}

static int srq_recv(struct ib_srq *srq, u64 wr_id, void *va, u32 len)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)va, .length = len, .lkey = srq->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_srq_recv(srq, &wr, NULL);
}

/* One message into the receive that is next. */
static int message(struct kt_pair *pair, struct kt_buf *buf, u64 wr_id)
{
	kt_fill(buf->va, LEN, 0, wr_id);
	KT_OK(kt_send(&pair->a, 100, buf->va, LEN));
	KT_OK(kt_wait_for(pair->a.scq, 100, IB_WC_SUCCESS, NULL));
	KT_OK(kt_wait_for(pair->b.rcq, wr_id, IB_WC_SUCCESS, NULL));
	KT_EXPECT(!kt_differs(buf->va + (wr_id + 1) * LEN, LEN, 0, wr_id));
	return 0;
}

static int with_srq(struct kt_pair *pair, struct ib_srq *srq, struct events *events)
{
	const struct kt_how how = { .srq_b = srq, .event = count_event, .context = events };
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_srq_attr limit = { .srq_limit = 4 }, now;
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	struct ib_recv_wr bad_wr = { .num_sge = 3 };
	const struct ib_recv_wr *bad = NULL;
	struct ib_wc wc;
	int i;

	KT_EXPECT(buf.va);
	KT_OK(kt_open(pair, &how));
	KT_EQ(ib_destroy_srq_user(srq, NULL), -EBUSY);
	KT_EQ(ib_post_srq_recv(srq, &bad_wr, &bad), -EINVAL);
	KT_EXPECT(bad == &bad_wr);
	for (i = 0; i < 10; i++)
		KT_OK(srq_recv(srq, i, buf.va + (i + 1) * LEN, LEN));
	KT_OK(ib_modify_srq(srq, &limit, IB_SRQ_LIMIT));
	for (i = 0; i < 6; i++)
		KT_OK(message(pair, &buf, i));
	/* Four are left, which is not below the limit. */
	KT_OK(ib_query_srq(srq, &now));
	KT_EQ(now.srq_limit, 4);
	KT_EQ(atomic_read(&events->limit), 0);
	KT_OK(message(pair, &buf, 6));
	KT_EXPECT(comes(&events->limit, 1));
	KT_OK(ib_query_srq(srq, &now));
	KT_EQ(now.srq_limit, 0);
	KT_OK(message(pair, &buf, 7));
	KT_OK(ib_modify_qp(pair->b.qp, &error, IB_QP_STATE));
	KT_EXPECT(comes(&events->last_wqe, 1));
	/* The receives stay with the SRQ. */
	KT_EQ(ib_poll_cq(pair->b.rcq, 1, &wc), 0);
	KT_OK(kt_reset(pair));
	KT_OK(message(pair, &buf, 8));
	KT_EQ(atomic_read(&events->limit), 1);
	KT_EQ(atomic_read(&events->others), 0);
	return 0;
}

/* The end has a PD before it has a QP; the SRQ ends after its QP, which "run" made. */
static int srq_case(struct kt_pair *pair,
		    int (*run)(struct kt_pair *pair, struct ib_srq *srq, struct events *events))
{
	struct events events = {};
	struct ib_srq *srq;
	struct ib_pd *pd;
	int error;

	pd = ib_alloc_pd(pair->b.host->dev, 0);
	KT_OK(PTR_ERR_OR_ZERO(pd));
	pair->b.pd = pd;
	srq = make_srq(pd, &events);
	KT_OK(PTR_ERR_OR_ZERO(srq));
	error = run(pair, srq, &events);
	if (!IS_ERR_OR_NULL(pair->b.qp))
		ib_destroy_qp(pair->b.qp);
	pair->b.qp = NULL;
	KT_OK(ib_destroy_srq_user(srq, NULL));
	return error;
}

static int rc(struct kt_pair *pair)
{
	return srq_case(pair, with_srq);
}

/* The receives of two connections, of which one has an error while the other goes on. */
static int two_connections(struct kt_pair *pair, struct ib_srq *srq, struct events *events)
{
	const struct kt_how how = { .srq_b = srq };
	struct kt_pair other = { .a.host = pair->a.host, .b.host = pair->b.host };
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_qp_attr error_state = { .qp_state = IB_QPS_ERR };
	int i, error;

	KT_EXPECT(buf.va);
	KT_OK(kt_open(pair, &how));
	/* Both QPs are of the SRQ's domain. */
	other.b.pd = pair->b.pd;
	error = kt_open(&other, &how);
	for (i = 0; i < 20 && !error; i++)
		error = srq_recv(srq, i, buf.va + (i + 1) * LEN, LEN);
	for (i = 0; i < 10 && !error; i += 2)
		error = message(pair, &buf, i) ?: message(&other, &buf, i + 1);
	error = error ?: ib_modify_qp(pair->b.qp, &error_state, IB_QP_STATE);
	for (; i < 20 && !error; i++)
		error = message(&other, &buf, i);
	other.b.pd = NULL;
	kt_close(&other);
	return error;
}

static int two(struct kt_pair *pair)
{
	return srq_case(pair, two_connections);
}

static int ud_qp(struct kt_end *end, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.send_cq = end->scq, .recv_cq = end->rcq, .srq = srq,
		.cap = { .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2,
			 .max_recv_sge = 2 },
		.qp_type = IB_QPT_UD,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1, .qkey = 0x1234 };

	ib_destroy_qp(end->qp);
	end->qp = ib_create_qp(end->pd, &init);
	KT_OK(PTR_ERR_OR_ZERO(end->qp));
	KT_OK(ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_QKEY));
	attr.qp_state = IB_QPS_RTR;
	KT_OK(ib_modify_qp(end->qp, &attr, IB_QP_STATE));
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int datagrams(struct kt_pair *pair, struct ib_srq *srq, struct ib_ah *ah)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(2 * PAGE_SIZE);
	struct ib_sge sge = { .length = LEN, .lkey = pair->a.pd->local_dma_lkey };
	struct ib_ud_wr wr = {
		.wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND },
		.ah = ah, .remote_qpn = pair->b.qp->qp_num, .remote_qkey = 0x1234,
	};
	struct ib_wc wc;
	u8 *at;
	int i;

	KT_EXPECT(buf.va);
	sge.addr = (uintptr_t)buf.va;
	for (i = 0; i < 20; i++) {
		at = buf.va + PAGE_SIZE + i * 160;
		KT_OK(srq_recv(srq, i, at, 160));
		kt_fill(buf.va, LEN, 0, i);
		KT_OK(ib_post_send(pair->a.qp, &wr.wr, NULL));
		KT_OK(kt_wait_for(pair->a.scq, 8, IB_WC_SUCCESS, NULL));
		KT_OK(kt_wait_for(pair->b.rcq, i, IB_WC_SUCCESS, &wc));
		KT_EQ(wc.byte_len, LEN + sizeof(struct ib_grh));
		KT_EQ(wc.src_qp, pair->a.qp->qp_num);
		KT_EXPECT(wc.qp == pair->b.qp && (wc.wc_flags & IB_WC_GRH));
		KT_EXPECT(!kt_differs(at + sizeof(struct ib_grh), LEN, 0, i));
	}
	return 0;
}

static int with_ud(struct kt_pair *pair, struct ib_srq *srq, struct events *events)
{
	const struct kt_how how = {};
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };
	struct ib_ah *ah;
	int error;

	KT_OK(kt_open(pair, &how));
	KT_OK(ud_qp(&pair->a, NULL));
	KT_OK(ud_qp(&pair->b, srq));
	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, (union ib_gid *)&pair->b.host->gid, 0, pair->a.host->sgid_index, 64,
			0);
	ah = rdma_create_ah(pair->a.pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	KT_OK(PTR_ERR_OR_ZERO(ah));
	error = datagrams(pair, srq, ah);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return error;
}

static int ud(struct kt_pair *pair)
{
	return srq_case(pair, with_ud);
}

const struct kt_case kt_srq_cases[] = {
	{ "a connection takes receives of an SRQ; its limit, and the last of them", rc, true },
	{ "two connections share an SRQ, and one of them fails", two, true },
	{ "datagrams take receives of an SRQ", ud, true },
	{}
};
