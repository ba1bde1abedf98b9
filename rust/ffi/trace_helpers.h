/* SPDX-License-Identifier: GPL-2.0 */
/* Trace events, for rust/rdma/trace.rs. */
#ifndef OXE_TRACE_HELPERS_H
#define OXE_TRACE_HELPERS_H

#include <linux/types.h>

/* Each event, in the order of their bits in oxe_traced. */
#define OXE_EVENTS										\
	OXE_GATE(post) OXE_GATE(transmit) OXE_GATE(receive) OXE_GATE(drop) OXE_GATE(ack)	\
	OXE_GATE(retransmit) OXE_GATE(wait) OXE_GATE(window) OXE_GATE(nak) OXE_GATE(qp_state)	\
	OXE_GATE(completion) OXE_GATE(page_fault)

enum oxe_trace_event {
#define OXE_GATE(event) OXE_TRACE_##event,
	OXE_EVENTS
#undef OXE_GATE
};

/* The events that someone traces: a bit each. */
extern u32 oxe_traced;

/* A counter's name in a trace event, with its zero. */
#define OXE_TRACE_NAME_SIZE 32

struct oxe_trace_qp {
	const char *netdev;
	u32 qpn;
};

/* A packet, or several that differ in PSN and payload alone. `len`: their payload. */
struct oxe_trace_packet {
	u32 dest_qpn;
	u32 psn;
	u32 len;
	u16 packets;
	u8 opcode;
	/* 0 if there is no AETH. */
	u8 syndrome;
	bool ack_req;
	bool loopback;
};

enum oxe_trace_cause {
	OXE_CAUSE_ACK,
	OXE_CAUSE_TIMEOUT,
	OXE_CAUSE_PROBE,
	OXE_CAUSE_SEQUENCE,
	OXE_CAUSE_RESPONSE,
	OXE_CAUSE_RNR,
	OXE_CAUSE_PAGE,
};

/* The state of a requester after it changed. */
struct oxe_trace_requester {
	u64 srtt_ns;
	/* The oldest PSN that is not acknowledged. */
	u32 psn;
	/* How many PSNs were acknowledged just now. */
	u32 acked;
	u32 read_window;
	u16 in_flight;
	u16 cwnd;
	u16 ssthresh;
	u8 retries;
	u8 rnr_retries;
	/* enum oxe_trace_cause */
	u8 cause;
};

void oxe_trace_emit_post(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 len);
void oxe_trace_emit_packet(const struct oxe_trace_qp *qp, const struct oxe_trace_packet *packet,
			   bool sent);
void oxe_trace_emit_drop(const struct oxe_trace_qp *qp, const char *counter);
void oxe_trace_emit_requester(const struct oxe_trace_qp *qp,
			      const struct oxe_trace_requester *requester,
			      enum oxe_trace_event event);
void oxe_trace_emit_qp_state(const struct oxe_trace_qp *qp, u32 from, u32 to, const char *cause);
void oxe_trace_emit_completion(const struct oxe_trace_qp *qp, u64 wr_id, u32 opcode, u32 status,
			       u32 len);
void oxe_trace_emit_page_fault(u64 address, u64 len, bool write, bool present);

#endif
