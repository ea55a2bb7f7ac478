//! What frees a key, or gives a name another meaning, behind the back of a proxy: everything must come out as without one.

use crate::support::message::{self, Value};
use crate::support::{Database, Proxy, Wire, wire};

/// The key of every case.
pub const K: &str = "11111111-1111-4111-8111-111111111111";
/// The table of most.
pub const EV: &str = "CREATE TABLE ev (id uuid PRIMARY KEY, v text, src text);";
const PURGE: &str =
    "CREATE FUNCTION purge() RETURNS int LANGUAGE plpgsql VOLATILE AS 'begin delete from ev; return 1; end';";
/// Two of one name.
pub const TWO: &str = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.ev (id uuid PRIMARY KEY, v text); CREATE TABLE b.ev (id uuid PRIMARY KEY, v text);";

/// What a client sends: SQL, of which `1> ` is for a second connection, or bytes that the server answers with one ReadyForQuery.
pub enum Step {
    /// One Query.
    Sql(&'static str),
    /// Messages as they are.
    Bytes(Vec<u8>),
}

use Step::{Bytes, Sql};

/// The key inserted with this value.
pub fn insert(v: &str) -> Step {
    Bytes(message::query(format!("INSERT INTO ev (id, v) VALUES ('{K}', '{v}')")))
}

/// The same into another table.
pub fn insert_into(table: &str, v: &str) -> Step {
    Bytes(message::query(format!("INSERT INTO {table} (id, v) VALUES ('{K}', '{v}')")))
}

/// Plays the steps and gives what became of them, and of the rows.
pub fn play(
    steps: &[Step],
    database: &Database,
    connect: impl Fn() -> Wire,
    stored: &str,
) -> Vec<Vec<String>> {
    let mut connections = [connect(), connect()];
    let outcome = |step: &Step| {
        let (connection, bytes) = match step {
            Sql(text) => {
                let other = text.strip_prefix("1> ");
                (usize::from(other.is_some()), message::query(other.unwrap_or(text)))
            }
            Bytes(bytes) => (0, bytes.clone()),
        };
        connections[connection].send(&bytes);
        wire::outcomes(&connections[connection].until_ready(1))
    };
    let mut outcomes: Vec<Vec<String>> = steps.iter().map(outcome).collect();
    outcomes.push(database.stored(stored));
    outcomes
}

/// The transaction in which the steps come between two uses of the key.
fn between(steps: Vec<Step>) -> Vec<Step> {
    [vec![Sql("BEGIN"), insert("a")], steps, vec![insert("b"), Sql("COMMIT")]].into_iter().flatten().collect()
}

/// Plays the steps on a bare server and through untwin, and expects the same answers and rows.
pub fn expect_same(name: &str, tables: &str, steps: &[Step], stored: &str) {
    let (direct, through) = (Database::fresh(tables), Database::fresh(tables));
    let proxy = Proxy::before(&through);
    let expected = play(steps, &direct, || direct.connect(), stored);
    assert_eq!(play(steps, &through, || proxy.connect(), stored), expected, "{name}");
}

/// What [`EV`] holds.
pub const ROWS: &str = "SELECT id, v FROM ev ORDER BY v, id";

#[test]
fn keys_are_free_again_after_what_moves_or_deletes_their_rows() {
    let moved = "UPDATE ev SET v = 'z'";
    let cases = [
        ("a view that calls", format!("{PURGE} CREATE VIEW pv AS SELECT purge()"), "TABLE pv"),
        (
            "a trigger that was put off",
            "CREATE TABLE q (a int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin delete from ev; return null; end';
             CREATE CONSTRAINT TRIGGER t AFTER INSERT ON q DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();
             CREATE TABLE start (a int)".to_owned(),
            "SET CONSTRAINTS ALL IMMEDIATE",
        ),
        (
            "a BEFORE UPDATE trigger",
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin new.id := md5(old.id::text)::uuid; return new; end';
             CREATE TRIGGER t BEFORE UPDATE ON ev FOR EACH ROW EXECUTE FUNCTION f()".to_owned(),
            moved,
        ),
        (
            "an UPDATE of a view",
            "CREATE VIEW w AS SELECT id AS k FROM ev".to_owned(),
            "UPDATE w SET k = md5(k::text)::uuid",
        ),
        (
            "a part of the statement",
            String::new(),
            "WITH d AS (DELETE FROM ev RETURNING 1) INSERT INTO ev (id, v)
             VALUES ('11111111-1111-4111-8111-111111111111', (SELECT count(*)::text FROM d)); DELETE FROM ev",
        ),
        ("COPY of a DELETE", String::new(), "COPY (DELETE FROM ev RETURNING v) TO STDOUT"),
    ];
    for (name, tables, freeing) in cases {
        let mut steps = between(vec![Sql(freeing)]);
        if tables.contains("TABLE q") {
            steps.insert(1, Sql("INSERT INTO q VALUES (1)"));
        }
        expect_same(name, &format!("{EV} {tables}"), &steps, ROWS);
    }
}

#[test]
fn an_update_of_another_table_or_column_moves_keys() {
    let move_id = "UPDATE par SET id = md5(id::text)::uuid";
    let insert =
        |v: &str| Bytes(message::query(format!("INSERT INTO ev (n, id, v) VALUES (1, '{K}', '{v}')")));
    let cases = [
        (
            "CREATE TABLE par (n int, id uuid, v text); CREATE TABLE ev (PRIMARY KEY (id)) INHERITS (par)",
            move_id,
        ),
        (
            "CREATE TABLE par (n int, id uuid, v text) PARTITION BY LIST (n);
             CREATE TABLE ev PARTITION OF par FOR VALUES IN (1); CREATE UNIQUE INDEX ON ev (id)",
            move_id,
        ),
        (
            "CREATE TABLE par (n int PRIMARY KEY); INSERT INTO par VALUES (1);
             CREATE TABLE ev (id uuid, n int REFERENCES par ON UPDATE CASCADE, v text, UNIQUE (n, id))",
            "UPDATE par SET n = 2; INSERT INTO par VALUES (1)",
        ),
    ];
    for (tables, moving) in cases {
        let steps = [Sql("BEGIN"), insert("a"), Sql(moving), insert("b"), Sql("COMMIT")];
        expect_same(tables, tables, &steps, ROWS);
    }
}

#[test]
fn portals_run_in_the_order_of_their_executions() {
    let ins = || message::parse("i", "INSERT INTO ev (id, v) VALUES ($1, $2)", &[]);
    let del = || message::parse("d", "DELETE FROM ev", &[]);
    let row = [Value::Text(K.into()), Value::Text("b".into())];
    let bind = |portal: &str| message::bind(portal, "i", &row);
    let run = |portal: &str| message::execute(portal, 0);
    let orders = [
        [bind("p"), message::bind("q", "d", &[]), run("q"), run("p")],
        [message::bind("q", "d", &[]), bind(""), run("q"), run("")],
        [bind("p"), message::bind("", "d", &[]), run(""), run("p")],
    ];
    for (at, order) in orders.into_iter().enumerate() {
        let bytes = [ins(), del(), order.concat(), message::sync()].concat();
        let steps = [Sql("BEGIN"), insert("a"), Bytes(bytes), Sql("COMMIT")];
        expect_same(&format!("order {at}"), EV, &steps, ROWS);
    }
}

#[test]
fn a_portal_that_goes_on_calls_again() {
    let call = "SELECT purge_at(g) FROM generate_series(1, 3) g";
    let purge = "CREATE FUNCTION purge_at(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'begin delete from ev; return 1; end'";
    let first = [
        message::parse("", call, &[]),
        message::bind("c", "", &[]),
        message::execute("c", 1),
        message::sync(),
    ]
    .concat();
    let again = [message::execute("c", 1), message::sync()].concat();
    let steps = [
        Sql("BEGIN"),
        Bytes(first),
        insert_into("public.ev", "a"),
        Bytes(again),
        insert_into("public.ev", "b"),
        Sql("COMMIT"),
    ];
    expect_same("a portal of three rows", &format!("{EV} {purge}"), &steps, ROWS);
}

#[test]
fn what_a_failed_message_began_is_not_believed() {
    let stored = "SELECT 'a', * FROM a.ev UNION ALL SELECT 'b', * FROM b.ev ORDER BY 1, 3";
    let path = [
        message::extended("SELECT 1/0", &[]),
        message::extended("SET search_path = b", &[]),
        message::sync(),
    ]
    .concat();
    let steps = [
        Sql("SET search_path = a"),
        Bytes(path),
        Sql("BEGIN"),
        insert_into("a.ev", "a"),
        Sql("DELETE FROM ev"),
        insert_into("a.ev", "b"),
        Sql("COMMIT"),
    ];
    expect_same("a path", TWO, &steps, stored);
    let steps = [
        Sql("PREPARE s (uuid, text) AS INSERT INTO ev (id, v) VALUES ($1, $2)"),
        Sql("DEALLOCATE s; PREPARE s (uuid, text) AS DELETE FROM ev WHERE id = $1; SELECT 1/0"),
        Sql("BEGIN"),
        insert("a"),
        Sql("EXECUTE s ('11111111-1111-4111-8111-111111111111', 'x')"),
        Sql("COMMIT"),
    ];
    expect_same("a prepared statement", EV, &steps, ROWS);
    let steps = [
        Sql("BEGIN"),
        Sql("SAVEPOINT s"),
        insert("a"),
        Sql("SELECT 1/0; SAVEPOINT s"),
        Sql("ROLLBACK TO s"),
        insert("b"),
        Sql("COMMIT"),
    ];
    expect_same("a savepoint", EV, &steps, ROWS);
}

#[test]
fn temporary_tables_that_are_gone_hide_nothing() {
    // Homonyms make sessions ask for their path.
    let tables = format!("{EV} CREATE SCHEMA z; CREATE TABLE z.twice (); CREATE TABLE twice ()");
    let cases = [
        vec![Sql("BEGIN"), Sql("CREATE TEMP TABLE ev (a int) ON COMMIT DROP"), Sql("COMMIT"), Sql("BEGIN")],
        vec![Sql("BEGIN"), Sql("SAVEPOINT s"), Sql("CREATE TEMP TABLE ev (a int)"), Sql("ROLLBACK TO s")],
    ];
    for mut steps in cases {
        steps.extend([
            insert_into("public.ev", "a"),
            Sql("DELETE FROM ev"),
            insert_into("public.ev", "b"),
            Sql("COMMIT"),
        ]);
        expect_same("a temporary table", &tables, &steps, ROWS);
    }
}

#[test]
fn schema_changes_of_other_sessions_count_within_a_transaction() {
    let changes = [
        ("CREATE SCHEMA postgres", "1> CREATE TABLE postgres.ev (id uuid PRIMARY KEY, v text)", "SELECT 1"),
        (
            "CREATE TABLE q (a int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin delete from ev; return null; end'",
            "1> CREATE TRIGGER t AFTER INSERT ON q FOR EACH ROW EXECUTE FUNCTION f()",
            "INSERT INTO q VALUES (1)",
        ),
    ];
    for (tables, change, then) in changes {
        let steps = between(vec![Sql(change), Sql(then)]);
        expect_same(
            change,
            &format!("{EV} {tables}"),
            &steps,
            "SELECT id, v, tableoid::regclass FROM ev ORDER BY v",
        );
    }
}

#[test]
fn equal_bytes_of_different_types_are_different_values() {
    let composite = "CREATE TABLE ev (id uuid, v text, PRIMARY KEY (id, v))";
    for values in ["01), ('{K}', '01'", "TRUE), ('{K}', 'TRUE'"] {
        let text = format!("INSERT INTO ev VALUES ('{{K}}', {values})").replace("{K}", K);
        expect_same(values, composite, &[Bytes(message::query(text))], ROWS);
    }
}

#[test]
fn literal_rules_of_the_startup_packet_hold_for_the_first_statement() {
    let text = format!(
        r"INSERT INTO ev (id, v) VALUES ('{K}', 'a'); SELECT '\''; DELETE FROM ev; SELECT '\''; INSERT INTO ev (id, v) VALUES ('{K}', 'b')"
    );
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let off = [
        ("user", "postgres"),
        ("database", &database.name),
        ("options", "-c standard_conforming_strings=off"),
    ];
    Wire::connect_with(proxy.address, &off).run(&text);
    assert_eq!(database.stored(ROWS), [format!("{K}|b")]);
}

/// What has been rekeyed, and what became of it.
fn fates(proxy: &Proxy) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    proxy.settled_journal().iter().map(|record| (text(&record["new"]), text(&record["fate"]))).collect()
}

