//! Input made to harm, and servers that die: nothing hangs, nothing panics, and the next client is served.

use std::net::SocketAddr;

use crate::scenario::EV;
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, Wire, eventually};

const KEY: &str = "11111111-1111-4111-8111-111111111111";

/// The proxy still serves, and no thread of it panicked.
pub fn assert_sound(proxy: &mut Proxy, place: &str) {
    assert!(proxy.is_running(), "{place}: {}", proxy.stderr());
    assert_eq!(proxy.connect().rows("SELECT 'sound'"), ["sound"], "{place}");
    assert!(!proxy.stderr().contains("panicked"), "{place}: {}", proxy.stderr());
}

#[test]
fn malformed_startup_packets_end_only_their_own_connection() {
    let database = Database::fresh("");
    let mut proxy = Proxy::before(&database);
    let version = 196_608_i32.to_be_bytes();
    let claims = |length: i32, rest: &[u8]| [&length.to_be_bytes()[..], rest].concat();
    let cases = [
        ("a length of zero", claims(0, &version)),
        ("a length of three", claims(3, &version)),
        ("a negative length", claims(-1, &version)),
        ("a length of two gigabytes", claims(i32::MAX, &version)),
        ("ten thousand bytes and one", message::untagged(&[&version[..], &[b'a'; 10_000]].concat())),
        ("no version", claims(4, &[])),
        ("a version of another kind", message::untagged(&1_234_i32.to_be_bytes())),
        ("protocol 2", message::untagged(&131_072_i32.to_be_bytes())),
        ("protocol 4", message::untagged(&262_144_i32.to_be_bytes())),
        ("no terminator", message::untagged(&[&version[..], b"user\0postgres"].concat())),
        ("a name without value", message::untagged(&[&version[..], b"user\0"].concat())),
        ("no user", message::untagged(&[&version[..], b"\0"].concat())),
        ("bytes that are no UTF-8", message::untagged(&[&version[..], b"user\0\xff\xfe\0\0"].concat())),
        ("a cancel of nothing", message::untagged(&80_877_102_i32.to_be_bytes())),
        ("a cancel of an unknown session", message::cancel(&[0xff; 8])),
        ("a cancel with a long key", message::cancel(&[0xff; 300])),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("half a packet", claims(100, b"\0\x03")),
        ("silence", Vec::new()),
    ];
    for (name, bytes) in cases {
        let mut client = Wire::dial(proxy.address).expect("the proxy listens");
        client.send_regardless(&bytes);
        client.finish_sending();
        let replies = client.until_end();
        assert!(replies.iter().all(|reply| reply.tag != b'Z'), "{name}: {replies:?}");
        assert_sound(&mut proxy, name);
    }
}

