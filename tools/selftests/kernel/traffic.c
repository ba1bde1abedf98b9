// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic that goes on until its device is removed.
 *
 * Sends are posted again as soon as they complete. ib_core's completion workqueue runs at the
 * highest nice level, so such a consumer leaves a CPU's other tasks next to nothing. Paced traffic
 * leaves them most of it: its sends are posted again together, after a pause.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/llist.h>
#include <linux/workqueue.h>
#include "ktest.h"

#define SLOTS 16
#define LEN 3000
#define PAUSE_MS 10

struct flow;

/* A send of the one end, or a receive of the other, which is posted again when it completes. */
struct slot {
	struct ib_cqe cqe;
	struct flow *flow;
	u8 *va;
	bool recv;
	struct llist_node node;
};

struct flow {
	struct kt_pair pair;
	struct ib_cq *cq_a, *cq_b;
	struct slot send[SLOTS], recv[SLOTS];
	struct kt_buf buf;
	atomic_t posted, completed, good, wrong;
	bool paced, stopped;
	/* Sends that have completed, and the work that posts them again. */
	struct llist_head idle;
	struct delayed_work repost;
};

static struct flow *flows[2];

static int post(struct slot *slot)
{
	struct kt_pair *pair = &slot->flow->pair;
	u64 wr_id = (uintptr_t)&slot->cqe;
	int error;

	atomic_inc(&slot->flow->posted);
	if (slot->recv)
		error = kt_recv(&pair->b, wr_id, slot->va, LEN);
	else
		error = kt_send(&pair->a, wr_id, slot->va, LEN);
	if (error)
		atomic_dec(&slot->flow->posted);
	return error;
}

/* In the error state a request is flushed, but not refused. */
static void post_again(struct slot *slot)
{
	if (!READ_ONCE(slot->flow->stopped) && post(slot))
		atomic_inc(&slot->flow->wrong);
}

static void repost(struct work_struct *work)
{
	struct flow *flow = container_of(to_delayed_work(work), struct flow, repost);
	struct slot *slot, *next;

	llist_for_each_entry_safe(slot, next, llist_del_all(&flow->idle), node)
		post_again(slot);
}

static void done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct slot *slot = container_of(wc->wr_cqe, struct slot, cqe);
	struct flow *flow = slot->flow;

	atomic_inc(&flow->completed);
	switch (wc->status) {
	case IB_WC_SUCCESS:
		atomic_inc(&flow->good);
		if (slot->recv && kt_differs(slot->va, LEN, 0, 9))
			atomic_inc(&flow->wrong);
		if (slot->recv)
			memset(slot->va, 0, LEN);
		if (slot->recv || !flow->paced)
			post_again(slot);
		else if (llist_add(&slot->node, &flow->idle))
			schedule_delayed_work(&flow->repost, msecs_to_jiffies(PAUSE_MS));
		break;
	case IB_WC_WR_FLUSH_ERR:
	case IB_WC_RETRY_EXC_ERR: /* The netdev went, or the other device. */
		break;
	default:
		atomic_inc(&flow->wrong);
	}
}

/* Nothing is posted any more, and everything has completed. */
static void flow_drain(struct flow *flow)
{
	WRITE_ONCE(flow->stopped, true);
	cancel_delayed_work_sync(&flow->repost);
	ib_drain_qp(flow->pair.a.qp);
	ib_drain_qp(flow->pair.b.qp);
	cancel_delayed_work_sync(&flow->repost);
}

static void flow_free(struct flow *flow)
{
	if (!flow->stopped && !IS_ERR_OR_NULL(flow->pair.b.qp))
		flow_drain(flow);
	kt_close(&flow->pair);
	if (!IS_ERR_OR_NULL(flow->cq_a))
		ib_free_cq(flow->cq_a);
	if (!IS_ERR_OR_NULL(flow->cq_b))
		ib_free_cq(flow->cq_b);
	kt_free(&flow->buf);
	kfree(flow);
}
DEFINE_FREE(flow, struct flow *, if (_T) flow_free(_T))

