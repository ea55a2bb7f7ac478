//! Secrets of users looked up in the database, with a login of the proxy's own, as PgBouncer's `auth_query` does it.
//! Nothing is remembered: a new user or password holds at once. Checks nobody.

use super::Shared;
use super::auth_scram::Secret;
use super::own::{self, Login, Own, OwnError};
use super::tls_connect::Connector;
use super::upstream::HINT as UPSTREAM_HINT;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use zeroize::Zeroizing;

/// How the secrets of users are found in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthQuery {
    /// As whom to ask.
    pub user: String,
    /// What to ask: `$1` is the user's name, the answer a row of name and secret.
    pub query: String,
    /// In which database; `None`: in that of the client.
    pub database: Option<String>,
}

impl AuthQuery {
    /// Reads `pg_authid`. Names are qualified, whatever the search path of the login is.
    pub const DEFAULT: &str = "SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() \
        THEN NULL ELSE rolpassword END FROM pg_catalog.pg_authid \
        WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin";
}

/// Lookups under way at one time. Each may take the server a process of its own for a moment.
const MOST: usize = 8;
/// How long a session stays open for the next lookup: shorter than `DROP DATABASE` waits for others to leave.
const IDLE: Duration = Duration::from_secs(3);
/// The longest name of a user, in bytes (`NAMEDATALEN` - 1).
const MAX_NAME: usize = 63;

/// Where secrets are looked up.
pub(crate) struct Lookup {
    settings: AuthQuery,
    password: Option<Zeroizing<String>>,
    turns: Semaphore,
    /// Sessions without work, the one used last at the end. Locked for a moment.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    own: Own,
    database: String,
    since: Instant,
}

/// What there is of a user.
pub(super) enum Found {
    Secret(Secret),
    /// There is no such user.
    Nobody,
    /// There is, and nothing it could be checked by; why, for the log.
    Unfit(&'static str),
}

/// Why a lookup failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    #[error("looking up the user's secret: {0}{hint}", hint = hint(.0))]
    Server(#[from] OwnError),
    #[error("looking up the user's secret: auth_query {0}")]
    Answer(String),
    #[error("looking up the user's secret: {MOST} lookups have been waiting for the database for {0:?}")]
    Busy(Duration),
}

fn hint(error: &OwnError) -> &'static str {
    match error {
        OwnError::Refused(said) if *said.code() == SqlState::INSUFFICIENT_PRIVILEGE => {
            " (auth_user may not do this: have auth_query call a SECURITY DEFINER function that it may call)"
        }
        _ => "",
    }
}

impl Lookup {
    /// `password`: that of the user who asks, if the server wants one.
    pub fn new(settings: AuthQuery, password: Option<Zeroizing<String>>) -> Self {
        Self { settings, password, turns: Semaphore::new(MOST), idle: Mutex::default() }
    }

    /// Looks up a user who wants to log in to `database`.
    pub async fn find(
        &self,
        user: &str,
        database: &str,
        shared: &Shared,
        connector: &Connector,
    ) -> Result<Found, LookupError> {
        if user.len() > MAX_NAME {
            return Ok(Found::Nobody);
        }
        let database = self.settings.database.as_deref().unwrap_or(database);
        let limit = shared.config.connect_timeout;
        let turn = tokio::time::timeout(limit, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| LookupError::Busy(limit))?;
        if let Some(own) = self.take(database)
            && let Ok(found) = self.ask(&own, user, limit).await
        {
            self.keep(own, database);
            return Ok(found);
        }
        // There was no session, or it has ended meanwhile.
        let own = own::log_in(&shared.config, connector, &shared.hosts, &self.login(database)).await?;
        let found = self.ask(&own, user, limit).await?;
        self.keep(own, database);
        Ok(found)
    }

    fn login(&self, database: &str) -> Login {
        let mut config = tokio_postgres::Config::new();
        config.user(&self.settings.user).dbname(database).application_name("untwin auth_query");
        if let Some(password) = &self.password {
            config.password(password.as_bytes());
        }
        Login { config, passwords: Vec::new() }
    }

