/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A CQ's handler that counts its calls.
 */
#ifndef OXE_KTEST_EVENTS_H
#define OXE_KTEST_EVENTS_H

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include "ktest.h"

struct kt_events {
	struct ib_cq *cq_a, *cq_b;
	atomic_t calls;
	/* Of the last call. */
	int cpu;
	ktime_t when;
};

void kt_event(struct ib_cq *cq, void *context);
int kt_open_with_events(struct kt_pair *pair, struct kt_events *events, u32 vector);
void kt_close_with_events(struct kt_pair *pair, struct kt_events *events);
bool kt_event_comes(struct kt_events *events, int calls);

#endif
