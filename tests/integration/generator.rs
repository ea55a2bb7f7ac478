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
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from(high).expect("32 bits are left") % bound
    }

    pub fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
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
    /// Arrays of text, one a column, for `unnest`.
    Arrays,
    /// Bind and Execute of what [`prepared`] prepared long ago, where it did.
    Named,
    /// COPY of the rows, in text.
    CopyText,
    /// COPY of the rows, in CSV.
    CopyCsv,
}

const CARRIERS: [Carrier; 8] = [
    Carrier::Query,
    Carrier::Literals,
    Carrier::Texts,
    Carrier::Binaries,
    Carrier::Arrays,
    Carrier::Named,
    Carrier::CopyText,
    Carrier::CopyCsv,
];

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
    let content = if random.one_in(60) { None } else { Some(contents.next()) };
    Row { key: random.below(KEYS), tenant, content }
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
    Statement::Insert { table, rows, on_conflict }
}

fn statement(random: &mut Random, contents: &mut Contents, savepoints: bool) -> Statement {
    let table = random.pick(&[0, 1, SHOPS]);
    let recent = contents.0.saturating_sub(random.below(4));
    let name = random.pick(&["s1", "s2", HOUSEKEEPING]);
    match random.below(40) {
        0 => Statement::DivideByZero,
        1 | 2 => Statement::Select,
        3 => Statement::DeleteContent { table, content: recent },
        4 => Statement::DeleteKey { table, key: random.below(KEYS) },
        5 => Statement::Move { table, content: recent, key: random.below(KEYS) },
        6..=9 if savepoints => Statement::Savepoint(name),
        10..=12 if savepoints => Statement::RollbackTo(name),
        13 if savepoints => Statement::Release(name),
        _ => insert(random, contents),
    }
}

