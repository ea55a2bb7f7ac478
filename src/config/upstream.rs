//! The database's URL. Pure; connects to nothing.

use std::fmt;
use std::str::FromStr;

use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode as TokioMode, SslNegotiation};

use super::address::Address;
use super::upstream_tls;
use super::value::{BadValue, setting};
use crate::proxy::escaped;
use crate::proxy::tls::{SslMode, UpstreamTls};
use crate::proxy::{Choice, Login, Wanted};

/// The port of Postgres.
const POSTGRES_PORT: u16 = 5432;
/// The parameter that says which servers fit. tokio_postgres knows three of its values.
pub(super) const TARGET: &str = "target_session_attrs";

/// The database. Never shows credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Where it is, in the order in which the addresses are tried: one at least.
    pub addresses: Vec<Address>,
    /// The whole URL, for connections of untwin's own. Sessions of clients bring their own credentials.
    pub client: tokio_postgres::Config,
    /// How connections are encrypted.
    pub tls: UpstreamTls,
    /// Which of several servers a session is on.
    pub wanted: Wanted,
}

setting!(
    Upstream,
    "the database's URL: `postgres://host:port`, with several hosts `postgres://one:5432,two:5432`"
);

impl Upstream {
    /// Which server is chosen, and how.
    #[must_use]
    pub fn choice(&self) -> Choice {
        Choice {
            random: self.client.get_load_balance_hosts() == LoadBalanceHosts::Random,
            wanted: self.wanted,
            login: (self.wanted != Wanted::Any).then(|| self.login()),
        }
    }

    /// The login of the URL, for sessions of untwin's own.
    #[must_use]
    pub fn login(&self) -> Login {
        Login { config: self.client.clone(), passwords: Vec::new() }
    }

    /// Whether the URL names a user, a password or a database, which no client's session uses.
    #[must_use]
    pub fn has_login(&self) -> bool {
        let client = &self.client;
        client.get_user().is_some() || client.get_password().is_some() || client.get_dbname().is_some()
    }
}

impl FromStr for Upstream {
    type Err = BadValue;

    /// Reads a URL or a connection string as libpq does, or a mere `host:port`. Errors do not repeat the
    /// text: it may hold a password.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let url = if text.contains("://") || text.contains('=') {
            text.to_owned()
        } else {
            format!("postgres://{text}")
        };
        let (url, parameters) = upstream_tls::split(&url)?;
        let mut tls = upstream_tls::read(&parameters)?;
        let mut client: tokio_postgres::Config = url.parse().map_err(|error| {
            let reason =
                std::error::Error::source(&error).map_or_else(String::new, |source| format!(" ({source})"));
            BadValue(format!("this is no URL of a database{reason}: write `postgres://host:port`"))
        })?;
        client.ssl_mode(tokio_mode(tls.mode));
        if tls.direct {
            client.ssl_negotiation(SslNegotiation::Direct);
        }
        let addresses = addresses(&client)?;
        tls.names = names(&client, &addresses);
        let wanted = wanted(&parameters)?;
        Ok(Self { addresses, client, tls, wanted })
    }
}

/// The URL without credentials and database.
impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |address: &Address| match address {
            Address::Tcp { .. } => address.to_string(),
            Address::Unix { directory, port } => {
                format!("{}:{port}", escaped(directory).replace('/', "%2F"))
            }
        };
        let name = |address: &Address| {
            let named = self.tls.names.iter().find(|(of, _)| of == address);
            match (named, address) {
                (Some((_, name)), Address::Tcp { port, .. }) => format!("{name}:{port}"),
                _ => host(address),
            }
        };
        let hosts: Vec<_> = self.addresses.iter().map(name).collect();
        let mut parameters = upstream_tls::shown(&self.tls);
        if !self.tls.names.is_empty() {
            let ips = self.addresses.iter().filter_map(|address| match address {
                Address::Tcp { host, .. } => Some(host.as_str()),
                Address::Unix { .. } => None,
            });
            parameters.push(format!("hostaddr={}", ips.collect::<Vec<_>>().join(",")));
        }
        if self.wanted != Wanted::Any {
            parameters.push(format!("{TARGET}={}", self.wanted.name()));
        }
        if self.client.get_load_balance_hosts() == LoadBalanceHosts::Random {
            parameters.push("load_balance_hosts=random".to_owned());
        }
        let question = if parameters.is_empty() { "" } else { "/?" };
        write!(f, "postgres://{}{question}{}", hosts.join(","), parameters.join("&"))
    }
}

/// Which servers fit; the last one counts, as with libpq.
fn wanted(parameters: &[(String, String)]) -> Result<Wanted, BadValue> {
    let given = parameters.iter().rev().find(|(name, _)| name == TARGET);
    let Some((_, value)) = given else { return Ok(Wanted::Any) };
    Wanted::ALL.iter().find(|(_, name)| name == value).map(|(wanted, _)| *wanted).ok_or_else(|| {
        BadValue(format!("{TARGET} is one of {}", Wanted::ALL.map(|(_, name)| name).join(", ")))
    })
}

/// The nearest that tokio_postgres has.
fn tokio_mode(mode: SslMode) -> TokioMode {
    match mode {
        SslMode::Disable => TokioMode::Disable,
        SslMode::Allow | SslMode::Prefer => TokioMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => TokioMode::Require,
    }
}

