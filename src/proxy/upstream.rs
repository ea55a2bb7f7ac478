//! The way to a server that takes a login: servers in order, each encrypted or not as `sslmode` says.

use super::buffer::Buffer;
use super::handshake::complete;
use super::machine::Machine;
use super::stream::{Stream, send};
use super::tls_connect::{ConnectError, Connector, Way};
use super::{Address, Config, Shared};
use crate::wire::frame::HEADER;
use crate::wire::message;
use crate::wire::tag::backend;
use std::io;

/// The server cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("could not connect to the database server at {address}: {reason}")]
pub struct UpstreamError {
    /// Every address that was tried.
    pub address: String,
    /// What the last attempt met.
    pub reason: String,
}

impl UpstreamError {
    /// Servers were reached, and none is what is asked for.
    pub(super) fn unfit(config: &Config) -> Self {
        let reason = format!("no server fits target_session_attrs={}", config.choice.wanted.name());
        Self { address: tried(config), reason }
    }
}

fn tried(config: &Config) -> String {
    config.upstream.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}

/// What to do about it.
pub(super) const HINT: &str =
    "Check that the server runs there, and the --upstream address untwin was started with.";

/// A server that has been sent a first packet.
pub(super) struct Opened {
    pub stream: Stream,
    /// What it has answered so far.
    pub received: Buffer,
    pub machine: Machine,
}

/// What a server's first message says of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Whatever it is, the login will see it.
    GoesOn,
    /// Not in this way: `pg_hba.conf` can tell encrypted connections from others.
    Refused,
    /// It takes no sessions now, or there is none: the connection was closed without a word.
    Unavailable,
}

/// SQLSTATE of an authentication that is not possible (invalid_authorization_specification).
const REFUSED: &[u8] = b"28000";
/// SQLSTATE of a server that is starting up or shutting down (cannot_connect_now).
const NOT_NOW: &[u8] = b"57P03";

/// Sends the startup packet to the first server that takes sessions. Where `sslmode` leaves a choice and the
/// server refuses one way, the other one is tried, as libpq does.
///
/// # Errors
/// [`UpstreamError`] when no server answers, or none that does fits.
pub(super) async fn open(
    shared: &Shared,
    connector: &Connector,
    packet: &[u8],
) -> Result<Opened, UpstreamError> {
    let config = &shared.config;
    let limit = config.connect_timeout;
    let candidates = shared.hosts.candidates(config, connector).await;
    let mut error = UpstreamError::unfit(config);
    let mut unavailable = None;
    for (at, host) in candidates.iter().enumerate() {
        let machines = match host.machines(limit).await {
            Ok(machines) => machines,
            Err(unknown) => {
                error.reason = unknown.to_string();
                continue;
            }
        };
        for (nth, machine) in machines.iter().enumerate() {
            let last = at + 1 == candidates.len() && nth + 1 == machines.len();
            match tokio::time::timeout(limit, open_one(machine, config, connector, packet, !last)).await {
                Ok(Ok((opened, Answer::Unavailable))) => unavailable = Some(opened),
                Ok(Ok((opened, _))) => return Ok(opened),
                Ok(Err(met)) => error.reason = met.to_string(),
                Err(_) => {
                    shared.hosts.is_silent(host);
                    error.reason = format!("no answer within {} s", limit.as_secs_f32());
                }
            }
        }
    }
    // Its own words say best what is wrong.
    unavailable.ok_or(error)
}

/// Sends a packet that no server answers, a request to cancel, to this machine.
///
/// # Errors
/// It cannot be reached.
pub(super) async fn send_only(
    machine: &Machine,
    config: &Config,
    connector: &Connector,
    packet: &[u8],
) -> io::Result<Stream> {
    let limit = config.connect_timeout;
    match tokio::time::timeout(limit, open_one(machine, config, connector, packet, false)).await {
        Ok(Ok((opened, _))) => Ok(opened.stream),
        Ok(Err(error)) => Err(io::Error::other(error)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// `others` says that there are other servers to turn to: then it is waited for what this one says.
async fn open_one(
    machine: &Machine,
    config: &Config,
    connector: &Connector,
    packet: &[u8],
    others: bool,
) -> Result<(Opened, Answer), ConnectError> {
    let mut refused = None;
    let mut last = None;
    let ways = connector.ways(&machine.host);
    for (at, &way) in ways.iter().enumerate() {
        let mut stream = match connector.connect(machine, way, &config.tcp).await {
            Ok(stream) => stream,
            Err(ConnectError::Tls(error)) => {
                last = Some(ConnectError::Tls(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        send(&mut stream.halves().1, packet).await.map_err(ConnectError::Unreachable)?;
        let mut opened = Opened { stream, received: Buffer::default(), machine: machine.clone() };
        let is_last = at + 1 == ways.len() || opened.has_no_other_way(way);
        if is_last && !others {
            return Ok((opened, Answer::GoesOn));
        }
        match opened.answer().await.map_err(ConnectError::Unreachable)? {
            Answer::Refused if !is_last => refused = Some(opened),
            answer => return Ok((opened, answer)),
        }
    }
    match (refused, last) {
        (Some(opened), _) => Ok((opened, Answer::Refused)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(ConnectError::Unreachable(io::ErrorKind::NotConnected.into())),
    }
}

impl Opened {
    /// The server declined TLS: the unencrypted way is this one.
    fn has_no_other_way(&self, way: Way) -> bool {
        way == Way::TlsIfOffered && matches!(self.stream, Stream::Tcp(_))
    }

    /// Reads the first message, as far as it has to be known.
    async fn answer(&mut self) -> io::Result<Answer> {
        let mut reader = self.stream.halves().0;
        loop {
            let filled = self.received.filled();
            match complete(filled) {
                Ok(Some(header)) if header.tag == backend::ERROR => {
                    let body = filled.get(HEADER..header.frame()).unwrap_or_default();
                    return Ok(match message::error_field(body, b'C') {
                        Some(REFUSED) => Answer::Refused,
                        Some(NOT_NOW) => Answer::Unavailable,
                        _ => Answer::GoesOn,
                    });
                }
                Ok(None) if filled.first().is_none_or(|&tag| tag == backend::ERROR) => {}
                _ => return Ok(Answer::GoesOn),
            }
            if self.received.read(&mut reader).await? == 0 {
                let silent = self.received.filled().is_empty();
                return Ok(if silent { Answer::Unavailable } else { Answer::GoesOn });
            }
        }
    }
}
