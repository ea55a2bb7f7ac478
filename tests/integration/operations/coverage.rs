//! Every statement that inserts rows, or may, counts once: inspected, or forwarded for a reason.

use std::collections::BTreeMap;

use crate::protection::spelled;
use crate::support::admin::{ADMIN, address, metrics};
use crate::support::message::{
    self, bind, copy_data, copy_done, copy_fail, execute, extended, parse, query, sync, text,
};
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy, Wire, eventually};

const SCHEMA: &str = "
    CREATE TABLE ev (id uuid PRIMARY KEY, v text);
    CREATE TABLE src (id uuid);
    CREATE TABLE log (n int);
    CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES ev);
    CREATE TABLE later (id uuid PRIMARY KEY DEFERRABLE);
    CREATE FUNCTION vol() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN DELETE FROM log; RETURN 'x'; END $$;
";

/// What one client sends, group by group, and what it counts as: reasons, or nothing for inspected.
struct Form {
    name: &'static str,
    sent: Vec<Vec<u8>>,
    counts: &'static [(&'static str, u64)],
}

fn form(name: &'static str, sent: Vec<Vec<u8>>, counts: &'static [(&'static str, u64)]) -> Form {
    Form { name, sent, counts }
}

/// Queries, one after the other.
fn queries(name: &'static str, sql: &[&str], counts: &'static [(&'static str, u64)]) -> Form {
    form(name, sql.iter().map(|sql| query(spelled(sql))).collect(), counts)
}

const INSERT: &str = "INSERT INTO ev(id) VALUES ($1)";

fn key(letter: &str) -> message::Value {
    text(&spelled(letter))
}

fn copy(sql: &str, end: Vec<u8>) -> Vec<Vec<u8>> {
    vec![[query(sql), copy_data(spelled("{K}\n").as_bytes()), end].concat()]
}

fn simple() -> Vec<Form> {
    vec![
        queries("one INSERT", &["INSERT INTO ev VALUES ('{K}', 'a'), ('{L}', 'b')"], &[("", 1)]),
        queries(
            "two in one Query",
            &["INSERT INTO ev(id) VALUES ('{K}'); INSERT INTO ev(id) VALUES ('{L}')"],
            &[("", 2)],
        ),
        queries("a twin", &["INSERT INTO ev(id) VALUES ('{K}'), ('{K}')"], &[("", 1)]),
        queries("a key left to its default", &["INSERT INTO log VALUES (1)"], &[("no protected key", 1)]),
        queries("a table that refers to another", &["INSERT INTO ch VALUES (1, NULL)"], &[("", 1)]),
        queries(
            "a key that is not protected",
            &["INSERT INTO later VALUES ('{K}')"],
            &[("no protected key", 1)],
        ),
        queries("an expression", &["INSERT INTO ev(id) VALUES (gen_random_uuid())"], &[("expression", 1)]),
        queries("a function", &["INSERT INTO ev VALUES ('{K}', vol())"], &[("volatile function", 1)]),
        queries(
            "ON CONFLICT",
            &["INSERT INTO ev(id) VALUES ('{K}') ON CONFLICT DO NOTHING"],
            &[("ON CONFLICT", 1)],
        ),
        queries(
            "MERGE",
            &["MERGE INTO ev USING src ON ev.id = src.id WHEN NOT MATCHED THEN INSERT VALUES (src.id)"],
            &[("MERGE", 1)],
        ),
        queries("rows of a table", &["INSERT INTO ev(id) SELECT id FROM src"], &[("FROM a table", 1)]),
        queries(
            "two INSERTs in one statement",
            &["WITH a AS (INSERT INTO ev(id) VALUES ('{K}')) INSERT INTO log VALUES (1)"],
            &[("", 1)],
        ),
        queries("DO", &["DO 'BEGIN INSERT INTO log VALUES (1); END'"], &[("DO or CALL", 1)]),
        queries("a function by itself", &["SELECT vol()"], &[("volatile function", 1)]),
        queries(
            "what inserts nothing",
            &["SELECT 1; UPDATE ev SET v = 'x'; DELETE FROM ev; SHOW search_path"],
            &[],
        ),
        queries(
            "a block that has failed",
            &["BEGIN", "SELECT 1/0", "INSERT INTO ev(id) VALUES ('{K}')", "ROLLBACK"],
            &[],
        ),
        queries(
            "EXPLAIN",
            &[
                "EXPLAIN INSERT INTO ev(id) VALUES ('{K}')",
                "EXPLAIN ANALYZE INSERT INTO ev(id) VALUES ('{K}')",
            ],
            &[("", 1)],
        ),
        queries(
            "PREPARE",
            &["PREPARE s AS INSERT INTO ev(id) VALUES ($1)", "EXECUTE s('{K}'); EXECUTE s('{L}')"],
            &[("", 2)],
        ),
        queries(
            "arguments whose bytes are not their value",
            &[
                "PREPARE s AS INSERT INTO ev VALUES ($1, $2)",
                r"EXECUTE s('{K}', 'it''s'); EXECUTE s('{K}', E'\\'); EXECUTE s('{L}', '1'::varchar)",
            ],
            &[("", 3)],
        ),
        queries(
            "an escaped key as argument",
            &[
                "PREPARE s AS INSERT INTO ev(id) VALUES ($1)",
                r"EXECUTE s(E'\x311111111-1111-4111-8111-111111111111')",
            ],
            &[("not a plain literal", 1)],
        ),
        queries(
            "an expression as argument",
            &["PREPARE s AS INSERT INTO ev(id) VALUES ($1)", "EXECUTE s(gen_random_uuid())"],
            &[("expression as argument of EXECUTE", 1)],
        ),
        queries(
            "a literal in PREPARE",
            &["PREPARE s AS INSERT INTO ev(id) VALUES ('{K}')", "EXECUTE s"],
            &[("literal in PREPARE", 1)],
        ),
        queries(
            "a table that has just been made",
            &["CREATE TEMP TABLE fresh (id uuid PRIMARY KEY); INSERT INTO fresh VALUES ('{K}')"],
            &[("table not in the catalog yet", 1)],
        ),
        form("a fast-path call", vec![message::function_call(1598, &[])], &[("fast-path call", 1)]),
    ]
}

fn copies() -> Vec<Form> {
    vec![
        form("COPY", copy("COPY ev(id) FROM STDIN", copy_done()), &[("", 1)]),
        form("COPY that the client gives up", copy("COPY ev(id) FROM STDIN", copy_fail("no")), &[("", 1)]),
        form(
            "COPY of other rows",
            copy("COPY ev(v, id) FROM STDIN", copy_done()),
            &[("wrong number of fields", 1)],
        ),
        form(
            "COPY and more",
            copy("COPY ev(id) FROM STDIN; SELECT 1", copy_done()),
            &[("other statements behind a COPY in one Query", 1)],
        ),
        form("COPY of other columns", copy("COPY ev(v) FROM STDIN", copy_done()), &[("no protected key", 1)]),
        form("COPY with WHERE", copy("COPY ev(id) FROM STDIN WHERE v IS NULL", copy_done()), &[("WHERE", 1)]),
        queries("COPY to the client", &["COPY ev TO STDOUT"], &[]),
        form(
            "COPY by Execute",
            vec![
                [
                    parse("", "COPY ev(id) FROM STDIN", &[]),
                    bind("", "", &[]),
                    execute("", 0),
                    copy_data(spelled("{K}\n").as_bytes()),
                    copy_done(),
                    sync(),
                ]
                .concat(),
            ],
            &[("", 1)],
        ),
    ]
}

fn prepared() -> Vec<Form> {
    let literal = spelled("INSERT INTO ev(id) VALUES ('{K}')");
    let returning = "INSERT INTO ev(id) VALUES ($1), ($2) RETURNING id";
    vec![
        form("Parse, Bind, Execute", vec![[extended(INSERT, &[key("{K}")]), sync()].concat()], &[("", 1)]),
        form(
            "prepared once, executed twice",
            vec![
                [parse("s", INSERT, &[]), sync()].concat(),
                [bind("", "s", &[key("{K}")]), execute("", 0), sync()].concat(),
                [bind("", "s", &[key("{L}")]), execute("", 0), sync()].concat(),
            ],
            &[("", 2)],
        ),
        form(
            "bound and not executed",
            vec![[parse("", INSERT, &[]), bind("", "", &[key("{K}")]), sync()].concat()],
            &[],
        ),
        form(
            "executed in two parts",
            vec![
                [
                    parse("", returning, &[]),
                    bind("", "", &[key("{K}"), key("{L}")]),
                    execute("", 1),
                    execute("", 1),
                    sync(),
                ]
                .concat(),
            ],
            &[("", 1)],
        ),
        form(
            "a named portal",
            vec![[parse("", INSERT, &[]), bind("p", "", &[key("{K}")]), execute("p", 0), sync()].concat()],
            &[("named portal", 1)],
        ),
        form(
            "a literal, twice",
            vec![
                [parse("s", &literal, &[]), bind("", "s", &[]), execute("", 0), sync()].concat(),
                query("DELETE FROM ev"),
                [bind("", "s", &[]), execute("", 0), sync()].concat(),
            ],
            &[("", 1), ("literal again", 1)],
        ),
        form(
            "MERGE",
            vec![
                [
                    extended("MERGE INTO ev USING src ON ev.id = src.id WHEN MATCHED THEN DO NOTHING", &[]),
                    sync(),
                ]
                .concat(),
            ],
            &[("MERGE", 1)],
        ),
        form(
            "prepared by a message, executed by SQL",
            vec![[parse("s", INSERT, &[]), sync()].concat(), query(spelled("EXECUTE s('{K}')"))],
            &[("", 1)],
        ),
        form(
            "a function by itself",
            vec![[extended("SELECT vol()", &[]), sync()].concat()],
            &[("volatile function", 1)],
        ),
    ]
}

fn counted(proxy: &Proxy) -> BTreeMap<String, u64> {
    let labels = |series: &str| {
        let reason = series.strip_prefix("inserts_total{")?.split_once("reason=\"")?.1.strip_suffix("\"}")?;
        Some(reason.to_owned())
    };
    metrics(address(proxy))
        .into_iter()
        .filter_map(|(series, value)| Some((labels(&series)?, value)))
        .collect()
}

/// By how much each number has grown.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let growth = |(reason, now): (&String, &u64)| {
        let more = now - before.get(reason).copied().unwrap_or_default();
        (more > 0).then(|| (reason.clone(), more))
    };
    after.iter().filter_map(growth).collect()
}

#[test]
fn every_statement_counts_once_whatever_its_form() {
    let database = Database::fresh(SCHEMA);
    let proxy = Proxy::with(&database, &ADMIN);
    let mut wrong = Vec::new();
    for Form { name, sent, counts } in simple().into_iter().chain(copies()).chain(prepared()) {
        database.run("TRUNCATE ev, ch, log, later");
        let mut client: Wire = proxy.connect();
        let before = counted(&proxy);
        let last = sent.iter().map(|group| outcomes(&client.converse(group, 1))).last();
        if name.starts_with("arguments") {
            assert_eq!(last.unwrap_or_default(), ["INSERT 0 1"; 3], "the second is a twin");
        }
        drop(client);
        let expected: Vec<(String, u64)> = counts.iter().map(|&(reason, n)| (reason.to_owned(), n)).collect();
        let counts = grown(&before, &counted(&proxy));
        if counts != expected {
            wrong.push(format!("{name}: {counts:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_copy_counts_when_its_client_goes_away() {
    let database = Database::fresh(SCHEMA);
    let proxy = Proxy::with(&database, &ADMIN);
    let mut client = proxy.connect();
    client.send(&[query("COPY ev(id) FROM STDIN"), copy_data(spelled("{K}\n").as_bytes())].concat());
    client.until(b'G');
    assert_eq!(grown(&BTreeMap::new(), &counted(&proxy)), []);
    drop(client);
    assert!(eventually(|| counted(&proxy).get("") == Some(&1)));
}

#[test]
fn statements_that_are_too_large_count_when_they_are_executed() {
    let database = Database::fresh(SCHEMA);
    let proxy = Proxy::with(&database, &[&ADMIN[..], &["--max-statement-bytes", "1KiB"]].concat());
    let large = format!("INSERT INTO ev(id) VALUES ('{{K}}') /* {} */", "x".repeat(2000));
    let large = spelled(&large);
    let mut client = proxy.connect();
    for (group, total) in [
        (query(&large), 1),
        ([parse("", &large, &[]), sync()].concat(), 1),
        ([parse("", &large, &[]), bind("", "", &[]), execute("", 0), sync()].concat(), 2),
        (
            [
                parse("", "INSERT INTO ev VALUES ($1, $2)", &[]),
                bind("", "", &[key("{L}"), text(&"x".repeat(2000))]),
                execute("", 0),
                sync(),
            ]
            .concat(),
            3,
        ),
    ] {
        client.converse(&group, 1);
        assert_eq!(grown(&BTreeMap::new(), &counted(&proxy)), [("statement too large".to_owned(), total)]);
        client.run("DELETE FROM ev");
    }
}

#[test]
fn past_a_limit_there_is_one_record_one_metric_and_no_end_to_relaying() {
    let database = Database::fresh(SCHEMA);
    let proxy = Proxy::with(&database, &[&ADMIN[..], &["--max-transaction-key-bytes", "1KiB"]].concat());
    let mut client = proxy.connect();
    for transaction in 1..=2_u64 {
        client.run("BEGIN");
        for n in 0..200 {
            client.run(&format!("INSERT INTO ev(id) VALUES ('{transaction:08x}-0000-4000-8000-{n:012x}')"));
        }
        client.run("COMMIT");
        let now = metrics(address(&proxy));
        assert_eq!(now[r#"limits_reached_total{setting="max_transaction_key_bytes"}"#], transaction);
        let journal = std::fs::read_to_string(proxy.journal_path()).expect("a journal");
        assert_eq!(journal.matches("max_transaction_key_bytes reached").count() as u64, transaction);
        let of = |labels| now[&format!("inserts_total{{{labels}}}")];
        let (inspected, past) =
            (of(r#"result="inspected",reason="""#), of(r#"result="forwarded",reason="limit""#));
        assert_eq!(inspected + past, 200 * transaction);
        assert!(inspected > 0 && past > 100 * transaction, "{inspected} {past}");
        assert_eq!(now["key_bytes"], 0);
    }
    assert_eq!(database.stored("SELECT count(*) FROM ev"), ["400"]);
}

#[test]
fn twins_and_their_transactions_are_counted_by_what_became_of_them() {
    let database = Database::fresh(SCHEMA);
    let proxy = Proxy::with(&database, &ADMIN);
    let mut client = proxy.connect();
    for sql in [
        "BEGIN; INSERT INTO ev VALUES ('{K}', 'a'), ('{K}', 'b'); INSERT INTO ev VALUES ('{K}', 'c'); COMMIT",
        "BEGIN; INSERT INTO ev VALUES ('{L}', 'a'), ('{L}', 'a'); ROLLBACK",
        "INSERT INTO ev VALUES ('{L}', 'a'); INSERT INTO ev VALUES ('{M}', 'a')",
    ] {
        client.run(&spelled(sql));
    }
    client.run("SET untwin.mode = 'observe'");
    client.query(spelled("INSERT INTO ev VALUES ('{M}', 'a'), ('{M}', 'b')"));
    let admin = address(&proxy);
    let fates = r#"twin_fates_total{fate="committed"}"#;
    assert!(eventually(|| metrics(admin)[fates] == 2));
    let now = metrics(admin);
    for (series, value) in [
        (r#"twins_total{action="rekeyed",reason=""}"#, 3),
        (r#"twins_total{action="observed",reason=""}"#, 1),
        ("identical_twins_total", 1),
        ("rewritten_transactions_total", 2),
        (r#"twin_fates_total{fate="rolled_back"}"#, 2),
    ] {
        assert_eq!(now[series], value, "{series}: {now:#?}");
    }
}