/* Waits until as many messages as fill all slots ten times have come. */
static int flow_goes_on(struct flow *flow)
{
	unsigned long end = jiffies + 60 * kt_slow * HZ;
	int before = atomic_read(&flow->good);

	while (atomic_read(&flow->good) - before < 10 * SLOTS && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KT_EXPECT(atomic_read(&flow->good) - before >= 10 * SLOTS);
	return 0;
}

static int flow_start(const struct kt_host *a, const struct kt_host *b, bool paced,
		      enum ib_poll_context context, int vector, struct flow **started)
{
	struct flow *flow __free(flow) = kzalloc(sizeof(*flow), GFP_KERNEL);
	struct kt_how how = { .send_wr = SLOTS + 1, .recv_wr = SLOTS + 1 };
	int i;

	KT_EXPECT(flow);
	flow->pair.a.host = a;
	flow->pair.b.host = b;
	flow->paced = paced;
	INIT_DELAYED_WORK(&flow->repost, repost);
	flow->buf = kt_alloc(64 * PAGE_SIZE);
	KT_EXPECT(flow->buf.va);
	flow->cq_a = ib_alloc_cq(a->dev, NULL, 4 * SLOTS, vector, context);
	KT_OK(PTR_ERR_OR_ZERO(flow->cq_a));
	flow->cq_b = ib_alloc_cq(b->dev, NULL, 4 * SLOTS, vector, context);
	KT_OK(PTR_ERR_OR_ZERO(flow->cq_b));
	how.cq_a = flow->cq_a;
	how.cq_b = flow->cq_b;
	KT_OK(kt_open(&flow->pair, &how));
	kt_fill(flow->buf.va, LEN, 0, 9);
	for (i = 0; i < SLOTS; i++) {
		flow->recv[i] = (struct slot){
			.cqe.done = done, .flow = flow, .recv = true,
			.va = flow->buf.va + (i + 1) * PAGE_SIZE,
		};
		KT_OK(post(&flow->recv[i]));
	}
	for (i = 0; i < SLOTS; i++) {
		flow->send[i] = (struct slot){ .cqe.done = done, .flow = flow, .va = flow->buf.va };
		KT_OK(post(&flow->send[i]));
	}
	*started = no_free_ptr(flow);
	return 0;
}

int kt_traffic_start(const struct kt_host *a, const struct kt_host *b, bool paced)
{
	int last = num_online_cpus() - 1;

	KT_OK(flow_start(a, b, paced, IB_POLL_WORKQUEUE, 0, &flows[0]));
	KT_OK(flow_start(a, b, paced, IB_POLL_SOFTIRQ, last, &flows[1]));
	return kt_traffic_goes_on();
}

int kt_traffic_goes_on(void)
{
	KT_EXPECT(flows[0] && flows[1]);
	return flow_goes_on(flows[0]) ?: flow_goes_on(flows[1]);
}

static int flow_stop(struct flow *flow)
{
	int before = atomic_read(&flow->good);

	flow_drain(flow);
	kt_note("%d completed before the removal, %d in all", before,
		atomic_read(&flow->completed));
	KT_EXPECT(before >= 10 * SLOTS);
	KT_EQ(atomic_read(&flow->completed), atomic_read(&flow->posted));
	KT_EQ(atomic_read(&flow->wrong), 0);
	return 0;
}

/* A device goes: its traffic ends. Returns whether there was some. */
bool kt_traffic_end(struct ib_device *dev, int *result)
{
	unsigned int i;
	bool any = false;

	for (i = 0; i < ARRAY_SIZE(flows); i++) {
		struct flow *flow = flows[i];

		if (!flow || (flow->pair.a.host->dev != dev && flow->pair.b.host->dev != dev))
			continue;
		*result = flow_stop(flow) ?: *result;
		flow_free(flow);
		flows[i] = NULL;
		any = true;
	}
	return any;
}
