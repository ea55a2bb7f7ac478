//! Many messages before one Sync, prepared statements, portals: transactions are read from the order of messages.

use crate::expect::{self, LETTERS, NONE_SURVIVES, sixteen_bytes};
use crate::scenario::EV;
use crate::support::message::{self, Value, text};
use crate::support::{Database, Proxy, Wire, wire};

const INSERT: &str = "INSERT INTO ev(id,v) VALUES($1,$2)";
const STORED: &str = "SELECT id, v FROM ev ORDER BY ctid";

/// A key of [`LETTERS`] as a binary parameter.
fn key(letter: &str) -> Value {
    let (_, spelled) = LETTERS.iter().find(|(name, _)| *name == letter).expect("the letter is one of them");
    Value::Binary(sixteen_bytes(spelled))
}

/// Bind of the statement `name` to a row, and Execute.
fn row(name: &str, letter: &str, v: &str) -> Vec<u8> {
    [message::bind("", name, &[key(letter), text(v)]), message::execute("", 0)].concat()
}

/// Parse, Bind, Execute of a statement without parameters.
fn command(sql: &str) -> Vec<u8> {
    [message::parse("", sql, &[]), message::bind("", "", &[]), message::execute("", 0)].concat()
}

/// Messages, each group ended by a Sync, all in one write, on a database with the table `ev`.
struct Pipeline<'a> {
    groups: &'a [Vec<Vec<u8>>],
    outcomes: &'a [&'a str],
    stored: &'a [&'a str],
    rekeyed: &'a [&'a str],
}

impl Pipeline<'_> {
    fn play(&self) {
        let database = Database::fresh(EV);
        let proxy = Proxy::before(&database);
        let groups = self.groups.iter().map(|group| [group.concat(), message::sync()].concat());
        let bytes: Vec<u8> = groups.collect::<Vec<_>>().concat();
        let replies = proxy.connect().converse(&bytes, self.groups.len());
        assert_eq!(wire::outcomes(&replies), self.outcomes);
        expect::expect_rows(self.stored, &database.stored(STORED));
        expect::expect_rekeyed(self.rekeyed, &proxy);
    }
}

#[test]
fn everything_before_a_sync_is_one_transaction() {
    let rows = vec![message::parse("", INSERT, &[]), row("", "K", "a"), row("", "L", "b"), row("", "K", "c")];
    Pipeline {
        groups: &[rows],
        outcomes: &["INSERT 0 1"; 3],
        stored: &["K|a", "L|b", "U|c"],
        rekeyed: &["3.1<1.1 committed"],
    }
    .play();
}

#[test]
fn begin_may_come_in_the_same_write() {
    let rows = vec![
        message::parse("ins", INSERT, &[]),
        row("ins", "K", "a"),
        row("ins", "L", "b"),
        row("ins", "K", "c"),
    ];
    Pipeline {
        groups: &[vec![command("BEGIN")], rows, vec![command("COMMIT")]],
        outcomes: &["BEGIN", "INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "COMMIT"],
        stored: &["K|a", "L|b", "U|c"],
        rekeyed: &["3.1<1.1 committed"],
    }
    .play();
}

#[test]
fn transactions_in_one_write_are_told_apart() {
    let one = |v: &str| vec![message::parse("", INSERT, &[]), row("", "K", v)];
    Pipeline {
        groups: &[one("a"), one("b")],
        outcomes: &["INSERT 0 1", "!23505"],
        stored: &["K|a"],
        rekeyed: &[],
    }
    .play();
}

#[test]
fn begin_and_commit_may_be_prepared_long_ago() {
    let bound = |name: &str| [message::bind("", name, &[]), message::execute("", 0)].concat();
    let prepared = vec![
        message::parse("b", "BEGIN", &[]),
        message::parse("c", "COMMIT", &[]),
        message::parse("i", INSERT, &[]),
    ];
    let first = vec![bound("b"), row("i", "K", "a"), row("i", "K", "b"), bound("c")];
    let second = vec![bound("b"), row("i", "L", "c"), row("i", "L", "d"), bound("c")];
    let transaction = ["BEGIN", "INSERT 0 1", "INSERT 0 1", "COMMIT"];
    Pipeline {
        groups: &[prepared, first, second],
        outcomes: &[transaction, transaction].concat(),
        stored: &["K|a", "U1|b", "L|c", "U2|d"],
        rekeyed: &["2.1<1.1 committed", "2.1<1.1 committed"],
    }
    .play();
}

#[test]
fn what_the_server_skips_after_an_error_counts_for_nothing() {
    let bad = [message::bind("", "", &[text("no uuid"), text("x")]), message::execute("", 0)].concat();
    let failing = vec![message::parse("", INSERT, &[]), row("", "K", "a"), bad, row("", "K", "b")];
    let next = vec![message::parse("", INSERT, &[]), row("", "K", "c")];
    Pipeline {
        groups: &[failing, next],
        outcomes: &["INSERT 0 1", "!22P02", "INSERT 0 1"],
        stored: &["K|c"],
        rekeyed: NONE_SURVIVES,
    }
    .play();
}

#[test]
fn a_portal_that_never_runs_changes_nothing() {
    let never = message::bind("never", "i", &[key("K"), text("a")]);
    Pipeline {
        groups: &[vec![message::parse("i", INSERT, &[]), never, row("i", "K", "b")]],
        outcomes: &["INSERT 0 1"],
        stored: &["K|b"],
        rekeyed: &[],
    }
    .play();
}

#[test]
fn portals_bound_before_the_first_runs_are_forwarded() {
    let bound = |portal: &str, v: &str| message::bind(portal, "i", &[key("K"), text(v)]);
    let run = |portal: &str| message::execute(portal, 0);
    Pipeline {
        groups: &[vec![
            message::parse("i", INSERT, &[]),
            bound("p", "a"),
            bound("q", "b"),
            run("p"),
            run("q"),
        ]],
        outcomes: &["INSERT 0 1", "!23505"],
        stored: &[],
        rekeyed: &[],
    }
    .play();
}

#[test]
fn literals_of_a_prepared_statement_are_rekeyed_once() {
    let statement = "INSERT INTO ev(id,v) VALUES ('11111111-1111-4111-8111-111111111111','a')";
    let run = [message::bind("", "i", &[]), message::execute("", 0)].concat();
    Pipeline {
        groups: &[vec![message::parse("i", statement, &[]), run.clone(), run]],
        outcomes: &["INSERT 0 1", "!23505"],
        stored: &[],
        rekeyed: &[],
    }
    .play();
}

#[test]
fn prepared_statements_of_sql_are_inspected() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let script = format!(
        "PREPARE ins (uuid, text) AS INSERT INTO ev(id,v) VALUES ($1,$2);
         EXECUTE ins('{k}','a'); EXECUTE ins('{l}','b'); EXECUTE ins('{k}','c')"
    );
    assert_eq!(
        wire::outcomes(&proxy.connect().query(script)),
        ["PREPARE", "INSERT 0 1", "INSERT 0 1", "INSERT 0 1"]
    );
    expect::expect_rows(&["K|a", "L|b", "U|c"], &database.stored(STORED));
    expect::expect_rekeyed(&["4.1<2.1 committed"], &proxy);
}

