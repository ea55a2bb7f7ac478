//! The configuration: each part's own settings, composed from file, environment and flags, checked once.
//! It cannot act; nothing below this floor knows it.

pub mod address;
mod environment;
mod file;
pub mod networks;
pub mod reload;
pub mod schema;
pub mod settings;
pub mod upstream;
mod upstream_tls;
pub mod value;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::admin;
use crate::journal;
use crate::proxy::tls::{ClientMode, ClientTls};
use crate::proxy::{self, AuthQuery, Authentication, ListenOptions, SessionLimits, Tcp, Wanted};
use crate::rekey::policy::{Limits, Policies};
use address::Address;
use settings::Settings;
use upstream::Upstream;
use value::{Auth, LogFormat, LogLevel};

/// Everything that was decided before untwin starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The database.
    pub upstream: Upstream,
    /// Where clients connect: one address at least.
    pub listen: Vec<Address>,
    /// How those addresses are taken.
    pub listen_options: ListenOptions,
    /// How many sessions may be open.
    pub session_limits: SessionLimits,
    /// How TCP connections are kept.
    pub tcp: Tcp,
    /// Whose word is taken for whose a connection is.
    pub balancers: Vec<proxy::Network>,
    /// Whether and how clients' connections are encrypted.
    pub client_tls: ClientTls,
    /// The users whom untwin authenticates itself; `None`: the database does.
    pub auth: Option<Authentication>,
    /// Whether the database sees the client's address in the name of its application.
    pub application_name_add_host: bool,
    /// How long to wait for a connection to the database.
    pub connect_timeout: Duration,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How many threads to use.
    pub workers: NonZeroUsize,
    /// How long sessions may go on once untwin is to end.
    pub drain_timeout: Duration,
    /// How long clients are still let in once it is known that untwin is to end.
    pub drain_delay: Duration,
    /// Where metrics and health are told, if anywhere.
    pub admin: Option<admin::Config>,
    /// How long the knowledge of the database's tables is trusted.
    pub catalog_ttl: Duration,
    /// What becomes of twins, per session and table.
    pub policies: Policies,
    /// How much is inspected and remembered.
    pub limits: Limits,
    /// The journal.
    pub journal: journal::Config,
    /// The log.
    pub log: Log,
}

/// Which log lines are written, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// How.
    pub format: LogFormat,
    /// Which.
    pub level: LogLevel,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{path}:{line}:{column}: {message}")]
    File {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A variable has a value that is not understood.
    #[error("{name}: {message}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A variable looks like one of untwin's and is none.
    #[error("{name} is no variable of untwin; these are: {known}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// Those that exist, separated by commas.
        known: String,
    },
    /// Settings that make no sense together.
    #[error("{0}")]
    Contradiction(&'static str),
    /// No source gives a setting that has no default.
    #[error("{setting} is not set: give --{setting}, UNTWIN_{variable} or {setting} in untwin.toml", variable = .setting.to_uppercase())]
    Missing {
        /// The setting.
        setting: &'static str,
    },
}

/// The most probes that Linux counts to (`MAX_TCP_KEEPCNT`).
const MOST_PROBES: u8 = 127;

/// The file that is read, if it exists, when none is named.
const FILE: &str = "untwin.toml";

/// Where settings come from, the stronger first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What the command line says.
    pub flags: Settings,
    /// The file that the command line names.
    pub file: Option<PathBuf>,
    /// All variables of the environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Sources {
    /// The settings of all sources and the defaults, merged: flags, environment, file, defaults.
    ///
    /// # Errors
    /// All but [`Error::Missing`].
    pub fn settings(self) -> Result<Settings, Error> {
        let environment = environment::read(&self.environment)?;
        let named = self.file.or_else(|| variable(&self.environment, environment::CONFIG).map(PathBuf::from));
        let file = match named {
            Some(path) => file::read(&path)?,
            None if Path::new(FILE).exists() => file::read(Path::new(FILE))?,
            None => Settings::default(),
        };
        Ok(self.flags.over(environment).over(file).over(Settings::defaults()))
    }

    /// The configuration.
    ///
    /// # Errors
    /// [`Error`].
    pub fn config(self) -> Result<Config, Error> {
        Config::compose(self.settings()?)
    }
}

fn variable<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    variables.iter().find(|(found, value)| found == name && !value.is_empty()).map(|(_, value)| value)
}

impl Config {
    /// The part that the proxy needs.
    #[must_use]
    pub fn proxy(&self) -> proxy::Config {
        proxy::Config {
            listen: self.listen.clone(),
            listen_options: self.listen_options,
            session_limits: self.session_limits,
            tcp: self.tcp,
            balancers: self.balancers.clone(),
            upstream: self.upstream.addresses.clone(),
            choice: self.upstream.choice(),
            upstream_tls: self.upstream.tls.clone(),
            client_tls: self.client_tls.clone(),
            auth: self.auth.clone(),
            application_name_add_host: self.application_name_add_host,
            connect_timeout: self.connect_timeout,
            login_timeout: self.login_timeout,
            drain_timeout: self.drain_timeout,
            rules: self.rules(),
        }
    }

    /// The part that sessions of a proxy that is serving can be given anew.
    #[must_use]
    pub fn rules(&self) -> proxy::Rules {
        proxy::Rules {
            policies: std::sync::Arc::new(self.policies.clone()),
            limits: self.limits,
            catalog_ttl: self.catalog_ttl,
        }
    }

