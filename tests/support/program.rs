//! Finds and runs other people's programs (Postgres' own, psql, pgbench), each with a time limit; knows nothing of tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The longest any helper program may run, in seconds.
const LIMIT: &str = "120";

/// Where a program is: `TEST_POSTGRES_BIN`, then PATH, then Debian's directories, newest version first.
///
/// Panics with the name when it is nowhere: a machine without Postgres and PgBouncer cannot run these tests.
pub fn find(name: &str) -> PathBuf {
    let mut places: Vec<PathBuf> =
        std::env::var_os("TEST_POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.extend(debian_directories());
    // Daemons are there, and not every user's PATH says so.
    places.push("/usr/sbin".into());
    let found = places.iter().map(|place| place.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is neither in TEST_POSTGRES_BIN nor PATH nor /usr/lib/postgresql; tests/run installs it"
        )
    })
}

fn debian_directories() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    numbered.sort();
    numbered.into_iter().rev().map(|(_, path)| path).collect()
}

/// Runs a program to its end with `input` on its stdin; killed after two minutes.
pub fn run(program: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("timeout")
        .args(["--kill-after=5", LIMIT])
        .arg(program)
        .args(arguments)
        .env("PGUSER", "postgres")
        .env("PGCONNECT_TIMEOUT", "20")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    // A program that ends early closes its stdin: what it printed says why.
    let _ = child.stdin.take().expect("stdin was piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the program was started")
}

/// [`run`], insisting on exit status 0; returns stdout.
pub fn succeed(program: &Path, arguments: &[&str], input: &str) -> String {
    let output = run(program, arguments, input);
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} {arguments:?} ended with {}: {shown}",
        program.display(),
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
