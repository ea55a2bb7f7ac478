//! Conversations without twins, one a behaviour, for the tables of `transparent`; what they must come to is not its business.

use crate::support::message::{self, Value, text};

/// What a client sends, and which replies it reads before it goes on: one by one the first of each type.
pub type Talk = Vec<(Vec<u8>, &'static str)>;

pub fn q(sql: &str) -> (Vec<u8>, &'static str) {
    (message::query(sql), "Z")
}

fn sends(pieces: &[Vec<u8>], until: &'static str) -> (Vec<u8>, &'static str) {
    (pieces.concat(), until)
}

fn one_by_one(statements: &[&str]) -> Talk {
    statements.iter().map(|sql| q(sql)).collect()
}

/// A statement through the extended protocol, with its Sync.
pub fn x(sql: &str, values: &[Value]) -> (Vec<u8>, &'static str) {
    sends(&[message::extended(sql, values), message::sync()], "Z")
}

/// One conversation a behaviour.
pub fn corpus() -> Vec<(&'static str, Talk)> {
    vec![
        (
            "simple queries",
            one_by_one(&[
                "SELECT 1",
                "",
                ";",
                "-- nothing",
                "SELECT 1; SELECT 2, 'x'; SELECT NULL",
                "TABLE n",
                "VALUES (1),(2)",
            ]),
        ),
        ("inserts", one_by_one(INSERTS)),
        ("transactions", one_by_one(TRANSACTIONS)),
        ("definitions", one_by_one(DEFINITIONS)),
        ("settings", one_by_one(SETTINGS)),
        ("errors", one_by_one(ERRORS)),
        (
            "notices",
            one_by_one(&[
                "SELECT warn()",
                "DO $$BEGIN RAISE NOTICE 'n'; RAISE INFO 'i'; END$$",
                "DROP TABLE IF EXISTS nothing",
                "ROLLBACK",
            ]),
        ),
        ("cursors", one_by_one(CURSORS)),
        ("statements of SQL", one_by_one(PREPARED)),
        (
            "a large result",
            one_by_one(&[
                "SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i",
                "SELECT repeat('y', 3000000)",
            ]),
        ),
        ("a large statement", one_by_one(&[&format!("SELECT length('{}')", "z".repeat(1 << 20))])),
        ("copy in", copy_in()),
        (
            "a query in the middle of a copy",
            vec![(message::query("COPY n FROM STDIN"), "G"), (message::query("SELECT 1"), "")],
        ),
        (
            "copy out",
            one_by_one(&[
                "COPY n TO STDOUT",
                "COPY (SELECT * FROM n) TO STDOUT (FORMAT binary)",
                "COPY nothing TO STDOUT",
            ]),
        ),
        (
            "notifications",
            one_by_one(&["LISTEN c", "NOTIFY c, 'hello'", "BEGIN; NOTIFY c; COMMIT", "UNLISTEN *"]),
        ),
        (
            "a function call",
            vec![
                sends(&[message::function_call(1376, &["4"])], "Z"),
                sends(&[message::function_call(1, &[])], "Z"),
            ],
        ),
        ("parameters", parameters()),
        ("portals", portals()),
        ("named statements", named_statements()),
        ("a pipeline with an error", vec![sends(&pipeline_with_an_error(), "ZZZ")]),
        (
            "flush",
            vec![
                sends(
                    &[
                        message::parse("f", "SELECT $1::int", &[]),
                        message::describe(b'S', "f"),
                        message::flush(),
                    ],
                    "1tT",
                ),
                x("SELECT 2", &[]),
            ],
        ),
        (
            "a query inside a pipeline",
            vec![
                sends(&[message::extended("SELECT 1", &[]), message::query("SELECT 2")], "Z"),
                q("SELECT 3"),
            ],
        ),
        (
            "a query inside a transaction of a pipeline",
            vec![
                sends(
                    &[message::extended("INSERT INTO n VALUES (50)", &[]), message::query("SELECT 1/0")],
                    "Z",
                ),
                q("SELECT count(*) FROM n"),
            ],
        ),
        ("the end", vec![q("SELECT 1"), (message::terminate(), "")]),
    ]
}

pub const INSERTS: &[&str] = &[
    "INSERT INTO ev VALUES ('11111111-1111-4111-8111-111111111111','a','s'),('22222222-2222-4222-8222-222222222222','b','s')",
    "INSERT INTO ev VALUES ('11111111-1111-4111-8111-111111111111','again','s')",
    "INSERT INTO ev (v, id) VALUES ('c', '{33333333-3333-4333-8333-333333333333}') RETURNING *",
    "INSERT INTO ev (id, v) SELECT '44444444-4444-4444-8444-444444444444', 'd' RETURNING id",
    "INSERT INTO public.\"ev\" AS e (id) VALUES (CAST('55555555-5555-4555-8555-555555555555' AS uuid)) RETURNING e.id",
    "INSERT INTO ev VALUES ('66666666-6666-4666-8666-666666666666'), ('no uuid')",
    "INSERT INTO ev VALUES (",
    "INSERT INTO nothing VALUES ('11111111-1111-4111-8111-111111111111')",
    "INSERT INTO n DEFAULT VALUES",
    "INSERT INTO n VALUES (3, DEFAULT), (4, 'é € 𝄞')",
    "INSERT INTO ev VALUES ('11111111-1111-4111-8111-111111111111','u') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v RETURNING v",
    "WITH p AS (INSERT INTO ev VALUES ('77777777-7777-4777-8777-777777777777') RETURNING id) INSERT INTO ch SELECT id, 'ok' FROM p",
    "INSERT INTO ch VALUES ('88888888-8888-4888-8888-888888888888', 'sad')",
    "INSERT INTO view_ev VALUES ('88888888-8888-4888-8888-888888888888', 'through a view')",
    "UPDATE ev SET v = 'z' WHERE v = 'a' RETURNING *",
    "DELETE FROM ch; DELETE FROM ev WHERE id = '22222222-2222-4222-8222-222222222222'",
    "EXPLAIN (COSTS OFF) INSERT INTO ev VALUES ('99999999-9999-4999-8999-999999999990')",
    "TABLE ev",
];

pub const TRANSACTIONS: &[&str] = &[
    "BEGIN",
    "INSERT INTO n VALUES (10)",
    "SAVEPOINT s",
    "INSERT INTO n VALUES (10)",
    "SELECT 1",
    "ROLLBACK TO s",
    "RELEASE s",
    "COMMIT",
    "BEGIN; SELECT 1/0; COMMIT",
    "SELECT 1",
    "ROLLBACK",
    "COMMIT",
    "START TRANSACTION READ ONLY",
    "INSERT INTO n VALUES (11)",
    "END",
    "BEGIN",
    "INSERT INTO n VALUES (12)",
    "COMMIT AND CHAIN",
    "SELECT 1",
    "ROLLBACK AND CHAIN",
    "ABORT",
    "SELECT count(*) FROM n",
    "BEGIN",
    "INSERT INTO n VALUES (13)",
    "PREPARE TRANSACTION 'transparent'",
    "ROLLBACK PREPARED 'transparent'",
    "INSERT INTO n VALUES (14); INSERT INTO n VALUES (14)",
    "SELECT count(*) FROM n",
    "BEGIN; BEGIN; ROLLBACK; ROLLBACK",
];

pub const DEFINITIONS: &[&str] = &[
    "CREATE TEMP TABLE tt (id uuid PRIMARY KEY, v text)",
    "INSERT INTO tt VALUES ('11111111-1111-4111-8111-111111111111', 'a')",
    "ALTER TABLE tt ADD c int",
    "INSERT INTO tt VALUES ('22222222-2222-4222-8222-222222222222', 'a', 1)",
    "CREATE INDEX ON tt (c)",
    "BEGIN; CREATE TABLE made (id uuid PRIMARY KEY); INSERT INTO made VALUES ('11111111-1111-4111-8111-111111111111'); ROLLBACK",
    "DROP TABLE tt",
    "TRUNCATE ch",
    "ANALYZE n",
    "CREATE SCHEMA s2",
    "CREATE TABLE s2.ev (id uuid, v text)",
    "SET search_path = s2, public",
    "INSERT INTO ev VALUES ('11111111-1111-4111-8111-111111111111','a'),('11111111-1111-4111-8111-111111111111','a')",
    "TABLE ev",
    "RESET search_path",
    "DROP SCHEMA s2 CASCADE",
    "VACUUM n",
];

const SETTINGS: &[&str] = &[
    "SET application_name = 'x'",
    "SHOW application_name",
    "SET client_encoding = 'LATIN1'",
    "RESET client_encoding",
    "SET timezone = 'Europe/Rome'",
    "BEGIN; SET LOCAL datestyle = 'German'; SELECT date '2026-01-02'; ROLLBACK",
    "SET standard_conforming_strings = off",
    "SELECT 'a\\'b'",
    "SET nothing = 1",
    "SET SESSION AUTHORIZATION DEFAULT",
    "SELECT set_config('search_path', 'public', false)",
    "RESET ALL",
    "DISCARD ALL",
];

pub const ERRORS: &[&str] = &[
    "SELECT 1/0",
    "SELEC 1",
    "SELECT nothing",
    "INSERT INTO n VALUES (1)",
    "INSERT INTO n VALUES (5000)",
    "INSERT INTO n VALUES (20, NULL)",
    "SELECT 'é' || nothing -- é",
    "SELECT E'\\xff'",
    "SELECT 1; SELECT 1/0; SELECT 2",
    "SELECT 'abc",
    "SELECT $1",
    "SELECT 1 $$",
    "\u{feff}SELECT 1",
];

pub const CURSORS: &[&str] = &[
    "BEGIN",
    "DECLARE c CURSOR FOR SELECT i FROM generate_series(1, 9) i",
    "FETCH 2 FROM c",
    "MOVE 3 IN c",
    "FETCH ALL c",
    "CLOSE c",
    "COMMIT",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "FETCH c",
    "CLOSE ALL",
];

pub const PREPARED: &[&str] = &[
    "PREPARE p (uuid, text) AS INSERT INTO ev VALUES ($1, $2)",
    "EXECUTE p('11111111-1111-4111-8111-aaaaaaaaaaaa', 'x')",
    "EXECUTE p('11111111-1111-4111-8111-aaaaaaaaaaaa', 'x')",
    "EXECUTE p('11111111-1111-4111-8111-aaaaaaaaaaaa')",
    "DEALLOCATE p",
    "EXECUTE p(1, 2)",
    "DEALLOCATE ALL",
];

fn copy_in() -> Talk {
    let rows = b"11111111-1111-4111-8111-bbbbbbbbbbbb\ta\n11111111-1111-4111-8111-cccccccccccc\t\\N\n";
    let copy = |sql: &str| (message::query(sql), "G");
    vec![
        copy("COPY ev (id, v) FROM STDIN"),
        sends(&[message::copy_data(&rows[..50]), message::copy_data(&rows[50..]), message::copy_done()], "Z"),
        copy("COPY ev (id, v) FROM STDIN"),
        sends(&[message::copy_data(&rows[..50]), message::copy_fail("changed my mind")], "Z"),
        copy("COPY ev (id, v) FROM STDIN"),
        sends(&[message::copy_data(rows), message::copy_done()], "Z"),
        copy("COPY n FROM STDIN (FORMAT csv)"),
        sends(
            &[message::copy_data(b"30,a\nx,b\n31,c\n"), message::copy_data(b"32,d\n"), message::copy_done()],
            "Z",
        ),
        q("COPY n FROM STDIN (FORMAT nothing)"),
        sends(&[message::extended("COPY n FROM STDIN", &[]), message::sync()], "G"),
        sends(
            &[message::flush(), message::copy_data(b"33\te\n"), message::copy_done(), message::sync()],
            "Z",
        ),
        q("TABLE n"),
    ]
}

fn parameters() -> Talk {
    let key = Value::Binary(vec![7, 7, 7, 7, 7, 7, 0x47, 7, 0x87, 7, 7, 7, 7, 7, 7, 7]);
    vec![
        x("SELECT $1::text, $2::int", &[text("a"), Value::Null]),
        x("SELECT $1::int4", &[Value::Binary(vec![0, 0, 0, 9])]),
        x("INSERT INTO ev VALUES ($1,$2,$3)", &[key.clone(), text("v"), Value::Null]),
        x("INSERT INTO ev VALUES ($1,$2)", &[key, text("v")]),
        x("INSERT INTO ev VALUES ($1)", &[Value::Binary(vec![1, 2, 3])]),
        x("INSERT INTO ev VALUES ($1)", &[text("1"), text("too many")]),
        x("INSERT INTO ev VALUES ($2)", &[text("1")]),
        x("SELECT $1", &[Value::Null]),
    ]
}

fn portals() -> Talk {
    let many = "SELECT i FROM generate_series(1, 7) i";
    vec![
        sends(
            &[
                message::parse("", many, &[]),
                message::bind("p", "", &[]),
                message::execute("p", 3),
                message::flush(),
            ],
            "12s",
        ),
        sends(
            &[message::execute("p", 3), message::execute("p", 3), message::close(b'P', "p"), message::sync()],
            "Z",
        ),
        sends(&[message::execute("gone", 0), message::sync()], "Z"),
        q("BEGIN"),
        sends(
            &[
                message::parse("", many, &[]),
                message::bind("kept", "", &[]),
                message::execute("kept", 2),
                message::sync(),
            ],
            "Z",
        ),
        sends(&[message::describe(b'P', "kept"), message::execute("kept", 0), message::sync()], "Z"),
        q("COMMIT"),
    ]
}

fn named_statements() -> Talk {
    let bound = [message::bind("", "a", &[text("1")]), message::execute("", 0)].concat();
    vec![
        sends(
            &[
                message::parse("a", "SELECT $1::int + 1", &[23]),
                message::describe(b'S', "a"),
                message::sync(),
            ],
            "Z",
        ),
        sends(&[bound.clone(), bound.clone(), message::sync()], "Z"),
        sends(&[message::parse("a", "SELECT 2", &[]), message::sync()], "Z"),
        sends(&[message::close(b'S', "a"), bound.clone(), message::sync()], "Z"),
        sends(
            &[
                message::parse("", "", &[]),
                message::bind("", "", &[]),
                message::execute("", 0),
                message::sync(),
            ],
            "Z",
        ),
        sends(&[message::parse("a", "SELECT 3", &[]), message::sync()], "Z"),
        q("DISCARD ALL"),
        sends(&[bound, message::sync()], "Z"),
    ]
}

fn pipeline_with_an_error() -> [Vec<u8>; 7] {
    [
        message::extended("INSERT INTO n VALUES (40)", &[]),
        message::extended("SELECT 1/0", &[]),
        message::extended("INSERT INTO n VALUES (41)", &[]),
        message::sync(),
        message::extended("SELECT count(*) FROM n", &[]),
        message::sync(),
        message::sync(),
    ]
}
