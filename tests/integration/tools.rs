//! Postgres' own programs through the proxy: psql, pgbench, dumps, maintenance; and requests to cancel.

use std::time::{Duration, Instant};

use crate::scenario::EV;
use crate::support::cluster::Cluster;
use crate::support::program::{find, run, succeed};
use crate::support::{Database, Proxy, Wire, eventually, message, wire};

/// A connection string of a database behind the proxy.
pub fn target(proxy: &Proxy, database: &Database) -> String {
    format!("host=127.0.0.1 port={} user=postgres dbname={}", proxy.address.port(), database.name)
}

#[test]
fn pgbench_runs_in_every_protocol() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let port = proxy.address.port().to_string();
    let target = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    let pgbench = |arguments: &[&str]| {
        succeed(&find("pgbench"), &[&target[..], arguments, &[&database.name]].concat(), "")
    };
    pgbench(&["-i", "-s", "1", "-q"]);
    for protocol in ["simple", "extended", "prepared"] {
        let report = pgbench(&["-M", protocol, "-c", "4", "-j", "2", "-t", "50", "-n"]);
        assert!(report.contains("actually processed: 200/200"), "{protocol}: {report}");
    }
    assert_eq!(database.stored("SELECT count(*) FROM pgbench_history"), ["600"]);
}

#[test]
fn pgbench_pipelines_are_compared() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let key = "11111111-1111-4111-8111-111111111111";
    let insert = format!("INSERT INTO ev(id,v) VALUES ('{key}', :client_id);\n");
    let script =
        format!("\\startpipeline\nBEGIN;\n{insert}{insert}DELETE FROM ev;\nCOMMIT;\n\\endpipeline\n");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), script).expect("a script");
    let port = proxy.address.port().to_string();
    let path = file.path().to_str().expect("a path");
    let arguments = [
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "postgres",
        "-n",
        "-M",
        "extended",
        "-t",
        "10",
        "-f",
        path,
        &database.name,
    ];
    let report = succeed(&find("pgbench"), &arguments, "");
    assert!(report.contains("actually processed: 10/10"), "{report}");
    assert_eq!(proxy.settled_journal().iter().filter(|record| record["action"] == "rekeyed").count(), 10);
}

#[test]
fn psql_works_as_ever() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let script = "\\d ev\n\\copy ev(id,v) FROM STDIN\n11111111-1111-4111-8111-111111111111\ta\n\\.\n\\copy (SELECT v FROM ev) TO STDOUT\nSELECT 1 \\gdesc\n\\errverbose\n";
    let through = target(&proxy, &database);
    let direct =
        format!("host=127.0.0.1 port={} user=postgres dbname={}", database.address.port(), database.name);
    let psql = |target: &str| run(&find("psql"), &["-X", "-d", target], script);
    let (expected, _) = (psql(&direct), database.run("TRUNCATE ev"));
    let actual = psql(&through);
    let shown = |output: &std::process::Output| {
        String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
    };
    assert_eq!(shown(&actual), shown(&expected));
}

/// What a dump has to carry over: keys in every form, large objects, all sorts of definitions.
const DUMPED: &str = "
    CREATE EXTENSION citext;
    CREATE SCHEMA \"Odd one\";
    CREATE TABLE ev (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), v text, src citext);
    CREATE TABLE \"Odd one\".child (id uuid, ev uuid REFERENCES ev, n bigserial, PRIMARY KEY (id, n));
    CREATE TABLE texts (id text PRIMARY KEY, j jsonb);
    INSERT INTO ev SELECT md5(i::text)::uuid, repeat('x', i), E'a\\tb\\n\\\\.' FROM generate_series(1, 500) i;
    INSERT INTO \"Odd one\".child SELECT md5('same')::uuid, md5(i::text)::uuid FROM generate_series(1, 500) i;
    INSERT INTO texts SELECT md5(i::text)::uuid, '[null]' FROM generate_series(1, 500) i;
    CREATE VIEW seen AS SELECT v FROM ev;
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
    CREATE TRIGGER t AFTER INSERT ON ev FOR EACH ROW EXECUTE FUNCTION f();
    SELECT lo_from_bytea(4711, 'a large object')";

