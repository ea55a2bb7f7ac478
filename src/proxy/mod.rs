//! Sockets: accepts clients, logs them in at the server, and relays both ways. Decides nothing about keys.

mod address;
mod auth_binding;
mod auth_client;
mod auth_login;
mod auth_lookup;
mod auth_scram;
mod auth_users;
mod buffer;
mod cancel;
mod catalogs;
mod connection;
mod credentials;
mod entropy;
mod farewell;
mod guests;
mod handshake;
mod hosts;
mod listen;
mod listener;
mod load_guard;
mod machine;
mod opening;
mod origin;
mod own;
mod probe;
mod pumps;
mod records;
mod relay;
mod rules;
mod shutdown;
mod socket_file;
mod stream;
mod tcp;
pub mod tls;
mod tls_certificate;
mod tls_connect;
mod tls_listen;
mod upstream;
mod workers;

pub use address::{Address, escaped};
pub use auth_lookup::AuthQuery;
pub use auth_users::Authentication;
pub use guests::SessionLimits;
pub use hosts::{Choice, Wanted};
pub use listen::Proxy;
pub use listener::ListenOptions;
pub use origin::Network;
pub use own::{Login, Own, OwnError, log_in_once};
pub use rules::{Reloader, Rules};
pub use tcp::Tcp;
pub use upstream::UpstreamError;
pub use workers::Workers;

use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use crate::live::routes::Routes;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// What the proxy needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect to.
    pub listen: Vec<Address>,
    /// How those addresses are taken.
    pub listen_options: ListenOptions,
    /// How many sessions may be open.
    pub session_limits: SessionLimits,
    /// Networks whose load balancers have to say whose a connection is (PROXY protocol).
    pub balancers: Vec<Network>,
    /// How TCP connections of both hops are kept.
    pub tcp: Tcp,
    /// The database server: one or several addresses, tried in order.
    pub upstream: Vec<Address>,
    /// Which of them a session is on.
    pub choice: Choice,
    /// Whether and how connections to it are encrypted.
    pub upstream_tls: tls::UpstreamTls,
    /// Whether and how clients' connections are encrypted.
    pub client_tls: tls::ClientTls,
    /// The users whom the proxy authenticates itself; `None`: the server does, and the proxy relays.
    pub auth: Option<Authentication>,
    /// Whether the server sees the client's address in the name of its application.
    pub application_name_add_host: bool,
    /// How long one attempt to reach the server may take.
    pub connect_timeout: Duration,
    /// How long a client may take from its first byte to a session that is ready for queries.
    pub login_timeout: Duration,
    /// How long sessions may go on once the proxy is to end.
    pub drain_timeout: Duration,
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
    pub hosts: hosts::Hosts,
    /// Where each open session is, by its cancel key.
    pub routes: Routes<machine::Machine>,
    pub guests: Arc<guests::Guests>,
    pub shutdown: shutdown::Shutdown,
    /// Turns of requests to cancel.
    pub cancels: tokio::sync::Semaphore,
    /// Locked for a moment, to take or to replace what it holds.
    pub credentials: RwLock<Arc<credentials::Credentials>>,
    /// Secret of this process, for hashes.
    pub seed: u64,
}

impl Shared {
    /// How long to wait for a client to close.
    pub fn linger(&self) -> Duration {
        if self.shutdown.ending.is_taken() { farewell::SHORT_LINGER } else { farewell::LINGER }
    }

    /// What a connection that begins now is to use until it ends.
    pub fn credentials(&self) -> Arc<credentials::Credentials> {
        Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner))
    }
}
