//! One client connection from accept to close.

use super::auth_binding::Binding;
use super::auth_login::{self, Channel};
use super::buffer::Buffer;
use super::credentials::Credentials;
use super::handshake::{Login, LoginError};
use super::opening::{self, Opening};
use super::records::Records;
use super::relay::{Downward, Link, Upward};
use super::stream::{Stream, send};
use super::{Shared, auth_client, tls_certificate, upstream};
use crate::journal::record::Origin;
use crate::rekey::fresh::System;
use crate::session::Session;
use crate::wire::startup::Parameters;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Instrument;

/// After the last byte for the client, how long the proxy waits for the client to close, so that the
/// system does not cut off what is still on its way.
const LINGER: Duration = Duration::from_secs(2);

/// Serves one client. Returns when both sides are closed.
pub(super) async fn serve(mut client: Stream, address: String, number: u64, shared: Arc<Shared>) {
    let session = format!("{:08x}{:08x}", shared.seed as u32, number as u32);
    let span = tracing::info_span!("session", session = session.as_str(), client = address.as_str());
    async {
        shared.counters.sessions_total.increment();
        shared.counters.sessions_open.increment();
        match login_and_relay(&mut client, address, session, &shared).await {
            Ok(()) => {}
            Err(error) => {
                shared.counters.sessions_refused_total.increment(error.blame());
                match &error {
                    LoginError::Closed => tracing::debug!(%error, "login ended"),
                    LoginError::Upstream(_) => {
                        shared.counters.upstream_errors_total.increment("connect");
                        tracing::error!(%error, blame = error.blame(), "login failed");
                    }
                    _ => tracing::warn!(%error, blame = error.blame(), "login failed"),
                }
                if let Some(reply) = error.reply() {
                    say_goodbye(&mut client, &reply).await;
                }
            }
        }
        shared.counters.sessions_open.decrement();
    }
    .instrument(span)
    .await;
}

async fn login_and_relay(
    client: &mut Stream,
    address: String,
    session: String,
    shared: &Arc<Shared>,
) -> Result<(), LoginError> {
    let limit = shared.config.login_timeout;
    let deadline = tokio::time::Instant::now() + limit;
    let credentials = shared.credentials();
    let opening = tokio::time::timeout_at(deadline, opening::opening(client, &credentials.acceptor))
        .await
        .map_err(|_| LoginError::Slow(limit))??;
    let (packet, parameters) = match opening {
        Opening::Cancel { packet } => {
            cancel(&packet, &credentials, shared).await?;
            // Within TLS the end is announced.
            return Ok(client.halves().1.shutdown().await?);
        }
        Opening::Session { packet, parameters } => (packet, parameters),
    };
    let mut from_client = Buffer::default();
    let proof = match &credentials.users {
        None => None,
        Some(users) => {
            let channel = channel_of(client, &credentials);
            let ask = auth_client::ask(client, &mut from_client, users, &parameters.user, channel.as_deref());
            let asked = tokio::time::timeout_at(deadline, ask).await;
            Some(asked.map_err(|_| LoginError::Slow(limit))??)
        }
    };
    let opened = upstream::open(&shared.config, &credentials.connector, &packet).await?;
    let upstream::Opened { stream: mut server, received, host } = opened;
    let shelf = shared.catalogs.shelf(&parameters.database);
    let mut state = Session::new(&parameters, shared.surroundings(), Box::new(System::default()));
    let digest = server.peer_certificate().and_then(tls_certificate::end_point_digest);
    let channel = Channel { is_encrypted: matches!(server, Stream::Tls(_)), digest };
    let mut login = Login {
        binding: Binding::between(client, &credentials.acceptor, &server),
        client: client.halves(),
        server: server.halves(),
        from_client,
        from_server: received,
    };
    if let Some(proof) = proof {
        let answered =
            tokio::time::timeout_at(deadline, auth_login::log_in(&mut login, &proof, channel)).await;
        answered.map_err(|_| LoginError::Slow(limit))??;
    }
    tokio::time::timeout_at(deadline, login.authenticate(&mut state))
        .await
        .map_err(|_| LoginError::Slow(limit))??;
    if parameters.replication {
        tracing::info!(user = parameters.user, %host, "replication connection: relayed without inspection");
        return relay_raw(login).await;
    }
    login.learn(&mut state, &shelf, shared).await?;
    login.release().await?;
    tracing::info!(
        user = parameters.user,
        database = parameters.database,
        application = parameters.application,
        %host,
        "session"
    );
    let records = Records::new(origin(&parameters, &address, &session));
    let link = Link::new(shared, &shelf, state, records);
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
    link.close();
    if let Err(error) = &ended {
        tracing::debug!(%error, "session ended");
    }
    drop((up, down));
    linger(client).await;
    Ok(())
}

/// What a client that is asked to prove itself may bind its proof to.
fn channel_of(client: &Stream, credentials: &Credentials) -> Option<Vec<u8>> {
    let leaf = credentials.acceptor.leaf().filter(|_| matches!(client, Stream::Tls(_)));
    leaf.and_then(tls_certificate::end_point_digest)
}

fn origin(parameters: &Parameters, address: &str, session: &str) -> Origin {
    Origin::new(&parameters.database, address, &parameters.user, &parameters.application, session)
}

/// Runs both pumps. The session is over when the server has closed it, or when either side breaks.
async fn run<A, B, C, D>(up: &mut Upward<'_, A, B>, down: &mut Downward<'_, C, D>) -> io::Result<()>
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
                let _ = tokio::time::timeout(LINGER, down).await;
                Err(error)
            }
        },
    }
}

/// A cancel request goes where the sessions go, with the server's own key, on a connection of its own.
async fn cancel(packet: &[u8], credentials: &Credentials, shared: &Shared) -> Result<(), LoginError> {
    let Ok(opened) = upstream::open(&shared.config, &credentials.connector, packet).await else {
        return Ok(());
    };
    let mut server = opened.stream;
    // The server closes when it has passed the signal on: the client may rely on that.
    let mut nothing = [0; 16];
    let _ = tokio::time::timeout(LINGER, server.halves().0.read(&mut nothing)).await;
    Ok(())
}

/// Relays what follows a login, unread.
async fn relay_raw(login: Login<'_>) -> Result<(), LoginError> {
    let Login {
        client: (mut client_reader, mut client_writer),
        server: (mut server_reader, mut server_writer),
        ..
    } = login;
    let up = async {
        send(&mut server_writer, login.from_client.filled()).await?;
        tokio::io::copy(&mut client_reader, &mut server_writer).await?;
        server_writer.shutdown().await
    };
    let down = async {
        send(&mut client_writer, login.from_server.filled()).await?;
        tokio::io::copy(&mut server_reader, &mut client_writer).await?;
        client_writer.shutdown().await
    };
    tokio::try_join!(up, down)?;
    Ok(())
}

async fn say_goodbye(client: &mut Stream, reply: &[u8]) {
    let mut writer = client.halves().1;
    if send(&mut writer, reply).await.is_ok() && writer.shutdown().await.is_ok() {
        linger(client).await;
    }
}

/// Reads on until the client has closed, for a moment: closing with unread bytes would reset the
/// connection and take the last reply along.
async fn linger(client: &mut Stream) {
    let mut reader = client.halves().0;
    let mut nothing = [0; 1024];
    let drained = async { while reader.read(&mut nothing).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(LINGER, drained).await;
}