#[test]
fn elements_of_an_array_parameter_are_keys() {
    let element = |letter: &str| match key(letter) {
        Value::Binary(bytes) => [&16_i32.to_be_bytes()[..], &bytes].concat(),
        _ => unreachable!("keys are binary"),
    };
    let header: Vec<u8> = [1_i32, 0, 2950, 3, 1].iter().flat_map(|number| number.to_be_bytes()).collect();
    let binary = [header, element("K"), element("L"), element("K")].concat();
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let forms =
        [Value::Binary(binary), text(&format!("{{{k},{l},{k}}}")), text(&format!("{{\"{k}\",\"{l}\",{k}}}"))];
    for keys in forms {
        let sql = "INSERT INTO ev(id,v) SELECT * FROM unnest($1::uuid[],$2::text[])";
        Pipeline {
            groups: &[vec![message::extended(sql, &[keys, text("{a,b,c}")])]],
            outcomes: &["INSERT 0 3"],
            stored: &["K|a", "L|b", "U|c"],
            rekeyed: &["1.3<1.1 committed"],
        }
        .play();
    }
}

/// Distinct v4 keys, in 16 bytes.
fn numbered(n: u32) -> Value {
    let mut bytes = [0x44; 16];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes[8] = 0x84;
    Value::Binary(bytes.to_vec())
}

#[test]
fn seventy_thousand_rows_of_one_statement_are_compared() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let twin = |n: u32| if n == 69_999 { 5 } else { n };
    let rows = (0..70_000)
        .map(|n| [message::bind("", "", &[numbered(twin(n)), text("x")]), message::execute("", 0)].concat());
    let bytes =
        [message::parse("", INSERT, &[]), rows.collect::<Vec<_>>().concat(), message::sync()].concat();
    let replies = proxy.connect().converse(&bytes, 1);
    assert!(wire::outcomes(&replies).iter().all(|tag| tag == "INSERT 0 1"));
    assert_eq!(database.stored("SELECT count(*) FROM ev"), ["70000"]);
    expect::expect_rekeyed(&["70000.1<6.1 committed"], &proxy);
}

#[test]
fn a_statement_with_all_its_parameters_is_compared() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let holes: Vec<String> = (0..32_767).map(|n| format!("(${},${})", 2 * n + 1, 2 * n + 2)).collect();
    let sql = format!("INSERT INTO ev(id,v) VALUES {}", holes.join(","));
    let twin = |n: u32| if n == 32_766 { 5 } else { n };
    let values: Vec<Value> = (0..32_767).flat_map(|n| [numbered(twin(n)), text("x")]).collect();
    let replies = proxy.connect().converse(&[message::extended(sql, &values), message::sync()].concat(), 1);
    assert_eq!(wire::outcomes(&replies), ["INSERT 0 32767"]);
    assert_eq!(database.stored("SELECT count(*) FROM ev"), ["32767"]);
    expect::expect_rekeyed(&["1.32767<1.6 committed"], &proxy);
}

#[test]
fn a_pipeline_of_a_hundred_thousand_messages_flows() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let pair = [message::bind("", "one", &[]), message::execute("", 0)].concat();
    let bytes = [message::parse("one", "SELECT 1", &[]), pair.repeat(50_000), message::sync()].concat();
    let replies = proxy.connect().converse(&bytes, 1);
    assert_eq!(wire::rows(&replies).len(), 50_000);
}

#[test]
fn a_pipeline_of_syncs_is_answered_in_order() {
    let database = Database::fresh("");
    let proxy = Proxy::before(&database);
    let mut client: Wire = proxy.connect();
    let one = |n: usize| [message::extended(format!("SELECT {n}"), &[]), message::sync()].concat();
    let bytes = (0..5_000).flat_map(one).collect::<Vec<u8>>();
    let rows = wire::rows(&client.converse(&bytes, 5_000));
    assert_eq!(rows, (0..5_000).map(|n: usize| n.to_string()).collect::<Vec<_>>());
}
