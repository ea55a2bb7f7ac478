//! The JSON reader held to what Postgres reads, and to a parser that builds a tree.

use super::Field;
use super::json::rows;
use proptest::prelude::*;

fn read(document: &[u8], members: &[&str]) -> Option<String> {
    let mut shown = Vec::new();
    rows(document, members, &mut Vec::new(), |_, fields| {
        let row: Vec<String> = fields
            .iter()
            .map(|field| {
                let bytes = String::from_utf8_lossy(field.of(document).unwrap_or_default());
                match field {
                    Field::Null => "null".into(),
                    Field::Escaped { .. } => format!("escaped[{bytes}]"),
                    _ => format!("[{bytes}]"),
                }
            })
            .collect();
        shown.push(row.join(" "));
    })
    .map(|count| {
        assert_eq!(count, shown.len() as u64);
        shown.join("; ")
    })
}

#[test]
fn finds_the_wanted_members_of_each_object() {
    for (document, expected) in [
        ("[]", ""),
        (" [ ] \n", ""),
        ("\x01[]", ""),
        ("\x01[{\"a\":\"x\"}]", "[x] null"),
        ("[{}]", "null null"),
        (r#"[{"a":"x","b":1},{"b":2,"a":"y"}]"#, "[x] [1]; [y] [2]"),
        (" [ { \"a\" : \"x\" , \"c\" : 0 } ,\t{ } ]\r\n", "[x] null; null null"),
        (r#"[{"a":null,"b":true}]"#, "null [true]"),
        (r#"[{"a":-1.5e+3,"b":0}]"#, "[-1.5e+3] [0]"),
        (r#"[{"a":"q\"x","b":"é"}]"#, "escaped[q\\\"x] [é]"),
        (r#"[{"a":{"b":[1,"}"]},"b":[]}]"#, r#"escaped[{"b":[1,"}"]}] escaped[[]]"#),
        (r#"[{"c":{"a":"inner"},"a":"outer"}]"#, "[outer] null"),
        (r#"[{"a":1,"a":2,"b":3,"b":null}]"#, "[2] null"),
        (r#"[{"\u0061":1,"\u0062":2}]"#, "[1] [2]"),
        (r#"[{"":1,"a ":2,"A":3}]"#, "null null"),
    ] {
        assert_eq!(read(document.as_bytes(), &["a", "b"]).as_deref(), Some(expected), "{document}");
    }
}

#[test]
fn names_are_compared_without_their_escapes() {
    for (name, member, found) in [
        (r"\u00e9", "é", true),
        (r"\uD83D\uDE00", "😀", true),
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\x08\x0c\n\r\t", true),
        (r"a\u0062c", "abc", true),
        (r"a\u0062c", "abd", false),
    ] {
        let document = format!("[{{\"{name}\":1}}]");
        let expected = if found { "[1]" } else { "null" };
        assert_eq!(read(document.as_bytes(), &[member]).as_deref(), Some(expected), "{name}");
    }
    for name in [r"\x", r"\u12", r"\ud83d", r"\ud83dx", r"\ud83d\u0041", r"\udc00"] {
        let document = format!("[{{\"{name}\":1}}]");
        assert_eq!(read(document.as_bytes(), &["a"]), None, "{name}");
    }
}

#[test]
fn anything_but_an_array_of_objects_is_refused() {
    for document in [
        "",
        " ",
        "\x01",
        "\x01\x01[]",
        "{}",
        r#"{"a":1}"#,
        "null",
        "1",
        "[",
        "[1]",
        "[null]",
        "[[]]",
        "[{}",
        "[{},]",
        "[,{}]",
        "[{} {}]",
        "[{}]x",
        "[{}]]",
        "[{},1]",
        r#"[{"a"}]"#,
        r#"[{"a":}]"#,
        r#"[{"a":1,}]"#,
        r#"[{,"a":1}]"#,
        r#"[{a:1}]"#,
        r#"[{"a":1 "b":2}]"#,
        r#"[{"a":01}]"#,
        r#"[{"a":1.}]"#,
        r#"[{"a":.5}]"#,
        r#"[{"a":1e}]"#,
        r#"[{"a":-}]"#,
        r#"[{"a":nul}]"#,
        r#"[{"a":True}]"#,
        r#"[{"a":"x}]"#,
        r#"[{"a":"x\"}]"#,
        r#"[{"a":"x\"#,
        r#"[{"a":[}]}]"#,
        r#"[{"a":{]}]"#,
        r#"[{"a":[1}]"#,
    ] {
        assert_eq!(read(document.as_bytes(), &["a", "b"]), None, "{document}");
    }
}

#[test]
fn nesting_is_bounded_and_needs_no_stack() {
    let nested = |depth: usize| {
        format!("[{{\"a\":{}{},\"b\":1}}]", "[{\"x\":".repeat(depth / 2), "}]".repeat(depth / 2))
    };
    assert!(read(nested(128).as_bytes(), &["b"]).is_some());
    assert_eq!(read(nested(130).as_bytes(), &["b"]), None);
    assert_eq!(read(nested(2_000_000).as_bytes(), &["b"]), None);
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a\"\\\\/\n{}\\[\\]:,é😀 ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab\"é]{0,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn agrees_with_a_parser_that_builds_a_tree(
        objects in prop::collection::vec(prop::collection::btree_map("[ab\"é]{0,2}", value(), 0..5), 0..5),
        pretty: bool,
    ) {
        let document =
            if pretty { serde_json::to_vec_pretty(&objects) } else { serde_json::to_vec(&objects) }.unwrap();
        let members = ["a", "b", "é\"", "\"b"];
        let mut read = Vec::new();
        let count = rows(&document, &members, &mut Vec::new(), |_, fields| read.push(fields.to_vec()));
        prop_assert_eq!(count, Some(objects.len() as u64));
        for (fields, object) in read.iter().zip(&objects) {
            for (field, member) in fields.iter().zip(members) {
                let expected = object.get(member).filter(|value| !value.is_null());
                prop_assert_eq!(*field == Field::Null, expected.is_none());
                let (Some(expected), Some(range)) = (expected, field.range()) else { continue };
                let around = if expected.is_string() { range.start - 1..range.end + 1 } else { range };
                let value: serde_json::Value = serde_json::from_slice(&document[around]).unwrap();
                prop_assert_eq!(&value, expected);
                if let (Field::Text { .. }, Some(text)) = (field, expected.as_str()) {
                    prop_assert_eq!(field.of(&document), Some(text.as_bytes()));
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[\\[\\]{}\":,a1\\\\u ]{0,16}") {
        for document in [&bytes[..], text.as_bytes(), format!("[{{{text}}}]").as_bytes()] {
            let mut given = 0;
            let _ = rows(document, &["a"], &mut Vec::new(), |_, _| given += 1);
            prop_assert!(given * 2 <= document.len());
        }
    }
}
