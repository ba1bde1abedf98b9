// SPDX-License-Identifier: GPL-2.0
/*
 * Handlers of CQs: on which CPU they are called, and that no two calls overlap.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/workqueue.h>
#include "events.h"

#define LEN 64
#define MESSAGES 400

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

/* A CQ of two pairs, whose handler arms it, takes its time, and looks whether it is entered then. */
struct busy {
	struct kt_pair *pairs[2];
	struct kt_buf buf;
	struct ib_cq *cq;
	atomic_t ready, inside;
	int calls, overlaps, completed;
};

static void busy_handler(struct ib_cq *cq, void *context)
{
	struct busy *busy = context;
	struct ib_wc wc;

	if (atomic_inc_return(&busy->inside) != 1)
		busy->overlaps++;
	busy->calls++;
	do {
		while (ib_poll_cq(cq, 1, &wc) > 0)
			busy->completed++;
	} while (ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
	udelay(20);
	atomic_dec(&busy->inside);
}

/* Sends from the one end of a pair to the other, at the same time as the other CPU. */
static int post_all(struct busy *busy, struct kt_pair *pair)
{
	int i;

	atomic_inc(&busy->ready);
	while (atomic_read(&busy->ready) < 2)
		cond_resched();
	for (i = 0; i < MESSAGES; i++)
		KT_OK(kt_recv(&pair->b, i, busy->buf.va + 1024, LEN));
	for (i = 0; i < MESSAGES; i++)
		KT_OK(kt_send(&pair->a, i, busy->buf.va, LEN));
	return 0;
}

static int other_cpu(void *data)
{
	struct busy *busy = data;
	int error = post_all(busy, busy->pairs[1]);

	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return error;
}

static int both_cpus(struct busy *busy)
{
	unsigned long end = jiffies + 60 * kt_slow * HZ;
	unsigned int cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	struct task_struct *other;
	int error;

	if (cpu >= nr_cpu_ids)
		return -EOPNOTSUPP;
	KT_OK(ib_req_notify_cq(busy->cq, IB_CQ_NEXT_COMP));
	other = kthread_run_on_cpu(other_cpu, busy, cpu, "oxe_ktest/%u");
	KT_OK(PTR_ERR_OR_ZERO(other));
	error = post_all(busy, busy->pairs[0]);
	while (!error && READ_ONCE(busy->completed) < 2 * MESSAGES) {
		if (time_after(jiffies, end))
			error = -ETIMEDOUT;
		schedule_timeout_uninterruptible(1);
	}
	return kthread_stop(other) ?: error;
}

static int one_at_a_time(struct kt_pair *pair)
{
	struct busy *busy __free(kfree) = kzalloc(sizeof(*busy), GFP_KERNEL);
	const struct ib_cq_init_attr attr = { .cqe = 2 * MESSAGES };
	struct kt_how how = { .send_wr = MESSAGES, .recv_wr = MESSAGES };
	struct kt_pair second = { .a.host = pair->a.host, .b.host = pair->b.host };
	int error;

	KT_EXPECT(busy);
	busy->pairs[0] = pair;
	busy->pairs[1] = &second;
	busy->buf = kt_alloc(PAGE_SIZE);
	busy->cq = ib_create_cq(pair->a.host->dev, busy_handler, NULL, busy, &attr);
	error = PTR_ERR_OR_ZERO(busy->cq);
	how.cq_a = busy->cq;
	error = error ?: kt_open(pair, &how) ?: kt_open(&second, &how);
	migrate_disable();
	error = error ?: both_cpus(busy);
	migrate_enable();
	kt_close(&second);
	kt_close(pair);
	if (!IS_ERR(busy->cq))
		ib_destroy_cq(busy->cq);
	kt_free(&busy->buf);
	KT_OK(error);
	kt_note("%d calls for %d completions", busy->calls, busy->completed);
	KT_EQ(busy->overlaps, 0);
	KT_EXPECT(busy->calls > 1);
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

const struct kt_case kt_event_cases[] = {
	{ "events come on the CPU of the completion vector", vectors, true },
	{ "no two calls of a handler overlap", one_at_a_time, true },
	{ "CQs are destroyed while events are on their way", destroyed, true },
	{}
};
