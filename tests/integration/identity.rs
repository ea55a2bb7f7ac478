//! Which twins are marked identical, suspected of redelivery, or as echoing their key: the same by every carrier.

use serde_json::{Value as Json, json};

use crate::expect::{LETTERS, sixteen_bytes};
use crate::support::message::{self, Value, text};
use crate::support::{Database, Proxy, eventually, wire};

const TABLE: &str =
    "CREATE TABLE ev (id uuid PRIMARY KEY, n int, ok bool, doc jsonb, note text, received_at timestamptz)";
const COLUMNS: &str = "id, n, ok, doc, note, received_at";
const TYPES: [&str; 6] = ["uuid", "int", "bool", "jsonb", "text", "timestamptz"];

/// Values of the columns, as text.
type Row<'a> = [&'a str; 6];

/// How two rows travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Literals,
    CommonTable,
    Execute,
    Text,
    Binary,
    Arrays,
    Document,
    CopyText,
    CopyCsv,
    CopyBinary,
}

const CARRIERS: [Carrier; 10] = [
    Carrier::Literals,
    Carrier::CommonTable,
    Carrier::Execute,
    Carrier::Text,
    Carrier::Binary,
    Carrier::Arrays,
    Carrier::Document,
    Carrier::CopyText,
    Carrier::CopyCsv,
    Carrier::CopyBinary,
];

impl Carrier {
    /// What a client sends, after `PREPARE ins`.
    fn send(self, rows: &[Row<'_>]) -> Vec<u8> {
        let values =
            |form: &dyn Fn(&str) -> String, row: &Row<'_>| row.iter().map(|v| form(v)).collect::<Vec<_>>();
        let literal = |v: &str| format!("'{v}'");
        let lists: Vec<String> =
            rows.iter().map(|row| format!("({})", values(&literal, row).join(","))).collect();
        let insert = format!("INSERT INTO ev({COLUMNS}) VALUES {}", lists.join(","));
        match self {
            Carrier::Literals => message::query(insert),
            Carrier::CommonTable => message::query(format!("WITH a AS ({insert} RETURNING id) SELECT 1")),
            Carrier::Execute => {
                message::query(lists.iter().map(|list| format!("EXECUTE ins{list};")).collect::<String>())
            }
            Carrier::Text => Self::bound(rows, &|_, v| text(v)),
            Carrier::Binary => Self::bound(rows, &|at, v| Value::Binary(binary(TYPES[at], v))),
            Carrier::Arrays => {
                let quoted = |v: &str| format!("\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\""));
                let array = |at: usize| rows.iter().map(|row| quoted(row[at])).collect::<Vec<_>>().join(",");
                let values: Vec<Value> = (0..6).map(|at| text(&format!("{{{}}}", array(at)))).collect();
                let arrays = TYPES.iter().enumerate().map(|(at, of)| format!("${}::{of}[]", at + 1));
                let arrays = arrays.collect::<Vec<_>>().join(",");
                let sql = format!("INSERT INTO ev({COLUMNS}) SELECT * FROM unnest({arrays})");
                [message::extended(sql, &values), message::sync()].concat()
            }
            Carrier::Document => {
                let member = |(name, v): (&str, &&str)| match name {
                    "doc" => format!("\"{name}\":{v}"),
                    _ => format!("\"{name}\":{}", json!(v)),
                };
                let object =
                    |row: &Row<'_>| COLUMNS.split(", ").zip(row).map(member).collect::<Vec<_>>().join(",");
                let objects: Vec<String> = rows.iter().map(|row| format!("{{{}}}", object(row))).collect();
                let sql = format!(
                    "INSERT INTO ev({COLUMNS}) SELECT {COLUMNS} FROM json_populate_recordset(null::ev, $1)"
                );
                let document = text(&format!("[{}]", objects.join(",")));
                [message::extended(sql, &[document]), message::sync()].concat()
            }
            Carrier::CopyText => {
                copy("text", rows.iter().flat_map(|row| (row.join("\t") + "\n").into_bytes()))
            }
            Carrier::CopyCsv => {
                let quoted = |v: &str| format!("\"{}\"", v.replace('"', "\"\""));
                copy("csv", rows.iter().flat_map(|row| (values(&quoted, row).join(",") + "\n").into_bytes()))
            }
            Carrier::CopyBinary => {
                let field = |(at, v): (usize, &&str)| {
                    let bytes = binary(TYPES[at], v);
                    [&u32::try_from(bytes.len()).expect("short").to_be_bytes()[..], &bytes].concat()
                };
                let tuple =
                    |row: &Row<'_>| [vec![0, 6], row.iter().enumerate().flat_map(field).collect()].concat();
                let header = [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8]].concat();
                copy("binary", [header, rows.iter().flat_map(tuple).collect(), vec![0xff, 0xff]].concat())
            }
        }
    }

    /// A Bind for each row.
    fn bound(rows: &[Row<'_>], value: &dyn Fn(usize, &str) -> Value) -> Vec<u8> {
        let sql = format!("INSERT INTO ev({COLUMNS}) VALUES ($1,$2,$3,$4,$5,$6)");
        let row = |row: &Row<'_>| {
            let values: Vec<Value> = row.iter().enumerate().map(|(at, v)| value(at, v)).collect();
            [message::bind("", "", &values), message::execute("", 0)].concat()
        };
        [message::parse("", sql, &[]), rows.iter().flat_map(row).collect(), message::sync()].concat()
    }
}

