// SPDX-License-Identifier: GPL-2.0
/* The trace events: which of them someone traces, and calls of them for rust/rdma/trace.rs. */
#include <linux/cache.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include "trace_helpers.h"

#define CREATE_TRACE_POINTS
#include "oxe_trace.h"

u32 oxe_traced __read_mostly;

/* The tracing core calls these under its lock: for an event's first user, and after the last. */
#define OXE_GATE(event)										\
	int oxe_trace_##event##_on(void)							\
	{											\
		WRITE_ONCE(oxe_traced, oxe_traced | BIT(OXE_TRACE_##event));			\
		return 0;									\
	}											\
	void oxe_trace_##event##_off(void)							\
	{											\
		WRITE_ONCE(oxe_traced, oxe_traced & ~BIT(OXE_TRACE_##event));			\
	}
OXE_EVENTS
#undef OXE_GATE

void oxe_trace_emit_post(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 len)
{
	trace_oxe_post(qp, wr_id, opcode, len);
}

/* A NAK has an event of its own besides. */
void oxe_trace_emit_packet(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet,
			   bool sent)
{
	if (sent)
		trace_oxe_transmit(qp, packet);
	else
		trace_oxe_receive(qp, packet);
	if (packet->syndrome & 0x60)
		trace_oxe_nak(qp, packet, sent);
}

void oxe_trace_emit_drop(const struct oxe_trace_qp *qp, const char *counter)
{
	trace_oxe_drop(qp, counter);
}

void oxe_trace_emit_requester(const struct oxe_trace_qp *qp,
			      const struct oxe_trace_requester *requester,
			      enum oxe_trace_event event)
{
	switch (event) {
	case OXE_TRACE_ack:
		trace_oxe_ack(qp, requester);
		break;
	case OXE_TRACE_retransmit:
		trace_oxe_retransmit(qp, requester);
		break;
	case OXE_TRACE_wait:
		trace_oxe_wait(qp, requester);
		break;
	case OXE_TRACE_window:
		trace_oxe_window(qp, requester);
		break;
	default:
		break;
	}
}

void oxe_trace_emit_qp_state(const struct oxe_trace_qp *qp, u32 from, u32 to, const char *cause)
{
	trace_oxe_qp_state(qp, from, to, cause);
}

void oxe_trace_emit_completion(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 status,
			       u32 len)
{
	trace_oxe_completion(qp, wr_id, opcode, status, len);
}

void oxe_trace_emit_page_fault(u64 address, u64 len, bool write, bool present)
{
	trace_oxe_page_fault(address, len, write, present);
}
