//! One client connection from accept to close.

use super::auth_binding::Binding;
use super::auth_client;
use super::auth_login::{self, Channel};
use super::buffer::Buffer;
use super::catalogs::Shelf;
use super::credentials::Credentials;
use super::entropy::System;
use super::guests::{Admission, Guest};
use super::handshake::{Login, LoginError};
use super::machine::Machine;
use super::opening::{self, Opening};
use super::pumps::{self, Ended};
use super::records::Records;
use super::relay::{Downward, Link, Upward};
use super::shutdown::GRACE;
use super::stream::{ReadHalf, Stream, WriteHalf};
use super::upstream::{self, Opened};
use super::{Shared, cancel, farewell, origin, tls_certificate};
use crate::journal::record::Origin;
use crate::live::routes::Remembered;
use crate::session::Session;
use crate::wire::startup::{self, Parameters};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tracing::Instrument;

/// Where clients of a socket in a directory come from, as Postgres calls it.
const LOCAL: &str = "local";

/// Serves one client. Returns when both sides are closed.
pub(super) async fn serve(
    mut client: Stream,
    peer: Option<SocketAddr>,
    number: u64,
    shared: Arc<Shared>,
    _guest: Guest,
) {
    let visit = Visit {
        deadline: Instant::now() + shared.config.login_timeout,
        credentials: shared.credentials(),
        session: format!("{:08x}{:08x}", shared.seed as u32, number as u32),
        shared: &shared,
    };
    // What is not needed while bytes are relayed is boxed, so that no idle session carries its memory.
    let address = match Box::pin(visit.address(&mut client, peer)).await {
        Ok(address) => address,
        Err(error) => {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, %error, blame = error.blame(), "a connection that does not say whose it is");
            return Box::pin(visit.turn_away(&mut client, &error)).await;
        }
    };
    let span = tracing::info_span!("session", session = visit.session.as_str(), client = address.as_str());
    async {
        shared.counters.sessions_total.increment();
        shared.counters.sessions_open.increment();
        if let Err(error) = visit.receive(&mut client, &address).await {
            match &error {
                LoginError::Closed => tracing::debug!(%error, "login ended"),
                LoginError::Lookup(_) => tracing::error!(%error, blame = error.blame(), "login failed"),
                LoginError::Upstream(_) => {
                    shared.counters.upstream_errors_total.increment("connect");
                    tracing::error!(%error, blame = error.blame(), "login failed");
                }
                _ => tracing::warn!(%error, blame = error.blame(), "login failed"),
            }
            Box::pin(visit.turn_away(&mut client, &error)).await;
        }
        shared.counters.sessions_open.decrement();
    }
    .instrument(span)
    .await;
}

/// What holds for one connection.
struct Visit<'a> {
    shared: &'a Arc<Shared>,
    /// Those it began with.
    credentials: Arc<Credentials>,
    /// The name of the session in log and journal.
    session: String,
    /// When its login must be over.
    deadline: Instant,
}

/// Whether a client has said what it wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No: a proxy that is being shut down does not wait for it.
    Silent,
    /// Yes.
    LoggingIn,
}

