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
    let output = Command::new(interpreter)
        .args(arguments)
        .arg(root().join("tests/drivers").join(suite))
        .env("UNTWIN_DRIVER_DATABASE", &database.name)
        .env("UNTWIN_DRIVER_DIRECT", database.address.port().to_string())
        .env("UNTWIN_DRIVER_THROUGH", proxy.address.port().to_string())
        .env("UNTWIN_DRIVER_NODE", root().join("target/drivers-node"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{suite}: {error}; tests/run installs what is missing"));
    let report = String::from_utf8_lossy(&output.stdout);
    println!("{report}");
    keep_coverage(suite, &admin::metrics(admin::address(&proxy)));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && report.contains("ok "),
        "{suite}: {}\n{report}\n{errors}",
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

fn python(suite: &str) {
    passes(root().join("target/drivers-venv/bin/python"), &[], suite);
}

/// Sends what the producer of an example made to its consumer; gives whether that stored all of it, and its complaint.
fn consumes(messages: &str, address: SocketAddr, database: &str) -> (bool, String) {
    let mut consumer = Command::new(root().join("target/drivers-venv/bin/python"))
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
    let python = root().join("target/drivers-venv/bin/python");
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
