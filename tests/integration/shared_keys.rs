//! Statements that name a key two rows were sent with: those that could touch either row fail, those that only read go through.

use crate::expect::{LETTERS, sixteen_bytes};
use crate::support::message::{self, Value, text};
use crate::support::wire::Reply;
use crate::support::{Database, Proxy, Wire, wire};

const TABLES: &str = "
    CREATE TABLE par (id uuid PRIMARY KEY, v text);
    CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE log (x text);
    CREATE FUNCTION adopt(uuid) RETURNS void LANGUAGE sql AS 'INSERT INTO ch VALUES (1, $1)';
    CREATE FUNCTION look(uuid) RETURNS text STABLE LANGUAGE sql AS 'SELECT v FROM par WHERE id = $1';
    CREATE VIEW shown AS SELECT * FROM ch;
    CREATE PROCEDURE adopts(uuid) LANGUAGE sql AS 'INSERT INTO ch VALUES (1, $1)';";

fn key() -> &'static str {
    LETTERS[0].1
}

/// A row that the statements below may update, and refer from.
const FILLED: &str = "INSERT INTO ch VALUES (9,NULL)";

/// Statements that could mean either row; `K` is the key.
const AMBIGUOUS: &[&str] = &[
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
    "INSERT INTO shown VALUES (1,'K')",
    "UPDATE shown SET pid = 'K'",
    "INSERT INTO ch VALUES (1,'K') RETURNING adopt(NULL)",
    "INSERT INTO ch SELECT 1, unnest('{{K},{22222222-2222-4222-8222-222222222222}}'::uuid[])",
    "WITH one AS (INSERT INTO log VALUES ('a')) UPDATE par SET v = 'x' WHERE id = 'K'",
    "COPY (WITH gone AS (DELETE FROM par WHERE id = 'K' RETURNING v) SELECT v FROM gone) TO STDOUT",
    "COPY ch FROM STDIN WHERE n > 0",
    "COPY ch FROM STDIN; SELECT 1",
    "COPY ch FROM STDIN; COPY log FROM STDIN",
    "COPY shown FROM STDIN",
];

/// Statements that go through: what only reads, and what cannot be about the rows with the key.
const CLEAR: &[&str] = &[
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
    "COPY (SELECT v FROM par WHERE id = 'K') TO STDOUT",
    "UPDATE par SET v = 'x' WHERE v = 'A'",
    "DELETE FROM ch WHERE n = 9",
    "UPDATE par SET v = 'x' WHERE id = '11111111-1111-4111-8111-111111111112'",
    "WITH p AS (INSERT INTO par VALUES ('K','C') RETURNING id) INSERT INTO ch SELECT 1, id FROM p",
    "INSERT INTO ch VALUES (1,(SELECT id FROM par WHERE v = 'B'))",
];

/// Behind two rows with one key, a statement's last outcome and the message of its error.
fn told(wire: &mut Wire, statement: &str) -> (String, String) {
    wire.run("ROLLBACK");
    wire.run("DISCARD ALL");
    wire.run(&format!(
        "BEGIN; INSERT INTO par VALUES ('{0}','A'); INSERT INTO par VALUES ('{0}','B')",
        key()
    ));
    last(&wire.query(statement.replace('K', key())))
}

fn last(replies: &[Reply]) -> (String, String) {
    let error = replies.iter().find(|reply| reply.tag == b'E');
    let message = error.and_then(|error| error.field(b'M'));
    (wire::outcomes(replies).pop().unwrap_or_default(), message.unwrap_or_default())
}

fn notes(proxy: &Proxy, text: &str) -> usize {
    let journal = std::fs::read_to_string(proxy.journal_path()).expect("the journal is there");
    journal.lines().filter(|line| line.contains("\"note\"") && line.contains(text)).count()
}

#[test]
fn what_may_change_either_row_fails_and_what_only_reads_does_not() {
    let database = Database::fresh(TABLES);
    database.run(FILLED);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    for statement in AMBIGUOUS {
        let (outcome, message) = told(&mut wire, statement);
        assert!(outcome == "!23505" && message.contains("ambiguous"), "{statement}: {outcome} {message}");
    }
    assert_eq!(notes(&proxy, "sent with"), 0);
    for statement in CLEAR {
        let (outcome, message) = told(&mut wire, statement);
        assert!(!outcome.starts_with('!'), "{statement}: {outcome} {message}");
    }
    assert_eq!(notes(&proxy, "a SELECT names a key that two rows were sent with: it reads the first"), 11);
}

