//! Addresses of sockets and how they are written. Opens none.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
