// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into perftest's programs and fio: tells the counting plugin (tools/profile) how many
 * requests have completed, each time that the program learns it. So the cost of a request is that
 * in the midst of the run, without the program's beginning and end. OXE_SERIES is the number of the
 * run. ticks.py does the same for programs in Python.
 *
 * The layouts are libibverbs's and libaio's: parts of their ABI. The build root has no headers of
 * them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "../profile/magic.h"

/* A stub is the NOP and a return; that of a tick has the tick's argument for its index. */
enum { STUB = 8, TICK_NONE = 0, TICKS = 256, SERIES = TICKS, STUBS };
static uint8_t *stubs;

static void write_stub(uint8_t *at, uint32_t word)
{
	static const uint8_t nop[] = { MAGIC_NOP }, ret = 0xc3;

	memcpy(at, nop, sizeof(nop));
	memcpy(at + sizeof(nop), &word, sizeof(word));
	at[sizeof(nop) + sizeof(word)] = ret;
}

static void execute(int index)
{
	((void (*)(void))(uintptr_t)(stubs + index * STUB))();
}

static void tick(int done)
{
	for (; done >= TICKS; done -= TICKS - 1)
		execute(TICKS - 1);
	if (done > 0)
		execute(done);
}

__attribute__((constructor)) static void begin_series(void)
{
	const char *series = getenv("OXE_SERIES");

	stubs = mmap(NULL, STUBS * STUB, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!series || stubs == MAP_FAILED)
		abort();
	for (int i = 0; i < TICKS; i++)
		write_stub(stubs + i * STUB, MAGIC_WORD(MAGIC_TICK, i));
	write_stub(stubs + SERIES * STUB, MAGIC_WORD(MAGIC_SERIES, atoi(series)));
	execute(SERIES);
}

/* The program's preparations end here; what it did before is no part of any request. */
static void first(void)
{
	static int begun;

	if (!begun)
		execute(TICK_NONE);
	begun = 1;
}

/* ---- libibverbs: poll_cq is called through the context; a doorbell is a write */

enum { OPS_BEFORE_POLL = 11 };
struct context {
	void *device;
	void *before[OPS_BEFORE_POLL];
	int (*poll_cq)(void *cq, int entries, void *completions);
};
static int (*real_poll_cq)(void *cq, int entries, void *completions);

static int poll_cq(void *cq, int entries, void *completions)
{
	int done = real_poll_cq(cq, entries, completions);

	tick(done);
	return done;
}

struct context *ibv_open_device(void *device)
{
	struct context *(*real)(void *) = dlsym(RTLD_NEXT, "ibv_open_device");
	struct context *context = real(device);

	if (context && context->poll_cq != poll_cq) {
		real_poll_cq = context->poll_cq;
		context->poll_cq = poll_cq;
	}
	return context;
}

ssize_t write(int file, const void *data, size_t length)
{
	static ssize_t (*real)(int, const void *, size_t);
	struct ib_uverbs_cmd_hdr header;

	if (length >= sizeof(header)) {
		memcpy(&header, data, sizeof(header));
		if (header.command == IB_USER_VERBS_CMD_POST_SEND && header.in_words * 4U == length)
			first();
	}
	if (!real)
		real = dlsym(RTLD_NEXT, "write");
	return real(file, data, length);
}

/* ---- libaio */

int io_submit(void *context, long count, void **requests)
{
	static int (*real)(void *, long, void **);

	if (!real)
		real = dlsym(RTLD_NEXT, "io_submit");
	first();
	return real(context, count, requests);
}

int io_getevents(void *context, long least, long most, void *events, void *timeout)
{
	static int (*real)(void *, long, long, void *, void *);
	int done;

	if (!real)
		real = dlsym(RTLD_NEXT, "io_getevents");
	done = real(context, least, most, events, timeout);
	tick(done);
	return done;
}
