/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that rust/rdma cannot reach through bindgen: static inlines, macros and
 * opaque structures.
 */
#ifndef OXE_HELPERS_H
#define OXE_HELPERS_H

#include <linux/types.h>

struct ib_device;
struct ib_qp;
struct ib_ucontext;
struct ib_udata;
struct ib_umem;
struct net_device;
struct nlattr;
struct rdma_counter;
struct sk_buff;
struct uverbs_attr_bundle;
struct vm_area_struct;

/* The attributes of the network interface of a port. */
struct oxe_link_attrs {
	u32 ifindex;
	u32 mtu;
	u32 speed;	/* Mb/s, 0 if not known */
	bool up;	/* administratively */
	bool running;	/* up and with a carrier */
};

struct ib_device *oxe_ib_device_alloc(size_t size, struct net_device *ndev);
void oxe_ib_device_hold(struct ib_device *ib);
void oxe_ib_device_release(struct ib_device *ib);
void oxe_ib_set_node_desc(struct ib_device *ib, const char *desc);
int oxe_ib_link_attrs(struct ib_device *ib, struct oxe_link_attrs *attrs);
void oxe_ib_port_changed(struct ib_device *ib);

struct ib_udata *oxe_bundle_udata(struct uverbs_attr_bundle *bundle);
struct ib_ucontext *oxe_udata_ucontext(struct ib_udata *udata);
int oxe_udata_in_empty(struct ib_udata *udata);
int oxe_udata_no_response(struct ib_udata *udata);

struct ib_umem *oxe_umem_get(struct ib_device *ib, u64 addr, u64 len, int access);
bool oxe_umem_is_of_caller(struct ib_umem *umem);
size_t oxe_umem_page_count(struct ib_umem *umem);
size_t oxe_umem_pages(struct ib_umem *umem, void **addresses, size_t room);

bool oxe_nofault_read(void *to, const void *from, size_t len);
bool oxe_nofault_write(void *to, const void *from, size_t len);

void *oxe_shared_alloc(size_t len);
void oxe_shared_free(void *addr);
int oxe_shared_map(struct vm_area_struct *vma, void *addr, size_t len);

bool oxe_details_permitted(void);
struct nlattr *oxe_details_begin(struct sk_buff *msg);
void oxe_details_end(struct sk_buff *msg, struct nlattr *nest, bool keep);

unsigned int oxe_congestion_control(void);
int oxe_controller_number(const char *name);
const char *oxe_controller_name(unsigned int number);

const char *oxe_version(void);
u64 oxe_fw_ver(void);
void oxe_ib_fw_str(struct ib_device *ib, char *str);
void oxe_ib_qp_set_counter(struct ib_qp *qp, struct rdma_counter *counter);
void oxe_ib_set_device_group(struct ib_device *ib, bool (*loopback)(struct ib_device *ib),
			     void (*set_loopback)(struct ib_device *ib, bool on));
unsigned int oxe_possible_cpus(void);
bool oxe_path_exists(const char *path);

#endif
