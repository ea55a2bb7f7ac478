//! Random transactions on a bare server, through untwin and in the model: harmless where nothing conflicts, saved where only twins do.
//!
//! `UNTWIN_DIFFERENTIAL_TRANSACTIONS` and `UNTWIN_DIFFERENTIAL_SEED` make it longer and other; a failure prints both.

use std::collections::{BTreeMap, BTreeSet};

use crate::expect::is_random;
use crate::generator::{Case, Contents, Group, KEYS, NAMES, Random, case, key, prepared, script};
use crate::reference::{Key, Model, Table};
use crate::support::{Database, Proxy, Wire, wire};

const TABLES: &str = "
    CREATE TABLE plain (tenant int, id uuid PRIMARY KEY, v int NOT NULL);
    CREATE TABLE texts (tenant int, id text PRIMARY KEY, v int NOT NULL);
    CREATE TABLE shops (tenant int, id uuid, v int NOT NULL, PRIMARY KEY (tenant, id))";

/// Transactions of one session.
const SESSION: u64 = 20;

/// A session that has prepared what it will need.
fn session(mut wire: Wire) -> Wire {
    wire.converse(&prepared(), 1);
    wire
}

/// The outcomes the model expects.
fn predict(model: &mut Model, case: &Case) -> Vec<String> {
    let said = |group: &Group| -> Vec<String> {
        model.group(&group.statements).into_iter().map(|outcome| group.said(outcome)).collect()
    };
    case.groups.iter().flat_map(said).collect()
}

fn replies(session: &mut Wire, case: &Case) -> Vec<wire::Reply> {
    if case.at_once {
        let all: Vec<u8> = case.groups.iter().flat_map(Group::bytes).collect();
        return session.converse(&all, case.groups.len());
    }
    case.groups.iter().flat_map(|group| session.converse(&group.bytes(), 1)).collect()
}

/// The rows that are there before each transaction: a key that only a conflict can explain.
fn rows_before() -> BTreeMap<usize, Table> {
    (0..NAMES.len()).map(|table| (table, Table::from([((0, Key::Given(0)), 0)]))).collect()
}

fn reset(session: &mut Wire) {
    let inserts: Vec<String> =
        NAMES.iter().map(|name| format!("INSERT INTO {name} VALUES (0, '{}', 0)", key(0))).collect();
    session.run(&format!("TRUNCATE {}; {}", NAMES.join(","), inserts.join(";")));
}

const STORED: &str =
    "SELECT 0 AS t, tenant, id::text, v FROM plain UNION ALL SELECT 1, tenant, id, v FROM texts
                      UNION ALL SELECT 2, tenant, id::text, v FROM shops ORDER BY t, v";

/// Whether stored rows are those of the model, fresh keys where it has drawn some.
fn fit(model: &BTreeMap<usize, Table>, stored: &[String]) -> bool {
    let mut expected: Vec<(usize, u32, u32, Key)> = Vec::new();
    for (table, rows) in model {
        expected.extend(rows.iter().map(|((tenant, key), content)| (*table, *content, *tenant, *key)));
    }
    expected.sort();
    let given: BTreeSet<String> = (0..KEYS).map(key).collect();
    let row_fits = |((table, content, tenant, stored_key), row): (&(usize, u32, u32, Key), &String)| {
        let columns: Vec<&str> = row.split('|').collect();
        let [t, te, id, v] = columns[..] else {
            return false;
        };
        let key_fits = match stored_key {
            Key::Given(number) => id == key(*number),
            Key::Fresh(_) => !given.contains(id) && is_random(id),
        };
        t == table.to_string() && te == tenant.to_string() && v == content.to_string() && key_fits
    };
    expected.len() == stored.len() && expected.iter().zip(stored).all(row_fits)
}

/// What was insisted on for one case, for the count in the end.
#[derive(Default)]
struct Seen {
    harmless: u32,
    saved: u32,
    open: u32,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn random_transactions_are_harmless_and_saved() {
    let seed = number("UNTWIN_DIFFERENTIAL_SEED", 20_260_101);
    let count = number("UNTWIN_DIFFERENTIAL_TRANSACTIONS", 500);
    let (bare, behind) = (Database::fresh(TABLES), Database::fresh(TABLES));
    let proxy = Proxy::before(&behind);
    let mut random = Random(seed.max(1));
    let mut contents = Contents(0);
    let mut seen = Seen::default();
    let (mut keeper, mut keeper_behind) = (bare.connect(), behind.connect());
    let (mut direct, mut through) = (session(bare.connect()), session(proxy.connect()));
    for turn in 0..count {
        if turn % SESSION == 0 {
            (direct, through) = (session(bare.connect()), session(proxy.connect()));
        }
        reset(&mut keeper);
        reset(&mut keeper_behind);
        let case = case(&mut random, &mut contents);
        let place = || format!("seed {seed}, transaction {turn}, {}", script(&case));
        let expected = replies(&mut direct, &case);
        let actual = replies(&mut through, &case);
        let stored = keeper_behind.rows(STORED);
        let (direct_outcomes, outcomes) = (wire::outcomes(&expected), wire::outcomes(&actual));
        if !direct_outcomes.iter().any(|outcome| outcome == "!23505") {
            seen.harmless += 1;
            assert_eq!(outcomes, direct_outcomes, "{}", place());
            assert_eq!(stored, keeper.rows(STORED), "{}", place());
            let failed = direct_outcomes.iter().any(|outcome| outcome.starts_with('!'));
            assert!(failed || actual == expected, "replies differ: {}", place());
        }
        let mut model = Model::on(rows_before());
        let predicted = predict(&mut model, &case);
        if model.unsure {
            seen.open += 1;
            continue;
        }
        seen.saved += 1;
        assert_eq!(outcomes, predicted, "{}", place());
        assert!(
            fit(model.stored(), &stored),
            "stored {stored:#?} instead of {:#?}: {}",
            model.stored(),
            place()
        );
    }
    println!("harmless {}, as the model says {}, open {}, of {count}", seen.harmless, seen.saved, seen.open);
    assert!(
        u64::from(seen.harmless) > count / 10 && u64::from(seen.saved) > count / 5,
        "too few cases say anything"
    );
}

#[test]
fn the_model_agrees_with_a_bare_server_where_nothing_conflicts() {
    let bare = Database::fresh(TABLES);
    let (mut random, mut contents) = (Random(7), Contents(0));
    let (mut keeper, mut direct) = (bare.connect(), session(bare.connect()));
    for _ in 0..300 {
        reset(&mut keeper);
        let case = case(&mut random, &mut contents);
        let outcomes = wire::outcomes(&replies(&mut direct, &case));
        let mut model = Model::on(rows_before());
        let predicted = predict(&mut model, &case);
        if outcomes.iter().any(|outcome| outcome == "!23505") || model.unsure {
            continue;
        }
        assert_eq!(outcomes, predicted, "{}", script(&case));
        assert!(fit(model.stored(), &keeper.rows(STORED)), "{}", script(&case));
    }
}
