// SPDX-License-Identifier: GPL-2.0

//! `oxe trace`: the trace events of connections, as they happen.
//!
//! They come from an instance of tracefs that belongs to this process. However it ends, a second
//! process removes the instance: the driver would go on tracing otherwise.

use crate::device::{self, Device};
use crate::nldev::Nldev;
use clap::Args;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const EVENTS: &str = "/sys/kernel/tracing/events/oxe";

/// What to trace.
#[derive(Args)]
pub(crate) struct Options {
    /// Of these queue pairs alone
    qpns: Vec<u32>,
    /// Of the queue pairs that this process has now
    #[arg(short, long)]
    pid: Option<u32>,
    /// These events alone, separated by commas: drop, retransmit, completion ...
    #[arg(short, long = "event", value_name = "EVENT", value_delimiter = ',')]
    events: Vec<String>,
    /// Ends after so many events
    #[arg(short = 'n', long)]
    count: Option<u64>,
    /// Removes that instance when its own input ends
    #[arg(long, hide = true)]
    remove: Option<PathBuf>,
}

/// Prints events until there were enough, or for ever.
pub(crate) fn run(options: &Options, as_json: bool) -> io::Result<()> {
    if let Some(instance) = &options.remove {
        return remove_at_end(instance);
    }
    let devices = Nldev::open().and_then(|nldev| device::all(&nldev));
    let devices = devices.unwrap_or_default();
    let qpns = queue_pairs(options)?;
    let instance = Instance::new()?;
    instance.filter(&qpns)?;
    instance.enable(&options.events, !qpns.is_empty())?;
    let pipe = File::open(instance.path.join("trace_pipe"))?;
    let lines = BufReader::new(pipe).lines();
    print(lines, options.count, &devices, as_json)
}

fn print(
    lines: impl Iterator<Item = io::Result<String>>,
    count: Option<u64>,
    devices: &[Device],
    as_json: bool,
) -> io::Result<()> {
    let mut left = count.unwrap_or(u64::MAX);
    for line in lines {
        if left == 0 {
            return Ok(());
        }
        let line = line?;
        let mut out = io::stdout().lock();
        match Event::parse(&line) {
            Some(event) => {
                left -= 1;
                writeln!(out, "{}", event.shown(devices, as_json))?;
            }
            // "CPU:0 [LOST 12 EVENTS]"
            None if line.contains("LOST") && !as_json => writeln!(out, "{}", line.trim())?,
            None => {}
        }
        out.flush()?;
        if left == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// The queue pairs that were asked for; none for all.
fn queue_pairs(options: &Options) -> io::Result<Vec<u32>> {
    let mut found = options.qpns.clone();
    if let Some(pid) = options.pid {
        let nldev = Nldev::open()?;
        for device in device::all(&nldev)? {
            let qps = device::qps(&nldev, &device.name, device.index)?;
            found.extend(qps.iter().filter(|qp| qp.pid == Some(pid)).map(|qp| qp.qpn));
        }
        if found.is_empty() {
            return Err(io::Error::other(format!(
                "process {pid} has no queue pairs: rdma resource show qp has those that have"
            )));
        }
    }
    Ok(found)
}

/// An instance of tracefs, and the process that removes it.
struct Instance {
    path: PathBuf,
    remover: Child,
}

impl Instance {
    fn new() -> io::Result<Self> {
        let path = Path::new(INSTANCES).join(format!("oxe-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| explain(&error))?;
        let remover = start_remover(&path).inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        })?;
        let instance = Instance { path, remover };
        if !instance.path.join("events/oxe").exists() {
            return Err(io::Error::other(
                "the module oxe is not loaded: oxe status says what to do",
            ));
        }
        Ok(instance)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
    }

    /// Events of these queue pairs alone; of all for none.
    fn filter(&self, qpns: &[u32]) -> io::Result<()> {
        if qpns.is_empty() {
            return Ok(());
        }
        let terms: Vec<String> = qpns.iter().map(|qpn| format!("qpn == {qpn}")).collect();
        self.write("events/oxe/filter", &terms.join(" || "))
    }

    /// Has these events traced; all of them for none, if `filtered` but page faults, which name no
    /// queue pair.
    fn enable(&self, events: &[String], filtered: bool) -> io::Result<()> {
        for event in events {
            let file = format!("events/oxe/oxe_{event}/enable");
            if !self.path.join(&file).exists() {
                let text = format!("there is no event {event}: ls {EVENTS} has them");
                return Err(io::Error::other(text));
            }
            self.write(&file, "1")?;
        }
        if events.is_empty() {
            self.write("events/oxe/enable", "1")?;
            if filtered {
                self.write("events/oxe/oxe_page_fault/enable", "0")?;
            }
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The end of its input has it remove the instance.
        self.remover.stdin.take();
        let _ = self.remover.wait();
    }
}

/// What is wrong if an instance cannot be made.
fn explain(error: &io::Error) -> io::Error {
    io::Error::other(match error.kind() {
        io::ErrorKind::PermissionDenied => "trace events are for root alone".to_owned(),
        io::ErrorKind::NotFound => {
            "tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing".to_owned()
        }
        _ => format!("{INSTANCES}: {error}"),
    })
}

/// Starts this program as the remover of an instance, in a process group of its own: what is typed
/// to end this process (Ctrl-C) does not end that one.
fn start_remover(instance: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["trace", "--remove"])
        .arg(instance)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The remover: waits until its parent has ended.
fn remove_at_end(instance: &Path) -> io::Result<()> {
    io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink())?;
    // This fails where the module is not loaded, or was unloaded meanwhile.
    let _ = fs::write(instance.join("events/oxe/enable"), "0");
    // The parent's file may be closed a moment later than its pipe.
    for _ in 0..100 {
        match fs::remove_dir(instance) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            result => return result,
        }
    }
    Ok(())
}

/// A line of tracefs.
#[derive(Debug, PartialEq, Eq)]
struct Event<'a> {
    /// Process and number, `name-1`.
    task: &'a str,
    /// In seconds since the machine started.
    time: &'a str,
    name: &'a str,
    netdev: Option<&'a str>,
    qpn: Option<u32>,
    text: &'a str,
}

