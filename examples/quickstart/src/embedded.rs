//! Knows how to start and stop the embedded Postgres; knows nothing of batches or of untwin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use pglite_oxide::PgliteServer;
use tokio::sync::oneshot;

/// The user and the database that the embedded server comes with.
pub const USER: &str = "postgres";
pub const DATABASE: &str = "postgres";

/// How long the server may take to notice that its last client has gone.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A Postgres that lives in this process, on a free loopback port, with its data in a temporary directory.
/// It serves one connection at a time; a second one waits until the first is closed.
pub struct Embedded {
    server: PgliteServer,
    addr: SocketAddr,
    data: PathBuf,
}

impl Embedded {
    /// Unpacks and starts the server. The first start of a machine also fills the crate's cache.
    pub async fn start() -> Result<Self> {
        let server = tokio::task::spawn_blocking(PgliteServer::temporary_tcp)
            .await?
            .context(
                "the embedded Postgres did not start; it needs about 100 MB in a writable cache directory \
                 (set HOME or XDG_CACHE_HOME to one) and a writable temporary directory (set TMPDIR)",
            )?;
        let addr = server
            .tcp_addr()
            .context("the embedded Postgres has no TCP address")?;
        let data = server.root().to_owned();
        Ok(Self { server, addr, data })
    }

    /// Where it listens: loopback, a port chosen by the system.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops the server and removes its data. A client that is still connected keeps the server's thread busy, so
    /// after [`STOP_WITHIN`] the data is removed from under it: the process is about to end.
    pub async fn stop(self) -> Result<()> {
        let Self { server, data, .. } = self;
        let (tell, told) = oneshot::channel();
        // A thread of its own: at its end the runtime would wait for a blocking task, and with it for the client.
        std::thread::spawn(move || tell.send(server.shutdown()));
        match tokio::time::timeout(STOP_WITHIN, told).await {
            Ok(stopped) => stopped?.context("the embedded Postgres did not stop cleanly"),
            Err(_still_busy) => std::fs::remove_dir_all(&data)
                .with_context(|| format!("please remove {} yourself", data.display())),
        }
    }
}
