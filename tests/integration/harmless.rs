//! What a correct application does must come out as without untwin, also where it looks like a twin.

use crate::scenario::{EV, ONE_BY_ONE, PLAIN, Scenario, play};
use crate::support::cluster;

#[test]
fn twins_of_other_transactions_are_conflicts() {
    play(&[
        Scenario {
            name: "T02 (a) autocommit",
            steps: &[
                ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                ("INSERT INTO ev(id,v) VALUES ({K},'b')", "!23505"),
            ],
            stored: ("SELECT id, v FROM ev", &["K|a"]),
            bare: "23505",
            ..PLAIN
        },
        Scenario {
            name: "T02 (b) a row the snapshot hides",
            steps: &[
                ("BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN"),
                ("SELECT 1 FROM ev", "SELECT 0"),
                ("c2> INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                ("SELECT v FROM ev WHERE id={K}", "SELECT 0"),
                ("INSERT INTO ev(id,v) VALUES ({K},'b')", "!23505"),
                ("ROLLBACK", "ROLLBACK"),
            ],
            stored: ("SELECT id, v FROM ev", &["K|a"]),
            bare: "23505",
            protocols: ONE_BY_ONE,
            ..PLAIN
        },
        Scenario {
            name: "T02 (c) three transactions",
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                ("COMMIT", "COMMIT"),
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'b')", "!23505"),
                ("COMMIT", "ROLLBACK"),
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'c')", "!23505"),
                ("ROLLBACK", "ROLLBACK"),
            ],
            stored: ("SELECT id, v FROM ev", &["K|a"]),
            bare: "23505",
            ..PLAIN
        },
    ]);
}

#[test]
fn a_default_is_not_believed_to_stand_still_because_its_function_says_so() {
    let tables = "CREATE TABLE counted (x int);
                  CREATE FUNCTION revision() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT count(*)::int FROM counted';
                  CREATE TABLE ev (id uuid, version int DEFAULT public.revision(), v text, PRIMARY KEY (id, version))";
    play(&[Scenario {
        name: "a count that is called immutable",
        tables,
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
            ("INSERT INTO counted VALUES (1)", "INSERT 0 1"),
            ("INSERT INTO ev(id,v) VALUES ({K},'b')", "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT id, v FROM ev ORDER BY v", &["K|a", "K|b"]),
        ..PLAIN
    }]);
}

#[test]
fn a_partition_may_have_a_default_of_its_own() {
    let tables =
        "CREATE TABLE ev (n int DEFAULT 1, id uuid, v text, PRIMARY KEY (n, id)) PARTITION BY HASH (id);
                  CREATE TABLE part PARTITION OF ev FOR VALUES WITH (MODULUS 1, REMAINDER 0);
                  ALTER TABLE part ALTER n SET DEFAULT 2";
    play(&[Scenario {
        name: "1 by the parent's name, 2 by the partition's",
        tables,
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
            ("INSERT INTO part(id,v) VALUES ({K},'b')", "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT n, id, v FROM ev ORDER BY v", &["1|K|a", "2|K|b"]),
        ..PLAIN
    }]);
}