/// A dump as text, without the lines that later minor versions make unlike each time.
fn dump(program: &str, port: u16, arguments: &[&str]) -> String {
    let text = program_through(program, port, arguments, "");
    text.lines()
        .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn program_through(program: &str, port: u16, arguments: &[&str], input: &str) -> String {
    let port = port.to_string();
    let target = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    succeed(&find(program), &[&target[..], arguments].concat(), input)
}

#[test]
fn a_script_of_schema_changes_does_not_read_the_catalog_for_each() {
    const CHANGES: usize = 60;
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let key = "11111111-1111-4111-8111-111111111111";
    let table =
        |n: usize| format!("CREATE TABLE t{n} (id uuid PRIMARY KEY);\nALTER TABLE t{n} ADD v text;\n");
    let script: String = (0..CHANGES / 2).map(table).collect();
    let twins = format!("INSERT INTO t0 VALUES ('{key}', 'a'), ('{key}', 'b');\n");
    program_through(
        "psql",
        proxy.address.port(),
        &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &database.name],
        &(script + &twins),
    );
    // What was made a moment ago is protected.
    assert_eq!(proxy.settled_journal()[0]["table"], "public.t0");
    // Each question is a transaction; a session tells how many it had when it ends.
    let transactions =
        format!("SELECT xact_commit FROM pg_stat_database WHERE datname = '{}'", database.name);
    let count = || Wire::connect(database.address, "postgres").rows(&transactions)[0].parse().unwrap_or(0);
    assert!(eventually(|| count() > CHANGES), "{}", count());
    assert!(count() < CHANGES + CHANGES / 2, "{}", count());
}

#[test]
fn a_dump_is_the_same_and_is_restored() {
    let database = Database::fresh(DUMPED);
    let proxy = Proxy::before(&database);
    let (direct, through) = (database.address.port(), proxy.address.port());
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let original = dump("pg_dump", direct, &[&database.name]);
    for inserts in [&[][..], &["--inserts"], &["--rows-per-insert=50"]] {
        let text = dump("pg_dump", through, &[inserts, &[&database.name]].concat());
        assert_eq!(text, dump("pg_dump", direct, &[inserts, &[&database.name]].concat()));
        let restored = Database::fresh("");
        program_through("psql", through, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &restored.name], &text);
        assert_eq!(dump("pg_dump", direct, &[&restored.name]), original, "{inserts:?}");
    }
    for (form, parallel) in [("c", &[][..]), ("d", &["-j", "3"])] {
        let file = path(form);
        let form = format!("-F{form}");
        program_through(
            "pg_dump",
            through,
            &[&[&*form, "-f", &file], parallel, &[&database.name]].concat(),
            "",
        );
        let restored = Database::fresh("");
        program_through(
            "pg_restore",
            through,
            &[parallel, &["-e", "-d", &restored.name, &file]].concat(),
            "",
        );
        assert_eq!(dump("pg_dump", direct, &[&restored.name]), original, "{form}");
    }
    assert_eq!(proxy.journal(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_dump_of_everything_is_the_same() {
    // A server of its own: databases of other tests come and go.
    let cluster = Cluster::start(&[]);
    let database = cluster.database(DUMPED);
    let proxy = Proxy::before(&database);
    let dumped = dump("pg_dumpall", proxy.address.port(), &[]);
    assert_eq!(dumped, dump("pg_dumpall", database.address.port(), &[]));
    assert!(dumped.contains("Odd one"), "{dumped}");
}

#[test]
fn maintenance_runs_in_parallel() {
    let database = Database::fresh(DUMPED);
    let proxy = Proxy::before(&database);
    let port = proxy.address.port();
    let analyzed = "SELECT count(*) FROM pg_stats WHERE tablename = 'ev'";
    assert_eq!(database.stored(analyzed), ["0"]);
    program_through("vacuumdb", port, &["-j", "3", "--analyze", &database.name], "");
    assert_eq!(database.stored(analyzed), ["3"]);
    let index = "SELECT relfilenode FROM pg_class WHERE relname = 'ev_pkey'";
    let before = database.stored(index);
    program_through("reindexdb", port, &["-j", "3", "--concurrently", &database.name], "");
    assert_ne!(database.stored(index), before);
    program_through("clusterdb", port, &[&database.name], "");
}

#[test]
fn a_cancel_request_stops_its_own_session() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let (mut sleeper, mut other) = (proxy.connect(), proxy.connect());
    let started = Instant::now();
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    let sleeps = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    assert!(eventually(|| database.stored(&sleeps) == ["1"]));
    let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
    canceller.send(&message::cancel(&sleeper.backend_key));
    assert_eq!(canceller.until_end(), [], "a cancel request has no reply");
    assert_eq!(wire::outcomes(&sleeper.until_ready(1)), ["!57014"]);
    assert!(started.elapsed() < Duration::from_secs(40));
    assert_eq!(other.rows("SELECT 'undisturbed'"), ["undisturbed"]);
}
