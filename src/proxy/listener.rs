//! A socket that clients connect to, of either kind. Knows how to take an address and how to leave it.

use super::Address;
use super::socket_file::SocketFile;
use super::stream::Stream;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// One socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// How addresses are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Share addresses with other processes that do so too, so that one can take over from another.
    pub reuse_port: bool,
    /// Permissions of the socket in a directory: who may connect.
    pub socket_mode: u32,
}

/// A client that has come in, and the other end of its connection; none, if it is of this machine.
pub(super) type Arrival = (Stream, Option<SocketAddr>);

/// Connections that may wait to be accepted; the system allows less, if so configured (`somaxconn`).
const BACKLOG: u32 = 4096;

impl Listener {
    pub async fn bind(address: &Address, options: ListenOptions) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
                for address in tokio::net::lookup_host((host.as_str(), *port)).await? {
                    match listen(address, options) {
                        Ok(listener) => return Ok(Self::Tcp(listener)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix { directory, port } => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                let (listener, file) = SocketFile::take(&path, options)?;
                Ok(Self::Unix(listener, file))
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
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            Self::Unix(listener, _) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }

    /// Leaves the address. Who is already in the queue is handed out: closing the socket would reset them.
    pub fn close(self, mut welcome: impl FnMut(Arrival)) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => {
                // Not through the runtime: it may not have been told yet that somebody has come.
                let listener = listener.into_std()?;
                while let Ok((stream, peer)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    welcome((Stream::Tcp(stream.try_into()?), Some(peer)));
                }
            }
            Self::Unix(listener, file) => {
                drop(file);
                let listener = listener.into_std()?;
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    welcome((Stream::Unix(stream.try_into()?), None));
                }
            }
        }
        Ok(())
    }
}

fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A process that starts anew need not wait until the connections of the last one are forgotten.
    socket.set_reuseaddr(true)?;
    if options.reuse_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
