// SPDX-License-Identifier: GPL-2.0
/* Static inlines, macros and opaque structures for rust/rdma. No per-byte work in here. */
#include <linux/cpumask.h>
#include <linux/ethtool.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/vmalloc.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>

#include "bindings.h"

/* Assumptions of rust/rdma about structures that bindgen laid out. */
_Static_assert(!IS_ENABLED(CONFIG_HIGHMEM), "pages are reached through the direct map");
_Static_assert(sizeof(struct ib_sge) == 16, "IbSge in rust/rdma/wr.rs has another layout");

/* The macro module! has no version. */
MODULE_VERSION(OXE_VERSION);

/* The module parameter congestion_control: module! has none that are text. */
static const char *const oxe_controllers[] = { "cubic", "dcqcn", "delay" };
static unsigned int oxe_controller;

/* The number of the controller of that name, or -EINVAL. */
int oxe_controller_number(const char *name)
{
	return sysfs_match_string(oxe_controllers, name);
}

const char *oxe_controller_name(unsigned int number)
{
	return number < ARRAY_SIZE(oxe_controllers) ? oxe_controllers[number] : "";
}

static int oxe_controller_set(const char *val, const struct kernel_param *kp)
{
	int found = oxe_controller_number(val);

	if (found < 0) {
		pr_err("oxe: congestion_control is cubic, dcqcn or delay, and not %s\n", val);
		return found;
	}
	oxe_controller = found;
	return 0;
}

static int oxe_controller_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", oxe_controllers[oxe_controller]);
}

static const struct kernel_param_ops oxe_controller_ops = {
	.set = oxe_controller_set,
	.get = oxe_controller_get,
};
module_param_cb(congestion_control, &oxe_controller_ops, NULL, 0444);
MODULE_PARM_DESC(congestion_control,
		 "cubic; dcqcn: CNPs cut the rate, and packets with payload are ECN-capable; "
		 "delay: queues stay short, on networks where all do so");

/* Which one it is, counted from 0. */
unsigned int oxe_congestion_control(void)
{
	return oxe_controller;
}

const char *oxe_version(void)
{
	return OXE_VERSION;
}

/* The version as fw_ver has it: three numbers of 16 bits. */
u64 oxe_fw_ver(void)
{
	u16 numbers[3] = {};

	if (sscanf(OXE_VERSION, "%hu.%hu.%hu", &numbers[0], &numbers[1], &numbers[2]) < 1)
		return 0;
	return (u64)numbers[0] << 32 | (u32)numbers[1] << 16 | numbers[2];
}

/* The same as text, for fw_ver in sysfs. librxe makes this text of the number. */
void oxe_ib_fw_str(struct ib_device *ib, char *str)
{
	u64 ver = oxe_fw_ver();

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", (u32)(ver >> 32), (u16)(ver >> 16),
		 (u16)ver);
}

/* "parent" in sysfs, the name of the device's netdev, as rdma_rxe's devices have it. */
static ssize_t parent_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct net_device *ndev = ib_device_get_netdev(rdma_device_to_ibdev(dev), 1);
	int len;

	if (!ndev)
		return -ENODEV;
	len = sysfs_emit(buf, "%s\n", ndev->name);
	dev_put(ndev);
	return len;
}
static DEVICE_ATTR_RO(parent);

static bool (*oxe_loopback)(struct ib_device *ib);
static void (*oxe_set_loopback)(struct ib_device *ib, bool on);

/* "loopback" in sysfs: whether messages of a device to itself go without packets. */
static ssize_t loopback_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", oxe_loopback(rdma_device_to_ibdev(dev)));
}

static ssize_t loopback_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t len)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	oxe_set_loopback(rdma_device_to_ibdev(dev), on);
	return len;
}
static DEVICE_ATTR_RW(loopback);

static struct attribute *oxe_device_attrs[] = {
	&dev_attr_loopback.attr, &dev_attr_parent.attr, NULL
};
static const struct attribute_group oxe_device_group = { .attrs = oxe_device_attrs };

/*
 * Before the device is registered. The functions are those of its file "loopback", the same for all
 * devices.
 */
void oxe_ib_set_device_group(struct ib_device *ib, bool (*loopback)(struct ib_device *ib),
			     void (*set_loopback)(struct ib_device *ib, bool on))
{
	oxe_loopback = loopback;
	oxe_set_loopback = set_loopback;
	ib->ops.device_group = &oxe_device_group;
}

/*
 * A reference to a symbol of ib_uverbs, so that it is loaded before this module and for as long.
 * Its client is registered before rust/rdma/client.rs then, and loses a device after that.
 */
static void *const oxe_after_uverbs __used = rdma_user_mmap_disassociate;

/* A zeroed device in the namespace of @ndev, or in init_net while all namespaces share devices. */
struct ib_device *oxe_ib_device_alloc(size_t size, struct net_device *ndev)
{
	return _ib_alloc_device(size, dev_net(ndev));
}

