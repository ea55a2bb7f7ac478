//! Rows and the constraints over them, as Postgres checks them: what a statement would do without anything in front of the server.

use super::case::Which;
use super::schema::{Default, Is, Quirk, Route, Schema, Table, When};

/// A key that was sent, by number, or one that must have been drawn for a twin, in the order of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Given(u32),
    Fresh(u32),
}

/// A stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    Number(u32),
    Text(&'static str),
    Key(Key),
    /// What the server drew for this row alone.
    Drawn(u32),
    /// The time of the transaction with this number.
    Time(u32),
}

/// A row: a value for each column of its table.
pub type Row = Vec<Value>;

/// SQLSTATE.
pub type State = &'static str;

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Rows of each table, in the order of their insertion.
    pub tables: Vec<Vec<Row>>,
    /// Rows of the table of the session's own, if it is there.
    pub own: Option<Vec<(u32, u32)>>,
    /// What triggers and rules logged.
    pub log: Vec<u32>,
}

/// The content of a row, if it has one.
pub fn content(table: &Table, row: &[Value]) -> Option<u32> {
    match row[table.always(Is::Content)] {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

/// Whether two rows may not both be there.
pub fn clash(table: &Table, unique: usize, one: &[Value], other: &[Value]) -> bool {
    let unique = &table.uniques[unique];
    let even = |row: &[Value]| content(table, row).is_some_and(|content| content % 2 == 0);
    let equal = |&column: &usize| {
        one[column] == other[column] && (one[column] != Value::Null || unique.nulls_not_distinct)
    };
    unique.columns.iter().all(equal) && (unique.when != When::Even || even(one) && even(other))
}

/// Whether a row is among those that a name shows.
fn shows(table: &Table, route: Route, row: &[Value]) -> bool {
    match route {
        Route::Partition(tenant) => row[table.always(Is::Tenant)] == Value::Number(tenant),
        Route::Table | Route::View => true,
    }
}

impl Data {
    /// The row that forbids this one by an index that is checked at once.
    pub fn forbids(&self, table: &Table, at: usize, unique: usize, row: &[Value]) -> Option<usize> {
        if matches!(table.uniques[unique].when, When::Statement | When::Commit) {
            return None;
        }
        self.tables[at].iter().position(|other| clash(table, unique, other, row))
    }

    /// Two rows that clash in an index that is checked later.
    pub fn has_clash(&self, schema: &Schema, when: When) -> bool {
        schema.tables.iter().zip(&self.tables).any(|(table, rows)| {
            let late = (0..table.uniques.len()).filter(|&unique| table.uniques[unique].when == when);
            late.into_iter().any(|unique| {
                let earlier =
                    |at: usize| rows[..at].iter().any(|other| clash(table, unique, other, &rows[at]));
                (0..rows.len()).any(earlier)
            })
        })
    }

    /// Whether an earlier row clashes with this one in an index that is checked at the end of the statement.
    pub fn repeats(&self, table: &Table, at: usize, row: &Row) -> bool {
        let late = |unique: &usize| table.uniques[*unique].when == When::Statement;
        let earlier = self.tables[at].iter().take_while(|other| *other != row);
        let mut late = (0..table.uniques.len()).filter(late);
        late.any(|unique| earlier.clone().any(|other| clash(table, unique, other, row)))
    }

    /// Whether what the row refers to is there.
    pub fn refers_to_something(&self, table: &Table, row: &[Value]) -> bool {
        table.foreign.iter().all(|foreign| {
            let named: Vec<Value> = foreign.columns.iter().map(|&column| row[column]).collect();
            named.contains(&Value::Null)
                || self.tables[foreign.parent].iter().any(|parent| {
                    foreign.parent_columns.iter().zip(&named).all(|(&column, value)| parent[column] == *value)
                })
        })
    }

    fn is_sound(&self, schema: &Schema) -> bool {
        schema
            .tables
            .iter()
            .zip(&self.tables)
            .all(|(table, rows)| rows.iter().all(|row| self.refers_to_something(table, row)))
    }

    /// Positions of the rows, in the table and those that inherit from it.
    fn find(&self, schema: &Schema, relation: usize, which: Which) -> Vec<(usize, usize)> {
        let relation = &schema.relations[relation];
        let members = (0..schema.tables.len())
            .filter(|&at| at == relation.table || schema.tables[at].inherits == Some(relation.table));
        let mut found = Vec::new();
        for at in members {
            let table = &schema.tables[at];
            let wanted = |row: &Row| match which {
                Which::Content(wanted) => content(table, row) == Some(wanted),
                Which::Key(key) => row[table.always(Is::Key)] == Value::Key(Key::Given(key)),
            };
            let rows = self.tables[at].iter().enumerate();
            found.extend(
                rows.filter(|(_, row)| shows(table, relation.route, row) && wanted(row))
                    .map(|(row, _)| (at, row)),
            );
        }
        found
    }

    /// How many rows a name shows.
    pub fn count(&self, schema: &Schema, relation: usize, which: Which) -> usize {
        self.find(schema, relation, which).len()
    }

    /// DELETE; gives how many rows it names.
    pub fn delete(&mut self, schema: &Schema, relation: usize, which: Which) -> Result<usize, State> {
        let found = self.find(schema, relation, which);
        for (table, row) in found.iter().rev() {
            self.tables[*table].remove(*row);
        }
        // Cascades, until nothing more falls.
        loop {
            let mut fell = false;
            for (at, table) in schema.tables.iter().enumerate() {
                let cascade = table.foreign.iter().any(|foreign| foreign.cascade);
                let before = self.clone();
                if cascade {
                    self.tables[at].retain(|row| before.refers_to_something(table, row));
                    fell |= self.tables[at].len() < before.tables[at].len();
                }
            }
            if !fell {
                break;
            }
        }
        if self.is_sound(schema) { Ok(found.len()) } else { Err("23503") }
    }

    /// UPDATE of the note.
    pub fn note(&mut self, schema: &Schema, relation: usize, which: Which) -> usize {
        let found = self.find(schema, relation, which);
        for (at, row) in &found {
            let column = schema.tables[*at].always(Is::Note);
            self.tables[*at][*row][column] = Value::Text("m");
        }
        found.len()
    }

    /// UPDATE of the key.
    pub fn move_key(
        &mut self,
        schema: &Schema,
        relation: usize,
        content: u32,
        key: u32,
    ) -> Result<usize, State> {
        let found = self.find(schema, relation, Which::Content(content));
        for &(at, row) in &found {
            let table = &schema.tables[at];
            let mut moved = self.tables[at].remove(row);
            moved[table.always(Is::Key)] = Value::Key(Key::Given(key));
            if (0..table.uniques.len()).any(|unique| self.forbids(table, at, unique, &moved).is_some()) {
                return Err("23505");
            }
            self.tables[at].insert(row, moved);
        }
        if self.has_clash(schema, When::Statement) {
            return Err("23505");
        }
        if self.is_sound(schema) { Ok(found.len()) } else { Err("23503") }
    }

    /// What the trigger after a row does; the row was just inserted.
    pub fn after_row(&mut self, schema: &Schema, at: usize, row: &[Value]) -> Result<(), State> {
        let table = &schema.tables[at];
        let Some(number) = content(table, row) else { return Ok(()) };
        match table.quirk {
            Quirk::Logs => self.log.push(number),
            Quirk::Deletes if number % 4 == 3 => {
                self.tables[at].retain(|other| content(table, other) != Some(number));
                if !self.is_sound(schema) {
                    return Err("23503");
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// What stops a row before any index is asked.
pub fn refuses(table: &Table, route: Route, row: &[Value]) -> Option<State> {
    let content = content(table, row);
    if table.quirk == Quirk::Secured && content.is_none_or(|content| content % 5 == 4) {
        return Some("42501");
    }
    if content.is_none() {
        return Some("23502");
    }
    (!shows(table, route, row)).then_some("23514")
}

/// What a column gets that is left out.
pub fn default(column: Default, content: Option<u32>, drawn: u32, transaction: u32) -> Value {
    match column {
        Default::Null => Value::Null,
        Default::Stable("0") => Value::Number(0),
        Default::Stable("'n'") => Value::Text("n"),
        Default::Stable("'x'") => Value::Text("x"),
        Default::Stable(_) => Value::Time(transaction),
        Default::Volatile(_) | Default::Identity { .. } => Value::Drawn(drawn),
        Default::Generated(_) => content.map_or(Value::Null, |content| Value::Number(content * 2)),
    }
}
