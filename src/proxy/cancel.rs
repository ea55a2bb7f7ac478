//! Requests to cancel: each goes, as it came, to the server that its session is on.

use super::Shared;
use super::machine;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Requests under way at one time. Each takes the server a process of its own for a moment.
pub(super) const MOST: usize = 32;
/// How long a request waits for its turn before it is dropped.
const TURN: Duration = Duration::from_secs(1);
/// How long the server may take to close the connection, which says that it has passed the signal on.
const ANSWER: Duration = Duration::from_secs(2);
/// In front of the key: the length and the code of the request.
const HEAD: usize = 8;

/// Forwards a request to cancel. The client learns nothing of it but the end of the connection.
pub(super) async fn forward(packet: &[u8], shared: &Shared) {
    let Ok(Ok(_turn)) = tokio::time::timeout(TURN, shared.cancels.acquire()).await else {
        shared.counters.cancels_dropped_total.increment();
        return tracing::warn!("too many requests to cancel at a time: one was dropped");
    };
    match send(packet, shared).await {
        Ok(()) => shared.counters.cancels_total.increment(),
        Err(error) => {
            shared.counters.upstream_errors_total.increment("cancel");
            tracing::warn!(%error, "a request to cancel could not be forwarded");
        }
    }
}

async fn send(packet: &[u8], shared: &Shared) -> io::Result<()> {
    let known = shared.routes.find(packet.get(HEAD..).unwrap_or_default());
    let (limit, tcp) = (shared.config.connect_timeout, &shared.config.tcp);
    let mut server = match &known {
        Some(place) => place.connect_within(limit, tcp).await?,
        // A session that began before this process did, or none at all.
        None => machine::connect_any(&shared.config.upstream, limit, tcp).await.map_err(io::Error::other)?.0,
    };
    server.halves().1.write_all(packet).await?;
    let mut nothing = [0; 16];
    let _ = tokio::time::timeout(ANSWER, server.halves().0.read(&mut nothing)).await;
    Ok(())
}
