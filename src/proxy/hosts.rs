//! The servers of the upstream URL: in which order they are tried, and which of them fit. What they are is
//! asked of the servers themselves, for the clients' own logins cannot be tried out on one after another.

use super::own::Login;
use super::probe::{self, Role};
use super::tls_connect::Connector;
use super::{Address, Config};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Which servers a session may be on, as libpq's `target_session_attrs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

impl Wanted {
    /// Each with libpq's name for it.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Any, "any"),
        (Self::ReadWrite, "read-write"),
        (Self::ReadOnly, "read-only"),
        (Self::Primary, "primary"),
        (Self::Standby, "standby"),
        (Self::PreferStandby, "prefer-standby"),
    ];

    /// libpq's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(wanted, _)| *wanted == self).map_or("any", |(_, name)| name)
    }

    fn fits(self, role: Role) -> bool {
        match self {
            Self::Any => true,
            Self::ReadWrite => !role.read_only && !role.standby,
            Self::ReadOnly => role.read_only || role.standby,
            Self::Primary => !role.standby,
            Self::Standby | Self::PreferStandby => role.standby,
        }
    }
}

/// How a server is chosen among several.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// In random order (libpq's `load_balance_hosts=random`), not in the order of the URL.
    pub random: bool,
    /// Which ones fit.
    pub wanted: Wanted,
    /// With which login they are asked what they are; needed for all but [`Wanted::Any`].
    pub login: Option<Login>,
}

/// What is known of the servers, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct Hosts(Vec<Host>);

#[derive(Debug)]
struct Host {
    address: Address,
    /// When it did not answer in time. Locked for a moment.
    silent: Mutex<Option<Instant>>,
    /// What it was, and when. Locked while it is asked, so that it is asked once.
    role: tokio::sync::Mutex<Option<(Instant, Option<Role>)>>,
}

/// How long a server that did not answer in time is tried last.
const AVOIDED: Duration = Duration::from_secs(5);
/// How long it is believed what a server is.
const BELIEVED: Duration = Duration::from_secs(1);

impl Hosts {
    pub fn new(addresses: &[Address]) -> Self {
        let host = |address: &Address| Host {
            address: address.clone(),
            silent: Mutex::default(),
            role: tokio::sync::Mutex::default(),
        };
        Self(addresses.iter().map(host).collect())
    }

    /// Those that fit, in the order in which they are to be tried.
    pub async fn candidates(&self, config: &Config, connector: &Connector) -> Vec<&Address> {
        let mut hosts: Vec<&Host> = self.0.iter().collect();
        if config.choice.random {
            shuffle(&mut hosts);
        }
        // Stable: otherwise the order stays.
        hosts.sort_by_key(|host| host.is_silent());
        let wanted = config.choice.wanted;
        let Some(login) = config.choice.login.as_ref().filter(|_| wanted != Wanted::Any) else {
            return hosts.into_iter().map(|host| &host.address).collect();
        };
        let (mut fitting, mut others) = (Vec::new(), Vec::new());
        for host in hosts {
            match host.role(config, connector, login).await {
                Some(role) if wanted.fits(role) => fitting.push(&host.address),
                Some(_) if wanted == Wanted::PreferStandby => others.push(&host.address),
                _ => {}
            }
            if !fitting.is_empty() && !config.choice.random {
                // The next ones are asked when they are needed: by the next session.
                break;
            }
        }
        fitting.append(&mut others);
        fitting
    }

    /// The server did not answer in time.
    pub fn is_silent(&self, address: &Address) {
        for host in self.0.iter().filter(|host| host.address == *address) {
            *host.silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Host {
    fn is_silent(&self) -> bool {
        let silent = *self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.is_some_and(|since| since.elapsed() < AVOIDED)
    }

    async fn role(&self, config: &Config, connector: &Connector, login: &Login) -> Option<Role> {
        let mut known = self.role.lock().await;
        if let Some((_, role)) = known.filter(|(at, _)| at.elapsed() < BELIEVED) {
            return role;
        }
        let role = match probe::role(&self.address, config, connector, login).await {
            Ok(role) => Some(role),
            Err(error) => {
                tracing::warn!(host = %self.address, error, "a server cannot be asked whether it fits target_session_attrs");
                None
            }
        };
        *known = Some((Instant::now(), role));
        role
    }
}

/// Puts them in random order; leaves them as they are where the system has no random numbers.
fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let mut random = [0; 8];
        if getrandom::fill(&mut random).is_err() {
            return;
        }
        let bound = last as u64 + 1;
        items.swap(last, usize::try_from(u64::from_ne_bytes(random) % bound).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_fit_as_libpq_says() {
        let role = |standby, read_only| Role { standby, read_only };
        let (primary, locked, standby) = (role(false, false), role(false, true), role(true, true));
        for (wanted, expected) in [
            (Wanted::Any, [true, true, true]),
            (Wanted::ReadWrite, [true, false, false]),
            (Wanted::ReadOnly, [false, true, true]),
            (Wanted::Primary, [true, true, false]),
            (Wanted::Standby, [false, false, true]),
            (Wanted::PreferStandby, [false, false, true]),
        ] {
            assert_eq!([primary, locked, standby].map(|role| wanted.fits(role)), expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_shuffle_keeps_all_and_reaches_every_place() {
        let mut first = [0; 4];
        for _ in 0..400 {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items);
            first[items[0]] += 1;
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3]);
        }
        // Each is expected a hundred times.
        assert!(first.iter().all(|&count| count > 40), "{first:?}");
    }
}
