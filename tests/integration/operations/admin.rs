//! What is told by HTTP: whether the process is alive and ready, and how much of what.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::admin::{ADMIN, address, get, metrics};
use crate::support::cluster::free_port;
use crate::support::{Database, Proxy, Wire, eventually};

/// Far more than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn without_the_setting_nothing_is_told() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    proxy.connect().run("SELECT 1");
    assert!(!proxy.stderr().contains("metrics"), "{}", proxy.stderr());
}

#[test]
fn readiness_ends_before_clients_are_turned_away() {
    let database = Database::fresh("");
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
    assert!(eventually(|| Wire::dial(proxy.address).is_err()));
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
    let database = Database::fresh("");
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
    let database = Database::fresh("");
    let mut proxy = Proxy::with(&database, &[&ADMIN[..], &["--max-connections", "1"]].concat());
    let admin = address(&proxy);
    let first = proxy.connect();
    let told = Wire::open(proxy.address, &[("user", "postgres"), ("database", database.name.as_str())]);
    let refused = r#"sessions_refused_total{reason="max_connections"}"#;
    assert!(told.is_err());
    assert!(eventually(|| metrics(admin).get(refused) == Some(&1)), "{:?}", metrics(admin));
    // Whom it has refused it still lets read why, for a moment.
    assert!(eventually(|| metrics(admin)["sessions_open"] == 1), "{:?}", metrics(admin));
    let now = metrics(admin);
    assert_eq!(now["sessions_total"], 2, "{now:?}");
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
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::start(nobody, "postgres", &ADMIN);
    let admin = address(&proxy);
    let told = Wire::open(proxy.address, &[("user", "postgres")]);
    assert!(told.is_err());
    assert_eq!(metrics(admin)[r#"upstream_errors_total{purpose="connect"}"#], 1);
    assert_eq!(metrics(admin)[r#"sessions_refused_total{reason="no connection to the database"}"#], 1);
    assert_eq!(get(admin, "/readyz").0, 200);
}

#[test]
fn silent_scrapers_do_not_disturb_sessions() {
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY)");
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
