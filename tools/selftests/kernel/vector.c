// SPDX-License-Identifier: GPL-2.0
/*
 * Completion vectors: the handler of a CQ runs on the vector's CPU.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/workqueue.h>
#include "events.h"

#define LEN 64

void kt_event(struct ib_cq *cq, void *context)
{
	struct kt_events *events = context;

	events->when = ktime_get();
	events->cpu = raw_smp_processor_id();
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

struct posting {
	struct kt_pair *pair;
	struct kt_buf *buf;
};

static long post(void *arg)
{
	struct posting *posting = arg;

	return kt_send(&posting->pair->a, 1, posting->buf->va, LEN);
}

/* Messages that CPU "from" posts have their events on CPU "vector". */
static int on_vector(struct kt_pair *pair, int vector, int from)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct kt_events events = {};
	struct posting posting = { .pair = pair, .buf = &buf };
	int i, error;

	KT_EXPECT(buf.va);
	error = kt_open_with_events(pair, &events, vector);
	for (i = 0; i < 20 && !error; i++) {
		error = kt_recv(&pair->b, i, buf.va + 1024, LEN);
		error = error ?: ib_req_notify_cq(events.cq_b, IB_CQ_NEXT_COMP);
		error = error ?: work_on_cpu(from, post, &posting);
		if (!error && !kt_event_comes(&events, i + 1))
			error = -ETIMEDOUT;
		if (!error && events.cpu != vector) {
			kt_note("vector %d, posted on CPU %d: event on CPU %d", vector, from,
				events.cpu);
			error = -EPROTO;
		}
		error = error ?: kt_wait_for(events.cq_b, i, IB_WC_SUCCESS, NULL);
		error = error ?: kt_wait_for(events.cq_a, 1, IB_WC_SUCCESS, NULL);
	}
	kt_close_with_events(pair, &events);
	return error;
}

static int vectors(struct kt_pair *pair)
{
	int vector, from;

	KT_EXPECT(pair->b.host->dev->num_comp_vectors >= num_online_cpus());
	for_each_online_cpu(vector)
		for_each_online_cpu(from)
			KT_OK(on_vector(pair, vector, from));
	return 0;
}

/* QPs and CQs go while events are on their way to the other CPUs. */
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

const struct kt_case kt_vector_cases[] = {
	{ "events come on the CPU of the completion vector", vectors, true },
	{ "CQs are destroyed while events are on their way", destroyed, true },
	{}
};
