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

#[cfg(test)]
mod tests {
    use super::super::tls::ClientTls;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, UnixStream};

    const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
    const GSSENC_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 48];
    const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0a\0\0";
    const CANCEL: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";

    /// One that demands TLS and has a certificate.
    fn demanding() -> Acceptor {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (directory.path().join("cert"), directory.path().join("key"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (mode, cert, key) = (ClientMode::Require, Some(cert), Some(key));
        Acceptor::load(&ClientTls { mode, cert, key, ..ClientTls::default() }).unwrap()
    }

    fn without_certificate() -> Acceptor {
        Acceptor::load(&ClientTls::default()).unwrap()
    }

    async fn tcp() -> (TcpStream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, Stream::Tcp(listener.accept().await.unwrap().0))
    }

    #[tokio::test]
    async fn a_socket_in_a_directory_needs_no_encryption_and_has_none() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(&[GSSENC_REQUEST, SSL_REQUEST, STARTUP].concat()).await.unwrap();
        let mut server = Stream::Unix(server);
        assert!(matches!(opening(&mut server, &demanding()).await, Ok(Opening::Session { .. })));
        let mut answers = [0; 2];
        client.read_exact(&mut answers).await.unwrap();
        assert_eq!(&answers, b"NN");
    }

    #[tokio::test]
    async fn without_encryption_only_requests_to_cancel_are_taken_where_it_is_demanded() {
        for (packets, demanded, expected) in [
            (STARTUP.to_vec(), false, "session"),
            (STARTUP.to_vec(), true, "this connection is not encrypted"),
            (CANCEL.to_vec(), true, "cancel"),
            ([SSL_REQUEST, STARTUP].concat(), false, "session"),
            ([SSL_REQUEST, STARTUP].concat(), true, "received unencrypted data after SSL request"),
            (
                [GSSENC_REQUEST, GSSENC_REQUEST, GSSENC_REQUEST].concat(),
                false,
                "invalid startup packet layout",
            ),
        ] {
            let (mut client, mut server) = tcp().await;
            client.write_all(&packets).await.unwrap();
            let acceptor = if demanded { demanding() } else { without_certificate() };
            let outcome = match opening(&mut server, &acceptor).await {
                Ok(Opening::Session { .. }) => "session".to_owned(),
                Ok(Opening::Cancel { .. }) => "cancel".to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(outcome.starts_with(expected), "{outcome}, not {expected}");
        }
    }
}