#[test]
fn a_setting_is_known_by_its_name_in_any_case() {
    let tables = "CREATE TABLE ev (id uuid PRIMARY KEY, v text); CREATE SCHEMA s2;
                  CREATE TABLE s2.ev (id uuid, v text)";
    let ev = "INSERT INTO ev(id,v) VALUES ({K},'a')";
    play(&[Scenario {
        name: "in quotes",
        tables,
        steps: &[
            ("BEGIN", "BEGIN"),
            (ev, "INSERT 0 1"),
            ("SET LOCAL \"SEARCH_PATH\" TO s2", "SET"),
            (ev, "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT DISTINCT id FROM s2.ev", &["K"]),
        ..PLAIN
    }]);
}

#[test]
fn on_conflict_means_what_it_says() {
    play(&[
        Scenario {
            name: "T06 DO NOTHING",
            steps: &[(
                "INSERT INTO ev(id,v) VALUES ({K},'a'),({K},'b') ON CONFLICT DO NOTHING",
                "INSERT 0 1",
            )],
            stored: ("SELECT id, v FROM ev", &["K|a"]),
            ..PLAIN
        },
        Scenario {
            name: "T06 DO NOTHING on another column",
            tables: "CREATE TABLE t (id uuid PRIMARY KEY, k text UNIQUE)",
            steps: &[("INSERT INTO t VALUES ({K},'a'),({K},'b') ON CONFLICT (k) DO NOTHING", "!23505")],
            stored: ("SELECT * FROM t", &[]),
            bare: "23505",
            ..PLAIN
        },
        Scenario {
            name: "T07 (a) a row updated twice",
            steps: &[(
                "INSERT INTO ev(id,v) VALUES ({K},'a'),({K},'b') ON CONFLICT (id) DO UPDATE SET v=EXCLUDED.v",
                "!21000",
            )],
            stored: ("SELECT id, v FROM ev", &[]),
            bare: "21000",
            forwarded: true,
            ..PLAIN
        },
        Scenario {
            name: "T07 (b) an upsert",
            steps: &[
                ("BEGIN", "BEGIN"),
                (
                    "INSERT INTO ev(id,v) VALUES ({K},'a') ON CONFLICT (id) DO UPDATE SET v=EXCLUDED.v",
                    "INSERT 0 1",
                ),
                (
                    "INSERT INTO ev(id,v) VALUES ({K},'b') ON CONFLICT (id) DO UPDATE SET v=EXCLUDED.v",
                    "INSERT 0 1",
                ),
                ("COMMIT", "COMMIT"),
            ],
            stored: ("SELECT id, v FROM ev", &["K|b"]),
            ..PLAIN
        },
    ]);
}

#[test]
fn merge_means_what_it_says() {
    if cluster::shared().version() < 150_000 {
        return; // MERGE is of Postgres 15.
    }
    play(&[Scenario {
        name: "T07 (c) MERGE",
        steps: &[(
            "MERGE INTO ev USING (VALUES ({K}::uuid,'1'),({K}::uuid,'2')) s(id,v) ON ev.id = s.id \
             WHEN MATCHED THEN UPDATE SET v=s.v WHEN NOT MATCHED THEN INSERT (id,v) VALUES (s.id,s.v)",
            "!23505",
        )],
        stored: ("SELECT id, v FROM ev", &[]),
        bare: "23505",
        ..PLAIN
    }]);
}

#[test]
fn a_freed_key_may_be_used_again() {
    let cases = [
        ("DELETE FROM ev WHERE v='a'", "DELETE 1", &["K|b"][..]),
        ("DELETE FROM ev WHERE id={K}", "DELETE 1", &["K|b"]),
        ("UPDATE ev SET id={M} WHERE v='a'", "UPDATE 1", &["M|a", "K|b"]),
        ("TRUNCATE ev", "TRUNCATE TABLE", &["K|b"]),
        ("DO $$BEGIN DELETE FROM ev; END$$", "DO", &["K|b"]),
        (
            "WITH gone AS (DELETE FROM ev RETURNING 1) SELECT count(*) FROM gone WHERE false",
            "SELECT 1",
            &["K|b"],
        ),
        ("SELECT empty_ev()", "SELECT 1", &["K|b"]),
        ("CALL empty_ev_by_call()", "CALL", &["K|b"]),
    ];
    let routines = "CREATE FUNCTION empty_ev() RETURNS void LANGUAGE sql VOLATILE AS 'DELETE FROM ev';
                    CREATE PROCEDURE empty_ev_by_call() LANGUAGE sql AS 'DELETE FROM ev'";
    let tables = format!("{EV}; {routines}");
    for (freeing, tag, rows) in cases {
        let protocols = if tag == "SELECT 1" { ONE_BY_ONE } else { PLAIN.protocols };
        play(&[Scenario {
            name: freeing,
            tables: &tables,
            steps: &[
                ("BEGIN", "BEGIN"),
                ("INSERT INTO ev(id,v) VALUES ({K},'a')", "INSERT 0 1"),
                (freeing, tag),
                ("INSERT INTO ev(id,v) VALUES ({K},'b')", "INSERT 0 1"),
                ("COMMIT", "COMMIT"),
            ],
            stored: ("SELECT id, v FROM ev ORDER BY v", rows),
            protocols,
            ..PLAIN
        }]);
    }
}

#[test]
fn what_is_not_a_unique_key_may_repeat() {
    let cases = [
        (
            "T11 a version beside the id",
            "CREATE TABLE t (id uuid, ver int, PRIMARY KEY (id, ver))",
            "INSERT INTO t VALUES ({K},1),({K},2)",
            &["K|1", "K|2"],
        ),
        (
            "T11 a join table",
            "CREATE TABLE t (a uuid, b uuid, PRIMARY KEY (a, b))",
            "INSERT INTO t VALUES ({K},{L}),({K},{M})",
            &["K|L", "K|M"],
        ),
        (
            "T11 a column without index",
            "CREATE TABLE t (id uuid, v text)",
            "INSERT INTO t VALUES ({K},'a'),({K},'b')",
            &["K|a", "K|b"],
        ),
        (
            "T11 a partial index",
            "CREATE TABLE t (id uuid, del bool); CREATE UNIQUE INDEX ON t (id) WHERE NOT del",
            "INSERT INTO t VALUES ({K},true),({K},false)",
            &["K|t", "K|f"],
        ),
        (
            "a deferrable key",
            "CREATE TABLE t (id uuid PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
            "WITH x AS (SELECT 1) INSERT INTO t VALUES ({K},'a'),({L},'b')",
            &["K|a", "L|b"],
        ),
    ];
    for (name, tables, insert, rows) in cases {
        play(&[Scenario {
            name,
            tables,
            steps: &[("BEGIN", "BEGIN"), (insert, "INSERT 0 2"), ("COMMIT", "COMMIT")],
            stored: ("SELECT * FROM t ORDER BY ctid", rows),
            ..PLAIN
        }]);
    }
}

#[test]
fn tables_do_not_share_keys() {
    play(&[Scenario {
        name: "T12 inheritance over two tables",
        tables: "CREATE TABLE base (id uuid PRIMARY KEY); CREATE TABLE derived (id uuid PRIMARY KEY REFERENCES base)",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO base VALUES ({K})", "INSERT 0 1"),
            ("INSERT INTO derived VALUES ({K})", "INSERT 0 1"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT base.id, derived.id FROM base JOIN derived USING (id)", &["K|K"]),
        ..PLAIN
    }]);
}

#[test]
fn name_based_keys_are_equal_on_purpose() {
    play(&[Scenario {
        name: "T14 a v5 key",
        keys: &[("V", "aad03681-8b63-5304-89e0-8ca8f49461b5")],
        steps: &[("INSERT INTO ev(id,v) VALUES ({V},'a'),({V},'b')", "!23505")],
        stored: ("SELECT id, v FROM ev", &[]),
        forwarded: true,
        bare: "23505",
        ..PLAIN
    }]);
}

#[test]
fn an_insert_guarded_by_a_savepoint_gets_its_error() {
    play(&[Scenario {
        name: "T17 (a) an inbox",
        tables: "CREATE TABLE inb (message_id uuid PRIMARY KEY, v text)",
        steps: &[
            ("BEGIN", "BEGIN"),
            ("SAVEPOINT s1", "SAVEPOINT"),
            ("INSERT INTO inb VALUES ({K},'x')", "INSERT 0 1"),
            ("RELEASE s1", "RELEASE"),
            ("SAVEPOINT s2", "SAVEPOINT"),
            ("INSERT INTO inb VALUES ({K},'y')", "!23505"),
            ("ROLLBACK TO s2", "ROLLBACK"),
            ("COMMIT", "COMMIT"),
        ],
        stored: ("SELECT * FROM inb", &["K|x"]),
        forwarded: true,
        bare: "23505",
        ..PLAIN
    }]);
}
