//! Encodings and string rules under which a byte of a literal may mean something else.

use crate::expect;
use crate::scenario::EV;
use crate::support::cluster;
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, wire};

const KEY: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn literals_are_left_alone_where_bytes_may_mean_something_else() {
    let latin = cluster::shared().database_encoded("SQL_ASCII", EV);
    let database = Database::fresh(EV);
    let insert = format!("INSERT INTO ev(id,v) VALUES ('{KEY}','a'),('{KEY}','b')");
    let cases = [
        (&database, "SET standard_conforming_strings = off", "!23505"),
        (&database, "SET client_encoding = 'SJIS'", "!23505"),
        (&database, "SET client_encoding = 'GB18030'", "!23505"),
        (&database, "SET client_encoding = 'LATIN1'", "INSERT 0 2"),
        (&latin, "SET client_encoding = 'SQL_ASCII'", "INSERT 0 2"),
    ];
    for (database, setting, outcome) in cases {
        let proxy = Proxy::before(database);
        let mut client = proxy.connect();
        client.run(setting);
        assert_eq!(wire::outcomes(&client.query(&insert)), [outcome], "{setting}");
        // Pipelined, the setting counts from its place in the stream.
        let mut client = proxy.connect();
        client.send(
            &[message::query("TRUNCATE ev"), message::query(setting), message::query(&insert)].concat(),
        );
        assert_eq!(
            wire::outcomes(&client.until_ready(3)).last().map(String::as_str),
            Some(outcome),
            "pipelined {setting}"
        );
    }
}

#[test]
fn binary_keys_are_compared_in_any_encoding() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    client.run("SET client_encoding = 'SJIS'; SET standard_conforming_strings = off");
    let key = message::Value::Binary(expect::sixteen_bytes(KEY));
    let insert = |v: &str| message::extended("INSERT INTO ev(id,v) VALUES ($1,$2)", &[key.clone(), text(v)]);
    client.send(&[insert("a"), insert("b"), message::sync()].concat());
    assert_eq!(wire::outcomes(&client.until_ready(1)), ["INSERT 0 1", "INSERT 0 1"]);
    expect::expect_rekeyed(&["2.1<1.1 committed"], &proxy);
}

#[test]
fn text_that_is_no_utf8_is_relayed_and_compared() {
    let database = cluster::shared().database_encoded("SQL_ASCII", EV);
    let proxy = Proxy::before(&database);
    let sql = [
        b"INSERT INTO ev(id,v) VALUES ('".as_slice(),
        KEY.as_bytes(),
        b"','\xff\xfe'),('",
        KEY.as_bytes(),
        b"','\xe9')",
    ]
    .concat();
    let mut client = proxy.connect();
    assert_eq!(wire::outcomes(&client.query(&sql)), ["INSERT 0 2"]);
    assert_eq!(client.rows("SELECT encode(v::bytea, 'hex') FROM ev ORDER BY ctid"), ["fffe", "e9"]);
}
