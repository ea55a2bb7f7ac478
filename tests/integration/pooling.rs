//! PgBouncer on either side of the proxy, in session and in transaction mode: what works there, as the README's table has it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::corpus::corpus;
use crate::expect::LETTERS;
use crate::scenario::EV;
use crate::support::cluster::{as_server, free_port, give_to_server};
use crate::support::message::{self, text};
use crate::support::proxy::supervised;
use crate::support::{Database, Proxy, Wire, eventually, program, wire};
use crate::transparent::{ROWS, TABLES, assert_same, login, replies, two_alike};

/// When a server connection goes back to the pool.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Session,
    Transaction,
}

/// Where PgBouncer stands, seen from the application.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Application, PgBouncer, untwin, Postgres.
    InFront,
    /// Application, untwin, PgBouncer, Postgres.
    Behind,
}

const ARRANGEMENTS: [(Place, Mode); 4] = [
    (Place::InFront, Mode::Session),
    (Place::InFront, Mode::Transaction),
    (Place::Behind, Mode::Session),
    (Place::Behind, Mode::Transaction),
];

/// A running PgBouncer. Ends when dropped.
struct Pooler {
    process: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Pooler {
    /// In front of a server or a proxy, with at most this many connections to it for each database.
    fn before(server: SocketAddr, mode: Mode, size: u32) -> Pooler {
        let directory = TempDir::new().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name);
        let port = free_port();
        let mode = format!("{mode:?}").to_lowercase();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nlogfile = {}\nauth_type = trust\nauth_file = {}\nadmin_users = postgres\npool_mode = {mode}\ndefault_pool_size = {size}\n",
            server.port(),
            path("log").display(),
            path("users").display(),
        );
        std::fs::write(path("users"), "\"postgres\" \"\"\n").expect("a file of users");
        std::fs::write(path("settings"), settings).expect("a file of settings");
        give_to_server(directory.path());
        let command = as_server(&program::find("pgbouncer"));
        let mut process = supervised(&command[0]);
        process.args(&command[1..]).arg("-q").arg(path("settings")).current_dir("/");
        process.stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().expect("a shell is part of every system");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let log = path("log");
        let pooler = Pooler { process, address, _directory: directory };
        let log = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(eventually(|| Wire::dial(address).is_ok()), "PgBouncer does not listen: {}", log());
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The proxy and PgBouncer between an application and a database.
struct Chain {
    /// Where the application connects.
    entrance: SocketAddr,
    proxy: Proxy,
    _pooler: Pooler,
}

impl Chain {
    fn of((place, mode): (Place, Mode), database: &Database, size: u32) -> Chain {
        match place {
            Place::InFront => {
                let proxy = Proxy::before(database);
                let pooler = Pooler::before(proxy.address, mode, size);
                Chain { entrance: pooler.address, proxy, _pooler: pooler }
            }
            Place::Behind => {
                let pooler = Pooler::before(database.address, mode, size);
                let proxy = Proxy::start(pooler.address, &database.name, &[]);
                Chain { entrance: proxy.address, proxy, _pooler: pooler }
            }
        }
    }

    fn connect(&self, database: &Database) -> Wire {
        Wire::connect(self.entrance, &database.name)
    }

