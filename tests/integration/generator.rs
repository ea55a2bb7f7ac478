//! Draws transactions at random and writes them down as messages; what should come of them is not its business.

use crate::expect::sixteen_bytes;
use crate::reference::{HOUSEKEEPING, OnConflict, Row, Statement};
use crate::support::message::{self, Value, text};

pub const NAMES: [&str; 3] = ["plain", "texts", "shops"];
const SHOPS: usize = 2;

/// How many keys there are: few, so that twins are many.
pub const KEYS: u32 = 6;

/// xorshift64*: random enough, and the same everywhere.
pub struct Random(pub u64);

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
pub enum Carrier {
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
pub struct Group {
    /// How they travel.
    pub carrier: Carrier,
    /// What they are.
    pub statements: Vec<Statement>,
}

/// Groups, and whether all of them are written at once.
#[derive(Clone, Debug)]
pub struct Case {
    /// In order.
    pub groups: Vec<Group>,
    /// Whether a client writes all of them before it reads.
    pub at_once: bool,
}

pub fn key(number: u32) -> String {
    format!("1111111{number}-1111-4111-8111-11111111111{number}")
}

/// The content of the next row; never the same twice.
pub struct Contents(pub u32);

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

pub fn case(random: &mut Random, contents: &mut Contents) -> Case {
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
pub fn sql(statement: &Statement, mut spell: impl FnMut(usize, u32) -> String) -> String {
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

pub fn bytes(group: &Group) -> Vec<u8> {
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

/// A case as a person would type it.
pub fn script(case: &Case) -> String {
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
