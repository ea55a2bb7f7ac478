//! Knows how to open one client connection and how to be sure that it is closed again.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};

use crate::embedded::{DATABASE, USER};

/// The first connection loads the embedded server's WebAssembly, which takes a slow machine some seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// One connection and the task that drives it.
pub struct Connection {
    pub client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Connection {
    /// Connects to `addr`, which is the server or untwin: a client cannot tell them apart.
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        let mut config = Config::new();
        config
            .host(addr.ip().to_string())
            .port(addr.port())
            .user(USER)
            .dbname(DATABASE)
            .application_name("quickstart");
        let connecting = tokio::time::timeout(CONNECT_WITHIN, config.connect(NoTls));
        let (client, connection) = connecting
            .await
            .map_err(|_| {
                anyhow!("no answer from {addr} within {CONNECT_WITHIN:?}; is another client connected?")
            })?
            .with_context(|| format!("cannot connect to {addr}"))?;
        let driver = tokio::spawn(connection);
        Ok(Self { client, driver })
    }

    /// Says goodbye and waits until it has been said: the embedded server serves one connection at a time.
    pub async fn close(self) -> Result<()> {
        drop(self.client);
        tokio::time::timeout(CLOSE_WITHIN, self.driver)
            .await
            .map_err(|_| anyhow!("the connection did not close within {CLOSE_WITHIN:?}"))??
            .context("the connection ended with an error")
    }
}