impl Visit<'_> {
    /// Does a part of a login in time, unless the proxy ends before it is done.
    async fn in_time<T>(
        &self,
        stage: Stage,
        part: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let slow = |_| LoginError::Slow(self.shared.config.login_timeout);
        self.unless_ending(stage, async { tokio::time::timeout_at(self.deadline, part).await.map_err(slow)? })
            .await
    }

    /// The same, for a part that has its own limit of time.
    async fn unless_ending<T>(
        &self,
        stage: Stage,
        part: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let shutdown = &self.shared.shutdown;
        let draining = async {
            shutdown.draining.taken().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            done = part => done,
            () = draining, if stage == Stage::Silent => Err(LoginError::Ending),
            () = shutdown.ending.taken() => Err(LoginError::Ending),
        }
    }

    /// The client's address, for people: as it is, or as a load balancer says.
    async fn address(&self, client: &mut Stream, peer: Option<SocketAddr>) -> Result<String, LoginError> {
        let Some(peer) = peer else { return Ok(LOCAL.to_owned()) };
        let balancers = &self.shared.config.balancers;
        if balancers.is_empty() {
            return Ok(peer.to_string());
        }
        let announced = async { Ok(origin::announced(client, peer, balancers).await?) };
        Ok(self.in_time(Stage::Silent, announced).await?.to_string())
    }

    async fn turn_away(&self, client: &mut Stream, error: &LoginError) {
        self.shared.counters.sessions_refused_total.increment(error.reason());
        if let Some(reply) = error.reply() {
            farewell::refuse(client, &reply, self.shared.linger()).await;
        }
    }

    /// Does what the client came for.
    async fn receive(&self, client: &mut Stream, address: &str) -> Result<(), LoginError> {
        let opening = opening::opening(client, &self.credentials.acceptor);
        match self.in_time(Stage::Silent, Box::pin(opening)).await? {
            Opening::Cancel { packet } => {
                Box::pin(cancel::forward(&packet, &self.credentials.connector, self.shared)).await;
                // Within TLS the end is announced.
                Ok(client.halves().1.shutdown().await?)
            }
            Opening::Session { mut packet, parameters } => {
                // By their names, standbys that replicate are known to the server's settings.
                if self.shared.config.application_name_add_host && !parameters.replication {
                    let name = origin::application(&parameters.application, address);
                    packet = startup::with_application(&packet, &name);
                }
                self.serve(client, &packet, parameters, address).await
            }
        }
    }

    /// Logs the client in and relays until the session is over.
    async fn serve(
        &self,
        client: &mut Stream,
        packet: &[u8],
        parameters: Parameters,
        address: &str,
    ) -> Result<(), LoginError> {
        let Entrance {
            mut server,
            from_client,
            from_server,
            shelf,
            session,
            records,
            reads,
            _admission,
            _route,
        } = *Box::pin(self.log_in(client, packet, parameters, address)).await?;
        let link = Link::new(self.shared, &shelf, session, records);
        if !reads {
            link.do_not_read();
        }
        let ((client_reads, client_writes), (server_reads, server_writes)) =
            (client.halves(), server.halves());
        let mut up = Upward::new(&link, client_reads, server_writes, from_client);
        let mut down = Downward::new(&link, server_reads, client_writes, from_server);
        relay(&link, &mut up, &mut down).await;
        Box::pin(farewell::linger(client, self.shared.linger())).await;
        Ok(())
    }

    /// Logs the client in, and tells the session what it has to know before the client's first statement.
    async fn log_in(
        &self,
        client: &mut Stream,
        packet: &[u8],
        parameters: Parameters,
        address: &str,
    ) -> Result<Box<Entrance<'_>>, LoginError> {
        let Self { shared, credentials, .. } = self;
        let mut admission = shared.guests.admit(&parameters.user, shared.config.session_limits)?;
        let mut from_client = Buffer::default();
        let proof = match &credentials.users {
            None => None,
            Some(users) => {
                let channel = channel_of(client, credentials);
                let Parameters { user, database, .. } = &parameters;
                let identify =
                    async { Ok(users.identify(user, database, shared, &credentials.connector).await?) };
                let known = self.unless_ending(Stage::LoggingIn, Box::pin(identify)).await?;
                let ask = auth_client::ask(client, &mut from_client, known, user, channel.as_deref());
                Some(self.in_time(Stage::LoggingIn, Box::pin(ask)).await?)
            }
        };
        if proof.is_some() {
            // Whom the server would only be troubled by.
            admission.prove()?;
        }
        let opened = async { Ok(upstream::open(shared, &credentials.connector, packet).await?) };
        let Opened { stream: mut server, received, machine } =
            self.unless_ending(Stage::LoggingIn, Box::pin(opened)).await?;
        let digest = server.peer_certificate().and_then(tls_certificate::end_point_digest);
        let channel = Channel { is_encrypted: matches!(server, Stream::Tls(_)), digest };
        let shelf = shared.catalogs.shelf(&parameters.database);
        let mut state =
            Box::new(Session::new(&parameters, shared.surroundings(), Box::new(System::default())));
        let mut login = Login {
            binding: Binding::between(client, &credentials.acceptor, &server),
            client: client.halves(),
            server: server.halves(),
            from_client,
            from_server: received,
            backend_key: Vec::new(),
            console: false,
        };
        let authenticated = async {
            if let Some(proof) = proof {
                auth_login::log_in(&mut login, &proof, channel).await?;
            }
            login.authenticate(&mut state, &mut admission).await
        };
        self.in_time(Stage::LoggingIn, Box::pin(authenticated)).await?;
        let route = shared.routes.remember(&login.backend_key, machine.clone());
        // What is not, or not only, SQL.
        let foreign = parameters.replication || login.console;
        let prepared = async {
            if !foreign {
                login.learn(&mut state, &shelf, shared).await?;
            }
            login.release().await
        };
        self.unless_ending(Stage::LoggingIn, Box::pin(prepared)).await?;
        tracing::info!(
            user = parameters.user,
            database = parameters.database,
            application = parameters.application,
            host = %machine.host,
            replication = parameters.replication,
            "session"
        );
        let (from_client, from_server) = (login.from_client, login.from_server);
        Ok(Box::new(Entrance {
            server,
            from_client,
            from_server,
            shelf,
            session: state,
            records: Records::new(self.origin(&parameters, address)),
            reads: !foreign,
            _admission: admission,
            _route: route,
        }))
    }

    fn origin(&self, parameters: &Parameters, address: &str) -> Origin {
        let Parameters { user, database, application, .. } = parameters;
        Origin::new(database, address, user, application, &self.session)
    }
}

/// A client that has been let in, and what its session takes along. All else that the login took is released.
struct Entrance<'a> {
    server: Stream,
    from_client: Buffer,
    from_server: Buffer,
    shelf: Arc<Shelf>,
    session: Box<Session>,
    records: Records,
    /// Its statements are SQL.
    reads: bool,
    _admission: Admission<'a>,
    /// Until the session's end the client may ask to cancel.
    _route: Option<Remembered<'a, Machine>>,
}

/// Relays until the session is over, however that comes about.
async fn relay(
    link: &Link<'_>,
    up: &mut Upward<'_, ReadHalf<'_>, WriteHalf<'_>>,
    down: &mut Downward<'_, ReadHalf<'_>, WriteHalf<'_>>,
) {
    let ended = pumps::run(up, down).await;
    if let Ended::ByUs = ended {
        Box::pin(farewell::part(up, down)).await;
    }
    link.close();
    match ended {
        Ended::Over(Ok(())) => {}
        Ended::Over(Err(error)) => tracing::debug!(%error, "session ended"),
        Ended::ByUs => tracing::debug!("session ended, since the proxy ends"),
    }
}

/// What a client that is asked to prove itself may bind its proof to.
fn channel_of(client: &Stream, credentials: &Credentials) -> Option<Vec<u8>> {
    let leaf = credentials.acceptor.leaf().filter(|_| matches!(client, Stream::Tls(_)));
    leaf.and_then(tls_certificate::end_point_digest)
}
