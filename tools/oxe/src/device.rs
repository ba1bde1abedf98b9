// SPDX-License-Identifier: GPL-2.0

//! The RDMA devices that this process sees, and their queue pairs.

use crate::module;
use crate::nldev::{Attr, Attrs, Command, Nldev, Value};
use crate::route::{Key, Link, Rtnetlink};
use crate::sysfs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// `RDMA_DRIVER_RXE`, which oxe has as well: its devices are librxe's.
const DRIVER_RXE: u64 = 14;

/// The headers of a packet in bytes, at most (port.rs of the module).
pub(crate) const OVERHEAD: u64 = 92;

/// `enum ib_port_state`.
const STATES: [&str; 6] = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];

/// An RDMA device with one port; of several ports the first.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) index: u32,
    /// Whether it is one of oxe's.
    pub(crate) is_oxe: bool,
    pub(crate) state: &'static str,
    /// `None` if it is of another network namespace.
    pub(crate) netdev: Option<String>,
    #[serde(skip)]
    pub(crate) link: Option<Link>,
    /// In bytes.
    pub(crate) mtu: Option<u64>,
    /// In bytes; of oxe's devices alone.
    pub(crate) path_mtu: Option<u64>,
    pub(crate) users: Vec<User>,
}

/// A process, or a part of the kernel, that has queue pairs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) qps: usize,
}

/// A queue pair.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Qp {
    pub(crate) device: String,
    pub(crate) qpn: u32,
    pub(crate) remote_qpn: Option<u32>,
    pub(crate) service: &'static str,
    pub(crate) state: &'static str,
    pub(crate) user: String,
    pub(crate) pid: Option<u32>,
    /// Details by the driver, for a process with CAP_NET_ADMIN alone.
    pub(crate) details: BTreeMap<String, String>,
}

/// The devices, by name.
pub(crate) fn all(nldev: &Nldev) -> io::Result<Vec<Device>> {
    let rtnetlink = Rtnetlink::open()?;
    let mut found = Vec::new();
    for attrs in nldev.dump(Command::Devices, &[])? {
        if let (Some(name), Some(index)) =
            (attrs.text(Attr::DevName), attrs.number32(Attr::DevIndex))
        {
            found.push(describe(nldev, &rtnetlink, name, index)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn describe(nldev: &Nldev, rtnetlink: &Rtnetlink, name: String, index: u32) -> io::Result<Device> {
    let of_device = (Attr::DevIndex, Value::U32(index));
    let port = nldev.get(
        Command::Ports,
        &[of_device, (Attr::PortIndex, Value::U32(1))],
    )?;
    let is_oxe = module::loaded_version().is_some() && driver(nldev, index) == Some(DRIVER_RXE);
    let netdev = port.text(Attr::NetdevName);
    let link = netdev
        .as_ref()
        .and_then(|netdev| rtnetlink.link(Key::Name(netdev)).ok());
    let mtu = link.as_ref().map(|link| link.mtu);
    let state = port.number(Attr::PortState).unwrap_or(0);
    let state = usize::try_from(state)
        .ok()
        .and_then(|state| STATES.get(state));
    Ok(Device {
        users: users(&qps(nldev, &name, index)?),
        name,
        index,
        is_oxe,
        state: state.copied().unwrap_or("unknown"),
        netdev,
        link,
        mtu,
        path_mtu: mtu.filter(|_| is_oxe).map(path_mtu),
    })
}

/// The largest path MTU that a netdev's MTU has room for.
pub(crate) fn path_mtu(mtu: u64) -> u64 {
    let room = mtu.saturating_sub(OVERHEAD);
    let sizes = [4096, 2048, 1024, 512];
    sizes.into_iter().find(|size| *size <= room).unwrap_or(256)
}

/// The driver's number, where libibverbs can use the device.
fn driver(nldev: &Nldev, index: u32) -> Option<u64> {
    let of_device = (Attr::DevIndex, Value::U32(index));
    let kind = (Attr::CharacterDeviceType, Value::Text("uverbs"));
    let found = nldev.get(Command::CharacterDevice, &[of_device, kind]);
    found.ok()?.number(Attr::UverbsDriverId)
}

/// The queue pairs of a device that this process sees.
pub(crate) fn qps(nldev: &Nldev, device: &str, index: u32) -> io::Result<Vec<Qp>> {
    let with = [
        (Attr::DevIndex, Value::U32(index)),
        (Attr::DriverDetails, Value::U8(1)),
    ];
    let mut found = Vec::new();
    for attrs in nldev.dump(Command::Qps, &with)? {
        for table in attrs.nested(Attr::Qps) {
            found.extend(
                table
                    .nested(Attr::Qp)
                    .filter_map(|qp| queue_pair(device, &qp)),
            );
        }
    }
    Ok(found)
}

/// The counters of a device's port, by name. In namespaces other than the first sysfs lacks them.
pub(crate) fn counters(nldev: &Nldev, index: u32) -> io::Result<BTreeMap<String, u64>> {
    let of_device = (Attr::DevIndex, Value::U32(index));
    let with = [of_device, (Attr::PortIndex, Value::U32(1))];
    let mut found = BTreeMap::new();
    for table in nldev
        .get(Command::Statistics, &with)?
        .nested(Attr::Counters)
    {
        found.extend(table.nested(Attr::Counter).filter_map(|counter| {
            let name = counter.text(Attr::CounterName)?;
            Some((name, counter.number(Attr::CounterValue)?))
        }));
    }
    Ok(found)
}

fn queue_pair(device: &str, attrs: &Attrs) -> Option<Qp> {
    let pid = attrs.number32(Attr::Pid);
    let user = match pid {
        Some(pid) => sysfs::process(pid).unwrap_or_else(|| pid.to_string()),
        None => format!("[{}]", attrs.text(Attr::KernelName).unwrap_or_default()),
    };
    Some(Qp {
        device: device.to_owned(),
        qpn: attrs.number32(Attr::Lqpn)?,
        remote_qpn: attrs.number32(Attr::Rqpn),
        service: service(attrs.number(Attr::Type)?),
        state: state(attrs.number(Attr::State)?),
        user,
        pid,
        details: attrs.details().into_iter().collect(),
    })
}

/// `enum ib_qp_type`.
fn service(number: u64) -> &'static str {
    match number {
        0 => "SMI",
        1 => "GSI",
        2 => "RC",
        3 => "UC",
        4 => "UD",
        9 => "XRC_INI",
        10 => "XRC_TGT",
        _ => "other",
    }
}

/// `enum ib_qp_state`.
fn state(number: u64) -> &'static str {
    match number {
        0 => "RESET",
        1 => "INIT",
        2 => "RTR",
        3 => "RTS",
        4 => "SQD",
        5 => "SQE",
        6 => "ERR",
        _ => "unknown",
    }
}

/// Who has queue pairs, and how many. The GSI QP that each device has counts for nobody.
fn users(qps: &[Qp]) -> Vec<User> {
    let mut count = BTreeMap::new();
    for qp in qps.iter().filter(|qp| qp.service != "GSI") {
        *count.entry((qp.user.clone(), qp.pid)).or_insert(0) += 1;
    }
    let user = |((name, pid), qps)| User { name, pid, qps };
    count.into_iter().map(user).collect()
}

#[cfg(test)]
mod tests {
    use super::path_mtu;

    #[test]
    fn path_mtus_fit() {
        let fit = [
            (68, 256),
            (1500, 1024),
            (2140, 2048),
            (2139, 1024),
            (9000, 4096),
        ];
        for (mtu, path) in fit {
            assert_eq!(path_mtu(mtu), path);
        }
    }
}
