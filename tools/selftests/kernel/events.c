// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues with a handler of the consumer's.
 */
#include <linux/delay.h>
#include "events.h"

#define LEN 64

void kt_event(struct ib_cq *cq, void *context)
{
	struct kt_events *events = context;

	events->when = ktime_get();
	atomic_inc(&events->calls);
}

/* Both ends have one CQ each; that of the second end has the handler above, and this vector. */
int kt_open_with_events(struct kt_pair *pair, struct kt_events *events, u32 vector)
{
	const struct ib_cq_init_attr attr_a = { .cqe = 256 };
	const struct ib_cq_init_attr attr_b = { .cqe = 256, .comp_vector = vector };
	struct kt_how how = {};

	events->cq_a = ib_create_cq(pair->a.host->dev, NULL, NULL, NULL, &attr_a);
	KT_OK(PTR_ERR_OR_ZERO(events->cq_a));
	events->cq_b = ib_create_cq(pair->b.host->dev, kt_event, NULL, events, &attr_b);
	KT_OK(PTR_ERR_OR_ZERO(events->cq_b));
	how.cq_a = events->cq_a;
	how.cq_b = events->cq_b;
	return kt_open(pair, &how);
}

/* The QPs and CQs go; no event comes later. */
void kt_close_with_events(struct kt_pair *pair, struct kt_events *events)
{
	kt_close(pair);
	if (!IS_ERR_OR_NULL(events->cq_a))
		ib_destroy_cq(events->cq_a);
	if (!IS_ERR_OR_NULL(events->cq_b))
		ib_destroy_cq(events->cq_b);
	events->cq_a = NULL;
	events->cq_b = NULL;
}

bool kt_event_comes(struct kt_events *events, int calls)
{
	unsigned long end = jiffies + 60 * kt_slow * HZ;

	while (atomic_read(&events->calls) < calls && time_before(jiffies, end))
		usleep_range(20, 100);
	return atomic_read(&events->calls) >= calls;
}

/* QPs and CQs go while events are on their way, with each completion vector. */
static int destroyed(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	int round, i, calls, cpu, error = 0;

	KT_EXPECT(buf.va);
	for (round = 0; round < 100 && !error; round++) {
		struct kt_events *events = kzalloc(sizeof(*events), GFP_KERNEL);

		KT_EXPECT(events);
		cpu = cpumask_nth(round % num_online_cpus(), cpu_online_mask);
		error = kt_open_with_events(pair, events, cpu);
		for (i = 0; i < 32 && !error; i++)
			error = kt_recv(&pair->b, i, buf.va + 1024, LEN);
		for (i = 0; i < 32 && !error; i++) {
			ib_req_notify_cq(events->cq_b, IB_CQ_NEXT_COMP);
			error = kt_send(&pair->a, i, buf.va, LEN);
		}
		if (round & 1)
			udelay(round);
		kt_close_with_events(pair, events);
		calls = atomic_read(&events->calls);
		usleep_range(100, 200);
		if (!error && atomic_read(&events->calls) != calls)
			error = -EPROTO;
		kfree(events);
	}
	return error;
}

const struct kt_case kt_event_cases[] = {
	{ "CQs are destroyed while events are on their way", destroyed, true },
	{}
};
