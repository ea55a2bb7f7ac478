//! A byte stream, whatever it runs over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// One connection. Reading and writing at the same time needs only a shared reference, so that neither
/// direction waits for the other.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed: the session's keys and buffers are large, and most connections have none.
    Tls(Box<TlsStream<TcpStream>>),
    /// Its socket is in the hands of a TLS handshake, or was closed by one that failed.
    Closed,
}

impl Stream {
    /// Splits into a reader and a writer that work independently.
    pub fn halves(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Self::Unix(stream) => {
                let (read, write) = stream.split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            Self::Tls(stream) => {
                let (read, write) = tokio::io::split(stream.as_mut());
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
            Self::Closed => (ReadHalf::Closed, WriteHalf::Closed),
        }
    }

    /// The certificate that the other side showed in the TLS handshake, DER.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        let Self::Tls(stream) = self else { return None };
        let certificates = stream.get_ref().1.peer_certificates();
        certificates.and_then(<[_]>::first).map(|certificate| certificate.as_ref())
    }
}

/// Writes all of it and sees to it that it leaves: a TLS session keeps what its socket did not take at once.
pub(crate) async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// The half that reads.
pub(crate) enum ReadHalf<'a> {
    Tcp(tokio::net::tcp::ReadHalf<'a>),
    Unix(tokio::net::unix::ReadHalf<'a>),
    Tls(tokio::io::ReadHalf<&'a mut TlsStream<TcpStream>>),
    Closed,
}

/// The half that writes.
pub(crate) enum WriteHalf<'a> {
    Tcp(tokio::net::tcp::WriteHalf<'a>),
    Unix(tokio::net::unix::WriteHalf<'a>),
    Tls(tokio::io::WriteHalf<&'a mut TlsStream<TcpStream>>),
    Closed,
}

impl AsyncRead for ReadHalf<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => match Pin::new(stream).poll_read(context, buffer) {
                // Many drivers close without taking leave. A message that is cut off by that stays cut off.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr, $closed:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => $call,
            Self::Unix($stream) => $call,
            Self::Tls($stream) => $call,
            Self::Closed => Poll::Ready($closed),
        }
    };
}

impl AsyncWrite for WriteHalf<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(context, bytes), Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(context), Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(context), Ok(()))
    }
}
