//! The way to a server that takes a login: addresses in order, each encrypted or not as `sslmode` says.

use super::buffer::Buffer;
use super::handshake::complete;
use super::stream::{Stream, send};
use super::tls_connect::{ConnectError, Connector, Way};
use super::{Address, Config, UpstreamError};
use crate::wire::frame::HEADER;
use crate::wire::message;
use crate::wire::tag::backend;
use std::io;
use std::time::Duration;

/// A server that has been sent a startup packet.
pub(super) struct Opened<'a> {
    pub stream: Stream,
    /// What it has answered so far.
    pub received: Buffer,
    pub host: &'a Address,
}

/// Sends the startup packet to the first address that answers. Where `sslmode` leaves a choice and the server
/// refuses one way, as `pg_hba.conf` can, the other one is tried, as libpq does.
///
/// # Errors
/// [`UpstreamError`] when no address answers.
pub(super) async fn open<'a>(
    config: &'a Config,
    connector: &Connector,
    packet: &[u8],
) -> Result<Opened<'a>, UpstreamError> {
    let mut reason = "no address is configured".to_owned();
    for host in &config.upstream {
        match tokio::time::timeout(config.connect_timeout, open_one(host, connector, packet)).await {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => reason = silence(config.connect_timeout),
        }
    }
    let tried: Vec<_> = config.upstream.iter().map(Address::to_string).collect();
    Err(UpstreamError { address: tried.join(", "), reason })
}

fn silence(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f32())
}

async fn open_one<'a>(
    host: &'a Address,
    connector: &Connector,
    packet: &[u8],
) -> Result<Opened<'a>, ConnectError> {
    let mut refused = None;
    let mut last = None;
    let ways = connector.ways(host);
    for (at, &way) in ways.iter().enumerate() {
        let mut stream = match connector.connect(host, way).await {
            Ok(stream) => stream,
            Err(ConnectError::Tls(error)) => {
                last = Some(ConnectError::Tls(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        send(&mut stream.halves().1, packet).await.map_err(ConnectError::Unreachable)?;
        let mut opened = Opened { stream, received: Buffer::default(), host };
        let is_last = at + 1 == ways.len() || opened.has_no_other_way(way);
        if is_last || !opened.is_refused().await.map_err(ConnectError::Unreachable)? {
            return Ok(opened);
        }
        refused = Some(opened);
    }
    match (refused, last) {
        (Some(opened), _) => Ok(opened),
        (None, Some(error)) => Err(error),
        (None, None) => Err(ConnectError::Unreachable(io::ErrorKind::NotConnected.into())),
    }
}

impl Opened<'_> {
    /// The server declined TLS: the unencrypted way is this one.
    fn has_no_other_way(&self, way: Way) -> bool {
        way == Way::TlsIfOffered && matches!(self.stream, Stream::Tcp(_))
    }

    /// Reads the first message: whether it says that no login is possible this way.
    async fn is_refused(&mut self) -> io::Result<bool> {
        let mut reader = self.stream.halves().0;
        loop {
            let filled = self.received.filled();
            match complete(filled) {
                Ok(Some(header)) if header.tag == backend::ERROR => {
                    let body = filled.get(HEADER..header.frame()).unwrap_or_default();
                    return Ok(message::error_field(body, b'C') == Some(b"28000"));
                }
                Ok(None) if filled.first().is_none_or(|&tag| tag == backend::ERROR) => {}
                // Whatever else it is, the login will see it.
                _ => return Ok(false),
            }
            if self.received.read(&mut reader).await? == 0 {
                return Ok(false);
            }
        }
    }
}
