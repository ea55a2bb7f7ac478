//! Every setting, one line each: the same struct is read from the file, the environment and the flags.

use std::num::{NonZeroU8, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::address::{AdminListen, Listen};
use super::networks::Networks;
use super::upstream::Upstream;
use super::value::{Auth, BadValue, Count, FileMode, LogFormat, LogLevel, Period, Size, setting};
use crate::proxy::tls::{ClientCertificates, ClientMode};
use crate::rekey::policy::{
    Ambiguous, IdenticalRows, Mode, NameBased, Overrides, Policies, Returning, TableRule,
};
use crate::rekey::table_name::TableName;

/// Settings as one source gives them; what it leaves out is `None`. Descriptions are those of the help and
/// of the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
#[schemars(title = "untwin.toml", description = "The settings of untwin")]
pub struct Settings {
    /// The database to stand in front of: postgres://host:port, or several hosts; with libpq's parameters for TLS
    #[arg(long, value_name = "URL")]
    pub upstream: Option<Upstream>,
    /// Where clients connect: addresses separated by commas; /directory or /directory:port is a unix socket
    #[arg(long, value_name = "ADDRESSES")]
    pub listen: Option<Listen>,
    /// Share the addresses with other processes of this setting: a new one takes over before the old one ends
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub reuse_port: Option<bool>,
    /// Permissions of unix sockets: who may connect
    #[arg(long, value_name = "MODE")]
    pub socket_mode: Option<FileMode>,
    /// Networks whose load balancers say by PROXY protocol whose a connection is, and have to
    #[arg(long, value_name = "NETWORKS")]
    pub proxy_protocol: Option<Networks>,
    /// The most sessions at one time [default: no limit]
    #[arg(long, value_name = "SESSIONS")]
    pub max_connections: Option<Count>,
    /// The most sessions of one user at one time [default: no limit]
    #[arg(long, value_name = "SESSIONS")]
    pub max_user_connections: Option<Count>,
    /// How long a TCP connection may be silent before its other end is probed
    #[arg(long, value_name = "TIME")]
    pub tcp_keepalive_idle: Option<Period>,
    /// The time between two such probes
    #[arg(long, value_name = "TIME")]
    pub tcp_keepalive_interval: Option<Period>,
    /// How many probes may be lost before the other end counts as gone
    #[arg(long, value_name = "PROBES")]
    pub tcp_keepalive_count: Option<NonZeroU8>,
    /// How long sent bytes may be unacknowledged before the other end counts as gone [default: the system's]
    #[arg(long, value_name = "TIME")]
    pub tcp_user_timeout: Option<Period>,
    /// Whether clients' connections are encrypted: disable, allow, prefer or require
    #[arg(long, value_name = "CHOICE")]
    pub client_tls: Option<ClientMode>,
    /// The certificate that clients are shown, followed by those of its authorities (PEM)
    #[arg(long, value_name = "PATH")]
    pub client_tls_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "PATH")]
    pub client_tls_key: Option<PathBuf>,
    /// The authorities whose certificates clients may show (PEM)
    #[arg(long, value_name = "PATH")]
    pub client_tls_ca: Option<PathBuf>,
    /// Lists of those of their certificates that are revoked, one for each authority (PEM)
    #[arg(long, value_name = "PATH")]
    pub client_tls_crl: Option<PathBuf>,
    /// Whether clients have to show a certificate of client_tls_ca: optional or required
    #[arg(long, value_name = "CHOICE")]
    pub client_tls_verify: Option<ClientCertificates>,
    /// Who authenticates clients: relay (the server) or terminate (untwin, by auth_file and auth_query)
    #[arg(long, value_name = "CHOICE")]
    pub auth: Option<Auth>,
    /// The users for auth = terminate: lines "user" "password or SCRAM secret"
    #[arg(long, value_name = "PATH")]
    pub auth_file: Option<PathBuf>,
    /// The user who looks up in the database those whom auth_file does not name; its password is in auth_file
    #[arg(long, value_name = "USER")]
    pub auth_user: Option<String>,
    /// What auth_user asks for the secret of a user, $1 [default: reads pg_authid]
    #[arg(long, value_name = "SQL")]
    pub auth_query: Option<String>,
    /// The database in which auth_user asks [default: that of the client]
    #[arg(long, value_name = "DATABASE")]
    pub auth_dbname: Option<String>,
    /// Add the client's address to the application_name that the server sees at login
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub application_name_add_host: Option<bool>,
    /// What to do with twins: rewrite, strict or observe
    #[arg(long)]
    pub mode: Option<Mode>,
    /// The journal's file
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Size from which the journal is continued in a new file
    #[arg(long, value_name = "SIZE")]
    pub journal_rotate_bytes: Option<Size>,
    /// How many former files of the journal are kept
    #[arg(long, value_name = "FILES")]
    pub journal_keep: Option<usize>,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Which log lines are written: a level, or directives such as info,untwin::proxy=debug
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// The largest statement whose text is inspected
    #[arg(long, value_name = "SIZE")]
    pub max_statement_bytes: Option<Size>,
    /// The most memory for the keys of one transaction
    #[arg(long, value_name = "SIZE")]
    pub max_transaction_key_bytes: Option<Size>,
    /// The most memory for the keys of all transactions
    #[arg(long, value_name = "SIZE")]
    pub max_total_key_bytes: Option<Size>,
    /// What to do with twins whose key is name-based (v3, v5): forward or rekey
    #[arg(long, value_name = "CHOICE")]
    pub name_based: Option<NameBased>,
    /// What to do with twins that equal the first row in every column: rekey or forward
    #[arg(long, value_name = "CHOICE")]
    pub identical_rows: Option<IdenticalRows>,
    /// What to do with a reference that may mean either twin: fail or keep
    #[arg(long, value_name = "CHOICE")]
    pub ambiguous: Option<Ambiguous>,
    /// Which key RETURNING shows for a rekeyed row: stored or sent
    #[arg(long, value_name = "CHOICE")]
    pub returning: Option<Returning>,
    /// How long the knowledge of the database's tables is trusted
    #[arg(long, value_name = "TIME")]
    pub catalog_ttl: Option<Period>,
    /// How long to wait for a connection to the database
    #[arg(long, value_name = "TIME")]
    pub connect_timeout: Option<Period>,
    /// How long a client may take to log in
    #[arg(long, value_name = "TIME")]
    pub login_timeout: Option<Period>,
    /// How long sessions may go on after SIGTERM; each ends when it is outside a transaction
    #[arg(long, value_name = "TIME")]
    pub drain_timeout: Option<Period>,
    /// How long clients are still let in after SIGTERM, while /readyz says no already [default: not at all]
    #[arg(long, value_name = "TIME")]
    pub drain_delay: Option<Period>,
    /// Where metrics and health are told by HTTP: /metrics, /livez, /readyz [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<AdminListen>,
    /// How many threads to use
    #[arg(long, value_name = "THREADS")]
    pub workers: Option<Count>,
    /// What differs for a database
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub database: Vec<ScopeSection>,
    /// What differs for a user (the role that logs in)
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<ScopeSection>,
    /// What differs for an application name; a trailing * stands for any ending
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub application: Vec<ScopeSection>,
    /// What differs for a table
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<TableSection>,
}

