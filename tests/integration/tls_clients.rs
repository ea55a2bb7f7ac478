//! TLS between clients and the proxy: psql with every `sslmode`, certificates on both sides, and handshakes that go wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::scenario::EV;
use crate::support::pki::{Authority, Identity};
use crate::support::program::{find, run, succeed};
use crate::support::{Database, Proxy, Wire, eventually, message};

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSSENC_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// What psql prints for a statement, or what it complains of.
fn psql(proxy: &Proxy, database: &Database, parameters: &str, sql: &str) -> Result<String, String> {
    let port = proxy.address.port();
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname={} {parameters}",
        database.name
    );
    let output = run(&find("psql"), &["-X", "-A", "-t", "-d", &target, "-c", sql], "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A proxy that shows a certificate for localhost, with more arguments.
fn proxy_with(database: &Database, identity: &Identity, arguments: &[&str]) -> Proxy {
    let shown = ["--client-tls-cert", &identity.cert, "--client-tls-key", &identity.key];
    Proxy::with(database, &[&shown[..], arguments].concat())
}

/// Both sides agree on whether the connection is encrypted, or why there is none.
fn assert_row(row: &str, actual: Result<String, String>, expected: Result<&str, &str>) {
    match (&actual, expected) {
        (Ok(actual), Ok(expected)) => assert!(actual.contains(expected), "{row}: {actual}"),
        (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{row}: {actual}"),
        _ => panic!("{row}: {actual:?}, not {expected:?}"),
    }
}

#[test]
fn every_mode_meets_every_sslmode() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let identity = authority.issue("localhost", &["localhost", "127.0.0.1"]);
    // Every psql says it in words of its own.
    let (encrypted, plain) = (Ok("TLSv1.3"), Ok("127.0.0.1"));
    let impossible = Err("server does not support SSL, but SSL was required");
    for (mode, rows) in [
        ("disable", [("disable", plain), ("prefer", plain), ("require", impossible)]),
        ("allow", [("disable", plain), ("allow", plain), ("prefer", encrypted)]),
        ("prefer", [("disable", plain), ("prefer", encrypted), ("require", encrypted)]),
        (
            "require",
            [
                ("disable", Err("this connection is not encrypted")),
                ("allow", encrypted),
                ("require", encrypted),
            ],
        ),
    ] {
        let proxy = proxy_with(&database, &identity, &["--client-tls", mode]);
        for (sslmode, expected) in rows {
            let row = format!("client_tls = {mode}, sslmode={sslmode}");
            let said = psql(&proxy, &database, &format!("sslmode={sslmode}"), "\\conninfo");
            if expected == plain {
                assert!(!said.as_deref().unwrap_or_default().contains("TLS"), "{row}: {said:?}");
            }
            assert_row(&row, said, expected);
        }
    }
}

#[test]
fn clients_can_verify_the_proxy() {
    let (database, authority, other) = (Database::fresh(""), Authority::new(), Authority::new());
    let proxy = proxy_with(&database, &authority.issue("localhost", &["localhost"]), &[]);
    for (parameters, expected) in [
        (format!("sslmode=verify-full sslrootcert={}", authority.root), Ok("1")),
        (format!("sslmode=verify-ca sslrootcert={}", other.root), Err("certificate verify failed")),
        (
            format!("sslmode=verify-full sslrootcert={} host=127.0.0.1", authority.root),
            Err("does not match host name"),
        ),
    ] {
        assert_row(&parameters, psql(&proxy, &database, &parameters, "SELECT 1"), expected);
    }
}

#[test]
fn client_certificates_are_asked_for() {
    let (database, authority, other) = (Database::fresh(""), Authority::new(), Authority::new());
    let identity = authority.issue("localhost", &["localhost"]);
    let (good, bad) = (authority.issue("a client", &[]), other.issue("a stranger", &[]));
    let shown =
        |identity: &Identity| format!("sslmode=require sslcert={} sslkey={}", identity.cert, identity.key);
    let nothing = "sslmode=require sslcert=/nonexistent".to_owned();
    let (refused, unknown) = (Err("certificate required"), Err("unknown ca"));
    for (verify, rows) in [
        ("required", [(shown(&good), Ok("1")), (shown(&bad), unknown), (nothing.clone(), refused)]),
        ("optional", [(shown(&good), Ok("1")), (shown(&bad), unknown), (nothing, Ok("1"))]),
    ] {
        let proxy = proxy_with(
            &database,
            &identity,
            &["--client-tls-ca", &authority.root, "--client-tls-verify", verify],
        );
        for (parameters, expected) in rows {
            let row = format!("client_tls_verify = {verify}, {parameters}");
            assert_row(&row, psql(&proxy, &database, &parameters, "SELECT 1"), expected);
        }
    }
}

#[test]
fn revoked_certificates_are_refused() {
    let (database, authority, other) = (Database::fresh(""), Authority::new(), Authority::new());
    let identity = authority.issue("localhost", &["localhost"]);
    let (good, gone) = (authority.issue("a client", &[]), authority.issue("who left", &[]));
    let lists = [
        authority.list("now.crl", &[&gone], 2060),
        authority.list("then.crl", &[&gone], 2021),
        other.list("other.crl", &[], 2060),
    ];
    let login = |proxy: &Proxy, identity: &Identity| {
        let shown = format!("sslmode=require sslcert={} sslkey={}", identity.cert, identity.key);
        psql(proxy, &database, &shown, "SELECT 1")
    };
    let refused = Err("SSL error");
    let revoked = Err("certificate revoked");
    for (verify, list, expected) in [
        ("required", &lists[0], [Ok("1"), revoked]),
        ("optional", &lists[0], [Ok("1"), revoked]),
        // As with Postgres: without a list that is up to date, nobody knows.
        ("required", &lists[1], [refused, refused]),
        ("required", &lists[2], [refused, refused]),
    ] {
        let asks =
            ["--client-tls-ca", &authority.root, "--client-tls-crl", list, "--client-tls-verify", verify];
        let proxy = proxy_with(&database, &identity, &asks);
        for (identity, expected) in [&good, &gone].into_iter().zip(expected) {
            assert_row(&format!("{verify} {list} {}", identity.cert), login(&proxy, identity), expected);
        }
    }
    let asks = ["--client-tls-ca", &authority.root, "--client-tls-crl", &lists[0]];
    let proxy = proxy_with(&database, &identity, &asks);
    assert!(login(&proxy, &good).is_ok());
    authority.list("now.crl", &[&gone, &good], 2060);
    proxy.signal("HUP");
    assert!(eventually(|| login(&proxy, &good).is_err()), "the list is read again");
}

#[test]
fn twins_are_rekeyed_and_bulk_survives_within_tls() {
    let (database, authority) = (Database::fresh(EV), Authority::new());
    let proxy =
        proxy_with(&database, &authority.issue("localhost", &["localhost"]), &["--client-tls", "require"]);
    let rows: String =
        (0..40_000).map(|row| format!("{:08x}-0000-4000-8000-{:012x}\tv{row}\n", row / 2, row / 2)).collect();
    let port = proxy.address.port().to_string();
    let target = format!("host=127.0.0.1 port={port} user=postgres dbname={} sslmode=require", database.name);
    let script = format!("COPY ev(id,v) FROM STDIN;\n{rows}\\.\n");
    succeed(&find("psql"), &["-X", "-v", "ON_ERROR_STOP=1", "-d", &target], &script);
    assert_eq!(database.stored("SELECT count(*), count(DISTINCT v) FROM ev"), ["40000|40000"]);
    let copied =
        succeed(&find("psql"), &["-X", "-d", &target, "-c", "COPY (SELECT v FROM ev) TO STDOUT"], "");
    assert_eq!(copied.lines().count(), 40_000);
    assert_eq!(proxy.settled_journal().len(), 20_000);
}

#[test]
fn pgbench_pipelines_run_within_tls() {
    let (database, authority) = (Database::fresh("CREATE TABLE t (n int)"), Authority::new());
    let proxy = proxy_with(&database, &authority.issue("localhost", &["localhost"]), &[]);
    let script = authority.file("pipeline.sql", "\\startpipeline\nBEGIN;\nINSERT INTO t VALUES (1);\nSELECT repeat('x', 100000);\nCOMMIT;\n\\endpipeline\n", 0o644);
    let target = format!(
        "host=127.0.0.1 port={} user=postgres dbname={} sslmode=require",
        proxy.address.port(),
        database.name
    );
    let report = succeed(
        &find("pgbench"),
        &["-n", "-M", "prepared", "-c", "4", "-t", "25", "-f", &script, &target],
        "",
    );
    assert!(report.contains("actually processed: 100/100"), "{report}");
    assert_eq!(database.stored("SELECT count(*) FROM t"), ["100"]);
}

#[test]
fn certificates_are_read_anew_for_new_connections() {
    let (database, old, new) = (Database::fresh(""), Authority::new(), Authority::new());
    let (first, second) = (old.issue("localhost", &["localhost"]), new.issue("localhost", &["localhost"]));
    let proxy = proxy_with(&database, &first, &[]);
    let trusts = |authority: &Authority| {
        psql(&proxy, &database, &format!("sslmode=verify-full sslrootcert={}", authority.root), "SELECT 1")
            .is_ok()
    };
    assert!(trusts(&old) && !trusts(&new));
    let mut open = requested(&proxy, client_config(&old, &[]));
    // A certificate without its key is no pair: what was there stays.
    std::fs::copy(&second.cert, &first.cert).expect("a file");
    proxy.signal("HUP");
    assert!(eventually(|| proxy.stderr().contains("stay as they were")) && trusts(&old));
    std::fs::copy(&second.key, &first.key).expect("a file");
    proxy.signal("HUP");
    assert!(eventually(|| trusts(&new)) && !trusts(&old));
    assert_eq!(
        first_tag(&mut open, &database.name),
        Some(b'R'),
        "a handshake under way is finished as it began"
    );
}

/// A client's side of TLS that trusts one authority.
fn client_config(authority: &Authority, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority.root).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the proxy listens");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket
}

