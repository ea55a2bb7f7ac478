//! Transactions whose only fault is twins: they commit, every row stored, the first row keeping its key.

use crate::expect::{NONE_SURVIVES, is_random_without_hyphens, its_text};
use crate::modes::Strict;
use crate::scenario::{EV, PLAIN, SIMPLE, Scenario, play};

#[test]
fn a_batch_with_twins_commits() {
    play(&[Scenario {
        name: "T01 the founding case",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO ev VALUES ({K},'a','s1'),({L},'b','s1'),({K},'c','s1')", "INSERT 0 3"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT * FROM ev ORDER BY ctid", &["K|a|s1", "L|b|s1", "U|c|s1"]),
        rekeyed: &["1.3<1.1 committed"],
        bare: "23505",
        strict: Strict::Rewrites,
        ..PLAIN
    }]);
}

#[test]
fn a_loop_of_inserts_commits() {
    let rows = ("SELECT id, v FROM ev ORDER BY ctid", ["K|a", "L|b", "U|c"]);
    play(&[
        Scenario {
            name: "one statement a row",
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                ("INSERT INTO ev(id,v) VALUES ({L},'b')", "INSERT 0 1"),
                ("INSERT INTO ev(id,v) VALUES ({K},'c')", "INSERT 0 1"),
                ("COMMIT", "COMMIT"),
            ],
            stored: (rows.0, &rows.1),
            rekeyed: &["3.1<1.1 committed"],
            bare: "23505",
            strict: Strict::Rewrites,
            ..PLAIN
        },
        Scenario {
            name: "T04 (b) several statements in one Query",
            steps: &[(
                "INSERT INTO ev(id,v) VALUES ({K},'a');INSERT INTO ev(id,v) VALUES ({L},'b');INSERT INTO ev(id,v) VALUES ({K},'c')",
                "INSERT 0 1;INSERT 0 1;INSERT 0 1",
            )],
            stored: (rows.0, &rows.1),
            rekeyed: &["3.1<1.1 committed"],
            bare: "23505",
            protocols: SIMPLE,
            ..PLAIN
        },
    ]);
}

#[test]
fn keys_live_as_long_as_their_savepoint() {
    play(&[Scenario {
        name: "T08 savepoints",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("SAVEPOINT s", "SAVEPOINT"),
            ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
            ("ROLLBACK TO s", "ROLLBACK"),
            ("INSERT INTO ev(id,v) VALUES ({K},'a2')", "INSERT 0 1"),
            ("SAVEPOINT s", "SAVEPOINT"),
            ("INSERT INTO ev(id,v) VALUES ({L},'x')", "INSERT 0 1"),
            ("RELEASE s", "RELEASE"),
            ("INSERT INTO ev(id,v) VALUES ({L},'y')", "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|a2", "L|x", "U|y"]),
        rekeyed: &["8.1<6.1 committed"],
        bare: "23505",
        strict: Strict::Rewrites,
        ..PLAIN
    }]);
}

