// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of sends, which is the consumer's again once they are flushed, or once the QP is reset or
 * destroyed: nothing is sent from there any more. And memory whose key ends while it is sent.
 *
 * A timer on another CPU posts sends, so that its softirq carries them out. At some time
 * meanwhile a second interrupt holds it up there. This CPU ends the sends, and at once writes bytes
 * to the memory that no message has. None of them may arrive. Or it has the peer end the memory's
 * key: then the sender has an error, and the peer none.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include "pages.h"

#define COUNT 8
#define LEN SZ_256K
/* Enough rounds in which the sends ended while messages were on their way. */
#define CAUGHT 30
/* The same for memory whose key ends, which takes more rounds. */
#define CAUGHT_KEYS 5
#define HELD_UP_US 300
#define POISON 0xee

struct lent {
	struct kt_pair *pair;
	struct kt_buf from, to;
	/* The region that is sent from, if it is not the kernel's own memory. */
	struct ib_mr *mr;
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

static int send(struct lent *lent, u64 wr_id)
{
	struct ib_sge sge = { .length = LEN };
	struct ib_send_wr wr = {
		.wr_id = wr_id, .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IB_SEND_SIGNALED,
	};

	if (!lent->mr)
		return kt_send(&lent->pair->a, wr_id, lent->from.va, LEN);
	sge.addr = lent->mr->iova;
	sge.lkey = lent->mr->lkey;
	return ib_post_send(lent->pair->a.qp, &wr, NULL);
}

/* In the timer's interrupt. */
static enum hrtimer_restart post(struct hrtimer *timer)
{
	struct lent *lent = container_of(timer, struct lent, timer);
	int i;

	for (i = 0; i < COUNT && !lent->error; i++)
		lent->error = send(lent, i);
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

/* The messages are on their way, and the CPU that sends them is held up. */
static int begin_and_hold_up(struct lent *lent, u64 span)
{
	KT_OK(begin(lent));
	ndelay(get_random_u32_below(span));
	lent->held_up = false;
	KT_OK(smp_call_function_single(lent->cpu, hold_up, lent, false));
	while (!smp_load_acquire(&lent->held_up))
		cpu_relax();
	return 0;
}

/* A round: sets whether the end came before all messages had arrived. */
typedef int (*round_fn)(struct lent *lent, end_fn end, u64 span, bool *caught);

static int end_sends(struct lent *lent, end_fn end, u64 span, bool *caught)
{
	struct ib_wc wc;
	int received = 0;

	KT_OK(begin_and_hold_up(lent, span));
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

/* By a SEND of the peer, which is received. */
static int end_key(struct lent *lent)
{
	struct kt_end *b = &lent->pair->b;
	struct ib_send_wr wr = {
		.wr_id = COUNT, .opcode = IB_WR_SEND_WITH_INV, .send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = lent->mr->rkey,
	};

	KT_OK(ib_post_send(b->qp, &wr, NULL));
	KT_OK(poll_for(b->scq, COUNT));
	return kt_wait_for(lent->pair->a.rcq, COUNT, IB_WC_SUCCESS, NULL);
}

/*
 * The sends succeed up to one, which has a local error; those behind it are flushed. The peer has
 * what succeeded, perhaps more, whose acknowledgement did not come before the error; it has no
 * error and is as it was.
 */
static int revoke(struct lent *lent, end_fn end, u64 span, bool *caught)
{
	struct kt_pair *pair = lent->pair;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct ib_wc wc;
	int i, sent = 0, received = 0;

	KT_OK(kt_invalidate(&pair->a, lent->mr->rkey, IB_WC_SUCCESS));
	ib_update_fast_reg_key(lent->mr, ib_inc_rkey(lent->mr->rkey));
	KT_OK(kt_register(&pair->a, lent->mr, KT_ACCESS_ALL));
	KT_OK(kt_recv(&pair->a, COUNT, lent->to.va, 0));
	KT_OK(begin_and_hold_up(lent, span));
	KT_OK(end_key(lent));
	for (i = 0; i < COUNT; i++) {
		KT_OK(kt_wait(pair->a.scq, &wc));
		KT_EQ(wc.wr_id, i);
		if (wc.status == IB_WC_SUCCESS)
			sent++;
		else
			KT_EQ(wc.status, sent == i ? IB_WC_LOC_PROT_ERR : IB_WC_WR_FLUSH_ERR);
	}
	KT_OK(ib_query_qp(pair->b.qp, &attr, IB_QP_STATE, &init));
	KT_EQ(attr.qp_state, IB_QPS_RTS);
	for (; ib_poll_cq(pair->b.rcq, 1, &wc) > 0; received++)
		KT_EQ(wc.status, IB_WC_SUCCESS);
	KT_EXPECT(received >= sent);
	*caught = sent < COUNT;
	return kt_reset(pair);
}

static int run(struct kt_pair *pair, round_fn run_round, end_fn end, struct ib_mr *mr)
{
	struct lent lent __free(lent) = {
		.pair = pair, .from = kt_alloc(LEN), .to = kt_alloc(LEN), .mr = mr,
	};
	unsigned long limit = jiffies + 60 * kt_slow * HZ;
	int rounds = 0, count = 0, wanted = mr ? CAUGHT_KEYS : CAUGHT, error;
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
	while (!error && count < wanted && time_before(jiffies, limit)) {
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
	/* The moments of a busy machine are rarely those that were aimed at. */
	KT_EXPECT(count >= DIV_ROUND_UP(wanted, 10));
	return 0;
}

static int flushed(struct kt_pair *pair)
{
	return run(pair, end_sends, flush, NULL);
}

static int reset_under_way(struct kt_pair *pair)
{
	return run(pair, end_sends, reset, NULL);
}

static int destroyed(struct kt_pair *pair)
{
	return run(pair, end_sends, destroy, NULL);
}

static int revoked(struct kt_pair *pair)
{
	struct kt_pages pages __free(kt_pages) = kt_pages_alloc(LEN / PAGE_SIZE, 0);
	struct ib_mr *mr __free(kt_mr) = ib_alloc_mr(pair->a.pd, IB_MR_TYPE_MEM_REG, LEN / PAGE_SIZE);

	KT_OK(PTR_ERR_OR_ZERO(mr));
	KT_EXPECT(pages.count);
	KT_EQ(ib_map_mr_sg(mr, pages.sgl, pages.count, NULL, PAGE_SIZE), pages.count);
	KT_OK(kt_register(&pair->a, mr, KT_ACCESS_ALL));
	return run(pair, revoke, NULL, mr);
}

const struct kt_case kt_lent_cases[] = {
	{ "nothing is sent from the memory of sends that were flushed", flushed },
	{ "nothing is sent once the QP is reset", reset_under_way },
	{ "nothing is sent once the QP is destroyed", destroyed },
	{ "memory whose key ends while it is sent is the sender's error", revoked },
	{}
};
