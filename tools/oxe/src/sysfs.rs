// SPDX-License-Identifier: GPL-2.0

//! Files of sysfs and procfs.

use std::fs;
use std::path::Path;

/// The RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";

/// The text of a file, without the end of its line; `None` if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// The names in a directory, in order.
pub(crate) fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The name of a process.
pub(crate) fn process(pid: u32) -> Option<String> {
    text(format!("/proc/{pid}/comm"))
}