/// The names of hosts whose addresses are given beside, for their certificates bear names.
fn names(client: &tokio_postgres::Config, addresses: &[Address]) -> Vec<(Address, String)> {
    let (hosts, literal) = (client.get_hosts(), client.get_hostaddrs());
    if literal.is_empty() || hosts.len() != literal.len() {
        return Vec::new();
    }
    let name = |(host, address): (&Host, &Address)| match host {
        Host::Tcp(name) => Some((address.clone(), name.clone())),
        Host::Unix(_) => None,
    };
    hosts.iter().zip(addresses).filter_map(name).collect()
}

/// Pairs hosts with ports as libpq does: none means 5432, one is that of every host.
fn addresses(client: &tokio_postgres::Config) -> Result<Vec<Address>, BadValue> {
    let (hosts, literal) = (client.get_hosts(), client.get_hostaddrs());
    let hosts: Vec<Host> = match literal {
        [] => hosts.to_vec(),
        literal => literal.iter().map(|ip| Host::Tcp(ip.to_string())).collect(),
    };
    if hosts.is_empty() {
        return Err(BadValue(
            "the URL of the database names no host: write `postgres://host:port`".to_owned(),
        ));
    }
    let port = |at: usize| match *client.get_ports() {
        [] => Some(POSTGRES_PORT),
        [port] => Some(port),
        ref ports if ports.len() == hosts.len() => ports.get(at).copied(),
        _ => None,
    };
    let address = |(at, host): (usize, &Host)| {
        let port = port(at).ok_or_else(|| {
            BadValue("the URL of the database has more hosts than ports, or fewer".to_owned())
        })?;
        Ok(match host {
            Host::Tcp(host) => Address::Tcp { host: host.clone(), port },
            Host::Unix(directory) => Address::Unix { directory: directory.clone(), port },
        })
    };
    hosts.iter().enumerate().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    fn unix(directory: &str, port: u16) -> Address {
        Address::Unix { directory: directory.into(), port }
    }

    #[test]
    fn urls_of_databases() {
        for (text, addresses, shown) in [
            ("postgres://127.0.0.1", vec![tcp("127.0.0.1", 5432)], "postgres://127.0.0.1:5432"),
            ("127.0.0.1:5433", vec![tcp("127.0.0.1", 5433)], "postgres://127.0.0.1:5433"),
            ("postgresql://u:secret@h:1/d", vec![tcp("h", 1)], "postgres://h:1"),
            ("postgres://h:1,i:2", vec![tcp("h", 1), tcp("i", 2)], "postgres://h:1,i:2"),
            ("postgres://[::1]:1", vec![tcp("::1", 1)], "postgres://[::1]:1"),
            ("postgres://%2Fvar%2Frun:1", vec![unix("/var/run", 1)], "postgres://%2Fvar%2Frun:1"),
            ("postgres:///d?host=/var/run", vec![unix("/var/run", 5432)], "postgres://%2Fvar%2Frun:5432"),
            ("host=h,i port=7 password=secret", vec![tcp("h", 7), tcp("i", 7)], "postgres://h:7,i:7"),
            (
                "host=h hostaddr=127.0.0.1",
                vec![tcp("127.0.0.1", 5432)],
                "postgres://h:5432/?hostaddr=127.0.0.1",
            ),
            ("postgres://h/?sslmode=require", vec![tcp("h", 5432)], "postgres://h:5432/?sslmode=require"),
            (
                "postgres://h,i?load_balance_hosts=random&target_session_attrs=prefer-standby",
                vec![tcp("h", 5432), tcp("i", 5432)],
                "postgres://h:5432,i:5432/?target_session_attrs=prefer-standby&load_balance_hosts=random",
            ),
            (
                "host=h,i target_session_attrs=read-write",
                vec![tcp("h", 5432), tcp("i", 5432)],
                "postgres://h:5432,i:5432/?target_session_attrs=read-write",
            ),
            (
                "host=h sslmode=verify-full sslrootcert='/r s.pem'",
                vec![tcp("h", 5432)],
                "postgres://h:5432/?sslmode=verify-full&sslrootcert=/r%20s.pem",
            ),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!((&upstream.addresses, upstream.to_string().as_str()), (&addresses, shown), "{text}");
            assert!(!format!("{upstream:?}").contains("secret"));
            let again: Upstream = shown.parse().unwrap();
            assert_eq!((&again.addresses, &again.tls), (&addresses, &upstream.tls));
            assert_eq!((again.wanted, again.choice().random), (upstream.wanted, upstream.choice().random));
        }
    }

    #[test]
    fn other_texts_are_no_url_and_are_not_repeated() {
        for text in [
            "",
            "postgres://",
            "postgres:///d",
            "http://secret",
            "postgres://u:secret@h:port",
            "host=h secret=secret",
            "postgres://u:secret@h?sslmode=sometimes",
            "host=h,i,j port=1,2 password=secret",
            "port=1",
            "postgres://u:secret@h?target_session_attrs=sometimes",
            "postgres://u:secret@h?load_balance_hosts=sometimes",
        ] {
            let error = text.parse::<Upstream>().map(|up| up.addresses).unwrap_err();
            assert!(
                error.to_string().len() > 20 && !error.to_string().contains("secret@"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_login_in_the_url_is_noticed() {
        for (text, login) in [("postgres://h", false), ("postgres://u@h", true), ("postgres://h/d", true)] {
            assert_eq!(text.parse::<Upstream>().unwrap().has_login(), login, "{text}");
        }
    }
}
