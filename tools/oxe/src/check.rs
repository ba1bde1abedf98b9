// SPDX-License-Identifier: GPL-2.0

//! `oxe check`: does RDMA reach a peer? Its route, the device for it, the size of packets, and an
//! answer of the peer's connection manager.

use crate::address::gids;
use crate::device::{self, Device, OVERHEAD};
use crate::echo::{Echo, Ping};
use crate::firewall::{Firewall, PORT};
use crate::module;
use crate::nldev::Nldev;
use crate::output::Report;
use crate::peer::{self, reason, Answer};
use crate::problem::Problem;
use crate::rdma_cm;
use crate::route::{Key, Link, Route, Rtnetlink};
use crate::status::of_link;
use crate::sysfs;
use serde_json::json;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;
use std::time::Instant;

/// The bytes of a packet that any path carries.
const SMALL: u64 = 100;

/// A peer, as the command line names it: an address, and the netdev of a link-local one
/// (`fe80::1%eth0`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    address: IpAddr,
    netdev: Option<String>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, netdev) = match text.split_once('%') {
            Some((address, netdev)) => (address, Some(netdev.to_owned())),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| "not an IPv4 or IPv6 address".to_owned())?;
        match (is_link_local(address), &netdev) {
            (true, None) => Err(format!("a netdev is missing: {address}%NETDEV")),
            (false, Some(_)) => Err("only a link-local address has a netdev".to_owned()),
            _ => Ok(Peer { address, netdev }),
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    // fe80::/10
    matches!(address, IpAddr::V6(address) if address.segments()[0] & 0xffc0 == 0xfe80)
}

/// A check of one peer, and its results so far.
struct Check<'a> {
    peer: &'a Peer,
    rtnetlink: Rtnetlink,
    devices: Vec<Device>,
    problems: Vec<Problem>,
    lines: Vec<String>,
}

pub(crate) fn run(peer: &Peer, device: Option<&str>, port: Option<u16>) -> io::Result<Report> {
    let mut check = Check {
        peer,
        rtnetlink: Rtnetlink::open()?,
        devices: devices(device)?,
        problems: Vec::new(),
        lines: Vec::new(),
    };
    let mut data = json!({ "address": peer.address, "route": null, "device": null,
        "path_mtu": null, "echo": null, "rdma": null });
    if let Some(route) = check.route(device)? {
        data["route"] = json!(route);
        let found = check.device(&route, device);
        data["device"] = json!(found);
        let source = device.map(|_| route.source);
        let path_mtu = check.path_mtu(found.as_ref(), &route);
        data["path_mtu"] = json!(path_mtu);
        let bytes = path_mtu + OVERHEAD;
        let large = Ping::start(&check.host(), source, bytes);
        let small = Ping::start(&check.host(), source, SMALL);
        let answer = match found {
            Some(found) if check.is_active(&found) && check.can_connect() => {
                let began = Instant::now();
                let answer = check.ask(source, port)?;
                let milliseconds = began.elapsed().as_millis();
                if let Some(answer) = &answer {
                    data["rdma"] = json!({ "answer": answer, "milliseconds": milliseconds });
                }
                answer
            }
            _ => None,
        };
        let (large, small) = (large.finish(), small.finish());
        data["echo"] = json!({ "bytes": bytes, "large": large, "small": small });
        check.judge_size(&large, &small, bytes, &route);
        if let Some(answer) = answer {
            check.judge_answer(&answer, &small, port);
        }
    }
    if check.problems.is_empty() {
        check.lines.push("Nothing is wrong.".to_owned());
    }
    Ok(Report {
        problems: check.problems,
        lines: check.lines,
        data,
    })
}

/// The devices that may be used: all, or the named one. None where the module is not loaded.
fn devices(name: Option<&str>) -> io::Result<Vec<Device>> {
    let found = Nldev::open().and_then(|nldev| device::all(&nldev));
    let mut found = match found {
        Err(_) if module::loaded_version().is_none() => Vec::new(),
        found => found?,
    };
    if let Some(name) = name {
        found.retain(|device| device.name == name);
        if found.is_empty() {
            return Err(io::Error::other(format!("there is no RDMA device {name}")));
        }
    }
    Ok(found)
}

