//! What RETURNING shows of a rekeyed row: the stored key, or the sent one, in every form in which a row comes back.

use crate::expect::{self, LETTERS, sixteen_bytes};
use crate::scenario::EV;
use crate::support::message::{self, text};
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, wire};

/// An insert of K before, then of L and of K again.
fn insert(returning: &str) -> (String, String) {
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let two = format!("INSERT INTO ev VALUES ('{l}','{l}','b'),('{k}','c {k}','d') RETURNING {returning}");
    (format!("INSERT INTO ev(id,v) VALUES ('{k}','a')"), two)
}

fn sent() -> (Database, Proxy) {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--returning", "sent"]);
    (database, proxy)
}

#[test]
fn the_sent_key_stands_in_every_expression_of_it() {
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let [bare_k, bare_l] = [k, l].map(|key| key.replace('-', ""));
    let (database, proxy) = sent();
    let mut client = proxy.connect();
    for (returning, rows) in [
        ("id", ["L", "K"]),
        ("*", ["L|L|b", "K|c K|d"]),
        ("ev.*, id AS again", ["L|L|b|L", "K|c K|d|K"]),
        ("src, v, id", ["b|L|L", "d|c K|K"]),
        ("id::text || '!' AS x", ["L!", "K!"]),
        ("upper(id::text)", ["L", "K"]),
        ("replace(id::text, '-', '')", [&bare_l[..], &bare_k[..]]),
        ("ARRAY[id], jsonb_build_object('id', id)", ["{L}|{\"id\": \"L\"}", "{K}|{\"id\": \"K\"}"]),
        ("NULL::uuid, '', id", ["\\N||L", "\\N||K"]),
    ] {
        let (first, second) = insert(returning);
        client.run(&format!("BEGIN; {first}"));
        let replies = client.query(&second);
        let expected: Vec<String> = rows.map(|row| row.replace('K', k).replace('L', l)).into();
        assert_eq!(wire::rows(&replies), expected, "{returning}");
        // The row itself is another one, and still called as it is stored.
        let stored = client.rows("SELECT id, v FROM ev WHERE src = 'd'");
        expect::expect_rows(&[&format!("U|c {k}")], &stored);
        client.run("ROLLBACK");
    }
    assert!(proxy.settled_journal().iter().all(|record| record["reason"] == "returned as sent"));
    drop(database);
}

#[test]
fn a_row_of_the_same_statement_is_not_shown_under_a_key_twice() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let (_database, proxy) = sent();
    let mut client = proxy.connect();
    let rows = format!("INSERT INTO ev(id,v) VALUES ('{k}','a'),('{k}','b') RETURNING id, v");
    client.run("BEGIN");
    expect::expect_rows(&["K|a", "U|b"], &client.rows(&rows));
    // Now the first of them is a row of another statement.
    expect::expect_rows(&["K|a", "U|b"], &client.rows(&rows));
    client.run("COMMIT");
    let reasons: Vec<bool> =
        proxy.settled_journal().iter().map(|record| record["reason"] == "returned as sent").collect();
    assert_eq!(reasons, [false, true, false]);
}

/// Bind of the unnamed statement with results in one format: 0 is text, 1 binary.
fn bind(portal: &str, values: &[message::Value], format: u16) -> Vec<u8> {
    let text = message::bind(portal, "", values);
    let body = &text[5..text.len() - 2];
    message::frame(b'B', &[body, &1_u16.to_be_bytes()[..], &format.to_be_bytes()].concat())
}

fn column(reply: &Reply, at: usize) -> Vec<u8> {
    reply.columns()[at].clone().expect("no column is NULL")
}

