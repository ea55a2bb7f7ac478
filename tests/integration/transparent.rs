//! Conversations without twins: the bytes of every reply are those of the bare server.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::corpus::{CURSORS, DEFINITIONS, ERRORS, INSERTS, PREPARED, TRANSACTIONS, Talk, corpus, q, x};
use crate::scenario::EV;
use crate::support::message;
use crate::support::wire::{Reply, Wire};
use crate::support::{Database, Proxy};

/// What the corpus speaks of.
pub const TABLES: &str = "
    CREATE TABLE ev (id uuid PRIMARY KEY, v text, src text);
    CREATE TABLE n (i int PRIMARY KEY CHECK (i < 1000), t text NOT NULL DEFAULT 'x');
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE ch (id uuid REFERENCES ev, m mood);
    CREATE FUNCTION warn() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'careful'; RETURN 1; END$$;
    CREATE VIEW view_ev AS SELECT id, v FROM ev";

/// The rows every conversation begins with.
pub const ROWS: &str = "
    TRUNCATE ev, n, ch;
    INSERT INTO n VALUES (1, 'one'), (2, 'two');
    INSERT INTO ev VALUES ('99999999-9999-4999-8999-999999999999', 'old')";

/// Every reply, from the first of the login on and up to an early end, without what differs between two sessions of one server.
pub fn replies(login: (Wire, Vec<Reply>), talk: &[(Vec<u8>, &str)], cut: usize) -> Vec<Reply> {
    let (mut wire, mut replies) = login;
    for (bytes, until) in talk {
        for piece in bytes.chunks(cut) {
            wire.send_regardless(piece);
        }
        // The other side may end a conversation that it does not like: then it ends there, and both times.
        for tag in until.bytes() {
            while let Ok(reply) = wire.reply() {
                replies.push(reply);
                if replies.last().is_some_and(|reply| reply.tag == tag) {
                    break;
                }
            }
        }
        if until.is_empty() {
            replies.extend(wire.until_end());
        }
    }
    replies.into_iter().map(masked).collect()
}

fn masked(mut reply: Reply) -> Reply {
    match reply.tag {
        b'K' => reply.body.clear(),
        b'A' => reply.body[..4].fill(0),
        b'T' => mask_table_ids(&mut reply.body),
        _ => {}
    }
    reply
}

/// Tables made in the conversation have other ids in another database.
fn mask_table_ids(fields: &mut [u8]) {
    let mut at = 2;
    while let Some(end) = fields.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
        let id = at + end + 1;
        fields[id..id + 4].fill(0);
        at = id + 18;
    }
}

pub fn login(address: std::net::SocketAddr, database: &Database) -> (Wire, Vec<Reply>) {
    // The twin has the other name: nothing the server says in these conversations contains it.
    Wire::open(address, &[("user", "postgres"), ("database", &database.name), ("application_name", "test")])
        .expect("a login")
}

#[test]
fn replies_are_those_of_the_bare_server() {
    let (direct, through) = two_alike(TABLES);
    let proxy = Proxy::before(&through);
    for (name, talk) in corpus() {
        println!("{name}");
        direct.run(ROWS);
        through.run(ROWS);
        let expected = replies(login(direct.address, &direct), &talk, usize::MAX);
        let actual = replies(login(proxy.address, &through), &talk, usize::MAX);
        assert_same(name, &expected, &actual);
    }
    assert_eq!(proxy.journal(), Vec::<serde_json::Value>::new());
}

/// Two databases that differ in their name alone, not even in the ids of their tables.
pub fn two_alike(schema: &str) -> (Database, Database) {
    let untouched = Database::fresh(schema);
    (untouched.twin(), untouched.twin())
}

pub fn assert_same(name: &str, expected: &[Reply], actual: &[Reply]) {
    for (place, pair) in expected.iter().zip(actual).enumerate() {
        assert!(
            pair.0 == pair.1,
            "{name}: reply {place}: {:?} directly, {:?} through untwin",
            pair.0,
            pair.1
        );
    }
    assert_eq!(expected.len(), actual.len(), "{name}: number of replies");
}

