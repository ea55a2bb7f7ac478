//! The database server's address, and the way to it.

use super::stream::Stream;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// One or several addresses of the server, tried in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// At least one.
    pub hosts: Vec<Host>,
}

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or address, looked up anew for every connection, and a port.
    Tcp(String, u16),
    /// The socket file.
    Unix(PathBuf),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.hosts.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{host}")?;
        }
        Ok(())
    }
}

/// The server cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("could not connect to the database server at {address}: {reason}")]
pub struct UpstreamError {
    /// Every address that was tried.
    pub address: String,
    /// What the last attempt met.
    pub reason: String,
}

impl Upstream {
    /// Connects to the first host that answers; gives which one it was.
    ///
    /// # Errors
    /// [`UpstreamError`] when none does, each within `timeout`.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<(Stream, Host), UpstreamError> {
        let mut reason = "no address is configured".to_owned();
        for host in &self.hosts {
            match tokio::time::timeout(timeout, host.connect()).await {
                Ok(Ok(stream)) => return Ok((stream, host.clone())),
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => reason = format!("no answer within {} s", timeout.as_secs_f32()),
            }
        }
        Err(UpstreamError { address: self.to_string(), reason })
    }
}

impl Host {
    /// Opens one connection.
    pub(crate) async fn connect(&self) -> std::io::Result<Stream> {
        match self {
            Self::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }
}
