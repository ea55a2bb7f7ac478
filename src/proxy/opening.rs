//! A client's first packets: whether its connection is encrypted, and what it asks for.

use super::handshake::LoginError;
use super::stream::{ReadHalf, Stream, send};
use super::tls::ClientMode;
use super::tls_listen::Acceptor;
use crate::wire::startup::{self, Parameters, Startup, StartupError};
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::io::{AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;

/// What a client's first packets ask for.
pub(super) enum Opening {
    Session { packet: Vec<u8>, parameters: Parameters },
    Cancel { packet: Vec<u8> },
}

/// Encryption may be asked for twice (GSSENC, then SSL) before the startup packet.
const MOST_REQUESTS: usize = 3;
/// The first byte of a TLS handshake (RFC 8446, 5.1), which no startup packet begins with.
const TLS_HANDSHAKE: u8 = 0x16;

/// Reads the client's first packets, and encrypts the connection if the client asks for it and `acceptor` can.
pub(super) async fn opening(client: &mut Stream, acceptor: &Acceptor) -> Result<Opening, LoginError> {
    if let Stream::Tcp(socket) = client
        && acceptor.is_ready()
        && begins_with_tls(socket).await?
    {
        encrypt(client, acceptor, true).await?;
    }
    for _ in 0..MOST_REQUESTS {
        let packet = first_packet(&mut client.halves().0).await?;
        match (startup::read(&packet)?, &mut *client) {
            // Within TLS, Postgres takes these for versions of the protocol.
            (Startup::Ssl, Stream::Tls(_)) => {
                return Err(StartupError::Version { major: 1234, minor: 5679 }.into());
            }
            (Startup::Gssenc, Stream::Tls(_)) => {
                return Err(StartupError::Version { major: 1234, minor: 5680 }.into());
            }
            (Startup::Ssl, Stream::Tcp(socket)) if acceptor.is_ready() => {
                // Whatever came along unencrypted could be somebody else's (CVE-2021-23214).
                if has_sent_more(socket).await {
                    return Err(LoginError::Early);
                }
                send(&mut client.halves().1, b"S").await?;
                encrypt(client, acceptor, false).await?;
            }
            (Startup::Ssl | Startup::Gssenc, _) => send(&mut client.halves().1, b"N").await?,
            // As with Postgres, whose cancel requests are unencrypted up to version 16.
            (Startup::Cancel, _) => return Ok(Opening::Cancel { packet }),
            (Startup::Session(_), Stream::Tcp(_)) if acceptor.mode == ClientMode::Require => {
                return Err(LoginError::Unencrypted);
            }
            (Startup::Session(parameters), _) => return Ok(Opening::Session { packet, parameters }),
        }
    }
    Err(StartupError::Layout.into())
}

async fn begins_with_tls(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(socket.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE])
}

/// Whether bytes have arrived that were not read yet. Does not wait for any.
async fn has_sent_more(socket: &TcpStream) -> bool {
    poll_fn(|context| {
        let mut byte = [0];
        let peeked = socket.poll_peek(context, &mut ReadBuf::new(&mut byte));
        Poll::Ready(matches!(peeked, Poll::Ready(Ok(1..))))
    })
    .await
}

/// Puts the encrypted connection in the place of the plain one. If that fails, it is closed.
async fn encrypt(client: &mut Stream, acceptor: &Acceptor, direct: bool) -> Result<(), LoginError> {
    match std::mem::replace(client, Stream::Closed) {
        Stream::Tcp(socket) => match acceptor.accept(socket, direct).await {
            Ok(stream) => *client = stream,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LoginError::Closed),
            Err(error) => return Err(LoginError::Tls(error)),
        },
        other => *client = other,
    }
    Ok(())
}

async fn first_packet(reader: &mut ReadHalf<'_>) -> Result<Vec<u8>, LoginError> {
    let mut word = [0; 4];
    read_exact(reader, &mut word).await?;
    let mut packet = vec![0; startup::packet_length(word)?];
    let (head, rest) = packet.split_at_mut(4);
    head.copy_from_slice(&word);
    read_exact(reader, rest).await?;
    Ok(packet)
}

async fn read_exact(reader: &mut ReadHalf<'_>, bytes: &mut [u8]) -> Result<(), LoginError> {
    match reader.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(LoginError::Closed),
        Err(error) => Err(error.into()),
    }
}
