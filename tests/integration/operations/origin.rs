//! Load balancers that say whose a connection is, and those who only pretend to be one.

use crate::hostile::assert_sound;
use crate::scenario::EV;
use crate::support::message;
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy, Wire, eventually};

const KEY: &str = "11111111-1111-4111-8111-111111111111";

fn startup(database: &Database) -> Vec<u8> {
    message::startup(&[("user", "postgres"), ("database", &database.name)])
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("a short rest").to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, rest].concat()
}

#[test]
fn the_journal_and_the_log_name_the_client_behind_the_balancer() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--proxy-protocol", "127.0.0.0/8"]);
    let v4 = [192, 0, 2, 7, 127, 0, 0, 1, 0xdc, 0x04, 0x15, 0x38];
    let headers = [
        (b"PROXY TCP4 192.0.2.7 127.0.0.1 56324 5432\r\n".to_vec(), Some("192.0.2.7:56324")),
        (b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n".to_vec(), Some("[2001:db8::7]:1")),
        (version_2(0x21, 0x11, &[&v4[..], b"\x04\0\x01x"].concat()), Some("192.0.2.7:56324")),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (version_2(0x20, 0, b""), None),
    ];
    for (at, (header, expected)) in headers.into_iter().enumerate() {
        let mut client = Wire::dial(proxy.address).expect("the proxy listens");
        client.send(&[header, startup(&database)].concat());
        client.greeting().expect("the client is let in");
        client.run(&format!("BEGIN; INSERT INTO ev(id,v) VALUES ('{KEY}','a'),('{KEY}','b'); ROLLBACK"));
        let records = proxy.settled_journal();
        assert_eq!(records.len(), at + 1, "{records:?}");
        let told = records[at]["client"].as_str().expect("the client's address").to_owned();
        match expected {
            Some(expected) => assert_eq!(told, expected),
            None => assert!(told.starts_with("127.0.0.1:"), "{told}"),
        }
        assert!(eventually(|| proxy.stderr().contains(&told)), "{told}");
    }
}

#[test]
fn the_server_sees_the_clients_address_where_it_is_to() {
    let database = Database::fresh("");
    let proxy = Proxy::with(&database, &["--application-name-add-host"]);
    for (name, prefix) in [(Some("etl"), "etl - 127.0.0.1:"), (None, "127.0.0.1:")] {
        let user = [("user", "postgres"), ("database", database.name.as_str())];
        let parameters: Vec<_> =
            user.into_iter().chain(name.map(|name| ("application_name", name))).collect();
        let (mut client, greeting) = Wire::open(proxy.address, &parameters).expect("the client is let in");
        let own = client.rows("SHOW application_name");
        assert!(own[0].starts_with(prefix), "{own:?}");
        let reported = greeting.iter().any(|reply| {
            reply.tag == b'S' && reply.body == format!("application_name\0{}\0", own[0]).as_bytes()
        });
        assert!(reported, "the client is told: {greeting:?}");
        let seen = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(client.rows(seen), own);
        // What the client sets itself is its own business.
        client.run("SET application_name = 'other'");
        assert_eq!(client.rows(seen), ["other"]);
    }
    let proxy = Proxy::before(&database);
    let parameters = [("user", "postgres"), ("database", &database.name), ("application_name", "etl")];
    let (mut client, _) = Wire::open(proxy.address, &parameters).expect("the client is let in");
    assert_eq!(client.rows("SHOW application_name"), ["etl"], "not unless it is asked for");
}

#[test]
fn a_balancer_without_a_header_is_refused() {
    let database = Database::fresh("");
    let proxy = Proxy::with(&database, &["--proxy-protocol", "10.0.0.0/8,127.0.0.1"]);
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 200]].concat();
    let cases = [
        ("none", startup(&database)),
        ("another version", version_2(0x31, 0x11, &[0; 12])),
        ("another command", version_2(0x2f, 0x11, &[0; 12])),
        ("addresses cut off", version_2(0x21, 0x11, &[0; 11])),
        ("a rest of 64 kB", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec()),
        ("a line without end", long),
        ("no addresses", b"PROXY TCP4 \r\n12345678".to_vec()),
        ("no port", b"PROXY TCP4 192.0.2.7 127.0.0.1 x 5432\r\n".to_vec()),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in cases {
        let mut client = Wire::dial(proxy.address).expect("the proxy listens");
        client.send_regardless(&bytes);
        let last = client.until_end();
        assert_eq!(outcomes(&last), ["!08P01"], "{name}: {last:?}");
    }
    for (name, bytes) in [
        ("silence", &b""[..]),
        ("half a header", b"PROXY TCP4 192.0"),
        ("half of 2", b"\r\n\r\n\0\r\nQUIT\n\x21"),
    ] {
        let mut client = Wire::dial(proxy.address).expect("the proxy listens");
        client.send(bytes);
        client.finish_sending();
        assert_eq!(client.until_end(), [], "{name}");
    }
}

#[test]
fn nobody_else_is_believed() {
    let database = Database::fresh("");
    let mut proxy = Proxy::with(&database, &["--proxy-protocol", "10.0.0.0/8"]);
    let mut liar = Wire::dial(proxy.address).expect("the proxy listens");
    liar.send(&[&b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n"[..], &startup(&database)].concat());
    let last = liar.until_end();
    assert_eq!(outcomes(&last), ["!08P01"], "{last:?}");
    assert_sound(&mut proxy, "after somebody who pretended to be a balancer");
}
