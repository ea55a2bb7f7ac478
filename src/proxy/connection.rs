//! One client connection from accept to close.

use super::buffer::Buffer;
use super::entropy::System;
use super::guests::Guest;
use super::handshake::{self, Login, LoginError, Opening};
use super::records::Records;
use super::relay::{Downward, Link, Upward};
use super::shutdown::GRACE;
use super::stream::Stream;
use super::{Shared, cancel, farewell, machine, origin};
use crate::journal::record::Origin;
use crate::session::Session;
use crate::wire::startup::Parameters;
use std::io;
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
    let deadline = Instant::now() + shared.config.login_timeout;
    let address = match address(&mut client, peer, deadline, &shared).await {
        Ok(address) => address,
        Err(error) => {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, %error, blame = error.blame(), "a connection that does not say whose it is");
            return turn_away(&mut client, &error, &shared).await;
        }
    };
    let session = format!("{:08x}{:08x}", shared.seed as u32, number as u32);
    let span = tracing::info_span!("session", session = session.as_str(), client = address.as_str());
    async {
        shared.counters.sessions_total.increment();
        shared.counters.sessions_open.increment();
        match login_and_relay(&mut client, address, session, deadline, &shared).await {
            Ok(()) => {}
            Err(error) => {
                match &error {
                    LoginError::Closed => tracing::debug!(%error, "login ended"),
                    LoginError::Upstream(_) => {
                        shared.counters.upstream_errors_total.increment("connect");
                        tracing::error!(%error, blame = error.blame(), "login failed");
                    }
                    _ => tracing::warn!(%error, blame = error.blame(), "login failed"),
                }
                turn_away(&mut client, &error, &shared).await;
            }
        }
        shared.counters.sessions_open.decrement();
    }
    .instrument(span)
    .await;
}

async fn turn_away(client: &mut Stream, error: &LoginError, shared: &Shared) {
    shared.counters.sessions_refused_total.increment(error.blame());
    if let Some(reply) = error.reply() {
        farewell::refuse(client, &reply, shared.linger()).await;
    }
}

/// The client's address, for people: as it is, or as a load balancer says.
async fn address(
    client: &mut Stream,
    peer: Option<SocketAddr>,
    deadline: Instant,
    shared: &Shared,
) -> Result<String, LoginError> {
    let Some(peer) = peer else { return Ok(LOCAL.to_owned()) };
    if shared.config.balancers.is_empty() {
        return Ok(peer.to_string());
    }
    let slow = |_| LoginError::Slow(shared.config.login_timeout);
    let announced = origin::announced(client, peer, &shared.config.balancers);
    let announced = async { Ok(tokio::time::timeout_at(deadline, announced).await.map_err(slow)??) };
    Ok(unless_ending(shared, false, announced).await?.to_string())
}