#[test]
fn every_statement_of_a_query_settles_its_own_twins() {
    let twins = |key: &str| format!("INSERT INTO ev (id, v) VALUES ('{key}', 'a'), ('{key}', 'b')");
    let (first, second) = (twins(K), twins("22222222-2222-4222-8222-222222222222"));
    let cases = [
        (vec![format!("{first}; COMMIT; {second}; SELECT 1/0")], &["committed", "rolled_back"][..]),
        (vec![format!("{first}; ROLLBACK; {second}")], &["rolled_back", "committed"]),
        (
            ["BEGIN", "SAVEPOINT s", &first, "ROLLBACK TO s", "COMMIT"].map(str::to_owned).to_vec(),
            &["rolled_back"],
        ),
    ];
    for (queries, expected) in cases {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let bytes: Vec<u8> = queries.iter().flat_map(message::query).collect();
        proxy.connect().converse(&bytes, queries.len());
        let fates: Vec<String> = fates(&proxy).into_iter().map(|(_, fate)| fate).collect();
        assert_eq!(fates, expected, "{queries:?}");
    }
}

#[test]
fn what_is_on_record_is_what_is_stored() {
    let database = Database::fresh("CREATE TABLE t (a uuid UNIQUE, b uuid UNIQUE, v text)");
    let proxy = Proxy::before(&database);
    let row = |v: &str| {
        message::extended(
            "INSERT INTO t VALUES ($1, $1, $2)",
            &[Value::Text(K.into()), Value::Text(v.into())],
        )
    };
    proxy.connect().converse(&[row("a"), row("b"), message::sync()].concat(), 1);
    let stored = database.stored("SELECT a FROM t WHERE a = b AND v = 'b'");
    assert_eq!(fates(&proxy), [(stored[0].clone(), "committed".to_owned())], "one parameter, two keys");
}

