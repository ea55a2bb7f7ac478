//! Sessions of the proxy's own at a server, over the same ways as those of clients. What is asked in them is not
//! its business.

use super::hosts::Hosts;
use super::machine::Machine;
use super::stream::Stream;
use super::tls::FileError;
use super::tls_certificate::end_point_digest;
use super::tls_connect::{Connector, Way};
use super::{Address, Config, UpstreamError};
use std::error::Error;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// As whom the proxy logs in.
#[derive(Clone, Default)]
pub struct Login {
    /// User, password, database and settings; hosts and TLS in it do not count.
    pub config: tokio_postgres::Config,
    /// Passwords for some of the addresses, where `config` has none.
    pub passwords: Vec<(Address, String)>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Login {
    fn at(&self, address: &Address) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        let own = self.passwords.iter().find(|(of, _)| of == address);
        if let (None, Some((_, password))) = (config.get_password(), own) {
            config.password(password);
        }
        config
    }
}

/// Why there is no such session, or no answer in it.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// A file of certificates or keys cannot be used.
    #[error("{0}")]
    File(#[from] FileError),
    /// No server was reached, or it broke off.
    #[error("{0}")]
    Unreachable(#[from] UpstreamError),
    /// The server said no.
    #[error("{}", .0.message())]
    Refused(Box<tokio_postgres::error::DbError>),
}

impl OwnError {
    /// What went wrong at this address.
    pub(super) fn of(address: &Address, error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::Refused(Box::new(said.clone())),
            None => Self::unreachable(address, with_cause(error)),
        }
    }

    fn unreachable(address: &Address, reason: impl ToString) -> Self {
        UpstreamError { address: address.to_string(), reason: reason.to_string() }.into()
    }

    /// Whether another way or another server could do better: `pg_hba.conf` can tell encrypted connections from
    /// others, and a server that is starting up takes nobody.
    fn is_final(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Unreachable(_) => false,
            Self::Refused(said) => {
                ![SqlState::INVALID_AUTHORIZATION_SPECIFICATION, SqlState::CANNOT_CONNECT_NOW]
                    .contains(said.code())
            }
        }
    }
}

