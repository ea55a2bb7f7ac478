//! One client connection from accept to close.

use super::buffer::Buffer;
use super::handshake::{self, Login, LoginError, Opening};
use super::records::Records;
use super::relay::{Downward, Link, Upward};
use super::stream::Stream;
use super::{Shared, address};
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
    let opening = tokio::time::timeout_at(deadline, handshake::opening(client))
        .await
        .map_err(|_| LoginError::Slow(limit))??;
    let (packet, parameters) = match opening {
        Opening::Cancel { packet } => return cancel(&packet, shared).await,
        Opening::Session { packet, parameters } => (packet, parameters),
    };
    let (mut server, host) =
        address::connect_any(&shared.config.upstream, shared.config.connect_timeout).await?;
    server.halves().1.write_all(&packet).await?;
    if parameters.replication {
        tracing::info!(user = parameters.user, %host, "replication connection: relayed without inspection");
        return relay_raw(client, &mut server).await;
    }
    let shelf = shared.catalogs.shelf(&parameters.database);
    let mut state = Session::new(&parameters, shared.surroundings(), Box::new(System::default()));
    let mut login = Login {
        client: client.halves(),
        server: server.halves(),
        from_client: Buffer::default(),
        from_server: Buffer::default(),
    };
    tokio::time::timeout_at(deadline, login.authenticate(&mut state))
        .await
        .map_err(|_| LoginError::Slow(limit))??;
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
async fn cancel(packet: &[u8], shared: &Shared) -> Result<(), LoginError> {
    for host in &shared.config.upstream {
        let Ok(Ok(mut server)) = tokio::time::timeout(shared.config.connect_timeout, host.connect()).await
        else {
            continue;
        };
        server.halves().1.write_all(packet).await?;
        // The server closes when it has passed the signal on: the client may rely on that.
        let mut nothing = [0; 16];
        let _ = tokio::time::timeout(LINGER, server.halves().0.read(&mut nothing)).await;
        return Ok(());
    }
    Ok(())
}

async fn relay_raw(client: &mut Stream, server: &mut Stream) -> Result<(), LoginError> {
    let (mut client_reader, mut client_writer) = client.halves();
    let (mut server_reader, mut server_writer) = server.halves();
    let up = async {
        tokio::io::copy(&mut client_reader, &mut server_writer).await?;
        server_writer.shutdown().await
    };
    let down = async {
        tokio::io::copy(&mut server_reader, &mut client_writer).await?;
        client_writer.shutdown().await
    };
    tokio::try_join!(up, down)?;
    Ok(())
}

async fn say_goodbye(client: &mut Stream, reply: &[u8]) {
    let mut writer = client.halves().1;
    if writer.write_all(reply).await.is_ok() && writer.shutdown().await.is_ok() {
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
