// SPDX-License-Identifier: GPL-2.0
/*
 * Posting: from every context that may post, in chains, and requests that are refused.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include "ktest.h"

#define MESSAGES 500
#define LEN 64
/* As many are posted together with interrupts off: there is room for them. */
#define BATCH 50

/* A sender that posts one message each time it is called, in whichever context that is. */
struct poster {
	struct kt_end *end;
	struct kt_buf buf;
	struct hrtimer timer;
	struct irq_work irq;
	struct tasklet_struct tasklet;
	int posted, error;
	bool wrong_context;
};

/* Returns whether there is more to post. */
static bool post_next(struct poster *poster)
{
	int i = poster->posted, error;

	error = kt_send(poster->end, i, poster->buf.va + i * LEN, LEN);
	if (error == -ENOMEM)
		return true;
	poster->error = error;
	return !error && ++poster->posted < MESSAGES;
}

static enum hrtimer_restart in_timer(struct hrtimer *timer)
{
	struct poster *poster = container_of(timer, struct poster, timer);

	/* On a kernel for real time it would be a softirq: verbs take locks that may sleep there. */
	poster->wrong_context |= !in_hardirq();
	if (!post_next(poster))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, 100 * NSEC_PER_USEC);
	return HRTIMER_RESTART;
}

static void in_irq_work(struct irq_work *work)
{
	struct poster *poster = container_of(work, struct poster, irq);

	poster->wrong_context |= !in_hardirq();
	post_next(poster);
}

static void in_tasklet(struct tasklet_struct *tasklet)
{
	struct poster *poster = container_of(tasklet, struct poster, tasklet);

	poster->wrong_context |= !in_softirq();
	if (post_next(poster))
		tasklet_schedule(tasklet);
}

/* Every message arrives once, in order, with its bytes; so do the completions of the sends. */
static int received(struct kt_pair *pair, struct kt_buf *sink, int from, int to)
{
	struct ib_wc wc;
	int i;

	for (i = from; i < to; i++) {
		KT_OK(kt_wait_for(pair->b.rcq, i, IB_WC_SUCCESS, &wc));
		KT_EQ(wc.byte_len, LEN);
		KT_EXPECT(!kt_differs(sink->va + i * LEN, LEN, i * LEN, 3));
		KT_OK(kt_wait_for(pair->a.scq, i, IB_WC_SUCCESS, NULL));
	}
	return 0;
}

enum context { IRQS_OFF, TIMER, IRQ_WORK, TASKLET };

static int start(struct poster *poster, enum context context)
{
	int end = poster->posted + BATCH;
	unsigned long flags;

	switch (context) {
	case IRQS_OFF:
		local_irq_save(flags);
		while (poster->posted < end && post_next(poster))
			;
		local_irq_restore(flags);
		return BATCH;
	case TIMER:
		hrtimer_setup_on_stack(&poster->timer, in_timer, CLOCK_MONOTONIC,
				       HRTIMER_MODE_REL);
		hrtimer_start(&poster->timer, 0, HRTIMER_MODE_REL);
		return MESSAGES;
	case IRQ_WORK:
		poster->irq = IRQ_WORK_INIT(in_irq_work);
		irq_work_queue(&poster->irq);
		irq_work_sync(&poster->irq);
		return 1;
	case TASKLET:
		tasklet_setup(&poster->tasklet, in_tasklet);
		tasklet_schedule(&poster->tasklet);
		return MESSAGES;
	}
	return 0;
}

static void stop(struct poster *poster, enum context context)
{
	if (context == TIMER) {
		hrtimer_cancel(&poster->timer);
		destroy_hrtimer_on_stack(&poster->timer);
	}
	if (context == TASKLET)
		tasklet_kill(&poster->tasklet);
}

static int post_from(struct kt_pair *pair, enum context context)
{
	struct kt_buf source __free(kt_buf) = kt_alloc(MESSAGES * LEN);
	struct kt_buf sink __free(kt_buf) = kt_alloc(MESSAGES * LEN);
	const struct kt_how how = { .recv_wr = MESSAGES, .send_wr = 64 };
	struct poster poster = { .end = &pair->a, .buf = source };
	int i, n, error = 0;

	KT_EXPECT(source.va && sink.va);
	KT_OK(kt_open(pair, &how));
	kt_fill(source.va, source.len, 0, 3);
	for (i = 0; i < MESSAGES; i++)
		KT_OK(kt_recv(&pair->b, i, sink.va + i * LEN, LEN));
	/* Some contexts post all of them, others as many as one call may. */
	for (i = 0; i < MESSAGES && !error; i += n) {
		n = start(&poster, context);
		error = received(pair, &sink, i, i + n);
	}
	stop(&poster, context);
	KT_OK(error);
	KT_OK(poster.error);
	KT_EXPECT(!poster.wrong_context);
	return 0;
}

