// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU's translator: counts how often each block of instructions runs while a file
 * exists. At the machine's end it writes a line for each: address, number of instructions, times
 * (hexadecimal, decimal, decimal). Arguments: while=FILE,to=FILE. For machines with one CPU.
 *
 * Debian has no header for plugins; the declarations here are version 4 of the interface (QEMU 9.2
 * to 10).
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_info_t;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned int, void *),
					  int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
PUBLIC int qemu_plugin_version = 4;
enum { NO_REGISTERS = 0 };

struct block {
	uint64_t address, length, times;
	struct block *next;
};
static struct block *blocks;
static const char *while_file, *to_file;
static volatile bool counting;

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->times += counting;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));

	(void)id;
	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->length = qemu_plugin_tb_n_insns(tb);
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, block);
}

static void *watch(void *unused)
{
	for (;;) {
		counting = access(while_file, F_OK) == 0;
		usleep(10000);
	}
	return unused;
}

static void write_all(plugin_id id, void *unused)
{
	FILE *file = fopen(to_file, "w");

	(void)id;
	(void)unused;
	if (!file)
		return;
	for (const struct block *block = blocks; block; block = block->next)
		if (block->times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n",
				block->address, block->length, block->times);
	fclose(file);
}

PUBLIC int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc, char **argv)
{
	pthread_t thread;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "while=", 6))
			while_file = strdup(argv[i] + 6);
		else if (!strncmp(argv[i], "to=", 3))
			to_file = strdup(argv[i] + 3);
	}
	if (!while_file || !to_file || pthread_create(&thread, NULL, watch, NULL))
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_all, NULL);
	return 0;
}
