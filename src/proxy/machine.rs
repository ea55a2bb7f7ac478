//! The machines that an upstream address stands for, and the way to each.

use super::stream::Stream;
use super::{Address, Tcp};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// The server cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("could not connect to the database server at {address}: {reason}")]
pub struct UpstreamError {
    /// Every address that was tried.
    pub address: String,
    /// What the last attempt met.
    pub reason: String,
}

/// A server as it was reached: behind one name there may be several machines, and a cancel request has to
/// go to the one that the session is on.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// As it is configured.
    pub host: Address,
    /// Which of its machines, where it is an address of a network.
    pub socket: Option<SocketAddr>,
}

impl Machine {
    /// Opens a connection.
    pub async fn connect(&self, tcp: &Tcp) -> io::Result<Stream> {
        match (&self.host, self.socket) {
            (_, Some(socket)) => {
                let stream = TcpStream::connect(socket).await?;
                tcp.prepare(&stream)?;
                Ok(Stream::Tcp(stream))
            }
            (host, None) => {
                let path = host.socket_path().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(Stream::Unix(UnixStream::connect(path).await?))
            }
        }
    }

    /// Opens a connection, if that takes no longer than `limit`.
    pub async fn connect_within(&self, limit: Duration, tcp: &Tcp) -> io::Result<Stream> {
        let late = |_| {
            io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs_f32()))
        };
        tokio::time::timeout(limit, self.connect(tcp)).await.map_err(late)?
    }
}

impl Address {
    /// Every machine that the address stands for. Names are looked up anew each time.
    pub(crate) async fn machines(&self, limit: Duration) -> io::Result<Vec<Machine>> {
        let Self::Tcp { host, port } = self else {
            return Ok(vec![Machine { host: self.clone(), socket: None }]);
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time");
        let found = tokio::time::timeout(limit, tokio::net::lookup_host((host.as_str(), *port)))
            .await
            .map_err(late)??;
        Ok(found.map(|socket| Machine { host: self.clone(), socket: Some(socket) }).collect())
    }
}

/// Connects to the first machine that answers, each within `limit`; gives which one it was.
///
/// # Errors
/// [`UpstreamError`] when none does.
pub(crate) async fn connect_any(
    addresses: &[Address],
    limit: Duration,
    tcp: &Tcp,
) -> Result<(Stream, Machine), UpstreamError> {
    let mut reason = "no address is configured".to_owned();
    for address in addresses {
        let machines = match address.machines(limit).await {
            Ok(machines) => machines,
            Err(error) => {
                reason = error.to_string();
                continue;
            }
        };
        for machine in machines {
            match machine.connect_within(limit, tcp).await {
                Ok(stream) => return Ok((stream, machine)),
                Err(error) => reason = error.to_string(),
            }
        }
    }
    let tried: Vec<_> = addresses.iter().map(Address::to_string).collect();
    Err(UpstreamError { address: tried.join(", "), reason })
}
