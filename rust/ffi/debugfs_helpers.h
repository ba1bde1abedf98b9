/* SPDX-License-Identifier: GPL-2.0 */
/* The files of devices in debugfs. */
#ifndef OXE_DEBUGFS_HELPERS_H
#define OXE_DEBUGFS_HELPERS_H

#include <linux/types.h>

struct ib_device;
struct oxe_debugfs;

/*
 * The values behind the files. @name is NULL behind the last one. @set returns 0, or -EINVAL and
 * changes nothing.
 */
struct oxe_debugfs_ops {
	const char *(*name)(u32 index);
	u32 (*get)(const void *data, u32 index);
	int (*set)(const void *data, u32 index, u32 value);
};

void oxe_debugfs_init(void);
void oxe_debugfs_exit(void);
struct oxe_debugfs *oxe_debugfs_add(struct ib_device *ib, const void *data,
				    const struct oxe_debugfs_ops *ops);
void oxe_debugfs_rename(struct oxe_debugfs *of, struct ib_device *ib);
void oxe_debugfs_remove(struct oxe_debugfs *of);

#endif
