// SPDX-License-Identifier: GPL-2.0

//! `oxe why`: what failed, by the first causes of queue pairs and by the counters of ports.

use crate::causes;
use crate::counters;
use crate::device::{self, Device, Qp};
use crate::nldev::Nldev;
use crate::output::{table, Report};
use crate::problem::Problem;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;

pub(crate) fn run(qpn: Option<u32>) -> io::Result<Report> {
    let nldev = Nldev::open()?;
    let devices: Vec<Device> = device::all(&nldev)?;
    let devices: Vec<&Device> = devices.iter().filter(|device| device.is_oxe).collect();
    if devices.is_empty() {
        return Err(io::Error::other(
            "there is no device of oxe: oxe status tells why",
        ));
    }
    let mut qps = Vec::new();
    for device in &devices {
        qps.extend(device::qps(&nldev, &device.name, device.index)?);
    }
    if let Some(qpn) = qpn {
        qps.retain(|qp| qp.qpn == qpn);
        if qps.is_empty() {
            return Err(io::Error::other(format!("there is no queue pair {qpn}")));
        }
    }
    let mut problems: Vec<Problem> = qps.iter().filter_map(of_qp).collect();
    if qpn.is_none() {
        for device in &devices {
            problems.extend(of_port(
                &device.name,
                &device::counters(&nldev, device.index)?,
            ));
        }
    }
    let mut lines = Vec::new();
    if qpn.is_some() {
        lines.extend(qps.iter().flat_map(details));
    }
    if problems.is_empty() {
        lines.push("No queue pair has failed, and no counter of an error has moved.".to_owned());
    }
    if qps.iter().all(|qp| qp.details.is_empty()) && !qps.is_empty() {
        lines.push("Causes and details of queue pairs are for root alone.".to_owned());
    }
    Ok(Report {
        problems,
        lines,
        data: json!({ "qps": qps }),
    })
}

/// Why the queue pair is in the error state.
fn of_qp(qp: &Qp) -> Option<Problem> {
    let cause = qp.details.get("error");
    if cause.is_none() && !["ERR", "SQE"].contains(&qp.state) {
        return None;
    }
    let name = format!("QP {} of {} ({})", qp.qpn, qp.device, qp.user);
    let Some(cause) = cause else {
        return Some(Problem::new(
            "qp-error",
            format!("{name} is in the state {}.", qp.state),
            "Run this command as root, for the cause.",
        ));
    };
    Some(Problem::new(
        "qp-error",
        format!("{name} has failed: {cause}."),
        causes::remedy(cause),
    ))
}

/// What counters of the device's port say.
fn of_port(device: &str, values: &BTreeMap<String, u64>) -> Vec<Problem> {
    let value = |name: &str| values.get(name).copied().unwrap_or(0);
    let moved = counters::ERRORS
        .iter()
        .filter(|counter| value(counter.name) != 0);
    let problem = |counter: &counters::Counter| {
        let text = format!(
            "{device} {} {}: {}",
            counter.name,
            value(counter.name),
            counter.text
        );
        Problem::new("counter", text, counter.remedy)
    };
    moved.map(problem).collect()
}

/// What there is to say of a queue pair.
fn details(qp: &Qp) -> Vec<String> {
    let row = |key: &str, value: String| vec![key.to_owned(), value];
    let mut rows = vec![
        row("device", qp.device.clone()),
        row("user", qp.user.clone()),
        row("service", qp.service.to_owned()),
        row("state", qp.state.to_owned()),
    ];
    rows.extend(qp.remote_qpn.map(|qpn| row("remote QPN", qpn.to_string())));
    rows.extend(
        qp.details
            .iter()
            .map(|(key, value)| row(key, value.clone())),
    );
    table(&rows)
}
