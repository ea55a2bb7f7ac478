//! TLS between the proxy and the server: every `sslmode` against servers that can, cannot, demand and refuse it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::scenario::EV;
use crate::support::cluster::Cluster;
use crate::support::pki::{Authority, Identity};
use crate::support::program::{find, run};
use crate::support::{Database, Proxy, Wire};

/// Who may come in which way.
const HBA: &str = "\
local all scram scram-sha-256
local all all trust
host all postgres all trust
hostssl all demands_tls all trust
hostnossl all refuses_tls all trust
hostssl all shows_a_certificate all cert
host all scram all scram-sha-256
host all md5 all md5
host all cleartext all password
host all trusted all trust
host all +looked_up all scram-sha-256
";

const ROLES: &str = "
CREATE ROLE demands_tls LOGIN; CREATE ROLE refuses_tls LOGIN; CREATE ROLE shows_a_certificate LOGIN; CREATE ROLE trusted LOGIN;
CREATE ROLE scram LOGIN REPLICATION PASSWORD 'secret'; CREATE ROLE cleartext LOGIN PASSWORD 'secret';
SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'secret'; RESET password_encryption;
CREATE ROLE looked_up; CREATE ROLE looker LOGIN PASSWORD 'looks' IN ROLE looked_up;
CREATE FUNCTION look_up(wanted name, OUT name, OUT text) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
  AS 'SELECT usename, passwd FROM pg_shadow WHERE usename = wanted';
REVOKE EXECUTE ON FUNCTION look_up FROM public; GRANT EXECUTE ON FUNCTION look_up TO looker;
";

/// A server that can TLS, and who vouches for it.
pub struct Server {
    pub cluster: Cluster,
    pub authority: Authority,
    /// Its certificate, for localhost and 127.0.0.1.
    pub identity: Identity,
}

/// The one that the tests running now share; it ends with the last of them.
pub fn server() -> Arc<Server> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(Server::start());
        *shared = Arc::downgrade(&server);
        server
    })
}

impl Server {
    fn start() -> Server {
        let authority = Authority::new();
        let identity = authority.issue("server", &["localhost", "127.0.0.1"]);
        Self::showing(authority, identity)
    }

    /// One that shows this certificate.
    pub fn showing(authority: Authority, identity: Identity) -> Server {
        Self::with(authority, identity, "ssl_min_protocol_version=TLSv1.2")
    }

    /// The same, with one more of its settings.
    pub fn with(authority: Authority, identity: Identity, setting: &str) -> Server {
        let hba = authority.file("pg_hba.conf", HBA, 0o644);
        let cluster = Cluster::start(&[
            setting,
            "ssl=on",
            &format!("ssl_cert_file={}", identity.cert),
            &format!("ssl_key_file={}", identity.key_of_server()),
            &format!("ssl_ca_file={}", authority.root),
            &format!("hba_file={hba}"),
        ]);
        Wire::connect(cluster.address(), "postgres").run(ROLES);
        Server { cluster, authority, identity }
    }

    /// A URL with parameters.
    pub fn url(&self, parameters: &str) -> String {
        format!("postgres://{}/?{parameters}", self.cluster.address())
    }
}

/// Whether the server sees an encrypted connection of this user; or why there is none.
fn is_encrypted(proxy: &Proxy, user: &str, database: &str) -> Result<bool, String> {
    let opened = Wire::open(proxy.address, &[("user", user), ("database", database)]);
    let (mut wire, _) = opened.map_err(|error| error.to_string())?;
    Ok(wire.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == ["t"])
}

