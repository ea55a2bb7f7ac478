//! What is told by HTTP: whether the process is alive and ready, and how much of what.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::{Proxy, eventually};

/// Far more than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What turns the listener on; the address is in the log.
pub const ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

/// Where a proxy that was started with [`ADMIN`] tells.
pub fn address(proxy: &Proxy) -> SocketAddr {
    let found = || {
        let told = proxy.stderr();
        let line = told.lines().find(|line| line.contains("metrics and health are told"))?;
        line.rsplit_once("address=")?.1.trim().parse().ok()
    };
    assert!(eventually(|| found().is_some()), "{}", proxy.stderr());
    found().expect("it was found")
}

/// Status and body of the answer.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// Every series with its value: the name without prefix, and its labels as they are spelled.
pub fn metrics(address: SocketAddr) -> BTreeMap<String, u64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let name = series.strip_prefix("untwin_").unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

#[test]
fn without_the_setting_nothing_is_told() {
    let database = crate::support::Database::fresh("");
    let proxy = Proxy::before(&database);
    proxy.connect().run("SELECT 1");
    assert!(!proxy.stderr().contains("metrics"), "{}", proxy.stderr());
}

#[test]
fn readiness_ends_before_clients_are_turned_away() {
    let database = crate::support::Database::fresh("");
    let mut proxy = Proxy::with(&database, &[&ADMIN[..], &["--drain-delay", "2s"]].concat());
    let admin = address(&proxy);
    assert_eq!(get(admin, "/readyz"), (200, "ready\n".to_owned()));
    let mut early = proxy.connect();
    early.run("BEGIN");
    proxy.signal("TERM");
    let told = Instant::now();
    assert!(eventually(|| get(admin, "/readyz").0 == 503));
    assert_eq!(get(admin, "/readyz").1, "not ready: about to end; clients are still let in\n");
    let mut late = proxy.connect();
    assert_eq!(late.rows("SELECT 'let in'"), ["let in"]);
    drop(late);
    assert!(eventually(|| crate::support::Wire::dial(proxy.address).is_err()));
    assert!(told.elapsed() >= Duration::from_secs(2), "{:?}", told.elapsed());
    // A transaction is open: the process goes on, and tells so.
    assert!(eventually(|| get(admin, "/readyz").1 == "not ready: ending; open sessions: 1\n"));
    assert_eq!(get(admin, "/livez"), (200, "alive\n".to_owned()));
    assert_eq!(metrics(admin)["draining"], 1);
    early.run("COMMIT");
    drop(early);
    assert_eq!(proxy.exit_code(PATIENCE), Some(0));
}

#[test]
fn an_interrupt_does_not_wait_for_the_delay() {
    let database = crate::support::Database::fresh("");
    let mut proxy = Proxy::with(&database, &["--drain-delay", "1h"]);
    let mut client = proxy.connect();
    client.run("SELECT 1");
    proxy.signal("TERM");
    assert!(eventually(|| proxy.stderr().contains("about to end")));
    client.run("SELECT 1");
    proxy.signal("INT");
    drop(client);
    assert_eq!(proxy.exit_code(PATIENCE), Some(0));
}

#[test]
fn sessions_and_refusals_are_counted() {
    let database = crate::support::Database::fresh("");
    let mut proxy = Proxy::with(&database, &[&ADMIN[..], &["--max-connections", "1"]].concat());
    let admin = address(&proxy);
    let first = proxy.connect();
    let told = crate::support::Wire::open(
        proxy.address,
        &[("user", "postgres"), ("database", database.name.as_str())],
    );
    let refused = r#"sessions_refused_total{reason="max_connections"}"#;
    assert!(told.is_err());
    assert!(eventually(|| metrics(admin).get(refused) == Some(&1)), "{:?}", metrics(admin));
    let now = metrics(admin);
    assert_eq!((now["sessions_open"], now["sessions_total"]), (1, 2), "{now:?}");
    assert_eq!(now["catalog_loads_total"], 1);
    let age =
        jiff::Timestamp::now().as_second() - i64::try_from(now["catalog_loaded_timestamp_seconds"]).unwrap();
    assert!((0..60).contains(&age), "{age}");
    drop(first);
    assert!(eventually(|| metrics(admin)["sessions_open"] == 0));
    assert!(proxy.is_running());
}

#[test]
fn a_database_that_does_not_answer_leaves_untwin_ready() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], crate::support::cluster::free_port()));
    let proxy = Proxy::start(nobody, "postgres", &ADMIN);
    let admin = address(&proxy);
    let told = crate::support::Wire::open(proxy.address, &[("user", "postgres")]);
    assert!(told.is_err());
    assert_eq!(metrics(admin)[r#"upstream_errors_total{purpose="connect"}"#], 1);
    assert_eq!(metrics(admin)[r#"sessions_refused_total{reason="no connection to the database"}"#], 1);
    assert_eq!(get(admin, "/readyz").0, 200);
}

#[test]
fn silent_scrapers_do_not_disturb_sessions() {
    let database = crate::support::Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY)");
    let proxy = Proxy::with(&database, &[&ADMIN[..], &["--workers", "1"]].concat());
    let admin = address(&proxy);
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(admin).expect("the queue is long")).collect();
    let started = Instant::now();
    let mut client = proxy.connect();
    (0..200).for_each(|_| client.run("SELECT 1"));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    drop(silent);
    assert!(eventually(|| get(admin, "/livez").0 == 200));
}
