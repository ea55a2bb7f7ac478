//! HTTP connections and their bounds. Knows no path.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The most connections at one time; further ones wait to be accepted.
pub(super) const MOST: usize = 64;
/// How long a client may take to say what it wants.
const HEAD: Duration = Duration::from_secs(5);
/// How long a connection may last. It brings one request.
pub(super) const WHOLE: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
const LONGEST: usize = 16 << 10;

/// Answers whoever connects. Returns only when the listener cannot be used at all.
pub(super) async fn serve(listener: net::TcpListener, router: Router) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let turns = Arc::new(Semaphore::new(MOST));
    // The semaphore is never closed.
    while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    let _turn = turn;
                    let _ = tokio::time::timeout(WHOLE, answer(stream, router)).await;
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: sessions that end make room.
                tracing::debug!(%error, "the admin listener could not accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}

/// Answers one request. What goes wrong is the client's own business.
async fn answer(stream: TcpStream, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .max_buf_size(LONGEST)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a request to the admin listener");
    }
}
