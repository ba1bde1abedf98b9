// SPDX-License-Identifier: GPL-2.0
/*
 * The files of devices in debugfs, oxe/DEVICE.
 *
 * Not by kernel::debugfs: its files have no owner, so that the module could be unloaded while one
 * is open, whose close then reads the file's operations in memory that is gone. It follows no
 * change of a name, either.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

#include "debugfs_helpers.h"
#include "helpers.h"

/* Longer than any text that a file takes. */
#define OXE_TEXT 32

/* One file, of the value @index. */
struct oxe_debugfs_file {
	const struct oxe_debugfs *of;
	u32 index;
};

struct oxe_debugfs {
	struct dentry *dir;
	const void *data;
	const struct oxe_debugfs_ops *ops;
	struct oxe_debugfs_file files[];
};

static struct dentry *oxe_debugfs_root;

static u32 oxe_file_get(const struct oxe_debugfs_file *file)
{
	return file->of->ops->get(file->of->data, file->index);
}

static int oxe_file_set(const struct oxe_debugfs_file *file, u32 value)
{
	return file->of->ops->set(file->of->data, file->index, value);
}

static ssize_t oxe_number_read(struct file *filp, char __user *buf, size_t len, loff_t *pos)
{
	char text[OXE_TEXT];
	int n = scnprintf(text, sizeof(text), "%u\n", oxe_file_get(filp->private_data));

	return simple_read_from_buffer(buf, len, pos, text, n);
}

static ssize_t oxe_number_write(struct file *filp, const char __user *buf, size_t len, loff_t *pos)
{
	u32 value;
	int err = kstrtou32_from_user(buf, len, 0, &value);

	/* A number that u32 has no room for is out of range as another. */
	if (err == -ERANGE)
		return -EINVAL;
	return err ?: oxe_file_set(filp->private_data, value) ?: len;
}

static const struct file_operations oxe_number_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = oxe_number_read,
	.write = oxe_number_write,
};

static ssize_t oxe_controller_read(struct file *filp, char __user *buf, size_t len, loff_t *pos)
{
	char text[OXE_TEXT];
	const char *name = oxe_controller_name(oxe_file_get(filp->private_data));
	int n = scnprintf(text, sizeof(text), "%s\n", name);

	return simple_read_from_buffer(buf, len, pos, text, n);
}

static ssize_t oxe_controller_write(struct file *filp, const char __user *buf, size_t len,
				    loff_t *pos)
{
	char text[OXE_TEXT] = {};
	int found;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	/* It compares as far as the first zero. */
	if (memchr(text, 0, len))
		return -EINVAL;
	found = oxe_controller_number(text);
	if (found < 0)
		return found;
	return oxe_file_set(filp->private_data, found) ?: len;
}

static const struct file_operations oxe_controller_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = oxe_controller_read,
	.write = oxe_controller_write,
};

/* At load of the module. Without debugfs these are no-ops, and there are no files. */
void oxe_debugfs_init(void)
{
	oxe_debugfs_root = debugfs_create_dir("oxe", NULL);
}

/* At unload, when there are no devices. */
void oxe_debugfs_exit(void)
{
	debugfs_remove(oxe_debugfs_root);
}

/*
 * The directory of @ib: congestion_control, which is the value 0, and in cc_params the
 * values from 1 on. Root alone has them. @data and @ops stay until oxe_debugfs_remove(). NULL
 * without memory. Process context.
 */
struct oxe_debugfs *oxe_debugfs_add(struct ib_device *ib, const void *data,
				    const struct oxe_debugfs_ops *ops)
{
	struct dentry *params;
	struct oxe_debugfs *of;
	u32 i, count = 1;

	while (ops->name(count))
		count++;
	of = kzalloc(struct_size(of, files, count), GFP_KERNEL);
	if (!of)
		return NULL;
	of->data = data;
	of->ops = ops;
	of->dir = debugfs_create_dir(dev_name(&ib->dev), oxe_debugfs_root);
	of->files[0].of = of;
	debugfs_create_file("congestion_control", 0600, of->dir, &of->files[0],
			    &oxe_controller_fops);
	params = debugfs_create_dir("cc_params", of->dir);
	for (i = 1; i < count; i++) {
		struct oxe_debugfs_file *file = &of->files[i];

		file->of = of;
		file->index = i;
		debugfs_create_file(ops->name(i), 0600, params, file, &oxe_number_fops);
	}
	return of;
}

/* The device has another name. Without memory its directory keeps the old one. */
void oxe_debugfs_rename(struct oxe_debugfs *of, struct ib_device *ib)
{
	debugfs_change_name(of->dir, "%s", dev_name(&ib->dev));
}

/* Returns when no file is being read or written. One that is open stays so, and gives EIO. */
void oxe_debugfs_remove(struct oxe_debugfs *of)
{
	debugfs_remove(of->dir);
	kfree(of);
}