#[test]
fn identical_rows_are_rekeyed_unless_strict() {
    let once = ("BEGIN", "BEGIN");
    let with_time = "CREATE TABLE ev (id uuid PRIMARY KEY, v text, received_at timestamptz)";
    let two = "INSERT INTO ev VALUES ({K},'a','s1'),({K},'a','s1')";
    let timed = "INSERT INTO ev VALUES ({K},'a','2026-01-01 10:00:00+00'),({K},'a','2026-01-01 10:00:01+00')";
    let five = "INSERT INTO ev(id,v) VALUES ({K},'a'),({K},'a'),({K},'a'),({K},'a'),({K},'a')";
    let block = "INSERT INTO ev(id,v) VALUES ({K},'a'),({L},'b'),({M},'c'),({K},'a'),({L},'b'),({M},'c')";
    play(&[
        Scenario {
            name: "T09 (a) one row twice",
            steps: &[once, (two, "INSERT 0 2"), ("COMMIT", "COMMIT")],
            stored: ("SELECT * FROM ev ORDER BY ctid", &["K|a|s1", "U|a|s1"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            strict: Strict::Forwards,
            ..PLAIN
        },
        Scenario {
            name: "T09 (b) a block twice",
            steps: &[(block, "INSERT 0 6")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|a", "L|b", "M|c", "U1|a", "U2|b", "U3|c"]),
            rekeyed: &["1.4<1.1 committed", "1.5<1.2 committed", "1.6<1.3 committed"],
            bare: "23505",
            strict: Strict::Forwards,
            ..PLAIN
        },
        Scenario {
            name: "T09 (c) another time of arrival",
            tables: with_time,
            steps: &[(timed, "INSERT 0 2")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|a", "U|a"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            strict: Strict::Forwards,
            ..PLAIN
        },
        Scenario {
            name: "T09 (d) five times one row",
            steps: &[(five, "INSERT 0 5")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|a", "U1|a", "U2|a", "U3|a", "U4|a"]),
            rekeyed: &["1.2<1.1 committed", "1.3<1.1 committed", "1.4<1.1 committed", "1.5<1.1 committed"],
            bare: "23505",
            strict: Strict::Forwards,
            ..PLAIN
        },
    ]);
}

#[test]
fn constant_keys_are_rekeyed_to_random_ones() {
    let constants = [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "3fa85f64-5717-4562-b3fc-2c963f66afa6",
    ];
    for constant in constants {
        play(&[Scenario {
            name: constant,
            keys: &[("C", constant)],
            steps: &[("INSERT INTO ev(id,v) VALUES ({C},'a'),({C},'b')", "INSERT 0 2")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["C|a", "U|b"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            strict: Strict::Rewrites,
            ..PLAIN
        }]);
    }
}

#[test]
fn a_fresh_key_is_spelled_like_the_old_one() {
    let braces = ("A", "{ABCDEF00-1111-4111-8111-111111111111}");
    let digits = ("B", "abcdef00111141118111111111111111");
    let upper = ("A", "ABCDEF00-1111-4111-8111-111111111111");
    let lower = ("B", "abcdef00-1111-4111-8111-111111111111");
    let insert = ("INSERT INTO ev(id,v) VALUES ({A},'x'),({B},'y')", "INSERT 0 2");
    play(&[
        Scenario {
            name: "T18 (a) one uuid, two spellings",
            keys: &[braces, digits],
            steps: &[insert],
            stored: (
                "SELECT id, v FROM ev ORDER BY ctid",
                &["abcdef00-1111-4111-8111-111111111111|x", "U|y"],
            ),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            strict: Strict::Rewrites,
            ..PLAIN
        },
        Scenario {
            name: "T18 (b) two texts",
            tables: "CREATE TABLE ev (id text PRIMARY KEY, v text)",
            keys: &[upper, lower],
            steps: &[insert],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["A|x", "B|y"]),
            binary: its_text,
            ..PLAIN
        },
        Scenario {
            name: "T18 (c) 32 digits",
            tables: "CREATE TABLE ev (id char(32) PRIMARY KEY, v text)",
            keys: &[digits],
            steps: &[("INSERT INTO ev(id,v) VALUES ({B},'x'),({B},'y')", "INSERT 0 2")],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["B|x", "U|y"]),
            rekeyed: &["1.2<1.1 committed"],
            bare: "23505",
            fresh: is_random_without_hyphens,
            binary: its_text,
            ..PLAIN
        },
    ]);
}

#[test]
fn a_fresh_v7_key_keeps_its_time() {
    play(&[Scenario {
        name: "T19 partitions by v7 time",
        tables: "CREATE TABLE ev (id uuid PRIMARY KEY CHECK (substr(id::text, 15, 1) = '7'), v text) PARTITION BY RANGE (id);
                 CREATE TABLE ev_now PARTITION OF ev
                 FOR VALUES FROM ('01a22d00-0000-7000-8000-000000000000') TO ('01a23000-0000-7000-8000-000000000000')",
        keys: &[("W", "01a22d67-b71f-70c6-b013-47fe191ee0e9")],
        steps: &[("INSERT INTO ev VALUES ({W},'a'),({W},'b')", "INSERT 0 2")],
        stored: ("SELECT id, v FROM ev ORDER BY ctid", &["W|a", "U|b"]),
        rekeyed: &["1.2<1.1 committed"],
        bare: "23505",
        fresh: |key| key.starts_with("01a22d67-b71f-7"),
        ..PLAIN
    }]);
}

#[test]
fn an_error_ends_the_life_of_keys() {
    play(&[Scenario {
        name: "T16 (a) a failed transaction",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
            ("SELECT 1/0", "!22012"),
            ("INSERT INTO ev(id,v) VALUES ({K},'b')", "!25P02"),
            ("COMMIT", "ROLLBACK"),
            ("INSERT INTO ev(id,v) VALUES ({K},'c')", "INSERT 0 1"),
        ],
        stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|c"]),
        rekeyed: NONE_SURVIVES,
        bare: "22012",
        ..PLAIN
    }]);
}

#[test]
fn a_drivers_own_savepoints_do_not_hide_twins() {
    for name in ["PGJDBC_AUTOSAVE", "pg_psql_temporary_savepoint", "_EXEC_SVP_0x5581a5e0"] {
        let savepoint = format!("SAVEPOINT \"{name}\"");
        play(&[Scenario {
            name,
            tables: EV,
            steps: &[
                ("BEGIN", "BEGIN"),
                (&savepoint, "SAVEPOINT"),
                ("INSERT INTO ev(id,v) VALUES ({K},'x')", "INSERT 0 1"),
                (&savepoint, "SAVEPOINT"),
                ("INSERT INTO ev(id,v) VALUES ({K},'y')", "INSERT 0 1"),
                ("COMMIT", "COMMIT"),
            ],
            stored: ("SELECT id, v FROM ev ORDER BY ctid", &["K|x", "U|y"]),
            rekeyed: &["4.1<2.1 committed"],
            bare: "23505",
            strict: Strict::Rewrites,
            ..PLAIN
        }]);
    }
}

#[test]
fn lockstep_pairs_seeded_keys_and_docker_nodes_are_saved() {
    let database = crate::support::Database::fresh(crate::scenario::EV);
    let proxy = crate::support::Proxy::before(&database);
    let [a, b, c] = [
        "0b1f6a0e-3d0a-4c57-9a43-1f3c5a7e9b10",
        "5e2d7c91-8b4f-4e36-b1a9-7d6c2f0e4a21",
        "c94a1d3e-6f72-4b08-8e5d-0a9b3c7d1f32",
    ];
    let seeded = ["bdd640fb-0667-4ad1-9c80-317fa3b1799d", "23b8c1e9-3924-46de-beb1-3b9046685257"];
    let node = "7d444840-9dc0-11d1-b245-0242ac110002";
    // T20: each list is one transaction; every row differs in `src`.
    for (keys, distinct) in
        [(vec![a, b, c, a, b, c], 6), ([seeded, seeded].concat(), 4), (vec![node, node], 2)]
    {
        database.run("TRUNCATE ev");
        let row = |(at, key): (usize, &&str)| format!("('{key}','v','p{at}')");
        let rows: Vec<String> = keys.iter().enumerate().map(row).collect();
        proxy.connect().run(&format!("BEGIN; INSERT INTO ev(id,v,src) VALUES {}; COMMIT", rows.join(",")));
        let stored = database.stored("SELECT id FROM ev ORDER BY ctid");
        assert_eq!(stored.len(), distinct, "{keys:?}");
        assert_eq!(stored[..distinct / 2], keys[..distinct / 2], "the first rows keep their keys");
        let versions = |keys: &[String]| keys.iter().map(|key| key[14..15].to_owned()).collect::<Vec<_>>();
        assert_eq!(versions(&stored[distinct / 2..]), versions(&stored[..distinct / 2]), "same versions");
    }
}
