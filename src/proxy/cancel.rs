//! Requests to cancel: each goes, as it came, to the server that its session is on.

use super::stream::Stream;
use super::tls_connect::Connector;
use super::{Config, Shared, upstream};
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Requests under way at one time. Each takes the server a process of its own for a moment.
pub(super) const MOST: usize = 32;
/// How long a request waits for its turn before it is dropped.
const TURN: Duration = Duration::from_secs(1);
/// How long the server may take to close the connection, which says that it has passed the signal on.
const ANSWER: Duration = Duration::from_secs(2);
/// In front of the key: the length and the code of the request.
const HEAD: usize = 8;

/// Forwards a request to cancel. The client learns nothing of it but the end of the connection.
pub(super) async fn forward(packet: &[u8], connector: &Connector, shared: &Shared) {
    let Ok(Ok(_turn)) = tokio::time::timeout(TURN, shared.cancels.acquire()).await else {
        shared.counters.cancels_dropped_total.increment();
        return tracing::warn!("too many requests to cancel at a time: one was dropped");
    };
    match send(packet, connector, shared).await {
        Ok(()) => shared.counters.cancels_total.increment(),
        Err(error) => {
            shared.counters.upstream_errors_total.increment("cancel");
            tracing::warn!(%error, "a request to cancel could not be forwarded");
        }
    }
}

async fn send(packet: &[u8], connector: &Connector, shared: &Shared) -> io::Result<()> {
    let config = &shared.config;
    let mut server = match shared.routes.find(packet.get(HEAD..).unwrap_or_default()) {
        Some(machine) => upstream::send_only(&machine, config, connector, packet).await?,
        None => send_anywhere(packet, connector, config).await?,
    };
    let mut nothing = [0; 16];
    let _ = tokio::time::timeout(ANSWER, server.halves().0.read(&mut nothing)).await;
    Ok(())
}

/// A session that began before this process did, or none at all: the first server that can be reached judges.
async fn send_anywhere(packet: &[u8], connector: &Connector, config: &Config) -> io::Result<Stream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for host in &config.upstream {
        for machine in host.machines(config.connect_timeout).await.unwrap_or_default() {
            match upstream::send_only(&machine, config, connector, packet).await {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}