    async fn ask(&self, own: &Own, user: &str, limit: Duration) -> Result<Found, LookupError> {
        let parameters: [&(dyn ToSql + Sync); 1] = [&user];
        let asked = own.client().query(&self.settings.query, &parameters);
        let late = |_| LookupError::Answer(format!("gave no answer within {} s", limit.as_secs_f32()));
        let rows = match tokio::time::timeout(limit, asked).await.map_err(late)? {
            Ok(rows) => rows,
            Err(error) if error.as_db_error().is_none() && !error.is_closed() => {
                // The parameter's type, for one: tokio_postgres says it well.
                return Err(LookupError::Answer(format!("cannot be asked: {}", own::with_cause(&error))));
            }
            Err(error) => return Err(own.error(&error).into()),
        };
        match &rows[..] {
            [] => Ok(Found::Nobody),
            [row] => found(row, user),
            _ => Err(LookupError::Answer("gives more than one row".to_owned())),
        }
    }

    /// Ends sessions that had no work for a while.
    pub fn expire(&self) {
        self.idle().retain(|idle| idle.since.elapsed() < IDLE);
    }

    fn take(&self, database: &str) -> Option<Own> {
        let mut idle = self.idle();
        idle.retain(|idle| idle.since.elapsed() < IDLE && !idle.own.client().is_closed());
        let at = idle.iter().rposition(|idle| idle.database == database)?;
        Some(idle.remove(at).own)
    }

    fn keep(&self, own: Own, database: &str) {
        let mut idle = self.idle();
        idle.push(Idle { own, database: database.to_owned(), since: Instant::now() });
        let surplus = idle.len().saturating_sub(MOST);
        idle.drain(..surplus);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn found(row: &tokio_postgres::Row, user: &str) -> Result<Found, LookupError> {
    let text = |at| {
        let text = row.try_get::<_, Option<String>>(at).map(|text| text.map(Zeroizing::new));
        text.map_err(|_| LookupError::Answer("has to give two columns of text: name and secret".to_owned()))
    };
    let (name, secret) = (text(0)?, text(1)?);
    if name.is_none_or(|name| *name != user) {
        return Err(LookupError::Answer("gives a row of another user".to_owned()));
    }
    let Some(secret) = secret else {
        return Ok(Found::Unfit("the user has no password, or it has expired (VALID UNTIL)"));
    };
    Ok(match Secret::parse(&secret) {
        Some(secret) => Found::Secret(secret),
        None if secret.starts_with("md5") => Found::Unfit(
            "the user's password is stored as an md5 hash, which cannot check a client: \
             set password_encryption = 'scram-sha-256' in the database and set the password anew",
        ),
        None => Found::Unfit("what is stored for the user is no SCRAM secret"),
    })
}

impl LookupError {
    /// Who has to do something about it.
    pub fn blame(&self) -> &'static str {
        match self {
            Self::Server(OwnError::Unreachable(_)) | Self::Busy(_) => "upstream",
            Self::Server(_) | Self::Answer(_) => "settings",
        }
    }

    /// SQLSTATE, message and hint for the client, who has proven nothing so far: only what it would have learned
    /// without the lookup. The log says more.
    pub fn reply(&self) -> (&str, String, &'static str) {
        let same =
            [SqlState::UNDEFINED_DATABASE, SqlState::TOO_MANY_CONNECTIONS, SqlState::CANNOT_CONNECT_NOW];
        match self {
            Self::Server(OwnError::Unreachable(error)) => {
                ("08001", format!("untwin: {error}"), UPSTREAM_HINT)
            }
            Self::Server(OwnError::Refused(said)) if same.contains(said.code()) => {
                (said.code().code(), said.message().to_owned(), "")
            }
            Self::Busy(_) => ("08001", format!("untwin: {self}"), UPSTREAM_HINT),
            _ => (
                "28000",
                "untwin: secrets of users cannot be looked up in the database".to_owned(),
                "untwin's log says why.",
            ),
        }
    }
}