/// Statements with parameters, and whether `$1` is an array.
const WITH_PARAMETERS: &[(&str, bool)] = &[
    ("UPDATE par SET v = 'x' WHERE id = $1", false),
    ("UPDATE par SET v = 'x' FROM (VALUES ($1::uuid)) AS one(id) WHERE one.id = par.id", false),
    ("UPDATE par SET v = 'x' WHERE id = ANY ($1)", true),
    ("DELETE FROM par WHERE id = $1", false),
    ("DELETE FROM par USING unnest($1::uuid[]) AS one(id) WHERE one.id = par.id", true),
    (
        "MERGE INTO par USING (VALUES ($1::uuid)) AS one(id) ON one.id = par.id WHEN MATCHED THEN DELETE",
        false,
    ),
    ("INSERT INTO ch VALUES (1,$1)", false),
    ("INSERT INTO ch VALUES (1,coalesce($1::uuid,NULL))", false),
    ("INSERT INTO ch SELECT 1, $1", false),
    ("INSERT INTO ch SELECT 1, $1::uuid FROM generate_series(1,1)", false),
    ("INSERT INTO ch SELECT 1, unnest($1::uuid[])", true),
    ("INSERT INTO ch SELECT 1, coalesce(one, NULL) FROM unnest($1::uuid[]) AS one", true),
    ("INSERT INTO ch VALUES (9,NULL) ON CONFLICT (n) DO UPDATE SET pid = $1", false),
    ("INSERT INTO ch VALUES (9,$1) ON CONFLICT (n) DO UPDATE SET pid = EXCLUDED.pid", false),
    ("INSERT INTO par VALUES ($1,'C') ON CONFLICT (id) DO UPDATE SET v = 'x'", false),
    ("WITH one AS (INSERT INTO log VALUES ('a')) UPDATE par SET v = 'x' WHERE id = $1", false),
    ("SELECT adopt($1)", false),
    ("CALL adopts($1)", false),
];

/// A key, or an array of it, in text and in binary.
fn parameters(array: bool) -> [Value; 2] {
    let binary = sixteen_bytes(key());
    if !array {
        return [text(key()), Value::Binary(binary)];
    }
    let header: Vec<u8> = [1_i32, 0, 2950, 1, 1, 16].iter().flat_map(|number| number.to_be_bytes()).collect();
    [text(&format!("{{{}}}", key())), Value::Binary([header, binary].concat())]
}

#[test]
fn a_parameter_names_a_shared_key_in_either_format() {
    let database = Database::fresh(TABLES);
    database.run(FILLED);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let par = |v: &str| {
        [message::extended("INSERT INTO par VALUES ($1,$2)", &[text(key()), text(v)]), message::sync()]
            .concat()
    };
    for (statement, array) in WITH_PARAMETERS {
        for parameter in parameters(*array) {
            let bytes =
                [message::extended(statement, std::slice::from_ref(&parameter)), message::sync()].concat();
            let one_by_one = [message::query("BEGIN"), par("A"), par("B"), bytes];
            let replies: Vec<Reply> = one_by_one.iter().flat_map(|bytes| wire.converse(bytes, 1)).collect();
            let (outcome, message) = last(&replies);
            assert!(message.contains("ambiguous"), "{statement} {parameter:?}: {outcome} {message}");
            wire.run("ROLLBACK");
            let (outcome, message) = last(&wire.converse(&one_by_one.concat(), 4));
            assert!(
                message.contains("ambiguous"),
                "pipelined {statement} {parameter:?}: {outcome} {message}"
            );
            wire.run("ROLLBACK");
        }
    }
    assert_eq!(wire.rows("SELECT count(*) FROM par"), ["0"]);
}

#[test]
fn the_error_names_the_table_the_key_both_rows_and_the_setting() {
    let insert = "INSERT INTO par VALUES ('K','A'); INSERT INTO par VALUES ('K','B')";
    let one = |sql: &str| message::query(sql.replace('K', key()));
    let extended = |sql: &str| message::extended(sql.replace('K', key()), &[]);
    let begun = [one("BEGIN"), one(insert)].concat();
    let update = "UPDATE par SET v = 'x' WHERE id = 'K'";
    let forms = [
        ("one Query after the other", [begun.clone(), one(update)].concat(), 3),
        ("one Query", one(&format!("{insert}; {update}; SELECT 1")), 1),
        (
            "one group",
            [insert.split(';').map(extended).collect::<Vec<_>>().concat(), extended(update), message::sync()]
                .concat(),
            1,
        ),
        ("Parse, Bind, Execute", [begun.clone(), extended(update), message::sync()].concat(), 3),
        ("a savepoint around", [begun.clone(), one("SAVEPOINT s"), one(update)].concat(), 4),
        ("EXECUTE", [begun.clone(), one(&format!("PREPARE u AS {update}; EXECUTE u"))].concat(), 3),
        ("EXPLAIN ANALYZE", [begun, one(&format!("EXPLAIN ANALYZE {update}"))].concat(), 3),
    ];
    let database = Database::fresh(TABLES);
    let proxy = Proxy::before(&database);
    for (form, bytes, answers) in forms {
        let mut wire = proxy.connect();
        let replies = wire.converse(&bytes, answers);
        let errors: Vec<&Reply> = replies.iter().filter(|reply| reply.tag == b'E').collect();
        let [error] = &errors[..] else { panic!("{form}: {replies:?}") };
        let says = |code: u8| error.field(code).unwrap_or_default();
        let message = format!(
            "untwin: ambiguous key {}: a statement that names it may mean either of two rows of public.par",
            key()
        );
        assert_eq!((says(b'C').as_str(), says(b'M')), ("23505", message), "{form}");
        assert_eq!(
            says(b'D'),
            "This transaction sent the key for row 1 of statement 1 and again for row 1 of statement 2.",
            "{form}"
        );
        assert!(says(b'H').contains("ambiguous = \"keep\" for public.par"), "{form}: {}", says(b'H'));
        assert_eq!((says(b's').as_str(), says(b't').as_str()), ("public", "par"), "{form}");
        wire.run("ROLLBACK");
        assert_eq!(wire.rows("SELECT count(*) FROM par"), ["0"], "{form}");
    }
}

