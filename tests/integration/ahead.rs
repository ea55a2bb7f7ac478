//! Clients that run ahead of the server: portals bound before a key was shared, savepoints that may not exist, COPYs that may have failed.

use crate::expect::{self, LETTERS};
use crate::scenario::{EV, PLAIN, Scenario, play};
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, wire};

const STORED: &str = "SELECT id, v FROM ev ORDER BY ctid";

fn key() -> &'static str {
    LETTERS[0].1
}

fn insert(v: &str) -> Vec<u8> {
    message::extended("INSERT INTO ev(id,v) VALUES ($1,$2)", &[text(key()), text(v)])
}

fn query(sql: &str) -> Vec<u8> {
    message::query(sql.replace("'K'", &format!("'{}'", key())))
}

fn synced(messages: &[Vec<u8>]) -> Vec<u8> {
    [messages.concat(), message::sync()].concat()
}

/// A portal that names the key is bound, then comes a row that would share the key, then the portal runs.
#[test]
fn a_row_shares_no_key_that_a_bound_portal_may_name() {
    let bound = |portal: &str, sql: &str| {
        [message::parse("s", sql, &[]), message::bind(portal, "s", &[text(key())])].concat()
    };
    let data = [message::copy_data(format!("{}\tb\n", key()).as_bytes()), message::copy_done()].concat();
    let copy = "COPY ev(id,v) FROM STDIN";
    let copy_by = |portal: &str| {
        let run =
            [message::parse("c", copy, &[]), message::bind(portal, "c", &[]), message::execute(portal, 0)];
        synced(&[run.concat(), data.clone()])
    };
    let named_insert = [
        message::parse("i", "INSERT INTO ev(id,v) VALUES ($1,'b')", &[]),
        message::bind("q", "i", &[text(key())]),
        message::execute("q", 0),
    ];
    let (update, select) = ("UPDATE ev SET v = 'x' WHERE id = $1", "SELECT v FROM ev WHERE id = $1");
    let twins = [
        ("p", query("INSERT INTO ev(id,v) VALUES ('K','b')")),
        ("p", query("PREPARE i AS INSERT INTO ev(id,v) VALUES ($1,'b'); EXECUTE i('K')")),
        ("p", synced(&[insert("b")])),
        ("", synced(&[named_insert.concat()])),
        ("p", [query(copy), data.clone()].concat()),
        ("p", copy_by("")),
        ("", copy_by("q")),
    ];
    for (portal, twin) in twins {
        for (sql, rekeyed) in [(update, false), (select, portal == "p")] {
            let database = Database::fresh(EV);
            let proxy = Proxy::before(&database);
            let mut client = proxy.connect();
            client.run("BEGIN");
            client.converse(&synced(&[insert("a"), bound(portal, sql)]), 1);
            let twin = wire::outcomes(&client.converse(&twin, 1));
            let ran = wire::outcomes(&client.converse(&synced(&[message::execute(portal, 0)]), 1));
            client.run("COMMIT");
            let expected: &[&str] = if rekeyed { &["K|a", "U|b"] } else { &[] };
            let fails = twin.last().is_some_and(|outcome| outcome == "!23505");
            assert!(fails != rekeyed, "{sql} in {portal:?}: {twin:?} {ran:?}");
            expect::expect_rows(expected, &database.stored(STORED));
        }
    }
}

