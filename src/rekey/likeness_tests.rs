//! Rows that say the same, rows that do not, and rows of which nobody can tell.

use super::*;
use crate::catalog::model::Table;
use std::sync::Arc;

/// A table of one column of each type that matters.
const TYPES_OF_COLUMNS: &[(&str, &str)] = &[
    ("uuid", "uuid"),
    ("text", "text"),
    ("char", "character(8)"),
    ("citext", "citext"),
    ("int", "integer"),
    ("bool", "boolean"),
    ("jsonb", "jsonb"),
    ("numeric", "numeric"),
    ("received_at", "timestamp with time zone"),
];

fn plan() -> Plan {
    let column = |&(name, type_name): &(&str, &str)| Column {
        name: name.to_owned(),
        kind: match type_name {
            "uuid" => ColumnKind::Uuid,
            "text" => ColumnKind::Text,
            "character(8)" => ColumnKind::Char,
            "citext" => ColumnKind::Citext,
            _ => ColumnKind::Other,
        },
        default: DefaultKind::Null,
        generated: false,
        identity: false,
        type_name: type_name.into(),
    };
    let table = Table { columns: TYPES_OF_COLUMNS.iter().map(column).collect(), ..Table::default() };
    let inputs = (0..table.columns.len()).collect();
    Plan { table: Arc::new(table), inputs, keys: Vec::new(), references: Vec::new() }
}

/// The hash of a row that holds the value in the column, and NULL in every other.
fn hash(column: &str, value: Value<'_>, row: Row) -> RowHash {
    let slots: Vec<Slot<'_>> = TYPES_OF_COLUMNS
        .iter()
        .map(|(name, _)| {
            let value = if *name == column { value } else { Value::Null };
            let place = match value {
                Value::Expression { .. } | Value::Unknown(b"") => Place::Fixed("expression"),
                _ => Place::Bind(0..0),
            };
            Slot { value, place }
        })
        .collect();
    row_hash(&measures(&plan(), &Policy::default()), None, 7, row, &slots)
}

fn text(value: &str) -> Value<'_> {
    Value::Text(value.as_bytes())
}

fn typed(value: &str, oid: u32) -> Value<'_> {
    Value::Typed { bytes: value.as_bytes(), oid }
}

fn binary(bytes: &[u8], oid: u32) -> Value<'_> {
    Value::Binary { bytes, oid }
}

fn expression(text: &str, inputs: u64) -> Value<'_> {
    Value::Expression { text: text.as_bytes(), inputs }
}

const KEY: u128 = 0xabcdef00_1111_4111_8111_111111111111;
const SPELLED: &str = "abcdef00-1111-4111-8111-111111111111";

