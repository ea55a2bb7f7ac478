//! Statements that name a key two rows were sent with: those that could touch either row fail, those that only read go through.

use crate::expect::LETTERS;
use crate::support::message::{self, Value, text};
use crate::support::{Database, Proxy, Wire, wire};

const TABLES: &str = "
    CREATE TABLE par (id uuid PRIMARY KEY, v text);
    CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE log (x text);
    CREATE FUNCTION adopt(uuid) RETURNS void LANGUAGE sql AS 'INSERT INTO ch VALUES (1, $1)';
    CREATE FUNCTION look(uuid) RETURNS text STABLE LANGUAGE sql AS 'SELECT v FROM par WHERE id = $1';
    CREATE PROCEDURE adopts(uuid) LANGUAGE sql AS 'INSERT INTO ch VALUES (1, $1)';";

fn key() -> &'static str {
    LETTERS[0].1
}

const FAILS: &[&str] = &[
    "UPDATE par SET v = 'x' WHERE id = 'K'",
    "UPDATE par SET v = 'x' WHERE id = upper('K')::uuid",
    "UPDATE par SET v = 'x' WHERE id IN ('22222222-2222-4222-8222-222222222222', 'K')",
    "UPDATE par SET v = 'x' WHERE id = ANY ('{K}')",
    "UPDATE par SET v = 'x' WHERE id = ANY (ARRAY['K'::uuid])",
    "UPDATE par SET v = 'x' WHERE id = '{K}'",
    "UPDATE par SET v = 'x' WHERE id = '11111111111141118111111111111111'",
    "UPDATE par SET v = 'x' WHERE id = E'K'",
    r"UPDATE par SET v = 'x' WHERE id = E'\x311\61\u00311111-1111-4111-8111-111111111111'",
    r"UPDATE par SET v = 'x' WHERE id = U&'\00311111111-1111-4111-8111-111111111111'",
    r"UPDATE par SET v = 'x' WHERE id = U&'\+000031\0031111111-1111-4111-8111-111111111111'",
    "UPDATE par SET v = 'x' WHERE id = $$K$$",
    "UPDATE par SET v = 'x' WHERE id = $tag$K$tag$",
    r"UPDATE par SET v = 'x' WHERE uuid_send(id) = '\x11111111111141118111111111111111'",
    "UPDATE par SET v = 'x' FROM (VALUES ('K'::uuid)) AS one(id) WHERE one.id = par.id",
    "UPDATE ONLY public.par AS p SET v = 'x' WHERE p.id::text = 'K'",
    "WITH one AS (UPDATE par SET v = 'x' WHERE id = 'K' RETURNING id) SELECT id FROM one",
    "WITH one AS (SELECT 'K'::uuid AS id) UPDATE par SET v = 'x' FROM one WHERE one.id = par.id",
    "UPDATE ch SET pid = 'K' WHERE n = 9",
    "UPDATE ch SET n = 10 WHERE pid = 'K'",
    "DELETE FROM par WHERE id = 'K'",
    "DELETE FROM par USING (VALUES ('K'::uuid)) AS one(id) WHERE one.id = par.id",
    "DELETE FROM ch WHERE pid = 'K'",
    "DELETE FROM ch USING par WHERE pid = id AND id = 'K'",
    "WITH gone AS (DELETE FROM par WHERE id = 'K' RETURNING *) SELECT * FROM gone",
    "MERGE INTO par USING (VALUES ('K'::uuid)) AS one(id) ON one.id = par.id WHEN MATCHED THEN UPDATE SET v = 'x'",
    "INSERT INTO par VALUES ('K','C') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
    "INSERT INTO ch VALUES (1,'K')",
    "INSERT INTO ch VALUES (1,upper('K')::uuid)",
    "INSERT INTO ch VALUES (1,(SELECT id FROM par WHERE id = 'K'))",
    "INSERT INTO ch VALUES (1,E'K')",
    r"INSERT INTO ch VALUES (1,E'\x311111111-1111-4111-8111-111111111111')",
    r"INSERT INTO ch VALUES (1,U&'\00311111111-1111-4111-8111-111111111111')",
    "INSERT INTO ch VALUES (1,$$K$$)",
    "INSERT INTO ch VALUES (1,'K') ON CONFLICT DO NOTHING",
    "INSERT INTO ch VALUES (1,'K') ON CONFLICT (n) DO UPDATE SET pid = EXCLUDED.pid",
    "INSERT INTO ch VALUES (9,NULL) ON CONFLICT (n) DO UPDATE SET pid = 'K'",
    "INSERT INTO ch VALUES (2,NULL),(1,'K')",
    "INSERT INTO ch SELECT 1, 'K'",
    "INSERT INTO ch SELECT 1, id FROM par WHERE id = 'K'",
    "INSERT INTO ch SELECT 1, unnest('{K}'::uuid[])",
    "INSERT INTO ch SELECT 1, unnest(ARRAY['K']::uuid[])",
    r#"INSERT INTO ch SELECT * FROM json_to_recordset('[{"n":1,"pid":"K"}]') AS x(n int, pid uuid)"#,
    r#"INSERT INTO ch SELECT * FROM json_populate_recordset(NULL::ch, '[{"n":1,"pid":"\u00311111111-1111-4111-8111-111111111111"}]')"#,
    "WITH one AS (INSERT INTO ch VALUES (1,'K') RETURNING pid) SELECT * FROM one",
    "SELECT adopt('K')",
    "CALL adopts('K')",
    "DO $do$ BEGIN UPDATE par SET v = 'x' WHERE id = 'K'; END $do$",
    "DO 'BEGIN PERFORM adopt(''K''); END'",
    "EXPLAIN ANALYZE UPDATE par SET v = 'x' WHERE id = 'K'",
    "EXPLAIN (ANALYZE) INSERT INTO ch VALUES (1,'K')",
    "PREPARE u AS UPDATE par SET v = 'x' WHERE id = 'K'; EXECUTE u",
    "PREPARE u(uuid) AS UPDATE par SET v = 'x' WHERE id = $1; EXECUTE u('K')",
    "PREPARE i(uuid) AS INSERT INTO ch VALUES (1,$1); EXECUTE i('K')",
    "PREPARE i AS INSERT INTO ch VALUES (1,'K'); EXECUTE i",
    "PREPARE a(uuid) AS SELECT adopt($1); EXECUTE a('K')",
    "CREATE TABLE copied AS WITH gone AS (DELETE FROM par WHERE id = 'K' RETURNING *) SELECT * FROM gone",
    "SELECT 1; UPDATE par SET v = 'x' WHERE id = 'K'; SELECT 2",
];

