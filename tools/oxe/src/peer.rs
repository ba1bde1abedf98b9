// SPDX-License-Identifier: GPL-2.0

//! Does a peer answer RoCEv2? A request for a connection is answered by any peer that lives, if
//! only by a rejection.

use crate::rdma_cm::{CmId, Event, Kind};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The IP port that is asked where none is named: TCP's port service multiplexer, on which no
/// program listens.
pub(crate) const SERVICE: u16 = 1;

/// How long a peer has to answer. The connection manager repeats its request after 4.6 s, as its
/// timeouts are powers of two (IBTA's CM response timeout 20, a packet lifetime of 16).
const PATIENCE: Duration = Duration::from_secs(7);

/// For the peer's Ethernet address, and for the route of it.
const RESOLVE_MS: u32 = 2000;

/// A QP number for the request: a peer that accepts would send to it.
const QPN: u32 = 0x00ff_fffe;

/// `IB_CM_REJ_INVALID_SERVICE_ID`
const NO_LISTENER: i32 = 8;

/// What a peer has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// No program listens on the port.
    NoListener,
    /// A program listens on the port, and refused for this reason, a number of the connection
    /// manager's.
    Refused(i32),
    /// A program listens on the port, and accepted.
    Accepted,
    Silent,
    /// There was no request: what was to be done, and why that failed.
    Failed {
        step: &'static str,
        reason: String,
    },
}

/// Asks a peer, from an address if one is named. Fails where there is no connection manager.
pub(crate) fn ask(source: Option<SocketAddr>, to: SocketAddr) -> io::Result<Answer> {
    let id = CmId::create()?;
    let deadline = Instant::now() + PATIENCE;
    Ok(converse(&id, source, to, deadline).unwrap_or_else(|answer| answer))
}

fn converse(
    id: &CmId,
    source: Option<SocketAddr>,
    to: SocketAddr,
    deadline: Instant,
) -> Result<Answer, Answer> {
    let mut step = "find the address";
    let failed = |step| move |error: io::Error| failure(step, &error);
    id.resolve_addr(source, to, RESOLVE_MS)
        .map_err(failed(step))?;
    loop {
        let Some(event) = id.event(deadline).map_err(failed(step))? else {
            return Ok(Answer::Silent);
        };
        match event.kind {
            Kind::AddrResolved => {
                step = "find the route";
                id.resolve_route(RESOLVE_MS).map_err(failed(step))?;
            }
            Kind::RouteResolved => {
                step = "ask for a connection";
                id.connect(QPN).map_err(failed(step))?;
            }
            _ => return Ok(judge(event, step)),
        }
    }
}

/// By an event that ends it.
fn judge(event: Event, step: &'static str) -> Answer {
    match event.kind {
        Kind::Rejected if event.status == NO_LISTENER => Answer::NoListener,
        Kind::Rejected => Answer::Refused(event.status),
        Kind::ConnectResponse => Answer::Accepted,
        Kind::Unreachable => Answer::Silent,
        _ => failure(
            step,
            &io::Error::from_raw_os_error(event.status.saturating_neg()),
        ),
    }
}

fn failure(step: &'static str, error: &io::Error) -> Answer {
    let reason = reason(error);
    Answer::Failed { step, reason }
}

/// An error's words, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{judge, Answer};
    use crate::rdma_cm::{Event, Kind};

    #[test]
    fn events_are_answers() {
        let answer = |kind, status| judge(Event { kind, status }, "find the address");
        assert_eq!(answer(Kind::Rejected, 8), Answer::NoListener);
        assert_eq!(answer(Kind::Rejected, 28), Answer::Refused(28));
        assert_eq!(answer(Kind::ConnectResponse, 0), Answer::Accepted);
        assert_eq!(answer(Kind::Unreachable, -110), Answer::Silent);
        assert_eq!(
            answer(Kind::AddrError, -110),
            Answer::Failed {
                step: "find the address",
                reason: "Connection timed out".to_owned()
            }
        );
    }
}
