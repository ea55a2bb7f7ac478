//! How addresses are spelled in settings. Pure; resolves no name.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::value::{BadValue, list_setting, setting};
pub use crate::proxy::Address;

setting!(Address, "an address: `127.0.0.1:6432` or `/directory`");

/// The port of a socket in a directory, when none is given: the one untwin listens on by default.
const LISTEN_PORT: u16 = 6432;

impl FromStr for Address {
    type Err = BadValue;

    /// Reads `host:port`, `[::1]:port`, `/directory` or `/directory:port`.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue(format!("`{text}` is no address: write `127.0.0.1:6432`, `[::1]:6432` or `/directory`"))
        };
        if text.starts_with('/') {
            return Ok(
                match text.rsplit_once(':').and_then(|(path, port)| Some((path, port.parse().ok()?))) {
                    Some((directory, port)) => Self::Unix { directory: directory.into(), port },
                    None => Self::Unix { directory: text.into(), port: LISTEN_PORT },
                },
            );
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().map_err(|_| bad())?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?.to_string(),
            None if host.is_empty() || host.contains([':', '/', ' ', '@', '[', ']']) => {
                return Err(bad());
            }
            None => host.to_owned(),
        };
        Ok(Self::Tcp { host, port })
    }
}

/// Where untwin listens: one address at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub Vec<Address>);

list_setting!(
    Listen,
    Address,
    "addresses: `127.0.0.1:6432`, `/directory` of a unix socket, separated by commas or as a list"
);

/// Where metrics and health are told: an IP address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminListen(pub SocketAddr);

setting!(AdminListen, "an IP address and a port: `127.0.0.1:9632`");

impl FromStr for AdminListen {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |_| {
            BadValue(format!("`{text}` is no IP address with a port: write `127.0.0.1:9632` or `[::1]:9632`"))
        };
        text.parse().map(Self).map_err(bad)
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
    fn addresses_to_listen_at() {
        for (text, address, url) in [
            ("127.0.0.1:6432", tcp("127.0.0.1", 6432), "postgres://127.0.0.1:6432"),
            ("localhost:0", tcp("localhost", 0), "postgres://localhost:0"),
            ("[::1]:6432", tcp("::1", 6432), "postgres://[::1]:6432"),
            ("0.0.0.0:6432", tcp("0.0.0.0", 6432), "postgres://127.0.0.1:6432"),
            ("[::]:6432", tcp("::", 6432), "postgres://[::1]:6432"),
            ("/tmp:7000", unix("/tmp", 7000), "postgres:///?host=/tmp&port=7000"),
            ("/a b:6432", unix("/a b", 6432), "postgres:///?host=/a%20b&port=6432"),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&address), "{text}");
            assert_eq!((address.to_string().as_str(), address.client_url().as_str()), (text, url));
        }
        assert_eq!("/tmp".parse(), Ok(unix("/tmp", 6432)));
        assert_eq!(unix("/tmp", 1).socket_path(), Some("/tmp/.s.PGSQL.1".into()));
        for text in
            ["", "6432", ":6432", "host", "host:", "host:65536", "::1:6432", "[x]:1", "a@b:1", "tcp://h:1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn metrics_are_told_at_an_ip_address() {
        for text in ["127.0.0.1:9632", "0.0.0.0:0", "[::1]:9632"] {
            assert_eq!(text.parse::<AdminListen>().unwrap().to_string(), text);
        }
        for text in ["", "9632", ":9632", "localhost:9632", "127.0.0.1", "/run/untwin", "127.0.0.1:65536"] {
            assert!(text.parse::<AdminListen>().is_err(), "{text}");
        }
    }

    #[test]
    fn several_addresses_are_separated_by_commas() {
        let listen: Listen = "127.0.0.1:1, /tmp:2".parse().unwrap();
        assert_eq!(listen.0, [tcp("127.0.0.1", 1), unix("/tmp", 2)]);
        assert!("127.0.0.1:1,".parse::<Listen>().is_err());
    }
}
