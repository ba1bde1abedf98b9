// SPDX-License-Identifier: GPL-2.0
/*
 * Queues that are drained, and completions that ib_core polls in each of its ways.
 */
#include <linux/completion.h>
#include <linux/jiffies.h>
#include "ktest.h"

#define COUNT 100
#define LEN 64

/* A request, and what its completion said. */
struct request {
	struct ib_cqe cqe;
	struct requests *all;
	int index;
};

struct requests {
	struct request send[COUNT], recv[COUNT];
	/* Completions in a wrong order, or a second time. */
	atomic_t wrong;
	int next_send, next_recv, flushed, good;
	struct completion done;
};

static void note_status(struct requests *all, struct ib_wc *wc)
{
	if (wc->status == IB_WC_SUCCESS)
		all->good++;
	else if (wc->status == IB_WC_WR_FLUSH_ERR)
		all->flushed++;
	else
		atomic_inc(&all->wrong);
	if (all->next_send == COUNT && all->next_recv == COUNT)
		complete(&all->done);
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	if (request->index != request->all->next_send++)
		atomic_inc(&request->all->wrong);
	note_status(request->all, wc);
}

static void recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	if (request->index != request->all->next_recv++)
		atomic_inc(&request->all->wrong);
	note_status(request->all, wc);
}

static void requests_init(struct requests *all)
{
	int i;

	for (i = 0; i < COUNT; i++) {
		all->send[i] = (struct request){ .cqe.done = send_done, .all = all, .index = i };
		all->recv[i] = (struct request){ .cqe.done = recv_done, .all = all, .index = i };
	}
	init_completion(&all->done);
}

static int post_send(struct kt_end *end, struct requests *all, int i, void *va)
{
	return kt_send(end, (uintptr_t)&all->send[i].cqe, va, LEN);
}

static int post_recv(struct kt_end *end, struct requests *all, int i, void *va)
{
	return kt_recv(end, (uintptr_t)&all->recv[i].cqe, va, LEN);
}

/* A pair whose one end has a single CQ, polled in this way. */
struct fixture {
	struct kt_pair *pair;
	struct ib_cq *cq;
	struct requests *all;
	struct kt_buf buf;
};

static void fixture_free(struct fixture *fixture)
{
	if (!IS_ERR_OR_NULL(fixture->cq)) {
		kt_close(fixture->pair);
		ib_free_cq(fixture->cq);
	}
	kt_free(&fixture->buf);
	kfree(fixture->all);
}
DEFINE_FREE(fixture, struct fixture, fixture_free(&_T))

static int fixture_make(struct fixture *fixture, struct kt_pair *pair, enum ib_poll_context context)
{
	struct kt_how how = { .send_wr = COUNT + 1, .recv_wr = COUNT + 1 };

	fixture->pair = pair;
	fixture->buf = kt_alloc(PAGE_SIZE * 4);
	fixture->all = kzalloc(sizeof(*fixture->all), GFP_KERNEL);
	KT_EXPECT(fixture->buf.va && fixture->all);
	requests_init(fixture->all);
	fixture->cq = ib_alloc_cq(pair->a.host->dev, NULL, 2 * COUNT + 2, 0, context);
	KT_OK(PTR_ERR_OR_ZERO(fixture->cq));
	how.cq_a = fixture->cq;
	return kt_open(pair, &how);
}

