//! Every way to log in, through every pair of hops: what passes unchanged, and what cannot.

use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::KeyPair;

use crate::support::pki::Authority;
use crate::support::program::{find, run};
use crate::support::{Proxy, Wire, eventually};
use crate::tls_servers::{Server, server};

/// A proxy between two hops.
pub struct Hops {
    pub name: &'static str,
    pub proxy: Proxy,
    pub sslmode: &'static str,
}

/// What psql says; the message alone if it fails.
pub fn psql(proxy: &Proxy, user: &str, parameters: &str) -> Result<String, String> {
    ask(proxy, user, parameters, "SELECT current_user")
}

fn ask(proxy: &Proxy, user: &str, parameters: &str, sql: &str) -> Result<String, String> {
    let port = proxy.address.port();
    let target = format!("host=127.0.0.1 port={port} user={user} dbname=postgres {parameters}");
    let output = run(&find("psql"), &["-X", "-A", "-t", "-w", "-d", &target, "-c", sql], "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn certificate(identity: &crate::support::pki::Identity) -> [String; 4] {
    ["--client-tls-cert".into(), identity.cert.clone(), "--client-tls-key".into(), identity.key.clone()]
}

/// The five pairs of hops, with more arguments for each proxy.
pub fn hops(server: &Server, arguments: &[&str]) -> Vec<Hops> {
    let other = server.authority.issue("localhost", &["localhost"]);
    let (own, other) = (certificate(&server.identity), certificate(&other));
    let hops = |name, upstream: &str, shown: &[String], sslmode| {
        let shown = shown.iter().map(String::as_str);
        let arguments: Vec<&str> = shown.chain(arguments.iter().copied()).collect();
        Hops { name, proxy: Proxy::of_url(&server.url(upstream), "postgres", &arguments), sslmode }
    };
    vec![
        hops("plain, plain", "sslmode=disable", &[], "disable"),
        hops("plain, TLS", "sslmode=require", &[], "disable"),
        hops("TLS, plain", "sslmode=disable", &other, "require"),
        hops("TLS, TLS with the server's certificate", "sslmode=require", &own, "require"),
        hops("TLS, TLS with another certificate", "sslmode=require", &other, "require"),
    ]
}

#[test]
fn scram_is_bound_by_another_digest_and_an_older_tls_too() {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    let authority = Authority::with(key);
    let identity = authority.issue("server", &["localhost", "127.0.0.1"]);
    let server = Server::with(authority, identity, "ssl_max_protocol_version=TLSv1.2");
    let file = users_file(&server, &format!("\"scram\" \"{}\"\n", stored(&server, "scram")));
    let own = certificate(&server.identity);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let ends = ["--auth", "terminate", "--auth-file", &file];
    for arguments in [own.clone(), [&own[..], &ends].concat()] {
        let proxy = Proxy::of_url(&server.url("sslmode=require"), "postgres", &arguments);
        let hops = Hops { name: "SHA-384, TLS 1.2", proxy, sslmode: "require" };
        assert_row(&hops, "scram", [None, None, None]);
    }
    // Bound to another certificate, the server says no.
    let other = server.authority.issue("other", &["localhost"]);
    let (other, upstream) = (certificate(&other), server.url("sslmode=require"));
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let hops = Hops {
        name: "SHA-384, TLS 1.2",
        proxy: Proxy::of_url(&upstream, "postgres", &other),
        sslmode: "require",
    };
    let refused = psql(&hops.proxy, "scram", "password=secret sslmode=require");
    assert!(refused.is_err_and(|error| error.contains("HINT:  SCRAM channel binding cannot pass")));
}

const BINDINGS: [&str; 3] = ["disable", "prefer", "require"];

/// What becomes of each setting of `channel_binding`: a part of the error, or nothing.
pub type Row = [Option<&'static str>; 3];

pub fn assert_row(hops: &Hops, user: &str, row: Row) {
    for (binding, expected) in BINDINGS.into_iter().zip(row) {
        let parameters = format!("password=secret sslmode={} channel_binding={binding}", hops.sslmode);
        let what = format!("{}: {user}, channel_binding={binding}", hops.name);
        match (psql(&hops.proxy, user, &parameters), expected) {
            (Ok(name), None) => assert_eq!(name, user, "{what}"),
            (Err(error), Some(expected)) => assert!(error.contains(expected), "{what}: {error}"),
            (actual, expected) => panic!("{what}: {actual:?}, not {expected:?}\n{}", hops.proxy.stderr()),
        }
    }
}

#[test]
fn scram_passes_wherever_it_can() {
    let server = server();
    let unencrypted = Some("channel binding required, but SSL not in use");
    let not_offered = Some("channel binding is required, but server did not offer");
    let rows: [Row; 5] = [
        [None, None, unencrypted],
        [None, None, unencrypted],
        [None, None, not_offered],
        [None, None, None],
        // The server's words, with the hint that untwin adds.
        [
            None,
            Some(
                "However, this server does support channel binding.\nHINT:  SCRAM channel binding cannot pass a proxy that ends TLS: set channel_binding=disable",
            ),
            not_offered,
        ],
    ];
    for (hops, row) in hops(&server, &[]).iter().zip(rows) {
        assert_row(hops, "scram", row);
        let is_split = row[1].is_some();
        let explains = || hops.proxy.stderr().matches("or set auth = ").count() == 2;
        assert_eq!(is_split && eventually(explains), is_split, "{}: {}", hops.name, hops.proxy.stderr());
        assert!(is_split || !hops.proxy.stderr().contains("channel_binding=disable"), "{}", hops.name);
    }
}

#[test]
fn scram_passes_over_unix_sockets() {
    let server = server();
    let other = certificate(&server.authority.issue("socket", &["localhost"]));
    let (port, directory) = (server.cluster.address().port(), server.cluster.directory().display());
    let socket = format!("postgres:///?host={directory}&port={port}");
    let listening = tempfile::tempdir().expect("a temporary directory");
    let listening = listening.path().to_str().expect("a path of ours");
    let unencrypted = Some("channel binding required, but SSL not in use");
    let not_offered = Some("channel binding is required, but server did not offer");
    let both = format!("127.0.0.1:0,{listening}:6000");
    for (name, upstream, client, row) in [
        ("socket, TLS", server.url("sslmode=require"), Some(listening), [None, None, unencrypted]),
        ("socket, socket", socket.clone(), Some(listening), [None, None, unencrypted]),
        ("TLS, socket", socket, None, [None, None, not_offered]),
    ] {
        let arguments: Vec<&str> = other.iter().map(String::as_str).chain(["--listen", &both]).collect();
        let proxy = Proxy::of_url(&upstream, "postgres", &arguments);
        let sslmode = if client.is_some() { "disable" } else { "require" };
        for (binding, expected) in BINDINGS.into_iter().zip(row) {
            let place = client.map_or(String::new(), |directory| format!("host={directory} port=6000"));
            let parameters = format!("password=secret sslmode={sslmode} channel_binding={binding} {place}");
            let said = psql(&proxy, "scram", &parameters);
            let fits = match (&said, expected) {
                (Ok(name), None) => name == "scram",
                (Err(error), Some(expected)) => error.contains(expected),
                _ => false,
            };
            assert!(fits, "{name}, channel_binding={binding}: {said:?}");
        }
    }
}

#[test]
fn other_methods_pass_through_every_pair_of_hops() {
    let server = server();
    for hops in hops(&server, &[]) {
        for user in ["md5", "cleartext", "trusted"] {
            assert_row(&hops, user, [None, None, Some("channel binding required")]);
        }
        for (user, expected) in [("scram", "password"), ("md5", "password"), ("cleartext", "password")] {
            let refused = psql(
                &hops.proxy,
                user,
                &format!("password=wrong sslmode={} channel_binding=disable", hops.sslmode),
            );
            let expected = format!("{expected} authentication failed for user \"{user}\"");
            assert!(
                refused.as_ref().is_err_and(|error| error.contains(&expected)),
                "{}: {refused:?}",
                hops.name
            );
        }
    }
}

#[test]
fn replication_logs_in_through_every_pair_of_hops() {
    let server = server();
    let file = users_file(&server, "\"scram\" \"secret\"\n");
    for arguments in [&[][..], &["--auth", "terminate", "--auth-file", &file]] {
        for hops in hops(&server, arguments) {
            let parameters = format!(
                "password=secret sslmode={} channel_binding=disable replication=database",
                hops.sslmode
            );
            let answer = ask(&hops.proxy, "scram", &parameters, "IDENTIFY_SYSTEM");
            assert!(
                answer.as_ref().is_ok_and(|answer| answer.ends_with("|postgres")),
                "{}: {answer:?}",
                hops.name
            );
        }
    }
}

/// A file of users that only this test uses.
pub fn users_file(server: &Server, text: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    server.authority.file(&format!("users.{}", NEXT.fetch_add(1, Ordering::Relaxed)), text, 0o600)
}

/// What `pg_authid` has for a user.
pub fn stored(server: &Server, user: &str) -> String {
    let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'");
    Wire::connect(server.cluster.address(), "postgres").rows(&sql).remove(0)
}

#[test]
fn a_terminating_proxy_lets_every_method_through_every_pair_of_hops() {
    let server = server();
    let all = ["scram", "md5", "cleartext", "trusted"];
    let lines: String = all.iter().map(|user| format!("\"{user}\" \"secret\"\n")).collect();
    let file = users_file(&server, &lines);
    for hops in hops(&server, &["--auth", "terminate", "--auth-file", &file]) {
        let unencrypted = Some("channel binding required, but SSL not in use");
        let required = if hops.sslmode == "disable" { unencrypted } else { None };
        for user in all {
            assert_row(&hops, user, [None, None, required]);
        }
    }
}

#[test]
fn a_scram_secret_is_enough_where_the_server_asks_for_scram() {
    let server = server();
    let (scram, other) = (stored(&server, "scram"), stored(&server, "cleartext"));
    let lines = format!(
        "\"scram\" \"{scram}\"\n\"trusted\" \"{scram}\"\n\"cleartext\" \"{other}\"\n\"md5\" \"{other}\"\n"
    );
    let file = users_file(&server, &lines);
    let cleartext = Some(
        "the database server asks for the password in cleartext, of which untwin has a SCRAM secret only",
    );
    let md5 = Some(
        "the database server asks for an md5 hash of the password, of which untwin has a SCRAM secret only",
    );
    for hops in hops(&server, &["--auth", "terminate", "--auth-file", &file]) {
        let unencrypted = Some("channel binding required, but SSL not in use");
        let required = if hops.sslmode == "disable" { unencrypted } else { None };
        assert_row(&hops, "scram", [None, None, required]);
        assert_row(&hops, "trusted", [None, None, required]);
        for (user, expected) in [("cleartext", cleartext), ("md5", md5)] {
            assert_row(&hops, user, [expected, expected, required.or(expected)]);
        }
    }
}

#[test]
fn who_cannot_prove_a_name_learns_nothing() {
    let server = server();
    let file =
        users_file(&server, &format!("\"scram\" \"{}\"\n\"md5\" \"secret\"\n", stored(&server, "scram")));
    let proxy = Proxy::of_url(&server.url(""), "postgres", &["--auth", "terminate", "--auth-file", &file]);
    for user in ["scram", "md5", "trusted", "nobody"] {
        let refused = psql(&proxy, user, "password=wrong").unwrap_err();
        let expected = format!("FATAL:  password authentication failed for user \"{user}\"");
        assert!(refused.ends_with(&expected), "{refused}");
    }
    assert!(eventually(|| proxy.stderr().contains("auth_file has no such user")));
    assert!(!proxy.stderr().contains("SCRAM-SHA-256$"));
}

#[test]
fn a_file_that_the_server_disagrees_with_is_told_of() {
    let server = server();
    let lines = format!("\"scram\" \"{}\"\n\"cleartext\" \"wrong\"\n", stored(&server, "cleartext"));
    let proxy = Proxy::of_url(
        &server.url(""),
        "postgres",
        &["--auth", "terminate", "--auth-file", &users_file(&server, &lines)],
    );
    let refused = psql(&proxy, "scram", "password=secret").unwrap_err();
    assert!(refused.contains("by another SCRAM secret of this user than untwin has"), "{refused}");
    let refused = psql(&proxy, "cleartext", "password=wrong").unwrap_err();
    assert!(refused.contains("password authentication failed for user \"cleartext\""), "{refused}");
    assert!(eventually(|| proxy.stderr().contains("the server does not take the secret that untwin has")));
}

#[test]
fn users_are_read_anew() {
    let server = server();
    let file = users_file(&server, "\"nobody\" \"x\"\n");
    let proxy = Proxy::of_url(&server.url(""), "postgres", &["--auth", "terminate", "--auth-file", &file]);
    assert!(psql(&proxy, "scram", "password=secret").is_err());
    std::fs::write(&file, "\"scram\" \"secret\"\n").expect("a file");
    proxy.signal("HUP");
    assert!(eventually(|| psql(&proxy, "scram", "password=secret").is_ok()));
}
