/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that lie apart from each other, and their registration.
 */
#ifndef OXE_KTEST_PAGES_H
#define OXE_KTEST_PAGES_H

#include "ktest.h"

#define KT_ACCESS_ALL (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)

/* As many blocks of 2^order pages each; their scatter list can be changed. */
struct kt_pages {
	unsigned int count, order;
	struct page **pages;
	struct scatterlist *sgl;
};

struct kt_pages kt_pages_alloc(unsigned int count, unsigned int order);
void kt_pages_free(struct kt_pages *pages);
void kt_pages_cut(struct kt_pages *pages, unsigned int count, unsigned int first,
		  unsigned int last);
void kt_pages_fill(struct kt_pages *pages, u8 byte);
bool kt_pages_differ(struct kt_pages *pages, size_t from, size_t len, u64 at, u32 seed);
bool kt_pages_touched(struct kt_pages *pages, size_t from, size_t len, u8 byte);
int kt_register(struct kt_end *end, struct ib_mr *mr, int access);
int kt_register_status(struct kt_end *end, struct ib_mr *mr, u32 key, int access, int status);
int kt_invalidate(struct kt_end *end, u32 key, int status);

DEFINE_FREE(kt_pages, struct kt_pages, kt_pages_free(&_T))

#endif