    /// The tables whose rows were rekeyed, and what became of them.
    fn rekeyed(&self) -> Vec<String> {
        let records = self.proxy.settled_journal();
        let told =
            |record: &serde_json::Value| format!("{} {}", record["table"], record["fate"]).replace('"', "");
        records.iter().filter(|record| record["action"] == "rekeyed").map(told).collect()
    }
}

/// The key of the twins.
const KEY: &str = LETTERS[0].1;

/// One transaction with two rows of one key, as a driver may send it.
type Batch = (&'static str, fn(&mut Wire) -> Vec<String>);

const BATCHES: [Batch; 6] = [
    ("a Query each", |wire| {
        let insert = format!("INSERT INTO ev(id) VALUES ('{KEY}')");
        ["BEGIN", &insert, &insert, "COMMIT"]
            .iter()
            .flat_map(|sql| wire::outcomes(&wire.query(sql)))
            .collect()
    }),
    ("one Query", |wire| {
        let insert = format!("INSERT INTO ev(id) VALUES ('{KEY}')");
        wire::outcomes(&wire.query(format!("BEGIN; {insert}; {insert}; COMMIT")))
    }),
    ("parameters", |wire| {
        let insert =
            [message::extended("INSERT INTO ev(id) VALUES ($1)", &[text(KEY)]), message::sync()].concat();
        let pieces = [message::query("BEGIN"), insert.clone(), insert, message::query("COMMIT")];
        pieces.iter().flat_map(|bytes| wire::outcomes(&wire.converse(bytes, 1))).collect()
    }),
    ("a pipeline", |wire| {
        let insert = message::extended("INSERT INTO ev(id) VALUES ($1)", &[text(KEY)]);
        let (begin, commit) = (message::extended("BEGIN", &[]), message::extended("COMMIT", &[]));
        let pipeline = [begin, insert.clone(), insert, commit, message::sync()].concat();
        wire::outcomes(&wire.converse(&pipeline, 1))
    }),
    ("a named statement", |wire| {
        let insert =
            [message::bind("", "s", &[text(KEY)]), message::execute("", 0), message::sync()].concat();
        let named = message::parse("s", "INSERT INTO ev(id) VALUES ($1)", &[]);
        let closed = [message::close(b'S', "s"), message::sync()].concat();
        let pieces = [
            message::query("BEGIN"),
            [named, insert.clone()].concat(),
            insert,
            closed,
            message::query("COMMIT"),
        ];
        pieces.iter().flat_map(|bytes| wire::outcomes(&wire.converse(bytes, 1))).collect()
    }),
    ("COPY", |wire| {
        wire.send(&message::query("COPY ev(id) FROM STDIN"));
        wire.until(b'G');
        let rows = message::copy_data(format!("{KEY}\n{KEY}\n").as_bytes());
        wire::outcomes(&wire.converse(&[rows, message::copy_done()].concat(), 1))
    }),
];

#[test]
fn twins_are_saved_on_either_side_of_a_pool() {
    for arrangement in ARRANGEMENTS {
        let database = Database::fresh(EV);
        let chain = Chain::of(arrangement, &database, 2);
        let mut wire = chain.connect(&database);
        for (name, batch) in BATCHES {
            let outcomes = batch(&mut wire);
            let failed = outcomes.iter().any(|outcome| outcome.starts_with('!'));
            assert!(!failed, "{arrangement:?}, {name}: {outcomes:?}");
            let kept =
                format!("SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id = '{KEY}') FROM ev");
            assert_eq!(database.stored(&kept), ["2|2|1"], "{arrangement:?}, {name}");
            database.run("TRUNCATE ev");
        }
        assert_eq!(chain.rekeyed(), ["public.ev committed"; BATCHES.len()], "{arrangement:?}");
    }
}

#[test]
fn replies_are_those_of_the_pool_alone() {
    for (place, mode) in ARRANGEMENTS {
        let (direct, through) = two_alike(TABLES);
        // One connection for each database: what a conversation leaves behind meets the next one, both times.
        let pooler = Pooler::before(direct.address, mode, 1);
        let chain = Chain::of((place, mode), &through, 1);
        for (name, talk) in corpus() {
            println!("{place:?}, {mode:?}, {name}");
            direct.run(ROWS);
            through.run(ROWS);
            let expected = replies(login(pooler.address, &direct), &talk, usize::MAX);
            let actual = replies(login(chain.entrance, &through), &talk, usize::MAX);
            assert_same(&format!("{place:?}, {mode:?}, {name}"), &expected, &actual);
        }
        assert_eq!(chain.rekeyed(), Vec::<String>::new(), "{place:?}, {mode:?}");
    }
}

#[test]
fn many_clients_share_few_connections() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 10;
    for arrangement in [(Place::InFront, Mode::Transaction), (Place::Behind, Mode::Transaction)] {
        let database = Database::fresh(EV);
        let chain = Chain::of(arrangement, &database, 2);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut wire = chain.connect(&database);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let key = format!("{client:08x}-{round:04x}-4000-8000-000000000000");
                        let insert = message::extended("INSERT INTO ev(id) VALUES ($1)", &[text(&key)]);
                        let (begin, commit) = (message::query("BEGIN"), message::query("COMMIT"));
                        for bytes in [begin, [insert.clone(), insert, message::sync()].concat(), commit] {
                            let outcomes = wire::outcomes(&wire.converse(&bytes, 1));
                            assert!(outcomes.iter().all(|outcome| !outcome.starts_with('!')), "{outcomes:?}");
                        }
                    }
                });
            }
        });
        let all = CLIENTS * ROUNDS;
        let kept =
            "SELECT count(*), count(*) FILTER (WHERE id::text LIKE '%-4000-8000-000000000000') FROM ev";
        assert_eq!(database.stored(kept), [format!("{}|{all}", 2 * all)], "{arrangement:?}");
        assert_eq!(chain.rekeyed(), vec!["public.ev committed"; all], "{arrangement:?}");
    }
}

