//! Where clients come in.

use super::credentials::Credentials;
use super::hosts::Hosts;
use super::listener::Listener;
use super::shutdown::{LAST_WORDS, Shutdown};
use super::stream::Stream;
use super::workers::Workers;
use super::{Address, Config, Reloader, Shared, cancel, catalogs, connection, rules};
use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use crate::live::routes::Routes;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// A proxy that listens. Nothing is accepted before [`Proxy::serve`].
pub struct Proxy {
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
    workers: Workers,
}

/// How often old snapshots of the catalog and idle sessions of the proxy's own are looked for.
const TICK: Duration = Duration::from_secs(1);
/// How often a shutdown that takes its time says so.
const PROGRESS: Duration = Duration::from_secs(5);

impl Proxy {
    /// Takes the addresses of `config.listen`.
    ///
    /// # Errors
    /// An address cannot be taken, or a file of certificates cannot be used; the error names it.
    pub async fn bind(config: Config, journal: Journal, counters: Arc<Counters>) -> io::Result<Self> {
        let mut mock_key = [0; 32];
        getrandom::fill(&mut mock_key).map_err(io::Error::other)?;
        let credentials = Credentials::load(&config, mock_key).map_err(io::Error::other)?;
        let mut listeners = Vec::new();
        for address in &config.listen {
            let listener = Listener::bind(address, config.listen_options).await;
            listeners.push(listener.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?);
        }
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let rules = rules::Current::new(config.rules.clone());
        let hosts = Hosts::new(&config.upstream);
        let shared = Shared {
            config,
            rules,
            journal,
            counters,
            catalogs: catalogs::Catalogs::default(),
            credentials: RwLock::new(Arc::new(credentials)),
            hosts,
            routes: Routes::default(),
            cancels: tokio::sync::Semaphore::new(cancel::MOST),
            guests: Arc::default(),
            shutdown: Shutdown::default(),
            seed: u64::from_ne_bytes(seed),
        };
        Ok(Self { listeners, shared: Arc::new(shared), workers: Workers::default() })
    }

    /// Has connections served by threads of their own, instead of the runtime that accepts them.
    #[must_use]
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { workers, ..self }
    }

    /// The addresses that were taken, port 0 replaced by the port that was free.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let asked = &self.shared.config.listen;
        self.listeners.iter().zip(asked).map(|(listener, asked)| listener.address(asked)).collect()
    }

    /// What can be changed while it serves.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.shared))
    }

    /// Serves clients until `drain` completes. Then nobody is let in any more, and each session is ended when
    /// it is outside a transaction; after `drain_timeout`, or when `stop` completes, whatever it does.
    /// Returns when all sessions have ended.
    pub async fn serve(self, drain: impl Future<Output = ()>, stop: impl Future<Output = ()>) {
        let Self { listeners, shared, workers } = self;
        let workers = Arc::new(workers);
        let number = Arc::new(AtomicU64::new(1));
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| {
                let (shared, workers) = (Arc::clone(&shared), Arc::clone(&workers));
                tokio::spawn(accept(listener, shared, workers, Arc::clone(&number)))
            })
            .collect();
        let ticking = tokio::spawn(tick(Arc::clone(&shared)));
        tokio::pin!(stop);
        let at_once = tokio::select! {
            () = drain => false,
            () = &mut stop => true,
        };
        shared.counters.draining.increment();
        if at_once {
            shared.shutdown.ending.take();
        }
        shared.shutdown.draining.take();
        for task in accepting {
            let _ = task.await;
        }
        if !at_once {
            let limit = tokio::time::sleep(shared.config.drain_timeout);
            tokio::select! {
                () = shared.guests.all_gone() => {}
                () = tell_progress(&shared) => {}
                () = limit => tracing::warn!(open = shared.guests.count(), "drain_timeout is over: the remaining sessions are ended"),
                () = stop => tracing::warn!(open = shared.guests.count(), "told to stop at once: the remaining sessions are ended"),
            }
            shared.shutdown.ending.take();
        }
        let _ = tokio::time::timeout(LAST_WORDS, shared.guests.all_gone()).await;
        ticking.abort();
        tracing::info!(left = shared.guests.count(), "shut down");
    }
}

/// Says now and then how many are still in. Never returns.
async fn tell_progress(shared: &Shared) {
    loop {
        tracing::info!(
            open = shared.guests.count(),
            "shutting down: sessions end outside their transactions"
        );
        tokio::time::sleep(PROGRESS).await;
    }
}

async fn tick(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(TICK).await;
        shared.catalogs.expire(shared.rules.get().catalog_ttl);
        if let Some(users) = &shared.credentials().users {
            users.expire();
        }
    }
}

/// Lets clients in until the proxy is to drain.
async fn accept(listener: Listener, shared: Arc<Shared>, workers: Arc<Workers>, number: Arc<AtomicU64>) {
    let welcome = |(stream, peer)| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let guest = shared.guests.enter();
        if shared.guests.are_too_many(shared.config.session_limits) {
            shared.counters.sessions_refused_total.increment("too many connections");
            return;
        }
        if let Stream::Tcp(stream) = &stream {
            // Who is gone already is noticed soon enough.
            let _ = shared.config.tcp.prepare(stream);
        }
        let shared = Arc::clone(&shared);
        workers.serve(stream, move |stream| connection::serve(stream, peer, number, shared, guest));
    };
    let drain = shared.shutdown.draining.taken();
    tokio::pin!(drain);
    loop {
        let arrival = tokio::select! {
            arrival = listener.accept() => arrival,
            () = &mut drain => break,
        };
        match arrival {
            Ok(arrival) => welcome(arrival),
            Err(error) => {
                // Out of file descriptors, most likely: sessions that end make room.
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    if let Err(error) = listener.close(welcome) {
        tracing::warn!(%error, "connections that were not accepted yet are lost");
    }
}
