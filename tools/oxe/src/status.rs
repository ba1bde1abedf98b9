// SPDX-License-Identifier: GPL-2.0

//! `oxe status`: the module, its devices, the firewall.

use crate::address::{gids, Gid};
use crate::device::{self, Device};
use crate::firewall::{Firewall, PORT};
use crate::module;
use crate::nldev::{Attr, Command, Nldev};
use crate::output::{table, Report};
use crate::problem::Problem;
use crate::rdma_cm;
use crate::sysfs;
use serde_json::json;
use std::io;

/// The least limit of locked memory in bytes that is no problem: the kernel's own default.
const MEMLOCK: u64 = 8 << 20;

/// The bit of CAP_IPC_LOCK, for which there is no such limit.
const CAP_IPC_LOCK: u32 = 14;

pub(crate) fn run() -> io::Result<Report> {
    let version = module::loaded_version();
    let Some(version) = version else {
        return Ok(Report {
            problems: vec![module::absence()],
            lines: Vec::new(),
            data: json!({ "module": null, "devices": [] }),
        });
    };
    let nldev = Nldev::open()?;
    let devices = device::all(&nldev)?;
    let firewall = Firewall::read();
    let mut problems = Vec::new();
    if devices.iter().any(|device| device.is_oxe) {
        for device in devices.iter().filter(|device| device.is_oxe) {
            problems.extend(of_device(device, &gids(&device.name)));
        }
        problems.extend(of_programs());
    } else {
        problems.push(no_device(&nldev));
    }
    problems.extend(firewall.problem());
    let mut lines = vec![format!("oxe {version} is loaded.")];
    lines.extend(of_devices(&devices));
    lines.push(format!("Firewall: {}.", firewall.text()));
    if problems.is_empty() {
        lines.push("Nothing is wrong.".to_owned());
    }
    Ok(Report {
        problems,
        lines,
        data: json!({
            "module": { "version": version },
            "devices": devices,
            "firewall": firewall.text(),
        }),
    })
}

/// A table of the devices, those of other drivers included.
fn of_devices(devices: &[Device]) -> Vec<String> {
    if devices.is_empty() {
        return Vec::new();
    }
    let header = [
        "DEVICE",
        "NETDEV",
        "STATE",
        "MTU",
        "PATH MTU",
        "USERS",
        "ADDRESSES",
    ];
    let mut rows = vec![header.map(String::from).to_vec()];
    let or_none = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    for device in devices {
        let users = device
            .users
            .iter()
            .map(|user| format!("{} ({} QPs)", user.name, user.qps));
        let users: Vec<String> = users.collect();
        let mut addresses: Vec<String> = gids(&device.name)
            .iter()
            .map(|gid| gid.address.to_string())
            .collect();
        addresses.dedup();
        rows.push(vec![
            device.name.clone(),
            device.netdev.clone().unwrap_or("-".to_owned()),
            device.state.to_owned(),
            or_none(device.mtu),
            or_none(device.path_mtu),
            if users.is_empty() {
                "-".to_owned()
            } else {
                users.join(", ")
            },
            addresses.join(" "),
        ]);
    }
    table(&rows)
}

/// What is wrong with a device of oxe's.
fn of_device(device: &Device, gids: &[Gid]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let name = &device.name;
    let Some(netdev) = &device.netdev else {
        return vec![Problem::new(
            "netdev-elsewhere",
            format!("The netdev of {name} is of another network namespace."),
            format!("Use {name} there, or by the GIDs of this namespace: oxe gids {name}"),
        )];
    };
    if device.state != "ACTIVE" {
        problems.extend(of_link(device));
    }
    if !gids.iter().any(Gid::is_routable) {
        problems.push(Problem::new(
            "no-address",
            format!("{netdev}, the netdev of {name}, has no address but link-local ones."),
            format!("ip addr add ADDRESS/LENGTH dev {netdev}"),
        ));
    }
    problems
}

