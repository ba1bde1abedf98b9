/* SPDX-License-Identifier: GPL-2.0 */
/* The names of numbers in trace events, as __print_symbolic() takes them. */
#ifndef OXE_TRACE_NAMES_H
#define OXE_TRACE_NAMES_H

/* The BTH's opcode (IBTA 9.2, Table 38). */
#define OXE_BTH_OPCODES										\
	{ 0x00, "RC_SEND_FIRST" }, { 0x01, "RC_SEND_MIDDLE" }, { 0x02, "RC_SEND_LAST" },	\
	{ 0x03, "RC_SEND_LAST_IMM" }, { 0x04, "RC_SEND_ONLY" }, { 0x05, "RC_SEND_ONLY_IMM" },	\
	{ 0x06, "RC_WRITE_FIRST" }, { 0x07, "RC_WRITE_MIDDLE" }, { 0x08, "RC_WRITE_LAST" },	\
	{ 0x09, "RC_WRITE_LAST_IMM" }, { 0x0a, "RC_WRITE_ONLY" },				\
	{ 0x0b, "RC_WRITE_ONLY_IMM" }, { 0x0c, "RC_READ_REQUEST" },				\
	{ 0x0d, "RC_READ_RESPONSE_FIRST" }, { 0x0e, "RC_READ_RESPONSE_MIDDLE" },		\
	{ 0x0f, "RC_READ_RESPONSE_LAST" }, { 0x10, "RC_READ_RESPONSE_ONLY" },			\
	{ 0x11, "RC_ACK" }, { 0x12, "RC_ATOMIC_ACK" }, { 0x13, "RC_COMPARE_SWAP" },		\
	{ 0x14, "RC_FETCH_ADD" }, { 0x16, "RC_SEND_LAST_INV" }, { 0x17, "RC_SEND_ONLY_INV" },	\
	{ 0x1c, "RC_FLUSH" }, { 0x1d, "RC_ATOMIC_WRITE" },					\
	{ 0x20, "UC_SEND_FIRST" }, { 0x21, "UC_SEND_MIDDLE" }, { 0x22, "UC_SEND_LAST" },	\
	{ 0x23, "UC_SEND_LAST_IMM" }, { 0x24, "UC_SEND_ONLY" }, { 0x25, "UC_SEND_ONLY_IMM" },	\
	{ 0x26, "UC_WRITE_FIRST" }, { 0x27, "UC_WRITE_MIDDLE" }, { 0x28, "UC_WRITE_LAST" },	\
	{ 0x29, "UC_WRITE_LAST_IMM" }, { 0x2a, "UC_WRITE_ONLY" },				\
	{ 0x2b, "UC_WRITE_ONLY_IMM" }, { 0x64, "UD_SEND_ONLY" },				\
	{ 0x65, "UD_SEND_ONLY_IMM" }, { 0x81, "CNP" }

/* The syndrome of a NAK (IBTA 9.7.5.2.1, Table 44). That of an RNR NAK stands for all timers. */
#define OXE_NAKS										\
	{ 0x20, "rnr" }, { 0x60, "psn_sequence" }, { 0x61, "invalid_request" },			\
	{ 0x62, "remote_access" }, { 0x63, "remote_operational" },				\
	{ 0x64, "invalid_rd_request" }

/* Of a work request: enum ib_wr_opcode. */
#define OXE_WR_OPCODES										\
	{ 0, "RDMA_WRITE" }, { 1, "RDMA_WRITE_WITH_IMM" }, { 2, "SEND" },			\
	{ 3, "SEND_WITH_IMM" }, { 4, "RDMA_READ" }, { 5, "ATOMIC_CMP_AND_SWP" },		\
	{ 6, "ATOMIC_FETCH_AND_ADD" }, { 7, "LOCAL_INV" }, { 8, "BIND_MW" },			\
	{ 9, "SEND_WITH_INV" }, { 11, "RDMA_READ_WITH_INV" }, { 14, "FLUSH" },			\
	{ 15, "ATOMIC_WRITE" }, { 0x20, "REG_MR" }

/* Of a work completion: enum ib_wc_opcode. */
#define OXE_WC_OPCODES										\
	{ 0, "SEND" }, { 1, "RDMA_WRITE" }, { 2, "RDMA_READ" }, { 3, "COMP_SWAP" },		\
	{ 4, "FETCH_ADD" }, { 5, "BIND_MW" }, { 6, "LOCAL_INV" }, { 8, "FLUSH" },		\
	{ 9, "ATOMIC_WRITE" }, { 0x20, "REG_MR" }, { 0x80, "RECV" },				\
	{ 0x81, "RECV_RDMA_WITH_IMM" }

/* The status of a work completion: enum ib_wc_status. */
#define OXE_WC_STATUSES										\
	{ 0, "SUCCESS" }, { 1, "LOC_LEN_ERR" }, { 2, "LOC_QP_OP_ERR" },				\
	{ 4, "LOC_PROT_ERR" }, { 5, "WR_FLUSH_ERR" }, { 6, "MW_BIND_ERR" },			\
	{ 7, "BAD_RESP_ERR" }, { 8, "LOC_ACCESS_ERR" }, { 9, "REM_INV_REQ_ERR" },		\
	{ 10, "REM_ACCESS_ERR" }, { 11, "REM_OP_ERR" }, { 12, "RETRY_EXC_ERR" },		\
	{ 13, "RNR_RETRY_EXC_ERR" }, { 16, "REM_ABORT_ERR" }, { 21, "GENERAL_ERR" }

/* enum ib_qp_state. */
#define OXE_QP_STATES										\
	{ 0, "RESET" }, { 1, "INIT" }, { 2, "RTR" }, { 3, "RTS" }, { 4, "SQD" }, { 5, "SQE" },	\
	{ 6, "ERR" }

/* Why the requester did something: enum oxe_trace_cause. */
#define OXE_CAUSES										\
	{ OXE_CAUSE_ACK, "ack" }, { OXE_CAUSE_TIMEOUT, "timeout" },				\
	{ OXE_CAUSE_PROBE, "probe" }, { OXE_CAUSE_SEQUENCE, "sequence_nak" },			\
	{ OXE_CAUSE_RESPONSE, "response_gap" }, { OXE_CAUSE_RNR, "rnr_nak" },			\
	{ OXE_CAUSE_PAGE, "page_fault" }

#endif
