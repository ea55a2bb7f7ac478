//! Writes cases down as SQL and as messages. What they mean is not its business.

use super::case::*;
use super::forms::{binary_array, field};
use super::schema::{Column, Schema};
use crate::support::message::{self, Value, text};

/// Everything that the spelling of a case depends on.
#[derive(Clone, Copy)]
pub struct Speller<'a> {
    pub schema: &'a Schema,
    pub keys: &'a Keys,
    /// The case's number, in the name of its own table.
    pub number: u32,
}

/// Spells a cell of a column in the row of this number; parameters are added to the values.
type Spell<'s> = dyn FnMut(Cell, &Column, usize, &mut Vec<Value>) -> String + 's;

fn holds_uuid(column: &Column) -> bool {
    matches!(column.kind, "uuid" | "kid")
}

/// The type that stands for a column's in casts, arrays and records: a domain's base, and text for what is like it.
fn base(column: &Column) -> &'static str {
    match column.kind {
        "uuid" | "kid" => "uuid",
        "int" => "int",
        "bigint" => "bigint",
        _ => "text",
    }
}

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

impl Speller<'_> {
    /// A value's text, if it has one.
    fn cell(&self, cell: Cell, column: &Column, spelling: Spelling) -> Option<String> {
        match cell {
            Cell::Key(key) => {
                let uuid = uuid::Uuid::from_u128(self.keys.value(key));
                Some(match spelling {
                    Spelling::Upper if holds_uuid(column) => uuid.to_string().to_uppercase(),
                    Spelling::Braces if holds_uuid(column) => uuid.braced().to_string(),
                    Spelling::Simple if holds_uuid(column) => uuid.simple().to_string(),
                    _ => uuid.to_string(),
                })
            }
            Cell::NoKey => Some("no key".to_owned()),
            Cell::Number(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text.to_owned()),
            Cell::Null | Cell::Default => None,
        }
    }

    fn literal(&self, cell: Cell, column: &Column, insert: &Insert) -> String {
        match (cell, self.cell(cell, column, insert.spelling)) {
            (Cell::Default, _) => "DEFAULT".to_owned(),
            (_, None) => "NULL".to_owned(),
            (Cell::Number(_), Some(number)) => number,
            (_, Some(text)) => quoted(&text),
        }
    }

    /// A literal with its type; which of the ways to say it follows from the row.
    fn cast(&self, cell: Cell, column: &Column, insert: &Insert, row: usize) -> String {
        let literal = self.literal(cell, column, insert);
        match (cell, base(column)) {
            (Cell::Number(_) | Cell::Default, _) => literal,
            (Cell::Key(_), "uuid") => match row % 3 {
                0 => format!("{literal}::uuid"),
                1 => format!("CAST({literal} AS uuid)"),
                _ if insert.carrier == Carrier::Casts => format!("uuid {literal}"),
                _ => format!("({literal}::uuid)"),
            },
            (_, kind) => format!("{literal}::{kind}"),
        }
    }

    fn parameter(&self, cell: Cell, column: &Column, insert: &Insert) -> Value {
        let Some(text) = self.cell(cell, column, insert.spelling) else { return Value::Null };
        if insert.carrier.is_binary() {
            Value::Binary(self.binary(cell, column, &text))
        } else {
            Value::Text(text)
        }
    }

    fn binary(&self, cell: Cell, column: &Column, text: &str) -> Vec<u8> {
        match (cell, column.kind) {
            (Cell::Key(key), "uuid" | "kid") => self.keys.value(key).to_be_bytes().to_vec(),
            (Cell::Number(number), "int") => number.to_be_bytes().to_vec(),
            (Cell::Number(number), "bigint") => u64::from(number).to_be_bytes().to_vec(),
            _ => text.as_bytes().to_vec(),
        }
    }

    /// An INSERT as SQL, and its parameters.
    fn insert(&self, insert: &Insert) -> (String, Vec<Value>) {
        let relation = &self.schema.relations[insert.relation];
        let table = &self.schema.tables[relation.table];
        let columns: Vec<&Column> = insert.columns.iter().map(|&at| &table.columns[at]).collect();
        if insert.carrier == Carrier::Execute {
            let values: Vec<String> = insert.rows[0]
                .iter()
                .zip(&columns)
                .map(|(cell, column)| self.literal(*cell, column, insert))
                .collect();
            return (format!("EXECUTE x_{}({})", relation.name, values.join(", ")), Vec::new());
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let list = if insert.says_columns { format!(" ({})", names.join(", ")) } else { String::new() };
        if insert.carrier.is_copy() {
            let format = match insert.carrier {
                Carrier::CopyCsv => " (FORMAT csv)",
                Carrier::CopyBinary => " WITH (FORMAT 'binary')",
                _ => "",
            };
            return (format!("COPY {}{list} FROM STDIN{format}", relation.name), Vec::new());
        }
        let overriding = match insert.overriding {
            Overriding::Unsaid => "",
            Overriding::System => " OVERRIDING SYSTEM VALUE",
            Overriding::User => " OVERRIDING USER VALUE",
        };
        let (source, values) = self.source(insert, &columns);
        let conflict = match insert.on_conflict {
            OnConflict::Fail => String::new(),
            OnConflict::Nothing => " ON CONFLICT DO NOTHING".to_owned(),
            OnConflict::Update => {
                let arbiter = table.arbiter().expect("upserts name an index");
                let target: Vec<&str> =
                    table.uniques[arbiter].columns.iter().map(|&at| table.columns[at].name).collect();
                format!(" ON CONFLICT ({}) DO UPDATE SET note = 'u'", target.join(", "))
            }
        };
        let returning = match insert.returning {
            _ if insert.carrier == Carrier::Cte => " RETURNING 1",
            true => " RETURNING id, v",
            false => "",
        };
        let sql = format!("INSERT INTO {}{list}{overriding} {source}{conflict}{returning}", relation.name);
        match insert.carrier {
            Carrier::Cte => (format!("WITH made AS ({sql}) SELECT count(*) FROM made"), values),
            _ => (sql, values),
        }
    }

    /// What an INSERT inserts.
    fn source(&self, insert: &Insert, columns: &[&Column]) -> (String, Vec<Value>) {
        let mut values = Vec::new();
        let mut rows = |spell: &mut Spell<'_>| -> Vec<String> {
            let row = |(at, row): (usize, &Vec<Cell>)| {
                let cells =
                    row.iter().zip(columns).map(|(cell, column)| spell(*cell, column, at, &mut values));
                cells.collect::<Vec<_>>().join(", ")
            };
            insert.rows.iter().enumerate().map(row).collect()
        };
        let listed = |rows: Vec<String>| format!("VALUES ({})", rows.join("), ("));
        let source = match insert.carrier {
            Carrier::Casts => listed(rows(&mut |cell, column, at, _| self.cast(cell, column, insert, at))),
            Carrier::Texts | Carrier::Binaries | Carrier::Named => {
                listed(rows(&mut |cell, column, _, values| {
                    if cell == Cell::Default {
                        return "DEFAULT".to_owned();
                    }
                    values.push(self.parameter(cell, column, insert));
                    format!("${}", values.len())
                }))
            }
            Carrier::Selects => {
                let rows = rows(&mut |cell, column, _, values| {
                    values.push(self.parameter(cell, column, insert));
                    format!("${}::{}", values.len(), base(column))
                });
                format!("SELECT {}", rows.join(" UNION ALL SELECT "))
            }
            Carrier::Derived | Carrier::Filtered => {
                let rows = rows(&mut |cell, column, at, _| self.cast(cell, column, insert, at));
                let filter = if insert.carrier == Carrier::Filtered { " WHERE true" } else { "" };
                format!("SELECT * FROM ({}) AS s{filter}", listed(rows))
            }
            Carrier::ArrayLiterals | Carrier::ArrayTexts | Carrier::ArrayBinaries => {
                let array = |at: usize| self.array(insert, columns[at], at, &mut values);
                let arrays: Vec<String> = (0..columns.len()).map(array).collect();
                format!("SELECT * FROM unnest({})", arrays.join(", "))
            }
            Carrier::JsonLiteral | Carrier::JsonText => {
                let document = self.json(insert, columns);
                let types: Vec<String> =
                    columns.iter().map(|column| format!("{} {}", column.name, base(column))).collect();
                let call = if insert.carrier == Carrier::JsonLiteral {
                    format!("json_to_recordset('{document}')")
                } else {
                    values.push(text(&document));
                    "jsonb_to_recordset($1)".to_owned()
                };
                let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
                format!("SELECT {} FROM {call} AS s({})", names.join(", "), types.join(", "))
            }
            _ => listed(rows(&mut |cell, column, _, _| self.literal(cell, column, insert))),
        };
        (source, values)
    }

    fn array(&self, insert: &Insert, column: &Column, at: usize, values: &mut Vec<Value>) -> String {
        let elements = insert.rows.iter().map(|row| row[at]);
        let kind = base(column);
        if insert.carrier == Carrier::ArrayBinaries {
            let elements = elements.map(|cell| {
                let text = self.cell(cell, column, insert.spelling)?;
                Some(self.binary(cell, column, &text))
            });
            values.push(Value::Binary(binary_array(kind, elements.collect())));
        } else {
            let element = |cell| match self.cell(cell, column, insert.spelling) {
                None => "NULL".to_owned(),
                Some(text) if kind == "int" || kind == "bigint" => text,
                Some(text) => format!("\"{text}\""),
            };
            let array = format!("{{{}}}", elements.map(element).collect::<Vec<_>>().join(","));
            if insert.carrier == Carrier::ArrayLiterals {
                return format!("'{array}'::{kind}[]");
            }
            values.push(Value::Text(array));
        }
        format!("${}::{kind}[]", values.len())
    }

    fn json(&self, insert: &Insert, columns: &[&Column]) -> String {
        let row = |row: &Vec<Cell>| {
            let member = |(cell, column): (&Cell, &&Column)| {
                let value = match (cell, self.cell(*cell, column, insert.spelling)) {
                    (_, None) => "null".to_owned(),
                    (Cell::Number(_), Some(number)) => number,
                    (_, Some(text)) => format!("\"{text}\""),
                };
                format!("\"{}\":{value}", column.name)
            };
            format!("{{{}}}", row.iter().zip(columns).map(member).collect::<Vec<_>>().join(","))
        };
        format!("[{}]", insert.rows.iter().map(row).collect::<Vec<_>>().join(","))
    }

    /// The data of a COPY.
    fn copy_data(&self, insert: &Insert) -> Vec<u8> {
        let table = &self.schema.tables[self.schema.relations[insert.relation].table];
        let column = |at: usize| &table.columns[insert.columns[at]];
        if insert.carrier == Carrier::CopyBinary {
            let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
            for row in &insert.rows {
                data.extend(u16::try_from(row.len()).expect("few columns").to_be_bytes());
                for (at, cell) in row.iter().enumerate() {
                    let bytes = self
                        .cell(*cell, column(at), insert.spelling)
                        .map(|text| self.binary(*cell, column(at), &text));
                    data.extend(field(bytes));
                }
            }
            data.extend((-1_i16).to_be_bytes());
            return data;
        }
        let (separator, null) = if insert.carrier == Carrier::CopyCsv { (",", "") } else { ("\t", "\\N") };
        let line = |row: &Vec<Cell>| {
            let fields = row.iter().enumerate().map(|(at, cell)| {
                self.cell(*cell, column(at), insert.spelling).unwrap_or_else(|| null.to_owned())
            });
            fields.collect::<Vec<_>>().join(separator) + "\n"
        };
        insert.rows.iter().map(line).collect::<String>().into_bytes()
    }

    /// A statement as SQL, and its parameters. `parameters`: keys are parameters, where the statement is no INSERT.
    pub fn sql(&self, statement: &Statement, parameters: bool) -> (String, Vec<Value>) {
        let mut values = Vec::new();
        let name = |relation: &usize| self.schema.relations[*relation].name.as_str();
        let key = |number: &u32, values: &mut Vec<Value>| {
            let spelled = spell(self.keys.value(*number));
            if !parameters {
                return quoted(&spelled);
            }
            values.push(Value::Text(spelled));
            format!("${}", values.len())
        };
        let which = |which: &Which, values: &mut Vec<Value>| match which {
            Which::Content(content) => format!("v = {content}"),
            Which::Key(number) => format!("id = {}", key(number, values)),
        };
        let own = format!("own_{}", self.number);
        let sql = match statement {
            Statement::Begin => "BEGIN".to_owned(),
            Statement::Commit => "COMMIT".to_owned(),
            Statement::Rollback => "ROLLBACK".to_owned(),
            Statement::Savepoint(name) => format!("SAVEPOINT \"{name}\""),
            Statement::RollbackTo(name) => format!("ROLLBACK TO \"{name}\""),
            Statement::Release(name) => format!("RELEASE \"{name}\""),
            Statement::DivideByZero => "SELECT 1/0".to_owned(),
            Statement::SelectOne => "SELECT 1".to_owned(),
            Statement::Count { relation, key: number } => {
                let which = which(&Which::Key(*number), &mut values);
                format!("SELECT count(*) FROM {} WHERE {which}", name(relation))
            }
            Statement::Insert(insert) => return self.insert(insert),
            Statement::Delete { relation, which: rows } => {
                format!("DELETE FROM {} WHERE {}", name(relation), which(rows, &mut values))
            }
            Statement::Note { relation, which: rows } => {
                format!("UPDATE {} SET note = 'm' WHERE {}", name(relation), which(rows, &mut values))
            }
            Statement::Move { relation, content, key: number } => {
                format!("UPDATE {} SET id = {} WHERE v = {content}", name(relation), key(number, &mut values))
            }
            Statement::Do { relation, content } => {
                format!("DO $$ BEGIN DELETE FROM {} WHERE v = {content}; END $$", name(relation))
            }
            Statement::CreateTable => format!("CREATE TABLE {own} (id uuid PRIMARY KEY, v int NOT NULL)"),
            Statement::FillTable { key: number, content } => {
                format!("INSERT INTO {own} VALUES ({}, {content})", key(number, &mut values))
            }
            Statement::DropTable => format!("DROP TABLE {own}"),
        };
        (sql, values)
    }

    /// What is sent, to be answered by one ReadyForQuery.
    pub fn bytes(&self, group: &Group) -> Vec<u8> {
        if group.extended {
            let each = group.statements.iter().flat_map(|one| self.extended(one, group.parameters));
            return each.chain(message::sync()).collect();
        }
        let texts: Vec<String> = group.statements.iter().map(|one| self.sql(one, false).0).collect();
        let mut bytes = message::query(texts.join("; "));
        bytes.extend(group.statements.iter().flat_map(|one| self.copied(one)));
        bytes
    }

    fn copied(&self, statement: &Statement) -> Vec<u8> {
        match statement {
            Statement::Insert(insert) if insert.carrier.is_copy() => {
                [message::copy_data(&self.copy_data(insert)), message::copy_done()].concat()
            }
            _ => Vec::new(),
        }
    }

    fn extended(&self, statement: &Statement, parameters: bool) -> Vec<u8> {
        let (sql, values) = self.sql(statement, parameters);
        match statement {
            Statement::Insert(insert) if insert.carrier == Carrier::Named => {
                let name = format!("n_{}", self.schema.relations[insert.relation].name);
                [message::bind("", &name, &values), message::execute("", 0)].concat()
            }
            _ => [message::extended(sql, &values), self.copied(statement)].concat(),
        }
    }

    /// A case as a person would read it.
    pub fn script(&self, case: &Case) -> String {
        let statement = |one: &Statement, parameters| {
            let (sql, values) = self.sql(one, parameters);
            let data = match one {
                Statement::Insert(insert) if insert.carrier.is_copy() => {
                    let plain = Insert { carrier: Carrier::CopyCsv, ..insert.clone() };
                    format!(" <- {}", String::from_utf8_lossy(&self.copy_data(&plain)).replace('\n', " / "))
                }
                Statement::Insert(insert) if insert.carrier == Carrier::Named => " (prepared)".to_owned(),
                _ => String::new(),
            };
            let shown = |value: &Value| match value {
                Value::Null => "NULL".to_owned(),
                Value::Text(text) => text.clone(),
                Value::Binary(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            let values: Vec<String> = values.iter().map(shown).collect();
            let values = if values.is_empty() { String::new() } else { format!(" <- {}", values.join(", ")) };
            format!("    {sql}{values}{data};\n")
        };
        let step = |step: &Step| match step {
            Step::Meanwhile(insert) => {
                format!(
                    "  meanwhile, another session:\n{}",
                    statement(&Statement::Insert(insert.clone()), false)
                )
            }
            Step::Group(group) => {
                let how = if group.extended { "Parse, Bind, Execute …, Sync" } else { "one Query" };
                let all: String = group
                    .statements
                    .iter()
                    .map(|one| statement(one, group.parameters && group.extended))
                    .collect();
                format!("  {how}:\n{all}")
            }
        };
        let how = if case.at_once { "everything in one write" } else { "one group after the other" };
        format!("{how}\n{}", case.steps.iter().map(step).collect::<String>())
    }
}
