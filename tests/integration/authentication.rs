//! Every way to log in, through every pair of hops: what passes unchanged, and what cannot.

use crate::support::program::{find, run};
use crate::support::{Proxy, eventually};
use crate::tls_servers::{Server, server};

/// A proxy between two hops.
struct Hops {
    name: &'static str,
    proxy: Proxy,
    sslmode: &'static str,
}

/// What psql says; the message alone if it fails.
fn psql(proxy: &Proxy, user: &str, parameters: &str) -> Result<String, String> {
    let port = proxy.address.port();
    let target = format!("host=127.0.0.1 port={port} user={user} dbname=postgres {parameters}");
    let output =
        run(&find("psql"), &["-X", "-A", "-t", "-w", "-d", &target, "-c", "SELECT current_user"], "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn certificate(identity: &crate::support::pki::Identity) -> [String; 4] {
    ["--client-tls-cert".into(), identity.cert.clone(), "--client-tls-key".into(), identity.key.clone()]
}

/// The five pairs of hops, with more arguments for each proxy.
fn hops(server: &Server, arguments: &[&str]) -> Vec<Hops> {
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

const BINDINGS: [&str; 3] = ["disable", "prefer", "require"];

/// What becomes of each setting of `channel_binding`: a part of the error, or nothing.
type Row = [Option<&'static str>; 3];

fn assert_row(hops: &Hops, user: &str, row: Row) {
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
        [None, Some("SCRAM channel binding negotiation error"), not_offered],
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
