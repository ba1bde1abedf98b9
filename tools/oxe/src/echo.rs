// SPDX-License-Identifier: GPL-2.0

//! ICMP echo, by ping(8) of iputils: does it reach an address, and in packets of which size?

use serde::Serialize;
use std::io;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// Headers of an echo request: IPv4 or IPv6, and ICMP's.
const HEADERS_V4: u64 = 28;
const HEADERS_V6: u64 = 48;

/// What became of requests of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Echo {
    Answered,
    /// None was answered. The MTU that a router or this host's stack has told, if one did.
    Silent(Option<u64>),
    /// They could not be sent: the reason.
    Unknown(String),
}

/// Requests that are on their way.
pub(crate) struct Ping(io::Result<Child>);

impl Ping {
    /// Sends two requests in packets of so many bytes, which must not be split, from an address if
    /// one is named; `to` as ping(8) takes it.
    pub(crate) fn start(to: &str, source: Option<IpAddr>, bytes: u64) -> Self {
        let headers = if to.contains(':') {
            HEADERS_V6
        } else {
            HEADERS_V4
        };
        let payload = bytes.saturating_sub(headers).to_string();
        let mut command = Command::new("ping");
        command.env("LC_ALL", "C");
        command.args(["-n", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1"]);
        command.args(["-s", &payload]);
        if let Some(source) = source {
            command.args(["-I", &source.to_string()]);
        }
        command.arg(to);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ping(command.spawn())
    }

    /// What became of them, after a second and a half at most.
    pub(crate) fn finish(self) -> Echo {
        let output = match self.0.and_then(Child::wait_with_output) {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Echo::Unknown("ping (iputils) is not installed".to_owned());
            }
            Err(error) => return Echo::Unknown(format!("ping: {error}")),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        judge(
            output.status.code(),
            &text(&output.stdout),
            &text(&output.stderr),
        )
    }
}

/// By ping's exit status and what it says.
fn judge(status: Option<i32>, stdout: &str, stderr: &str) -> Echo {
    // Another ping, busybox's say, lacks options, and has 1 for that, too.
    let is_other = ["invalid option", "unrecognized option"]
        .iter()
        .any(|words| stderr.contains(words));
    match status {
        Some(0) => Echo::Answered,
        Some(1) if !is_other => Echo::Silent(told_mtu(stdout).or_else(|| told_mtu(stderr))),
        _ => {
            let line = stderr.lines().find(|line| !line.is_empty());
            Echo::Unknown(line.unwrap_or("ping failed").to_owned())
        }
    }
}

/// The number of `message too long, mtu: 1400`, `(mtu = 1400)`, `mtu=1400`.
fn told_mtu(text: &str) -> Option<u64> {
    text.match_indices("mtu").find_map(|(at, word)| {
        let rest = text[at + word.len()..].trim_start_matches([' ', ':', '=']);
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::{judge, told_mtu, Echo};

    #[test]
    fn exit_statuses_are_read() {
        assert_eq!(judge(Some(0), "", ""), Echo::Answered);
        assert_eq!(judge(Some(1), "", ""), Echo::Silent(None));
        let local = "ping: sendmsg: Message too long\nping: local error: message too long, mtu=576";
        assert_eq!(judge(Some(1), "", local), Echo::Silent(Some(576)));
        let busybox = "ping: invalid option -- 'M'\nBusyBox v1.37.0";
        let unknown = |text: &str| Echo::Unknown(text.to_owned());
        assert_eq!(
            judge(Some(1), "", busybox),
            unknown("ping: invalid option -- 'M'")
        );
        let refused = "ping: socktype: SOCK_RAW\nping: socket: Operation not permitted";
        assert_eq!(
            judge(Some(2), "", refused),
            unknown("ping: socktype: SOCK_RAW")
        );
        assert_eq!(judge(None, "", ""), unknown("ping failed"));
    }

    #[test]
    fn mtus_are_read() {
        let router = "From 10.0.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)";
        assert_eq!(told_mtu(router), Some(1400));
        assert_eq!(told_mtu("Packet too big: mtu=1280"), Some(1280));
        assert_eq!(
            told_mtu("local error: message too long, mtu: 600"),
            Some(600)
        );
        assert_eq!(told_mtu("no mtu is told"), None);
    }
}
