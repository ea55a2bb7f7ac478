//! What the journal says of a rewrite, and how the command line prints it.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::expect::LETTERS;
use crate::scenario::EV;
use crate::support::message::{self, Value, text};
use crate::support::proxy::binary;
use crate::support::{Database, Proxy, Wire, program, wire};

#[test]
fn a_record_says_what_was_rewritten() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let application = [("user", "postgres"), ("database", &database.name), ("application_name", "import")];
    let mut client = Wire::connect_with(proxy.address, &application);
    client.run(&format!("INSERT INTO ev(id,v) VALUES ('{k}','a'),('{k}','b')"));
    let records = proxy.settled_journal();
    let [record] = &records[..] else { panic!("{records:#?}") };
    let expected = json!({
        "action": "rekeyed", "fate": "committed", "database": database.name, "table": "public.ev", "constraint": "ev_pkey", "column": "id",
        "old": k, "statement": 1, "row": 2, "first": {"statement": 1, "row": 1}, "carrier": "literal", "identical": false,
        "user": "postgres", "application": "import",
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(&record[field], value, "{field} of {record:#}");
    }
    assert_eq!(database.stored("SELECT id FROM ev WHERE v = 'b'"), [record["new"].as_str().expect("a key")]);
    for field in ["at", "id", "client", "session"] {
        assert!(!record[field].is_null(), "{field} of {record:#}");
    }
}

#[test]
fn a_select_of_a_shared_key_is_noted_and_an_insert_of_it_is_not() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let notes = || {
        let journal = std::fs::read_to_string(proxy.journal_path()).expect("the journal is there");
        journal.matches("a SELECT names a key that two rows were sent with").count()
    };
    client.run("BEGIN");
    for v in ["a", "b", "c"] {
        client.run(&format!("INSERT INTO ev(id,v) VALUES ('{k}','{v}')"));
    }
    assert_eq!(notes(), 0);
    assert_eq!(client.rows(&format!("SELECT v FROM ev WHERE id = '{k}'")), ["a"]);
    assert_eq!(notes(), 1);
    client.run("COMMIT");
}

#[test]
fn the_carrier_is_named() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh(EV);
    let parameters = [
        message::extended(
            "INSERT INTO ev(id,v) VALUES ($1,$2),($3,$4)",
            &[text(k), text("a"), text(k), text("b")],
        ),
        message::sync(),
    ];
    let arrays = [
        message::extended(
            "INSERT INTO ev(id,v) SELECT * FROM unnest($1::uuid[],$2::text[])",
            &[text(&format!("{{{k},{k}}}")), text("{a,b}")],
        ),
        message::sync(),
    ];
    let json = format!(r#"[{{"id":"{k}","v":"a"}},{{"id":"{k}","v":"b"}}]"#);
    let documents = [
        message::extended(
            "INSERT INTO ev(id,v) SELECT id, v FROM json_to_recordset($1) AS r(id uuid, v text)",
            &[Value::Text(json)],
        ),
        message::sync(),
    ];
    let copy = |sql: &str, data: String| {
        [message::query(sql), [message::copy_data(data.as_bytes()), message::copy_done()].concat()].concat()
    };
    let cases = [
        ("literal", message::query(format!("INSERT INTO ev(id,v) VALUES ('{k}','a'),('{k}','b')"))),
        ("parameter", parameters.concat()),
        ("array", arrays.concat()),
        ("json", documents.concat()),
        ("copy_text", copy("COPY ev(id,v) FROM STDIN", format!("{k}\ta\n{k}\tb\n"))),
        ("copy_csv", copy("COPY ev(id,v) FROM STDIN (FORMAT csv)", format!("{k},a\n{k},b\n"))),
    ];
    for (carrier, bytes) in cases {
        database.run("TRUNCATE ev");
        let proxy = Proxy::before(&database);
        let replies = proxy.connect().converse(&bytes, 1);
        assert!(!wire::outcomes(&replies)[0].starts_with('!'), "{carrier}: {:?}", wire::outcomes(&replies));
        let carriers: Vec<Json> =
            proxy.settled_journal().iter().map(|record| record["carrier"].clone()).collect();
        assert_eq!(carriers, [carrier]);
    }
}

#[test]
fn equal_rows_are_marked() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    proxy.connect().run(&format!(
        "INSERT INTO ev VALUES ('{k}','a','s'),('{k}','a','s'),('{l}','a','s'),('{l}','b','s')"
    ));
    let identical: Vec<Json> =
        proxy.settled_journal().iter().map(|record| record["identical"].clone()).collect();
    assert_eq!(identical, [true, false]);
}

#[test]
fn a_rewrite_is_on_record_before_the_server_sees_it() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let mut client = proxy.connect();
    for turn in 1..=50 {
        client.run(&format!("BEGIN; INSERT INTO ev(id,v) VALUES ('{k}','a'),('{k}','b')"));
        let records = proxy.journal();
        assert_eq!(records.len(), turn, "the reply was here before the record");
        assert_eq!(records[turn - 1]["fate"], "pending");
        client.run("ROLLBACK");
    }
    assert!(proxy.settled_journal().iter().all(|record| record["fate"] == "rolled_back"));
}

#[test]
fn the_log_command_prints_records_with_their_fates() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    proxy.connect().run(&format!("INSERT INTO ev(id,v) VALUES ('{k}','a'),('{k}','b')"));
    let expected = proxy.settled_journal();
    let path = proxy.journal_path().to_str().expect("a path");
    let printed = program::succeed(&binary(), &["log", "--format", "json", "--journal", path], "");
    let printed: Vec<Json> =
        printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let fields = |records: &[Json]| {
        records
            .iter()
            .map(|record| (record["id"].to_string(), record["fate"].clone()))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(fields(&printed), fields(&expected));
}
