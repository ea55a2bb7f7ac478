//! Replication through the proxy: backups, physical and logical, with Postgres' own programs and servers as clients.

use tempfile::TempDir;

use crate::scenario::EV;
use crate::support::cluster::Cluster;
use crate::support::program::{find, succeed};
use crate::support::{Database, Proxy, Wire, eventually};
use crate::tools::target;

const KEY: &str = "11111111-1111-4111-8111-111111111111";

/// A batch with twins.
fn twins() -> String {
    format!("BEGIN; INSERT INTO ev(id) VALUES ('{KEY}'), ('{KEY}'); COMMIT")
}

/// How many rows there are, and how many keys.
const KEYS: &str = "SELECT count(*), count(DISTINCT id) FROM ev";

#[test]
fn replication_commands_are_relayed() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let logical = format!("{} replication=database", target(&proxy, &database));
    let psql = |command: &str| succeed(&find("psql"), &["-X", "-A", "-t", "-d", &logical, "-c", command], "");
    let answer = psql("IDENTIFY_SYSTEM");
    assert!(answer.trim_end().ends_with(&database.name), "{answer}");
    assert_eq!(psql("SHOW wal_level").trim_end(), "logical");
    assert_eq!(psql("SELECT 'SQL as well'").trim_end(), "SQL as well");
}

#[test]
fn pg_receivewal_receives() {
    let database = Database::fresh("CREATE TABLE before_the_end (i int)");
    let proxy = Proxy::before(&database);
    let end = database.stored("SELECT pg_current_wal_insert_lsn()")[0].clone();
    database.run("CREATE TABLE after_the_end (i int)");
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().to_str().expect("a path");
    let connection = format!("host=127.0.0.1 port={} user=postgres", proxy.address.port());
    succeed(&find("pg_receivewal"), &["-d", &connection, "-D", path, "-n", "-E", &end, "--no-sync"], "");
    assert!(std::fs::read_dir(path).expect("the directory").next().is_some(), "no WAL was received");
}

#[test]
fn pg_recvlogical_receives() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let connection = target(&proxy, &database);
    let slot = format!("slot_of_{}", database.name);
    let receive = |arguments: &[&str]| {
        succeed(&find("pg_recvlogical"), &[&["-d", &connection, "--slot", &slot], arguments].concat(), "")
    };
    receive(&["--create-slot", "-P", "test_decoding"]);
    proxy.connect().run(&twins());
    let end = database.stored("SELECT pg_current_wal_insert_lsn()")[0].clone();
    let changes = receive(&["--start", "--no-loop", "-o", "include-xids=0", "-E", &end, "-f", "-"]);
    receive(&["--drop-slot"]);
    assert_eq!(changes.matches("table public.ev: INSERT:").count(), 2, "{changes}");
    assert_eq!(changes.matches(KEY).count(), 1, "{changes}");
}

#[test]
fn a_subscription_copies_and_follows() {
    let publisher = Database::fresh(&format!("{EV}; CREATE PUBLICATION p FOR TABLE ev"));
    let proxy = Proxy::before(&publisher);
    proxy.connect().run(&twins());
    let other = Cluster::start(&[]);
    let subscriber = other.database(EV);
    let slot = format!("subscription_of_{}", publisher.name);
    let connection = target(&proxy, &publisher);
    subscriber.run(&format!("CREATE SUBSCRIPTION {slot} CONNECTION '{connection}' PUBLICATION p"));
    let copied = eventually(|| subscriber.stored(KEYS) == ["2|2"]);
    proxy.connect().run(&twins().replace('1', "2"));
    let followed = copied && eventually(|| subscriber.stored(KEYS) == ["4|4"]);
    subscriber.run(&format!("DROP SUBSCRIPTION {slot}"));
    assert!(followed, "{:?}\n{}", subscriber.stored(KEYS), proxy.stderr());
    assert_eq!(
        publisher.stored("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"),
        ["0"]
    );
}

#[test]
fn a_backup_is_whole_and_a_standby_follows() {
    let primary = Cluster::start(&[]);
    let database = primary.database(EV);
    let proxy = Proxy::before(&database);
    proxy.connect().run(&twins());
    let directory = TempDir::new().expect("a temporary directory");
    let backup = directory.path().join("backup");
    let backup = backup.to_str().expect("a path");
    let connection = format!("host=127.0.0.1 port={} user=postgres", proxy.address.port());
    succeed(
        &find("pg_basebackup"),
        &["-d", &connection, "-D", backup, "-X", "stream", "-c", "fast", "--no-sync"],
        "",
    );
    succeed(&find("pg_verifybackup"), &[backup], "");

    let standby = Cluster::standby(proxy.address);
    let copied = || Wire::connect(standby.address(), &database.name).rows(KEYS);
    assert_eq!(copied(), ["2|2"]);
    proxy.connect().run(&twins().replace('1', "2"));
    assert!(eventually(|| copied() == ["4|4"]), "{:?}\n{}", copied(), proxy.stderr());
}
