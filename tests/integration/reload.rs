//! SIGHUP: the configuration is read again, and sessions follow it without being dropped.

use std::path::Path;

use crate::expect::expect_rows;
use crate::limits::farewell;
use crate::protection::{configured, spelled};
use crate::scenario::EV;
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy, Wire, eventually};

const TWINS: &str = "INSERT INTO ev(id) VALUES ('{K}'), ('{K}')";

fn tell(client: &mut Wire, sql: &str) -> String {
    outcomes(&client.query(spelled(sql))).join(" ")
}

/// Writes a configuration and has it read; waits until the log says this once more.
fn reload(proxy: &Proxy, directory: &Path, configuration: &str, says: &str) {
    let count = || proxy.stderr().matches(says).count();
    let before = count();
    std::fs::write(directory.join("untwin.toml"), configuration).expect("the file can be written");
    proxy.signal("HUP");
    assert!(eventually(|| count() > before), "{says}: {}", proxy.stderr());
}

const READ: &str = "the configuration was read again";

#[test]
fn open_sessions_follow_a_new_configuration_from_their_next_transaction_on() {
    let database = Database::fresh(EV);
    let (proxy, directory) = configured(&database, "mode = \"observe\"");
    let (mut idle, mut busy) = (proxy.connect(), proxy.connect());
    assert_eq!(tell(&mut idle, TWINS), "!23505");
    busy.run("BEGIN");
    reload(&proxy, directory.path(), "mode = \"rewrite\"", READ);
    assert_eq!(tell(&mut busy, TWINS), "!23505");
    assert_eq!(tell(&mut busy, "ROLLBACK"), "ROLLBACK");
    for client in [&mut idle, &mut busy, &mut proxy.connect()] {
        database.run("TRUNCATE ev");
        assert_eq!(tell(client, TWINS), "INSERT 0 2");
        expect_rows(&["K", "U"], &database.stored("SELECT id FROM ev ORDER BY ctid"));
    }
    reload(&proxy, directory.path(), "max_statement_bytes = 20", READ);
    assert_eq!(tell(&mut idle, "INSERT INTO ev(id) VALUES ('{L}'), ('{L}')"), "!23505");
    assert!(farewell(proxy).contains("statement too large: 1"));
}

#[test]
fn a_transaction_is_saved_though_the_configuration_is_read_again_in_its_middle() {
    let database = Database::fresh(EV);
    let (proxy, directory) = configured(&database, "");
    let mut busy = proxy.connect();
    busy.run("BEGIN");
    assert_eq!(tell(&mut busy, "INSERT INTO ev(id) VALUES ('{K}')"), "INSERT 0 1");
    reload(&proxy, directory.path(), "", READ);
    // Another session takes the catalog anew.
    assert_eq!(tell(&mut proxy.connect(), "INSERT INTO ev(id) VALUES ('{L}')"), "INSERT 0 1");
    assert_eq!(tell(&mut busy, "INSERT INTO ev(id) VALUES ('{K}')"), "INSERT 0 1");
    assert_eq!(tell(&mut busy, "COMMIT"), "COMMIT");
}

#[test]
fn keys_are_opted_in_and_switched_off_while_sessions_are_open() {
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY DEFERRABLE)");
    let (proxy, directory) = configured(&database, "");
    let mut client = proxy.connect();
    let table = |protect| format!("[[table]]\nname = \"public.ev\"\nprotect = {protect}");
    assert_eq!(tell(&mut client, TWINS), "!23505");
    reload(&proxy, directory.path(), &table(true), READ);
    assert_eq!(tell(&mut client, TWINS), "INSERT 0 2");
    reload(&proxy, directory.path(), &table(false), READ);
    assert_eq!(tell(&mut client, "INSERT INTO ev(id) VALUES ('{L}'), ('{L}')"), "!23505");
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let database = Database::fresh(EV);
    let (proxy, directory) = configured(&database, "mode = \"observe\"");
    let mut client = proxy.connect();
    reload(&proxy, directory.path(), "mode = \"bold\"", "the configuration stays as it was");
    assert!(proxy.stderr().contains("untwin.toml:1:8"), "{}", proxy.stderr());
    assert_eq!(tell(&mut client, TWINS), "!23505");
    assert_eq!(tell(&mut proxy.connect(), TWINS), "!23505");
}

#[test]
fn settings_that_need_a_new_start_are_named() {
    let database = Database::fresh(EV);
    // The addresses are given as flags, which win over the file.
    let (proxy, directory) = configured(&database, "workers = 2");
    let changed = "workers = 3\nlogin_timeout = \"7s\"\nmode = \"observe\"";
    reload(&proxy, directory.path(), changed, READ);
    let told = proxy.stderr();
    for setting in ["workers", "login_timeout"] {
        let warning = format!("this setting changes only when untwin is started again setting=\"{setting}\"");
        assert_eq!(told.matches(&warning).count(), 1, "{setting}: {told}");
    }
    assert_eq!(told.matches("started again").count(), 2, "{told}");
    assert_eq!(tell(&mut proxy.connect(), TWINS), "!23505");
}
