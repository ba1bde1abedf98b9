// SPDX-License-Identifier: GPL-2.0

//! Work that has ib_core look for new addresses of a device's netdev.

use super::limits;
use super::port::Port;
use crate::rdma::lookup::IbDeviceRef;
use crate::sync::work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{self, Work, WorkItem};

/// See the module's documentation.
#[pin_data]
pub(crate) struct GidRescan {
    port: Arc<Port>,
    #[pin]
    work: Work<GidRescan>,
}

impl GidRescan {
    /// The work for the device of `port`. Process context. ENOMEM.
    pub(crate) fn new(port: Arc<Port>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(GidRescan {
                port,
                work <- kernel::new_work!("oxe_gids"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has it run soon. Any context.
    pub(crate) fn queue(this: &Arc<Self>) {
        work::queue_process::<GidRescan, 0>(this);
    }
}

workqueue::impl_has_work! { impl HasWork<GidRescan> for GidRescan { self.work } }

impl WorkItem for GidRescan {
    type Pointer = Arc<Self>;

    /// Process context.
    fn run(this: Arc<Self>) {
        let find = |netdev: &_| IbDeviceRef::by_netdev(netdev, limits::DRIVER_ID);
        if let Some(device) = this.port.with_netdev(find).flatten() {
            device.rescan_gids();
        }
    }
}
