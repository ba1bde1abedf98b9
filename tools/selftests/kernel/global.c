// SPDX-License-Identifier: GPL-2.0
/*
 * F7: the key of all of the kernel's memory (IB_PD_UNSAFE_GLOBAL_RKEY), with addresses that a peer
 * chooses: memory can be read and written, and all else is a remote access error.
 */
#include <linux/ctype.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include "ktest.h"

#define LEN 20000
/* No address of a page's first byte, or of a word. */
#define SKEW 3

DEFINE_FREE(vfree, void *, vfree(_T))

/* The pair's end B has a domain with the key. */
static int open_pair(struct kt_pair *pair)
{
	const struct kt_how how = {};

	pair->b.pd = ib_alloc_pd(pair->b.host->dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	KT_OK(PTR_ERR_OR_ZERO(pair->b.pd));
	return kt_open(pair, &how);
}

/* A request that the peer refuses; its connection starts anew. */
static int refused(struct kt_pair *pair, enum ib_wr_opcode opcode, struct kt_buf *buf, u32 len,
		   u64 remote)
{
	int error;

	error = kt_rdma_status(&pair->a, opcode, buf->va, len, remote,
			       pair->b.pd->unsafe_global_rkey, IB_WC_REM_ACCESS_ERR);
	if (error)
		kt_note("%s of %u bytes at %#llx", opcode == IB_WR_RDMA_READ ? "READ" : "WRITE", len,
			remote);
	return error ?: kt_reset(pair);
}

static int memory(struct kt_pair *pair)
{
	static const u32 lens[] = { 0, 1, 8, 13, 1024, 4096, 4097, LEN };
	struct kt_buf own __free(kt_buf) = kt_alloc(LEN);
	struct kt_buf theirs __free(kt_buf) = kt_alloc(LEN + PAGE_SIZE);
	u8 *at = theirs.va + SKEW;
	unsigned int i;
	u32 rkey, len;

	KT_EXPECT(own.va && theirs.va);
	KT_OK(open_pair(pair));
	rkey = pair->b.pd->unsafe_global_rkey;
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		len = lens[i];
		memset(theirs.va, 0xee, theirs.len);
		kt_fill(own.va, len, 0, i);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_WRITE, own.va, len, (uintptr_t)at, rkey,
				     IB_WC_SUCCESS));
		KT_EXPECT(!kt_differs(at, len, 0, i));
		KT_EXPECT(!memchr_inv(theirs.va, 0xee, SKEW));
		KT_EXPECT(!memchr_inv(at + len, 0xee, theirs.len - SKEW - len));
		memset(own.va, 0, len);
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_READ, own.va, len, (uintptr_t)at, rkey,
				     IB_WC_SUCCESS));
		KT_EXPECT(!kt_differs(own.va, len, 0, i));
	}
	return 0;
}

/*
 * The first address behind the machine's memory. The kernel takes pages of a module's memory out of
 * its map for a moment when it frees them: a page that cannot be read is not yet the end.
 */
static u64 end_of_memory(void)
{
	u8 byte, *at = phys_to_virt(SZ_1M), *end = at;

	for (; virt_addr_valid(at); at += PAGE_SIZE) {
		if (!copy_from_kernel_nofault(&byte, at, 1))
			end = at + PAGE_SIZE;
	}
	return (uintptr_t)end;
}

static int no_memory(struct kt_pair *pair)
{
	struct kt_buf own __free(kt_buf) = kt_alloc(LEN);
	void *area __free(vfree) = vmalloc(PAGE_SIZE);
	u64 end = end_of_memory();
	const u64 addresses[] = {
		0,
		PAGE_SIZE,
		/* The highest of a process, and one that no processor has. */
		TASK_SIZE_MAX - PAGE_SIZE,
		1ULL << 63,
		/* Devices' registers are mapped in this area. */
		(uintptr_t)area,
		/* The page behind it is a gap. */
		(uintptr_t)area + PAGE_SIZE,
		end,
		end + SZ_1G,
		(uintptr_t)phys_to_virt(1ULL << 45),
		U64_MAX & PAGE_MASK,
		U64_MAX - 100,
	};
	unsigned int i;

	KT_EXPECT(own.va && area);
	KT_OK(open_pair(pair));
	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		KT_OK(refused(pair, IB_WR_RDMA_READ, &own, 8, addresses[i]));
		KT_OK(refused(pair, IB_WR_RDMA_READ, &own, LEN, addresses[i]));
		KT_OK(refused(pair, IB_WR_RDMA_WRITE, &own, 8, addresses[i]));
		KT_OK(refused(pair, IB_WR_RDMA_WRITE, &own, LEN, addresses[i]));
	}
	/* Memory, and what is none, in one packet, and in one message. */
	KT_OK(refused(pair, IB_WR_RDMA_READ, &own, 200, end - 100));
	KT_OK(refused(pair, IB_WR_RDMA_READ, &own, LEN, end - LEN / 2));
	return 0;
}

/* The kernel's constants: memory that the processor may not write. */
static int read_only(struct kt_pair *pair)
{
	u64 places[] = { (uintptr_t)_ctype, (uintptr_t)lm_alias(_ctype) };
	struct kt_buf own __free(kt_buf) = kt_alloc(PAGE_SIZE);
	unsigned int i;

	KT_EXPECT(own.va);
	KT_OK(open_pair(pair));
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		KT_OK(kt_rdma_status(&pair->a, IB_WR_RDMA_READ, own.va, 256, places[i],
				     pair->b.pd->unsafe_global_rkey, IB_WC_SUCCESS));
		KT_EXPECT(!memcmp(own.va, _ctype, 256));
		/* The same bytes, in case they can be written. */
		KT_OK(refused(pair, IB_WR_RDMA_WRITE, &own, 256, places[i]));
	}
	return 0;
}

const struct kt_case kt_global_cases[] = {
	{ "F7: a peer reads and writes memory by the key of all memory", memory, .bare = true },
	{ "F7: its reads and writes of addresses without memory are refused", no_memory,
	  .bare = true },
	{ "F7: its writes to constants are refused", read_only, .bare = true },
	{}
};
