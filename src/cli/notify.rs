//! What systemd is told of this process (`sd_notify(3)`): datagrams to the socket that it names in the
//! environment. Without one, nothing is told.

use std::ffi::{OsStr, OsString};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A service manager that wants to know, or none.
#[derive(Debug, Default)]
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// It restarts this process when it hears nothing for so long.
    watchdog: Option<Duration>,
}

/// How long the manager may take to accept a message.
const PATIENCE: Duration = Duration::from_secs(1);

impl Manager {
    /// The one that `NOTIFY_SOCKET` and `WATCHDOG_USEC` speak of.
    pub fn from_environment() -> Self {
        Self::new(std::env::var_os("NOTIFY_SOCKET"), |name| std::env::var(name).ok(), std::process::id())
    }

    fn new(socket: Option<OsString>, variable: impl Fn(&str) -> Option<String>, process: u32) -> Self {
        let Some(address) = socket.as_deref().and_then(address) else { return Self::default() };
        let Ok(socket) = UnixDatagram::unbound() else { return Self::default() };
        let _ = socket.set_write_timeout(Some(PATIENCE));
        let meant = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(process));
        let watchdog = variable("WATCHDOG_USEC").filter(|_| meant).and_then(|limit| limit.parse().ok());
        let watchdog = watchdog.filter(|&limit| limit > 0).map(Duration::from_micros);
        Self { socket: Some((socket, address)), watchdog }
    }

    /// Clients are served from now on.
    pub fn ready(&self) {
        self.say("READY=1\nSTATUS=serving");
    }

    /// The process ends, in `limit` at the latest.
    pub fn stopping(&self, limit: Duration) {
        let limit = limit.as_micros();
        self.say(&format!(
            "STOPPING=1\nSTATUS=ending sessions outside their transactions\nEXTEND_TIMEOUT_USEC={limit}"
        ));
    }

    /// Says again and again that all is well, as often as the manager wants to hear it. Never returns.
    pub async fn keep_alive(&self) {
        let Some(limit) = self.watchdog else { return std::future::pending().await };
        loop {
            self.say("WATCHDOG=1");
            tokio::time::sleep(limit / 2).await;
        }
    }

    fn say(&self, text: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
            tracing::warn!(%error, "the service manager was not told: {}", text.lines().next().unwrap_or_default());
        }
    }
}

/// A path, or a name in Linux' abstract namespace behind an `@`.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(given: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_manager_hears_by_path_and_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let mut ears = vec![(by_path, path.into_os_string())];
        #[cfg(target_os = "linux")]
        {
            let name = format!("untwin-test-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            ears.push((UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into()));
        }
        for (ear, name) in ears {
            Manager::new(Some(name), variables(&[]), 1).ready();
            let mut heard = [0; 64];
            let length = ear.recv(&mut heard).unwrap();
            assert!(heard[..length].starts_with(b"READY=1\n"));
        }
    }

    #[test]
    fn without_a_manager_nothing_is_told() {
        for name in [None, Some(""), Some("vsock:2:1234"), Some("relative"), Some("/nowhere/notify")] {
            Manager::new(name.map(OsString::from), variables(&[]), 1).ready();
        }
    }

    #[test]
    fn the_watchdog_is_that_of_this_process() {
        for (given, expected) in [
            (&[][..], None),
            (&[("WATCHDOG_USEC", "3000000")], Some(Duration::from_secs(3))),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "7")], Some(Duration::from_secs(3))),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "8")], None),
            (&[("WATCHDOG_USEC", "0")], None),
            (&[("WATCHDOG_USEC", "often")], None),
        ] {
            let manager = Manager::new(Some("/nowhere".into()), variables(given), 7);
            assert_eq!(manager.watchdog, expected, "{given:?}");
        }
    }
}
