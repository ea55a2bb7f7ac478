//! Sockets in directories, on either side and on both, as psql uses them.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::cluster::{Cluster, shared};
use crate::support::program::{find, succeed};
use crate::support::{Database, Proxy, eventually};

fn psql(host: &Path, port: u16, database: &str, sql: &str) -> String {
    let host = host.to_str().expect("a path");
    let port = port.to_string();
    let arguments = ["-X", "-A", "-t", "-h", host, "-p", &port, "-U", "postgres", "-d", database, "-c", sql];
    succeed(&find("psql"), &arguments, "").trim_end().to_owned()
}

/// The URL of the server's own socket, by which nothing goes over the network.
fn socket_url(cluster: &Cluster) -> String {
    format!("postgres:///?host={}&port={}", cluster.directory().display(), cluster.address().port())
}

#[test]
fn psql_works_over_sockets_on_both_sides() {
    let database = Database::fresh("");
    let directory = TempDir::new().expect("a temporary directory");
    let here = format!("{}:7001", directory.path().display());
    let listen = format!("127.0.0.1:0,{here}");
    let url = socket_url(shared());
    let mut proxy = Proxy::before_url(&url, &database.name, &["--listen", &listen, "--socket-mode", "0750"]);
    let file = directory.path().join(".s.PGSQL.7001");
    let found = std::fs::metadata(&file).expect("the socket's file");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o7777, 0o750);
    assert_eq!(psql(directory.path(), 7001, &database.name, "SELECT inet_client_addr() IS NULL"), "t");
    assert_eq!(proxy.connect().rows("SELECT inet_client_addr() IS NULL"), ["t"]);
    proxy.signal("TERM");
    assert_eq!(proxy.exit_code(Duration::from_secs(30)), Some(0));
    assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0);
}

#[test]
fn a_socket_is_taken_over_and_one_left_behind_is_replaced() {
    let database = Database::fresh("");
    let directory = TempDir::new().expect("a temporary directory");
    let listen = format!("127.0.0.1:0,{}:7001", directory.path().display());
    let file = directory.path().join(".s.PGSQL.7001");
    let start = |more: &[&str]| Proxy::with(&database, &[&["--listen", &listen], more].concat());
    let ask = || psql(directory.path(), 7001, &database.name, "SELECT 'served'");
    let mut first = start(&["--reuse-port"]);
    let second = start(&["--reuse-port"]);
    first.signal("TERM");
    assert_eq!(first.exit_code(Duration::from_secs(30)), Some(0));
    assert_eq!(ask(), "served");
    // Ended without a chance to tidy up.
    drop(second);
    assert!(file.exists());
    let third = start(&[]);
    assert!(eventually(|| ask() == "served"));
    drop(third);
}