fn encrypted(socket: TcpStream, config: Arc<ClientConfig>) -> Encrypted {
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(config, name).expect("a client"), socket)
}

/// TLS after a request for it.
fn requested(proxy: &Proxy, config: Arc<ClientConfig>) -> Encrypted {
    let mut socket = socket(proxy.address);
    socket.write_all(&SSL_REQUEST).expect("the proxy reads");
    let mut answer = [0];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"S");
    encrypted(socket, config)
}

/// What comes first after a startup packet; none if the connection ends.
fn first_tag(mut stream: impl Read + Write, database: &str) -> Option<u8> {
    stream.write_all(&message::startup(&[("user", "postgres"), ("database", database)])).ok()?;
    let mut tag = [0];
    stream.read_exact(&mut tag).ok()?;
    Some(tag[0])
}

#[test]
fn tls_from_the_first_byte_needs_the_name_of_the_protocol() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let proxy =
        proxy_with(&database, &authority.issue("localhost", &["localhost"]), &["--client-tls", "require"]);
    for (protocols, direct, requested_first) in [
        (&[&b"postgresql"[..]][..], Some(b'R'), Some(b'R')),
        (&[], None, Some(b'R')),
        (&[b"http/1.1"], None, None),
    ] {
        let config = client_config(&authority, protocols);
        let stream = encrypted(socket(proxy.address), Arc::clone(&config));
        assert_eq!(first_tag(stream, &database.name), direct, "{protocols:?}");
        assert_eq!(first_tag(requested(&proxy, config), &database.name), requested_first, "{protocols:?}");
    }
}