pub(super) fn with_cause(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A session. Ends when it is dropped.
pub struct Own {
    client: tokio_postgres::Client,
    /// Where it is.
    address: Address,
    /// Closed with it.
    _open: oneshot::Sender<()>,
    conversation: JoinHandle<()>,
}

/// How long the server may take to hear that a session is over.
const PARTING: Duration = Duration::from_secs(5);

impl Own {
    /// To ask by.
    #[must_use]
    pub fn client(&self) -> &tokio_postgres::Client {
        &self.client
    }

    /// Ends it, and waits until the server has been told: for a program that ends as well.
    pub async fn close(self) {
        let Self { client, _open: open, conversation, .. } = self;
        drop(client);
        drop(open);
        let _ = conversation.await;
    }

    /// What an answer that failed means.
    #[must_use]
    pub fn error(&self, error: &tokio_postgres::Error) -> OwnError {
        OwnError::of(&self.address, error)
    }
}

/// Opens a session at the server that sessions of clients would be on, for a program that asks once: its files
/// are read now.
///
/// # Errors
/// [`OwnError`].
pub async fn log_in_once(config: &Config, login: &Login) -> Result<Own, OwnError> {
    let connector = Connector::load(&config.upstream_tls)?;
    log_in(config, &connector, &Hosts::new(&config.upstream), login).await
}

/// Opens a session at the server that sessions of clients would be on.
///
/// # Errors
/// What the last server met, or the first that said a clear no.
pub(super) async fn log_in(
    config: &Config,
    connector: &Connector,
    hosts: &Hosts,
    login: &Login,
) -> Result<Own, OwnError> {
    let mut last = None;
    for host in hosts.candidates(config, connector).await {
        match log_in_at(host, config, connector, login).await {
            Ok(own) => return Ok(own),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| UpstreamError::unfit(config).into()))
}

/// Opens a session at the first machine of this address that answers.
///
/// # Errors
/// What the last machine met, or the first that said a clear no.
pub(super) async fn log_in_at(
    address: &Address,
    config: &Config,
    connector: &Connector,
    login: &Login,
) -> Result<Own, OwnError> {
    let (limit, login) = (config.connect_timeout, login.at(address));
    let machines = address.machines(limit).await.map_err(|error| OwnError::unreachable(address, error))?;
    let mut last = OwnError::unreachable(address, "the name stands for no address");
    for machine in &machines {
        for &way in connector.ways(address) {
            let attempt = attempt(machine, way, config, connector, &login);
            match tokio::time::timeout(limit, attempt).await {
                Ok(Ok(own)) => return Ok(own),
                Ok(Err(error)) if error.is_final() => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => {
                    last =
                        OwnError::unreachable(address, format!("no answer within {} s", limit.as_secs_f32()));
                    break;
                }
            }
        }
    }
    Err(last)
}

async fn attempt(
    machine: &Machine,
    way: Way,
    config: &Config,
    connector: &Connector,
    login: &tokio_postgres::Config,
) -> Result<Own, OwnError> {
    let address = &machine.host;
    let stream = connector.connect(machine, way, &config.tcp).await;
    let stream = stream.map_err(|error| OwnError::unreachable(address, error))?;
    let (sender, receiver) = oneshot::channel();
    let (open, closed) = oneshot::channel();
    let conversation = tokio::spawn(converse(stream, login.clone(), sender, closed));
    match receiver.await {
        Ok(Ok(client)) => Ok(Own { client, address: address.clone(), _open: open, conversation }),
        Ok(Err(error)) => Err(OwnError::of(address, &error)),
        Err(_) => Err(OwnError::unreachable(address, "the login ended")),
    }
}

/// Logs in, hands out the client, and carries its conversation until the client is dropped.
async fn converse(
    mut stream: Stream,
    mut login: tokio_postgres::Config,
    mut sender: oneshot::Sender<Result<tokio_postgres::Client, tokio_postgres::Error>>,
    closed: oneshot::Receiver<()>,
) {
    let encrypted = Encrypted::of(&stream);
    // What is encrypted already must not be encrypted again: handed to `Encrypted`, it is only bound to.
    match encrypted.is_some() {
        true => login.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct),
        false => login.ssl_mode(SslMode::Disable),
    };
    let (reader, writer) = stream.halves();
    let connecting = login.connect_raw(tokio::io::join(reader, writer), encrypted.unwrap_or_default());
    let connected = tokio::select! {
        connected = connecting => connected,
        () = sender.closed() => return,
    };
    match connected {
        Ok((client, connection)) => {
            if sender.send(Ok(client)).is_ok() {
                let overdue = async {
                    let _ = closed.await;
                    tokio::time::sleep(PARTING).await;
                };
                tokio::select! {
                    _ = connection => {}
                    () = overdue => {}
                }
            }
        }
        Err(error) => {
            let _ = sender.send(Err(error));
        }
    }
}

/// Says of a stream that it is encrypted, and what a login over it can be bound to.
#[derive(Default)]
struct Encrypted {
    digest: Option<Vec<u8>>,
}

impl Encrypted {
    fn of(stream: &Stream) -> Option<Self> {
        let is_encrypted = matches!(stream, Stream::Tls(_));
        is_encrypted.then(|| Self { digest: stream.peer_certificate().and_then(end_point_digest) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Encrypted {
    type Stream = Bound<S>;
    type Error = io::Error;
    type Future = Ready<io::Result<Bound<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        ready(Ok(Bound { stream, digest: self.digest }))
    }
}

struct Bound<S> {
    stream: S,
    digest: Option<Vec<u8>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Bound<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.digest.clone().map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bound<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bound<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