/// Messages that lie about lengths and counts; the server answers each with an error, or ends the connection.
fn lies() -> Vec<(&'static str, Vec<u8>)> {
    let parsed = message::parse("s", "INSERT INTO ev(id,v) VALUES ($1,$2)", &[]);
    let bind = |body: &[u8]| [parsed.clone(), message::frame(b'B', body), message::execute("", 0)].concat();
    let parse = |body: &[u8]| message::frame(b'P', body);
    vec![
        ("a Bind of nothing", bind(b"")),
        ("a Bind without terminators", bind(b"s")),
        ("a Bind that ends after its names", bind(b"\0s\0")),
        ("65,535 formats, none there", bind(b"\0s\0\xff\xff")),
        ("65,535 values, none there", bind(b"\0s\0\0\0\xff\xff")),
        ("a value of two gigabytes", bind(b"\0s\0\0\0\0\x02\x7f\xff\xff\xff")),
        ("a value of negative length", bind(b"\0s\0\0\0\0\x02\xff\xff\xff\xfe")),
        ("one value of two", bind(b"\0s\0\0\0\0\x02\0\0\0\x01a")),
        ("a format that is none", bind(b"\0s\0\0\x01\0\x07\0\x02\0\0\0\x01a\0\0\0\x01b\0\0")),
        ("three formats for two values", bind(b"\0s\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\x01a\0\0\0\x01b\0\0")),
        ("bytes after the last", bind(b"\0s\0\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\0\0extra")),
        ("a binary key of three bytes", bind(b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x03abc\0\0\0\x01b\0\0")),
        ("a key with a NUL", bind(b"\0s\0\0\0\0\x02\0\0\0\x0211\x00\x00\x00\x01\x00\0\0")),
        ("a Bind of an unknown statement", bind(b"\0unknown\0\0\0\0\0\0\0")),
        ("a Parse of nothing", parse(b"")),
        ("a Parse without terminator", parse(b"\0SELECT 1")),
        ("a Parse that counts 65,535 types", parse(b"\0SELECT 1\0\xff\xff")),
        ("a Parse of bytes that are no UTF-8", parse(b"\0INSERT INTO ev(v) VALUES ('\xff\xfe')\0\0\0")),
        ("a Describe of a kind that is none", message::frame(b'D', b"Z\0")),
        ("a Close of nothing", message::frame(b'C', b"")),
        ("an Execute of half a count", message::frame(b'E', b"\0\0\0")),
        ("a Query without terminator", message::frame(b'Q', b"SELECT 1")),
        ("a Query of nothing", message::frame(b'Q', b"")),
        ("a Query with a NUL inside", message::frame(b'Q', b"SELECT 1\0SELECT 2\0")),
        ("a Query that is no UTF-8", message::query(b"INSERT INTO ev(v) VALUES ('\xc3\x28')")),
        ("a tag that is none", message::frame(b'!', b"x")),
        ("a length of zero", message::frame_claiming(b'Q', 0, b"SELECT 1\0")),
        ("a length of three", message::frame_claiming(b'Q', 3, b"SELECT 1\0")),
        ("a negative length", message::frame_claiming(b'Q', -5, b"SELECT 1\0")),
        ("a Sync with a body", message::frame(b'S', b"x")),
        ("a CopyData out of place", message::copy_data(b"x")),
        ("a password out of place", message::frame(b'p', b"secret\0")),
        ("a function call of nothing", message::frame(b'F', b"")),
    ]
}

/// What the server says to bytes followed by Sync and Terminate.
fn said(address: SocketAddr, database: &Database, bytes: &[u8]) -> Vec<(u8, Option<String>)> {
    let mut client = Wire::connect(address, &database.name);
    client.send_regardless(&[bytes, &message::sync(), &message::terminate()].concat());
    client.finish_sending();
    client
        .until_end()
        .iter()
        .map(|reply| (reply.tag, reply.field(b'C').filter(|_| reply.tag == b'E')))
        .collect()
}

#[test]
fn lying_messages_get_the_servers_own_answer() {
    let database = Database::fresh(EV);
    let mut proxy = Proxy::before(&database);
    for (name, bytes) in lies() {
        assert_eq!(
            said(proxy.address, &database, &bytes),
            said(database.address, &database, &bytes),
            "{name}"
        );
        assert_sound(&mut proxy, name);
    }
}

#[test]
fn a_client_may_vanish_in_the_middle_of_a_message() {
    let database = Database::fresh(EV);
    let mut proxy = Proxy::before(&database);
    let insert = format!("INSERT INTO ev(id,v) VALUES ('{KEY}','a'),('{KEY}','b')");
    let messages = [
        ("a Query", message::query(&insert)),
        (
            "a Parse and a Bind",
            message::extended("INSERT INTO ev(id,v) VALUES ($1,$2)", &[text(KEY), text("a")]),
        ),
        (
            "a COPY",
            [
                message::query("COPY ev(id,v) FROM STDIN"),
                message::copy_data(format!("{KEY}\ta\n").as_bytes()),
            ]
            .concat(),
        ),
    ];
    for (name, bytes) in messages {
        for kept in 0..bytes.len() {
            let mut client = proxy.connect();
            client.send(&message::query("BEGIN"));
            client.until(b'Z');
            client.send(&bytes[..kept]);
            drop(client);
        }
        assert_sound(&mut proxy, name);
    }
    assert_eq!(database.stored("SELECT count(*) FROM ev"), ["0"]);
    let left = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND state LIKE 'idle in%'",
        database.name
    );
    assert!(
        eventually(|| database.stored(&left) == ["0"]),
        "sessions of vanished clients stay on the server"
    );
}

#[test]
fn nesting_without_end_is_survived() {
    let database = Database::fresh(EV);
    let mut proxy = Proxy::before(&database);
    let pieces = [
        ("", "EXPLAIN ANALYZE "),
        ("", "("),
        ("", "PREPARE a AS "),
        ("", "WITH a AS ("),
        ("INSERT INTO ev VALUES (", "("),
        ("INSERT INTO ev VALUES (", "CAST("),
        ("INSERT INTO ev SELECT ", "("),
        ("INSERT INTO ev ", "SELECT * FROM ("),
        ("INSERT INTO ev SELECT * FROM unnest(", "ARRAY["),
        ("INSERT INTO ev SELECT * FROM unnest(", "("),
        ("INSERT INTO ev SELECT id FROM json_to_recordset('", "[{\"a\":"),
        ("INSERT INTO ev SELECT * FROM unnest('", "{"),
    ];
    for (start, piece) in pieces {
        let mut client = proxy.connect();
        client.send(&message::query(start.to_owned() + &piece.repeat(300_000)));
        let _ = client.reply();
        assert_sound(&mut proxy, piece);
    }
}