    /// Composes the configuration of settings that include the defaults.
    ///
    /// # Errors
    /// [`Error::Missing`] and [`Error::Contradiction`].
    pub fn compose(settings: Settings) -> Result<Self, Error> {
        Ok(Self {
            policies: settings.policies(),
            upstream: upstream(set("upstream", settings.upstream)?)?,
            listen: set("listen", settings.listen)?.0,
            listen_options: ListenOptions {
                reuse_port: set("reuse_port", settings.reuse_port)?,
                socket_mode: set("socket_mode", settings.socket_mode)?.0,
            },
            session_limits: SessionLimits {
                total: settings.max_connections.map(|count| count.0),
                per_user: settings.max_user_connections.map(|count| count.0),
            },
            tcp: Tcp {
                keepalive_idle: set("tcp_keepalive_idle", settings.tcp_keepalive_idle)?.0,
                keepalive_interval: set("tcp_keepalive_interval", settings.tcp_keepalive_interval)?.0,
                keepalive_count: set("tcp_keepalive_count", settings.tcp_keepalive_count)?
                    .get()
                    .min(MOST_PROBES)
                    .into(),
                user_timeout: settings.tcp_user_timeout.map(|timeout| timeout.0),
            },
            balancers: settings
                .proxy_protocol
                .map_or_else(Vec::new, |networks| networks.0.into_iter().map(|network| network.0).collect()),
            auth: authentication(
                set("auth", settings.auth)?,
                settings.auth_file,
                settings.auth_user,
                settings.auth_query,
                settings.auth_dbname,
            )?,
            application_name_add_host: set("application_name_add_host", settings.application_name_add_host)?,
            client_tls: client_tls(ClientTls {
                mode: set("client_tls", settings.client_tls)?,
                cert: settings.client_tls_cert,
                key: settings.client_tls_key,
                ca: settings.client_tls_ca,
                crl: settings.client_tls_crl,
                certificates: set("client_tls_verify", settings.client_tls_verify)?,
            })?,
            connect_timeout: set("connect_timeout", settings.connect_timeout)?.0,
            login_timeout: set("login_timeout", settings.login_timeout)?.0,
            drain_timeout: set("drain_timeout", settings.drain_timeout)?.0,
            drain_delay: settings.drain_delay.map_or(Duration::ZERO, |delay| delay.0),
            admin: settings.admin_listen.map(|listen| admin::Config {
                listen: listen.0,
                reuse_port: settings.reuse_port == Some(true),
            }),
            workers: set("workers", settings.workers)?.0,
            catalog_ttl: set("catalog_ttl", settings.catalog_ttl)?.0,
            limits: Limits {
                statement_bytes: set("max_statement_bytes", settings.max_statement_bytes)?.0,
                transaction_key_bytes: set("max_transaction_key_bytes", settings.max_transaction_key_bytes)?
                    .0,
                total_key_bytes: set("max_total_key_bytes", settings.max_total_key_bytes)?.0,
            },
            journal: journal::Config {
                path: settings.journal,
                rotate_bytes: set("journal_rotate_bytes", settings.journal_rotate_bytes)?.0,
                keep: set("journal_keep", settings.journal_keep)?,
            },
            log: Log {
                format: set("log_format", settings.log_format)?,
                level: set("log_level", settings.log_level)?,
            },
        })
    }

    /// What is odd and not wrong, in words, to be logged once.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        let login = "the user, password and database in upstream are not used for clients' sessions: each client logs in as itself";
        // Where the servers are asked what they are, the login is that of untwin.
        let unused = self.upstream.has_login() && self.upstream.wanted == Wanted::Any;
        if unused { vec![login] } else { Vec::new() }
    }
}

fn set<T>(setting: &'static str, value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Missing { setting })
}

/// Servers that have to fit are asked what they are, for which untwin needs a login of its own.
fn upstream(upstream: Upstream) -> Result<Upstream, Error> {
    if upstream.wanted != Wanted::Any && upstream.client.get_user().is_none() {
        return Err(Error::Contradiction(
            "target_session_attrs needs a login in upstream (postgres://user:password@one,two): a client's own login cannot be tried on one server after another, so untwin asks the servers itself",
        ));
    }
    Ok(upstream)
}

fn authentication(
    auth: Auth,
    file: Option<PathBuf>,
    user: Option<String>,
    query: Option<String>,
    database: Option<String>,
) -> Result<Option<Authentication>, Error> {
    let says_how = query.is_some() || database.is_some();
    let query = user.map(|user| AuthQuery {
        user,
        query: query.unwrap_or_else(|| AuthQuery::DEFAULT.to_owned()),
        database,
    });
    match (auth, file, query) {
        (_, _, None) if says_how => Err(Error::Contradiction("auth_query and auth_dbname need auth_user")),
        (Auth::Relay, None, None) => Ok(None),
        (Auth::Relay, ..) => Err(Error::Contradiction("auth_file and auth_user need auth = terminate")),
        (Auth::Terminate, None, None) => {
            Err(Error::Contradiction("auth = terminate needs auth_file, auth_user or both"))
        }
        (Auth::Terminate, file, query) => Ok(Some(Authentication { file, query })),
    }
}

fn client_tls(tls: ClientTls) -> Result<ClientTls, Error> {
    if tls.cert.is_some() != tls.key.is_some() {
        return Err(Error::Contradiction("client_tls_cert and client_tls_key need each other"));
    }
    if tls.cert.is_none() && (tls.mode == ClientMode::Require || tls.ca.is_some()) {
        return Err(Error::Contradiction(
            "client_tls = require and client_tls_ca need client_tls_cert and client_tls_key",
        ));
    }
    if tls.crl.is_some() && tls.ca.is_none() {
        return Err(Error::Contradiction("client_tls_crl needs client_tls_ca"));
    }
    Ok(tls)
}

#[cfg(test)]
mod tests;