static int post_irqs_off(struct kt_pair *pair)
{
	return post_from(pair, IRQS_OFF);
}

static int post_timer(struct kt_pair *pair)
{
	return post_from(pair, TIMER);
}

static int post_irq_work(struct kt_pair *pair)
{
	return post_from(pair, IRQ_WORK);
}

static int post_tasklet(struct kt_pair *pair)
{
	return post_from(pair, TASKLET);
}

/* A chain in which one request of eight is signaled: only that one completes. */
static int unsignaled(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct kt_buf sink __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_send_wr wr[8] = {};
	struct ib_sge sge[8];
	struct ib_wc wc;
	int i, n;

	KT_EXPECT(buf.va && sink.va);
	for (n = 0; n < 50; n++) {
		kt_fill(buf.va, 8 * LEN, 0, n);
		for (i = 0; i < 8; i++) {
			KT_OK(kt_recv(&pair->b, i, sink.va + i * LEN, LEN));
			sge[i] = (struct ib_sge){
				.addr = (uintptr_t)buf.va + i * LEN,
				.length = LEN,
				.lkey = pair->a.pd->local_dma_lkey,
			};
			wr[i] = (struct ib_send_wr){
				.next = i < 7 ? &wr[i + 1] : NULL,
				.wr_id = i,
				.sg_list = &sge[i],
				.num_sge = 1,
				.opcode = IB_WR_SEND,
				.send_flags = i == 7 ? IB_SEND_SIGNALED : 0,
			};
		}
		KT_OK(ib_post_send(pair->a.qp, wr, NULL));
		for (i = 0; i < 8; i++)
			KT_OK(kt_wait_for(pair->b.rcq, i, IB_WC_SUCCESS, NULL));
		KT_OK(kt_wait_for(pair->a.scq, 7, IB_WC_SUCCESS, NULL));
		KT_EQ(ib_poll_cq(pair->a.scq, 1, &wc), 0);
		KT_EXPECT(!kt_differs(sink.va, 8 * LEN, 0, n));
	}
	return 0;
}

/* Inline data is copied when it is posted: it may change at once, and needs no key. */
static int inline_data(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct kt_buf sink __free(kt_buf) = kt_alloc(PAGE_SIZE);
	const struct kt_how how = { .inline_data = 200 };
	struct ib_sge sge[2] = {};
	struct ib_send_wr wr = {
		.wr_id = 4, .sg_list = sge, .num_sge = 2, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
	};
	const struct ib_send_wr *bad;

	KT_EXPECT(buf.va && sink.va);
	KT_OK(kt_open(pair, &how));
	kt_fill(buf.va, 200, 0, 6);
	sge[0] = (struct ib_sge){ .addr = (uintptr_t)buf.va, .length = 77 };
	sge[1] = (struct ib_sge){ .addr = (uintptr_t)buf.va + 77, .length = 123 };
	KT_OK(ib_post_send(pair->a.qp, &wr, NULL));
	memset(buf.va, 0, 200);
	KT_OK(kt_recv(&pair->b, 5, sink.va, 200));
	KT_OK(kt_wait_for(pair->b.rcq, 5, IB_WC_SUCCESS, NULL));
	KT_OK(kt_wait_for(pair->a.scq, 4, IB_WC_SUCCESS, NULL));
	KT_EXPECT(!kt_differs(sink.va, 200, 0, 6));
	sge[1].length = 4096;
	KT_EQ(ib_post_send(pair->a.qp, &wr, &bad), -EINVAL);
	KT_EXPECT(bad == &wr);
	return 0;
}

/* The first of three is executed, the second is refused and named, and nothing is lost. */
static int refused_send(struct kt_pair *pair, struct ib_send_wr *second, int error)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_sge sge = { .length = LEN, .lkey = pair->a.pd->local_dma_lkey };
	struct ib_send_wr first = {
		.next = second, .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_send_wr third = first;
	const struct ib_send_wr *bad = NULL;
	struct ib_wc wc;

	KT_EXPECT(buf.va);
	sge.addr = (uintptr_t)buf.va;
	third.next = NULL;
	third.wr_id = 3;
	second->next = &third;
	KT_OK(kt_recv(&pair->b, 1, buf.va + 1024, LEN));
	KT_OK(kt_recv(&pair->b, 3, buf.va + 2048, LEN));
	kt_fill(buf.va, LEN, 0, 1);
	KT_EQ(ib_post_send(pair->a.qp, &first, &bad), error);
	KT_EXPECT(bad == second);
	KT_OK(kt_wait_for(pair->a.scq, 1, IB_WC_SUCCESS, NULL));
	KT_OK(kt_wait_for(pair->b.rcq, 1, IB_WC_SUCCESS, NULL));
	KT_EQ(ib_poll_cq(pair->a.scq, 1, &wc), 0);
	KT_OK(ib_post_send(pair->a.qp, bad->next, NULL));
	KT_OK(kt_wait_for(pair->a.scq, 3, IB_WC_SUCCESS, NULL));
	KT_OK(kt_wait_for(pair->b.rcq, 3, IB_WC_SUCCESS, NULL));
	KT_EXPECT(!kt_differs(buf.va + 2048, LEN, 0, 1));
	return 0;
}