#[test]
fn names_resolve_by_the_default_path_and_by_set_local() {
    let schema = "CREATE SCHEMA other; CREATE TABLE public.ev (id uuid PRIMARY KEY); CREATE TABLE other.ev (id uuid PRIMARY KEY)";
    for arrangement in ARRANGEMENTS {
        let database = Database::fresh(schema);
        let chain = Chain::of(arrangement, &database, 2);
        let mut wire = chain.connect(&database);
        let insert = format!("INSERT INTO ev VALUES ('{KEY}'); INSERT INTO ev VALUES ('{KEY}')");
        wire.run(&format!("BEGIN; {insert}; COMMIT"));
        wire.run("BEGIN");
        wire.run("SET LOCAL search_path TO other");
        wire.run(&insert);
        wire.run("COMMIT");
        let expected = ["public.ev committed", "other.ev committed"];
        assert_eq!(chain.rekeyed(), expected, "{arrangement:?}");
        assert_eq!(
            database.stored("SELECT count(*) FROM public.ev UNION ALL SELECT count(*) FROM other.ev"),
            ["2", "2"]
        );
    }
}

#[test]
fn a_table_made_by_one_client_is_known_to_the_next() {
    for arrangement in ARRANGEMENTS {
        let database = Database::fresh("");
        let chain = Chain::of(arrangement, &database, 2);
        // Both are logged in before there is a table: the catalog has to be read again, on connections that are idle.
        let (mut maker, mut user) = (chain.connect(&database), chain.connect(&database));
        maker.run(EV);
        user.run(&format!("BEGIN; INSERT INTO ev(id) VALUES ('{KEY}'), ('{KEY}'); COMMIT"));
        assert_eq!(chain.rekeyed(), ["public.ev committed"], "{arrangement:?}");
    }
}

#[test]
fn a_cancel_request_passes() {
    for arrangement in ARRANGEMENTS {
        let database = Database::fresh("");
        let chain = Chain::of(arrangement, &database, 2);
        let mut sleeper = chain.connect(&database);
        sleeper.send(&message::query("SELECT pg_sleep(50)"));
        let sleeps = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
            database.name
        );
        assert!(eventually(|| database.stored(&sleeps) == ["1"]), "{arrangement:?}");
        let mut canceller = Wire::dial(chain.entrance).expect("the chain listens");
        canceller.send(&message::cancel(&sleeper.backend_key));
        assert_eq!(canceller.until_end(), [], "{arrangement:?}");
        assert_eq!(wire::outcomes(&sleeper.until_ready(1)), ["!57014"], "{arrangement:?}");
    }
}

#[test]
fn the_console_of_the_pooler_is_relayed() {
    let database = Database::fresh("");
    let chain = Chain::of((Place::Behind, Mode::Transaction), &database, 2);
    let mut console = Wire::connect(chain.entrance, "pgbouncer");
    assert!(console.rows("SHOW VERSION")[0].starts_with("PgBouncer"));
    console.run("RELOAD");
    assert!(!console.rows("SHOW DATABASES").is_empty());
    assert_eq!(chain.connect(&database).rows("SELECT 1"), ["1"]);
}
