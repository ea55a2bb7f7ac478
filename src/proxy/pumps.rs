//! Runs the two pumps of a session until one side, or the proxy itself, ends it.

use super::farewell;
use super::relay::{Downward, Upward};
use std::io;

/// How a session ended.
pub(super) enum Ended {
    /// One side closed its connection, or it broke.
    Over(io::Result<()>),
    /// The proxy is being shut down.
    ByUs,
}

/// Runs both pumps, until the session is over or has to be ended.
pub(super) async fn run<A, B, C, D>(up: &mut Upward<'_, A, B>, down: &mut Downward<'_, C, D>) -> Ended
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