static int refused_sends(struct kt_pair *pair)
{
	struct ib_sge sges[40] = {};
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->a.pd, IB_MR_TYPE_MEM_REG, 1);
	struct ib_reg_wr reg = { .wr = { .opcode = IB_WR_REG_MR }, .mr = mr, .access = 1 };
	struct ib_send_wr wr = { .opcode = 0xee };

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_OK(refused_send(pair, &wr, -EINVAL));
	wr = (struct ib_send_wr){ .opcode = IB_WR_SEND, .sg_list = sges, .num_sge = 40 };
	KT_OK(refused_send(pair, &wr, -EINVAL));
	wr = (struct ib_send_wr){ .opcode = IB_WR_SEND, .num_sge = 2 };
	KT_OK(refused_send(pair, &wr, -EINVAL));
	wr = (struct ib_send_wr){ .opcode = IB_WR_SEND, .sg_list = sges, .num_sge = -1 };
	KT_OK(refused_send(pair, &wr, -EINVAL));
	/* The key of another region. */
	reg.key = mr->rkey ^ 0x100;
	KT_OK(refused_send(pair, &reg.wr, -EINVAL));
	reg.mr = NULL;
	KT_OK(refused_send(pair, &reg.wr, -EINVAL));
	return 0;
}

/* A full queue refuses, and takes requests again when completions were polled. */
static int full(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	int round, i, n, taken, error;

	KT_EXPECT(buf.va);
	for (round = 0; round < 3; round++) {
		/* No receive is there: all of them wait. */
		for (n = 0, error = 0; n < 10000 && !error; n++)
			error = kt_send(&pair->a, n, buf.va, LEN);
		KT_EQ(error, -ENOMEM);
		n--;
		KT_EXPECT(n >= 64);
		for (taken = 0; taken < n; taken += i) {
			for (i = 0; i < 32 && taken + i < n; i++)
				KT_OK(kt_recv(&pair->b, taken + i, buf.va + 1024, LEN));
			for (i = 0; i < 32 && taken + i < n; i++) {
				KT_OK(kt_wait_for(pair->a.scq, taken + i, IB_WC_SUCCESS, NULL));
				KT_OK(kt_wait_for(pair->b.rcq, taken + i, IB_WC_SUCCESS, NULL));
			}
		}
	}
	for (n = 0, error = 0; n < 10000 && !error; n++)
		error = kt_recv(&pair->b, n, buf.va, LEN);
	KT_EQ(error, -ENOMEM);
	KT_EXPECT(n > 64);
	return 0;
}

static int refused_recvs(struct kt_pair *pair)
{
	struct kt_buf buf __free(kt_buf) = kt_alloc(PAGE_SIZE);
	struct ib_sge sges[40] = {};
	struct ib_recv_wr third = { .wr_id = 3, .sg_list = sges, .num_sge = 1 };
	struct ib_recv_wr second = { .next = &third, .wr_id = 2, .sg_list = sges, .num_sge = 40 };
	struct ib_recv_wr first = { .next = &second, .wr_id = 1, .sg_list = sges, .num_sge = 1 };
	const struct ib_recv_wr *bad = NULL;

	KT_EXPECT(buf.va);
	sges[0] = (struct ib_sge){
		.addr = (uintptr_t)buf.va + 1024, .length = LEN,
		.lkey = pair->b.pd->local_dma_lkey,
	};
	KT_EQ(ib_post_recv(pair->b.qp, &first, &bad), -EINVAL);
	KT_EXPECT(bad == &second);
	KT_OK(ib_post_recv(pair->b.qp, bad->next, NULL));
	KT_OK(kt_send(&pair->a, 1, buf.va, LEN));
	KT_OK(kt_send(&pair->a, 2, buf.va, LEN));
	KT_OK(kt_wait_for(pair->b.rcq, 1, IB_WC_SUCCESS, NULL));
	return kt_wait_for(pair->b.rcq, 3, IB_WC_SUCCESS, NULL);
}

const struct kt_case kt_post_cases[] = {
	{ "posts with interrupts off", post_irqs_off, true },
	{ "posts of a hard timer", post_timer, true },
	{ "posts of irq_work", post_irq_work, true },
	{ "posts of a tasklet", post_tasklet, true },
	{ "chains with unsignaled requests", unsignaled },
	{ "inline data", inline_data, true },
	{ "requests that are refused in a chain", refused_sends },
	{ "receives that are refused in a chain", refused_recvs },
	{ "full queues", full },
	{}
};