impl Check<'_> {
    /// The peer as ping(8) takes it.
    fn host(&self) -> String {
        match &self.peer.netdev {
            Some(netdev) => format!("{}%{netdev}", self.peer.address),
            None => self.peer.address.to_string(),
        }
    }

    fn socket_address(&self, address: IpAddr, port: u16) -> SocketAddr {
        let IpAddr::V6(v6) = address else {
            return SocketAddr::new(address, port);
        };
        let netdev = self.peer.netdev.as_deref();
        let link = netdev.and_then(|netdev| self.rtnetlink.link(Key::Name(netdev)).ok());
        SocketAddrV6::new(v6, port, 0, link.map_or(0, |link| link.index)).into()
    }

    fn problem(&mut self, id: &'static str, text: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::new(id, text, remedy));
    }

    /// The route: the stack's own choice, unless a device is named that has another.
    fn route(&mut self, device: Option<&str>) -> io::Result<Option<Route>> {
        let by = match &self.peer.netdev {
            Some(netdev) => match self.rtnetlink.link(Key::Name(netdev)) {
                Ok(link) => Some(link.index),
                Err(_) => return Err(io::Error::other(format!("there is no netdev {netdev}"))),
            },
            None => None,
        };
        let mut found = self.rtnetlink.route(self.peer.address, by);
        if let (Some(device), None) = (device, by) {
            if !found.as_ref().is_ok_and(|route| has(device, route)) {
                found = self.route_by(device).map_or(found, Ok);
            }
        }
        match found {
            Ok(route) => {
                let gateway = route.gateway.map(|gateway| format!(", gateway {gateway}"));
                let gateway = gateway.unwrap_or_default();
                let Route { source, netdev, .. } = &route;
                let line = format!("Route: by {netdev} from {source}{gateway}.");
                self.lines.push(line);
                Ok(Some(route))
            }
            Err(error) => {
                self.no_route(&error);
                Ok(None)
            }
        }
    }

    /// A route by one of the netdevs of a device's GIDs.
    fn route_by(&self, device: &str) -> Option<Route> {
        gids(device).iter().find_map(|gid| {
            let link = self.rtnetlink.link(Key::Name(&gid.netdev)).ok()?;
            let route = self.rtnetlink.route(self.peer.address, Some(link.index));
            route.ok().filter(|route| has(device, route))
        })
    }

    fn no_route(&mut self, error: &io::Error) {
        let mut remedy = String::new();
        for (device, netdev) in self.netdevs() {
            if self.link(&netdev).is_some_and(|link| !link.is_up) {
                remedy += &format!(
                    "{netdev}, the netdev of {device}, is down: ip link set {netdev} up\n"
                );
            }
        }
        remedy += "Give a netdev an address of the peer's network (ip addr add), or add a route \
                   (ip route add).";
        let address = self.peer.address;
        let text = format!("There is no route to {address}: {}.", reason(error));
        self.problem("no-route", text, remedy);
    }

    /// Names of devices and of their netdevs.
    fn netdevs(&self) -> Vec<(String, String)> {
        let pair = |device: &Device| Some((device.name.clone(), device.netdev.clone()?));
        self.devices.iter().filter_map(pair).collect()
    }

    fn link(&self, netdev: &str) -> Option<Link> {
        self.rtnetlink.link(Key::Name(netdev)).ok()
    }

    /// The device that packets leave by.
    fn device(&mut self, route: &Route, named: Option<&str>) -> Option<Device> {
        let mut devices = self.devices.iter();
        let found = devices.find(|device| has(&device.name, route)).cloned();
        if let Some(device) = &found {
            let mtu = self.path_mtu(Some(device), route);
            let line = format!("Device: {}, {}, path MTU {mtu}.", device.name, device.state);
            self.lines.push(line);
            return found;
        }
        if self.devices.is_empty() && module::loaded_version().is_none() {
            self.problems.push(module::absence());
        }
        let Route { source, netdev, .. } = route;
        let whose = match named {
            Some(named) => format!("{named} does not have"),
            None => "No RDMA device has".to_owned(),
        };
        let text = format!(
            "{whose} the address {source} of {netdev}, from which packets to {} leave.",
            self.peer.address
        );
        self.problem("no-device-for-route", text, remedy_of_device(route, named));
        None
    }

    /// The path MTU of a connection by this route: what both netdevs have room for, the device's
    /// and that which has the address.
    fn path_mtu(&self, device: Option<&Device>, route: &Route) -> u64 {
        let of_device = device.and_then(|device| device.netdev.as_ref());
        // lo is not what packets of a device to an address of this machine leave by.
        let of_route = (of_device.is_none() || !route.is_local).then_some(&route.netdev);
        let netdevs = of_device.into_iter().chain(of_route);
        let mtus = netdevs.filter_map(|netdev| Some(self.link(netdev)?.mtu));
        device::path_mtu(mtus.min().unwrap_or(0))
    }

    /// Whether a device can send; if not, that is a problem.
    fn is_active(&mut self, device: &Device) -> bool {
        if device.state == "ACTIVE" {
            return true;
        }
        self.problems.push(of_link(device).unwrap_or_else(|| {
            Problem::new(
                "device-down",
                format!("{} is in the state {}.", device.name, device.state),
                "See to its netdev: oxe status",
            )
        }));
        false
    }

    /// Whether the connection manager takes the address; if not, that is a problem.
    fn can_connect(&mut self) -> bool {
        let address = self.peer.address;
        if address.is_loopback() {
            let text =
                format!("The connection manager refuses loopback addresses such as {address}.");
            let remedy = "Name another address of this host, or give lo one: ip addr add \
                          ADDRESS/32 dev lo";
            self.problem("loopback-address", text, remedy);
        }
        !address.is_loopback()
    }

    /// Asks the peer; `None` where there is no connection manager to ask by.
    fn ask(&mut self, source: Option<IpAddr>, port: Option<u16>) -> io::Result<Option<Answer>> {
        let source = source.map(|source| self.socket_address(source, 0));
        let to = self.socket_address(self.peer.address, port.unwrap_or(peer::SERVICE));
        match peer::ask(source, to) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.problems.push(rdma_cm::missing());
                Ok(None)
            }
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("{}: {}", rdma_cm::FILE, reason(&error)),
            )),
        }
    }

    /// By requests of ICMP echo in packets of the size that a connection needs, and in small ones.
    fn judge_size(&mut self, large: &Echo, small: &Echo, bytes: u64, route: &Route) {
        let address = self.peer.address;
        let path_mtu = bytes - OVERHEAD;
        match (large, small) {
            (Echo::Answered, _) => self
                .lines
                .push(format!("Size: packets of {bytes} bytes reach it.")),
            (Echo::Silent(told), Echo::Answered) => {
                let mut text = format!(
                    "Packets of {bytes} bytes do not reach {address}: path MTU {path_mtu} needs \
                     them."
                );
                if let Some(told) = told {
                    text += &format!(" The path's MTU is {told} bytes, as ICMP tells.");
                }
                let fits = self.largest(path_mtu);
                self.problem(
                    "mtu-hole",
                    text,
                    remedy_of_size(self.link(&route.netdev), fits),
                );
            }
            (Echo::Unknown(why), _) | (_, Echo::Unknown(why)) => self
                .lines
                .push(format!("Size: unknown, as there is no ICMP echo: {why}.")),
            (Echo::Silent(_), Echo::Silent(_)) => self
                .lines
                .push("Size: unknown, as it does not answer ICMP echo.".to_owned()),
        }
    }

    /// The largest path MTU below this one whose packets arrive.
    fn largest(&self, path_mtu: u64) -> Option<u64> {
        let sizes = [2048, 1024, 512, 256];
        let smaller = sizes.into_iter().filter(|size| *size < path_mtu);
        let pings: Vec<(u64, Ping)> = smaller
            .map(|size| (size, Ping::start(&self.host(), None, size + OVERHEAD)))
            .collect();
        let answered =
            |(size, ping): (u64, Ping)| (ping.finish() == Echo::Answered).then_some(size);
        pings.into_iter().filter_map(answered).max()
    }

    fn judge_answer(&mut self, answer: &Answer, echo: &Echo, port: Option<u16>) {
        let address = self.peer.address;
        let line = match answer {
            Answer::NoListener => match port {
                Some(port) => format!("RDMA: it answers; no program listens on port {port}."),
                None => "RDMA: it answers.".to_owned(),
            },
            Answer::Accepted | Answer::Refused(_) => {
                let port = port.unwrap_or(peer::SERVICE);
                format!("RDMA: it answers; a program listens on port {port}.")
            }
            Answer::Silent => {
                let text = format!("{address} does not answer RoCEv2 (UDP port {PORT}).");
                self.problem("no-answer", text, remedy_of_silence(echo));
                self.problems.extend(Firewall::read().problem());
                return;
            }
            Answer::Failed { step, reason } => {
                self.problem(
                    "cannot-ask",
                    format!("The connection manager did not {step} of {address}: {reason}."),
                    format!(
                        "ip neigh show {address}: without an Ethernet address, nothing answers \
                         there. Then: oxe status"
                    ),
                );
                return;
            }
        };
        self.lines.push(line);
    }
}