#[test]
fn rows_come_back_in_either_format_and_by_any_number_at_a_time() {
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let sql = "INSERT INTO ev VALUES ($1,$2,$3),($4,$5,$6) RETURNING v, id, id::text";
    let values = [text(l), text("b"), text("s"), text(k), text(&format!("of {k}")), text("s")];
    for (format, limit) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)] {
        let (database, proxy) = sent();
        let mut client = proxy.connect();
        client.run(&format!("BEGIN; INSERT INTO ev(id,v) VALUES ('{k}','a')"));
        let executes = message::execute("", limit).repeat(if limit == 1 { 3 } else { 1 });
        let bytes = [message::parse("", sql, &[]), bind("", &values, format), executes, message::sync()];
        let replies = client.converse(&bytes.concat(), 1);
        let rows: Vec<&Reply> = replies.iter().filter(|reply| reply.tag == b'D').collect();
        assert_eq!(rows.len(), 2, "{format} {limit}: {}", wire::tags(&replies));
        for (row, (v, key)) in rows.iter().zip([("b", l), (&*format!("of {k}"), k)]) {
            let binary = if format == 1 { sixteen_bytes(key) } else { key.as_bytes().to_vec() };
            let expected = [v.as_bytes().to_vec(), binary, key.as_bytes().to_vec()];
            assert_eq!([0, 1, 2].map(|at| column(row, at)), expected, "{format} {limit}");
        }
        client.run("COMMIT");
        expect::expect_rows(&["K", "L", "U"], &database.stored("SELECT id FROM ev ORDER BY ctid"));
    }
}

#[test]
fn each_statement_of_a_pipeline_shows_its_own_keys() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let sql = "INSERT INTO ev(id,v) VALUES ($1,$2) RETURNING v, id";
    let row = |v: &str| {
        [message::bind("", "i", &[text(k), text(v)]), message::describe(b'P', ""), message::execute("", 0)]
            .concat()
    };
    let (database, proxy) = sent();
    let read = message::extended("SELECT id, v FROM ev ORDER BY v", &[]);
    let bytes = [message::parse("i", sql, &[]), row("a"), row("b"), row("c"), read, message::sync()].concat();
    let rows = wire::rows(&proxy.connect().converse(&bytes, 1));
    let returned: Vec<String> = ["a", "b", "c"].iter().map(|v| format!("{v}|{k}")).collect();
    assert_eq!(rows[..3], returned);
    expect::expect_rows(&["K|a", "U1|b", "U2|c"], &rows[3..]);
    expect::expect_rows(&["K|a", "U1|b", "U2|c"], &database.stored("SELECT id, v FROM ev ORDER BY v"));
}

#[test]
fn statements_of_sql_and_of_one_query_show_their_keys() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let (_database, proxy) = sent();
    let mut client = proxy.connect();
    client.run("PREPARE ins (uuid, text) AS INSERT INTO ev(id,v) VALUES ($1,$2) RETURNING id, v");
    let insert = |v: &str| format!("INSERT INTO ev(id,v) VALUES ('{k}','{v}') RETURNING id, v;");
    let within = format!(
        "WITH one AS (INSERT INTO ev(id,v) VALUES ('{k}','e') RETURNING id, v) SELECT id, v FROM one;"
    );
    let query = [insert("a"), insert("b"), format!("EXECUTE ins('{k}','c');"), insert("d"), within].concat();
    let expected: Vec<String> = ["a", "b", "c", "d", "e"].iter().map(|v| format!("{k}|{v}")).collect();
    assert_eq!(wire::rows(&client.query(query)), expected);
    assert_eq!(client.rows("SELECT count(DISTINCT id) FROM ev"), ["5"]);
}

#[test]
fn a_page_of_twins_is_shown_at_once() {
    const ROWS: usize = 5_000;
    let (_database, proxy) = sent();
    let mut client = proxy.connect();
    let values: Vec<String> =
        (0..ROWS).map(|n| format!("('{n:08x}-1111-4111-8111-111111111111','{n}')")).collect();
    let insert = format!("INSERT INTO ev(id,v) VALUES {} RETURNING id, v", values.join(","));
    client.run("BEGIN");
    let first = client.rows(&insert);
    assert_eq!(first.len(), ROWS);
    assert_eq!(client.rows(&insert), first);
    assert_eq!(client.rows("SELECT count(DISTINCT id) FROM ev"), [(2 * ROWS).to_string()]);
    client.run("COMMIT");
}