fn assert_row(row: &str, actual: &Result<bool, String>, expected: Result<bool, &str>) {
    match (actual, expected) {
        (Ok(actual), Ok(expected)) => assert_eq!(*actual, expected, "{row}"),
        (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{row}: {actual}"),
        _ => panic!("{row}: {actual:?}, not {expected:?}"),
    }
}

#[test]
fn every_sslmode_does_what_libpq_does() {
    let server = server();
    let no_entry = Err("no pg_hba.conf entry");
    for (parameters, anywhere, demands, refuses) in [
        ("sslmode=disable", Ok(false), no_entry, Ok(false)),
        ("sslmode=allow", Ok(false), Ok(true), Ok(false)),
        ("", Ok(true), Ok(true), Ok(false)),
        ("sslmode=prefer", Ok(true), Ok(true), Ok(false)),
        ("sslmode=require", Ok(true), Ok(true), no_entry),
    ] {
        let proxy = Proxy::of_url(&server.url(parameters), "postgres", &[]);
        for (user, expected) in [("trusted", anywhere), ("demands_tls", demands), ("refuses_tls", refuses)] {
            let row = format!("{parameters}, {user}");
            assert_row(&row, &is_encrypted(&proxy, user, "postgres"), expected);
        }
    }
}

#[test]
fn a_server_without_tls_is_reached_unless_tls_is_demanded() {
    let database = Database::fresh("");
    for (parameters, expected) in [
        ("sslmode=prefer", Ok(false)),
        ("sslmode=allow", Ok(false)),
        ("sslmode=require", Err("the server does not support TLS, but sslmode demands it")),
    ] {
        let url = format!("postgres://{}/?{parameters}", database.address);
        let proxy = Proxy::of_url(&url, &database.name, &[]);
        assert_row(parameters, &is_encrypted(&proxy, "postgres", &database.name), expected);
    }
}

#[test]
fn the_server_is_verified_as_far_as_is_asked_for() {
    let server = server();
    let other = Authority::new();
    let (good, bad) = (&server.authority.root, &other.root);
    let address = server.cluster.address();
    let place = |host: &str, parameters: String| {
        format!("host={host} hostaddr=127.0.0.1 port={} {parameters}", address.port())
    };
    let (unknown, misnamed) = (Err("UnknownIssuer"), Err("not valid for name"));
    for (url, expected) in [
        (place("localhost", format!("sslmode=verify-full sslrootcert={good}")), Ok(true)),
        (place("elsewhere", format!("sslmode=verify-full sslrootcert={good}")), misnamed),
        (place("elsewhere", format!("sslmode=verify-ca sslrootcert={good}")), Ok(true)),
        (server.url(&format!("sslmode=verify-full&sslrootcert={good}&sslsni=0")), Ok(true)),
        (place("localhost", format!("sslmode=verify-ca sslrootcert={bad}")), unknown),
        // libpq's rule for old programs: with a file of authorities, `require` is `verify-ca`.
        (place("localhost", format!("sslmode=require sslrootcert={bad}")), unknown),
        (place("localhost", format!("sslmode=prefer sslrootcert={bad}")), Ok(true)),
        (place("localhost", "sslrootcert=system".to_owned()), unknown),
    ] {
        let proxy = Proxy::of_url(&url, "postgres", &[]);
        assert_row(&url, &is_encrypted(&proxy, "trusted", "postgres"), expected);
    }
}

#[test]
fn a_server_whose_certificate_is_revoked_is_refused() {
    let (server, other) = (server(), Authority::new());
    let (authority, gone) = (&server.authority, &server.identity);
    let directory = |list: &str| {
        let directory = format!("{list}.d");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::copy(list, format!("{directory}/0a1b2c3d.r0")).expect("a file can be copied");
        directory
    };
    let (clear, revoking) =
        (authority.list("clear.crl", &[], 2060), authority.list("revoking.crl", &[gone], 2060));
    let (late, foreign) = (authority.list("late.crl", &[], 2021), other.list("foreign.crl", &[], 2060));
    let place = |host: &str, sslmode: &str, list: &str| {
        let port = server.cluster.address().port();
        let root = &authority.root;
        format!("host={host} hostaddr=127.0.0.1 port={port} sslmode={sslmode} sslrootcert={root} {list}")
    };
    let file = |list: &str| format!("sslcrl={list}");
    for (host, sslmode, list, expected) in [
        ("localhost", "verify-full", file(&clear), Ok(true)),
        ("localhost", "verify-full", file(&revoking), Err("Revoked")),
        ("elsewhere", "verify-full", file(&clear), Err("not valid for name")),
        ("elsewhere", "verify-ca", file(&clear), Ok(true)),
        ("elsewhere", "verify-ca", file(&revoking), Err("Revoked")),
        ("localhost", "require", file(&revoking), Err("Revoked")),
        // As with libpq: without a list that is up to date, nobody knows.
        ("localhost", "verify-full", file(&late), Err("CRL")),
        ("localhost", "verify-full", file(&foreign), Err("UnknownRevocationStatus")),
        ("localhost", "verify-full", format!("sslcrldir={}", directory(&clear)), Ok(true)),
        ("localhost", "verify-full", format!("sslcrldir={}", directory(&revoking)), Err("Revoked")),
    ] {
        let url = place(host, sslmode, &list);
        let proxy = Proxy::of_url(&url, "postgres", &[]);
        assert_row(&url, &is_encrypted(&proxy, "trusted", "postgres"), expected);
    }
    let list = authority.list("changing.crl", &[], 2060);
    let proxy = Proxy::of_url(&place("localhost", "verify-full", &file(&list)), "postgres", &[]);
    assert!(is_encrypted(&proxy, "trusted", "postgres").is_ok());
    authority.list("changing.crl", &[gone], 2060);
    proxy.signal("HUP");
    let is_refused = || is_encrypted(&proxy, "trusted", "postgres").is_err();
    assert!(crate::support::eventually(is_refused), "the list is read again");
}

#[test]
fn a_certificate_may_vouch_for_itself() {
    let authority = Authority::new();
    let database = Database::fresh("");
    for (years, expected) in
        [((2020, 2060), Ok(false)), ((2001, 2002), Err("Expired")), ((2058, 2060), Err("NotValidYet"))]
    {
        // A proxy with this certificate stands for the server.
        let identity = authority.self_signed("self", &["localhost", "127.0.0.1"], years);
        let server =
            Proxy::with(&database, &["--client-tls-cert", &identity.cert, "--client-tls-key", &identity.key]);
        let url = format!("postgres://{}/?sslmode=verify-full&sslrootcert={}", server.address, identity.cert);
        let proxy = Proxy::of_url(&url, &database.name, &[]);
        assert_row(&format!("{years:?}"), &is_encrypted(&proxy, "postgres", &database.name), expected);
    }
}

#[test]
fn certificates_of_version_1_will_do() {
    let authority = Authority::new();
    let identity = authority.as_version_1(&authority.issue("server", &[]));
    let server = Server::showing(authority, identity);
    let (cert, key) = (&server.identity.cert, &server.identity.key);
    let shown = ["--client-tls-cert", cert, "--client-tls-key", key];
    for parameters in ["sslmode=require", &format!("sslmode=verify-ca&sslrootcert={cert}")] {
        let proxy = Proxy::of_url(&server.url(parameters), "postgres", &shown);
        assert_row(parameters, &is_encrypted(&proxy, "trusted", "postgres"), Ok(true));
        let second = format!("postgres://{}/?{parameters}", proxy.address);
        let second = Proxy::of_url(&second, "postgres", &[]);
        assert_row(&format!("{parameters} twice"), &is_encrypted(&second, "trusted", "postgres"), Ok(true));
    }
}

#[test]
fn whole_chains_are_shown_and_looked_up_in_lists() {
    let root = Authority::new();
    let (between, aside) = (root.vouch(), root.vouch());
    let server = Server::showing(root.vouch(), between.issue("server", &["127.0.0.1"]));
    let shown = between.issue("trusted", &[]);
    let list = |name: &str, revoked: &[&Identity]| {
        let parts = [root.list("root.crl", &[], 2060), between.list("between.crl", revoked, 2060)];
        root.file(name, &parts.map(|part| std::fs::read_to_string(part).expect("a list")).concat(), 0o644)
    };
    let (clear, revoking) = (list("clear.crl", &[]), list("revoking.crl", &[&server.identity]));
    for (list, expected) in [
        (String::new(), Ok(true)),
        (format!("&sslcrl={clear}"), Ok(true)),
        (format!("&sslcrl={revoking}"), Err("Revoked")),
        // Not for every authority of the chain.
        (format!("&sslcrl={}", aside.list("aside.crl", &[], 2060)), Err("UnknownRevocationStatus")),
        (format!("&sslcrl={}", root.list("only.crl", &[], 2060)), Err("UnknownRevocationStatus")),
    ] {
        let keys = format!("&sslcert={}&sslkey={}", shown.cert, shown.key);
        let url = server.url(&format!("sslmode=verify-full&sslrootcert={}{list}{keys}", root.root));
        let identity = between.issue("localhost", &["localhost"]);
        let proxy = Proxy::of_url(
            &url,
            "postgres",
            &[
                "--client-tls-cert",
                &identity.cert,
                "--client-tls-key",
                &identity.key,
                "--client-tls-ca",
                &root.root,
            ],
        );
        let row = is_encrypted_for_psql(&proxy, &root, &shown);
        assert_row(&url, &row, expected);
    }
}

/// The same, asked by psql, which shows a certificate and verifies the proxy's.
fn is_encrypted_for_psql(proxy: &Proxy, root: &Authority, shown: &Identity) -> Result<bool, String> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=trusted dbname=postgres sslmode=verify-full sslrootcert={} sslcert={} sslkey={}",
        proxy.address.port(),
        root.root,
        shown.cert,
        shown.key
    );
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let output = run(&find("psql"), &["-X", "-A", "-t", "-d", &target, "-c", sql], "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout) == "t") } else { Err(text(&output.stderr)) }
}