fn copy(format: &str, data: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let data: Vec<u8> = data.into_iter().collect();
    let sql = format!("COPY ev({COLUMNS}) FROM STDIN (FORMAT {format})");
    [message::query(sql), message::copy_data(&data), message::copy_done()].concat()
}

/// A value in its type's binary format. Times are those of the first day of 2026, by the second.
fn binary(of: &str, v: &str) -> Vec<u8> {
    match of {
        "uuid" => sixteen_bytes(v),
        "int" => v.parse::<i32>().expect("a number").to_be_bytes().to_vec(),
        "bool" => vec![u8::from(v.starts_with('t'))],
        "jsonb" => [&[1], v.as_bytes()].concat(),
        "timestamptz" => {
            let second: i64 = v[v.len() - 5..v.len() - 3].parse().expect("a time ends in seconds and zone");
            // Microseconds since 2000.
            ((9_497 * 86_400 + second) * 1_000_000).to_be_bytes().to_vec()
        }
        _ => v.as_bytes().to_vec(),
    }
}

/// Identical, suspected of redelivery, where its key is echoed.
type Marks = (bool, bool, Json);

/// The marks of a twin.
fn marks(record: &Json) -> Marks {
    let suspected = record.get("suspected_redelivery").is_some_and(|mark| *mark == true);
    (record["identical"] == true, suspected, record.get("echoed_in").cloned().unwrap_or(json!([])))
}

#[test]
fn marks_are_the_same_by_every_carrier() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let (noon, later) = ("2026-01-01 00:00:00+00", "2026-01-01 00:00:07+00");
    let doc = format!(r#"{{"id":"{k}"}}"#);
    let first: Row<'_> = [k, "1", "t", r#"{"a":1}"#, "x", noon];
    let note = format!("see {k}");
    let echo: Row<'_> = [k, "1", "t", &doc, &note, noon];
    let cases: [(&str, Row<'_>, Row<'_>, Marks); 8] = [
        ("all alike", first, first, (true, false, json!([]))),
        (
            "an integer spelled otherwise",
            first,
            [k, "01", "t", first[3], "x", noon],
            (true, false, json!([])),
        ),
        ("a truth spelled otherwise", first, [k, "1", "true", first[3], "x", noon], (true, false, json!([]))),
        (
            "a document spelled otherwise",
            first,
            [k, "1", "t", r#"{ "a": 1}"#, "x", noon],
            (false, false, json!([])),
        ),
        ("another time of arrival", first, [k, "1", "t", first[3], "x", later], (false, true, json!([]))),
        ("another integer", first, [k, "2", "t", first[3], "x", noon], (false, false, json!([]))),
        (
            "another note, and another time",
            first,
            [k, "1", "t", first[3], "y", later],
            (false, false, json!([])),
        ),
        ("its key elsewhere", echo, echo, (true, false, json!(["doc", "note"]))),
    ];
    let database = Database::fresh(TABLE);
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    client.run(&format!("PREPARE ins AS INSERT INTO ev({COLUMNS}) VALUES ($1,$2,$3,$4,$5,$6)"));
    for carrier in CARRIERS {
        for (name, one, other, expected) in &cases {
            let before = proxy.settled_journal().len();
            let failed: Vec<String> = wire::outcomes(&client.converse(&carrier.send(&[*one, *other]), 1))
                .into_iter()
                .filter(|outcome| outcome.starts_with('!'))
                .collect();
            assert_eq!(failed, Vec::<String>::new(), "{carrier:?}: {name}");
            let records = proxy.settled_journal();
            let [record] = &records[before..] else { panic!("{carrier:?}: {name}: {records:#?}") };
            assert_eq!(marks(record), *expected, "{carrier:?}: {name}: {record:#}");
            assert_eq!(database.stored("SELECT count(*) FROM ev"), ["2"]);
            database.run("TRUNCATE ev");
        }
    }
}

#[test]
fn carriers_agree_on_what_is_cheap_to_compare() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, n int, ok bool, note text)");
    let proxy = Proxy::before(&database);
    let insert = "INSERT INTO ev VALUES ($1,$2,$3,$4)";
    let simple = |row: &str| message::query(format!("INSERT INTO ev VALUES {row}"));
    let bound = |values: &[Value]| [message::extended(insert, values), message::sync()].concat();
    let forms = [
        simple(&format!("('{{{k}}}', +7, 'YES', 'x')")),
        simple(&format!("('{k}'::uuid, '07', TRUE, 'x')")),
        bound(&[text(k), text(" 7 "), text("1"), text("x")]),
        bound(&[
            Value::Binary(sixteen_bytes(k)),
            Value::Binary(7_i32.to_be_bytes().to_vec()),
            Value::Binary(vec![1]),
            Value::Binary(b"x".to_vec()),
        ]),
        [
            message::query("COPY ev FROM STDIN"),
            message::copy_data(format!("{k}\t7\ton\tx\n").as_bytes()),
            message::copy_done(),
        ]
        .concat(),
    ];
    let mut client = proxy.connect();
    client.run("BEGIN");
    for form in &forms {
        client.converse(form, 1);
    }
    client.run("COMMIT");
    let records = proxy.settled_journal();
    let identical: Vec<bool> = records.iter().map(|record| record["identical"] == true).collect();
    assert_eq!(identical, [true; 4], "{records:#?}");
}

