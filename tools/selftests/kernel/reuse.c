// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that their user has back as soon as they complete, while the call that posted them is
 * still going on: the driver looks at none of them again.
 *
 * One CPU posts requests. A timer interrupts it often, each time for longer than a request takes.
 * The other CPU polls. It links each completed request to a further request, the trap, by the
 * pointer next. Nobody posts the trap: if it completes, the driver has followed that pointer.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include "ktest.h"

#define SLOTS 16
#define INTERRUPTS 10000
#define PERIOD (150 * NSEC_PER_USEC)
#define LONGER_US 60
/* Identifiers of requests other than those of slots. */
#define TRAP 1000
#define OTHER 1001

struct slot {
	struct ib_rdma_wr send;
	struct ib_recv_wr recv;
	bool busy;
};

struct reuse {
	struct kt_pair *pair;
	bool receives;
	struct slot slots[SLOTS];
	struct ib_rdma_wr send_trap;
	struct ib_recv_wr recv_trap;
	struct hrtimer timer;
	int interrupts;
	/* What the one CPU began to post, and what completed on the other; neither counts the trap. */
	int posted, completed, sent;
	int trapped, error;
};

static enum hrtimer_restart interrupt(struct hrtimer *timer)
{
	struct reuse *reuse = container_of(timer, struct reuse, timer);

	udelay(LONGER_US);
	WRITE_ONCE(reuse->interrupts, reuse->interrupts + 1);
	hrtimer_forward_now(timer, PERIOD * kt_slow);
	return HRTIMER_RESTART;
}

static struct ib_rdma_wr empty_write(u64 wr_id)
{
	return (struct ib_rdma_wr){
		.wr = {
			.wr_id = wr_id,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
	};
}

/* A completion on the other CPU. The slot's user has it back. */
static void completed(struct reuse *reuse, const struct ib_wc *wc)
{
	struct slot *slot;

	if (wc->status != IB_WC_SUCCESS)
		reuse->error = -EIO;
	if (wc->wr_id == TRAP)
		reuse->trapped++;
	if (wc->wr_id >= SLOTS)
		return;
	slot = &reuse->slots[wc->wr_id];
	WRITE_ONCE(slot->send.wr.next, &reuse->send_trap.wr);
	WRITE_ONCE(slot->recv.next, &reuse->recv_trap);
	WRITE_ONCE(reuse->completed, reuse->completed + 1);
	smp_store_release(&slot->busy, false);
}

/* The other CPU: has the requests carried out, and polls. */
static int other_cpu(void *data)
{
	struct reuse *reuse = data;
	struct kt_end *a = &reuse->pair->a;
	struct ib_cq *cqs[] = { a->scq, reuse->pair->b.rcq };
	struct ib_wc wc;
	int i;

	while (!kthread_should_stop()) {
		/* A message for each receive; or a request of this CPU, which carries out those before. */
		while (reuse->sent < READ_ONCE(reuse->posted)) {
			struct ib_rdma_wr write = empty_write(OTHER);

			if (reuse->receives ? kt_send(a, OTHER, NULL, 0) :
					      ib_post_send(a->qp, &write.wr, NULL))
				break;
			reuse->sent++;
		}
		for (i = 0; i < ARRAY_SIZE(cqs); i++)
			while (ib_poll_cq(cqs[i], 1, &wc) > 0)
				completed(reuse, &wc);
		cond_resched();
	}
	return 0;
}

static int post_slot(struct reuse *reuse, int i)
{
	struct slot *slot = &reuse->slots[i];

	slot->busy = true;
	slot->send = empty_write(i);
	slot->recv = (struct ib_recv_wr){ .wr_id = i };
	/* The other CPU begins when it sees this. */
	WRITE_ONCE(reuse->posted, reuse->posted + 1);
	if (reuse->receives)
		return ib_post_recv(reuse->pair->b.qp, &slot->recv, NULL);
	return ib_post_send(reuse->pair->a.qp, &slot->send.wr, NULL);
}

static bool goes_on(const struct reuse *reuse, int error)
{
	return !error && !READ_ONCE(reuse->trapped);
}

static int post_all(struct reuse *reuse)
{
	unsigned long end = jiffies + 60 * kt_slow * HZ;
	int i = 0, error = 0;

	while (goes_on(reuse, error) && READ_ONCE(reuse->interrupts) < INTERRUPTS) {
		KT_EXPECT(time_before(jiffies, end));
		if (!smp_load_acquire(&reuse->slots[i].busy)) {
			error = post_slot(reuse, i);
			i = (i + 1) % SLOTS;
		}
		cond_resched();
	}
	while (goes_on(reuse, error) && READ_ONCE(reuse->completed) < reuse->posted) {
		KT_EXPECT(time_before(jiffies, end));
		schedule_timeout_uninterruptible(1);
	}
	return error;
}

static int run(struct kt_pair *pair, bool receives)
{
	struct reuse *reuse __free(kfree) = kzalloc(sizeof(*reuse), GFP_KERNEL);
	struct task_struct *other;
	unsigned int cpu;
	int error;

	KT_EXPECT(reuse);
	reuse->pair = pair;
	reuse->receives = receives;
	reuse->send_trap = empty_write(TRAP);
	reuse->recv_trap = (struct ib_recv_wr){ .wr_id = TRAP };
	migrate_disable();
	cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	other = cpu < nr_cpu_ids ? kthread_run_on_cpu(other_cpu, reuse, cpu, "oxe_ktest/%u") :
				   ERR_PTR(-ENODEV);
	if (!IS_ERR(other)) {
		hrtimer_setup(&reuse->timer, interrupt, CLOCK_MONOTONIC,
				       HRTIMER_MODE_REL_PINNED_HARD);
		hrtimer_start(&reuse->timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
		error = post_all(reuse);
		hrtimer_cancel(&reuse->timer);
		kthread_stop(other);
	} else {
		error = PTR_ERR(other);
	}
	migrate_enable();
	KT_OK(error);
	KT_EQ(reuse->trapped, 0);
	KT_EQ(reuse->completed, reuse->posted);
	KT_OK(reuse->error);
	return 0;
}

static int reused_sends(struct kt_pair *pair)
{
	return run(pair, false);
}

static int reused_recvs(struct kt_pair *pair)
{
	return run(pair, true);
}

const struct kt_case kt_reuse_cases[] = {
	{ "sends that are reused as soon as they complete", reused_sends },
	{ "receives that are reused as soon as they complete", reused_recvs },
	{}
};
