//! From a client's startup packet to a session that is ready for queries. Authentication is relayed as it is,
//! unless the proxy has done it itself before.

use super::auth_binding::Binding;
use super::auth_lookup::LookupError;
use super::auth_scram::ScramError;
use super::buffer::Buffer;
use super::catalogs::{Errand, Shelf};
use super::guests::{Admission, Crowded};
use super::load_guard::LoadGuard;
use super::origin::OriginError;
use super::stream::{ReadHalf, WriteHalf, send};
use super::{Shared, UpstreamError, catalogs, farewell, upstream};
use crate::catalog::{self, Catalog};
use crate::session::{Answer, Ask, Disposition, Session};
use crate::wire::authentication::Request;
use crate::wire::frame::{self, BadLength, HEADER, Header};
use crate::wire::message;
use crate::wire::proxy_header::NoHeader;
use crate::wire::startup::{self, StartupError};
use crate::wire::tag::{backend, frontend};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a session never became ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    /// The client sent something that Postgres refuses too.
    #[error("{0}")]
    Startup(#[from] StartupError),
    /// The client sent something behind its request for TLS, before TLS.
    #[error("received unencrypted data after SSL request")]
    Early,
    #[error("the TLS handshake with the client failed: {0}")]
    Tls(io::Error),
    #[error("this connection is not encrypted")]
    Unencrypted,
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    #[error("{0}")]
    Lookup(#[from] LookupError),
    #[error("the client took longer than {0:?} to log in")]
    Slow(Duration),
    /// The server said something that makes no sense.
    #[error("{0}")]
    Server(String),
    /// A load balancer that has to say whose the connection is does not.
    #[error("{0}")]
    Balancer(NoHeader),
    /// The client is one too many.
    #[error("{0}")]
    Crowded(#[from] Crowded),
    #[error("terminating connection due to administrator command")]
    Ending,
    /// The proxy authenticates clients, and this one has failed.
    #[error("user \"{user}\": {why}")]
    Denied { user: String, why: ScramError },
    /// The proxy has what checks a client, and not what the server wants.
    #[error("{0}")]
    Unable(String),
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
    /// Whose fault it is, for the log.
    pub fn blame(&self) -> &'static str {
        match self {
            Self::Startup(_)
            | Self::Early
            | Self::Tls(_)
            | Self::Unencrypted
            | Self::Balancer(_)
            | Self::Denied { .. }
            | Self::Slow(_) => "client",
            Self::Unable(_) => "settings",
            Self::Lookup(error) => error.blame(),
            Self::Upstream(_) | Self::Server(_) => "upstream",
            Self::Closed | Self::Io(_) => "connection",
            Self::Crowded(_) => "limit",
            Self::Ending => "shutdown",
        }
    }

    /// What happened, in a word, for the counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Startup(_) => "startup packet",
            Self::Early | Self::Tls(_) => "TLS handshake",
            Self::Unencrypted => "not encrypted",
            Self::Upstream(_) => "no connection to the database",
            Self::Lookup(_) => "auth_query",
            Self::Slow(_) => "login_timeout",
            Self::Server(_) => "the database's reply",
            Self::Balancer(_) => "PROXY header",
            Self::Crowded(Crowded::Total(_)) => "max_connections",
            Self::Crowded(Crowded::User(..)) => "max_user_connections",
            Self::Ending => "shutdown",
            Self::Denied { .. } => "authentication",
            Self::Unable(_) => "no secret for the database",
            Self::Closed => "closed during login",
            Self::Io(_) => "connection lost",
        }
    }

    /// What the client is told, if it can be told anything.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let message = self.to_string();
        match self {
            Self::Startup(error) => Some(startup::fatal(error.sqlstate(), &message, "")),
            Self::Denied { user, why } => Some(denial(user, *why)),
            Self::Unable(_) => Some(startup::fatal(
                "28000",
                &format!("untwin: {message}"),
                "Write the user's password, or the same SCRAM secret as in pg_authid, to untwin's auth_file.",
            )),
            Self::Early => Some(startup::fatal("08P01", &message, "")),
            Self::Unencrypted => Some(startup::fatal(
                "28000",
                &format!("untwin: {message}"),
                "untwin was started with client_tls = require: connect with sslmode=require.",
            )),
            Self::Upstream(_) => Some(startup::fatal("08001", &format!("untwin: {message}"), upstream::HINT)),
            Self::Lookup(error) => {
                let (code, message, hint) = error.reply();
                Some(startup::fatal(code, &message, hint))
            }
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
            Self::Closed | Self::Tls(_) | Self::Io(_) => None,
        }
    }
}

impl From<BadLength> for LoginError {
    fn from(error: BadLength) -> Self {
        Self::Server(format!("the database server sent a malformed message: {error}"))
    }
}

/// What Postgres says to a client that fails.
fn denial(user: &str, why: ScramError) -> Vec<u8> {
    let (code, message) = match why {
        ScramError::Malformed => ("08P01", why.to_string()),
        ScramError::Authorization | ScramError::Extension => ("0A000", why.to_string()),
        ScramError::Negotiation | ScramError::Binding => ("28000", why.to_string()),
        ScramError::Proof => ("28P01", format!("password authentication failed for user \"{user}\"")),
    };
    startup::fatal(code, &message, "")
}