#[test]
fn bytes_before_the_handshake_are_refused() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let proxy = proxy_with(&database, &authority.issue("localhost", &["localhost"]), &[]);
    let mut wire = Wire::dial(proxy.address).expect("the proxy listens");
    let startup = message::startup(&[("user", "postgres"), ("database", &database.name)]);
    wire.send(&[&SSL_REQUEST[..], &startup].concat());
    let replies = wire.until_end();
    assert_eq!(
        replies.first().and_then(|reply| reply.field(b'M')).as_deref(),
        Some("received unencrypted data after SSL request")
    );
}

#[test]
fn requests_within_tls_are_no_startup_packets() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let proxy = proxy_with(&database, &authority.issue("localhost", &["localhost"]), &[]);
    for request in [SSL_REQUEST, GSSENC_REQUEST] {
        let mut stream = requested(&proxy, client_config(&authority, &[]));
        stream.write_all(&request).expect("the proxy reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("text");
        assert!(said.contains("unsupported frontend protocol 1234."), "{said}");
    }
    let mut socket = socket(proxy.address);
    socket.write_all(&GSSENC_REQUEST).expect("the proxy reads");
    let mut answer = [0];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"N");
}

#[test]
fn a_handshake_takes_no_longer_than_a_login() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let proxy =
        proxy_with(&database, &authority.issue("localhost", &["localhost"]), &["--login-timeout", "1s"]);
    for bytes in [&SSL_REQUEST[..], &[0x16, 3, 1]] {
        let started = Instant::now();
        let mut socket = socket(proxy.address);
        socket.write_all(bytes).expect("the proxy reads");
        let _ = socket.read_to_end(&mut Vec::new());
        assert!(started.elapsed() < Duration::from_secs(20), "{bytes:?}");
    }
}

