//! A new process takes over from an old one, and nobody's connection fails.

use std::time::Duration;

use crate::support::program::{find, run, succeed};
use crate::support::{Database, Proxy};

/// Far more than an end needs while clients come and go.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_new_process_takes_over_without_a_failed_connection() {
    let database = Database::fresh("");
    let direct = database.address.port().to_string();
    let pgbench = find("pgbench");
    let target = ["-h", "127.0.0.1", "-U", "postgres", "-n", &database.name];
    succeed(&pgbench, &[&["-i", "-q", "-p", &direct], &target[..]].concat(), "");
    let first = Proxy::with(&database, &["--reuse-port"]);
    let address = first.address.to_string();
    let port = first.address.port().to_string();
    // Each transaction on a connection of its own.
    let load = ["-C", "-p", &port, "-c", "8", "-j", "2", "-T", "6"];
    let report = std::thread::scope(|scope| {
        let load = scope.spawn(|| run(&pgbench, &[&load, &target[..]].concat(), ""));
        let mut serving = first;
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(800));
            let next = Proxy::with(&database, &["--reuse-port", "--listen", &address]);
            let mut former = std::mem::replace(&mut serving, next);
            former.signal("TERM");
            assert_eq!(former.exit_code(LIMIT), Some(0));
        }
        load.join().expect("pgbench ran")
    });
    let said = String::from_utf8_lossy(&[report.stdout, report.stderr].concat()).into_owned();
    assert!(report.status.success(), "{said}");
    assert!(said.contains("number of failed transactions: 0 (0.000%)"), "{said}");
    let processed =
        said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    assert_eq!(
        processed,
        Some(database.stored("SELECT count(*) FROM pgbench_history")[0].as_str()),
        "{said}"
    );
}

#[test]
fn without_the_setting_an_address_is_taken_once() {
    let database = Database::fresh("");
    let first = Proxy::before(&database);
    let second = std::process::Command::new(crate::support::proxy::binary())
        .args(["--upstream", "postgres://127.0.0.1:1", "--listen", &first.address.to_string()])
        .args(["--journal", "/dev/null"])
        .output()
        .expect("the binary starts");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("cannot listen on {}", first.address)), "{said}");
}
