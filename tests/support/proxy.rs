//! The real binary in front of a database: starts it, reads where it listens, reads its journal, ends it with the test.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Database, Wire};

/// Runs the binary until it ends, or until the pipe on stdin closes: that happens when the test process ends, however it ends.
/// A file that may not grow is an error to it, and not its end.
const SUPERVISOR: &str = r#"
trap '' XFSZ
exec 3<&0
(read -r end <&3; kill -9 $$) 2>/dev/null >/dev/null </dev/null &
exec 3<&-
exec "$@" </dev/null
"#;

/// How long the binary may take to listen, and a fate to be written.
const PATIENCE: Duration = Duration::from_secs(20);

/// The end of stderr that a failing test shows, in bytes.
const SHOWN: usize = 16 << 10;

/// A running proxy. Ends when dropped.
pub struct Proxy {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    database: String,
    journal: PathBuf,
    stderr: Arc<Mutex<Vec<u8>>>,
    _directory: TempDir,
}

/// The binary under test: what cargo built, or `TEST_UNTWIN_BINARY` to test another build.
pub fn binary() -> PathBuf {
    std::env::var_os("TEST_UNTWIN_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_untwin")), PathBuf::from)
}

/// A command that ends when its stdin closes, and to which no variable of this process is a setting.
pub fn supervised(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SUPERVISOR, "untwin-test-proxy"]).arg(program);
    // The binary takes every variable of this prefix for a setting, and refuses those that are none.
    let ours = |name: &OsString| name.as_encoded_bytes().starts_with(b"UNTWIN_");
    for name in std::env::vars_os().map(|(name, _)| name).filter(ours) {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Proxy {
    /// In front of a database, with its defaults.
    pub fn before(database: &Database) -> Proxy {
        Self::with(database, &[])
    }

    /// In front of a database, with more arguments.
    pub fn with(database: &Database, arguments: &[&str]) -> Proxy {
        Self::start(database.address, &database.name, arguments)
    }

    /// In front of an address where a server may or may not listen.
    pub fn start(upstream: SocketAddr, database: &str, arguments: &[&str]) -> Proxy {
        Self::of_url(&format!("postgres://{upstream}"), database, arguments)
    }

    /// In front of what a URL says.
    pub fn of_url(upstream: &str, database: &str, arguments: &[&str]) -> Proxy {
        let directory = TempDir::new().expect("a temporary directory");
        let journal = directory.path().join("journal.jsonl");
        let mut command = supervised(binary());
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command
            .args(["--upstream", upstream, "--journal"])
            .arg(&journal)
            .args(arguments)
            .current_dir(directory.path())
            .spawn()
            .expect("the binary starts");
        let stderr = collect(child.stderr.take().expect("stderr was piped"));
        let said = listening_line(child.stdout.take().expect("stdout was piped"));
        let database = database.to_owned();
        let none = SocketAddr::from(([127, 0, 0, 1], 0));
        // Owned from here on, so that a failure below ends the process too.
        let mut proxy = Proxy { child, address: none, database, journal, stderr, _directory: directory };
        let said = said.unwrap_or_else(|| panic!("untwin does not listen: {}", proxy.stderr()));
        proxy.address = said;
        proxy
    }

    /// A connection through the proxy to its database.
    pub fn connect(&self) -> Wire {
        Wire::open(self.address, &[("user", "postgres"), ("database", &self.database)])
            .unwrap_or_else(|error| panic!("no connection through untwin: {error}\n{}", self.stderr()))
            .0
    }

    /// Lets no file of the process grow: from now on its journal cannot be written to.
    pub fn fill_disk(&self) {
        let size = std::fs::metadata(&self.journal).expect("the journal is there").len();
        let limit = format!("--fsize={size}");
        let status = Command::new("prlimit").args(["--pid", &self.child.id().to_string(), &limit]).status();
        assert!(status.expect("prlimit is part of every system").success());
    }

    /// Sends a signal, named as `kill` names it.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill is part of every system").success());
    }

    /// What it wrote to stderr, the end of it.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no reader panics")).into_owned()
    }

    /// Whether the process is still there.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its exit code, once it has ended; panics when it goes on for longer than `limit`.
    pub fn exit_code(&mut self, limit: Duration) -> Option<i32> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("it was started") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "untwin goes on: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The path of the journal.
    pub fn journal_path(&self) -> &Path {
        &self.journal
    }

    /// The journal as it is now: records in order, each with its last fate.
    pub fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.journal).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        merge(
            whole
                .lines()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))),
        )
    }

    /// The journal once no record is pending any more; panics with it after twenty seconds.
    pub fn settled_journal(&self) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let records = self.journal();
            if records.iter().all(|record| record["fate"] != "pending") {
                return records;
            }
            assert!(Instant::now() < deadline, "fates stay pending: {records:#?}\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("untwin wrote: {}", self.stderr());
        }
    }
}

/// A line with an `action` is a record; a line with the `id` of one and no action is news of its fate.
fn merge(lines: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut records: Vec<Value> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let id = line["id"].to_string();
        if line.get("action").is_some() {
            places.insert(id, records.len());
            records.push(line);
        } else if let Some(place) = places.get(&id) {
            records[*place]["fate"] = line["fate"].clone();
        }
    }
    records
}

/// The address in `DATABASE_URL=postgres://…`, if the process says it in time.
fn listening_line(stdout: impl Read + Send + 'static) -> Option<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("DATABASE_URL=postgres://") {
                let _ = sender.send(address.trim_end_matches('/').parse());
            }
        }
    });
    receiver.recv_timeout(PATIENCE).ok()?.ok()
}

/// Keeps the end of a stream while it is read to its end, so that the writer never blocks.
fn collect(mut stream: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            let mut kept = shared.lock().expect("no reader panics");
            kept.extend(&chunk[..read]);
            let surplus = kept.len().saturating_sub(SHOWN);
            kept.drain(..surplus);
        }
    });
    kept
}
