//! Past a limit untwin stops rekeying for the transaction, says so once, and keeps relaying.

use crate::expect::expect_rows;
use crate::protection::spelled;
use crate::scenario::EV;
use crate::support::message::{self, text};
use crate::support::wire::{Wire, outcomes};
use crate::support::{Database, Proxy, eventually};

/// Different keys, none of which is one of the letters'.
fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:08x}-0000-4000-8000-000000000000")).collect()
}

fn insert(keys: &[String]) -> String {
    let rows: Vec<String> = keys.iter().map(|key| format!("('{key}')")).collect();
    format!("INSERT INTO ev(id) VALUES {}", rows.join(","))
}

fn tell(client: &mut Wire, sql: &str) -> String {
    outcomes(&client.query(spelled(sql))).join(" ")
}

/// Lines of the journal that say this.
fn notes(proxy: &Proxy, what: &str) -> usize {
    let text = std::fs::read_to_string(proxy.journal_path()).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"note\"") && line.contains(what)).count()
}

/// Ends the proxy; gives its last words.
pub fn farewell(mut proxy: Proxy) -> String {
    proxy.signal("TERM");
    assert!(eventually(|| proxy.stderr().contains("untwin ends")), "{}", proxy.stderr());
    while proxy.is_running() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told = proxy.stderr();
    told.lines().find(|line| line.contains("untwin ends")).unwrap_or_default().to_owned()
}

const TWIN: &str = "INSERT INTO ev(id) VALUES ('{K}')";

#[test]
fn a_transaction_past_its_limit_is_relayed_and_the_next_one_is_protected_again() {
    let database = Database::fresh(EV);
    let many = keys(20);
    let places: Vec<String> = (1..=20).map(|n| format!("(${n})")).collect();
    let values: Vec<_> = many.iter().map(|key| text(key)).collect();
    let bound = format!("INSERT INTO ev(id) VALUES {}", places.join(","));
    let copied = [
        message::query("COPY ev(id) FROM STDIN"),
        message::copy_data(format!("{}\n", many.join("\n")).as_bytes()),
        message::copy_done(),
    ];
    let forms = [
        message::query(insert(&many)),
        [message::extended(&bound, &values), message::sync()].concat(),
        copied.concat(),
    ];
    let proxy = Proxy::with(&database, &["--max-transaction-key-bytes", "1KiB"]);
    for (past, form) in forms.iter().enumerate() {
        database.run("TRUNCATE ev");
        let mut client = proxy.connect();
        assert_eq!(tell(&mut client, "BEGIN"), "BEGIN");
        let told = outcomes(&client.converse(form, 1));
        assert!(told == ["INSERT 0 20"] || told == ["COPY 20"], "{told:?}");
        assert_eq!(tell(&mut client, TWIN), "INSERT 0 1");
        assert_eq!(tell(&mut client, TWIN), "!23505");
        assert_eq!(tell(&mut client, "ROLLBACK"), "ROLLBACK");
        assert_eq!(notes(&proxy, "max_transaction_key_bytes reached"), past + 1);
        assert_eq!(
            tell(&mut client, &format!("BEGIN; {TWIN}; {TWIN}; COMMIT")),
            "BEGIN INSERT 0 1 INSERT 0 1 COMMIT"
        );
        expect_rows(&["K", "U"], &database.stored("SELECT id FROM ev ORDER BY ctid"));
    }
    let told = farewell(proxy);
    assert!(told.contains("max_transaction_key_bytes: 3"), "{told}");
    // In each of the three, two INSERTs; and the COPY that went past the limit halfway.
    assert!(told.contains("uninspected=limit: 7") && told.contains("key_bytes=0"), "{told}");
}

#[test]
fn portals_that_are_bound_count_before_they_are_executed() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--max-transaction-key-bytes", "1KiB"]);
    let mut bytes = message::parse("s", "INSERT INTO ev(id) VALUES ($1)", &[]);
    for (n, key) in keys(20).iter().enumerate() {
        bytes.extend(message::bind(&format!("p{n}"), "s", &[text(key)]));
    }
    bytes.extend(message::sync());
    let mut client = proxy.connect();
    client.run("BEGIN");
    client.converse(&bytes, 1);
    assert_eq!(notes(&proxy, "max_transaction_key_bytes reached"), 1);
    assert_eq!(tell(&mut client, "COMMIT"), "COMMIT");
}

