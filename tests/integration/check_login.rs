//! How `untwin check` logs in: by the same URL as the proxy, over TLS, by SCRAM, with passwords from where libpq has them.

use std::process::{Command, Output};

use crate::support::cluster::free_port;
use crate::support::pki::Authority;
use crate::support::proxy::binary;
use crate::tls_servers::server;

/// Runs `untwin check` with these variables and nobody's home.
fn check(url: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.args(["check", "--upstream", url]).current_dir("/").env_clear();
    command.envs(variables.iter().copied()).output().expect("the binary starts")
}

fn assert_reads(url: &str, variables: &[(&str, &str)]) {
    let output = check(url, variables);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.is_empty(), "{url} {variables:?}: {told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(" UUID keys"), "{url}");
}

fn assert_fails(url: &str, variables: &[(&str, &str)], expected: &str) {
    let output = check(url, variables);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{url}: {told}");
    assert!(told.contains("cannot read the catalog of the database: ") && told.contains(expected), "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn it_speaks_tls_as_the_url_says() {
    let (server, other) = (server(), Authority::new());
    let own = server.authority.issue("shows_a_certificate", &[]);
    let url = |user: &str, parameters: &str| {
        format!("postgres://{user}@localhost:{}/postgres?{parameters}", server.cluster.address().port())
    };
    let (root, cert, key) = (&server.authority.root, &own.cert, &own.key);
    let shown = format!("sslcert={cert}&sslkey={key}");
    assert_reads(
        &url("shows_a_certificate", &format!("sslmode=verify-full&sslrootcert={root}&{shown}")),
        &[],
    );
    assert_reads(&url("demands_tls", "sslmode=require"), &[]);
    // As libpq, the default and `allow` find the way that the server takes.
    assert_reads(&url("demands_tls", "sslmode=allow"), &[]);
    assert_reads(&url("refuses_tls", "sslmode=prefer"), &[]);
    for (user, parameters, expected) in [
        ("shows_a_certificate", "sslmode=require", "connection requires a valid client certificate"),
        ("demands_tls", "sslmode=disable", "no pg_hba.conf entry"),
        ("trusted", &format!("sslmode=verify-full&sslrootcert={}", other.root), "UnknownIssuer"),
        ("trusted", "sslmode=verify-full&sslrootcert=/nowhere", "cannot use /nowhere: No such file"),
    ] {
        assert_fails(&url(user, parameters), &[], expected);
    }
}

#[test]
fn it_binds_scram_to_the_connection() {
    let server = server();
    let url = |sslmode: &str| {
        let address = server.cluster.address();
        format!("postgres://scram:secret@{address}/postgres?sslmode={sslmode}&channel_binding=require")
    };
    assert_reads(&url("require"), &[]);
    assert_fails(&url("disable"), &[], "channel binding");
}

#[test]
fn passwords_come_from_where_libpq_has_them() {
    let server = server();
    let (address, file) = (server.cluster.address(), |text: &str, mode| {
        server.authority.file(&format!("pgpass.{mode:o}"), text, mode)
    });
    let lines = format!("{}:{}:postgres:scram:secret\n", address.ip(), address.port());
    let (good, open) = (file(&lines, 0o600), file(&lines, 0o644));
    let home = tempfile::tempdir().expect("a temporary directory");
    std::fs::copy(&good, home.path().join(".pgpass")).expect("a file can be copied");
    let home = home.path().to_str().expect("a path of ours");
    for method in ["scram", "md5", "cleartext"] {
        let url = format!("postgres://{method}@{address}/postgres");
        assert_reads(&url, &[("PGPASSWORD", "secret")]);
        assert_reads(&url.replace('@', ":secret@"), &[("PGPASSWORD", "wrong")]);
        assert_fails(&url, &[("PGPASSWORD", "wrong")], "password authentication failed for user");
        assert_fails(&url, &[], "The URL names no password: write --upstream postgres://");
    }
    let url = format!("postgres://scram@{address}/postgres");
    assert_reads(&url, &[("PGPASSFILE", &good)]);
    assert_reads(&url, &[("HOME", home)]);
    assert_fails(&url, &[("PGPASSFILE", &open)], "is not used, since others have access to it");
}

#[test]
fn it_finds_its_server_among_several_and_on_a_unix_socket() {
    let server = server();
    let (address, nobody) = (server.cluster.address(), format!("127.0.0.1:{}", free_port()));
    let directory = server.cluster.directory().display();
    for url in [
        format!("postgres://trusted@{nobody},{address}/postgres"),
        format!("postgres://trusted@{nobody},{address}/postgres?target_session_attrs=primary"),
        format!(
            "postgres:///postgres?host={directory}&port={}&user=postgres&sslmode=require",
            address.port()
        ),
    ] {
        assert_reads(&url, &[]);
    }
    let both = format!("postgres://scram@{nobody},{address}/postgres?target_session_attrs=read-write");
    assert_reads(&both, &[("PGPASSWORD", "secret")]);
    let standby = format!("postgres://trusted@{nobody},{address}/postgres?target_session_attrs=standby");
    assert_fails(&standby, &[], "no server fits target_session_attrs=standby");
    assert_fails(&format!("postgres://u@{nobody}/d"), &[], "Connection refused");
}
