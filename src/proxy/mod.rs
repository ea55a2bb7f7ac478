//! Sockets: accepts clients, logs them in at the server, and relays both ways. Decides nothing about keys.

mod address;
mod auth_binding;
mod auth_client;
mod auth_login;
mod auth_scram;
mod auth_users;
mod buffer;
mod catalogs;
mod connection;
mod credentials;
mod handshake;
mod listen;
mod opening;
mod records;
mod relay;
mod rules;
mod stream;
pub mod tls;
mod tls_certificate;
mod tls_connect;
mod tls_listen;
mod upstream;

pub use address::{Address, UpstreamError, escaped};
pub use listen::Proxy;
pub use rules::{Reloader, Rules};

use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// What the proxy needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect to.
    pub listen: Vec<Address>,
    /// The database server: one or several addresses, tried in order.
    pub upstream: Vec<Address>,
    /// Whether and how connections to it are encrypted.
    pub upstream_tls: tls::UpstreamTls,
    /// Whether and how clients' connections are encrypted.
    pub client_tls: tls::ClientTls,
    /// The users whom the proxy authenticates itself; `None`: the server does, and the proxy relays.
    pub auth_file: Option<PathBuf>,
    /// How long one attempt to reach the server may take.
    pub connect_timeout: Duration,
    /// How long a client may take from its first byte to a session that is ready for queries.
    pub login_timeout: Duration,
    /// What may change later: see [`Reloader`].
    pub rules: Rules,
}

/// What all connections share.
pub(crate) struct Shared {
    pub config: Config,
    /// Those of the configuration at first.
    pub rules: rules::Current,
    pub journal: Journal,
    pub counters: Arc<Counters>,
    pub catalogs: catalogs::Catalogs,
    /// Locked for a moment, to take or to replace what it holds.
    pub credentials: RwLock<Arc<credentials::Credentials>>,
    /// Secret of this process, for hashes.
    pub seed: u64,
}

impl Shared {
    /// What a connection that begins now is to use until it ends.
    pub fn credentials(&self) -> Arc<credentials::Credentials> {
        Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner))
    }
}
