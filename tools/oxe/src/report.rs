// SPDX-License-Identifier: GPL-2.0

//! `oxe report`: all that is known, for a bug report.

use crate::address::gids;
use crate::nldev::Nldev;
use crate::output::{table, Report};
use crate::{device, gids, module, status, sysfs, why};
use serde_json::{json, Value};
use std::io;
use std::process::Command;

/// How many lines of the kernel's log are shown.
const LOG_LINES: usize = 50;

pub(crate) fn run(mask: bool) -> io::Result<Report> {
    let status = status::run()?;
    let mut lines = vec!["# System".to_owned()];
    lines.extend(system());
    let mut data = json!({ "system": lines[1..], "status": status.data });
    let mut problems = status.problems;
    section(&mut lines, "Status", status.lines);
    if module::loaded_version().is_some() {
        let gids = gids::run(None)?;
        data["gids"] = gids.data["gids"].clone();
        section(&mut lines, "GIDs", gids.lines);
        // Without a device there is nothing more, and the status says so.
        if let Ok(why) = why::run(None) {
            data["qps"] = why.data["qps"].clone();
            problems.extend(why.problems);
        }
        let counters = counters()?;
        data["counters"] = json!(counters);
        section(&mut lines, "Counters that are not 0", table(&counters));
    }
    let log = kernel_log();
    data["log"] = json!(log);
    section(&mut lines, "Kernel log", log);
    let mut report = Report {
        problems,
        lines,
        data,
    };
    if mask {
        Mask::of_this_machine().hide(&mut report);
    }
    Ok(report)
}

fn section(lines: &mut Vec<String>, title: &str, of: Vec<String>) {
    lines.push(format!("# {title}"));
    lines.extend(of);
}

fn system() -> Vec<String> {
    let parts = [
        ("command", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("module", module::loaded_version()),
        ("srcversion", sysfs::text("/sys/module/oxe/srcversion")),
        ("kernel", sysfs::text("/proc/sys/kernel/osrelease")),
        ("build", sysfs::text("/proc/sys/kernel/version")),
        ("machine", sysfs::text("/proc/sys/kernel/arch")),
        ("tainted", sysfs::text("/proc/sys/kernel/tainted")),
    ];
    let known = parts.into_iter();
    known
        .filter_map(|(name, value)| Some(format!("{name}: {}", value?)))
        .collect()
}

/// Each counter of each device that is not 0: device, name, value.
fn counters() -> io::Result<Vec<Vec<String>>> {
    let nldev = Nldev::open()?;
    let mut found = Vec::new();
    for device in device::all(&nldev)? {
        // Not every driver has counters.
        let counters = device::counters(&nldev, device.index).unwrap_or_default();
        for (name, value) in counters.into_iter().filter(|(_, value)| *value != 0) {
            found.push(vec![device.name.clone(), name, value.to_string()]);
        }
    }
    Ok(found)
}

/// The last lines of the kernel's log that the module or the RDMA core wrote.
fn kernel_log() -> Vec<String> {
    let Ok(found) = Command::new("dmesg").output() else {
        return vec!["dmesg is not installed".to_owned()];
    };
    if !found.status.success() {
        return vec!["reading the kernel's log needs root".to_owned()];
    }
    let text = String::from_utf8_lossy(&found.stdout);
    let is_ours = |line: &&str| {
        ["oxe", "infiniband", "rdma"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines: Vec<&str> = text.lines().filter(is_ours).collect();
    let first = lines.len().saturating_sub(LOG_LINES);
    lines[first..].iter().map(|line| line.to_string()).collect()
}

/// Addresses, and what stands for them.
struct Mask(Vec<(String, String)>);

impl Mask {
    /// The addresses of this machine's RDMA devices and the Ethernet addresses of its netdevs.
    fn of_this_machine() -> Self {
        let devices = sysfs::names(sysfs::DEVICES);
        let addresses = devices.iter().flat_map(|device| gids(device));
        let mut texts: Vec<String> = addresses.map(|gid| gid.address.to_string()).collect();
        let netdevs = sysfs::names("/sys/class/net");
        texts.extend(
            netdevs
                .iter()
                .filter_map(|netdev| sysfs::text(format!("/sys/class/net/{netdev}/address"))),
        );
        Mask::new(texts)
    }

    fn new(mut texts: Vec<String>) -> Self {
        texts.sort();
        texts.dedup();
        let number = |(n, text): (usize, String)| (text, format!("address-{}", n + 1));
        let mut pairs: Vec<(String, String)> = texts.into_iter().enumerate().map(number).collect();
        // One may be the beginning of another.
        pairs.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Mask(pairs)
    }

    fn text(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.0.iter().fold(text.to_owned(), replace)
    }

    fn hide(&self, report: &mut Report) {
        for line in &mut report.lines {
            *line = self.text(line);
        }
        for problem in &mut report.problems {
            problem.text = self.text(&problem.text);
            problem.remedy = self.text(&problem.remedy);
        }
        report.data = self.value(&report.data);
    }

    /// As serde_json's own types nest no deeper than what this command makes, so does this.
    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(key, item)| (key.clone(), self.value(item)));
                Value::Object(pairs.collect())
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mask;
    use serde_json::json;

    #[test]
    fn an_address_that_begins_another_is_told_from_it() {
        let mask = Mask::new(vec![
            "10.0.0.1".into(),
            "10.0.0.11".into(),
            "10.0.0.1".into(),
        ]);
        assert_eq!(mask.text("10.0.0.1 10.0.0.11"), "address-1 address-2");
        let value = mask.value(&json!({ "a": ["::ffff:10.0.0.11", 1] }));
        assert_eq!(value, json!({ "a": ["::ffff:address-2", 1] }));
    }
}
