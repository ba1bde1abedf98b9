// SPDX-License-Identifier: GPL-2.0

//! `oxe gids`: the GID tables.

use crate::address::{gids, Gid};
use crate::output::{table, Report};
use crate::sysfs;
use serde_json::{json, Map, Value};
use std::io;

pub(crate) fn run(device: Option<&str>) -> io::Result<Report> {
    let names = match device {
        Some(name) => vec![name.to_owned()],
        None => sysfs::names(sysfs::DEVICES),
    };
    let mut rows = vec![header()];
    let mut data = Map::new();
    for name in &names {
        if !std::path::Path::new(sysfs::DEVICES).join(name).is_dir() {
            return Err(io::Error::other(format!("there is no RDMA device {name}")));
        }
        let found = gids(name);
        rows.extend(found.iter().map(|gid| row(name, gid)));
        data.insert(name.clone(), json!(found));
    }
    Ok(Report {
        problems: Vec::new(),
        lines: table(&rows),
        data: json!({ "gids": Value::Object(data) }),
    })
}

fn header() -> Vec<String> {
    ["DEVICE", "INDEX", "ADDRESS", "TYPE", "NETDEV"]
        .map(String::from)
        .to_vec()
}

fn row(device: &str, gid: &Gid) -> Vec<String> {
    vec![
        device.to_owned(),
        gid.index.to_string(),
        gid.address.to_string(),
        gid.kind.clone(),
        gid.netdev.clone(),
    ]
}
