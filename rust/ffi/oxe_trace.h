/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace events, for tracefs, perf and BPF. Their names and fields are an interface, which
 * Documentation/tracing.rst describes. Payload is never traced.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM oxe

#if !defined(OXE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define OXE_TRACE_H

#include <linux/if.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include "trace_helpers.h"
#include "trace_names.h"

/* Called when an event is enabled and disabled: the driver looks at oxe_traced alone. */
#define OXE_GATE(event) int oxe_trace_##event##_on(void); void oxe_trace_##event##_off(void);
OXE_EVENTS
#undef OXE_GATE

/* The formats of events name causes by their numbers. */
#define OXE_CAUSE(cause) TRACE_DEFINE_ENUM(OXE_CAUSE_##cause);
OXE_CAUSE(ACK) OXE_CAUSE(TIMEOUT) OXE_CAUSE(PROBE) OXE_CAUSE(SEQUENCE) OXE_CAUSE(RESPONSE)
OXE_CAUSE(RNR) OXE_CAUSE(PAGE)
#undef OXE_CAUSE

/*
 * Names that a program may take for keys are arrays, zero behind their end: bpftrace 0.23 reads
 * __string() from a wrong place.
 */
TRACE_EVENT_FN(oxe_post,
	TP_PROTO(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 len),
	TP_ARGS(qp, wr_id, opcode, len),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u64, wr_id)
		__field(u32, opcode)
		__field(u32, len)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->wr_id = wr_id;
		__entry->opcode = opcode;
		__entry->len = len;
	),
	TP_printk("%s qp %u: %s wr_id 0x%llx len %u", __entry->netdev, __entry->qpn,
		  __print_symbolic(__entry->opcode, OXE_WR_OPCODES), __entry->wr_id, __entry->len),
	oxe_trace_post_on, oxe_trace_post_off
);

DECLARE_EVENT_CLASS(oxe_packet,
	TP_PROTO(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet),
	TP_ARGS(qp, packet),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u32, dest_qpn)
		__field(u32, psn)
		__field(u32, len)
		__field(u16, packets)
		__field(u8, opcode)
		__field(u8, syndrome)
		__field(bool, ack_req)
		__field(bool, loopback)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->dest_qpn = packet->dest_qpn;
		__entry->psn = packet->psn;
		__entry->len = packet->len;
		__entry->packets = packet->packets;
		__entry->opcode = packet->opcode;
		__entry->syndrome = packet->syndrome;
		__entry->ack_req = packet->ack_req;
		__entry->loopback = packet->loopback;
	),
	TP_printk("%s qp %u: %s psn %u packets %u len %u to qp %u%s%s syndrome 0x%02x",
		  __entry->netdev, __entry->qpn,
		  __print_symbolic(__entry->opcode, OXE_BTH_OPCODES), __entry->psn,
		  __entry->packets, __entry->len, __entry->dest_qpn,
		  __entry->ack_req ? " ack_req" : "", __entry->loopback ? " loopback" : "",
		  __entry->syndrome)
);

DEFINE_EVENT_FN(oxe_packet, oxe_transmit,
	TP_PROTO(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet),
	TP_ARGS(qp, packet), oxe_trace_transmit_on, oxe_trace_transmit_off);

DEFINE_EVENT_FN(oxe_packet, oxe_receive,
	TP_PROTO(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet),
	TP_ARGS(qp, packet), oxe_trace_receive_on, oxe_trace_receive_off);

TRACE_EVENT_FN(oxe_drop,
	TP_PROTO(const struct oxe_trace_qp *qp, const char *counter),
	TP_ARGS(qp, counter),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__array(char, counter, OXE_TRACE_NAME_SIZE)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		strscpy_pad(__entry->counter, counter);
	),
	TP_printk("%s qp %u: %s", __entry->netdev, __entry->qpn, __entry->counter),
	oxe_trace_drop_on, oxe_trace_drop_off
);

