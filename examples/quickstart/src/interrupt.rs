//! Knows the signals that end this program early, so that what it started can be stopped in order.

use std::future::Future;
use std::io;

use anyhow::{Result, bail};

/// Waits for Ctrl-C or, on Unix, SIGTERM.
pub async fn wait() -> io::Result<()> {
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        terminated = terminated() => terminated,
    }
}

/// What `work` comes to.
///
/// # Errors
/// If it fails, or is interrupted first: then it is dropped.
pub async fn before<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        interrupted = wait() => {
            interrupted?;
            bail!("interrupted")
        }
    }
}

#[cfg(unix)]
async fn terminated() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

#[cfg(not(unix))]
async fn terminated() -> io::Result<()> {
    std::future::pending().await
}
