//! COPY … FROM STDIN: its rows are compared in every format, however the data is cut into messages.

use crate::expect::{self, LETTERS, sixteen_bytes};
use crate::scenario::EV;
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, Wire, wire};

const STORED: &str = "SELECT id, v FROM ev ORDER BY ctid";
const THREE: &[&str] = &["K|a", "L|b", "U|c"];

/// The rows K a, L b, K c: a COPY statement and its data.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let text = |line: &str| line.replace('K', k).replace('L', l).into_bytes();
    vec![
        ("COPY ev(id,v) FROM STDIN", text("K\ta\nL\tb\nK\tc\n")),
        ("COPY ev(id,v) FROM STDIN", text("K\ta\nL\tb\nK\tc\n\\.\n")),
        ("COPY ev(v,id) FROM STDIN (DELIMITER '|')", text("a|K\r\nb|L\r\nc|K")),
        ("COPY public.ev(id,v) FROM STDIN (FORMAT csv)", text("K,a\n\"L\",b\n\"K\",\"c\"\n")),
        ("COPY ev(id,v) FROM STDIN WITH (FORMAT csv, HEADER)", text("id,v\n{K},a\n\"{L}\",\"b\"\n{K},c\n")),
        ("COPY ev(id,v) FROM STDIN (FORMAT binary)", binary(&[(k, "a"), (l, "b"), (k, "c")])),
    ]
}

/// COPY's binary format.
fn binary(rows: &[(&str, &str)]) -> Vec<u8> {
    let field =
        |bytes: &[u8]| [&u32::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let row =
        |(key, v): &(&str, &str)| [vec![0, 2], field(&sixteen_bytes(key)), field(v.as_bytes())].concat();
    let header = [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8]].concat();
    [header, rows.iter().flat_map(row).collect(), vec![0xff, 0xff]].concat()
}

/// The messages of a COPY by simple Query, its data in these pieces.
fn simple(sql: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let data: Vec<u8> = pieces.iter().flat_map(|piece| message::copy_data(piece)).collect();
    [message::query(sql), data, message::copy_done()].concat()
}

#[test]
fn rows_of_a_copy_are_rekeyed() {
    for (sql, data) in forms() {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let mut client = proxy.connect();
        client.send(&message::query(sql));
        assert_eq!(wire::tags(&client.until(b'G')), "G", "{sql}");
        client.send(&[message::copy_data(&data), message::copy_done()].concat());
        assert_eq!(wire::outcomes(&client.until_ready(1)), ["COPY 3"], "{sql}");
        expect::expect_rows(THREE, &database.stored(STORED));
        expect::expect_rekeyed(&["1.3<1.1 committed"], &proxy);
    }
}

#[test]
fn data_may_be_cut_anywhere() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    for (sql, data) in forms() {
        let in_two = (0..=data.len()).map(|cut| vec![&data[..cut], &data[cut..]]);
        let in_bytes = vec![data.chunks(1).collect::<Vec<_>>()];
        for pieces in in_two.chain(in_bytes) {
            let lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
            let bytes = [
                message::query("BEGIN"),
                simple(sql, &pieces),
                message::query(STORED),
                message::query("ROLLBACK"),
            ]
            .concat();
            let replies = client.converse(&bytes, 4);
            assert_eq!(
                wire::outcomes(&replies),
                ["BEGIN", "COPY 3", "SELECT 3", "ROLLBACK"],
                "{sql} in {lengths:?}"
            );
            expect::expect_rows(THREE, &wire::rows(&replies));
        }
    }
}

#[test]
fn a_copy_that_fails_stores_nothing() {
    for (sql, data) in forms() {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let mut client = proxy.connect();
        client
            .send(&[message::query(sql), message::copy_data(&data), message::copy_fail("no more")].concat());
        assert_eq!(wire::outcomes(&client.until_ready(1)), ["!57014"], "{sql}");
        assert_eq!(client.rows("SELECT count(*) FROM ev"), ["0"]);
        expect::expect_rekeyed(expect::NONE_SURVIVES, &proxy);
    }
}

#[test]
fn a_copy_may_go_through_the_extended_protocol() {
    for (sql, data) in forms() {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        // The Sync before CopyDone is skipped by the server, as the protocol says of copy-in mode.
        let bytes = [
            message::extended(sql, &[]),
            message::sync(),
            message::copy_data(&data),
            message::copy_done(),
            message::sync(),
            message::query("SELECT 1"),
        ]
        .concat();
        assert_eq!(wire::outcomes(&proxy.connect().converse(&bytes, 2)), ["COPY 3", "SELECT 1"], "{sql}");
        expect::expect_rows(THREE, &database.stored(STORED));
        expect::expect_rekeyed(&["1.3<1.1 committed"], &proxy);
    }
}

#[test]
fn a_copy_and_an_insert_share_keys() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    for (sql, data) in forms() {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let insert = [
            message::extended("INSERT INTO ev(id,v) VALUES ($1,$2)", &[text(k), text("first")]),
            message::sync(),
        ]
        .concat();
        let bytes =
            [message::query("BEGIN"), insert, simple(sql, &[&data]), message::query("COMMIT")].concat();
        assert_eq!(
            wire::outcomes(&proxy.connect().converse(&bytes, 4)),
            ["BEGIN", "INSERT 0 1", "COPY 3", "COMMIT"],
            "{sql}"
        );
        expect::expect_rows(&["K|first", "U1|a", "L|b", "U2|c"], &database.stored(STORED));
        expect::expect_rekeyed(&["2.1<1.1 committed", "2.3<1.1 committed"], &proxy);
    }
}

#[test]
fn copies_that_skip_rows_are_forwarded() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut client: Wire = proxy.connect();
    let data = format!("{k}\ta\n{k}\tb\n");
    client.send(&simple("COPY ev(id,v) FROM STDIN WHERE v = 'a'", &[data.as_bytes()]));
    assert_eq!(wire::outcomes(&client.until_ready(1)), ["COPY 1"]);
    expect::expect_rows(&["K|a"], &database.stored(STORED));
    expect::expect_rekeyed(&[], &proxy);
}

#[test]
fn the_data_of_two_copies_in_one_query_is_left_alone() {
    let database = Database::fresh("CREATE TABLE pair (other uuid, id uuid PRIMARY KEY)");
    let proxy = Proxy::before(&database);
    let [(_, k), (_, l), (_, m)] = LETTERS else { panic!("three letters") };
    let data = |text: String| [message::copy_data(text.as_bytes()), message::copy_done()].concat();
    let bytes = [
        message::query("COPY pair(other,id) FROM STDIN; COPY pair(id,other) FROM STDIN"),
        data(format!("{k}\t{l}\n{k}\t{m}\n")),
        data(format!("{k}\t{l}\n")),
    ];
    let replies = proxy.connect().converse(&bytes.concat(), 1);
    assert_eq!(wire::outcomes(&replies), ["COPY 2", "COPY 1"]);
    let stored = database.stored("SELECT other, id FROM pair ORDER BY ctid");
    assert_eq!(stored, [format!("{k}|{l}"), format!("{k}|{m}"), format!("{l}|{k}")]);
    assert!(proxy.journal().is_empty());
}
