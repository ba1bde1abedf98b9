// SPDX-License-Identifier: GPL-2.0

//! GIDs in other network namespaces than the device's netdev: addresses of a macvlan or ipvlan
//! above it, which is in a container.

use super::rx::Receive;
use super::Core;
use crate::net::netdev::NetDevice;
use crate::net::udp::Tunnel;
use crate::sync::may_log;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a device keeps for such a GID.
pub(crate) struct GidUse {
    core: Arc<Core>,
    /// Receives in that namespace. Absent if another program has the port there.
    tunnel: Option<Tunnel>,
}

impl Drop for GidUse {
    /// No cached route may refer to a namespace when it ends, and no route by this GID is looked up
    /// any more. (Those of other namespaces are looked up again.)
    fn drop(&mut self) {
        self.core.forget_routes();
        self.tunnel = None;
    }
}

impl GidUse {
    /// The use of a GID of `core` that is an address of `netdev`, if it needs one. Process context,
    /// perhaps under RTNL.
    pub(crate) fn new(core: &Arc<Core>, netdev: &NetDevice) -> Option<Self> {
        if netdev.present_namespace() == core.port.home() {
            return None;
        }
        let tunnel = Tunnel::open::<Receive>(netdev);
        match &tunnel {
            Err(error) if may_log() => pr_warn!(
                "{}: receives nothing: UDP port 4791 cannot be opened in its netns: {:?}\n",
                netdev.name(),
                error
            ),
            _ => {}
        }
        Some(GidUse {
            core: core.clone(),
            tunnel: tunnel.ok(),
        })
    }
}