#[test]
fn expressions_are_identical_only_where_they_must_be() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, v text, x float8 DEFAULT 1)");
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let calls = "INSERT INTO ev VALUES ($1, upper($2), random())";
    let concatenated = "INSERT INTO ev(id, v) VALUES ($1, $2 || '!')";
    for (sql, one, other, marks) in [
        ("INSERT INTO ev(id, v) VALUES ($1, now()::text || $2)", "a", "a", (false, true)),
        (calls, "a", "a", (false, true)),
        (calls, "a", "b", (false, false)),
        (concatenated, "a", "a", (true, false)),
        (concatenated, "a", "b", (false, false)),
        ("INSERT INTO ev(id, v, x) VALUES ($1, $2, DEFAULT)", "a", "a", (true, false)),
        ("INSERT INTO ev(id, v, x) VALUES ($1, $2, '0.1'::float4)", "a", "a", (true, false)),
    ] {
        let row = |v: &str| message::extended(sql, &[text(k), text(v)]);
        let before = proxy.settled_journal().len();
        let replies = client.converse(&[row(one), row(other), message::sync()].concat(), 1);
        assert_eq!(wire::outcomes(&replies), ["INSERT 0 1"; 2], "{sql}");
        let record = &proxy.settled_journal()[before];
        let suspected = record.get("suspected_redelivery").is_some();
        assert_eq!((record["identical"] == true, suspected), marks, "{sql}: {one} {other}");
        database.run("TRUNCATE ev");
    }
}

#[test]
fn volatile_columns_are_those_of_the_configuration_too() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, v text, seen text, nr bigserial)");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let section = "[[table]]\nname = 'public.ev'\nvolatile_columns = ['seen']";
    std::fs::write(file.path(), section).expect("the file can be written");
    let path = file.path().to_string_lossy();
    for (arguments, suspected) in [(&[][..], false), (&["--config", &path][..], true)] {
        let proxy = Proxy::with(&database, arguments);
        let mut client = proxy.connect();
        client.run(&format!("INSERT INTO ev VALUES ('{k}','a','then',1),('{k}','a','now',2)"));
        let [record] = &proxy.settled_journal()[..] else { panic!("one twin") };
        assert_eq!(record.get("suspected_redelivery").is_some(), suspected, "{record:#}");
        let is_told = || proxy.stderr().contains("may have been delivered twice");
        assert_eq!(if suspected { eventually(is_told) } else { is_told() }, suspected);
        database.run("TRUNCATE ev");
    }
}

