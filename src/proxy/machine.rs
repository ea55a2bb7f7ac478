//! The machines that an upstream address stands for, and the way to each.

use super::stream::Stream;
use super::{Address, Tcp};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// A server as it is reached: behind one name there may be several machines, and a cancel request has to
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
}

impl Address {
    /// Every machine that the address stands for. Names are looked up anew each time.
    pub(crate) async fn machines(&self, limit: Duration) -> io::Result<Vec<Machine>> {
        let Self::Tcp { host, port } = self else {
            return Ok(vec![Machine { host: self.clone(), socket: None }]);
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time");
        let found = tokio::time::timeout(limit, tokio::net::lookup_host((host.as_str(), *port)));
        let found = found.await.map_err(late)??;
        Ok(found.map(|socket| Machine { host: self.clone(), socket: Some(socket) }).collect())
    }
}