#[test]
fn values_are_the_same_by_type_where_that_is_cheap() {
    for (column, one, other) in [
        ("uuid", text(SPELLED), text("{ABCDEF00111141118111111111111111}")),
        ("uuid", text(SPELLED), Value::Uuid(KEY)),
        ("text", text(SPELLED), Value::Uuid(KEY)),
        ("char", text("a"), text("a   ")),
        ("citext", text("Straße"), text("sTRAße")),
        ("citext", text(SPELLED), text("ABCDEF00-1111-4111-8111-111111111111")),
        ("int", text("1"), text(" +01 ")),
        ("int", text("0"), text("-0")),
        ("int", text("-2"), binary(&[0xff, 0xfe], 21)),
        ("int", text("70000"), binary(&70_000_i32.to_be_bytes(), 0)),
        ("int", typed("5", 23), binary(&5_i64.to_be_bytes(), 20)),
        ("bool", text("t"), text("TRUE")),
        ("bool", text("ye"), binary(&[1], 16)),
        ("bool", text(" off "), text("0")),
        ("bool", typed("f", 16), binary(&[0], 0)),
        ("jsonb", text(r#"{"a":1}"#), typed(r#"{"a":1}"#, 3802)),
        ("jsonb", binary(b"\x01{}", 3802), binary(b"\x01{}", 0)),
        ("jsonb", Value::Null, Value::Default),
        ("numeric", Value::Unknown(b"1.0"), Value::Unknown(b"1.0")),
        ("text", expression("now()", 0), expression("now()", 0)),
        ("jsonb", expression("$2 || '{}'", 9), expression("$2 || '{}'", 9)),
    ] {
        let same = hash(column, one, (1, 1)).is_identical(hash(column, other, (1, 2)));
        assert!(same, "{column}: {one:?} {other:?}");
    }
}

#[test]
fn values_that_may_differ_are_not_the_same() {
    for (column, one, other) in [
        ("uuid", text(SPELLED), text("abcdef00-1111-4111-8111-111111111112")),
        ("text", text(SPELLED), text("ABCDEF00-1111-4111-8111-111111111111")),
        ("text", text("a"), text("a ")),
        ("text", text(""), Value::Null),
        ("int", text("1"), text("-1")),
        ("int", text("0x10"), text("16")),
        ("int", text("11"), binary(b"11", 21)),
        ("bool", text("t"), text("f")),
        ("bool", text("o"), text("on")),
        ("jsonb", text(r#"{"a":1}"#), text(r#"{ "a": 1}"#)),
        ("jsonb", text("1"), Value::Unknown(b"1")),
        ("numeric", text("1.0"), text("1.00")),
        ("numeric", typed("0.1", 700), typed("0.1", 701)),
        ("numeric", text("11"), binary(b"11", 0)),
        ("received_at", text("2026-01-01 10:00Z"), text("2026-01-01 11:00+01")),
        ("jsonb", expression("$2 || '{}'", 9), expression("$2 || '{}'", 8)),
        ("text", expression("random()", 0), expression("random()", 0)),
        ("text", expression("CURRENT_USER", 0), expression("CURRENT_USER", 0)),
        ("text", expression("(SELECT v FROM t)", 0), expression("(SELECT v FROM t)", 0)),
        ("jsonb", Value::Unknown(b""), Value::Unknown(b"")),
    ] {
        let same = hash(column, one, (1, 1)).is_identical(hash(column, other, (1, 2)));
        assert!(!same, "{column}: {one:?} {other:?}");
    }
}

#[test]
fn only_columns_that_are_not_volatile_make_another_fact() {
    for (column, one, other, redelivery, another) in [
        ("received_at", text("10:00"), text("10:01"), true, false),
        ("text", text("a"), text("b"), false, true),
        ("text", expression("random()", 0), expression("random()", 0), true, false),
        ("text", expression("upper($1)", 1), expression("upper($1)", 2), false, true),
        // Nobody knows.
        ("jsonb", Value::Unknown(b""), Value::Unknown(b""), false, false),
    ] {
        let (one, other) = (hash(column, one, (1, 1)), hash(column, other, (1, 2)));
        assert_eq!((one.is_redelivery(other), one.is_another_fact(other)), (redelivery, another), "{column}");
    }
}

#[test]
fn what_the_server_makes_anew_is_volatile_by_type() {
    let plain = plan().table.columns[1].clone();
    let with = |name: &str, type_name: &str, default| Column {
        name: name.to_owned(),
        type_name: type_name.into(),
        default,
        ..plain.clone()
    };
    for (column, volatile) in [
        (with("n", "bigint", DefaultKind::Volatile), true),
        (Column { identity: true, ..with("n", "bigint", DefaultKind::Null) }, true),
        (with("made", "timestamp with time zone", DefaultKind::Stable), true),
        (with("at", "timestamp with time zone", DefaultKind::Null), false),
        (with("lsn", "pg_lsn", DefaultKind::Null), true),
        (with("status", "text", DefaultKind::Stable), false),
        (with("Attempt", "integer", DefaultKind::Null), true),
    ] {
        assert_eq!(is_volatile(&column, &Policy::default()), volatile, "{column:?}");
    }
}

#[test]
fn the_order_of_columns_does_not_matter() {
    let mut plan = plan();
    let slots = |order: &[usize]| -> Vec<Slot<'static>> {
        let values = ["1", "a", "b", "c", "2", "t", "{}", "3", "4"];
        order
            .iter()
            .map(|&at| Slot { value: Value::Text(values[at].as_bytes()), place: Place::Text(0..0) })
            .collect()
    };
    let ahead: Vec<usize> = (0..9).collect();
    let back: Vec<usize> = (0..9).rev().collect();
    let one = row_hash(&measures(&plan, &Policy::default()), None, 7, (1, 1), &slots(&ahead));
    plan.inputs.reverse();
    let other = row_hash(&measures(&plan, &Policy::default()), None, 7, (1, 2), &slots(&back));
    assert_eq!(one, other);
    // The same values in other columns are another row.
    assert_ne!(one, row_hash(&measures(&plan, &Policy::default()), None, 7, (1, 2), &slots(&ahead)));
}
