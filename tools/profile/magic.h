/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The NOP by which a program of the guest speaks to the counting plugin (count.c): nopl with a
 * displacement of 32 bits that holds a magic number, a command and its argument.
 * tools/perf/ticks.py has the same numbers.
 */
#ifndef MAGIC_H
#define MAGIC_H

/* nopl DISPLACEMENT(%rax), without the displacement. */
#define MAGIC_NOP 0x0f, 0x1f, 0x80
#define MAGIC_WORD(command, argument) (0x0e5e0000 | (command) << 12 | (argument))
#define MAGIC_IS(word) ((word) >> 16 == 0x0e5e && MAGIC_COMMAND(word) < MAGIC_COMMANDS)
#define MAGIC_COMMAND(word) ((word) >> 12 & 0xf)
#define MAGIC_ARGUMENT(word) ((word) & 0xfff)

/*
 * Series: the ticks that follow are of the run of that number. Tick: so many more requests of the
 * run have completed; none have where it begins.
 */
enum { MAGIC_SERIES, MAGIC_TICK, MAGIC_COMMANDS };
#define MAGIC_NAMES "series", "tick"

#endif