#[test]
fn a_copy_of_children_is_ended_with_the_same_words() {
    let database = Database::fresh(TABLES);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run(&format!(
        "BEGIN; INSERT INTO par VALUES ('{0}','A'); INSERT INTO par VALUES ('{0}','B')",
        key()
    ));
    let data = format!("1\t{}\n", key());
    let copy =
        [message::query("COPY ch FROM STDIN"), message::copy_data(data.as_bytes()), message::copy_done()];
    let (outcome, message) = last(&wire.converse(&copy.concat(), 1));
    assert_eq!(outcome, "!57014");
    for word in [
        "ambiguous key",
        key(),
        "a reference from public.ch may mean either of two rows of public.par",
        "row 1 of statement 1 and again for row 1 of statement 2",
        "ambiguous = \"keep\" for public.ch",
    ] {
        assert!(message.contains(word), "{message} does not say {word}");
    }
}

#[test]
fn what_is_kept_is_on_record() {
    let database = Database::fresh(TABLES);
    let proxy = Proxy::with(&database, &["--ambiguous", "keep"]);
    let mut wire = proxy.connect();
    for statement in
        ["UPDATE par SET v = 'x' WHERE id = 'K'", "SELECT adopt('K')", "COPY ch FROM STDIN WHERE n > 0"]
    {
        let before = notes(&proxy, "kept, it means the first");
        let insert = "INSERT INTO par VALUES ('K','A'); INSERT INTO par VALUES ('K','B')";
        wire.run(&format!("BEGIN; {insert}").replace('K', key()));
        let bytes = [message::query(statement.replace('K', key())), message::copy_done()].concat();
        let (outcome, message) = last(&wire.converse(&bytes, 1));
        assert!(!outcome.starts_with('!'), "{statement}: {outcome} {message}");
        assert_eq!(notes(&proxy, "kept, it means the first"), before + 1, "{statement}");
        wire.run("ROLLBACK");
    }
    wire.run(&format!(
        "BEGIN; INSERT INTO par VALUES ('{0}','A'),('{0}','B'); INSERT INTO ch VALUES (1,'{0}'); COMMIT",
        key()
    ));
    let records = proxy.settled_journal();
    let kept = |record: &&serde_json::Value| record["reason"] == "ambiguous reference kept";
    assert_eq!(records.iter().filter(kept).count(), 1, "{records:#?}");
    assert_eq!(database.stored("SELECT v FROM ch JOIN par ON pid = id"), ["A"]);
}

#[test]
fn an_upsert_of_a_shared_key_fails_though_other_tables_share_it_too() {
    let tables =
        "CREATE TABLE one (id uuid PRIMARY KEY, v text); CREATE TABLE two (id uuid PRIMARY KEY, v text);";
    let database = Database::fresh(tables);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let mut after_twins_in_both = |statement: &str| {
        wire.run("ROLLBACK");
        let twins = |table: &str| format!("INSERT INTO {table} VALUES ('K','A'), ('K','B')");
        wire.run(&format!("BEGIN; {}; {}", twins("one"), twins("two")).replace('K', key()));
        last(&wire.query(statement.replace('K', key())))
    };
    for table in ["one", "two"] {
        let upsert = format!("INSERT INTO {table} VALUES ('K','C') ON CONFLICT (id) DO UPDATE SET v = 'x'");
        let (outcome, message) = after_twins_in_both(&upsert);
        assert!(outcome == "!23505" && message.contains("ambiguous"), "{upsert}: {outcome} {message}");
        let insert = format!("INSERT INTO {table} VALUES ('K','C')");
        assert_eq!(after_twins_in_both(&insert).0, "INSERT 0 1", "{insert}");
    }
}
