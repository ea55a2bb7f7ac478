//! Private Postgres servers and databases in them; leaves no process and no file behind, however the tests end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Wire, program};

/// Makes a cluster by a program and its words, serves it, and takes it away when the pipe on its stdin closes: that happens when
/// the test process ends, also when it is killed. Runs in a process group of its own, so that Ctrl-C reaches it as a closed pipe too.
const SUPERVISOR: &str = r#"
set -eu
make=$1 words=$2 postgres=$3 port=$4; shift 4
server=
directory=$(mktemp -d /tmp/untwin-pg.XXXXXX)
finish() {
  trap - EXIT
  if [ -n "$server" ]; then kill -QUIT "$server" 2>/dev/null || :; wait "$server" || :; fi
  rm -rf "$directory"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
cd "$directory"
"$make" -D "$directory/data" $words >make.log 2>&1 || { cat make.log >&2; exit 1; }
"$postgres" -D "$directory/data" -k "$directory" -p "$port" "$@" >server.log 2>&1 </dev/null &
server=$!
echo "$directory"
read -r end || :
"#;

/// What makes an empty cluster.
const INITDB: (&str, &str) = ("initdb", "-U postgres -A trust -E UTF8 --locale=C --no-sync");

/// Fast and forgetful, since nothing here outlives the tests; quiet, since nobody reads the log unless a test fails.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_init_zero=off",
    "autovacuum=off",
    "max_connections=200",
    "max_prepared_transactions=10",
    "wal_level=logical",
    "log_statement=none",
    "log_min_messages=fatal",
    "timezone=UTC",
];

/// A running server. Stops when dropped, and when the test process ends.
pub struct Cluster {
    supervisor: Child,
    directory: PathBuf,
    port: u16,
}

/// The server all tests of this binary share; each test has a database of its own.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(&[]))
}

impl Cluster {
    /// Starts a server with these settings (`name=value`) besides the usual ones.
    ///
    /// Panics with the server's log when it does not come up within thirty seconds.
    pub fn start(settings: &[&str]) -> Cluster {
        Self::made_by(INITDB, settings)
    }

    /// Starts a standby that is a copy of the server at this address and follows it from there.
    ///
    /// Panics like [`Self::start`].
    pub fn standby(of: SocketAddr) -> Cluster {
        let words = format!("-R -X stream -c fast --no-sync -h {} -p {} -U postgres", of.ip(), of.port());
        Self::made_by(("pg_basebackup", &words), &[])
    }

    fn made_by(maker: (&str, &str), settings: &[&str]) -> Cluster {
        let mut log = String::new();
        for _ in 0..3 {
            // Another process may take the free port before the server does: then try again with another one.
            match Self::attempt(maker, settings) {
                Ok(cluster) => return cluster,
                Err(why) => log.push_str(&why),
            }
        }
        panic!("no Postgres server: {log}")
    }

    fn attempt((maker, words): (&str, &str), settings: &[&str]) -> Result<Cluster, String> {
        let port = free_port();
        let mut supervisor = unprivileged("sh");
        supervisor.args(["-c", SUPERVISOR, "untwin-test-cluster"]);
        supervisor.arg(program::find(maker)).arg(words).arg(program::find("postgres")).arg(port.to_string());
        supervisor.args(SETTINGS.iter().chain(settings).flat_map(|setting| ["-c", setting]));
        supervisor.current_dir("/").process_group(0);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut supervisor = supervisor.spawn().map_err(|error| error.to_string())?;
        let mut directory = String::new();
        let stdout = supervisor.stdout.take().expect("stdout was piped");
        BufReader::new(stdout).read_line(&mut directory).map_err(|error| error.to_string())?;
        let directory = PathBuf::from(directory.trim_end());
        let mut cluster = Cluster { supervisor, directory, port };
        if cluster.answers_within(Duration::from_secs(30)) { Ok(cluster) } else { Err(cluster.log()) }
    }

