//! Servers that are not there, or die: the client is told, the fates are right, and the next client is served.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use crate::hostile::assert_sound;
use crate::scenario::EV;
use crate::support::cluster::Cluster;
use crate::support::cluster::free_port;
use crate::support::message;
use crate::support::wire::{self, Reply};
use crate::support::{Database, Proxy, Wire, eventually};

const KEY: &str = "11111111-1111-4111-8111-111111111111";

/// Ends a backend the way the kernel does when memory is short.
fn kill(pid: &str) {
    let status = Command::new("kill").args(["-9", pid]).status();
    assert!(status.expect("kill is part of every system").success());
}

fn assert_says_08(replies: &[Reply], upstream: SocketAddr) {
    let error =
        replies.iter().find(|reply| reply.tag == b'E').unwrap_or_else(|| panic!("no error in {replies:?}"));
    assert_eq!(error.field(b'S').as_deref(), Some("FATAL"));
    assert_eq!(error.field(b'C').expect("a SQLSTATE").get(..2), Some("08"));
    let message = error.field(b'M').expect("a message");
    assert!(message.contains(&upstream.to_string()), "{message:?} does not name {upstream}");
}

#[test]
fn an_unreachable_server_is_named() {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut proxy = Proxy::start(nobody, "postgres", &[]);
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", "postgres")]));
    assert_says_08(&client.until_end(), nobody);
    assert!(proxy.is_running());
}

#[test]
fn a_backend_that_is_ended_ends_its_client_alone() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let pid = client.rows("SELECT pg_backend_pid()")[0].clone();
    client.send(&message::query("SELECT pg_sleep(60)"));
    database.run(&format!("SELECT pg_terminate_backend({pid})"));
    let last = client.until_end();
    assert_eq!(wire::outcomes(&last), ["!57P01"], "the server's last word is relayed");
    assert_sound(&mut proxy, "after one backend ended");
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_result_is_survived() {
    let cluster = Cluster::start(&[]);
    let database = cluster.database(EV);
    let mut proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let pid = client.rows("SELECT pg_backend_pid()")[0].clone();
    client.run(&format!("BEGIN; INSERT INTO ev(id,v) VALUES ('{KEY}','a'),('{KEY}','b')"));
    client.send(&message::query("SELECT repeat('x', 1000) FROM generate_series(1, 10000000)"));
    assert!(client.reply().is_ok(), "the result has begun");
    kill(&pid);
    let rows = client.until_end();
    assert!(rows.len() < 10_000_000, "the result ended early");
    let fates: Vec<_> = proxy.settled_journal().iter().map(|record| record["fate"].clone()).collect();
    assert_eq!(fates, ["rolled_back"]);
    // The killed backend stays listed until the server has started over.
    let listed = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    let back = || {
        let connection = Wire::open(cluster.address(), &[("user", "postgres")]);
        connection.is_ok_and(|(mut wire, _)| wire.try_rows(&listed).is_ok_and(|rows| rows == ["0"]))
    };
    assert!(eventually(back), "the server recovers");
    assert_sound(&mut proxy, "after the server recovered");
}

#[test]
fn a_commit_whose_answer_is_lost_has_no_known_fate() {
    let cluster = Cluster::start(&[]);
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(60); RETURN NULL; END$$;
                CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow_table INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()";
    let database = cluster.database(&format!("{EV}; CREATE TABLE slow_table (i int); {slow}"));
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let pid = client.rows("SELECT pg_backend_pid()")[0].clone();
    client.run(&format!(
        "BEGIN; INSERT INTO slow_table VALUES (1); INSERT INTO ev(id,v) VALUES ('{KEY}','a'),('{KEY}','b')"
    ));
    client.send(&message::query("COMMIT"));
    let waits = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'");
    assert!(eventually(|| database.stored(&waits) == ["1"]));
    kill(&pid);
    client.until_end();
    let fates: Vec<_> = proxy.settled_journal().iter().map(|record| record["fate"].clone()).collect();
    assert_eq!(fates, ["unknown"]);
}