/// The most that is read of a client before its login is over: one answer as large as Postgres takes them
/// (`PG_MAX_AUTH_TOKEN_LENGTH`).
const MAX_AHEAD: usize = 65_535 + HEADER;

/// A login being relayed.
pub(super) struct Login<'a> {
    pub client: (ReadHalf<'a>, WriteHalf<'a>),
    pub server: (ReadHalf<'a>, WriteHalf<'a>),
    /// What the client sent and the server has not been given.
    pub from_client: Buffer,
    pub from_server: Buffer,
    /// The body of BackendKeyData, once it has come.
    pub backend_key: Vec<u8>,
    /// The server is a pooler's own console: what it takes is not SQL, and only in a simple Query.
    pub console: bool,
    pub binding: Binding,
}

impl Login<'_> {
    /// Relays until the server is ready for queries. ReadyForQuery itself stays in `from_server`: the proxy
    /// has something to ask first. What the client sent ahead stays in `from_client`.
    pub async fn authenticate(
        &mut self,
        session: &mut Session,
        admission: &mut Admission<'_>,
    ) -> Result<(), LoginError> {
        loop {
            if self.relay_server(session, admission).await? {
                return Ok(());
            }
            self.relay_client().await?;
            let Self { client, server, from_client, from_server, binding, .. } = self;
            tokio::select! {
                count = from_server.read(&mut server.0) => {
                    if count? == 0 {
                        send(&mut client.1, from_server.filled()).await?;
                        return Err(LoginError::Closed);
                    }
                }
                count = from_client.read(&mut client.0), if from_client.filled().len() < MAX_AHEAD => {
                    if count? == 0 {
                        binding.explain();
                        return Err(LoginError::Closed);
                    }
                }
            }
        }
    }

    /// Forwards the server's messages; `true` once ReadyForQuery has come.
    async fn relay_server(
        &mut self,
        session: &mut Session,
        admission: &mut Admission<'_>,
    ) -> Result<bool, LoginError> {
        let bytes = self.from_server.filled();
        let (mut start, mut end) = (0, 0);
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
                    self.console |= is_console(body);
                    session.server_message(header.tag, body);
                }
                backend::BACKEND_KEY_DATA => self.backend_key = body.to_vec(),
                backend::AUTHENTICATION if Request::read(body) == Some(Request::Ok) => admission.prove()?,
                _ => {}
            }
            let replaced = match header.tag {
                backend::AUTHENTICATION => self.binding.offer(body),
                backend::ERROR => self.binding.failure(body),
                _ => None,
            };
            if let Some(message) = replaced {
                send(&mut self.client.1, bytes.get(start..end).unwrap_or_default()).await?;
                send(&mut self.client.1, &message).await?;
                start = end + header.frame();
            }
            end += header.frame();
        }
        send(&mut self.client.1, bytes.get(start..end).unwrap_or_default()).await?;
        self.from_server.consume(end);
        Ok(ready)
    }

    /// Forwards the client's part of authentication, and nothing beyond it.
    async fn relay_client(&mut self) -> Result<(), LoginError> {
        let bytes = self.from_client.filled();
        let mut end = 0;
        while let Some(header) = complete(bytes.get(end..).unwrap_or_default())? {
            if header.tag != frontend::PASSWORD {
                break;
            }
            self.binding.answer(bytes.get(end + HEADER..end + header.frame()).unwrap_or_default());
            end += header.frame();
        }
        send(&mut self.server.1, bytes.get(..end).unwrap_or_default()).await?;
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
            && let Ok(told) = catalog::resolve::parse_scope(&text)
        {
            session.learn_scope(told);
        }
        Ok(())
    }

    /// Tells the client that its session is ready. From here on both directions run by themselves.
    pub async fn release(&mut self) -> Result<(), LoginError> {
        if let Some(ready) = complete(self.from_server.filled())? {
            let message = self.from_server.filled().get(..ready.frame()).unwrap_or_default();
            send(&mut self.client.1, message).await?;
            self.from_server.consume(ready.frame());
        }
        Ok(())
    }

    /// Asks behind the ReadyForQuery that the client has not seen yet.
    async fn ask(&mut self, session: &mut Session, ask: Ask) -> Result<Answer, LoginError> {
        let bytes = session.ask(ask);
        send(&mut self.server.1, &bytes).await?;
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
                send(&mut self.client.1, &kept).await?;
                return Err(LoginError::Closed);
            }
        }
    }
}

/// Whether a ParameterStatus is of PgBouncer's console, which calls itself `1.18.0/bouncer`.
fn is_console(body: &[u8]) -> bool {
    message::parameter_status(body)
        .is_some_and(|(name, value)| name == b"server_version" && value.ends_with(b"/bouncer"))
}

/// The header of the message at the start, if all of it is there.
pub(super) fn complete(bytes: &[u8]) -> Result<Option<Header>, BadLength> {
    Ok(frame::header(bytes)?.filter(|header| header.frame() <= bytes.len()))
}