const READS: &[&str] = &[
    "SELECT v FROM par WHERE id = 'K'",
    "SELECT v FROM par WHERE id = 'K' FOR UPDATE",
    "WITH one AS (SELECT v FROM par WHERE id = 'K') SELECT * FROM one",
    "SELECT look('K')",
    "EXPLAIN UPDATE par SET v = 'x' WHERE id = 'K'",
    "CREATE TABLE copied AS SELECT v FROM par WHERE id = 'K'",
    "SELECT v INTO copied FROM par WHERE id = 'K'",
    "DECLARE c CURSOR FOR SELECT v FROM par WHERE id = 'K'; FETCH c",
    "PREPARE s AS SELECT v FROM par WHERE id = 'K'; EXECUTE s",
    "PREPARE u AS UPDATE par SET v = 'x' WHERE id = 'K'",
    "VALUES ('K')",
    "NOTIFY told, 'K'",
    "SET application_name = 'K'",
    "INSERT INTO log VALUES ('K')",
    "INSERT INTO log SELECT v FROM par WHERE id = 'K'",
    "INSERT INTO ch VALUES (1,NULL)",
    "UPDATE log SET x = 'K'",
    "INSERT INTO par VALUES ('K','C') ON CONFLICT DO NOTHING",
];

/// Tells what became of a statement behind two rows with one key.
fn outcome(wire: &mut Wire, statement: &str) -> String {
    wire.run("ROLLBACK");
    wire.run(&format!("DISCARD ALL"));
    wire.run(&format!("BEGIN; INSERT INTO par VALUES ('{0}','A'); INSERT INTO par VALUES ('{0}','B')", key()));
    let replies = wire.query(statement.replace('K', key()));
    let last = wire::outcomes(&replies).pop().unwrap_or_default();
    let error = replies.iter().find(|reply| reply.tag == b'E');
    format!("{last} {}", error.and_then(|error| error.field(b'M')).unwrap_or_default())
}

#[test]
fn probe() {
    let database = Database::fresh(TABLES);
    database.run("INSERT INTO ch VALUES (9,NULL)");
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    for statement in FAILS {
        let told = outcome(&mut wire, statement);
        if !told.contains("ambiguous") {
            println!("SHOULD FAIL: {statement}: {told}");
        }
    }
    for statement in READS {
        let told = outcome(&mut wire, statement);
        if told.contains("!") {
            println!("SHOULD GO: {statement}: {told}");
        }
    }
    for record in proxy.journal() { if record["action"].is_null() {println!("{record}");} }
}