#[test]
fn the_proxy_shows_its_own_certificate_to_the_server() {
    let server = server();
    let (right, wrong) =
        (server.authority.issue("shows_a_certificate", &[]), server.authority.issue("somebody", &[]));
    let url = |identity: &Identity| {
        server.url(&format!("sslmode=require&sslcert={}&sslkey={}", identity.cert, identity.key))
    };
    for (url, expected) in [
        (url(&right), Ok(true)),
        (url(&wrong), Err("certificate authentication failed")),
        (server.url("sslmode=require"), Err("connection requires a valid client certificate")),
    ] {
        let proxy = Proxy::of_url(&url, "postgres", &[]);
        assert_row(&url, &is_encrypted(&proxy, "shows_a_certificate", "postgres"), expected);
    }
}

#[test]
fn tls_from_the_first_byte_reaches_a_server_that_knows_it() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let identity = authority.issue("localhost", &["127.0.0.1"]);
    let server = Proxy::with(
        &database,
        &["--client-tls-cert", &identity.cert, "--client-tls-key", &identity.key, "--client-tls", "require"],
    );
    let direct = format!(
        "postgres://{}/?sslmode=verify-full&sslnegotiation=direct&sslrootcert={}",
        server.address, authority.root
    );
    let proxy = Proxy::of_url(&direct, &database.name, &[]);
    assert_eq!(proxy.connect().rows("SELECT 1"), ["1"]);
}

#[test]
fn twins_are_rekeyed_and_requests_to_cancel_arrive_within_tls() {
    let server = server();
    let database = server.cluster.database(EV);
    let proxy = Proxy::of_url(&server.url("sslmode=require"), &database.name, &[]);
    let key = "11111111-1111-4111-8111-111111111111";
    proxy.connect().run(&format!("INSERT INTO ev(id,v) VALUES ('{key}', 'a'), ('{key}', 'b')"));
    assert_eq!(database.stored("SELECT count(*) FROM ev"), ["2"]);
    let mut sleeper = proxy.connect();
    sleeper.send(&crate::support::message::query("SELECT pg_sleep(50)"));
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert!(crate::support::eventually(|| database.stored(sleeps) == ["1"]));
    let mut canceller = Wire::dial(proxy.address).expect("the proxy listens");
    canceller.send(&crate::support::message::cancel(&sleeper.backend_key));
    assert_eq!(crate::support::wire::outcomes(&sleeper.until_ready(1)), ["!57014"]);
}
