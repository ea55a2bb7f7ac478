//! Correct conversations that look as if they held twins: a bare server stores every row, so untwin must not touch one.

use crate::support::message;
use crate::support::{Database, Proxy, Wire, wire};

const K: &str = "11111111-1111-4111-8111-111111111111";

/// What every case may use.
const TABLES: &str = "
    CREATE TABLE ev (id uuid PRIMARY KEY, v text);
    CREATE TABLE log (i int);
    CREATE SCHEMA other;
    CREATE TABLE other.ev (id uuid, v text);
    CREATE FUNCTION forget() RETURNS text LANGUAGE plpgsql VOLATILE AS $$BEGIN DELETE FROM ev; RETURN 'gone'; END$$;
    CREATE FUNCTION move_path() RETURNS void LANGUAGE plpgsql AS
        $$BEGIN PERFORM set_config('search_path', 'other', false); END$$";

/// A case: its name, tables besides the usual, and statements; `{K}` is the key as a literal.
type Case = (&'static str, &'static str, &'static [&'static str]);

const A: &str = "INSERT INTO ev VALUES ({K}, 'a')";
const B: &str = "INSERT INTO ev VALUES ({K}, 'b')";
const BOTH: &str = "INSERT INTO ev VALUES ({K}, 'a'), ({K}, 'b')";

/// Names that mean another table than they seem to.
const NAMES: &[Case] = &[
    (
        "a temporary table hides the keyed one",
        "",
        &["CREATE TEMP TABLE ev (id uuid, v text)", BOTH, A, "TABLE ev"],
    ),
    (
        "a temporary table of this transaction",
        "",
        &["BEGIN", "CREATE TEMP TABLE ev (id uuid, v text) ON COMMIT DROP", BOTH, "COMMIT", A],
    ),
    (
        "a temporary table from a function",
        "",
        &["DO $$BEGIN CREATE TEMP TABLE ev (id uuid, v text); END$$", BOTH],
    ),
    ("a temporary table from a SELECT", "", &["CREATE TEMP TABLE ev AS SELECT id, v FROM public.ev", BOTH]),
    ("a temporary table from SELECT INTO", "", &["SELECT id, v INTO TEMP ev FROM public.ev", BOTH]),
    ("another schema", "", &["SET search_path = other, public", BOTH, "RESET search_path", A]),
    (
        "another schema for one transaction",
        "",
        &["BEGIN", "SET LOCAL search_path = other", BOTH, "COMMIT", A],
    ),
    ("another schema until a rollback", "", &["BEGIN", "SET search_path = other", BOTH, "ROLLBACK", A]),
    (
        "another schema until a savepoint's rollback",
        "",
        &["BEGIN", "SAVEPOINT s", "SET search_path = other", BOTH, "ROLLBACK TO s", A, "COMMIT"],
    ),
    ("another schema by set_config", "", &["SELECT set_config('search_path', 'other', false)", BOTH]),
    ("another schema by a function", "", &["SELECT move_path()", BOTH]),
    ("another schema by DO", "", &["DO $$BEGIN SET search_path = other; END$$", BOTH]),
    (
        "another schema of the role",
        "CREATE SCHEMA postgres; CREATE TABLE postgres.ev (id uuid, v text)",
        &[BOTH],
    ),
    ("a qualified name", "", &["INSERT INTO other.ev VALUES ({K}, 'a'), ({K}, 'b')"]),
    (
        "a quoted name",
        "CREATE TABLE \"Ev\" (id uuid, v text)",
        &["INSERT INTO \"Ev\" VALUES ({K}, 'a'), ({K}, 'b')", A],
    ),
    (
        "a table renamed away",
        "",
        &["BEGIN", "ALTER TABLE ev RENAME TO old", "CREATE TABLE ev (id uuid, v text)", BOTH, "COMMIT", A],
    ),
    (
        "a table made anew",
        "",
        &["BEGIN", "DROP TABLE ev", "CREATE TABLE ev (id uuid, v text)", BOTH, "COMMIT", BOTH],
    ),
    (
        "a table in another schema after a rename",
        "",
        &[
            "BEGIN",
            "ALTER SCHEMA public RENAME TO was",
            "ALTER SCHEMA other RENAME TO public",
            BOTH,
            "ROLLBACK",
            A,
        ],
    ),
    ("a key that is dropped", "", &["BEGIN", "ALTER TABLE ev DROP CONSTRAINT ev_pkey", BOTH, "COMMIT", BOTH]),
    (
        "a column that is renamed",
        "",
        &[
            "BEGIN",
            "ALTER TABLE ev RENAME id TO was",
            "ALTER TABLE ev ADD id uuid",
            "INSERT INTO ev (was, id) VALUES ({K}, {K})",
            "COMMIT",
        ],
    ),
];

