//! The first packets of a connection in every version and with every extension: the server's answer is the client's.

use std::net::SocketAddr;

use crate::scenario::EV;
use crate::support::message::{self, untagged};
use crate::support::wire::{Reply, outcomes};
use crate::support::{Database, Proxy, Wire, cluster, eventually};

/// A request for encryption by GSSAPI, and one by TLS.
const GSSENC: u32 = 80_877_104;
const SSL: u32 = 80_877_103;

/// Protocol 3.2, in which a backend key is as long as the server likes.
const LONG_KEYS: u32 = 3 << 16 | 2;

/// A minor version that will never be, for clients that look whether servers cope with what they do not know.
const GREASE: u32 = 3 << 16 | 9999;

/// StartupMessage of any version.
fn startup(version: u32, database: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let parameters = [&[("user", "postgres"), ("database", database)], more].concat();
    let version_and_rest: Vec<u8> =
        version.to_be_bytes().into_iter().chain(message::startup(&parameters).into_iter().skip(8)).collect();
    untagged(&version_and_rest)
}

/// What the server says to these packets until it is ready, and to a Terminate; without the backend key, which is each session's own.
fn answers(address: SocketAddr, packets: &[u8]) -> Vec<Reply> {
    let mut wire = Wire::dial(address).expect("a listener");
    wire.send(&[packets, &message::terminate()].concat());
    let mut replies = wire.until_end();
    for key in replies.iter_mut().filter(|reply| reply.tag == b'K') {
        key.body = vec![u8::try_from(key.body.len()).expect("at most 260 bytes")];
    }
    replies
}

fn is_newer() -> bool {
    cluster::shared().version() >= 180_000
}

/// A version, startup parameters, and whether the server answers that it knows less than was asked for.
type Case<'a> = (u32, &'a [(&'a str, &'a str)], bool);

#[test]
fn every_version_and_extension_is_answered_as_by_the_server() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let cases: [Case<'_>; 6] = [
        (3 << 16, &[], false),
        (LONG_KEYS, &[], !is_newer()),
        (GREASE, &[], true),
        (GREASE, &[("_pq_.test_protocol_negotiation", "")], true),
        (3 << 16, &[("_pq_.one", "1"), ("_pq_.two", "2")], true),
        (LONG_KEYS, &[("_pq_.one", "1"), ("application_name", "x")], true),
    ];
    for (version, more, negotiates) in cases {
        let packet = startup(version, &database.name, more);
        let expected = answers(database.address, &packet);
        assert_eq!(answers(proxy.address, &packet), expected, "{version:#x} {more:?}");
        let is_negotiated = expected.iter().any(|reply| reply.tag == b'v');
        assert_eq!(is_negotiated, negotiates, "{version:#x} {more:?}: {expected:?}");
    }
}

#[test]
fn another_major_version_is_refused_in_the_same_way() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    for version in [2 << 16, 4 << 16] {
        let packet = startup(version, &database.name, &[]);
        let code =
            |address| answers(address, &packet).iter().map(|reply| reply.field(b'C')).collect::<Vec<_>>();
        assert_eq!(code(proxy.address), [Some("0A000".to_owned())], "{version:#x}");
        // What was spoken before 3.0 has errors of another form.
        assert!(version < 3 << 16 || code(database.address) == code(proxy.address), "{version:#x}");
    }
}

#[test]
fn a_session_of_any_minor_version_is_inspected() {
    for version in [3 << 16, LONG_KEYS, GREASE] {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let mut wire = Wire::dial(proxy.address).expect("the proxy listens");
        wire.send(&startup(version, &database.name, &[("_pq_.grease", "")]));
        wire.greeting().expect("a login");
        let key = "11111111-1111-4111-8111-111111111111";
        wire.run(&format!("BEGIN; INSERT INTO ev(id) VALUES ('{key}'), ('{key}'); COMMIT"));
        assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["2"], "{version:#x}");
    }
}

#[test]
fn a_long_backend_key_cancels() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let mut sleeper = Wire::dial(proxy.address).expect("the proxy listens");
    sleeper.send(&startup(LONG_KEYS, &database.name, &[]));
    sleeper.greeting().expect("a login");
    assert_eq!(sleeper.backend_key.len(), if is_newer() { 36 } else { 8 });
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    let sleeps = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    assert!(eventually(|| database.stored(&sleeps) == ["1"]));
    let cancel = |key: &[u8]| {
        let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
        canceller.send(&message::cancel(key));
        assert_eq!(canceller.until_end(), []);
    };
    let mut wrong = sleeper.backend_key.clone();
    *wrong.last_mut().expect("a key") ^= 1;
    cancel(&wrong);
    assert_eq!(database.stored(&sleeps), ["1"], "a wrong key does nothing");
    cancel(&sleeper.backend_key.clone());
    assert_eq!(outcomes(&sleeper.until_ready(1)), ["!57014"]);
}

#[test]
fn encryption_that_is_not_there_is_declined_and_the_login_goes_on() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    for requests in [&[GSSENC][..], &[SSL], &[GSSENC, SSL], &[SSL, GSSENC]] {
        let mut wire = Wire::dial(proxy.address).expect("the proxy listens");
        for request in requests {
            wire.send(&untagged(&request.to_be_bytes()));
            assert_eq!(wire.byte(), b'N', "{requests:?}");
        }
        wire.send(&startup(3 << 16, &database.name, &[]));
        wire.greeting().expect("a login");
        assert_eq!(wire.rows("SELECT 1"), ["1"]);
    }
}