DECLARE_EVENT_CLASS(oxe_requester,
	TP_PROTO(const struct oxe_trace_qp *qp, const struct oxe_trace_requester *requester),
	TP_ARGS(qp, requester),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, acked)
		__field(u32, read_window)
		__field(u64, srtt_ns)
		__field(u16, in_flight)
		__field(u16, cwnd)
		__field(u16, ssthresh)
		__field(u8, retries)
		__field(u8, rnr_retries)
		__field(u8, cause)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->psn = requester->psn;
		__entry->acked = requester->acked;
		__entry->read_window = requester->read_window;
		__entry->srtt_ns = requester->srtt_ns;
		__entry->in_flight = requester->in_flight;
		__entry->cwnd = requester->cwnd;
		__entry->ssthresh = requester->ssthresh;
		__entry->retries = requester->retries;
		__entry->rnr_retries = requester->rnr_retries;
		__entry->cause = requester->cause;
	),
	TP_printk("%s qp %u: %s psn %u acked %u in_flight %u cwnd %u ssthresh %u read_window %u "
		  "srtt_ns %llu retries %u rnr_retries %u",
		  __entry->netdev, __entry->qpn,
		  __print_symbolic(__entry->cause, OXE_CAUSES), __entry->psn, __entry->acked,
		  __entry->in_flight, __entry->cwnd, __entry->ssthresh, __entry->read_window,
		  __entry->srtt_ns, __entry->retries, __entry->rnr_retries)
);

#define OXE_REQUESTER_EVENT(event)								\
	DEFINE_EVENT_FN(oxe_requester, oxe_##event,						\
		TP_PROTO(const struct oxe_trace_qp *qp,						\
			 const struct oxe_trace_requester *requester),				\
		TP_ARGS(qp, requester), oxe_trace_##event##_on, oxe_trace_##event##_off)

OXE_REQUESTER_EVENT(ack);
OXE_REQUESTER_EVENT(retransmit);
OXE_REQUESTER_EVENT(wait);
OXE_REQUESTER_EVENT(window);

TRACE_EVENT_FN(oxe_nak,
	TP_PROTO(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet, bool sent),
	TP_ARGS(qp, packet, sent),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u32, psn)
		__field(u8, syndrome)
		__field(bool, sent)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->psn = packet->psn;
		__entry->syndrome = packet->syndrome;
		__entry->sent = sent;
	),
	TP_printk("%s qp %u: %s %s psn %u syndrome 0x%02x", __entry->netdev, __entry->qpn,
		  __entry->sent ? "sent" : "received",
		  __print_symbolic((__entry->syndrome & 0x60) == 0x20 ? 0x20 : __entry->syndrome,
				   OXE_NAKS),
		  __entry->psn, __entry->syndrome),
	oxe_trace_nak_on, oxe_trace_nak_off
);

TRACE_EVENT_FN(oxe_qp_state,
	TP_PROTO(const struct oxe_trace_qp *qp, u32 from, u32 to, const char *cause),
	TP_ARGS(qp, from, to, cause),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
		__string(cause, cause)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->from = from;
		__entry->to = to;
		__assign_str(cause);
	),
	TP_printk("%s qp %u: %s -> %s %s", __entry->netdev, __entry->qpn,
		  __print_symbolic(__entry->from, OXE_QP_STATES),
		  __print_symbolic(__entry->to, OXE_QP_STATES), __get_str(cause)),
	oxe_trace_qp_state_on, oxe_trace_qp_state_off
);

TRACE_EVENT_FN(oxe_completion,
	TP_PROTO(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 status, u32 len),
	TP_ARGS(qp, wr_id, opcode, status, len),
	TP_STRUCT__entry(
		__array(char, netdev, IFNAMSIZ)
		__field(u32, qpn)
		__field(u64, wr_id)
		__field(u32, opcode)
		__field(u32, status)
		__field(u32, len)
	),
	TP_fast_assign(
		strscpy_pad(__entry->netdev, qp->netdev);
		__entry->qpn = qp->qpn;
		__entry->wr_id = wr_id;
		__entry->opcode = opcode;
		__entry->status = status;
		__entry->len = len;
	),
	TP_printk("%s qp %u: %s %s wr_id 0x%llx len %u", __entry->netdev, __entry->qpn,
		  __print_symbolic(__entry->opcode, OXE_WC_OPCODES),
		  __print_symbolic(__entry->status, OXE_WC_STATUSES), __entry->wr_id,
		  __entry->len),
	oxe_trace_completion_on, oxe_trace_completion_off
);

TRACE_EVENT_FN(oxe_page_fault,
	TP_PROTO(u64 address, u64 len, bool write, bool present),
	TP_ARGS(address, len, write, present),
	TP_STRUCT__entry(
		__field(u64, address)
		__field(u64, len)
		__field(bool, write)
		__field(bool, present)
	),
	TP_fast_assign(
		__entry->address = address;
		__entry->len = len;
		__entry->write = write;
		__entry->present = present;
	),
	TP_printk("address 0x%llx len %llu %s: %s", __entry->address, __entry->len,
		  __entry->write ? "write" : "read",
		  __entry->present ? "present now" : "the process has no such page"),
	oxe_trace_page_fault_on, oxe_trace_page_fault_off
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE oxe_trace
#include <trace/define_trace.h>
