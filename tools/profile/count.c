// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU's translator: counts the instructions that the guest executes, in its kernel
 * and its programs; time in which the guest is idle has none. For machines with one CPU.
 *
 * A program of the guest says when to look, by a NOP with a magic displacement (magic.h), which any
 * processor takes for a NOP: the plugin knows it when its block is translated, so nothing is
 * polled, and the same run has the same counts. Each such instruction is an event; the arguments
 * are
 *   to=FILE      an event is a line of it: name of the command, its argument, instructions so far
 *   blocks=FILE  how often each block of instructions ran between the ticks of the last series: a
 *                line for each: address, number of instructions, times (hexadecimal, decimal,
 *                decimal)
 * Both are written when the machine ends.
 *
 * A block counts as a whole when it is entered. Debian has no header for plugins; the declarations
 * here are version 4 of the interface (QEMU 9.2 to 10).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "magic.h"

#define PUBLIC __attribute__((visibility("default")))
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_info_t;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} counter;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, int, counter,
						       uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
					    void (*)(unsigned int, void *), int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
uint64_t qemu_plugin_u64_sum(counter);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
PUBLIC int qemu_plugin_version = 4;
enum { NO_REGISTERS = 0, INLINE_ADD = 0 };

static counter executed;
static const char *to_file, *blocks_file;

struct event {
	uint32_t word;
	uint64_t executed;
};
static struct event *events;
static size_t event_count, event_room;

/* How often a block ran: in the series, and in all until the last look at it. */
struct block {
	uint64_t address, length, times, at_look;
	counter runs;
	struct block *next;
};
static struct block *blocks;

/*
 * A series is looked at by so many instructions: no tick is known to be the last, and each look
 * goes through all blocks.
 */
static const uint64_t STEP = 50 * 1000 * 1000;
static uint64_t last_look;
static bool in_series;

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* The first look at a series is where it begins. */
static void look(uint64_t now)
{
	if (in_series && now - last_look < STEP)
		return;
	for (struct block *block = blocks; block; block = block->next) {
		uint64_t runs = qemu_plugin_u64_sum(block->runs);

		block->times += in_series ? runs - block->at_look : 0;
		block->at_look = runs;
	}
	last_look = now;
	in_series = true;
}

static void begin_series(void)
{
	for (struct block *block = blocks; block; block = block->next)
		block->times = 0;
	in_series = false;
}

static void happened(unsigned int cpu, void *data)
{
	uint32_t word = (uintptr_t)data;
	uint64_t now = qemu_plugin_u64_sum(executed);

	(void)cpu;
	if (event_count == event_room) {
		event_room = event_room ? 2 * event_room : 1 << 16;
		events = must(realloc(events, event_room * sizeof(*events)));
	}
	events[event_count++] = (struct event){ word, now };
	if (MAGIC_COMMAND(word) == MAGIC_TICK)
		look(now);
	else
		begin_series();
}

/* The counters of many blocks share the memory that QEMU keeps for each CPU. */
static counter new_counter(void)
{
	enum { TOGETHER = 4096 };
	static struct qemu_plugin_scoreboard *score;
	static size_t used = TOGETHER;

	if (used == TOGETHER) {
		score = must(qemu_plugin_scoreboard_new(TOGETHER * sizeof(uint64_t)));
		used = 0;
	}
	return (counter){ score, used++ * sizeof(uint64_t) };
}

static void count_block(struct qemu_plugin_tb *tb)
{
	struct block *block = must(calloc(1, sizeof(*block)));

	block->address = qemu_plugin_tb_vaddr(tb);
	block->length = qemu_plugin_tb_n_insns(tb);
	block->runs = new_counter();
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD, block->runs, 1);
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD, executed, length);
	if (blocks_file)
		count_block(tb);
	for (size_t i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		static const uint8_t nop[] = { MAGIC_NOP };
		uint8_t bytes[16];
		uint32_t word;

		if (qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) !=
			    sizeof(nop) + sizeof(word) ||
		    memcmp(bytes, nop, sizeof(nop)))
			continue;
		memcpy(&word, bytes + sizeof(nop), sizeof(word));
		if (MAGIC_IS(word))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, happened, NO_REGISTERS,
							       (void *)(uintptr_t)word);
	}
}

static void write_events(FILE *file)
{
	static const char *const names[] = { MAGIC_NAMES };

	for (size_t i = 0; i < event_count; i++)
		fprintf(file, "%s %" PRIu32 " %" PRIu64 "\n",
			names[MAGIC_COMMAND(events[i].word)], MAGIC_ARGUMENT(events[i].word),
			events[i].executed);
}

static void write_blocks(FILE *file)
{
	for (const struct block *block = blocks; block; block = block->next)
		if (block->times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n",
				block->address, block->length, block->times);
}

static void write_file(const char *path, void (*write)(FILE *))
{
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	write(file);
	fclose(file);
}

static void write_all(plugin_id id, void *unused)
{
	(void)id;
	(void)unused;
	write_file(to_file, write_events);
	write_file(blocks_file, write_blocks);
}

PUBLIC int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "to=", 3))
			to_file = strdup(argv[i] + 3);
		else if (!strncmp(argv[i], "blocks=", 7))
			blocks_file = strdup(argv[i] + 7);
		else
			return 1;
	}
	if (!to_file)
		return 1;
	executed = new_counter();
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_all, NULL);
	return 0;
}