/// The problem of the netdev of a device that is not active.
pub(crate) fn of_link(device: &Device) -> Option<Problem> {
    let (name, link) = (&device.name, device.link.as_ref()?);
    let netdev = &link.name;
    if !link.is_up {
        return Some(Problem::new(
            "netdev-down",
            format!("{netdev}, the netdev of {name}, is down."),
            format!("ip link set {netdev} up"),
        ));
    }
    if !link.has_carrier {
        return Some(Problem::new(
            "no-carrier",
            format!("{netdev}, the netdev of {name}, has no carrier."),
            format!("See to its cable, or to the other end: ip -d link show {netdev}"),
        ));
    }
    None
}

/// What keeps programs from the devices.
fn of_programs() -> Vec<Problem> {
    let mut problems = Vec::new();
    let files = sysfs::names("/dev/infiniband");
    if !files.iter().any(|name| name.starts_with("uverbs")) {
        problems.push(Problem::new(
            "no-uverbs",
            "There is no /dev/infiniband/uverbs*, by which programs use a device.",
            "modprobe ib_uverbs",
        ));
    }
    if !files.iter().any(|name| name == "rdma_cm") {
        problems.push(rdma_cm::missing());
    }
    if let Some(limit) = memlock().filter(|limit| *limit < MEMLOCK) {
        problems.push(Problem::new(
            "memlock",
            format!(
                "Programs of this user may lock {} kB of memory; memory regions and queues need \
                 more.",
                limit / 1024
            ),
            "ulimit -l unlimited, or a file in /etc/security/limits.d: * - memlock unlimited",
        ));
    }
    problems
}

/// How many bytes of memory this process may lock; `None` for no limit.
fn memlock() -> Option<u64> {
    let status = sysfs::text("/proc/self/status")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    if (mask >> CAP_IPC_LOCK) & 1 == 1 {
        return None;
    }
    let limits = sysfs::text("/proc/self/limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The module is loaded and this namespace sees no device of it.
fn no_device(nldev: &Nldev) -> Problem {
    let system = nldev.get(Command::System, &[]);
    let shared = system
        .ok()
        .and_then(|system| system.number(Attr::NetnsMode));
    if shared == Some(0) {
        return Problem::new(
            "exclusive",
            "This network namespace has no device of oxe: each RDMA device is of one namespace \
             alone (rdma system).",
            "rdma dev set DEVICE netns NAME, or for all namespaces: rdma system set netns shared",
        );
    }
    if port_is_taken() {
        return Problem::new(
            "port-taken",
            format!("oxe has no device, and a program has UDP port {PORT}, which a device needs."),
            format!("ss -ulnp 'sport = :{PORT}' names it: end it."),
        );
    }
    let candidates = netdevs();
    let Some(netdev) = candidates.first() else {
        return Problem::new(
            "no-netdev",
            "oxe has no device, and this network namespace no Ethernet-like netdev.",
            "rdma link add oxe0 type oxe netdev lo (for programs of this machine alone)",
        );
    };
    Problem::new(
        "no-device",
        "oxe is loaded, and has no device.",
        format!("rdma link add oxe0 type oxe netdev {netdev}"),
    )
}

/// The netdevs that a device can be made on, those that are up first.
fn netdevs() -> Vec<String> {
    let attribute = |name: &str, file: &str| sysfs::text(format!("/sys/class/net/{name}/{file}"));
    let mut found: Vec<String> = sysfs::names("/sys/class/net")
        .into_iter()
        // ARPHRD_ETHER, and no VLAN.
        .filter(|name| attribute(name, "type").as_deref() == Some("1"))
        .filter(|name| !std::path::Path::new("/proc/net/vlan").join(name).exists())
        .collect();
    found.sort_by_key(|name| attribute(name, "operstate").as_deref() != Some("up"));
    found
}

/// Whether a process has a socket on the port; the sockets of oxe are the kernel's own, and have no
/// inode.
fn port_is_taken() -> bool {
    ["/proc/net/udp", "/proc/net/udp6"].iter().any(|file| {
        let table = sysfs::text(file).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = fields.get(1).and_then(|address| address.rsplit(':').next());
            let port = port.and_then(|port| u64::from_str_radix(port, 16).ok());
            port == Some(PORT) && fields.get(9).is_some_and(|inode| *inode != "0")
        })
    })
}