#[test]
fn a_key_is_shared_no_more_once_its_second_row_is_undone() {
    let steps = |savepoints: [&'static str; 2], back: &'static str| {
        [
            ("BEGIN", "BEGIN"),
            ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
            (savepoints[0], "SAVEPOINT"),
            ("INSERT INTO par VALUES ({L},'l')", "INSERT 0 1"),
            (savepoints[1], "SAVEPOINT"),
            ("INSERT INTO par VALUES ({M},'m')", "INSERT 0 1"),
            ("INSERT INTO par VALUES ({K},'B')", "INSERT 0 1"),
            (back, "ROLLBACK"),
            ("INSERT INTO ch VALUES (1,{K})", "INSERT 0 1"),
            ("UPDATE par SET v = 'a' WHERE id = {K}", "UPDATE 1"),
            ("COMMIT", "COMMIT"),
        ]
    };
    let apart = ["SAVEPOINT s", "SAVEPOINT t"];
    for (name, steps, left) in [
        ("the last savepoint", steps(apart, "ROLLBACK TO t"), &["K|a|1", "L|l|\\N"][..]),
        ("the one before", steps(apart, "ROLLBACK TO s"), &["K|a|1"]),
        ("two of one name", steps(["SAVEPOINT s", "SAVEPOINT s"], "ROLLBACK TO s"), &["K|a|1", "L|l|\\N"]),
    ] {
        play(&[Scenario {
            name,
            tables: "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE ch (n int, pid uuid REFERENCES par)",
            steps: &steps,
            stored: ("SELECT id, v, n FROM par LEFT JOIN ch ON pid = id ORDER BY id", left),
            rekeyed: &["6.1<1.1 rolled_back"],
            bare: "23505",
            ..PLAIN
        }]);
    }
}

#[test]
fn a_savepoint_that_was_never_set_undoes_nothing_unnoticed() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let steps = [
        "BEGIN",
        "INSERT INTO ev(id,v) VALUES ('K','a')",
        "SAVEPOINT s",
        "SELECT 1/0",
        "SAVEPOINT t",
        "INSERT INTO ev(id,v) VALUES ('K','b')",
        "ROLLBACK TO t",
        "ROLLBACK TO s",
        "INSERT INTO ev(id,v) VALUES ('22222222-2222-4222-8222-222222222222','l')",
        "INSERT INTO ev(id,v) VALUES ('K','c')",
        "COMMIT",
    ];
    let bytes: Vec<u8> = steps.iter().flat_map(|step| query(step)).collect();
    let outcomes = wire::outcomes(&proxy.connect().converse(&bytes, steps.len()));
    let expected = [
        "BEGIN",
        "INSERT 0 1",
        "SAVEPOINT",
        "!22012",
        "!25P02",
        "!25P02",
        "!3B001",
        "ROLLBACK",
        "INSERT 0 1",
        "INSERT 0 1",
        "COMMIT",
    ];
    assert_eq!(outcomes, expected);
    expect::expect_rows(&["K|a", "L|l", "U|c"], &database.stored(STORED));
    let committed = proxy.settled_journal().iter().filter(|record| record["fate"] == "committed").count();
    assert_eq!(committed, 1);
}

#[test]
fn a_copy_that_fails_at_once_ends_its_transaction() {
    for copy in ["COPY nowhere FROM STDIN", "COPY ev(nothing) FROM STDIN"] {
        let state = if copy.contains("nowhere") { "!42P01" } else { "!42703" };
        let extended = message::extended(copy, &[]);
        let forms = [
            (
                "groups",
                [synced(std::slice::from_ref(&extended)), synced(&[insert("a")]), synced(&[insert("b")])]
                    .concat(),
                3,
            ),
            (
                "one group",
                [synced(&[extended.clone(), insert("x")]), synced(&[insert("a")]), synced(&[insert("b")])]
                    .concat(),
                3,
            ),
            (
                "queries",
                [
                    query(copy),
                    query("INSERT INTO ev(id,v) VALUES ('K','a')"),
                    query("INSERT INTO ev(id,v) VALUES ('K','b')"),
                ]
                .concat(),
                3,
            ),
            (
                "data that nobody waits for",
                [
                    synced(&[extended, message::copy_data(b"x\n"), message::copy_done()]),
                    synced(&[insert("a")]),
                    synced(&[insert("b")]),
                ]
                .concat(),
                3,
            ),
        ];
        for (form, bytes, answers) in forms {
            let database = Database::fresh(EV);
            let proxy = Proxy::before(&database);
            let mut client = proxy.connect();
            let outcomes = wire::outcomes(&client.converse(&bytes, answers));
            assert_eq!(outcomes, [state, "INSERT 0 1", "!23505"], "{copy} in {form}");
            expect::expect_rows(&["K|a"], &database.stored(STORED));
            // What follows is told apart again.
            let twins = "BEGIN; INSERT INTO ev(id,v) VALUES ('L','c'),('L','d'); COMMIT";
            client.run(&twins.replace("'L'", &format!("'{}'", LETTERS[1].1)));
            expect::expect_rows(&["K|a", "L|c", "U|d"], &database.stored(STORED));
        }
    }
}

#[test]
fn a_copy_that_fails_in_a_block_fails_the_block() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let one = |v: &str| query(&format!("INSERT INTO ev(id,v) VALUES ('K','{v}')"));
    let bytes = [
        query("BEGIN"),
        one("a"),
        query("SAVEPOINT s"),
        synced(&[message::extended("COPY nowhere FROM STDIN", &[])]),
        one("b"),
        query("ROLLBACK TO s"),
        query("INSERT INTO ev(id,v) VALUES ('22222222-2222-4222-8222-222222222222','l')"),
        one("c"),
        query("COMMIT"),
    ];
    let outcomes = wire::outcomes(&proxy.connect().converse(&bytes.concat(), bytes.len()));
    let expected = [
        "BEGIN",
        "INSERT 0 1",
        "SAVEPOINT",
        "!42P01",
        "!25P02",
        "ROLLBACK",
        "INSERT 0 1",
        "INSERT 0 1",
        "COMMIT",
    ];
    assert_eq!(outcomes, expected);
    expect::expect_rows(&["K|a", "L|l", "U|c"], &database.stored(STORED));
}