#[test]
fn a_key_cut_by_a_sync_is_stored_as_sent_or_as_recorded() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.send(&[message::extended("COPY ev (id, v) FROM STDIN", &[]), message::sync()].concat());
    wire.until(b'G');
    let rows = format!("{K}\ta\n{K}\tb\n");
    let (before, after) = rows.as_bytes().split_at(50);
    wire.send(&[message::copy_data(before), message::sync()].concat());
    wire.send(&[message::copy_data(after), message::copy_done(), message::sync()].concat());
    assert_eq!(wire::outcomes(&wire.until_ready(1)), ["!23505"]);
    assert_eq!(wire.rows("SELECT 42"), ["42"]);
}

#[test]
fn executing_a_prepared_statement_does_what_the_statement_does() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run("PREPARE i (uuid, text) AS INSERT INTO ev (id, v) VALUES ($1, $2); PREPARE s AS SELECT 1");
    wire.run("BEGIN");
    for v in ["a", "b", "c"] {
        wire.run(&format!("EXECUTE i ('{K}', '{v}')"));
        wire.run("EXECUTE s");
    }
    wire.run("COMMIT");
    assert_eq!(database.stored("SELECT count(DISTINCT id) FROM ev"), ["3"]);
}

#[test]
fn what_the_server_logs_of_the_proxys_questions_is_not_for_the_client() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--catalog-ttl", "10ms"]);
    let mut wire = proxy.connect();
    wire.run("SET client_min_messages = log");
    wire.run("SET log_statement = 'all'");
    let told = (0..30).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let replies = wire.query("SELECT 1");
        let notices: Vec<String> =
            replies.iter().filter_map(|reply| (reply.tag == b'N').then(|| reply.field(b'M'))?).collect();
        (notices != ["statement: SELECT 1"]).then_some(notices)
    });
    assert_eq!(told, None);
}

#[test]
fn a_clients_statement_timeout_does_not_stop_the_catalog_from_being_read() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--catalog-ttl", "10ms"]);
    let mut impatient = proxy.connect();
    impatient.run("SET statement_timeout = 2");
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        impatient.query("SELECT 1");
    }
    let mut wire = proxy.connect();
    wire.run(&format!("BEGIN; INSERT INTO ev (id, v) VALUES ('{K}', 'a'); INSERT INTO ev (id, v) VALUES ('{K}', 'b'); COMMIT"));
}