    fn answers_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline && matches!(self.supervisor.try_wait(), Ok(None)) {
            if Wire::open(self.address(), &[("user", "postgres"), ("database", "postgres")]).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// What the server wrote so far, for a failing test to show.
    pub fn log(&mut self) -> String {
        let mut log = std::fs::read_to_string(self.directory.join("server.log")).unwrap_or_default();
        if matches!(self.supervisor.try_wait(), Ok(Some(_))) {
            let _ = self.supervisor.stderr.take().map(|mut stderr| stderr.read_to_string(&mut log));
        }
        log
    }

    /// Where its socket is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// `server_version_num`: 150018 is 15.18.
    pub fn version(&self) -> u32 {
        let mut wire = Wire::connect(self.address(), "postgres");
        wire.rows("SHOW server_version_num")[0].parse().expect("the server's version is a number")
    }

    /// An empty database in which `schema` has been run.
    pub fn database(&self, schema: &str) -> Database {
        let database = self.create("TEMPLATE template0");
        database.run(schema);
        database
    }

    /// An empty database with this encoding; the server itself is UTF8.
    pub fn database_encoded(&self, encoding: &str, schema: &str) -> Database {
        let database = self.create(&format!("TEMPLATE template0 ENCODING '{encoding}'"));
        database.run(schema);
        database
    }

    fn create(&self, how: &str) -> Database {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Wire::connect(self.address(), "postgres").run(&format!("CREATE DATABASE {name} {how}"));
        Database { name, address: self.address() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// A database of one test; dropped with it.
pub struct Database {
    /// Its name, fit for SQL without quotes.
    pub name: String,
    /// The server it is on.
    pub address: SocketAddr,
}

impl Database {
    /// An empty database on the shared server in which `schema` has been run.
    pub fn fresh(schema: &str) -> Database {
        shared().database(schema)
    }

    /// A database equal to this one, object ids included; nobody may be connected to this one meanwhile.
    pub fn twin(&self) -> Database {
        shared().create(&format!("TEMPLATE {}", self.name))
    }

    /// A connection past the proxy.
    pub fn connect(&self) -> Wire {
        Wire::connect(self.address, &self.name)
    }

    /// Runs statements past the proxy; panics if one fails.
    pub fn run(&self, sql: &str) {
        self.connect().run(sql);
    }

    /// The rows of a query asked past the proxy, columns joined by `|`, NULL as `\N`.
    pub fn stored(&self, sql: &str) -> Vec<String> {
        self.connect().rows(sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server may have been killed by the test: then the database is gone as well.
        if let Ok((mut wire, _)) = Wire::open(self.address, &[("user", "postgres"), ("database", "postgres")])
        {
            let _ = wire.try_rows(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}

/// A port of the loopback interface that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A command that runs as an unprivileged user, since a Postgres server refuses to run as root.
fn unprivileged(program: &str) -> Command {
    let words = as_server(Path::new(program));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The words of a command that runs a program as the user that servers run as.
pub fn as_server(program: &Path) -> Vec<OsString> {
    let Some((user, group)) = server_user() else { return vec![program.into()] };
    let mut words: Vec<OsString> =
        ["setpriv", "--reuid", &user, "--regid", &group, "--clear-groups", "--"].map(OsString::from).into();
    words.push(program.into());
    words
}

/// Makes the user that servers run as the owner of a file or directory, since they insist on it.
pub fn give_to_server(path: &Path) {
    if let Some((user, group)) = server_user() {
        let id = |text: String| text.parse().ok();
        std::os::unix::fs::chown(path, id(user), id(group)).expect("root may give files away");
    }
}

/// User and group id of servers; none where these tests run unprivileged, as that user.
fn server_user() -> Option<(String, String)> {
    let id = Command::new("id").arg("-u").output().expect("id is part of every system");
    if id.stdout.trim_ascii() != b"0" {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("there is an unprivileged user"))
}