/// Whether a device has the source of a route among its GIDs.
fn has(device: &str, route: &Route) -> bool {
    gids(device)
        .iter()
        .any(|gid| gid.address == route.source && (route.is_local || gid.netdev == route.netdev))
}

fn remedy_of_device(route: &Route, named: Option<&str>) -> String {
    let Route { source, netdev, .. } = route;
    if let Some(named) = named {
        return format!(
            "oxe gids {named} shows its addresses. Without --device, any device serves."
        );
    }
    let taken = sysfs::names(sysfs::DEVICES);
    let mut names = (0..).map(|number| format!("oxe{number}"));
    let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
    // The address is that of another netdev than lo, which tells only that it is local.
    if route.is_local && !source.is_loopback() {
        return format!(
            "ip addr show to {source} names its netdev: rdma link add {name} type oxe netdev NETDEV"
        );
    }
    format!("rdma link add {name} type oxe netdev {netdev}")
}

fn remedy_of_size(link: Option<Link>, fits: Option<u64>) -> String {
    let mut remedy = "Give all netdevs of the path the same MTU".to_owned();
    if let Some(link) = link {
        remedy += &format!(", that of {} here: {}", link.name, link.mtu);
    }
    remedy += ".";
    if let Some(fits) = fits {
        remedy += &format!("\nOr connect with a path MTU of {fits}, whose packets arrive.");
    }
    remedy
}