/* ib_core looks at it without a lock when it lists the queue pairs of a counter. */
void oxe_ib_qp_set_counter(struct ib_qp *qp, struct rdma_counter *counter)
{
	WRITE_ONCE(qp->counter, counter);
}

/* Keeps the memory of a device, even when the device is unregistered. */
void oxe_ib_device_hold(struct ib_device *ib)
{
	get_device(&ib->dev);
}

void oxe_ib_device_release(struct ib_device *ib)
{
	put_device(&ib->dev);
}

void oxe_ib_set_node_desc(struct ib_device *ib, const char *desc)
{
	memcpy(ib->node_desc, desc, sizeof(ib->node_desc));
}

/* Process context, without RTNL. */
int oxe_ib_link_attrs(struct ib_device *ib, struct oxe_link_attrs *attrs)
{
	struct ethtool_link_ksettings settings = {};
	struct net_device *ndev = ib_device_get_netdev(ib, 1);

	if (!ndev)
		return -ENODEV;
	attrs->ifindex = ndev->ifindex;
	attrs->mtu = READ_ONCE(ndev->mtu);
	attrs->up = netif_running(ndev);
	attrs->running = ib_get_curr_port_state(ndev) == IB_PORT_ACTIVE;
	attrs->speed = 0;
	rtnl_lock();
	if (READ_ONCE(ndev->reg_state) == NETREG_REGISTERED &&
	    !__ethtool_get_link_ksettings(ndev, &settings) &&
	    settings.base.speed != (u32)SPEED_UNKNOWN)
		attrs->speed = settings.base.speed;
	rtnl_unlock();
	dev_put(ndev);
	return 0;
}

/*
 * Notifies the users of the device if its port's state differs from the last one they were notified
 * of.
 */
void oxe_ib_port_changed(struct ib_device *ib)
{
	struct net_device *ndev = ib_device_get_netdev(ib, 1);

	if (!ndev)
		return;
	ib_dispatch_port_state_event(ib, ndev);
	dev_put(ndev);
}

struct ib_udata *oxe_bundle_udata(struct uverbs_attr_bundle *bundle)
{
	return &bundle->driver_udata;
}

struct ib_ucontext *oxe_udata_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

int oxe_udata_in_empty(struct ib_udata *udata)
{
	return ib_is_udata_in_empty(udata);
}

int oxe_udata_no_response(struct ib_udata *udata)
{
	return ib_respond_empty_udata(udata);
}

struct ib_umem *oxe_umem_get(struct ib_device *ib, u64 addr, u64 len, int access)
{
	return ib_umem_get_va(ib, addr, len, access);
}

bool oxe_umem_is_of_caller(struct ib_umem *umem)
{
	return umem->owning_mm == current->mm;
}

size_t oxe_umem_page_count(struct ib_umem *umem)
{
	return ib_umem_num_pages(umem);
}

/*
 * Writes the kernel address of each page, in order. Returns the number of pages; @room is enough
 * for them.
 */
size_t oxe_umem_pages(struct ib_umem *umem, void **addresses, size_t room)
{
	struct sg_page_iter iter;
	size_t n = 0;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (n < room)
			addresses[n] = page_address(sg_page_iter_page(&iter));
		n++;
	}
	return n;
}

/*
 * Zeroed memory in whole pages, on the account of the caller's control group. A process chooses the
 * length, so a failure is not reported in the kernel's log.
 */
void *oxe_shared_alloc(size_t len)
{
	return __vmalloc(len, OXE_GFP_CHARGED | __GFP_ZERO);
}

void oxe_shared_free(void *addr)
{
	vfree(addr);
}

/* For the mmap operation: maps the @len bytes of oxe_shared_alloc(), never executable. */
int oxe_shared_map(struct vm_area_struct *vma, void *addr, size_t len)
{
	size_t at;
	int err;

	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	if (vma->vm_end - vma->vm_start != len)
		return -EINVAL;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	for (at = 0; at < len; at += PAGE_SIZE) {
		err = vm_insert_page(vma, vma->vm_start + at, vmalloc_to_page(addr + at));
		if (err)
			return err;
	}
	return 0;
}

unsigned int oxe_possible_cpus(void)
{
	return num_possible_cpus();
}

bool oxe_path_exists(const char *path)
{
	struct path found;

	if (kern_path(path, LOOKUP_FOLLOW, &found))
		return false;
	path_put(&found);
	return true;
}

/*
 * Whether the process that reads an answer of ib_core's netlink may see a driver's details. ib_core
 * asks the same of the request for keys, and has not got it here.
 */
bool oxe_details_permitted(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
}

/* Begins the details of an object in an answer; null if there is no room. */
struct nlattr *oxe_details_begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

/* Ends the details, or takes them back. */
void oxe_details_end(struct sk_buff *msg, struct nlattr *nest, bool keep)
{
	if (keep)
		nla_nest_end(msg, nest);
	else
		nla_nest_cancel(msg, nest);
}