#[test]
fn numbers_and_strings_of_a_document_are_different_documents() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, doc jsonb)");
    let proxy = Proxy::before(&database);
    let rows = format!(r#"[{{"id":"{k}","doc":1}},{{"id":"{k}","doc":"1"}},{{"id":"{k}","doc":1}}]"#);
    let sql = "INSERT INTO ev SELECT * FROM jsonb_populate_recordset(null::ev, $1)";
    proxy.connect().converse(&[message::extended(sql, &[text(&rows)]), message::sync()].concat(), 1);
    let identical: Vec<bool> =
        proxy.settled_journal().iter().map(|record| record["identical"] == true).collect();
    assert_eq!(identical, [false, true]);
}

#[test]
fn a_row_is_compared_with_every_earlier_one_of_its_key() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let rows = |values: &[&str]| {
        let rows: Vec<String> = values.iter().map(|v| format!("('{k}',7,'{v}')")).collect();
        format!("INSERT INTO ev(id,tenant,v) VALUES {}", rows.join(","))
    };
    for key in ["id", "tenant, id"] {
        let schema = format!("CREATE TABLE ev (id uuid, tenant int, v text, PRIMARY KEY ({key}))");
        let database = Database::fresh(&schema);
        let proxy = Proxy::before(&database);
        let mut client = proxy.connect();
        // A batch that holds a twin, delivered twice.
        client.run(&format!("BEGIN; {}; {}; COMMIT", rows(&["a", "b"]), rows(&["a", "b", "c"])));
        let identical: Vec<bool> =
            proxy.settled_journal().iter().map(|record| record["identical"] == true).collect();
        assert_eq!(identical, [false, true, true, false], "{key}");
        database.run("TRUNCATE ev");
        for arguments in [["--identical-rows", "forward"], ["--mode", "strict"]] {
            let proxy = Proxy::with(&database, &arguments);
            assert_eq!(wire::outcomes(&proxy.connect().query(rows(&["a", "b", "b"]))), ["!23505"], "{key}");
            assert_eq!(
                wire::outcomes(&proxy.connect().query(rows(&["a", "b", "c"]))),
                ["INSERT 0 3"],
                "{key}"
            );
            database.run("TRUNCATE ev");
        }
    }
}

#[test]
fn a_key_in_an_array_of_its_row_is_an_echo() {
    let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, tags text[], parts uuid[])");
    let proxy = Proxy::before(&database);
    let array = |oid: u32, elements: &[&[u8]]| {
        let count = i32::try_from(elements.len()).expect("few");
        let header = [1_i32, 0, oid.cast_signed(), count, 1];
        let element =
            |bytes: &&[u8]| [&i32::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
        let header = header.iter().flat_map(|number| number.to_be_bytes());
        Value::Binary(header.chain(elements.iter().flat_map(element)).collect())
    };
    let (key, other) = (sixteen_bytes(k), sixteen_bytes(l));
    let forms = [
        [text(k), text(&format!("{{a,\"of {k}\"}}")), text(&format!("{{{l},{k}}}"))],
        [Value::Binary(key.clone()), array(25, &[b"a", k.as_bytes()]), array(2950, &[&other, &key])],
    ];
    let mut client = proxy.connect();
    for values in forms {
        let before = proxy.settled_journal().len();
        let row = message::extended("INSERT INTO ev VALUES ($1,$2,$3)", &values);
        client.converse(&[row.clone(), row, message::sync()].concat(), 1);
        let record = &proxy.settled_journal()[before];
        assert_eq!(marks(record), (true, false, json!(["tags", "parts"])), "{record:#}");
        assert_eq!(database.stored("SELECT count(*) FROM ev"), ["2"]);
        database.run("TRUNCATE ev");
    }
}

#[test]
fn one_literal_under_two_casts_is_two_values() {
    let [(_, k), ..] = LETTERS else { panic!("three letters") };
    let database = Database::fresh("CREATE TABLE ev (id uuid PRIMARY KEY, x float8, v text)");
    let proxy = Proxy::before(&database);
    let mut client = proxy.connect();
    let values =
        ["'0.1'::float4, 'a'", "'0.1'::float8, 'a'", " '0.1'::float8 , 'a'", "CAST('0.1' AS real), 'a'"];
    client.run("BEGIN");
    for values in values {
        client.run(&format!("INSERT INTO ev VALUES ('{k}', {values})"));
    }
    client.run(&format!(
        "INSERT INTO ev VALUES ('{k}', 0.1, E'a\\n'), ('{k}', 0.1, 'a\\n'), ('{k}', 0.1, E'a\\n')"
    ));
    client.run("COMMIT");
    let identical: Vec<bool> =
        proxy.settled_journal().iter().map(|record| record["identical"] == true).collect();
    assert_eq!(identical, [false, true, false, false, false, true]);
}
