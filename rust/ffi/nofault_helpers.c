// SPDX-License-Identifier: GPL-2.0
/*
 * Copies from and to kernel addresses that a peer names. They fail where no memory is, or none that
 * may be accessed so, and take no fault.
 */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "helpers.h"

/*
 * Whether each page of the range is memory, by its address in the direct map or in the kernel's
 * image. Other addresses are none that a consumer can have mapped for a device, and some are of
 * registers of devices, which must not even be read.
 */
static bool is_memory(const void *start, size_t len)
{
	unsigned long at = (unsigned long)start, last = at + len - 1;

	if (!len)
		return true;
	if (last < at)
		return false;
	for (at &= PAGE_MASK; at <= last; at += PAGE_SIZE) {
		if (!virt_addr_valid((void *)at))
			return false;
		/* The last page of the address space. */
		if (at + PAGE_SIZE < at)
			break;
	}
	return true;
}

/* Whether all was copied. Any context. */
bool oxe_nofault_read(void *to, const void *from, size_t len)
{
	return is_memory(from, len) && !copy_from_kernel_nofault(to, from, len);
}

/*
 * Whether all was copied: a part may have been otherwise. Any context. The kernel's own function is
 * not for modules.
 */
bool oxe_nofault_write(void *to, const void *from, size_t len)
{
	bool aligned = IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) ||
		       IS_ALIGNED((unsigned long)to | (unsigned long)from, sizeof(u64));

	if (!is_memory(to, len))
		return false;
	pagefault_disable();
	for (; aligned && len >= sizeof(u64); len -= sizeof(u64)) {
		__put_kernel_nofault(to, from, u64, fault);
		to += sizeof(u64);
		from += sizeof(u64);
	}
	for (; len; len--) {
		__put_kernel_nofault(to, from, u8, fault);
		to++;
		from++;
	}
	pagefault_enable();
	return true;
fault:
	pagefault_enable();
	return false;
}
