//! Other languages' drivers, each through the forms its users batch with; `tests/run` installs them and runs this.
//!
//! `cargo test --test drivers` expects Python packages in `target/drivers-venv`, Node's in `target/drivers-node`.

#[expect(dead_code, reason = "the drivers bring their own clients")]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Database, Proxy, program};

/// What every form inserts into.
const ITEMS: &str = "CREATE TABLE items (id uuid PRIMARY KEY, n int, note text, ref uuid)";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a suite against a database of its own, directly and through untwin; each form that fails is a line that begins with FAIL.
fn passes(interpreter: PathBuf, arguments: &[&str], suite: &str) {
    let database = Database::fresh(ITEMS);
    passes_through(&Proxy::before(&database), &database, interpreter, arguments, &[suite]);
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

fn interpreter_of_python() -> PathBuf {
    root().join("target/drivers-venv/bin/python")
}

fn python(suite: &str) {
    passes(interpreter_of_python(), &[], suite);
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
