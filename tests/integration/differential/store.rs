//! What the database does with the rows of an INSERT or COPY: triggers, constraints, conflicts, references.

use super::case::{Carrier, Insert, OnConflict};
use super::database::{Row, State, Value, content, refuses};
use super::model::{Model, Said, one};
use super::schema::{Is, Quirk, Route, Table};

impl Model<'_> {
    /// Stores rows as the database does; gives how many.
    pub fn store(
        &mut self,
        insert: &Insert,
        at: usize,
        route: Route,
        rows: &[Row],
        said: &mut Vec<Said>,
    ) -> Result<u32, Vec<State>> {
        let table = &self.schema.tables[at];
        if insert.carrier.is_copy() {
            if table.quirk == Quirk::Secured {
                return Err(one("0A000"));
            }
            let unread =
                |row: &&Row| no_key(table, insert.carrier, row).or_else(|| refuses(table, route, row));
            if !table.copies_row_by_row()
                && let Some(state) = rows.iter().find_map(|row| unread(&row))
            {
                return Err(one(state));
            }
        }
        let mut touched: Vec<Row> = Vec::new();
        let mut replies = Vec::new();
        for row in rows {
            let mut row = row.clone();
            if let Some(state) = no_key(table, insert.carrier, &row) {
                return Err(one(state));
            }
            match (table.quirk, &mut row) {
                (Quirk::Skips, row) if content(table, row).is_some_and(|content| content % 3 == 2) => {
                    continue;
                }
                (Quirk::Notes, row) => row[table.always(Is::Note)] = Value::Text("seen"),
                _ => {}
            }
            if let Some(state) = refuses(table, route, &row) {
                return Err(one(state));
            }
            if let Some(existing) = self.conflict(insert, at, &row, &touched)? {
                if let Some(place) = existing {
                    let stored = &mut self.now.data.tables[at][place];
                    stored[table.always(Is::Note)] = Value::Text("u");
                    touched.push(stored.clone());
                    replies.push(stored.clone());
                }
                continue;
            }
            self.now.data.tables[at].push(row.clone());
            touched.push(row.clone());
            replies.push(row);
        }
        let fresh: Vec<Row> =
            replies.iter().filter(|row| row[table.always(Is::Note)] != Value::Text("u")).cloned().collect();
        if table.quirk == Quirk::Also && !insert.carrier.is_copy() {
            self.now.data.log.extend(fresh.iter().filter_map(|row| content(table, row)));
        }
        for row in &fresh {
            if !self.now.data.refers_to_something(table, row) {
                return Err(one("23503"));
            }
            if self.now.data.repeats(table, at, row) {
                return Err(one("23505"));
            }
            self.now.data.after_row(self.schema, at, row).map_err(one)?;
        }
        if insert.returning {
            let shown = [table.always(Is::Key), table.always(Is::Content)];
            said.extend(replies.iter().map(|row| Said::Row(shown.map(|at| row[at]).to_vec())));
        }
        Ok(u32::try_from(replies.len()).expect("few rows"))
    }

    /// What a row meets: an error, nothing, or a row that is left alone (`Some(None)`) or updated.
    #[allow(clippy::option_option)]
    fn conflict(
        &self,
        insert: &Insert,
        at: usize,
        row: &Row,
        touched: &[Row],
    ) -> Result<Option<Option<usize>>, Vec<State>> {
        let table = &self.schema.tables[at];
        let data = &self.now.data;
        let met = |unique: usize| data.forbids(table, at, unique, row);
        let all = 0..table.uniques.len();
        match insert.on_conflict {
            OnConflict::Fail if all.clone().any(|unique| met(unique).is_some()) => Err(one("23505")),
            OnConflict::Fail => Ok(None),
            OnConflict::Nothing => Ok(all.into_iter().any(|unique| met(unique).is_some()).then_some(None)),
            OnConflict::Update => {
                let arbiter = table.arbiter().expect("upserts name an index");
                if let Some(place) = met(arbiter) {
                    let twice = touched.contains(&data.tables[at][place]);
                    return if twice { Err(one("21000")) } else { Ok(Some(Some(place))) };
                }
                if all.into_iter().any(|unique| met(unique).is_some()) { Err(one("23505")) } else { Ok(None) }
            }
        }
    }
}

/// A `uuid` that is none.
fn no_key(table: &Table, carrier: Carrier, row: &Row) -> Option<State> {
    let bad =
        |at: &usize| matches!(table.columns[*at].kind, "uuid" | "kid") && row[*at] == Value::Text("no key");
    let state = if carrier == Carrier::CopyBinary { "08P01" } else { "22P02" };
    (0..row.len()).find(bad).map(|_| state)
}