#[test]
fn references_to_keys_that_were_shared_before_the_limit_are_still_followed() {
    let database = Database::fresh(
        "CREATE TABLE ev (id uuid PRIMARY KEY, v text); CREATE TABLE c (p uuid REFERENCES ev, v text)",
    );
    let proxy = Proxy::with(&database, &["--max-transaction-key-bytes", "2KiB"]);
    let mut client = proxy.connect();
    let many = insert(&keys(100));
    let statements = [
        "BEGIN",
        "INSERT INTO ev VALUES ('{K}', 'a')",
        "INSERT INTO c VALUES ('{K}', 'of a')",
        "INSERT INTO ev VALUES ('{K}', 'b')",
        &many,
        "INSERT INTO c VALUES ('{K}', 'of b')",
        &many.replace("-8000-", "-8001-"),
    ];
    statements.iter().for_each(|sql| client.run(&spelled(sql)));
    let copied = [
        message::query("COPY c FROM STDIN"),
        message::copy_data(spelled("{K}\tlate\n").as_bytes()),
        message::copy_done(),
    ];
    assert_eq!(outcomes(&client.converse(&copied.concat(), 1)), ["COPY 1"]);
    client.run("COMMIT");
    assert_eq!(notes(&proxy, "max_transaction_key_bytes reached"), 1);
    let stored = database.stored("SELECT p.id, p.v, c.v FROM c JOIN ev p ON p.id = c.p ORDER BY c.ctid");
    expect_rows(&["K|a|of a", "U|b|of b", "U|b|late"], &stored);
}

#[test]
fn the_session_that_goes_past_the_limit_of_all_is_the_one_that_stops() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--max-total-key-bytes", "2KiB"]);
    let (mut one, mut other) = (proxy.connect(), proxy.connect());
    let many = keys(30);
    let (first, second) = many.split_at(15);
    one.run("BEGIN");
    one.run(&insert(first));
    other.run("BEGIN");
    other.run(&insert(second));
    assert_eq!(notes(&proxy, "max_total_key_bytes reached"), 1);
    assert_eq!(tell(&mut other, &insert(&second[..1])), "!23505");
    assert_eq!(tell(&mut one, &insert(&first[..1])), "INSERT 0 1");
    other.run("ROLLBACK");
    one.run("COMMIT");
    assert_eq!(tell(&mut other, &format!("{0}; {0}", insert(&second[..1]))), "INSERT 0 1 INSERT 0 1");
    drop((one, other));
    let told = farewell(proxy);
    assert!(told.contains("max_total_key_bytes: 1") && told.contains("key_bytes=0"), "{told}");
}

#[test]
fn a_statement_past_the_limit_passes_untouched_and_is_counted() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &["--max-statement-bytes", "64KiB"]);
    let mut client = proxy.connect();
    let payload = "x".repeat(1 << 20);
    let twins = format!("INSERT INTO ev(id, v) VALUES ('{{K}}', '{payload}'), ('{{K}}', 'b')");
    assert_eq!(tell(&mut client, &twins), "!23505");
    let distinct = format!("INSERT INTO ev(id, v) VALUES ('{{K}}', '{payload}'), ('{{L}}', 'b')");
    assert_eq!(tell(&mut client, &distinct), "INSERT 0 2");
    let stored = database.stored("SELECT id, length(v) FROM ev ORDER BY id");
    expect_rows(&["K|1048576", "L|1"], &stored);
    assert_eq!(tell(&mut client, "INSERT INTO ev(id) VALUES ('{M}'), ('{M}')"), "INSERT 0 2");
    let told = farewell(proxy);
    assert!(told.contains("uninspected=statement too large: 2") && told.contains("rekeyed=1"), "{told}");
}
