//! The network may cut a conversation anywhere: what is stored and answered does not depend on it.

use std::time::Duration;

use crate::expect::{self, LETTERS, sixteen_bytes};
use crate::scenario::EV;
use crate::support::message::{self, Value, text};
use crate::support::{Database, Proxy, Wire, wire};

/// A whole conversation with twins in every carrier, from startup to ROLLBACK, without waiting for a reply.
fn conversation(database: &str) -> Vec<u8> {
    let [(_, k), (_, l), (_, m)] = LETTERS else { panic!("three letters") };
    let insert = "INSERT INTO ev(id,v) VALUES ($1,$2)";
    [
        message::startup(&[("user", "postgres"), ("database", database)]),
        message::query("BEGIN"),
        message::query(format!("INSERT INTO ev(id,v) VALUES ('{k}','a'),('{l}','b'),('{k}','c')")),
        message::extended(insert, &[text(l), text("d")]),
        message::extended(insert, &[Value::Binary(sixteen_bytes(k)), text("e")]),
        message::sync(),
        message::query("COPY ev(id,v) FROM STDIN"),
        message::copy_data(format!("{m}\tf\n{m}\tg\n").as_bytes()),
        message::copy_done(),
        message::query("SELECT id, v FROM ev ORDER BY ctid"),
        message::query("ROLLBACK"),
    ]
    .concat()
}

const READY: usize = 7;
const ROWS: &[&str] = &["K|a", "L|b", "U1|c", "U2|d", "U3|e", "M|f", "U4|g"];
const OUTCOMES: &[&str] =
    &["BEGIN", "INSERT 0 3", "INSERT 0 1", "INSERT 0 1", "COPY 2", "SELECT 7", "ROLLBACK"];

fn send_in_pieces(proxy: &Proxy, pieces: &[&[u8]], pause: Duration) {
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    for piece in pieces {
        client.send(piece);
        std::thread::sleep(pause);
    }
    let replies = client.until_ready(READY);
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
    assert_eq!(wire::outcomes(&replies), OUTCOMES, "in pieces of {lengths:?}");
    expect::expect_rows(ROWS, &wire::rows(&replies));
}

#[test]
fn a_conversation_may_be_cut_in_two_anywhere() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let bytes = conversation(&database.name);
    for cut in 0..bytes.len() {
        send_in_pieces(&proxy, &[&bytes[..cut], &bytes[cut..]], Duration::from_micros(300));
    }
}

#[test]
fn a_conversation_may_come_byte_by_byte() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let bytes = conversation(&database.name);
    send_in_pieces(&proxy, &bytes.chunks(1).collect::<Vec<_>>(), Duration::from_micros(100));
}