/// Keys that are free again, though nobody says so.
const FREED: &[Case] = &[
    ("a DELETE", "", &["BEGIN", A, "DELETE FROM ev", B, "COMMIT"]),
    ("a DELETE with USING and a comment", "", &["BEGIN", A, "/* x */ DELETE FROM ONLY ev e USING log RIGHT JOIN (VALUES (1)) x ON true WHERE e.v = 'a'", B, "COMMIT"]),
    ("a DELETE in a CTE", "", &["BEGIN", A, "WITH d AS (DELETE FROM ev RETURNING 1) SELECT count(*) FROM d", B, "COMMIT"]),
    ("a DELETE that the INSERT reads", "", &["BEGIN", A, "WITH d AS (DELETE FROM ev RETURNING id) INSERT INTO ev SELECT id, 'b' FROM d", "COMMIT"]),
    ("a DELETE by EXECUTE", "", &["PREPARE d AS DELETE FROM ev", "BEGIN", A, "EXECUTE d", B, "COMMIT"]),
    ("a DELETE by EXPLAIN ANALYZE", "", &["BEGIN", A, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) DELETE FROM ev", B, "COMMIT"]),
    ("a DELETE by a function", "", &["BEGIN", A, "SELECT forget()", B, "COMMIT"]),
    ("a DELETE by a function in the values", "", &["BEGIN", A, "INSERT INTO ev VALUES ({K}, forget())", "COMMIT"]),
    ("a DELETE by a function in a default", "ALTER TABLE ev ADD w text DEFAULT forget()", &["BEGIN", "INSERT INTO ev VALUES ({K}, 'a')", "INSERT INTO ev VALUES ({K}, 'b')", "COMMIT"]),
    ("a DELETE by DO", "", &["BEGIN", A, "DO 'BEGIN DELETE FROM ev; END'", B, "COMMIT"]),
    ("a DELETE through a view", "CREATE VIEW seen AS SELECT * FROM ev", &["BEGIN", A, "DELETE FROM seen", B, "COMMIT"]),
    ("a cascade", "CREATE TABLE p (i int PRIMARY KEY); INSERT INTO p VALUES (1);
       CREATE TABLE c (id uuid PRIMARY KEY, i int REFERENCES p ON DELETE CASCADE)",
        &["BEGIN", "INSERT INTO c VALUES ({K}, 1)", "DELETE FROM p", "INSERT INTO c VALUES ({K}, NULL)", "COMMIT"]),
    ("a TRUNCATE that cascades", "CREATE TABLE c (id uuid PRIMARY KEY, e uuid REFERENCES ev)",
        &["BEGIN", "INSERT INTO c VALUES ({K}, NULL)", "TRUNCATE ev CASCADE", "INSERT INTO c VALUES ({K}, NULL)", "COMMIT"]),
    ("an UPDATE", "", &["BEGIN", A, "UPDATE ev SET id = '22222222-2222-4222-8222-222222222222'", B, "COMMIT"]),
    ("an upsert of the key", "", &["BEGIN", A, "INSERT INTO ev VALUES ({K}, 'x') ON CONFLICT (id) DO UPDATE SET id = '22222222-2222-4222-8222-222222222222'", B, "COMMIT"]),
    ("a trigger of another table", "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN DELETE FROM ev; RETURN NULL; END$$;
       CREATE TRIGGER t AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION t()",
        &["BEGIN", A, "INSERT INTO log VALUES (1)", B, "COMMIT"]),
    ("a trigger of the statement", "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN DELETE FROM ev; RETURN NULL; END$$;
       CREATE TRIGGER t AFTER INSERT ON ev EXECUTE FUNCTION t()",
        &["BEGIN", A, B, "COMMIT"]),
    ("a rule of another table", "CREATE RULE r AS ON INSERT TO log DO ALSO DELETE FROM ev", &["BEGIN", A, "INSERT INTO log VALUES (1)", B, "COMMIT"]),
    ("a savepoint's rollback", "", &["BEGIN", "SAVEPOINT s", A, "ROLLBACK TO s", B, "COMMIT"]),
    ("an outer savepoint's rollback", "", &["BEGIN", "SAVEPOINT s", "SAVEPOINT t", A, "RELEASE t", "ROLLBACK TO s", B, "COMMIT"]),
    ("the inner of two savepoints of one name", "", &["BEGIN", "SAVEPOINT s", "SAVEPOINT s", A, "ROLLBACK TO s", "RELEASE s", B, "ROLLBACK TO s", A, "COMMIT"]),
    ("a rollback", "", &["BEGIN", A, "ROLLBACK", B]),
    ("a rollback that chains", "", &["BEGIN", A, "ROLLBACK AND CHAIN", B, "COMMIT"]),
    ("a temporary table that empties itself", "", &["CREATE TEMP TABLE t (id uuid PRIMARY KEY) ON COMMIT DELETE ROWS",
        "BEGIN", "INSERT INTO t VALUES ({K})", "COMMIT", "BEGIN", "INSERT INTO t VALUES ({K})", "COMMIT"]),
    ("a temporary table made twice", "", &["BEGIN", "CREATE TEMP TABLE t (id uuid PRIMARY KEY)", "INSERT INTO t VALUES ({K})", "DROP TABLE t",
        "CREATE TEMP TABLE t (id uuid PRIMARY KEY)", "INSERT INTO t VALUES ({K})", "COMMIT"]),
    ("a partition that is detached", "CREATE TABLE p (id uuid PRIMARY KEY) PARTITION BY RANGE (id);
       CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (MAXVALUE); CREATE TABLE p2 (id uuid PRIMARY KEY)",
        &["BEGIN", "INSERT INTO p VALUES ({K})", "ALTER TABLE p DETACH PARTITION p1",
          "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (MINVALUE) TO (MAXVALUE)", "INSERT INTO p VALUES ({K})", "COMMIT"]),
];

/// Rows that are never stored, or never compared.
const NEVER: &[Case] = &[
    (
        "DISTINCT",
        "",
        &[
            "INSERT INTO ev SELECT DISTINCT ON (id) * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s(id, v)",
        ],
    ),
    ("a UNION", "", &["INSERT INTO ev SELECT {K}::uuid, 'a' UNION SELECT {K}::uuid, 'a'"]),
    (
        "an EXCEPT",
        "",
        &[
            "INSERT INTO ev SELECT * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s EXCEPT SELECT {K}::uuid, 'b'",
        ],
    ),
    (
        "a WHERE",
        "",
        &["INSERT INTO ev SELECT * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s(id, v) WHERE v = 'a'"],
    ),
    ("a LIMIT", "", &["INSERT INTO ev SELECT * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s LIMIT 1"]),
    (
        "an OFFSET",
        "",
        &["INSERT INTO ev SELECT * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s OFFSET 1"],
    ),
    (
        "a FETCH FIRST",
        "",
        &["INSERT INTO ev SELECT * FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s FETCH FIRST ROW ONLY"],
    ),
    (
        "a GROUP BY",
        "",
        &[
            "INSERT INTO ev SELECT id, max(v) FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s(id, v) GROUP BY id",
        ],
    ),
    (
        "a HAVING",
        "",
        &[
            "INSERT INTO ev SELECT min(id::text)::uuid, 'x' FROM (VALUES ({K}::uuid), ({K}::uuid)) s(id) HAVING count(*) > 1",
        ],
    ),
    (
        "a JOIN",
        "",
        &[
            "INSERT INTO ev SELECT s.* FROM (VALUES ({K}::uuid, 'a'), ({K}::uuid, 'b')) s(id, v) JOIN (VALUES ('b')) t(v) USING (v)",
        ],
    ),
    (
        "an unnest with a filter",
        "",
        &[
            "INSERT INTO ev SELECT * FROM unnest(ARRAY[{K}, {K}]::uuid[], ARRAY['a', 'b']) u(id, v) WHERE v = 'b'",
        ],
    ),
    (
        "an unnest that is grouped",
        "",
        &["INSERT INTO ev SELECT DISTINCT u, 'x' FROM unnest(ARRAY[{K}, {K}]::uuid[]) u"],
    ),
    (
        "documents that are filtered",
        "",
        &[
            "INSERT INTO ev SELECT DISTINCT ON (id) id, v FROM json_to_recordset('[{\"id\":\"11111111-1111-4111-8111-111111111111\",\"v\":\"a\"},{\"id\":\"11111111-1111-4111-8111-111111111111\",\"v\":\"b\"}]') AS r(id uuid, v text)",
        ],
    ),
    (
        "a trigger that skips",
        "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN IF EXISTS (SELECT FROM ev WHERE id = NEW.id) THEN RETURN NULL; END IF; RETURN NEW; END$$;
       CREATE TRIGGER t BEFORE INSERT ON ev FOR EACH ROW EXECUTE FUNCTION t()",
        &["BEGIN", BOTH, A, "COMMIT", B],
    ),
    (
        "a trigger that changes the key",
        "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN NEW.id := md5(NEW.v)::uuid; RETURN NEW; END$$;
       CREATE TRIGGER t BEFORE INSERT ON ev FOR EACH ROW EXECUTE FUNCTION t()",
        &["BEGIN", BOTH, "COMMIT"],
    ),
    (
        "a trigger that makes room",
        "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN DELETE FROM ev WHERE id = NEW.id; RETURN NEW; END$$;
       CREATE TRIGGER t BEFORE INSERT ON ev FOR EACH ROW EXECUTE FUNCTION t()",
        &["BEGIN", A, B, "COMMIT"],
    ),
    ("a rule that does nothing", "CREATE RULE r AS ON INSERT TO ev DO INSTEAD NOTHING", &[BOTH]),
    (
        "a rule that inserts elsewhere",
        "CREATE RULE r AS ON INSERT TO ev DO INSTEAD INSERT INTO other.ev VALUES (NEW.id, NEW.v)",
        &[BOTH],
    ),
    (
        "a view with a trigger",
        "CREATE VIEW w AS SELECT * FROM ev; CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN INSERT INTO ev VALUES (NEW.id, NEW.v) ON CONFLICT DO NOTHING; RETURN NEW; END$$;
       CREATE TRIGGER t INSTEAD OF INSERT ON w FOR EACH ROW EXECUTE FUNCTION t()",
        &["INSERT INTO w VALUES ({K}, 'a'), ({K}, 'b')"],
    ),
    ("an EXPLAIN", "", &["BEGIN", "EXPLAIN (COSTS OFF) INSERT INTO ev VALUES ({K}, 'a')", B, "COMMIT"]),
    (
        "a statement that is prepared only",
        "",
        &["BEGIN", "PREPARE p AS INSERT INTO ev VALUES ({K}, 'a')", B, "COMMIT"],
    ),
    ("DO NOTHING", "", &["BEGIN", A, "INSERT INTO ev VALUES ({K}, 'b') ON CONFLICT DO NOTHING", "COMMIT"]),
    (
        "an upsert",
        "",
        &[
            "BEGIN",
            A,
            "INSERT INTO ev VALUES ({K}, 'b') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
            "COMMIT",
        ],
    ),
    (
        "an upsert of a constraint's name",
        "",
        &[
            "BEGIN",
            A,
            "INSERT INTO ev VALUES ({K}, 'b') ON CONFLICT ON CONSTRAINT ev_pkey DO NOTHING",
            "COMMIT",
        ],
    ),
    ("a COPY of a query", "", &["BEGIN", A, "COPY (SELECT * FROM ev WHERE id = {K}) TO STDOUT", "COMMIT"]),
];

/// Indexes that do not say what they seem to.
const INDEXES: &[Case] = &[
    ("a deferred key", "CREATE TABLE d (id uuid PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        &["BEGIN", "INSERT INTO d VALUES ({K}, 'a'), ({K}, 'b')", "UPDATE d SET id = '22222222-2222-4222-8222-222222222222' WHERE v = 'a'", "COMMIT"]),
    ("an expression", "CREATE TABLE e (id uuid, v text); CREATE UNIQUE INDEX ON e ((id::text || v))", &["INSERT INTO e VALUES ({K}, 'a'), ({K}, 'b')"]),
    ("a partial index", "CREATE TABLE e (id uuid, v text); CREATE UNIQUE INDEX ON e (id) WHERE v = 'a'", &["INSERT INTO e VALUES ({K}, 'a'), ({K}, 'b')"]),
    ("NULLs", "CREATE TABLE e (i int PRIMARY KEY, id uuid UNIQUE)", &["INSERT INTO e VALUES (1, NULL), (2, NULL)"]),
    ("a second column with a sequence", "CREATE TABLE e (id uuid, n bigserial, PRIMARY KEY (id, n))", &["INSERT INTO e (id) VALUES ({K}), ({K})"]),
    ("a second column with an identity", "CREATE TABLE e (id uuid, n int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (id, n))", &["INSERT INTO e (id) VALUES ({K}), ({K})"]),
    ("a second column with a clock", "CREATE TABLE e (id uuid, at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (id, at))", &["INSERT INTO e (id) VALUES ({K})", "INSERT INTO e (id) VALUES ({K})"]),
    ("a second column that is spelled once", "CREATE TABLE e (id uuid, n int DEFAULT 7, PRIMARY KEY (id, n))", &["INSERT INTO e (id, n) VALUES ({K}, DEFAULT), ({K}, 8)"]),
    ("a second column from an expression", "CREATE TABLE e (id uuid, n int, PRIMARY KEY (id, n))", &["INSERT INTO e VALUES ({K}, 1 + 1), ({K}, 1 + 2)"]),
    ("an index of one partition", "CREATE TABLE p (id uuid, n int) PARTITION BY LIST (n); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
       CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); CREATE UNIQUE INDEX ON p1 (id); CREATE UNIQUE INDEX ON p2 (id)",
        &["BEGIN", "INSERT INTO p VALUES ({K}, 1), ({K}, 2)", "COMMIT"]),
    ("inheritance", "CREATE TABLE base (id uuid PRIMARY KEY); CREATE TABLE heir (v text, PRIMARY KEY (id)) INHERITS (base)",
        &["BEGIN", "INSERT INTO base VALUES ({K})", "INSERT INTO heir VALUES ({K}, 'a')", "COMMIT"]),
    ("text that is no UUID", "CREATE TABLE t (id text, n int, PRIMARY KEY (id, n))", &["INSERT INTO t VALUES ('abc', 1), ('abc', 2), ({K}, 1), ({K}, 2)"]),
    ("two spellings of a text", "CREATE TABLE t (id text PRIMARY KEY)", &["INSERT INTO t VALUES ('aaaaaaaa-1111-4111-8111-111111111111'), ('AAAAAAAA-1111-4111-8111-111111111111'), ('aaaaaaaa111141118111111111111111'), (' aaaaaaaa-1111-4111-8111-111111111111')"]),
    ("a foreign key as key", "CREATE TABLE a (id uuid PRIMARY KEY); CREATE TABLE b (id uuid PRIMARY KEY REFERENCES a, v text)",
        &["BEGIN", "INSERT INTO a VALUES ({K})", "INSERT INTO b VALUES ({K}, 'x')", "COMMIT"]),
    ("an exclusion of its own kind", "CREATE TABLE x (id uuid, v text, EXCLUDE USING btree (v WITH =))", &["INSERT INTO x VALUES ({K}, 'a'), ({K}, 'b')"]),
];

#[test]
fn names_are_resolved_as_the_server_does() {
    untouched(NAMES);
}

#[test]
fn freed_keys_are_forgotten() {
    untouched(FREED);
}

#[test]
fn rows_that_are_not_stored_are_not_compared() {
    untouched(NEVER);
}

#[test]
fn only_unique_keys_are_protected() {
    untouched(INDEXES);
}

/// How the statements of a case are sent.
#[derive(Clone, Copy, Debug)]
enum Way {
    OneByOne,
    InOneWrite,
    ExtendedInOneWrite,
    OneMessage,
}

const WAYS: [Way; 4] = [Way::OneByOne, Way::InOneWrite, Way::ExtendedInOneWrite, Way::OneMessage];

/// What was answered; messages of a pipeline are written before any answer is read.
fn answers(wire: &mut Wire, statements: &[String], way: Way) -> Vec<wire::Reply> {
    let extended = |sql: &String| [message::extended(sql, &[]), message::sync()].concat();
    match way {
        Way::OneByOne => statements.iter().flat_map(|sql| wire.query(sql)).collect(),
        Way::InOneWrite => {
            wire.converse(&statements.iter().flat_map(message::query).collect::<Vec<u8>>(), statements.len())
        }
        Way::ExtendedInOneWrite => {
            wire.converse(&statements.iter().flat_map(extended).collect::<Vec<u8>>(), statements.len())
        }
        Way::OneMessage => wire.query(statements.join(";")),
    }
}

/// Plays each case on a bare server and through untwin; all that a bare server does without an error must come out the same.
fn untouched(cases: &[Case]) {
    let (direct, through) = (Database::fresh(""), Database::fresh(""));
    let mut wrong = Vec::new();
    for (name, tables, statements) in cases {
        let statements: Vec<String> =
            statements.iter().map(|sql| sql.replace("{K}", &format!("'{K}'"))).collect();
        let mut compared = false;
        for way in WAYS {
            begin_anew(&direct, tables);
            let expected = wire::outcomes(&answers(&mut direct.connect(), &statements, way));
            if expected.iter().any(|outcome| outcome.starts_with('!')) {
                continue; // Not a correct application, this way.
            }
            compared = true;
            begin_anew(&through, tables);
            let proxy = Proxy::before(&through);
            let outcomes = wire::outcomes(&answers(&mut proxy.connect(), &statements, way));
            let rekeyed =
                proxy.settled_journal().into_iter().filter(|record| record["action"] == "rekeyed").count();
            let (stored, should_be) = (everything(&through), everything(&direct));
            if outcomes != expected || stored != should_be || rekeyed > 0 {
                wrong.push(format!(
                    "{name}, {way:?}: {rekeyed} rewrites, {outcomes:?}, {stored:?} instead of {should_be:?}"
                ));
            }
        }
        assert!(compared, "{name}: no way is correct on a bare server");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Drops what the last case left, and makes the tables of this one.
fn begin_anew(database: &Database, tables: &str) {
    let schemas = "DROP SCHEMA IF EXISTS public, other, postgres, was CASCADE; CREATE SCHEMA public";
    database.run(&format!("SET client_min_messages = error; {schemas}; {TABLES}; {tables}"));
}

/// Every row of every table, but for clocks.
fn everything(database: &Database) -> Vec<String> {
    let names = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'other', 'postgres', 'was') ORDER BY 1";
    let rows = |table: String| {
        let rows = database.stored(&format!("SELECT to_jsonb(t) - 'at' FROM {table} t ORDER BY 1"));
        rows.into_iter().map(move |row| format!("{table} {row}"))
    };
    database.stored(names).into_iter().flat_map(rows).collect()
}
