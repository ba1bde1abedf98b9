// SPDX-License-Identifier: GPL-2.0
/*
 * The module: finds the devices, runs the cases that are asked for, and keeps their results.
 *
 * Writing "GROUP loop" or "GROUP wire" to the file "run" in debugfs runs a group of cases, in the
 * writer's context; "results" has their outcome afterwards, a line each as lib.sh's relay takes it.
 * "traffic loop" or "traffic wire" starts traffic that goes on until a device is removed, "paced
 * ..." some that leaves the CPU time for other things, and "more ..." waits until more of it has
 * come. "create KIND loop" or "create KIND wire" makes an object and destroys it; its error is that
 * of the write.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_cache.h>
#include "ktest.h"

static char *dev_a = "oxea", *dev_b = "oxeb";
module_param(dev_a, charp, 0444);
MODULE_PARM_DESC(dev_a, "device of the one host");
module_param(dev_b, charp, 0444);
MODULE_PARM_DESC(dev_b, "device of the other host");
static int gid_a, gid_b;
module_param(gid_a, int, 0444);
MODULE_PARM_DESC(gid_a, "GID index of the one host");
module_param(gid_b, int, 0444);
MODULE_PARM_DESC(gid_b, "GID index of the other host");
unsigned int kt_slow = 1;
module_param_named(slow, kt_slow, uint, 0444);
MODULE_PARM_DESC(slow, "factor of all time limits");

#define RESULTS_SIZE (64 * 1024)

static const struct {
	const char *name;
	const struct kt_case *cases;
} groups[] = {
	{ "fastreg", kt_fastreg_cases },
	{ "inval", kt_inval_cases },
	{ "post", kt_post_cases },
	{ "srq", kt_srq_cases },
	{ "drain", kt_drain_cases },
	{ "events", kt_event_cases },
	{ "moderation", kt_moderation_cases },
	{ "reuse", kt_reuse_cases },
	{ "lent", kt_lent_cases },
	{ "late", kt_late_cases },
	{ "global", kt_global_cases },
};

static DEFINE_MUTEX(lock);
static struct kt_host hosts[2];
static struct dentry *directory;
static struct debugfs_blob_wrapper results;
static DEFINE_SPINLOCK(results_lock);

static void result_line(const char *prefix, const char *fmt, va_list args)
{
	char *text = results.data;

	guard(spinlock_irqsave)(&results_lock);
	results.size += scnprintf(text + results.size, RESULTS_SIZE - results.size, "%s ", prefix);
	results.size += vscnprintf(text + results.size, RESULTS_SIZE - results.size, fmt, args);
	results.size += scnprintf(text + results.size, RESULTS_SIZE - results.size, "\n");
}

void kt_note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	result_line("#", fmt, args);
	va_end(args);
}

static __printf(2, 3) void report(const char *prefix, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	result_line(prefix, fmt, args);
	va_end(args);
}

static void run_case(const struct kt_case *test, const struct kt_host *a, const struct kt_host *b,
		     const char *where)
{
	struct kt_pair pair = { .a.host = a, .b.host = b };
	const struct kt_how how = {};
	int error = 0;

	if (!test->bare)
		error = kt_open(&pair, &how);
	if (error)
		kt_note("no pair of QPs: error %d", error);
	else
		error = test->run(&pair);
	kt_close(&pair);
	if (error == -EOPNOTSUPP)
		report("skip", "%s (%s) # the device does not have it", test->name, where);
	else if (error)
		report("not ok", "%s (%s): error %d", test->name, where, error);
	else
		report("ok", "%s (%s)", test->name, where);
}

static int run_group(const char *name, const char *kind, bool wire)
{
	const struct kt_case *test;
	unsigned int i;

	if (!hosts[0].dev || (wire && !hosts[1].dev))
		return -ENODEV;
	if (!strcmp(name, "traffic") || !strcmp(name, "paced")) {
		int error = kt_traffic_start(&hosts[0], &hosts[wire], !strcmp(name, "paced"));

		report(error ? "not ok" : "ok", "traffic (%s)", wire ? "wire" : "loop");
		return error;
	}
	if (!strcmp(name, "more"))
		return kt_traffic_goes_on();
	if (kind)
		return kt_create(kind, &hosts[0], &hosts[wire]);
	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		if (strcmp(groups[i].name, name))
			continue;
		for (test = groups[i].cases; test->name; test++)
			run_case(test, &hosts[0], &hosts[wire], wire ? "wire" : "loop");
		return 0;
	}
	return -EINVAL;
}

static ssize_t run_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	char text[64] = "", *rest = text, *name, *kind = NULL, *where;
	int error;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, len))
		return -EFAULT;
	name = strsep(&rest, " \n");
	if (!strcmp(name, "create"))
		kind = strsep(&rest, " \n");
	where = strsep(&rest, " \n");
	if (!where)
		return -EINVAL;
	guard(mutex)(&lock);
	if (strcmp(name, "more"))
		results.size = 0;
	error = run_group(name, kind, !strcmp(where, "wire"));
	return error ?: len;
}

static const struct file_operations run_file = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int add_device(struct ib_device *dev)
{
	int i, error;

	for (i = 0; i < 2; i++) {
		struct kt_host *host = &hosts[i];

		if (strcmp(dev_name(&dev->dev), host->name))
			continue;
		error = rdma_query_gid(dev, 1, host->sgid_index, &host->gid);
		if (error)
			return error;
		host->dev = dev;
		return 0;
	}
	return -EOPNOTSUPP;
}

static void remove_device(struct ib_device *dev, void *data)
{
	int i, error = 0;

	guard(mutex)(&lock);
	if (kt_traffic_end(dev, &error))
		report(error ? "not ok" : "ok", "traffic ends with its device");
	for (i = 0; i < 2; i++)
		if (hosts[i].dev == dev)
			hosts[i].dev = NULL;
}

static struct ib_client client = {
	.name = "oxe_ktest",
	.add = add_device,
	.remove = remove_device,
};

static int __init ktest_init(void)
{
	int error;

	hosts[0] = (struct kt_host){ .name = dev_a, .sgid_index = gid_a };
	hosts[1] = (struct kt_host){ .name = dev_b, .sgid_index = gid_b };
	results.data = kvzalloc(RESULTS_SIZE, GFP_KERNEL);
	if (!results.data)
		return -ENOMEM;
	error = ib_register_client(&client);
	if (error) {
		kvfree(results.data);
		return error;
	}
	directory = debugfs_create_dir("oxe_ktest", NULL);
	debugfs_create_file("run", 0200, directory, NULL, &run_file);
	debugfs_create_blob("results", 0400, directory, &results);
	return 0;
}

static void __exit ktest_exit(void)
{
	debugfs_remove_recursive(directory);
	ib_unregister_client(&client);
	kvfree(results.data);
}

module_init(ktest_init);
module_exit(ktest_exit);
MODULE_DESCRIPTION("A kernel consumer of RDMA devices for the selftests of oxe");
MODULE_LICENSE("GPL");
