//! Addresses of sockets, and the way to those that are connected to.

use super::stream::Stream;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// A place to listen at or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp {
        /// Without brackets.
        host: String,
        /// 0, when listening: a free one.
        port: u16,
    },
    /// A socket in a directory.
    Unix {
        /// The directory.
        directory: PathBuf,
        /// Part of the socket's name.
        port: u16,
    },
}

impl Address {
    /// The socket's file, for a socket in a directory: `.s.PGSQL.` and the port, as libpq names it.
    #[must_use]
    pub fn socket_path(&self) -> Option<PathBuf> {
        match self {
            Self::Tcp { .. } => None,
            Self::Unix { directory, port } => Some(directory.join(format!(".s.PGSQL.{port}"))),
        }
    }

    /// The URL that clients of this machine connect to: a wildcard address stands for the loopback one.
    #[must_use]
    pub fn client_url(&self) -> String {
        match self {
            Self::Tcp { host, port } if host == "0.0.0.0" => format!("postgres://127.0.0.1:{port}"),
            Self::Tcp { host, port } if host == "::" => format!("postgres://[::1]:{port}"),
            Self::Tcp { .. } => format!("postgres://{self}"),
            Self::Unix { directory, port } => {
                format!("postgres:///?host={}&port={port}", escaped(directory))
            }
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { host: address.ip().to_string(), port: address.port() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { directory, port } => write!(f, "{}:{port}", directory.display()),
        }
    }
}

/// A path as part of a URL (RFC 3986, 2.3: unreserved characters stand for themselves), `/` kept.
#[must_use]
pub fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
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

/// Connects to the first address that answers, each within `timeout`; gives which one it was.
///
/// # Errors
/// [`UpstreamError`] when none does.
pub(crate) async fn connect_any(
    addresses: &[Address],
    timeout: Duration,
) -> Result<(Stream, &Address), UpstreamError> {
    let mut reason = "no address is configured".to_owned();
    for address in addresses {
        match tokio::time::timeout(timeout, address.connect()).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => reason = format!("no answer within {} s", timeout.as_secs_f32()),
        }
    }
    let tried: Vec<_> = addresses.iter().map(Address::to_string).collect();
    Err(UpstreamError { address: tried.join(", "), reason })
}

impl Address {
    /// Opens one connection. Names are looked up anew each time.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix { directory, port } => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                Ok(Stream::Unix(UnixStream::connect(path).await?))
            }
        }
    }
}
