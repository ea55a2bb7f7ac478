//! Knows how to start and stop the embedded Postgres; knows nothing of batches or of untwin.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use pglite_oxide::PgliteServer;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// The user and the database that the embedded server comes with.
pub const USER: &str = "postgres";
pub const DATABASE: &str = "postgres";

/// How long the server may take to notice that its last client has gone.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// A Postgres that lives in this process, on a free loopback port, with its data in a temporary directory.
/// It serves one connection at a time; a second one waits until the first is closed.
pub struct Embedded {
    server: PgliteServer,
    addr: SocketAddr,
    directory: TempDir,
}

impl Embedded {
    /// Unpacks and starts the server. The first start on a machine also fills the crate's cache.
    pub async fn start() -> Result<Self> {
        let directory = temporary_directory()?;
        let builder = PgliteServer::builder().path(directory.path().join("postgres"));
        let server = tokio::task::spawn_blocking(|| builder.start()).await?.context(
            "the embedded Postgres did not start; it needs about 100 MB in a writable cache directory \
             (set HOME or XDG_CACHE_HOME to one) and as much in the temporary one (set TMPDIR)",
        )?;
        let addr = server.tcp_addr().context("the embedded Postgres has no TCP address")?;
        Ok(Self { server, addr, directory })
    }

    /// Where it listens: loopback, a port chosen by the system.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops the server and removes its data. A client that is still connected keeps the server's thread busy, so
    /// after [`STOP_WITHIN`] the data is removed from under it: the process is about to end.
    pub async fn stop(self) -> Result<()> {
        let Self { server, directory, .. } = self;
        let (tell, told) = oneshot::channel();
        // A thread of its own: at its end the runtime would wait for a blocking task, and with it for the client.
        std::thread::spawn(move || tell.send(server.shutdown()));
        if let Ok(stopped) = tokio::time::timeout(STOP_WITHIN, told).await {
            stopped?.context("the embedded Postgres did not stop cleanly")?;
        }
        let path = directory.path().to_owned();
        directory.close().with_context(|| format!("please remove {} yourself", path.display()))
    }
}

/// A directory that is removed at the end.
pub fn temporary_directory() -> Result<TempDir> {
    TempDir::with_prefix("untwin-quickstart-").context("no temporary directory; set TMPDIR to a writable one")
}