#[test]
fn data_of_one_copy_is_not_taken_for_that_of_another() {
    let tables = format!("{EV}; CREATE TABLE log (id uuid, v text)");
    let rows = format!("{0}\ta\n{0}\tb\n", key());
    let data = [message::copy_data(rows.as_bytes()), message::copy_done()].concat();
    let database = Database::fresh(&tables);
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let other =
        [message::copy_data(format!("{}\tl\n", LETTERS[1].1).as_bytes()), message::copy_done()].concat();
    let two = [query("COPY log FROM STDIN; COPY ev(id,v) FROM STDIN"), data.clone(), other].concat();
    assert_eq!(wire::outcomes(&client.converse(&two, 1)), ["COPY 2", "COPY 1"]);
    let log = "SELECT id, v FROM log";
    expect::expect_rows(&["K|a", "K|b"], &database.stored(log));
    client.run("TRUNCATE log, ev");
    let behind =
        "COPY log FROM STDIN; INSERT INTO ev(id,v) VALUES ('K','c'); INSERT INTO ev(id,v) VALUES ('K','d')";
    let outcomes = wire::outcomes(&client.converse(&[query(behind), data.clone()].concat(), 1));
    assert_eq!(outcomes, ["COPY 2", "INSERT 0 1", "INSERT 0 1"]);
    expect::expect_rows(&["K|a", "K|b"], &database.stored(log));
    expect::expect_rows(&["K|c", "U|d"], &database.stored(STORED));
    let before = "TRUNCATE ev; INSERT INTO ev(id,v) VALUES ('K','e'); COPY ev(id,v) FROM STDIN";
    let outcomes = wire::outcomes(&client.converse(&[query(before), data].concat(), 1));
    assert_eq!(outcomes, ["TRUNCATE TABLE", "INSERT 0 1", "COPY 2"]);
    expect::expect_rows(&["K|e", "U1|a", "U2|b"], &database.stored(STORED));
}

/// The data of a COPY of one child.
type Data<'a> = dyn Fn(i32) -> Vec<u8> + 'a;

#[test]
fn children_by_copy_follow_in_every_format() {
    let tables =
        "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE ch (n int, pid uuid REFERENCES par)";
    let sized =
        |bytes: &[u8]| [&u32::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let binary = |n: i32| {
        let row = [vec![0, 2], sized(&n.to_be_bytes()), sized(&expect::sixteen_bytes(key()))].concat();
        [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8], &row, &[0xff, 0xff]].concat()
    };
    let line = |separator: char| move |n: i32| format!("{n}{separator}{}\n", key()).into_bytes();
    let forms: [(&str, &Data<'_>); 4] = [
        ("COPY ch FROM STDIN", &line('\t')),
        ("COPY ch FROM STDIN (FORMAT csv)", &line(',')),
        ("COPY ch(n, pid) FROM STDIN (FORMAT binary)", &binary),
        ("COPY ch FROM STDIN (DELIMITER '|')", &|n| format!("{n}|\\x31{}", &key()[1..]).into_bytes()),
    ];
    for (sql, data) in forms {
        let database = Database::fresh(tables);
        let proxy = Proxy::before(&database);
        let mut client = proxy.connect();
        let par = |v: &str| query(&format!("INSERT INTO par VALUES ('K','{v}')"));
        let copy = |n: i32| [query(sql), message::copy_data(&data(n)), message::copy_done()].concat();
        let bytes = [query("BEGIN"), par("A"), copy(1), par("B"), copy(2), query("COMMIT")];
        let outcomes = wire::outcomes(&client.converse(&bytes.concat(), bytes.len()));
        let seen = database.stored("SELECT n, v FROM ch JOIN par ON id = pid ORDER BY n");
        if sql.contains('|') {
            // A field with escapes is not written into.
            assert_eq!(
                (&outcomes[4..], seen.len()),
                (&["!57014".to_owned(), "ROLLBACK".to_owned()][..], 0),
                "{sql}"
            );
        } else {
            assert_eq!(
                outcomes,
                ["BEGIN", "INSERT 0 1", "COPY 1", "INSERT 0 1", "COPY 1", "COMMIT"],
                "{sql}"
            );
            assert_eq!(seen, ["1|A", "2|B"], "{sql}");
        }
    }
}