/// `[[database]]`, `[[user]]` or `[[application]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopeSection {
    /// Whose settings these are
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What to do with twins
    pub mode: Option<Mode>,
    /// What to do with twins whose key is name-based (v3, v5)
    pub name_based: Option<NameBased>,
    /// What to do with twins that equal the first row in every column
    pub identical_rows: Option<IdenticalRows>,
    /// What to do with a reference that may mean either twin
    pub ambiguous: Option<Ambiguous>,
    /// Which key RETURNING shows for a rekeyed row
    pub returning: Option<Returning>,
}

/// `[[table]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSection {
    /// The table, with its schema: `public.ev`
    #[schemars(with = "QualifiedName")]
    pub name: Spanned<QualifiedName>,
    /// true: protect its keys also where untwin cannot show that this is harmless; false: do not
    pub protect: Option<bool>,
    /// The column to rekey, where a key has several UUID columns
    pub rekey: Option<String>,
    /// Columns that may differ between two deliveries of one fact
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile_columns: Vec<String>,
    /// What to do with twins
    pub mode: Option<Mode>,
    /// What to do with twins whose key is name-based (v3, v5)
    pub name_based: Option<NameBased>,
    /// What to do with twins that equal the first row in every column
    pub identical_rows: Option<IdenticalRows>,
    /// What to do with a reference that may mean either twin
    pub ambiguous: Option<Ambiguous>,
    /// Which key RETURNING shows for a rekeyed row
    pub returning: Option<Returning>,
}

