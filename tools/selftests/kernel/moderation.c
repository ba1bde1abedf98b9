// SPDX-License-Identifier: GPL-2.0
/*
 * Moderation of a CQ's events: how long they are held, and that none is lost.
 *
 * An event that is held must not come before its period has passed; that can be judged on a machine
 * of any speed. An event that is not held has to be faster than the period once in many times.
 */
#include <linux/delay.h>
#include "events.h"

#define LEN 64
#define ROUNDS 30
/* The longest period that there is, in microseconds. */
#define PERIOD 65535

struct round {
	struct kt_pair *pair;
	struct kt_events *events;
	struct kt_buf *buf;
	/* Events that were faster than the period. */
	int fast;
};

static int send(struct round *round, u64 wr_id, int flags)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)round->buf->va, .length = LEN,
		.lkey = round->pair->a.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | flags,
	};

	KT_OK(kt_recv(&round->pair->b, wr_id, round->buf->va + 1024, LEN));
	return ib_post_send(round->pair->a.qp, &wr, NULL);
}

/* One event for these messages; "then" is called once they are posted. */
static int one_event(struct round *round, int messages, int flags,
		     int (*then)(struct round *round))
{
	struct kt_events *events = round->events;
	int i, calls = atomic_read(&events->calls);
	ktime_t begin;

	KT_EQ(ib_req_notify_cq(events->cq_b, IB_CQ_NEXT_COMP), 0);
	begin = ktime_get();
	for (i = 0; i < messages; i++)
		KT_OK(send(round, i, flags));
	if (then)
		KT_OK(then(round));
	KT_EXPECT(kt_event_comes(events, calls + 1));
	if (ktime_us_delta(events->when, begin) < PERIOD)
		round->fast++;
	for (i = 0; i < messages; i++) {
		KT_OK(kt_wait_for(events->cq_a, i, IB_WC_SUCCESS, NULL));
		KT_OK(kt_wait_for(events->cq_b, i, IB_WC_SUCCESS, NULL));
	}
	KT_EQ(atomic_read(&events->calls), calls + 1);
	return 0;
}

static int switch_off(struct round *round)
{
	usleep_range(100, 200);
	return rdma_set_cq_moderation(round->events->cq_b, 0, 0);
}

static int switch_on(struct round *round)
{
	return rdma_set_cq_moderation(round->events->cq_b, 8, PERIOD);
}

static int steps(struct round *round)
{
	int i;

	/* Not moderated. */
	for (i = 0; i < ROUNDS; i++)
		KT_OK(one_event(round, 1, 0, NULL));
	KT_EXPECT(round->fast);
	KT_OK(switch_on(round));
	/* One message waits for the period. */
	round->fast = 0;
	for (i = 0; i < ROUNDS; i++)
		KT_OK(one_event(round, 1, 0, NULL));
	KT_EQ(round->fast, 0);
	/* Eight are enough. */
	for (i = 0; i < ROUNDS; i++)
		KT_OK(one_event(round, 8, 0, NULL));
	KT_EXPECT(round->fast);
	/* A solicited one does not wait. */
	round->fast = 0;
	for (i = 0; i < ROUNDS; i++)
		KT_OK(one_event(round, 1, IB_SEND_SOLICITED, NULL));
	KT_EXPECT(round->fast);
	/* An event that is held comes when events are not to be held any more. */
	round->fast = 0;
	for (i = 0; i < ROUNDS; i++) {
		KT_OK(one_event(round, 1, 0, switch_off));
		KT_OK(switch_on(round));
	}
	KT_EXPECT(round->fast);
	return 0;
}

static int with_events(struct kt_pair *pair, int (*run)(struct round *round))
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct kt_events events = {};
	struct round round = { .pair = pair, .events = &events, .buf = &buf };
	int error;

	KT_EXPECT(buf.va);
	error = kt_open_with_events(pair, &events, 0);
	if (!error)
		error = rdma_set_cq_moderation(events.cq_b, 0, 0);
	if (!error)
		error = run(&round);
	kt_close_with_events(pair, &events);
	return error;
}

static int held(struct kt_pair *pair)
{
	return with_events(pair, steps);
}

/* Flushed receives are errors: their event does not wait. */
static int flushes(struct round *round)
{
	struct kt_events *events = round->events;
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	int i, calls;
	ktime_t begin;

	KT_OK(switch_on(round));
	for (i = 0; i < ROUNDS; i++) {
		calls = atomic_read(&events->calls);
		KT_OK(kt_recv(&round->pair->b, 1, round->buf->va, LEN));
		KT_EQ(ib_req_notify_cq(events->cq_b, IB_CQ_NEXT_COMP), 0);
		begin = ktime_get();
		KT_OK(ib_modify_qp(round->pair->b.qp, &attr, IB_QP_STATE));
		KT_EXPECT(kt_event_comes(events, calls + 1));
		if (ktime_us_delta(events->when, begin) < PERIOD)
			round->fast++;
		KT_OK(kt_wait_for(events->cq_b, 1, IB_WC_WR_FLUSH_ERR, NULL));
		KT_OK(kt_reset(round->pair));
	}
	KT_EXPECT(round->fast);
	return 0;
}

static int errors(struct kt_pair *pair)
{
	return with_events(pair, flushes);
}

/* A CQ goes with an event held. */
static int gone(struct round *round)
{
	KT_OK(switch_on(round));
	KT_EQ(ib_req_notify_cq(round->events->cq_b, IB_CQ_NEXT_COMP), 0);
	KT_OK(send(round, 0, 0));
	return kt_wait_for(round->events->cq_a, 0, IB_WC_SUCCESS, NULL);
}

static int destroyed(struct kt_pair *pair)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		KT_OK(with_events(pair, gone));
	return 0;
}

const struct kt_case kt_moderation_cases[] = {
	{ "events are held for a count and a period", held, true },
	{ "events of errors are not held", errors, true },
	{ "CQs are destroyed with an event held", destroyed, true },
	{}
};