pub fn case(random: &mut Random, contents: &mut Contents) -> Case {
    let explicit = random.below(4) != 0;
    let count = 1 + random.below(8);
    let mut statements: Vec<Statement> = (0..count).map(|_| statement(random, contents, explicit)).collect();
    if explicit {
        statements.insert(0, Statement::Begin);
        statements.push(if random.one_in(8) { Statement::Rollback } else { Statement::Commit });
    }
    let mut groups = Vec::new();
    let longest = random.pick(&[1, 1, 3, 100]);
    while !statements.is_empty() {
        let length = statements.len().min(1 + random.below(longest) as usize);
        let carrier = random.pick(&CARRIERS);
        groups.push(Group { carrier, statements: statements.drain(..length).collect() });
    }
    // Whatever an error in the middle of a group left open.
    groups.push(Group { carrier: Carrier::Query, statements: vec![Statement::Rollback] });
    Case { groups, at_once: random.one_in(2) }
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
        Statement::DeleteKey { table, key } => {
            format!("DELETE FROM {} WHERE id = {}", NAMES[*table], spell(*table, *key))
        }
        Statement::Move { table, content, key } => {
            format!("UPDATE {} SET id = {} WHERE v = {content}", NAMES[*table], spell(*table, *key))
        }
        Statement::Insert { table, rows, on_conflict } => {
            let values = rows.iter().map(|row| {
                let content = row.content.map_or_else(|| "NULL".to_owned(), |content| content.to_string());
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

impl Group {
    /// What is sent, to be answered by one ReadyForQuery.
    pub fn bytes(&self) -> Vec<u8> {
        if let Some((table, rows)) = self.copied() {
            let (format, data) = copy_data(self.carrier, rows);
            let sql = format!("COPY {}(tenant,id,v) FROM STDIN{format}", NAMES[table]);
            return [message::query(sql), message::copy_data(&data), message::copy_done()].concat();
        }
        match self.carrier {
            Carrier::Query | Carrier::CopyText | Carrier::CopyCsv => {
                let texts: Vec<String> = self.statements.iter().map(|one| sql(one, literal)).collect();
                message::query(texts.join(";"))
            }
            carrier => {
                let extended = self.statements.iter().flat_map(|one| extended(one, carrier));
                extended.chain(message::sync()).collect()
            }
        }
    }

    /// The one INSERT that travels as COPY.
    fn copied(&self) -> Option<(usize, &[Row])> {
        let [Statement::Insert { table, rows, on_conflict: OnConflict::Fail }] = &self.statements[..] else {
            return None;
        };
        matches!(self.carrier, Carrier::CopyText | Carrier::CopyCsv).then_some((*table, rows))
    }

    /// An outcome of the model as the server says it of this carrier.
    pub fn said(&self, outcome: String) -> String {
        match (self.copied(), outcome.strip_prefix("INSERT 0 ")) {
            (Some(_), Some(count)) => format!("COPY {count}"),
            _ => outcome,
        }
    }
}

/// The format's options and the data of a COPY.
fn copy_data(carrier: Carrier, rows: &[Row]) -> (&'static str, Vec<u8>) {
    let (options, separator, null) = match carrier {
        Carrier::CopyCsv => (" (FORMAT csv)", ",", ""),
        _ => ("", "\t", "\\N"),
    };
    let line = |row: &Row| {
        let content = row.content.map_or_else(|| null.to_owned(), |content| content.to_string());
        [row.tenant.to_string(), key(row.key), content].join(separator) + "\n"
    };
    (options, rows.iter().map(line).collect::<String>().into_bytes())
}

/// The messages of one statement through the extended protocol, without the Sync.
fn extended(statement: &Statement, carrier: Carrier) -> Vec<u8> {
    match (carrier, statement) {
        (Carrier::Literals, _) => message::extended(sql(statement, literal), &[]),
        (Carrier::Arrays, Statement::Insert { table, rows, on_conflict: OnConflict::Fail }) => {
            unnested(*table, rows)
        }
        (Carrier::Named, Statement::Begin) => bound("begin", &[]),
        (Carrier::Named, Statement::Commit) => bound("commit", &[]),
        (Carrier::Named, Statement::Insert { table, rows, on_conflict: OnConflict::Fail })
            if rows.len() == 1 =>
        {
            let content = rows[0].content.map_or(Value::Null, |content| text(&content.to_string()));
            let id = parameter(Carrier::Binaries, *table, &key(rows[0].key));
            bound(NAMES[*table], &[text(&rows[0].tenant.to_string()), id, content])
        }
        _ => {
            let mut values = Vec::new();
            let sql = sql(statement, |table, number| {
                values.push(parameter(carrier, table, &key(number)));
                format!("${}", values.len())
            });
            message::extended(sql, &values)
        }
    }
}

fn bound(name: &str, values: &[Value]) -> Vec<u8> {
    [message::bind("", name, values), message::execute("", 0)].concat()
}

fn unnested(table: usize, rows: &[Row]) -> Vec<u8> {
    let array = |element: &dyn Fn(&Row) -> String| {
        let elements: Vec<String> = rows.iter().map(element).collect();
        text(&format!("{{{}}}", elements.join(",")))
    };
    let content = |row: &Row| row.content.map_or_else(|| "NULL".to_owned(), |content| content.to_string());
    let values = [array(&|row| row.tenant.to_string()), array(&|row| key(row.key)), array(&content)];
    let kind = if NAMES[table] == "texts" { "text" } else { "uuid" };
    let source = format!("SELECT * FROM unnest($1::int[],$2::{kind}[],$3::int[])");
    message::extended(format!("INSERT INTO {}(tenant,id,v) {source}", NAMES[table]), &values)
}

/// What a session prepares before its first transaction, with a Sync.
pub fn prepared() -> Vec<u8> {
    let insert =
        |name: &&str| message::parse(name, format!("INSERT INTO {name}(tenant,id,v) VALUES ($1,$2,$3)"), &[]);
    let inserts: Vec<u8> = NAMES.iter().flat_map(insert).collect();
    [message::parse("begin", "BEGIN", &[]), message::parse("commit", "COMMIT", &[]), inserts, message::sync()]
        .concat()
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
        let statements: Vec<String> = group.statements.iter().map(|one| sql(one, literal)).collect();
        format!("{:?}: {}", group.carrier, statements.join("; "))
    };
    let how = if case.at_once { "in one write" } else { "one after the other" };
    format!("{how}\n{}", case.groups.iter().map(group).collect::<Vec<_>>().join("\n"))
}
