// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of sends, which is the consumer's again once they are flushed, or once the QP is reset or
 * destroyed: nothing is sent from there any more.
 *
 * A timer on another CPU posts sends, so that its softirq carries them out. At some time
 * meanwhile a second interrupt holds it up there. This CPU ends the sends, and at once writes bytes
 * to the memory that no message has. None of them may arrive.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include "ktest.h"

#define COUNT 8
#define LEN SZ_256K
/* Rounds in which the sends ended while messages were on their way. */
#define CAUGHT 30
#define HELD_UP_US 300
#define POISON 0xee

struct lent {
	struct kt_pair *pair;
	struct kt_buf from, to;
	unsigned int cpu;
	struct hrtimer timer;
	bool posted, held_up;
	int error;
};

static void lent_free(struct lent *lent)
{
	kt_free(&lent->from);
	kt_free(&lent->to);
}
DEFINE_FREE(lent, struct lent, lent_free(&_T))

/* Ends what the end's QP sends. When it returns, the memory is the consumer's. */
typedef int (*end_fn)(struct kt_end *end);

/* In the timer's interrupt. */
static enum hrtimer_restart post(struct hrtimer *timer)
{
	struct lent *lent = container_of(timer, struct lent, timer);
	int i;

	for (i = 0; i < COUNT && !lent->error; i++)
		lent->error = kt_send(&lent->pair->a, i, lent->from.va, LEN);
	smp_store_release(&lent->posted, true);
	return HRTIMER_NORESTART;
}

/* On the other CPU, in an interrupt in which no consumer may post. */
static void start_timer(void *data)
{
	struct lent *lent = data;

	hrtimer_start(&lent->timer, 0, HRTIMER_MODE_REL_PINNED);
}

/* In an interrupt. */
static void hold_up(void *data)
{
	struct lent *lent = data;

	smp_store_release(&lent->held_up, true);
	udelay(HELD_UP_US);
}

static int begin(struct lent *lent)
{
	int i;

	memset(lent->from.va, 1, LEN);
	memset(lent->to.va, 0, LEN);
	for (i = 0; i < COUNT; i++)
		KT_OK(kt_recv(&lent->pair->b, i, lent->to.va, LEN));
	lent->posted = false;
	KT_OK(smp_call_function_single(lent->cpu, start_timer, lent, true));
	while (!smp_load_acquire(&lent->posted))
		cpu_relax();
	return lent->error;
}

/* Polls without a pause until this request has completed. */
static int poll_for(struct ib_cq *cq, u64 wr_id)
{
	unsigned long limit = jiffies + 60 * kt_slow * HZ;
	struct ib_wc wc = {};

	while (ib_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != wr_id) {
		KT_EXPECT(time_before(jiffies, limit));
		cpu_relax();
	}
	return 0;
}

/* How long the messages take that nothing ends, in nanoseconds. */
static int measure(struct lent *lent, u64 *span)
{
	u64 since;

	KT_OK(begin(lent));
	since = ktime_get_ns();
	KT_OK(poll_for(lent->pair->a.scq, COUNT - 1));
	*span = ktime_get_ns() - since;
	return kt_reset(lent->pair);
}

static int flush(struct kt_end *end)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	KT_OK(ib_modify_qp(end->qp, &attr, IB_QP_STATE));
	return poll_for(end->scq, COUNT - 1);
}

static int reset(struct kt_end *end)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	return ib_modify_qp(end->qp, &attr, IB_QP_STATE);
}

static int destroy(struct kt_end *end)
{
	struct ib_qp *qp = end->qp;

	end->qp = NULL;
	return ib_destroy_qp(qp);
}

static int open_again(struct kt_pair *pair)
{
	const struct kt_how how = {};

	if (pair->a.qp)
		return kt_reset(pair);
	kt_close(pair);
	return kt_open(pair, &how);
}

/* A byte here and there, as a copy in progress would be ahead of one that writes them all. */
static void poison(struct lent *lent)
{
	int i;

	for (i = LEN - 1; i > 0; i -= 1024)
		WRITE_ONCE(lent->from.va[i], POISON);
}

/* Sets whether the end came before all messages had arrived. */
static int run_round(struct lent *lent, end_fn end, u64 span, bool *caught)
{
	struct ib_wc wc;
	int received = 0;

	KT_OK(begin(lent));
	ndelay(get_random_u32_below(span));
	lent->held_up = false;
	KT_OK(smp_call_function_single(lent->cpu, hold_up, lent, false));
	while (!smp_load_acquire(&lent->held_up))
		cpu_relax();
	KT_OK(end(&lent->pair->a));
	poison(lent);
	/* The softirq that delivers the messages has ended when this returns. */
	synchronize_rcu_expedited();
	if (memchr(lent->to.va, POISON, LEN)) {
		kt_note("bytes were sent from memory that was the consumer's again");
		return -EPROTO;
	}
	while (ib_poll_cq(lent->pair->b.rcq, 1, &wc) > 0)
		received += wc.status == IB_WC_SUCCESS;
	*caught = received < COUNT;
	return open_again(lent->pair);
}

static int run(struct kt_pair *pair, end_fn end)
{
	struct lent lent __free(lent) = { .pair = pair, .from = kt_alloc(LEN), .to = kt_alloc(LEN) };
	unsigned long limit = jiffies + 60 * kt_slow * HZ;
	int rounds = 0, count = 0, error;
	bool caught;
	u64 span;

	KT_EXPECT(lent.from.va && lent.to.va);
	hrtimer_setup_on_stack(&lent.timer, post, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	migrate_disable();
	lent.cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	if (lent.cpu >= nr_cpu_ids)
		error = -EOPNOTSUPP;
	else
		error = measure(&lent, &span);
	while (!error && count < CAUGHT && time_before(jiffies, limit)) {
		span = clamp(span, 1000, 2 * NSEC_PER_MSEC);
		error = run_round(&lent, end, span, &caught);
		/* The measured time may have been that of a busy machine. */
		span = caught ? span * 5 / 4 : span * 7 / 8;
		count += caught;
		rounds++;
	}
	migrate_enable();
	hrtimer_cancel(&lent.timer);
	destroy_hrtimer_on_stack(&lent.timer);
	if (error)
		return error;
	kt_note("in %d of %d rounds messages were on their way", count, rounds);
	KT_EQ(count, CAUGHT);
	return 0;
}

static int flushed(struct kt_pair *pair)
{
	return run(pair, flush);
}

static int reset_under_way(struct kt_pair *pair)
{
	return run(pair, reset);
}

static int destroyed(struct kt_pair *pair)
{
	return run(pair, destroy);
}

const struct kt_case kt_lent_cases[] = {
	{ "nothing is sent from the memory of sends that were flushed", flushed },
	{ "nothing is sent once the QP is reset", reset_under_way },
	{ "nothing is sent once the QP is destroyed", destroyed },
	{}
};
