// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that acknowledges messages before they are delivered to it: their memory is not the
 * consumer's before the messages were delivered, and nothing is read from there afterwards (F1).
 *
 * The peer, QP b, expects PSNs that are ahead of those of QP a, so it takes the first messages for
 * duplicates, and acknowledges all before the PSN that it expects. A kprobe holds up both CPUs
 * between the time a QP's packets are built and that when they are delivered: on this one QP b with
 * its acknowledgement, until QP a on the other CPU has built the messages that it is about; and
 * that CPU for milliseconds. If the messages complete meanwhile their memory is overwritten, and QP
 * b connected anew, so that it expects them.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include "ktest.h"

#define COUNT 8
/* All that the second message and those after it have are built at once. */
#define LEN SZ_8K
#define ROUNDS 5
/* How long the messages are held up, and anything else at most. */
#define HOLD_US 20000
#define LIMIT_US 1000000
#define POISON 0xee

static struct {
	struct kt_pair *pair;
	struct kt_buf from, to;
	unsigned int acking_cpu, sending_cpu;
	/* Calls of the probed function on the acking CPU. */
	int calls;
	bool armed, acking, built, delivering, over;
	int error;
	struct hrtimer timer;
} late;

/* Any context. */
static void wait_until(const bool *flag, unsigned int limit)
{
	for (limit *= kt_slow; limit && !smp_load_acquire(flag); limit--)
		udelay(1);
}

static int before_delivery(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned int cpu = raw_smp_processor_id();

	if (!smp_load_acquire(&late.armed))
		return 0;
	/* The first call has the first message, the second one the acknowledgement. */
	if (cpu == late.acking_cpu && ++late.calls == 2) {
		smp_store_release(&late.acking, true);
		wait_until(&late.built, LIMIT_US);
	} else if (cpu == late.sending_cpu && !late.built) {
		smp_store_release(&late.built, true);
		wait_until(&late.over, HOLD_US);
		smp_store_release(&late.delivering, true);
	}
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "oxe_tx_send",
	.pre_handler = before_delivery,
};

/* In the timer's interrupt, on the sending CPU. */
static enum hrtimer_restart post(struct hrtimer *timer)
{
	int i;

	wait_until(&late.acking, LIMIT_US);
	for (i = 1; i < COUNT && !late.error; i++)
		late.error = kt_send(&late.pair->a, i, late.from.va, LEN);
	return HRTIMER_NORESTART;
}

static void start_timer(void *data)
{
	hrtimer_start(&late.timer, 0, HRTIMER_MODE_REL_PINNED);
}

/* QP b from RESET to RTS; it expects the message of this number. */
static int expect(int n)
{
	struct kt_end *a = &late.pair->a, *b = &late.pair->b;
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	int i;

	KT_OK(ib_modify_qp(b->qp, &attr, IB_QP_STATE));
	KT_OK(kt_connect_at(b, a, a->qp->qp_num + n));
	for (i = n; i < COUNT; i++)
		KT_OK(kt_recv(b, i, late.to.va, LEN));
	return 0;
}

static int play_round(bool *acked_early)
{
	struct kt_pair *pair = late.pair;
	struct ib_wc wc;
	int i;

	memset(late.from.va, 1, LEN);
	memset(late.to.va, 0, LEN);
	KT_OK(expect(COUNT));
	late.calls = 0;
	late.acking = late.built = late.delivering = late.over = false;
	smp_store_release(&late.armed, true);
	smp_call_function_single(late.sending_cpu, start_timer, NULL, true);
	KT_OK(kt_send(&pair->a, 0, late.from.va, LEN));
	for (i = 0; i < COUNT; i++) {
		KT_OK(kt_wait(pair->a.scq, &wc));
		KT_EQ(wc.wr_id, i);
		KT_EQ(wc.status, IB_WC_SUCCESS);
	}
	/* The memory is the consumer's. */
	*acked_early = !smp_load_acquire(&late.delivering);
	memset(late.from.va, POISON, LEN);
	KT_OK(expect(1));
	smp_store_release(&late.over, true);
	/* The softirq that delivers the messages has ended when this returns. */
	synchronize_rcu_expedited();
	late.armed = false;
	KT_OK(late.error);
	KT_EXPECT(late.built);
	if (memchr(late.to.va, POISON, LEN)) {
		kt_note("bytes were read from memory that was the consumer's again");
		return -EPROTO;
	}
	return kt_reset(pair);
}

static int rounds(void)
{
	int i, early = 0;

	for (i = 0; i < ROUNDS; i++) {
		bool acked_early = false;

		KT_OK(play_round(&acked_early));
		early += acked_early;
	}
	KT_EQ(early, 0);
	return 0;
}

static int acknowledged_early(struct kt_pair *pair)
{
	struct kt_buf from __free(kt_buf) = kt_alloc(LEN), to __free(kt_buf) = kt_alloc(LEN);
	int error;

	KT_EXPECT(from.va && to.va);
	/* On a wire there are bytes of their own in the packets. */
	if (pair->a.host != pair->b.host)
		return -EOPNOTSUPP;
	memset(&late, 0, sizeof(late));
	late.pair = pair;
	late.from = from;
	late.to = to;
	KT_OK(register_kprobe(&probe));
	hrtimer_setup(&late.timer, post, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	migrate_disable();
	late.acking_cpu = smp_processor_id();
	late.sending_cpu = cpumask_any_but(cpu_online_mask, late.acking_cpu);
	error = late.sending_cpu < nr_cpu_ids ? rounds() : -EOPNOTSUPP;
	late.armed = false;
	late.over = true;
	migrate_enable();
	hrtimer_cancel(&late.timer);
	unregister_kprobe(&probe);
	return error;
}

const struct kt_case kt_late_cases[] = {
	{ "messages that are acknowledged early complete when they are delivered",
	  acknowledged_early },
	{}
};