/* Sends and receives complete in order, by their callbacks. */
static int poll_by(struct kt_pair *pair, enum ib_poll_context context)
{
	struct fixture fixture __free(fixture) = {};
	unsigned long end = jiffies + 60 * kt_slow * HZ;
	struct ib_wc wc;
	int i;

	KT_OK(fixture_make(&fixture, pair, context));
	kt_fill(fixture.buf.va, LEN, 0, 1);
	for (i = 0; i < COUNT; i++) {
		KT_OK(post_recv(&pair->a, fixture.all, i, fixture.buf.va + PAGE_SIZE + i * LEN));
		KT_OK(kt_recv(&pair->b, i, fixture.buf.va + 3 * PAGE_SIZE, LEN));
	}
	for (i = 0; i < COUNT; i++) {
		KT_OK(post_send(&pair->a, fixture.all, i, fixture.buf.va));
		KT_OK(kt_send(&pair->b, i, fixture.buf.va, LEN));
	}
	while (!try_wait_for_completion(&fixture.all->done) && time_before(jiffies, end)) {
		if (context == IB_POLL_DIRECT)
			ib_process_cq_direct(fixture.cq, -1);
		while (ib_poll_cq(pair->b.scq, 1, &wc) > 0)
			KT_EQ(wc.status, IB_WC_SUCCESS);
		cond_resched();
	}
	KT_EQ(fixture.all->good, 2 * COUNT);
	KT_EQ(atomic_read(&fixture.all->wrong), 0);
	for (i = 0; i < COUNT; i++)
		KT_EXPECT(!kt_differs(fixture.buf.va + PAGE_SIZE + i * LEN, LEN, 0, 1));
	return 0;
}

static int poll_direct(struct kt_pair *pair)
{
	return poll_by(pair, IB_POLL_DIRECT);
}

static int poll_softirq(struct kt_pair *pair)
{
	return poll_by(pair, IB_POLL_SOFTIRQ);
}

static int poll_workqueue(struct kt_pair *pair)
{
	return poll_by(pair, IB_POLL_WORKQUEUE);
}

static int poll_unbound(struct kt_pair *pair)
{
	return poll_by(pair, IB_POLL_UNBOUND_WORKQUEUE);
}

/* Requests are in flight or wait for a receive: when drain returns each has completed, once. */
static int drain_by(struct kt_pair *pair, enum ib_poll_context context)
{
	struct fixture fixture __free(fixture) = {};
	struct requests *all;
	int i;

	KT_OK(fixture_make(&fixture, pair, context));
	all = fixture.all;
	for (i = 0; i < COUNT; i++) {
		KT_OK(post_recv(&pair->a, all, i, fixture.buf.va + PAGE_SIZE));
		KT_OK(post_send(&pair->a, all, i, fixture.buf.va));
		if (i == COUNT / 2)
			KT_OK(kt_recv(&pair->b, 0, fixture.buf.va + 2 * PAGE_SIZE, LEN));
	}
	ib_drain_qp(pair->a.qp);
	KT_EQ(all->next_send, COUNT);
	KT_EQ(all->next_recv, COUNT);
	KT_EQ(atomic_read(&all->wrong), 0);
	KT_EXPECT(all->good <= 1);
	/* Again, with nothing there. */
	ib_drain_sq(pair->a.qp);
	ib_drain_rq(pair->a.qp);
	KT_EQ(all->next_send, COUNT);
	KT_EQ(all->next_recv, COUNT);
	return 0;
}

static int drain_directly(struct kt_pair *pair)
{
	return drain_by(pair, IB_POLL_DIRECT);
}

static int drain_by_softirq(struct kt_pair *pair)
{
	return drain_by(pair, IB_POLL_SOFTIRQ);
}

static int drain_by_workqueue(struct kt_pair *pair)
{
	return drain_by(pair, IB_POLL_WORKQUEUE);
}

const struct kt_case kt_drain_cases[] = {
	{ "a CQ that is polled directly", poll_direct, true },
	{ "a CQ that is polled in softirqs", poll_softirq, true },
	{ "a CQ that is polled by a workqueue", poll_workqueue, true },
	{ "a CQ that is polled by an unbound workqueue", poll_unbound, true },
	{ "drain of a QP whose CQ is polled directly", drain_directly, true },
	{ "drain of a QP whose CQ is polled in softirqs", drain_by_softirq, true },
	{ "drain of a QP whose CQ is polled by a workqueue", drain_by_workqueue, true },
	{}
};
