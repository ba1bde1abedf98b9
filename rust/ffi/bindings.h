/* SPDX-License-Identifier: GPL-2.0 */
/* The input of bindgen: the RDMA core's headers, and our helpers. */
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_cache.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/rdma_user_rxe.h>

#include "debugfs_helpers.h"
#include "gid_helpers.h"
#include "helpers.h"
#include "net_helpers.h"
#include "odp_helpers.h"
#include "sync_helpers.h"
#include "trace_helpers.h"
