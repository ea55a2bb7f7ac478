//! What Postgres 17 and 18 brought: each is a no-op on older servers, which is why these tests are run on a newer one as well.

use serde_json::Value as Json;

use crate::support::{Database, Proxy, cluster, message, wire};

const KEY: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

fn has(version: u32) -> bool {
    cluster::shared().version() >= version
}

fn rekeyed(proxy: &Proxy) -> Vec<Json> {
    proxy.settled_journal().into_iter().filter(|record| record["action"] == "rekeyed").collect()
}

#[test]
fn virtual_generated_columns_take_no_value() {
    if !has(180_000) {
        return;
    }
    let database = Database::fresh(
        "CREATE TABLE ev (made text GENERATED ALWAYS AS (v || '!') VIRTUAL, id uuid PRIMARY KEY, v text)",
    );
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    wire.run(&format!(
        "BEGIN; INSERT INTO ev VALUES (DEFAULT, '{KEY}', 'a'), (DEFAULT, '{KEY}', 'b'); COMMIT"
    ));
    wire.send(&message::query("COPY ev FROM STDIN"));
    wire.until(b'G');
    let rows = message::copy_data(format!("{OTHER}\tc\n{OTHER}\td\n").as_bytes());
    let replies = wire.converse(&[rows, message::copy_done()].concat(), 1);
    assert_eq!(wire::outcomes(&replies), ["COPY 2"]);
    assert_eq!(database.stored("SELECT made FROM ev ORDER BY v"), ["a!", "b!", "c!", "d!"]);
    assert_eq!(rekeyed(&proxy).len(), 2);
}

#[test]
fn temporal_keys_are_no_unique_keys() {
    if !has(180_000) {
        return;
    }
    let database = Database::fresh(
        "CREATE EXTENSION btree_gist;
         CREATE TABLE t (id uuid, valid_at daterange, PRIMARY KEY (id, valid_at WITHOUT OVERLAPS));
         CREATE TABLE child (id uuid PRIMARY KEY, t uuid, at daterange, FOREIGN KEY (t, PERIOD at) REFERENCES t (id, PERIOD valid_at))",
    );
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let insert = |range: &str| format!("INSERT INTO t VALUES ('{KEY}', '{range}')");
    wire.run(&format!(
        "BEGIN; {}; {}; COMMIT",
        insert("[2020-01-01,2021-01-01)"),
        insert("[2021-01-01,2022-01-01)")
    ));
    assert_eq!(database.stored("SELECT DISTINCT id FROM t"), [KEY]);
    let overlapping = wire.query(format!("BEGIN; {}; {}", insert("[2030-01-01,)"), insert("[2030-01-01,)")));
    assert_eq!(wire::outcomes(&overlapping), ["BEGIN", "INSERT 0 1", "!23P01"]);
    wire.run("ROLLBACK");
    let child = format!("INSERT INTO child VALUES ('{OTHER}', '{KEY}', '[2020-02-01,2020-03-01)')");
    wire.run(&format!("BEGIN; {child}; {child}; COMMIT"));
    assert_eq!(database.stored("SELECT count(DISTINCT id) FROM child"), ["2"]);
}

#[test]
fn children_follow_through_a_constraint_that_is_not_enforced() {
    if !has(180_000) {
        return;
    }
    let database = Database::fresh(
        "CREATE TABLE p (id uuid PRIMARY KEY, v text);
         CREATE TABLE c (n int, p uuid REFERENCES p NOT ENFORCED)",
    );
    let proxy = Proxy::before(&database);
    let pair = |n: u32| format!("INSERT INTO p VALUES ('{KEY}', '{n}'); INSERT INTO c VALUES ({n}, '{KEY}')");
    proxy.connect().run(&format!("BEGIN; {}; {}; COMMIT", pair(1), pair(2)));
    let pairs = "SELECT n, v FROM c JOIN p ON p.id = c.p ORDER BY n";
    assert_eq!(database.stored(pairs), ["1|1", "2|2"]);
}

#[test]
fn returning_old_and_new_shows_what_was_stored_or_sent() {
    if !has(180_000) {
        return;
    }
    for (returning, is_sent) in [("stored", false), ("sent", true)] {
        let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, v text)");
        let proxy = Proxy::with(&database, &["--returning", returning]);
        let mut wire = proxy.connect();
        wire.run("BEGIN");
        for (alias, list) in [
            ("", "old.id, new.id, id"),
            ("WITH (OLD AS o, NEW AS n)", "o.id, n.id, id"),
            ("WITH (NEW AS old)", "NULL, old.id, ev.id"),
        ] {
            wire.run(&format!("INSERT INTO ev VALUES ('{KEY}', 'a')"));
            let rows = wire.rows(&format!(
                "INSERT INTO ev VALUES (gen_random_uuid(), 'x'), ('{KEY}', 'b') RETURNING {alias} {list}"
            ));
            assert_eq!(rows.len(), 2);
            for (row, what) in rows.iter().zip(["another", "twin"]) {
                let columns: Vec<&str> = row.split('|').collect();
                assert_eq!(
                    (columns[0], columns[1]),
                    ("\\N", columns[2]),
                    "{returning} {alias} {what}: {row}"
                );
            }
            assert_eq!(rows[1].ends_with(KEY), is_sent, "{returning} {alias}: {rows:?}");
            wire.run("DELETE FROM ev");
        }
        wire.run("COMMIT; BEGIN");
        let upserted = format!(
            "INSERT INTO ev VALUES ('{KEY}', 'c') ON CONFLICT (id) DO UPDATE SET v = excluded.v \
             RETURNING WITH (OLD AS o, NEW AS n) o.v, n.v"
        );
        assert_eq!(wire.rows(&upserted), ["\\N|c"]);
        assert_eq!(wire.rows(&upserted), ["c|c"]);
        wire.run("COMMIT");
    }
}

#[test]
fn merge_with_returning_is_left_alone() {
    if !has(170_000) {
        return;
    }
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, v text)");
    let proxy = Proxy::before(&database);
    let mut wire = proxy.connect();
    let merge = format!(
        "MERGE INTO ev USING (VALUES ('{KEY}'::uuid, 'a')) s(id, v) ON ev.id = s.id \
         WHEN MATCHED THEN UPDATE SET v = 'b' WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v) RETURNING merge_action(), ev.*"
    );
    wire.run("BEGIN");
    assert_eq!(wire.rows(&merge), [format!("INSERT|{KEY}|a")]);
    assert_eq!(wire.rows(&merge), [format!("UPDATE|{KEY}|b")]);
    wire.run("COMMIT");
    assert_eq!(proxy.settled_journal(), Vec::<Json>::new());
}
