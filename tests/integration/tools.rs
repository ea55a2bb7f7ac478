//! Postgres' own programs through the proxy: psql, pgbench, replication; and requests to cancel.

use std::time::{Duration, Instant};

use crate::scenario::EV;
use crate::support::program::{find, run, succeed};
use crate::support::{Database, Proxy, Wire, eventually, message, wire};

fn target(proxy: &Proxy, database: &Database) -> String {
    format!("host=127.0.0.1 port={} user=postgres dbname={}", proxy.address.port(), database.name)
}

#[test]
fn pgbench_runs_in_every_protocol() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let port = proxy.address.port().to_string();
    let target = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    let pgbench = |arguments: &[&str]| {
        succeed(&find("pgbench"), &[&target[..], arguments, &[&database.name]].concat(), "")
    };
    pgbench(&["-i", "-s", "1", "-q"]);
    for protocol in ["simple", "extended", "prepared"] {
        let report = pgbench(&["-M", protocol, "-c", "4", "-j", "2", "-t", "50", "-n"]);
        assert!(report.contains("actually processed: 200/200"), "{protocol}: {report}");
    }
    assert_eq!(database.stored("SELECT count(*) FROM pgbench_history"), ["600"]);
}

#[test]
fn pgbench_pipelines_are_compared() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let key = "11111111-1111-4111-8111-111111111111";
    let insert = format!("INSERT INTO ev(id,v) VALUES ('{key}', :client_id);\n");
    let script =
        format!("\\startpipeline\nBEGIN;\n{insert}{insert}DELETE FROM ev;\nCOMMIT;\n\\endpipeline\n");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), script).expect("a script");
    let port = proxy.address.port().to_string();
    let path = file.path().to_str().expect("a path");
    let arguments = [
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "postgres",
        "-n",
        "-M",
        "extended",
        "-t",
        "10",
        "-f",
        path,
        &database.name,
    ];
    let report = succeed(&find("pgbench"), &arguments, "");
    assert!(report.contains("actually processed: 10/10"), "{report}");
    assert_eq!(proxy.settled_journal().iter().filter(|record| record["action"] == "rekeyed").count(), 10);
}

#[test]
fn psql_works_as_ever() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let script = "\\d ev\n\\copy ev(id,v) FROM STDIN\n11111111-1111-4111-8111-111111111111\ta\n\\.\n\\copy (SELECT v FROM ev) TO STDOUT\nSELECT 1 \\gdesc\n\\errverbose\n";
    let through = target(&proxy, &database);
    let direct =
        format!("host=127.0.0.1 port={} user=postgres dbname={}", database.address.port(), database.name);
    let psql = |target: &str| run(&find("psql"), &["-X", "-d", target], script);
    let (expected, _) = (psql(&direct), database.run("TRUNCATE ev"));
    let actual = psql(&through);
    let shown = |output: &std::process::Output| {
        String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
    };
    assert_eq!(shown(&actual), shown(&expected));
}

#[test]
fn replication_is_relayed() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let logical = format!("{} replication=database", target(&proxy, &database));
    let answer = succeed(&find("psql"), &["-X", "-A", "-t", "-d", &logical, "-c", "IDENTIFY_SYSTEM"], "");
    assert!(answer.trim_end().ends_with(&database.name), "{answer}");

    database.run("CREATE TABLE before_the_end (i int)");
    let end = database.stored("SELECT pg_current_wal_lsn()")[0].clone();
    database.run("CREATE TABLE after_the_end (i int)");
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().to_str().expect("a path");
    let port = proxy.address.port().to_string();
    let arguments =
        ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-D", path, "-n", "-E", &end, "--no-sync"];
    succeed(&find("pg_receivewal"), &arguments, "");
    assert!(std::fs::read_dir(path).expect("the directory").next().is_some(), "no WAL was received");
}

#[test]
fn a_cancel_request_stops_its_own_session() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let (mut sleeper, mut other) = (proxy.connect(), proxy.connect());
    let started = Instant::now();
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    let sleeps = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    assert!(eventually(|| database.stored(&sleeps) == ["1"]));
    let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
    canceller.send(&message::cancel(&sleeper.backend_key));
    assert_eq!(canceller.until_end(), [], "a cancel request has no reply");
    assert_eq!(wire::outcomes(&sleeper.until_ready(1)), ["!57014"]);
    assert!(started.elapsed() < Duration::from_secs(40));
    assert_eq!(other.rows("SELECT 'undisturbed'"), ["undisturbed"]);
}
