// SPDX-License-Identifier: GPL-2.0

//! `oxe`: tells what is wrong with RDMA over oxe on this machine, and what a device does.
//!
//! It reads what the kernel shows everybody (sysfs, the netlink interfaces of the RDMA core and of
//! the IP stack) and changes nothing; `oxe check` alone sends something, to the peer that it is
//! given. Documentation/oxe.rst describes it for its users.

#![forbid(unsafe_code)]

mod address;
mod causes;
mod check;
mod counters;
mod device;
mod echo;
mod firewall;
mod gids;
mod module;
mod nldev;
mod output;
#[cfg(test)]
mod page;
mod peer;
mod problem;
mod rdma_cm;
mod report;
mod route;
mod status;
mod sysfs;
mod top;
mod trace;
mod why;

use check::Peer;
use clap::{Parser, Subcommand};
use output::Report;
use std::process::ExitCode;

/// What is wrong with RDMA over oxe on this machine, and what its devices do.
///
/// Exit status: 0 if nothing is wrong, 1 if something is, 2 for a wrong command line, 3 if what was
/// asked for cannot be read.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Print JSON
    #[arg(short, long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The module, its devices, the firewall; what is wrong comes first
    Status,
    /// The GID table of each RDMA device
    Gids {
        /// Of this device alone
        device: Option<String>,
    },
    /// Why connections fail: errors of queue pairs, and counters of what was dropped
    Why {
        /// Of this queue pair alone
        qpn: Option<u32>,
    },
    /// All of it and the kernel's log, for a bug report
    Report {
        /// Put numbers in place of this machine's addresses
        #[arg(long)]
        mask: bool,
    },
    /// Whether RDMA reaches a peer: route, device, size of packets, the peer's answer
    Check {
        /// An IPv4 or IPv6 address of the peer; a link-local one with its netdev: fe80::1%eth0
        address: Peer,
        /// By this RDMA device
        #[arg(long)]
        device: Option<String>,
        /// The IP port that is asked for a connection, instead of one on which no program listens
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
    },
    /// What devices count a second, and the queue pairs by what they have in flight
    Top {
        /// The interval, in seconds
        #[arg(
            short = 'd',
            long = "delay",
            value_name = "SECONDS",
            default_value_t = 1.0
        )]
        #[arg(value_parser = interval)]
        interval: f64,
        /// How often to print; 0 for ever
        #[arg(short = 'n', long, default_value_t = 0)]
        count: u64,
    },
    /// What connections do, event by event, until it is ended by Ctrl-C (as root)
    Trace(trace::Options),
}

fn interval(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().map_err(|_| "not a number")?;
    let possible = 0.01..=86_400.0;
    if possible.contains(&seconds) {
        Ok(seconds)
    } else {
        Err("not between 0.01 and 86400")
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Status => status::run(),
        Command::Gids { device } => gids::run(device.as_deref()),
        Command::Why { qpn } => why::run(qpn),
        Command::Report { mask } => report::run(mask),
        Command::Check {
            address,
            device,
            port,
        } => check::run(&address, device.as_deref(), port),
        Command::Top { interval, count } => return watch(top::run(interval, count, cli.json)),
        Command::Trace(options) => return watch(trace::run(&options, cli.json)),
    };
    match result {
        Ok(report) => finish(&report, cli.json),
        Err(error) => {
            eprintln!("oxe: {error}");
            ExitCode::from(3)
        }
    }
}

/// The end of a command that prints again and again.
fn watch(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (head) is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oxe: {error}");
            ExitCode::from(3)
        }
    }
}

fn finish(report: &Report, json: bool) -> ExitCode {
    if let Err(error) = report.print(json) {
        // A reader that has seen enough (head) is no error.
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("oxe: {error}");
            return ExitCode::from(3);
        }
    }
    ExitCode::from(u8::from(!report.problems.is_empty()))
}
