//! From a client's first byte to a session that is ready for queries. Authentication is relayed as it is;
//! the proxy holds no credentials.

use super::buffer::Buffer;
use super::catalogs::{Errand, Shelf};
use super::guests::Crowded;
use super::origin::OriginError;
use super::relay::LoadGuard;
use super::stream::{ReadHalf, Stream, WriteHalf};
use super::{Shared, UpstreamError, catalogs, farewell};
use crate::catalog::{self, Catalog};
use crate::session::{Answer, Ask, Disposition, Session};
use crate::wire::frame::{self, BadLength, HEADER, Header};
use crate::wire::proxy_header::NoHeader;
use crate::wire::startup::{self, Parameters, Startup, StartupError};
use crate::wire::tag::backend;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Why a session never became ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    /// The client sent something that Postgres refuses too.
    #[error("{0}")]
    Startup(#[from] StartupError),
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    #[error("the client took longer than {0:?} to log in")]
    Slow(Duration),
    /// The server sent something that is no message.
    #[error("the database server sent a malformed message: {0}")]
    Server(#[from] BadLength),
    /// A load balancer that has to say whose the connection is does not.
    #[error("{0}")]
    Balancer(NoHeader),
    /// The client is one too many.
    #[error("{0}")]
    Crowded(#[from] Crowded),
    #[error("terminating connection due to administrator command")]
    Ending,
    /// One side closed the connection, which is its right: a probe, a refused password.
    #[error("the connection was closed during login")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<OriginError> for LoginError {
    fn from(error: OriginError) -> Self {
        match error {
            OriginError::Header(error) => Self::Balancer(error),
            OriginError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            OriginError::Io(error) => Self::Io(error),
        }
    }
}

impl LoginError {
    /// Whose fault it is, for the counters.
    pub fn blame(&self) -> &'static str {
        match self {
            Self::Startup(_) | Self::Balancer(_) | Self::Slow(_) => "client",
            Self::Upstream(_) | Self::Server(_) => "upstream",
            Self::Closed | Self::Io(_) => "connection",
            Self::Crowded(_) => "limit",
            Self::Ending => "shutdown",
        }
    }

    /// What the client is told, if it can be told anything.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let message = self.to_string();
        match self {
            Self::Startup(error) => Some(startup::fatal(error.sqlstate(), &message, "")),
            Self::Upstream(_) => Some(startup::fatal(
                "08001",
                &format!("untwin: {message}"),
                "Check that the server runs there, and the --upstream address untwin was started with.",
            )),
            Self::Slow(_) => Some(startup::fatal(
                "08006",
                &format!("untwin: {message}"),
                "Raise login_timeout if clients need longer.",
            )),
            Self::Server(_) => Some(startup::fatal("08P01", &format!("untwin: {message}"), "")),
            Self::Balancer(_) => Some(startup::fatal(
                "08P01",
                &format!("untwin: {message}"),
                "This address is in one of the networks of untwin's proxy_protocol.",
            )),
            Self::Crowded(crowded) => {
                Some(startup::fatal("53300", &format!("untwin: {message}"), &crowded.hint()))
            }
            Self::Ending => Some(farewell::shutting_down()),
            Self::Closed | Self::Io(_) => None,
        }
    }
}

/// What a client's first packets ask for.
pub(super) enum Opening {
    Session { packet: Vec<u8>, parameters: Parameters },
    Cancel { packet: Vec<u8> },
}

/// Encryption may be asked for twice (GSSENC, then SSL) before the startup packet.
const MOST_REQUESTS: usize = 3;

/// Reads the client's first packets; encryption is declined.
pub(super) async fn opening(client: &mut Stream) -> Result<Opening, LoginError> {
    let (mut reader, mut writer) = client.halves();
    for _ in 0..MOST_REQUESTS {
        let packet = first_packet(&mut reader).await?;
        match startup::read(&packet)? {
            Startup::Ssl | Startup::Gssenc => writer.write_all(b"N").await?,
            Startup::Cancel => return Ok(Opening::Cancel { packet }),
            Startup::Session(parameters) => return Ok(Opening::Session { packet, parameters }),
        }
    }
    Err(StartupError::Layout.into())
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

/// The client's messages during authentication: PasswordMessage and its kin.
const PASSWORD: u8 = b'p';

/// A login being relayed.
pub(super) struct Login<'a> {
    pub client: (ReadHalf<'a>, WriteHalf<'a>),
    pub server: (ReadHalf<'a>, WriteHalf<'a>),
    /// What the client sent and the server has not been given.
    pub from_client: Buffer,
    pub from_server: Buffer,
    /// The body of BackendKeyData, once it has come.
    pub backend_key: Vec<u8>,
}

