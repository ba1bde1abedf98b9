// SPDX-License-Identifier: GPL-2.0

//! GIDs in other network namespaces than the device's netdev: addresses of a macvlan or ipvlan
//! above it, which is in a container.

use super::port::Port;
use super::qp::object::Qps;
use super::rx::Receive;
use crate::net::netdev::NetDevice;
use crate::net::udp::Tunnel;
use crate::sync::may_log;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a device keeps for such a GID.
pub(crate) struct GidUse {
    qps: Arc<Qps>,
    /// Receives in that namespace. Absent if another program has the port there.
    tunnel: Option<Tunnel>,
}

impl Drop for GidUse {
    /// No cached route may refer to a namespace when it ends, and no route by this GID is looked up
    /// any more. (Those of other namespaces are looked up again.)
    fn drop(&mut self) {
        self.qps.forget_routes();
        self.tunnel = None;
    }
}

impl GidUse {
    /// The use of a GID of `port` that is an address of `netdev`, if it needs one; `qps` may send
    /// by it. Process context, perhaps under RTNL.
    pub(crate) fn new(port: &Port, qps: &Arc<Qps>, netdev: &NetDevice) -> Option<Self> {
        if netdev.present_namespace() == port.home() {
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
            qps: qps.clone(),
            tunnel: tunnel.ok(),
        })
    }
}
