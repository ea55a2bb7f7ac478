//! Random transactions on a bare server, through untwin and in the model: harmless where nothing conflicts, saved where only twins do.
//!
//! `UNTWIN_DIFFERENTIAL_TRANSACTIONS` and `UNTWIN_DIFFERENTIAL_SEED` make it longer and other; a failure prints both.

use std::collections::{BTreeMap, BTreeSet};

use crate::reference::{HOUSEKEEPING, Key, Model, OnConflict, Row, Statement, Table};
use crate::scenario::sixteen_bytes;
use crate::support::message::{self, Value, text};
use crate::support::{Database, Proxy, Wire, wire};

const TABLES: &str = "
    CREATE TABLE plain (tenant int, id uuid PRIMARY KEY, v int NOT NULL);
    CREATE TABLE texts (tenant int, id text PRIMARY KEY, v int NOT NULL);
    CREATE TABLE shops (tenant int, id uuid, v int NOT NULL, PRIMARY KEY (tenant, id))";

const NAMES: [&str; 3] = ["plain", "texts", "shops"];
const SHOPS: usize = 2;

/// How many keys there are: few, so that twins are many.
const KEYS: u32 = 6;

/// Transactions of one session.
const SESSION: u64 = 20;

/// xorshift64*: random enough, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from(high).expect("32 bits are left") % bound
    }

    fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(u32::try_from(among.len()).expect("few")) as usize]
    }
}

/// How the statements of a group travel.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    /// One Query, keys as literals.
    Query,
    /// Parse, Bind, Execute of each, then a Sync; keys as literals.
    Literals,
    /// The same with keys as text parameters.
    Texts,
    /// The same with keys as binary parameters.
    Binaries,
}

/// Statements up to one ReadyForQuery.
#[derive(Clone, Debug)]
struct Group {
    carrier: Carrier,
    statements: Vec<Statement>,
}

/// Groups, and whether all of them are written at once.
#[derive(Clone, Debug)]
struct Case {
    groups: Vec<Group>,
    at_once: bool,
}

fn key(number: u32) -> String {
    format!("1111111{number}-1111-4111-8111-11111111111{number}")
}

/// The content of the next row; never the same twice.
struct Contents(u32);

