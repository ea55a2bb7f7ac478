//! Sockets: accepts clients, logs them in at the server, and relays both ways. Decides nothing about keys.

mod address;
mod buffer;
mod catalogs;
mod connection;
mod handshake;
mod listen;
mod records;
mod relay;
mod rules;
mod stream;

pub use address::{Address, UpstreamError, escaped};
pub use listen::Proxy;
pub use rules::{Reloader, Rules};

use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use std::sync::Arc;
use std::time::Duration;

/// What the proxy needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect to.
    pub listen: Vec<Address>,
    /// The database server: one or several addresses, tried in order.
    pub upstream: Vec<Address>,
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
    /// Secret of this process, for hashes.
    pub seed: u64,
}