fn remedy_of_silence(echo: &Echo) -> &'static str {
    match echo {
        Echo::Silent(_) => {
            "Nor does it answer ICMP echo: see whether the host is up, and what is between.\n\
             Then run oxe status there: is there a device on its netdev, does its firewall accept \
             the port?"
        }
        _ => {
            "Run oxe status there: is there a device on its netdev, does its firewall accept the \
             port?"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let peer = |text: &str| text.parse::<Peer>();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let found = peer("10.0.0.2").unwrap();
        assert_eq!((found.address, found.netdev), (address("10.0.0.2"), None));
        let found = peer("fe80::1%eth0").unwrap();
        assert_eq!(found.address, address("fe80::1"));
        assert_eq!(found.netdev.as_deref(), Some("eth0"));
        assert!(peer("host.example").is_err());
        assert!(peer("fe80::1").is_err());
        assert!(peer("fd77::1%eth0").is_err());
    }

    #[test]
    fn remedies_name_what_is_known() {
        let link = Link {
            index: 3,
            name: "eth0".to_owned(),
            mtu: 9000,
            is_up: true,
            has_carrier: true,
        };
        assert_eq!(
            remedy_of_size(Some(link), Some(1024)),
            "Give all netdevs of the path the same MTU, that of eth0 here: 9000.\n\
             Or connect with a path MTU of 1024, whose packets arrive."
        );
        assert!(remedy_of_silence(&Echo::Silent(None)).contains("Nor"));
        assert!(!remedy_of_silence(&Echo::Answered).contains("Nor"));
    }
}