async fn login_and_relay(
    client: &mut Stream,
    address: String,
    session: String,
    deadline: Instant,
    shared: &Arc<Shared>,
) -> Result<(), LoginError> {
    let slow = |_| LoginError::Slow(shared.config.login_timeout);
    let opening =
        async { tokio::time::timeout_at(deadline, handshake::opening(client)).await.map_err(slow)? };
    let opening = unless_ending(shared, false, opening).await?;
    let (packet, parameters) = match opening {
        Opening::Cancel { packet } => {
            cancel::forward(&packet, shared).await;
            return Ok(());
        }
        Opening::Session { packet, parameters } => (packet, parameters),
    };
    let _admission = shared.guests.admit(&parameters.user, shared.config.session_limits)?;
    let config = &shared.config;
    let connecting = async {
        let (mut server, machine) =
            machine::connect_any(&config.upstream, config.connect_timeout, &config.tcp).await?;
        server.halves().1.write_all(&packet).await?;
        Ok((server, machine))
    };
    let (mut server, machine) = unless_ending(shared, true, connecting).await?;
    let shelf = shared.catalogs.shelf(&parameters.database);
    let mut state = Session::new(&parameters, shared.surroundings(), Box::new(System::default()));
    let mut login = Login {
        client: client.halves(),
        server: server.halves(),
        from_client: Buffer::default(),
        from_server: Buffer::default(),
        backend_key: Vec::new(),
    };
    let authenticating =
        async { tokio::time::timeout_at(deadline, login.authenticate(&mut state)).await.map_err(slow)? };
    unless_ending(shared, true, authenticating).await?;
    // Until the session's end: from here on the client may ask to cancel.
    let _route = shared.routes.remember(&login.backend_key, machine.clone());
    let preparing = async {
        if !parameters.replication {
            login.learn(&mut state, &shelf, shared).await?;
        }
        login.release().await
    };
    unless_ending(shared, true, preparing).await?;
    tracing::info!(
        user = parameters.user,
        database = parameters.database,
        application = parameters.application,
        host = %machine.host,
        replication = parameters.replication,
        "session"
    );
    let records = Records::new(origin_of(&parameters, &address, &session));
    let link = Link::new(shared, &shelf, state, records);
    if parameters.replication {
        // What follows is not, or not only, SQL.
        link.do_not_read();
    }
    let Login {
        client: (client_reader, client_writer),
        server: (server_reader, server_writer),
        from_client,
        from_server,
        ..
    } = login;
    let mut up = Upward::new(&link, client_reader, server_writer, from_client);
    let mut down = Downward::new(&link, server_reader, client_writer, from_server);
    let ended = run(&mut up, &mut down).await;
    if let Ended::ByUs = ended {
        farewell::part(&mut up, &mut down).await;
    }
    link.close();
    match ended {
        Ended::Over(Ok(())) => {}
        Ended::Over(Err(error)) => tracing::debug!(%error, "session ended"),
        Ended::ByUs => tracing::debug!("session ended, since the proxy ends"),
    }
    drop((up, down));
    farewell::linger(client, shared.linger()).await;
    Ok(())
}

/// Does a part of a login, unless the proxy ends before it is done. `patient` says that the client has said
/// what it wants: then it is given until the very end.
async fn unless_ending<T>(
    shared: &Shared,
    patient: bool,
    part: impl Future<Output = Result<T, LoginError>>,
) -> Result<T, LoginError> {
    let over = async {
        shared.shutdown.draining.taken().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        done = part => done,
        () = over, if !patient => Err(LoginError::Ending),
        () = shared.shutdown.ending.taken() => Err(LoginError::Ending),
    }
}

fn origin_of(parameters: &Parameters, address: &str, session: &str) -> Origin {
    Origin::new(&parameters.database, address, &parameters.user, &parameters.application, session)
}

/// How a session ended.
enum Ended {
    /// One side closed its connection, or it broke.
    Over(io::Result<()>),
    /// The proxy is being shut down.
    ByUs,
}

/// Runs both pumps, until the session is over or has to be ended.
async fn run<A, B, C, D>(up: &mut Upward<'_, A, B>, down: &mut Downward<'_, C, D>) -> Ended
where
    A: tokio::io::AsyncRead + Unpin,
    B: tokio::io::AsyncWrite + Unpin,
    C: tokio::io::AsyncRead + Unpin,
    D: tokio::io::AsyncWrite + Unpin,
{
    let link = up.link;
    tokio::select! {
        biased;
        ended = pump(up, down) => Ended::Over(ended),
        () = link.at_rest() => Ended::ByUs,
        () = link.shared.shutdown.ending.taken() => Ended::ByUs,
    }
}

/// The session is over when the server has closed it, or when either side breaks.
async fn pump<A, B, C, D>(up: &mut Upward<'_, A, B>, down: &mut Downward<'_, C, D>) -> io::Result<()>
where
    A: tokio::io::AsyncRead + Unpin,
    B: tokio::io::AsyncWrite + Unpin,
    C: tokio::io::AsyncRead + Unpin,
    D: tokio::io::AsyncWrite + Unpin,
{
    let down = down.run();
    let up = up.run();
    tokio::pin!(down, up);
    tokio::select! {
        ended = &mut down => ended,
        ended = &mut up => match ended {
            // The client is done sending; the server may still have something to say.
            Ok(()) => down.await,
            Err(error) => {
                // The server's last words (a FATAL error) may be why the writer broke.
                let _ = tokio::time::timeout(farewell::LINGER, down).await;
                Err(error)
            }
        },
    }
}