/// A conversation of random statements of the corpus, each as Query or through the extended protocol, and the size of its pieces.
fn random_talk() -> impl Strategy<Value = (Talk, usize)> {
    let pools = [INSERTS, TRANSACTIONS, DEFINITIONS, ERRORS, CURSORS, PREPARED];
    let statements: Vec<&'static str> =
        pools.into_iter().flatten().copied().filter(|sql| !repeats(sql)).collect();
    let step = (prop::sample::select(statements), prop::bool::ANY)
        .prop_map(|(sql, simple)| if simple { q(sql) } else { x(sql, &[]) });
    (prop::collection::vec(step, 1..20), 1_usize..200)
}

/// Statements that may be twins of others when they are drawn twice in one transaction, or that hold locks for a later test.
fn repeats(sql: &str) -> bool {
    let keys = [
        "INSERT INTO ev",
        "INSERT INTO public",
        "INSERT INTO tt",
        "INSERT INTO made",
        "WITH p AS",
        "EXECUTE p",
        "view_ev",
    ];
    keys.iter().any(|key| sql.contains(key))
        || sql.starts_with("PREPARE TRANSACTION")
        || sql.starts_with("VACUUM")
}

#[test]
fn a_temporary_schema_is_made_by_the_client_alone() {
    // Asking a session where its path leads may make what the path lists.
    let (direct, through) =
        two_alike("CREATE SCHEMA other; CREATE TABLE ev (id uuid); CREATE TABLE other.ev (id uuid)");
    let proxy = Proxy::before(&through);
    let talk: Talk = [
        "SET search_path TO PG_Temp",
        "COMMENT ON TABLE public.ev IS 'after a change the path is asked for again'",
        "BEGIN",
        "SELECT current_schema() IS NOT NULL",
        "PREPARE TRANSACTION 'a transaction that has made it'",
        "ROLLBACK",
    ]
    .map(q)
    .into();
    let expected = replies(login(direct.address, &direct), &talk, usize::MAX);
    assert!(expected.iter().any(|reply| reply.field(b'C').as_deref() == Some("0A000")), "{expected:?}");
    let actual = replies(login(proxy.address, &through), &talk, usize::MAX);
    assert_same("PREPARE TRANSACTION", &expected, &actual);
}

#[test]
fn random_conversations_are_relayed_unchanged() {
    let (direct, through) = two_alike(&format!("{TABLES}; {ROWS}"));
    let proxy = Proxy::before(&through);
    let config = Config { cases: 60, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let property = |(talk, cut): (Talk, usize)| {
        let expected = replies(login(direct.address, &direct), &talk, usize::MAX);
        let actual = replies(login(proxy.address, &through), &talk, cut);
        assert_same("a random conversation", &expected, &actual);
        Ok(())
    };
    TestRunner::new(config).run(&random_talk(), property).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_startup_packet_may_ask_for_anything() {
    let (direct, through) = two_alike(EV);
    let proxy = Proxy::before(&through);
    let cases: &[&[(&str, &str)]] = &[
        &[
            ("application_name", "x y"),
            ("client_encoding", "LATIN1"),
            ("options", "-c search_path=pg_catalog -c datestyle=German"),
        ],
        &[("TimeZone", "Asia/Tokyo"), ("extra_float_digits", "2")],
        &[("nothing", "1")],
        &[("_pq_.nothing", "1")],
        &[("options", "-c nothing=1")],
        &[("client_encoding", "nothing")],
    ];
    for parameters in cases {
        let greeting = |address, database: &Database| {
            let all: Vec<(&str, &str)> = [("user", "postgres"), ("database", &database.name)]
                .into_iter()
                .chain(parameters.iter().copied())
                .collect();
            let mut wire = Wire::dial(address).expect("a listener");
            wire.send(&[message::startup(&all), message::terminate()].concat());
            wire.until_end().into_iter().map(masked).collect::<Vec<_>>()
        };
        assert_same(
            &format!("{parameters:?}"),
            &greeting(direct.address, &direct),
            &greeting(proxy.address, &through),
        );
    }
}

#[test]
fn a_refused_login_reads_the_same() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    for parameters in [
        [("user", "nobody_of_that_name"), ("database", "postgres")],
        [("user", "postgres"), ("database", "no_such_database")],
    ] {
        let refusal = |address| {
            let mut wire = Wire::dial(address).expect("a listener");
            wire.send(&message::startup(&parameters));
            wire.until_end()
        };
        assert_same(&format!("{parameters:?}"), &refusal(database.address), &refusal(proxy.address));
    }
}