impl Login<'_> {
    /// Relays until the server is ready for queries. ReadyForQuery itself stays in `from_server`: the proxy
    /// has something to ask first. What the client sent ahead stays in `from_client`.
    pub async fn authenticate(&mut self, session: &mut Session) -> Result<(), LoginError> {
        loop {
            if self.relay_server(session).await? {
                return Ok(());
            }
            self.relay_client().await?;
            let Self { client, server, from_client, from_server, .. } = self;
            tokio::select! {
                count = from_server.read(&mut server.0) => if count? == 0 {
                    client.1.write_all(from_server.filled()).await?;
                    return Err(LoginError::Closed);
                },
                count = from_client.read(&mut client.0), if from_client.filled().len() < startup::MAX_PACKET => {
                    if count? == 0 {
                        return Err(LoginError::Closed);
                    }
                }
            }
        }
    }

    /// Forwards the server's messages; `true` once ReadyForQuery has come.
    async fn relay_server(&mut self, session: &mut Session) -> Result<bool, LoginError> {
        let bytes = self.from_server.filled();
        let mut end = 0;
        let mut ready = false;
        while let Some(header) = complete(bytes.get(end..).unwrap_or_default())? {
            if header.tag == backend::READY {
                session.logged_in();
                ready = true;
                break;
            }
            let body = bytes.get(end + HEADER..end + header.frame()).unwrap_or_default();
            match header.tag {
                backend::PARAMETER_STATUS => {
                    session.server_message(header.tag, body);
                }
                backend::BACKEND_KEY_DATA => self.backend_key = body.to_vec(),
                _ => {}
            }
            end += header.frame();
        }
        self.client.1.write_all(bytes.get(..end).unwrap_or_default()).await?;
        self.from_server.consume(end);
        Ok(ready)
    }

    /// Forwards the client's part of authentication, and nothing beyond it.
    async fn relay_client(&mut self) -> Result<(), LoginError> {
        let bytes = self.from_client.filled();
        let mut end = 0;
        while let Some(header) = complete(bytes.get(end..).unwrap_or_default())? {
            if header.tag != PASSWORD {
                break;
            }
            end += header.frame();
        }
        self.server.1.write_all(bytes.get(..end).unwrap_or_default()).await?;
        self.from_client.consume(end);
        Ok(())
    }

    /// Gives the session a catalog, loading it over this very connection if nobody has yet.
    pub async fn learn(
        &mut self,
        session: &mut Session,
        shelf: &Shelf,
        shared: &Shared,
    ) -> Result<(), LoginError> {
        for _ in 0..2 {
            match shelf.errand(shared.rules.get().catalog_ttl) {
                Errand::Use(catalog) => {
                    session.learn_catalog(catalog);
                    break;
                }
                Errand::Without => break,
                Errand::Wait => shelf.wait(catalogs::WAIT).await,
                Errand::Load(version) => {
                    let guard = LoadGuard(Some(shelf));
                    let answer = self.ask(session, Ask::Catalog).await?;
                    let loaded: Option<Arc<Catalog>> = guard.finish(answer, version, shared);
                    if let Some(catalog) = loaded {
                        session.learn_catalog(catalog);
                    }
                    break;
                }
            }
        }
        if session.wants_scope()
            && let Answer::Told(_, text) = self.ask(session, Ask::Scope).await?
            && let Ok(scope) = catalog::resolve::parse_scope(&text)
        {
            session.learn_scope(scope);
        }
        Ok(())
    }

    /// Tells the client that its session is ready. From here on both directions run by themselves.
    pub async fn release(&mut self) -> Result<(), LoginError> {
        if let Some(ready) = complete(self.from_server.filled())? {
            let message = self.from_server.filled().get(..ready.frame()).unwrap_or_default();
            self.client.1.write_all(message).await?;
            self.from_server.consume(ready.frame());
        }
        Ok(())
    }

    /// Asks behind the ReadyForQuery that the client has not seen yet.
    async fn ask(&mut self, session: &mut Session, ask: Ask) -> Result<Answer, LoginError> {
        let bytes = session.ask(ask);
        self.server.1.write_all(&bytes).await?;
        // The ReadyForQuery of the login is the first message in the buffer and stays there.
        let mut kept = Vec::new();
        loop {
            while let Some(header) = complete(self.from_server.filled())? {
                let message = self.from_server.filled().get(..header.frame()).unwrap_or_default();
                let disposition = match header.tag {
                    backend::READY if kept.is_empty() => Disposition::Relay,
                    tag => session.server_message(tag, message.get(HEADER..).unwrap_or_default()),
                };
                let answer = match disposition {
                    Disposition::Relay => {
                        kept.extend_from_slice(message);
                        None
                    }
                    Disposition::Swallow => None,
                    Disposition::Answered(answer) => Some(answer),
                };
                self.from_server.consume(header.frame());
                if let Some(answer) = answer {
                    self.from_server.put_first(&kept);
                    return Ok(answer);
                }
            }
            if self.from_server.read(&mut self.server.0).await? == 0 {
                self.client.1.write_all(&kept).await?;
                return Err(LoginError::Closed);
            }
        }
    }
}

/// The header of the message at the start, if all of it is there.
fn complete(bytes: &[u8]) -> Result<Option<Header>, BadLength> {
    Ok(frame::header(bytes)?.filter(|header| header.frame() <= bytes.len()))
}
