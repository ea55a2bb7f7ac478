//! Where clients come in.

use super::stream::Stream;
use super::{Address, Config, Reloader, Shared, catalogs, connection, rules};
use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// A proxy that listens. Nothing is accepted before [`Proxy::serve`].
pub struct Proxy {
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// How often old snapshots of the catalog are looked for.
const TICK: Duration = Duration::from_secs(1);

impl Proxy {
    /// Takes the addresses of `config.listen`.
    ///
    /// # Errors
    /// An address cannot be taken; the error names it.
    pub async fn bind(config: Config, journal: Journal, counters: Arc<Counters>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for address in &config.listen {
            let listener = Listener::bind(address).await;
            listeners.push(listener.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?);
        }
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let rules = rules::Current::new(config.rules.clone());
        let shared = Shared {
            config,
            rules,
            journal,
            counters,
            catalogs: catalogs::Catalogs::default(),
            seed: u64::from_ne_bytes(seed),
        };
        Ok(Self { listeners, shared: Arc::new(shared) })
    }

    /// The addresses that were taken, port 0 replaced by the port that was free.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let taken = |(listener, asked): (&Listener, &Address)| match listener {
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::from),
            Listener::Unix(..) => asked.clone(),
        };
        self.listeners.iter().zip(&self.shared.config.listen).map(taken).collect()
    }

    /// Changes the rules later on.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.shared))
    }

    /// Serves clients until `stop` completes, then stops accepting. Sessions that are open go on as tasks
    /// of the runtime.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listeners, shared } = self;
        let number = Arc::new(AtomicU64::new(1));
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| tokio::spawn(accept(listener, Arc::clone(&shared), Arc::clone(&number))))
            .collect();
        let ticking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                shared.catalogs.expire(shared.rules.get().catalog_ttl);
            }
        });
        stop.await;
        ticking.abort();
        accepting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Listener {
    async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => Ok(Self::Tcp(TcpListener::bind((host.as_str(), *port)).await?)),
            Address::Unix { directory, port } => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                if path.exists() && tokio::net::UnixStream::connect(&path).await.is_err() {
                    // Left behind by a process that is gone.
                    std::fs::remove_file(&path)?;
                }
                Ok(Self::Unix(UnixListener::bind(&path)?, path))
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), peer.to_string()))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), "local".to_owned()))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn accept(listener: Listener, shared: Arc<Shared>, number: Arc<AtomicU64>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let number = number.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection::serve(stream, address, number, Arc::clone(&shared)));
            }
            Err(error) => {
                // Out of file descriptors, most likely: sessions that end make room.
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