#[test]
fn a_request_to_cancel_may_be_encrypted() {
    let (database, authority) = (Database::fresh(""), Authority::new());
    let proxy = proxy_with(&database, &authority.issue("localhost", &["localhost"]), &[]);
    let mut sleeper = proxy.connect();
    sleeper.send(&message::query("SELECT pg_sleep(50)"));
    let sleeps = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
        database.name
    );
    assert!(eventually(|| database.stored(&sleeps) == ["1"]));
    let mut canceller = requested(&proxy, client_config(&authority, &[b"postgresql"]));
    canceller.write_all(&message::cancel(&sleeper.backend_key)).expect("the proxy reads");
    assert_eq!(canceller.read_to_end(&mut Vec::new()).ok(), Some(0), "a cancel request has no reply");
    assert_eq!(crate::support::wire::outcomes(&sleeper.until_ready(1)), ["!57014"]);
}

#[test]
fn files_that_cannot_be_used_are_told_at_the_start() {
    let authority = Authority::new();
    let identity = authority.issue("localhost", &["localhost"]);
    let open = authority.file("open.key", &std::fs::read_to_string(&identity.key).expect("a key"), 0o644);
    let stranger = authority.issue("another", &[]);
    let encrypted = |name: &str, arguments: &[&str]| {
        let path = authority.file(name, "", 0o600);
        let whole = [arguments, &["-aes128", "-passout", "pass:secret", "-in", &identity.key, "-out", &path]];
        succeed(&find("openssl"), &whole.concat(), "");
        path
    };
    let (pkcs8, traditional) =
        (encrypted("pkcs8.key", &["pkey"]), encrypted("traditional.key", &["pkey", "-traditional"]));
    for (arguments, expected) in [
        (["--client-tls-cert", &identity.cert, "--client-tls-key", &open], "run `chmod o= "),
        (
            ["--client-tls-cert", &identity.cert, "--client-tls-key", "/nonexistent"],
            "cannot use /nonexistent: No such file",
        ),
        (["--client-tls-cert", &identity.key, "--client-tls-key", &identity.key], "holds no certificate"),
        (["--client-tls-cert", &identity.cert, "--client-tls-key", &pkcs8], "its key is encrypted"),
        (["--client-tls-cert", &identity.cert, "--client-tls-key", &traditional], "its key is encrypted"),
        (["--client-tls-cert", &identity.cert, "--client-tls-key", &stranger.key], "is not its key"),
        (
            ["--client-tls-cert", &identity.cert, "--client-tls", "require"],
            "client_tls_cert and client_tls_key need each other",
        ),
    ] {
        let rest = [
            "--upstream",
            "postgres://127.0.0.1:1",
            "--listen",
            "127.0.0.1:0",
            "--journal",
            "/nonexistent/j.jsonl",
        ];
        let journal = authority.file("journal.jsonl", "", 0o600);
        let rest = rest
            .map(|argument| if argument.starts_with("/nonexistent") { journal.as_str() } else { argument });
        let output = run(&crate::support::proxy::binary(), &[&rest[..], &arguments].concat(), "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
}
