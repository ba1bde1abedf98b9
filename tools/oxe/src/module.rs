// SPDX-License-Identifier: GPL-2.0

//! The kernel module: is it loaded, and if not, why not?

use crate::problem::Problem;
use crate::sysfs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the module that is loaded.
pub(crate) fn loaded_version() -> Option<String> {
    sysfs::text("/sys/module/oxe/version")
}

/// The kernel's version.
fn kernel() -> String {
    sysfs::text("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Why the module is not loaded.
pub(crate) fn absence() -> Problem {
    if Path::new("/sys/module/rdma_rxe").exists() {
        return Problem::new(
            "rdma_rxe-loaded",
            "rdma_rxe is loaded, and oxe cannot be loaded beside it.",
            "modprobe -r rdma_rxe",
        );
    }
    let kernel = kernel();
    let Some(file) = module_of(&kernel) else {
        return no_module_for(&kernel);
    };
    let magic = field(&file, "vermagic").unwrap_or_default();
    let built_for = magic.split(' ').next().unwrap_or_default();
    if !built_for.is_empty() && built_for != kernel {
        return Problem::new(
            "other-kernel",
            format!("The module oxe of this kernel ({kernel}) was built for {built_for}."),
            format!("Install oxe for {kernel}: Documentation/install.rst has the ways."),
        );
    }
    if takes_signed_alone() && field(&file, "signer").is_none_or(|signer| signer.is_empty()) {
        return Problem::new(
            "unsigned",
            "The kernel loads signed modules alone (Secure Boot), and oxe's is not signed.",
            "Sign it with a key that the firmware knows: Documentation/install.rst has the steps.",
        );
    }
    Problem::new(
        "not-loaded",
        "The module oxe is not loaded.",
        "modprobe oxe",
    )
}

/// The file of the module for this kernel.
fn module_of(kernel: &str) -> Option<PathBuf> {
    let mut directories = vec![PathBuf::from("/lib/modules").join(kernel)];
    while let Some(directory) = directories.pop() {
        for name in sysfs::names(&directory) {
            let path = directory.join(&name);
            // build and source are links to trees.
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if name == "oxe.ko" || name.starts_with("oxe.ko.") {
                return Some(path);
            }
        }
    }
    None
}

fn no_module_for(kernel: &str) -> Problem {
    let others: Vec<String> = sysfs::names("/lib/modules")
        .into_iter()
        .filter(|other| other != kernel && module_of(other).is_some())
        .collect();
    if others.is_empty() {
        return Problem::new(
            "not-installed",
            format!("The module oxe is not installed for this kernel ({kernel})."),
            "Install it: Documentation/install.rst has the ways.",
        );
    }
    Problem::new(
        "other-kernel",
        format!(
            "The module oxe is not installed for this kernel ({kernel}), but for {}.",
            others.join(", ")
        ),
        format!("Boot that kernel, or install oxe for {kernel}."),
    )
}

/// A field of a module's file, by modinfo(8), which reads compressed ones, too.
fn field(file: &Path, name: &str) -> Option<String> {
    let found = Command::new("modinfo")
        .args(["-F", name])
        .arg(file)
        .output()
        .ok()?;
    let text = String::from_utf8(found.stdout).ok()?;
    Some(text.trim().to_owned())
}

/// Whether the kernel refuses modules that are not signed.
fn takes_signed_alone() -> bool {
    let enforced = sysfs::text("/sys/module/module/parameters/sig_enforce");
    let lockdown = sysfs::text("/sys/kernel/security/lockdown").unwrap_or_default();
    enforced.as_deref() == Some("Y")
        || lockdown.contains("[integrity]")
        || lockdown.contains("[confidentiality]")
}
