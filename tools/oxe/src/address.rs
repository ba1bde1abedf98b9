// SPDX-License-Identifier: GPL-2.0

//! The GIDs of a device, as sysfs has them.

use crate::sysfs;
use serde::Serialize;
use std::net::{IpAddr, Ipv6Addr};

/// An entry of a GID table that is in use.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Gid {
    pub(crate) index: u32,
    pub(crate) gid: Ipv6Addr,
    /// The IP address that it stands for.
    pub(crate) address: IpAddr,
    /// `RoCE v2`, say.
    pub(crate) kind: String,
    /// The netdev that has the address.
    pub(crate) netdev: String,
}

impl Gid {
    /// Whether peers beyond the link can have this address as theirs.
    pub(crate) fn is_routable(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => !address.is_link_local() && !address.is_loopback(),
            // fe80::/10
            IpAddr::V6(address) => address.segments()[0] & 0xffc0 != 0xfe80,
        }
    }
}

/// The GIDs of the device's first port that are in use, by index.
pub(crate) fn gids(device: &str) -> Vec<Gid> {
    let port = format!("{}/{device}/ports/1", sysfs::DEVICES);
    let mut found: Vec<Gid> = sysfs::names(format!("{port}/gids"))
        .iter()
        .filter_map(|name| {
            let gid: Ipv6Addr = sysfs::text(format!("{port}/gids/{name}"))?.parse().ok()?;
            if gid.is_unspecified() {
                return None;
            }
            Some(Gid {
                index: name.parse().ok()?,
                gid,
                address: gid.to_ipv4_mapped().map_or(gid.into(), IpAddr::V4),
                kind: sysfs::text(format!("{port}/gid_attrs/types/{name}"))?,
                netdev: sysfs::text(format!("{port}/gid_attrs/ndevs/{name}"))?,
            })
        })
        .collect();
    found.sort_by_key(|gid| gid.index);
    found
}