impl<'a> Event<'a> {
    /// Reads `name-1  [000] b..1.  12.345678: oxe_post: eth0 qp 17: SEND ...`.
    fn parse(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once(": oxe_")?;
        let (task, columns) = head.rsplit_once('[')?;
        let time = columns.rsplit_once(' ')?.1;
        let (name, text) = rest.split_once(": ")?;
        let qp = text
            .split_once(": ")
            .and_then(|(qp, text)| Some((qp.split_once(" qp ")?, text)));
        Some(match qp {
            Some(((netdev, qpn), text)) => Event {
                task: task.trim(),
                time,
                name,
                netdev: Some(netdev),
                qpn: Some(qpn.parse().ok()?),
                text: text.trim(),
            },
            None => Event {
                task: task.trim(),
                time,
                name,
                netdev: None,
                qpn: None,
                text: text.trim(),
            },
        })
    }

    /// The event as a line for people, or as JSON.
    fn shown(&self, devices: &[Device], as_json: bool) -> String {
        let on = |device: &&Device| device.is_oxe && device.netdev.as_deref() == self.netdev;
        let device = self
            .netdev
            .and_then(|_| devices.iter().find(on))
            .map(|device| device.name.as_str());
        if as_json {
            return json!({
                "time": self.time.parse::<f64>().ok(),
                "task": self.task,
                "device": device,
                "netdev": self.netdev,
                "qpn": self.qpn,
                "event": self.name,
                "text": self.text,
            })
            .to_string();
        }
        let place = match (device.or(self.netdev), self.qpn) {
            (Some(device), Some(qpn)) => format!("{device} qp {qpn}"),
            _ => self.task.to_owned(),
        };
        format!("{} {place:<20} {:<10} {}", self.time, self.name, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn a_line_of_a_queue_pair() {
        let line = " ibv_rc_pingpong-248     [000] b.s2.    13.320081: oxe_ack: eth0 qp 411124: \
                    ack psn 7 acked 1";
        let event = Event::parse(line).unwrap();
        let wanted = Event {
            task: "ibv_rc_pingpong-248",
            time: "13.320081",
            name: "ack",
            netdev: Some("eth0"),
            qpn: Some(411_124),
            text: "ack psn 7 acked 1",
        };
        assert_eq!(event, wanted);
        let line = event.shown(&[], false);
        assert_eq!(
            line,
            "13.320081 eth0 qp 411124       ack        ack psn 7 acked 1"
        );
        let json: serde_json::Value = serde_json::from_str(&event.shown(&[], true)).unwrap();
        assert_eq!(json["qpn"], 411_124);
        assert_eq!(json["device"], serde_json::Value::Null);
    }

    /// A name of a process may have blanks, brackets and colons.
    #[test]
    fn a_page_fault_has_no_queue_pair() {
        let line = "      a [b]: c-12      [001] .....     1.000000: oxe_page_fault: \
                    address 0x7f0000001000 len 4096 write: present now";
        let event = Event::parse(line).unwrap();
        assert_eq!(
            (event.task, event.name, event.qpn),
            ("a [b]: c-12", "page_fault", None)
        );
        assert_eq!(
            event.text,
            "address 0x7f0000001000 len 4096 write: present now"
        );
    }

    #[test]
    fn other_lines_are_no_events() {
        for line in ["", "# tracer: nop", "CPU:0 [LOST 12 EVENTS]"] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
    }
}
