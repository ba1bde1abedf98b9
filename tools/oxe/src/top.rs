// SPDX-License-Identifier: GPL-2.0

//! `oxe top`: what devices count, a second, and the queue pairs by what they have in flight.

use crate::device::{self, Device, Qp};
use crate::nldev::Nldev;
use crate::output::table;
use serde::Serialize;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// So many queue pairs are lines; JSON has all.
const MOST_QPS: usize = 20;

/// Values of a device's counters.
type Counters = BTreeMap<String, u64>;

/// How fast a counter of a device rises.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Rate {
    device: String,
    counter: String,
    /// A second.
    rate: f64,
}

/// Prints until it has done so `count` times (0: for ever), or the reader has seen enough.
pub(crate) fn run(interval: f64, count: u64, as_json: bool) -> io::Result<()> {
    let interval = Duration::try_from_secs_f64(interval).map_err(io::Error::other)?;
    let none = "there is no RDMA device: oxe status tells why";
    let nldev = Nldev::open().map_err(|_| io::Error::other(none))?;
    let devices = device::all(&nldev)?;
    if devices.is_empty() {
        return Err(io::Error::other(none));
    }
    let (mut before, mut at) = (read(&nldev, &devices), Instant::now());
    let mut printed = 0;
    while count == 0 || printed < count {
        std::thread::sleep(interval);
        let devices = device::all(&nldev)?;
        let (now, elapsed) = (read(&nldev, &devices), at.elapsed());
        at = Instant::now();
        let rates = rates(&before, &now, elapsed);
        before = now;
        let qps = queue_pairs(&nldev, &devices);
        let mut out = io::stdout().lock();
        if as_json {
            writeln!(out, "{}", object(&rates, &qps))?;
        } else {
            for line in block(&rates, &qps) {
                writeln!(out, "{line}")?;
            }
        }
        out.flush()?;
        printed += 1;
    }
    Ok(())
}

/// The counters of devices. A device may go away at any time, and other drivers have none.
fn read(nldev: &Nldev, devices: &[Device]) -> BTreeMap<String, Counters> {
    let of_device = |device: &Device| {
        let counters = device::counters(nldev, device.index).unwrap_or_default();
        (device.name.clone(), counters)
    };
    devices.iter().map(of_device).collect()
}

/// What has risen, of each device the fastest first. A device that was made anew has counted from
/// 0.
fn rates(
    before: &BTreeMap<String, Counters>,
    now: &BTreeMap<String, Counters>,
    elapsed: Duration,
) -> Vec<Rate> {
    let mut found = Vec::new();
    for (device, counters) in now {
        let Some(earlier) = before.get(device) else {
            continue;
        };
        let mut rates: Vec<Rate> = counters
            .iter()
            .filter_map(|(counter, value)| {
                let risen = value.saturating_sub(*earlier.get(counter)?);
                (risen != 0).then(|| Rate {
                    device: device.clone(),
                    counter: counter.clone(),
                    rate: risen as f64 / elapsed.as_secs_f64(),
                })
            })
            .collect();
        rates.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        found.extend(rates);
    }
    found
}

/// All queue pairs but those that each device has for the connection manager, the busiest first.
fn queue_pairs(nldev: &Nldev, devices: &[Device]) -> Vec<Qp> {
    let of_device = |device: &Device| device::qps(nldev, &device.name, device.index);
    let mut found: Vec<Qp> = devices.iter().flat_map(of_device).flatten().collect();
    found.retain(|qp| qp.service != "GSI" && qp.service != "SMI");
    sort(&mut found);
    found
}

fn sort(qps: &mut [Qp]) {
    qps.sort_by_key(|qp| {
        let busy = ["in_flight", "sends"].map(|key| Reverse(detail(qp, key)));
        (busy, qp.device.clone(), qp.qpn)
    });
}

fn detail(qp: &Qp, key: &str) -> u64 {
    let text = qp.details.get(key);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Since 1970.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

fn object(rates: &[Rate], qps: &[Qp]) -> serde_json::Value {
    json!({ "time": now().as_secs_f64(), "rates": rates, "qps": qps })
}

fn block(rates: &[Rate], qps: &[Qp]) -> Vec<String> {
    let mut lines = vec![format!("--- {}", clock(now().as_secs()))];
    if rates.is_empty() {
        lines.push("No counter has moved.".to_owned());
    } else {
        lines.extend(of_rates(rates));
    }
    if !qps.is_empty() {
        lines.extend(of_qps(qps));
        if qps.iter().all(|qp| qp.details.is_empty()) {
            lines.push("Details of queue pairs are for root alone.".to_owned());
        }
    }
    lines
}

/// A time of the day.
fn clock(seconds: u64) -> String {
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02} UTC", seconds % 60)
}

