//! Other languages' drivers, each through the forms its users batch with; `tests/run` installs them and runs this.
//!
//! `cargo test --test drivers` expects Python packages in `target/drivers-venv`, Node's in `target/drivers-node`.

#[expect(dead_code, reason = "the drivers bring their own clients")]
mod support;

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Database, Proxy, admin, program};

/// What every form inserts into.
const ITEMS: &str = "CREATE TABLE items (id uuid PRIMARY KEY, n int, note text, ref uuid)";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a suite against a database of its own, directly and through untwin; each form that fails is a line that begins with FAIL.
fn passes(interpreter: PathBuf, arguments: &[&str], suite: &str) {
    let database = Database::fresh(ITEMS);
    let proxy = Proxy::with(&database, &admin::ADMIN);
    passes_through(&proxy, &database, interpreter, arguments, &[suite]);
    keep_coverage(suite, &admin::metrics(admin::address(&proxy)));
}

/// The same with a proxy and a database of the caller's choice. `suite`: its file, and its arguments.
fn passes_through(
    proxy: &Proxy,
    database: &Database,
    interpreter: PathBuf,
    arguments: &[&str],
    suite: &[&str],
) {
    let [file, own_arguments @ ..] = suite else { panic!("a suite is a file") };
    let output = Command::new(interpreter)
        .args(arguments)
        .arg(root().join("tests/drivers").join(file))
        .args(own_arguments)
        .env("UNTWIN_DRIVER_DATABASE", &database.name)
        .env("UNTWIN_DRIVER_DIRECT", database.address.port().to_string())
        .env("UNTWIN_DRIVER_THROUGH", proxy.address.port().to_string())
        .env("UNTWIN_DRIVER_NODE", root().join("target/drivers-node"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{file}: {error}; tests/run installs what is missing"));
    let report = String::from_utf8_lossy(&output.stdout);
    println!("{report}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && report.contains("ok "),
        "{file}: {}\n{report}\n{errors}",
        output.status
    );
}

/// Keeps how many statements of a suite were inspected, and why others were not: `tests/run` shows the sum.
/// A line each: number, result, reason.
fn keep_coverage(suite: &str, metrics: &BTreeMap<String, u64>) {
    let line = |(series, count): (&String, &u64)| {
        let labels = series.strip_prefix("inserts_total{result=\"")?.strip_suffix("\"}")?;
        Some(format!("{count}\t{}\n", labels.replace("\",reason=\"", "\t")))
    };
    let lines: String = metrics.iter().filter_map(line).collect();
    let directory = root().join("target/drivers-coverage");
    std::fs::create_dir_all(&directory).expect("a directory below target");
    std::fs::write(directory.join(format!("{suite}.tsv")), lines).expect("a file below target");
}

fn interpreter_of_python() -> PathBuf {
    root().join("target/drivers-venv/bin/python")
}

fn python(suite: &str) {
    passes(interpreter_of_python(), &[], suite);
}

/// Sends what the producer of an example made to its consumer; gives whether that stored all of it, and its complaint.
fn consumes(messages: &str, address: SocketAddr, database: &str) -> (bool, String) {
    let mut consumer = Command::new(interpreter_of_python())
        .args(["consumer.py", "--stdin"])
        .current_dir(root().join("examples/kafka-batch"))
        .env("DATABASE_URL", format!("postgres://postgres@{address}/{database}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tests/run installs what is missing");
    // A consumer that fails reads no further.
    let _ = consumer.stdin.take().expect("stdin was piped").write_all(messages.as_bytes());
    let output = consumer.wait_with_output().expect("it was started");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_pipeline_of_the_example_stores_every_message() {
    let python = interpreter_of_python();
    let producer = root().join("examples/kafka-batch/producer.py");
    let arguments = ["--count", "500", "--mistakes", "0.05", "--seed", "7", "--stdout"];
    let messages =
        program::succeed(&python, &[&[producer.to_str().expect("a path")], &arguments[..]].concat(), "");
    let sent = messages.lines().count();
    let ids: HashSet<&str> = messages.lines().filter_map(|line| line.split('"').nth(3)).collect();
    assert!(sent > 500 && ids.len() == 500, "{} ids in {sent} messages", ids.len());

    let database = Database::fresh("");
    let (stored, complaint) = consumes(&messages, database.address, &database.name);
    assert!(!stored && complaint.contains("UniqueViolation"), "{complaint}");
    database.run("TRUNCATE orders");
    let proxy = Proxy::before(&database);
    let (stored, complaint) = consumes(&messages, proxy.address, &database.name);
    assert!(stored, "{complaint}");
    assert_eq!(database.stored("SELECT count(*) FROM orders"), [sent.to_string()]);
    let rekeyed = proxy.settled_journal().iter().filter(|record| record["fate"] == "committed").count();
    assert_eq!(rekeyed, sent - ids.len());
}

#[test]
fn psycopg2() {
    python("psycopg2_forms.py");
}

#[test]
fn psycopg() {
    python("psycopg_forms.py");
}

#[test]
fn asyncpg() {
    python("asyncpg_forms.py");
}

#[test]
fn sqlalchemy() {
    python("sqlalchemy_forms.py");
}

/// A sequence beside the key that the client makes, and a key of the server's beside the client's.
const SERVER_MADE: &str = "CREATE SEQUENCE made_serial;
    CREATE TABLE made (id uuid PRIMARY KEY, n int, serial bigint DEFAULT nextval('made_serial'));
    CREATE TABLE numbered (pk serial PRIMARY KEY, id uuid UNIQUE, n int)";

#[test]
fn sqlalchemy_finds_its_rows_under_the_keys_it_sent() {
    let database = Database::fresh(SERVER_MADE);
    let proxy = Proxy::with(&database, &["--returning", "sent"]);
    passes_through(&proxy, &database, interpreter_of_python(), &[], &["sqlalchemy_returning.py"]);
    let hinted = |record: &serde_json::Value| record.get("hint").is_some();
    assert!(!proxy.journal().iter().any(hinted), "it has the setting already");
}

#[test]
fn sqlalchemy_without_the_setting_is_told_which_one_it_needs() {
    let database = Database::fresh(SERVER_MADE);
    let proxy = Proxy::before(&database);
    passes_through(&proxy, &database, interpreter_of_python(), &[], &["sqlalchemy_returning.py", "stored"]);
    let records = proxy.settled_journal();
    let is_elsewhere = |record: &serde_json::Value| record["statement"] != record["first"]["statement"];
    for record in records.iter().filter(|record| record["table"] == "public.made" && is_elsewhere(record)) {
        // SQLAlchemy gave up where it looked for its rows. A statement of one row does not show that it does.
        let gave_up = record["fate"] == "rolled_back" && record["row"] != 1;
        assert!(!gave_up || record["hint"] == "returning = \"sent\"", "{record:#}");
    }
    assert!(records.iter().any(|record| record.get("hint").is_some()), "{records:#?}");
    assert!(records.iter().all(|record| record["table"] == "public.made" || record.get("hint").is_none()));
    assert!(proxy.stderr().contains("needs another setting"), "{}", proxy.stderr());
}

#[test]
fn django() {
    python("django_forms.py");
}

#[test]
fn node_postgres() {
    passes(program::find("node"), &[], "pg_forms.mjs");
}

#[test]
fn postgres_js() {
    passes(program::find("node"), &[], "postgres_forms.mjs");
}

#[test]
fn jdbc() {
    passes(program::find("java"), &["-cp", "/usr/share/java/postgresql.jar"], "Jdbc.java");
}