/// A table's name with its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    text: String,
    /// Its schema is there.
    pub(super) table: TableName,
}

setting!(QualifiedName, "a table with its schema: `public.ev`");

impl FromStr for QualifiedName {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let table: TableName = text.parse().map_err(|error| BadValue(format!("`{text}`: {error}")))?;
        if table.schema.is_none() {
            return Err(BadValue(format!("`{text}` says no schema: write `public.{text}`")));
        }
        Ok(Self { text: text.to_owned(), table })
    }
}

impl std::fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The five settings that every scope has.
macro_rules! overrides {
    ($section:expr) => {
        Overrides {
            mode: $section.mode,
            identical_rows: $section.identical_rows,
            name_based: $section.name_based,
            ambiguous: $section.ambiguous,
            returning: $section.returning,
        }
    };
}

impl Settings {
    /// What holds where no source says otherwise. The database has no default.
    #[must_use]
    pub fn defaults() -> Self {
        let seconds = |seconds| Some(Period(std::time::Duration::from_secs(seconds)));
        let journal = crate::journal::Config::default();
        let rest = crate::rekey::policy::Policy::default();
        Self {
            upstream: None,
            listen: Some(Listen(vec![super::address::Address::from(std::net::SocketAddr::from((
                [127, 0, 0, 1],
                6432,
            )))])),
            reuse_port: Some(false),
            socket_mode: Some(FileMode(0o777)),
            proxy_protocol: None,
            max_connections: None,
            max_user_connections: None,
            tcp_keepalive_idle: seconds(60),
            tcp_keepalive_interval: seconds(10),
            tcp_keepalive_count: NonZeroU8::new(6),
            tcp_user_timeout: None,
            client_tls: Some(ClientMode::default()),
            client_tls_cert: None,
            client_tls_key: None,
            client_tls_ca: None,
            client_tls_crl: None,
            client_tls_verify: Some(ClientCertificates::default()),
            auth: Some(Auth::Relay),
            auth_file: None,
            auth_user: None,
            auth_query: None,
            auth_dbname: None,
            application_name_add_host: Some(false),
            mode: Some(rest.mode),
            journal: crate::journal::default_path(),
            journal_rotate_bytes: Some(Size(journal.rotate_bytes)),
            journal_keep: Some(journal.keep),
            log_format: Some(LogFormat::Human),
            log_level: "info".parse().ok(),
            max_statement_bytes: Some(Size(64 << 20)),
            max_transaction_key_bytes: Some(Size(256 << 20)),
            max_total_key_bytes: Some(Size(1 << 30)),
            name_based: Some(rest.name_based),
            identical_rows: Some(rest.identical_rows),
            ambiguous: Some(rest.ambiguous),
            returning: Some(rest.returning),
            catalog_ttl: seconds(60),
            connect_timeout: seconds(10),
            login_timeout: seconds(60),
            drain_timeout: seconds(60),
            drain_delay: None,
            admin_listen: None,
            workers: Some(Count(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))),
            database: Vec::new(),
            user: Vec::new(),
            application: Vec::new(),
            table: Vec::new(),
        }
    }

    /// These settings, and those of `lower` where these say nothing.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        let list = |upper: Vec<ScopeSection>, lower| if upper.is_empty() { lower } else { upper };
        Self {
            upstream: self.upstream.or(lower.upstream),
            listen: self.listen.or(lower.listen),
            reuse_port: self.reuse_port.or(lower.reuse_port),
            socket_mode: self.socket_mode.or(lower.socket_mode),
            proxy_protocol: self.proxy_protocol.or(lower.proxy_protocol),
            max_connections: self.max_connections.or(lower.max_connections),
            max_user_connections: self.max_user_connections.or(lower.max_user_connections),
            tcp_keepalive_idle: self.tcp_keepalive_idle.or(lower.tcp_keepalive_idle),
            tcp_keepalive_interval: self.tcp_keepalive_interval.or(lower.tcp_keepalive_interval),
            tcp_keepalive_count: self.tcp_keepalive_count.or(lower.tcp_keepalive_count),
            tcp_user_timeout: self.tcp_user_timeout.or(lower.tcp_user_timeout),
            client_tls: self.client_tls.or(lower.client_tls),
            client_tls_cert: self.client_tls_cert.or(lower.client_tls_cert),
            client_tls_key: self.client_tls_key.or(lower.client_tls_key),
            client_tls_ca: self.client_tls_ca.or(lower.client_tls_ca),
            client_tls_crl: self.client_tls_crl.or(lower.client_tls_crl),
            client_tls_verify: self.client_tls_verify.or(lower.client_tls_verify),
            auth: self.auth.or(lower.auth),
            auth_file: self.auth_file.or(lower.auth_file),
            auth_user: self.auth_user.or(lower.auth_user),
            auth_query: self.auth_query.or(lower.auth_query),
            auth_dbname: self.auth_dbname.or(lower.auth_dbname),
            application_name_add_host: self.application_name_add_host.or(lower.application_name_add_host),
            mode: self.mode.or(lower.mode),
            journal: self.journal.or(lower.journal),
            journal_rotate_bytes: self.journal_rotate_bytes.or(lower.journal_rotate_bytes),
            journal_keep: self.journal_keep.or(lower.journal_keep),
            log_format: self.log_format.or(lower.log_format),
            log_level: self.log_level.or(lower.log_level),
            max_statement_bytes: self.max_statement_bytes.or(lower.max_statement_bytes),
            max_transaction_key_bytes: self.max_transaction_key_bytes.or(lower.max_transaction_key_bytes),
            max_total_key_bytes: self.max_total_key_bytes.or(lower.max_total_key_bytes),
            name_based: self.name_based.or(lower.name_based),
            identical_rows: self.identical_rows.or(lower.identical_rows),
            ambiguous: self.ambiguous.or(lower.ambiguous),
            returning: self.returning.or(lower.returning),
            catalog_ttl: self.catalog_ttl.or(lower.catalog_ttl),
            connect_timeout: self.connect_timeout.or(lower.connect_timeout),
            login_timeout: self.login_timeout.or(lower.login_timeout),
            drain_timeout: self.drain_timeout.or(lower.drain_timeout),
            drain_delay: self.drain_delay.or(lower.drain_delay),
            admin_listen: self.admin_listen.or(lower.admin_listen),
            workers: self.workers.or(lower.workers),
            database: list(self.database, lower.database),
            user: list(self.user, lower.user),
            application: list(self.application, lower.application),
            table: if self.table.is_empty() { lower.table } else { self.table },
        }
    }

    /// The rules of every scope.
    pub(super) fn policies(&self) -> Policies {
        let mut policies = Policies::everywhere(overrides!(self));
        for section in &self.database {
            policies.add_database(section.name.get_ref().clone(), overrides!(section));
        }
        for section in &self.user {
            policies.add_user(section.name.get_ref().clone(), overrides!(section));
        }
        for section in &self.application {
            policies.add_application(section.name.get_ref(), overrides!(section));
        }
        for section in &self.table {
            policies.add_table(section.name.get_ref().table.clone(), section.rule());
        }
        policies
    }
}

impl TableSection {
    fn rule(&self) -> TableRule {
        let volatile: Vec<Box<str>> =
            self.volatile_columns.iter().map(|column| column.as_str().into()).collect();
        TableRule {
            overrides: overrides!(self),
            protect: self.protect,
            rekey: self.rekey.as_deref().map(Arc::from),
            volatile_columns: volatile.into(),
        }
    }
}
