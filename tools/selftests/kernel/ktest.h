/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A kernel consumer of RDMA devices, for tests of verbs that no process can call.
 *
 * A case is a function that gets a connected pair of QPs and returns 0, or a negative errno after a
 * note that says what was wrong. The pair's objects go when the case has ended, whatever it did.
 */
#ifndef OXE_KTEST_H
#define OXE_KTEST_H

#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

/* A place where QPs are made: a device, and the GID that they have. */
struct kt_host {
	struct ib_device *dev;
	const char *name;
	int sgid_index;
	union ib_gid gid;
};

/* One end of a connection. */
struct kt_end {
	const struct kt_host *host;
	struct ib_pd *pd;
	struct ib_cq *scq, *rcq;
	struct ib_qp *qp;
};

/* Two ends: on one device, or on the two devices on a wire. */
struct kt_pair {
	struct kt_end a, b;
};

/* How the QPs of a pair are made; zero stands for the default. */
struct kt_how {
	u32 send_wr, recv_wr, inline_data;
	/* Made by the case, and used by both halves of an end. */
	struct ib_cq *cq_a, *cq_b;
	struct ib_srq *srq_b;
	void (*event)(struct ib_event *event, void *context);
	/* The context of the events. */
	void *context;
};

struct kt_case {
	const char *name;
	int (*run)(struct kt_pair *pair);
	/* The case makes the ends itself: they have no more than their hosts. */
	bool bare;
};

/* Memory that a case sends or receives: physically contiguous. */
struct kt_buf {
	u8 *va;
	size_t len;
};

/* main.c */
extern unsigned int kt_slow;
__printf(1, 2) void kt_note(const char *fmt, ...);

/* pair.c */
int kt_open_end(struct kt_end *end, const struct kt_how *how, bool is_b);
int kt_open(struct kt_pair *pair, const struct kt_how *how);
void kt_close(struct kt_pair *pair);
int kt_connect_at(struct kt_end *end, const struct kt_end *peer, u32 rq_psn);
int kt_connect(struct kt_end *end, const struct kt_end *peer);
int kt_connect_pair(struct kt_pair *pair);
int kt_wait(struct ib_cq *cq, struct ib_wc *wc);
int kt_wait_for(struct ib_cq *cq, u64 wr_id, int status, struct ib_wc *wc);
int kt_reset(struct kt_pair *pair);
struct kt_buf kt_alloc(size_t len);
void kt_free(struct kt_buf *buf);
void kt_fill(void *va, size_t len, u64 at, u32 seed);
bool kt_differs(const void *va, size_t len, u64 at, u32 seed);
int kt_send(struct kt_end *end, u64 wr_id, const void *va, u32 len);
int kt_recv(struct kt_end *end, u64 wr_id, void *va, u32 len);
int kt_rdma(struct kt_end *end, enum ib_wr_opcode opcode, u64 wr_id, void *va, u32 len,
	    u64 remote, u32 rkey);
int kt_rdma_status(struct kt_end *end, enum ib_wr_opcode opcode, void *va, u32 len, u64 remote,
		   u32 rkey, int status);

/* traffic.c */
int kt_traffic_start(const struct kt_host *a, const struct kt_host *b, bool paced);
int kt_traffic_goes_on(void);
bool kt_traffic_end(struct ib_device *dev, int *result);

/* create.c */
int kt_create(const char *kind, const struct kt_host *host, const struct kt_host *peer);

DEFINE_FREE(kt_buf, struct kt_buf, kt_free(&_T))
DEFINE_FREE(kt_mr, struct ib_mr *, if (!IS_ERR_OR_NULL(_T)) ib_dereg_mr(_T))

/* The cases of each file; the last has no name. */
extern const struct kt_case kt_fastreg_cases[];
extern const struct kt_case kt_inval_cases[];
extern const struct kt_case kt_post_cases[];
extern const struct kt_case kt_srq_cases[];
extern const struct kt_case kt_drain_cases[];
extern const struct kt_case kt_event_cases[];
extern const struct kt_case kt_moderation_cases[];
extern const struct kt_case kt_reuse_cases[];
extern const struct kt_case kt_lent_cases[];
extern const struct kt_case kt_late_cases[];
extern const struct kt_case kt_global_cases[];

#define KT_EXPECT(condition)							\
	do {									\
		if (!(condition)) {						\
			kt_note("%s:%d: %s", kbasename(__FILE__), __LINE__, #condition); \
			return -EPROTO;						\
		}								\
	} while (0)

#define KT_EQ(left, right)							\
	do {									\
		long long _left = (left), _right = (right);			\
										\
		if (_left != _right) {						\
			kt_note("%s:%d: %s is %lld, not %s (%lld)", kbasename(__FILE__), \
				__LINE__, #left, _left, #right, _right);	\
			return -EPROTO;						\
		}								\
	} while (0)

#define KT_OK(call)								\
	do {									\
		int _error = (call);						\
										\
		if (_error) {							\
			kt_note("%s:%d: %s: error %d", kbasename(__FILE__), __LINE__, #call, \
				_error);					\
			return _error < 0 ? _error : -EPROTO;			\
		}								\
	} while (0)

#endif
