//! A socket that clients connect to, of either kind. Knows how to take an address and how to leave it.

use super::Address;
use super::stream::Stream;
use std::io;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// One socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A client that has come in, and where from.
pub(super) type Arrival = (Stream, String);

/// Where clients of a socket in a directory come from, as Postgres calls it.
const LOCAL: &str = "local";

impl Listener {
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => Ok(Self::Tcp(TcpListener::bind((host.as_str(), *port)).await?)),
            Address::Unix { directory, port } => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                if path.exists() && tokio::net::UnixStream::connect(&path).await.is_err() {
                    // Left behind by a process that is gone.
                    std::fs::remove_file(&path)?;
                }
                Ok(Self::Unix(UnixListener::bind(&path)?, SocketFile(path)))
            }
        }
    }

    /// The address as it was taken: `asked`, with the port that was free in the place of 0.
    pub fn address(&self, asked: &Address) -> Address {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::from),
            Self::Unix(..) => asked.clone(),
        }
    }

    pub async fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), peer.to_string()))
            }
            Self::Unix(listener, _) => Ok((Stream::Unix(listener.accept().await?.0), LOCAL.to_owned())),
        }
    }

    /// Leaves the address. Who is already in the queue is handed out: closing the socket would reset them.
    pub fn close(self, mut welcome: impl FnMut(Arrival)) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => {
                // Not through the runtime: it may not have been told yet that somebody has come.
                let listener = listener.into_std()?;
                while let Ok((stream, peer)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    welcome((Stream::Tcp(stream.try_into()?), peer.to_string()));
                }
            }
            Self::Unix(listener, file) => {
                drop(file);
                let listener = listener.into_std()?;
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    welcome((Stream::Unix(stream.try_into()?), LOCAL.to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// The file of a socket in a directory; removed with it.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        let _ = std::fs::remove_file(path);
    }
}
