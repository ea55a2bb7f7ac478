//! The end of the proxy: sessions end between transactions, each is told why, and nothing committed is lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::fake::{Fake, let_in};
use crate::support::program::{find, run, succeed};
use crate::support::wire::{outcomes, tags};
use crate::support::{Database, Proxy, Wire, eventually, message};

/// Far more than any of these ends needs.
const LIMIT: Duration = Duration::from_secs(30);

/// The last words of a session that the proxy ends.
fn assert_told(client: &mut Wire) {
    let last = client.until_end();
    assert_eq!(outcomes(&last), ["!57P01"], "{last:?}");
    assert_eq!(last[0].field(b'S').as_deref(), Some("FATAL"));
    let hint = last[0].field(b'H').expect("a hint");
    assert!(hint.starts_with("untwin is shutting down"), "{hint}");
}

/// Waits until nobody is let in any more.
fn assert_closed(address: SocketAddr) {
    assert!(eventually(|| Wire::dial(address).is_err()), "new connections are still accepted");
}

#[test]
fn an_idle_session_ends_at_once() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    client.run("SELECT 1");
    let started = Instant::now();
    proxy.signal("TERM");
    assert_told(&mut client);
    drop(client);
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10));
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()",
        database.name
    );
    assert!(eventually(|| database.stored(&open) == ["0"]), "a session is left on the server");
}

#[test]
fn the_server_is_told_that_the_session_is_over() {
    let (sender, last) = channel();
    let somewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Fake::start(somewhere, move |stream, _| {
        let _ = sender.send(let_in(stream, &[1; 8]));
    });
    let mut proxy = Proxy::start(server.address, "postgres", &[]);
    let mut client = proxy.connect();
    client.query("SELECT 1");
    proxy.signal("TERM");
    assert_told(&mut client);
    drop(client);
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
    assert_eq!(last.recv_timeout(LIMIT), Ok(b'X'));
}

#[test]
fn a_transaction_goes_on_to_its_end() {
    let database = Database::fresh("CREATE TABLE t (i int)");
    let mut proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    client.run("BEGIN; INSERT INTO t VALUES (1)");
    proxy.signal("TERM");
    assert_closed(proxy.address);
    client.run("INSERT INTO t VALUES (2)");
    client.send(&message::query("COMMIT"));
    assert_eq!(tags(&client.until_ready(1)), "CZ");
    assert_told(&mut client);
    drop(client);
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
    assert_eq!(database.stored("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn nothing_is_cut_off() {
    let database = Database::fresh("CREATE TABLE t (i int)");
    let mut proxy = Proxy::before(&database);
    let (mut middle, mut piped, mut copying) = (proxy.connect(), proxy.connect(), proxy.connect());
    let query = message::query("INSERT INTO t VALUES (1)");
    let (head, tail) = query.split_at(9);
    middle.run("SELECT 1");
    middle.send(head);
    piped.send(&message::extended("INSERT INTO t VALUES (2)", &[]));
    copying.send(&message::query("COPY t FROM STDIN"));
    copying.until(b'G');
    std::thread::sleep(Duration::from_millis(200));
    proxy.signal("TERM");
    assert_closed(proxy.address);
    std::thread::sleep(Duration::from_millis(200));
    middle.send(tail);
    assert_eq!(tags(&middle.until_ready(1)), "CZ");
    assert_told(&mut middle);
    piped.send(&message::sync());
    assert_eq!(tags(&piped.until_ready(1)), "12nCZ");
    assert_told(&mut piped);
    copying.send(&[message::copy_data(b"3\n"), message::copy_done()].concat());
    assert_eq!(tags(&copying.until_ready(1)), "CZ");
    assert_told(&mut copying);
    drop((middle, piped, copying));
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
    assert_eq!(database.stored("SELECT i FROM t ORDER BY i"), ["1", "2", "3"]);
}

#[test]
fn who_has_just_connected_may_do_what_it_came_for() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let (mut client, mut silent) = (proxy.connect(), proxy.connect());
    proxy.signal("TERM");
    assert_closed(proxy.address);
    assert_eq!(client.rows("SELECT 'served'"), ["served"]);
    assert_told(&mut client);
    assert_told(&mut silent);
    drop((client, silent));
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
}

#[test]
fn a_connection_that_never_says_anything_holds_nobody_up() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let mut silent = Wire::dial(proxy.address).expect("the proxy listens");
    proxy.connect().run("SELECT 1");
    proxy.signal("TERM");
    assert_told(&mut silent);
    drop(silent);
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
}

#[test]
fn after_the_drain_timeout_the_rest_is_ended() {
    let database = Database::fresh("CREATE TABLE t (i int)");
    let mut proxy = Proxy::with(&database, &["--drain-timeout", "300ms"]);
    let (mut open, mut busy) = (proxy.connect(), proxy.connect());
    open.run("BEGIN; INSERT INTO t VALUES (1)");
    busy.send(&message::query("SELECT pg_sleep(50)"));
    proxy.signal("TERM");
    assert_told(&mut open);
    assert_told(&mut busy);
    assert_eq!(proxy.exit_code(LIMIT), Some(0));
    let left = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND state LIKE 'idle in%'",
        database.name
    );
    assert!(eventually(|| database.stored(&left) == ["0"]), "a transaction is left open");
    assert_eq!(database.stored("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn an_interrupt_ends_all_at_once() {
    for before in [None, Some("TERM")] {
        let database = Database::fresh("");
        let mut proxy = Proxy::before(&database);
        let (mut idle, mut open) = (proxy.connect(), proxy.connect());
        open.run("BEGIN");
        if let Some(signal) = before {
            proxy.signal(signal);
            assert_closed(proxy.address);
        }
        let started = Instant::now();
        proxy.signal("INT");
        assert_told(&mut idle);
        assert_told(&mut open);
        assert_eq!(proxy.exit_code(LIMIT), Some(0));
        assert!(started.elapsed() < Duration::from_secs(10), "after {before:?}");
    }
}

#[test]
fn a_restart_under_load_loses_no_committed_transaction() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let direct = database.address.port().to_string();
    let pgbench = find("pgbench");
    let target = ["-h", "127.0.0.1", "-U", "postgres", "-n", &database.name];
    succeed(&pgbench, &[&["-i", "-q", "-p", &direct], &target[..]].concat(), "");
    let port = proxy.address.port().to_string();
    let load = ["-p", &port, "-c", "8", "-j", "2", "-T", "60", "-M", "prepared"];
    let report = std::thread::scope(|scope| {
        let load = scope.spawn(|| run(&pgbench, &[&load, &target[..]].concat(), ""));
        assert!(eventually(|| database.stored("SELECT count(*) > 100 FROM pgbench_history") == ["t"]));
        proxy.signal("TERM");
        assert_eq!(proxy.exit_code(LIMIT), Some(0));
        load.join().expect("pgbench ran")
    });
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    let processed =
        said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let stored = database.stored("SELECT count(*) FROM pgbench_history");
    assert_eq!(processed, Some(stored[0].as_str()), "{said}{}", String::from_utf8_lossy(&report.stderr));
}
