//! Settings change what becomes of a twin, and a session can make itself more careful, never less.

use crate::expect::{self, LETTERS};
use crate::scenario::{EV, PLAIN, Scenario, play};
use crate::support::message::{self, text};
use crate::support::{Database, Proxy, Wire, wire};

#[test]
fn twins_are_treated_as_the_settings_say() {
    let family = "CREATE TABLE par (id uuid PRIMARY KEY, v text); CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par)";
    play(&[
        Scenario {
            name: "equal rows are forwarded",
            steps: &[("INSERT INTO ev VALUES ({K},'a','s'),({K},'a','s')", "!23505")],
            stored: ("SELECT id FROM ev", &[]),
            forwarded: true,
            bare: "23505",
            arguments: &["--identical-rows", "forward"],
            ..PLAIN
        },
        Scenario {
            name: "rows that differ are rekeyed all the same",
            steps: &[("INSERT INTO ev VALUES ({K},'a','s'),({K},'b','s')", "INSERT 0 2")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|a", "U|b"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            arguments: &["--identical-rows", "forward"],
            ..PLAIN
        },
        Scenario {
            name: "name-based keys are rekeyed",
            keys: &[("V", "aad03681-8b63-5304-89e0-8ca8f49461b5")],
            steps: &[("INSERT INTO ev(id,v) VALUES ({V},'a'),({V},'b')", "INSERT 0 2")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["V|a", "U|b"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            arguments: &["--name-based", "rekey"],
            ..PLAIN
        },
        Scenario {
            name: "an ambiguous reference is kept",
            tables: family,
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO par VALUES ({K},'A')", "INSERT 0 1"),
                ("INSERT INTO par VALUES ({K},'B')", "INSERT 0 1"),
                ("INSERT INTO ch VALUES (1,{K})", "INSERT 0 1"),
                ("COMMIT", "COMMIT"),
            ],
            stored: (
                "SELECT id, v, n, pid FROM par LEFT JOIN ch ON pid = id ORDER BY v",
                &["K|A|1|K", "U|B|\\N|\\N"],
            ),
            rekeyed: &["2.1<1.1 committed"],
            bare: "23505",
            arguments: &["--ambiguous", "keep"],
            ..PLAIN
        },
    ]);
}

const STATEMENT: &str = "INSERT INTO ev(id,v) VALUES ('11111111-1111-4111-8111-111111111111','a'),('11111111-1111-4111-8111-111111111111','b')";

/// The outcome of [`STATEMENT`] in this session; what it stored is taken back.
fn outcome(client: &mut Wire) -> String {
    let outcome = wire::outcomes(&client.query(STATEMENT)).concat();
    client.run("DELETE FROM ev");
    outcome
}

#[test]
fn a_session_may_make_itself_more_careful() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let login = [("user", "postgres"), ("database", &database.name), ("options", "-c untwin.mode=observe")];
    assert_eq!(outcome(&mut Wire::connect_with(proxy.address, &login)), "!23505", "by its startup options");

    let mut client = proxy.connect();
    assert_eq!(outcome(&mut client), "INSERT 0 2");
    client.run("SET untwin.mode = 'observe'");
    assert_eq!(outcome(&mut client), "!23505", "by SET");
    client.run("RESET untwin.mode");
    assert_eq!(outcome(&mut client), "INSERT 0 2", "after RESET");
    client.run("BEGIN; SET LOCAL untwin.mode TO observe");
    assert_eq!(wire::outcomes(&client.query(STATEMENT)), ["!23505"], "by SET LOCAL");
    client.run("ROLLBACK");
    assert_eq!(outcome(&mut client), "INSERT 0 2", "after the transaction of SET LOCAL");
    client.run("BEGIN; SET untwin.mode = 'observe'; ROLLBACK");
    assert_eq!(outcome(&mut client), "INSERT 0 2", "after the rollback of SET");
}

#[test]
fn a_session_cannot_make_itself_less_careful() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--mode", "observe"]);
    let login = [("user", "postgres"), ("database", &database.name), ("options", "-c untwin.mode=rewrite")];
    assert_eq!(outcome(&mut Wire::connect_with(proxy.address, &login)), "!23505");
    let mut client = proxy.connect();
    client.run("SET untwin.mode = 'rewrite'");
    assert_eq!(outcome(&mut client), "!23505");
}

#[test]
fn returning_shows_the_stored_key_or_the_sent_one() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let sections = [
        ("", "U"),
        ("returning = 'sent'", "K"),
        ("[[application]]\nname = 'etl*'\nreturning = 'sent'", "K"),
        ("[[application]]\nname = 'other'\nreturning = 'sent'", "U"),
        ("[[table]]\nname = 'public.ev'\nreturning = 'sent'", "K"),
        ("returning = 'sent'\n[[table]]\nname = 'public.ev'\nreturning = 'stored'", "U"),
    ];
    for (section, shown) in sections {
        let database = Database::fresh(EV);
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), section).expect("the file can be written");
        let proxy = Proxy::with(&database, &["--config", &file.path().to_string_lossy()]);
        let login =
            [("user", "postgres"), ("database", &database.name[..]), ("application_name", "etl-nightly")];
        let mut client = Wire::connect_with(proxy.address, &login);
        let insert = |v: &str| {
            let sql = "INSERT INTO ev(id,v) VALUES ($1,$2) RETURNING id, v";
            message::extended(sql, &[text(k), text(v)])
        };
        let replies = client.converse(&[insert("a"), insert("b"), message::sync()].concat(), 1);
        expect::expect_rows(&["K|a", &format!("{shown}|b")], &wire::rows(&replies));
        expect::expect_rows(&["K|a", "U|b"], &database.stored("SELECT id, v FROM ev ORDER BY ctid"));
    }
}