impl Contents {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

fn row(random: &mut Random, table: usize, contents: &mut Contents) -> Row {
    let tenant = if table == SHOPS { random.below(2) } else { 0 };
    let content = if random.one_in(60) {
        None
    } else {
        Some(contents.next())
    };
    Row {
        key: random.below(KEYS),
        tenant,
        content,
    }
}

fn insert(random: &mut Random, contents: &mut Contents) -> Statement {
    let table = random.pick(&[0, 0, 1, SHOPS]);
    let count = random.pick(&[1, 1, 1, 2, 3, 5]);
    let rows = (0..count).map(|_| row(random, table, contents)).collect();
    let on_conflict = random.pick(
        &[OnConflict::Fail; 14]
            .into_iter()
            .chain([OnConflict::Nothing, OnConflict::Update])
            .collect::<Vec<_>>(),
    );
    Statement::Insert {
        table,
        rows,
        on_conflict,
    }
}

fn statement(random: &mut Random, contents: &mut Contents, savepoints: bool) -> Statement {
    let table = random.pick(&[0, 1, SHOPS]);
    let recent = contents.0.saturating_sub(random.below(4));
    let name = random.pick(&["s1", "s2", HOUSEKEEPING]);
    match random.below(40) {
        0 => Statement::DivideByZero,
        1 | 2 => Statement::Select,
        3 => Statement::DeleteContent {
            table,
            content: recent,
        },
        4 => Statement::DeleteKey {
            table,
            key: random.below(KEYS),
        },
        5 => Statement::Move {
            table,
            content: recent,
            key: random.below(KEYS),
        },
        6..=9 if savepoints => Statement::Savepoint(name),
        10..=12 if savepoints => Statement::RollbackTo(name),
        13 if savepoints => Statement::Release(name),
        _ => insert(random, contents),
    }
}

fn case(random: &mut Random, contents: &mut Contents) -> Case {
    let explicit = random.below(4) != 0;
    let count = 1 + random.below(8);
    let mut statements: Vec<Statement> = (0..count)
        .map(|_| statement(random, contents, explicit))
        .collect();
    if explicit {
        statements.insert(0, Statement::Begin);
        statements.push(if random.one_in(8) {
            Statement::Rollback
        } else {
            Statement::Commit
        });
    }
    let mut groups = Vec::new();
    let longest = random.pick(&[1, 1, 3, 100]);
    while !statements.is_empty() {
        let length = statements.len().min(1 + random.below(longest) as usize);
        let carrier = random.pick(&[
            Carrier::Query,
            Carrier::Literals,
            Carrier::Texts,
            Carrier::Binaries,
        ]);
        groups.push(Group {
            carrier,
            statements: statements.drain(..length).collect(),
        });
    }
    // Whatever an error in the middle of a group left open.
    groups.push(Group {
        carrier: Carrier::Query,
        statements: vec![Statement::Rollback],
    });
    Case {
        groups,
        at_once: random.one_in(2),
    }
}

/// A statement as SQL, its keys handed to `spell`, which returns what stands for them in the text.
fn sql(statement: &Statement, mut spell: impl FnMut(usize, u32) -> String) -> String {
    match statement {
        Statement::Begin => "BEGIN".to_owned(),
        Statement::Commit => "COMMIT".to_owned(),
        Statement::Rollback => "ROLLBACK".to_owned(),
        Statement::Savepoint(name) => format!("SAVEPOINT \"{name}\""),
        Statement::RollbackTo(name) => format!("ROLLBACK TO \"{name}\""),
        Statement::Release(name) => format!("RELEASE \"{name}\""),
        Statement::DivideByZero => "SELECT 1/0".to_owned(),
        Statement::Select => "SELECT 1".to_owned(),
        Statement::DeleteContent { table, content } => {
            format!("DELETE FROM {} WHERE v = {content}", NAMES[*table])
        }
        Statement::DeleteKey { table, key } => format!(
            "DELETE FROM {} WHERE id = {}",
            NAMES[*table],
            spell(*table, *key)
        ),
        Statement::Move {
            table,
            content,
            key,
        } => {
            format!(
                "UPDATE {} SET id = {} WHERE v = {content}",
                NAMES[*table],
                spell(*table, *key)
            )
        }
        Statement::Insert {
            table,
            rows,
            on_conflict,
        } => {
            let values = rows.iter().map(|row| {
                let content = row
                    .content
                    .map_or_else(|| "NULL".to_owned(), |content| content.to_string());
                format!("({},{},{content})", row.tenant, spell(*table, row.key))
            });
            let target = if *table == SHOPS { "tenant, id" } else { "id" };
            let tail = match on_conflict {
                OnConflict::Fail => String::new(),
                OnConflict::Nothing => " ON CONFLICT DO NOTHING".to_owned(),
                OnConflict::Update => {
                    format!(" ON CONFLICT ({target}) DO UPDATE SET v = EXCLUDED.v")
                }
            };
            format!(
                "INSERT INTO {}(tenant,id,v) VALUES {}{tail}",
                NAMES[*table],
                values.collect::<Vec<_>>().join(",")
            )
        }
    }
}

fn literal(_: usize, number: u32) -> String {
    format!("'{}'", key(number))
}

fn bytes(group: &Group) -> Vec<u8> {
    let one = |statement: &Statement| {
        let mut values = Vec::new();
        let text = match group.carrier {
            Carrier::Query | Carrier::Literals => sql(statement, literal),
            Carrier::Texts | Carrier::Binaries => sql(statement, |table, number| {
                values.push(parameter(group.carrier, table, &key(number)));
                format!("${}", values.len())
            }),
        };
        (text, values)
    };
    let statements = group.statements.iter().map(one);
    if matches!(group.carrier, Carrier::Query) {
        return message::query(
            statements
                .map(|(text, _)| text)
                .collect::<Vec<_>>()
                .join(";"),
        );
    }
    let extended: Vec<u8> = statements
        .flat_map(|(text, values)| message::extended(text, &values))
        .collect();
    [extended, message::sync()].concat()
}

fn parameter(carrier: Carrier, table: usize, key: &str) -> Value {
    match carrier {
        Carrier::Binaries if NAMES[table] != "texts" => Value::Binary(sixteen_bytes(key)),
        Carrier::Binaries => Value::Binary(key.as_bytes().to_vec()),
        _ => text(key),
    }
}

fn replies(session: &mut Wire, case: &Case) -> Vec<wire::Reply> {
    if case.at_once {
        let all: Vec<u8> = case.groups.iter().flat_map(bytes).collect();
        return session.converse(&all, case.groups.len());
    }
    case.groups
        .iter()
        .flat_map(|group| session.converse(&bytes(group), 1))
        .collect()
}

/// The rows that are there before each transaction: a key that only a conflict can explain.
fn rows_before() -> BTreeMap<usize, Table> {
    (0..NAMES.len())
        .map(|table| (table, Table::from([((0, Key::Given(0)), 0)])))
        .collect()
}

fn reset(session: &mut Wire) {
    let inserts: Vec<String> = NAMES
        .iter()
        .map(|name| format!("INSERT INTO {name} VALUES (0, '{}', 0)", key(0)))
        .collect();
    session.run(&format!(
        "TRUNCATE {}; {}",
        NAMES.join(","),
        inserts.join(";")
    ));
}

const STORED: &str =
    "SELECT 0 AS t, tenant, id::text, v FROM plain UNION ALL SELECT 1, tenant, id, v FROM texts
                      UNION ALL SELECT 2, tenant, id::text, v FROM shops ORDER BY t, v";

/// Whether stored rows are those of the model, fresh keys where it has drawn some.
fn fit(model: &BTreeMap<usize, Table>, stored: &[String]) -> bool {
    let mut expected: Vec<(usize, u32, u32, Key)> = Vec::new();
    for (table, rows) in model {
        expected.extend(
            rows.iter()
                .map(|((tenant, key), content)| (*table, *content, *tenant, *key)),
        );
    }
    expected.sort();
    let given: BTreeSet<String> = (0..KEYS).map(key).collect();
    let row_fits =
        |((table, content, tenant, stored_key), row): (&(usize, u32, u32, Key), &String)| {
            let columns: Vec<&str> = row.split('|').collect();
            let [t, te, id, v] = columns[..] else {
                return false;
            };
            let key_fits = match stored_key {
                Key::Given(number) => id == key(*number),
                Key::Fresh(_) => !given.contains(id) && crate::scenario::is_random(id),
            };
            t == table.to_string()
                && te == tenant.to_string()
                && v == content.to_string()
                && key_fits
        };
    expected.len() == stored.len() && expected.iter().zip(stored).all(row_fits)
}

/// A case as a person would type it.
fn script(case: &Case) -> String {
    let group = |group: &Group| {
        let statements: Vec<String> = group
            .statements
            .iter()
            .map(|one| sql(one, literal))
            .collect();
        format!("{:?}: {}", group.carrier, statements.join("; "))
    };
    let how = if case.at_once {
        "in one write"
    } else {
        "one after the other"
    };
    format!(
        "{how}\n{}",
        case.groups.iter().map(group).collect::<Vec<_>>().join("\n")
    )
}

/// What was insisted on for one case, for the count in the end.
#[derive(Default)]
struct Seen {
    harmless: u32,
    saved: u32,
    open: u32,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    })
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
    let (mut direct, mut through) = (bare.connect(), proxy.connect());
    for turn in 0..count {
        if turn % SESSION == 0 {
            (direct, through) = (bare.connect(), proxy.connect());
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
            let failed = direct_outcomes
                .iter()
                .any(|outcome| outcome.starts_with('!'));
            assert!(failed || actual == expected, "replies differ: {}", place());
        }
        let mut model = Model::on(rows_before());
        let predicted: Vec<String> = case
            .groups
            .iter()
            .flat_map(|group| model.group(&group.statements))
            .collect();
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
    println!(
        "harmless {}, as the model says {}, open {}, of {count}",
        seen.harmless, seen.saved, seen.open
    );
    assert!(
        u64::from(seen.harmless) > count / 10 && u64::from(seen.saved) > count / 5,
        "too few cases say anything"
    );
}

#[test]
fn the_model_agrees_with_a_bare_server_where_nothing_conflicts() {
    let bare = Database::fresh(TABLES);
    let (mut random, mut contents) = (Random(7), Contents(0));
    let (mut keeper, mut session) = (bare.connect(), bare.connect());
    for _ in 0..300 {
        reset(&mut keeper);
        let case = case(&mut random, &mut contents);
        let outcomes = wire::outcomes(&replies(&mut session, &case));
        let mut model = Model::on(rows_before());
        let predicted: Vec<String> = case
            .groups
            .iter()
            .flat_map(|group| model.group(&group.statements))
            .collect();
        if outcomes.iter().any(|outcome| outcome == "!23505") || model.unsure {
            continue;
        }
        assert_eq!(outcomes, predicted, "{}", script(&case));
        assert!(
            fit(model.stored(), &keeper.rows(STORED)),
            "{}",
            script(&case)
        );
    }
}