fn of_rates(rates: &[Rate]) -> Vec<String> {
    let mut rows = vec![["DEVICE", "COUNTER", "A SECOND"].map(String::from).to_vec()];
    for Rate {
        device,
        counter,
        rate,
    } in rates
    {
        let digits = if *rate < 10.0 { 1 } else { 0 };
        rows.push(vec![
            device.clone(),
            counter.clone(),
            format!("{rate:.digits$}"),
        ]);
    }
    table(&rows)
}

fn of_qps(qps: &[Qp]) -> Vec<String> {
    let header = [
        "QP",
        "DEVICE",
        "SERVICE",
        "STATE",
        "USER",
        "SENDS",
        "RECVS",
        "IN FLIGHT",
        "CWND",
    ];
    let mut rows = vec![header.map(String::from).to_vec()];
    for qp in qps.iter().take(MOST_QPS) {
        let mut row = vec![
            qp.qpn.to_string(),
            qp.device.clone(),
            qp.service.to_owned(),
            qp.state.to_owned(),
            qp.user.clone(),
        ];
        for key in ["sends", "recvs", "in_flight", "cwnd"] {
            row.push(qp.details.get(key).map_or("-", String::as_str).to_owned());
        }
        rows.push(row);
    }
    let mut lines = table(&rows);
    if qps.len() > MOST_QPS {
        lines.push(format!("and {} more queue pairs", qps.len() - MOST_QPS));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(device: &str, values: &[(&str, u64)]) -> BTreeMap<String, Counters> {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        BTreeMap::from([(device.to_owned(), values.collect())])
    }

    fn qp(qpn: u32, details: &[(&str, &str)]) -> Qp {
        let details = details
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Qp {
            device: "oxe0".to_owned(),
            qpn,
            remote_qpn: None,
            service: "RC",
            state: "RTS",
            user: "a".to_owned(),
            pid: None,
            details: details.collect(),
        }
    }

    #[test]
    fn rates_are_those_of_a_second() {
        let before = counters("oxe0", &[("a", 5), ("b", 0), ("c", 7), ("d", 9)]);
        let now = counters("oxe0", &[("a", 9), ("b", 30), ("c", 7), ("d", 1)]);
        let rate = |counter: &str, rate| Rate {
            device: "oxe0".to_owned(),
            counter: counter.to_owned(),
            rate,
        };
        let found = rates(&before, &now, Duration::from_secs(2));
        assert_eq!(found, [rate("b", 15.0), rate("a", 2.0)]);
        assert_eq!(
            of_rates(&found),
            [
                "DEVICE  COUNTER  A SECOND",
                "oxe0    b        15",
                "oxe0    a        2.0"
            ]
        );
        assert!(rates(&counters("oxe1", &[]), &now, Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn the_busiest_queue_pairs_come_first() {
        let mut qps = [
            qp(3, &[]),
            qp(2, &[("sends", "1")]),
            qp(
                17,
                &[
                    ("in_flight", "2"),
                    ("cwnd", "16"),
                    ("sends", "4"),
                    ("recvs", "0"),
                ],
            ),
            qp(4, &[("in_flight", "10")]),
        ];
        sort(&mut qps);
        assert_eq!(qps.each_ref().map(|qp| qp.qpn), [4, 17, 2, 3]);
        let lines = of_qps(&qps[1..2]);
        assert_eq!(
            lines[1],
            "17  oxe0    RC       RTS    a     4      0      2          16"
        );
        let many: Vec<Qp> = (0..25).map(|qpn| qp(qpn, &[])).collect();
        assert_eq!(of_qps(&many).len(), 22);
        assert_eq!(of_qps(&many)[21], "and 5 more queue pairs");
    }

    #[test]
    fn clocks_have_two_digits_each() {
        assert_eq!(clock(0), "00:00:00 UTC");
        assert_eq!(clock(86_400 + 3_723), "01:02:03 UTC");
    }
}
