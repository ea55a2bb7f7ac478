//! What stored rows and journals are compared with: keys named by letters, fresh keys by U; knows no protocol.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::support::Proxy;

/// Three random keys that scenarios name by a letter.
pub const LETTERS: &[(&str, &str)] = &[
    ("K", "11111111-1111-4111-8111-111111111111"),
    ("L", "22222222-2222-4222-8222-222222222222"),
    ("M", "33333333-3333-4333-8333-333333333333"),
];

/// The expectation that rewrites may be on record as long as none of them was kept.
pub const NONE_SURVIVES: &[&str] = &["none survives"];

/// A v4 key with hyphens in lower case.
pub fn is_random(key: &str) -> bool {
    let parsed = uuid::Uuid::try_parse(key);
    parsed.is_ok_and(|uuid| {
        uuid.get_version_num() == 4 && uuid.get_variant() == uuid::Variant::RFC4122 && uuid.to_string() == key
    })
}

/// A v4 key in 32 lower-case digits.
pub fn is_random_without_hyphens(key: &str) -> bool {
    let parsed = uuid::Uuid::try_parse(key);
    key.len() == 32
        && parsed.is_ok_and(|uuid| is_random(&uuid.to_string()) && uuid.simple().to_string() == key)
}

/// A key as type uuid sends it.
pub fn sixteen_bytes(key: &str) -> Vec<u8> {
    uuid::Uuid::try_parse(key).expect("scenarios spell keys right").as_bytes().to_vec()
}

/// A key as type text sends it.
pub fn its_text(key: &str) -> Vec<u8> {
    key.as_bytes().to_vec()
}

/// The rewrites on record must be these, in the form of [`Scenario::rekeyed`].
pub fn expect_rekeyed(expected: &[&str], proxy: &Proxy) {
    expect_rekeyed_at("the journal", expected, proxy);
}

pub fn expect_rekeyed_at(place: &str, expected: &[&str], proxy: &Proxy) {
    let records = proxy.settled_journal();
    let rekeyed = outlines("rekeyed", &records);
    if expected == NONE_SURVIVES {
        assert!(rekeyed.iter().all(|one| one.ends_with(" rolled_back")), "{place}: {records:#?}");
    } else {
        assert_eq!(rekeyed, expected, "{place}: {records:#?}");
    }
}

/// The records of an action, as scenarios write them.
pub fn outlines(action: &str, records: &[Json]) -> Vec<String> {
    records.iter().filter(|record| record["action"] == action).map(outline).collect()
}

/// A record as scenarios write it: `statement.row<statement.row fate`.
fn outline(record: &Json) -> String {
    let place = |of: &Json| format!("{}.{}", of["statement"], of["row"]);
    format!("{}<{} {}", place(record), place(&record["first"]), record["fate"].as_str().unwrap_or("no fate"))
}

/// The rows must be these, in the form of [`Scenario::stored`], with the keys of [`LETTERS`].
pub fn expect_rows(expected: &[&str], rows: &[String]) {
    let fit = rows_fit(expected, rows, &LETTERS.iter().copied().collect(), is_random);
    assert!(fit, "{rows:#?} instead of {expected:#?}");
}

/// Whether rows are as expected; a fresh key must be equal wherever its name is, and unlike every other key.
pub fn rows_fit(
    expected: &[&str],
    rows: &[String],
    known: &BTreeMap<&str, &str>,
    fresh: fn(&str) -> bool,
) -> bool {
    let mut drawn: BTreeMap<&str, &str> = BTreeMap::new();
    let fit = expected.iter().zip(rows).all(|(expected, row)| {
        let (expected, row): (Vec<&str>, Vec<&str>) =
            (expected.split('|').collect(), row.split('|').collect());
        expected.len() == row.len()
            && expected.into_iter().zip(row).all(|(expected, actual)| match known.get(expected) {
                Some(key) => actual == *key,
                None if is_fresh_name(expected) => {
                    *drawn.entry(expected).or_insert(actual) == actual && fresh(actual)
                }
                None => expected == actual,
            })
    });
    let distinct: BTreeSet<&str> = drawn.values().copied().collect();
    let all_new = distinct.len() == drawn.len() && known.values().all(|key| !distinct.contains(key));
    fit && all_new && expected.len() == rows.len()
}

fn is_fresh_name(name: &str) -> bool {
    name.strip_prefix('U').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn rows_fit_only_where_fresh_keys_are_fresh() {
    let (k, one, two) = (
        "11111111-1111-4111-8111-111111111111",
        "a0000000-0000-4000-8000-000000000000",
        "b0000000-0000-4000-8000-000000000000",
    );
    let cases: &[(&[&str], &[&str], bool)] = &[
        (&["K|a", "U|b"], &[k, one], true),
        (&["K|a", "U|b"], &[k, k], false),
        (&["U|a", "K|b"], &[k, one], false),
        (&["K|a", "U|b"], &[k], false),
        (&["U1|a", "U2|b"], &[one, two], true),
        (&["U1|a", "U2|b"], &[one, one], false),
        (&["U1|a", "U1|b"], &[one, one], true),
        (&["U1|a", "U1|b"], &[one, two], false),
        (&["U|a"], &["a0000000-0000-7000-8000-000000000000"], false),
    ];
    let known = LETTERS.iter().copied().collect();
    for (expected, keys, fits) in cases {
        let rows: Vec<String> = keys.iter().zip(["a", "b"]).map(|(key, v)| format!("{key}|{v}")).collect();
        assert_eq!(rows_fit(expected, &rows, &known, is_random), *fits, "{expected:?} {rows:?}");
    }
}
