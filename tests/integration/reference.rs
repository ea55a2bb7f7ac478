//! What untwin promises, written a second time as a model of the database: statements in, outcomes and rows out; shares no code with it.

use std::collections::{BTreeMap, BTreeSet};

/// The savepoint names a driver keeps for itself.
pub const HOUSEKEEPING: &str = "PGJDBC_AUTOSAVE";

/// A statement of a generated transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT.
    Savepoint(&'static str),
    /// ROLLBACK TO.
    RollbackTo(&'static str),
    /// RELEASE.
    Release(&'static str),
    /// An INSERT of rows into a table.
    Insert { table: usize, rows: Vec<Row>, on_conflict: OnConflict },
    /// DELETE of the row with this content.
    DeleteContent { table: usize, content: u32 },
    /// DELETE of the rows with this key.
    DeleteKey { table: usize, key: u32 },
    /// UPDATE that gives the row with this content another key.
    Move { table: usize, content: u32, key: u32 },
    /// A query that fails.
    DivideByZero,
    /// A query that does not.
    Select,
}

/// What an INSERT says of conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing.
    Fail,
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE SET v = EXCLUDED.v.
    Update,
}

/// A row of an INSERT; no two have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which of the given keys.
    pub key: u32,
    /// Which tenant, in the table that has tenants; 0 elsewhere.
    pub tenant: u32,
    /// Its content; None violates a NOT NULL.
    pub content: Option<u32>,
}

/// A key that was sent, or one that untwin must have drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The key with this number.
    Given(u32),
    /// The fresh key with this number.
    Fresh(u32),
}

/// The index tuple of a row.
type Tuple = (u32, Key);

/// A table: the content of each row.
pub type Table = BTreeMap<Tuple, u32>;

#[derive(Clone, Default)]
struct State {
    tables: BTreeMap<usize, Table>,
    /// The keys that live in this transaction; false where the contract leaves open whether they are still known.
    window: BTreeMap<(usize, Tuple), bool>,
    /// Keys that a later row repeated.
    shared: BTreeSet<(usize, Tuple)>,
}

/// The model of one session.
#[derive(Default)]
pub struct Model {
    committed: State,
    current: State,
    savepoints: Vec<(&'static str, State)>,
    in_block: bool,
    failed: bool,
    /// Keys from before an application's savepoint, until the first change after it; false if the contract leaves the guard open.
    guard: Option<(BTreeSet<(usize, Tuple)>, bool)>,
    /// Whether a window was cleared in this transaction: then a rollback may or may not bring its keys back.
    cleared: bool,
    drawn: u32,
    /// Whether untwin may have done otherwise within its contract, or forwarded a conflict: nothing to insist on from there on.
    pub unsure: bool,
}

impl Model {
    /// A session on a database with these committed rows.
    pub fn on(tables: BTreeMap<usize, Table>) -> Model {
        let state = State { tables, ..State::default() };
        Model { committed: state.clone(), current: state, ..Model::default() }
    }

    /// The rows that are committed.
    pub fn stored(&self) -> &BTreeMap<usize, Table> {
        &self.committed.tables
    }

    /// Runs statements up to one Sync, or of one Query; returns what becomes of each that is answered.
    pub fn group(&mut self, statements: &[Statement]) -> Vec<String> {
        let mut outcomes = Vec::new();
        for statement in statements {
            let outcome = self.run(statement);
            let failed = outcome.is_err();
            outcomes.push(outcome.unwrap_or_else(|state| format!("!{state}")));
            if failed {
                self.fail();
                return outcomes;
            }
        }
        if !self.in_block {
            self.end(true);
        }
        outcomes
    }

    fn fail(&mut self) {
        if self.in_block { self.failed = true } else { self.end(false) }
    }

    fn end(&mut self, commit: bool) {
        let from = if commit { &self.current } else { &self.committed };
        let state = State { tables: from.tables.clone(), ..State::default() };
        self.committed = state.clone();
        self.current = state;
        self.savepoints.clear();
        self.guard = None;
        (self.in_block, self.failed, self.cleared) = (false, false, false);
    }

    fn run(&mut self, statement: &Statement) -> Result<String, &'static str> {
        match statement {
            Statement::Rollback => {
                self.end(false);
                return Ok("ROLLBACK".to_owned());
            }
            Statement::Commit => {
                let tag = if self.failed { "ROLLBACK" } else { "COMMIT" };
                self.end(!self.failed);
                return Ok(tag.to_owned());
            }
            Statement::RollbackTo(name) => return self.rollback_to(name),
            _ if self.failed => return Err("25P02"),
            _ => {}
        }
        match statement {
            Statement::Begin => {
                self.in_block = true;
                Ok("BEGIN".to_owned())
            }
            Statement::Savepoint(name) => Ok(self.savepoint(name)),
            Statement::Release(name) => self.release(name),
            Statement::DivideByZero => Err("22012"),
            Statement::Select => Ok("SELECT 1".to_owned()),
            Statement::Insert { table, rows, on_conflict } => {
                let outcome = self.insert(*table, rows, *on_conflict);
                self.guard = None;
                outcome
            }
            Statement::DeleteContent { table, content } => Ok(self.delete(*table, |_, row| row == content)),
            Statement::DeleteKey { table, key } => {
                self.doubt_if_shared(*table, *key);
                Ok(self.delete(*table, |tuple, _| tuple.1 == Key::Given(*key)))
            }
            Statement::Move { table, content, key } => self.move_row(*table, *content, *key),
            Statement::Commit | Statement::Rollback | Statement::RollbackTo(_) => {
                unreachable!("handled above")
            }
        }
    }

    fn savepoint(&mut self, name: &'static str) -> String {
        self.savepoints.push((name, self.current.clone()));
        self.guard_from(name);
        "SAVEPOINT".to_owned()
    }

    /// An application's savepoint guards the next change; a driver's own inside of a guard is a case the contract does not name.
    fn guard_from(&mut self, name: &str) {
        if name != HOUSEKEEPING {
            self.guard = Some((self.current.window.keys().copied().collect(), true));
        } else if let Some((_, certain)) = &mut self.guard {
            *certain = false;
        }
    }

    fn release(&mut self, name: &str) -> Result<String, &'static str> {
        let place = self.savepoints.iter().rposition(|(other, _)| *other == name).ok_or("3B001")?;
        self.savepoints.truncate(place);
        if let Some((_, certain)) = &mut self.guard {
            *certain = false;
        }
        Ok("RELEASE".to_owned())
    }

    fn rollback_to(&mut self, name: &'static str) -> Result<String, &'static str> {
        let place = self.savepoints.iter().rposition(|(other, _)| *other == name).ok_or("3B001")?;
        self.savepoints.truncate(place + 1);
        self.current = self.savepoints[place].1.clone();
        self.failed = false;
        if self.cleared {
            self.current.window.values_mut().for_each(|certain| *certain = false);
        }
        self.guard_from(name);
        Ok("ROLLBACK".to_owned())
    }

    fn insert(
        &mut self,
        table: usize,
        rows: &[Row],
        on_conflict: OnConflict,
    ) -> Result<String, &'static str> {
        let mut touched = BTreeSet::new();
        let mut count = 0;
        if on_conflict == OnConflict::Update {
            rows.iter().for_each(|row| self.doubt_if_shared(table, row.key));
        }
        for row in rows {
            let content = row.content.ok_or("23502")?;
            let tuple = (row.tenant, Key::Given(row.key));
            let exists = self.current.tables.entry(table).or_default().contains_key(&tuple);
            match on_conflict {
                OnConflict::Fail => self.insert_row(table, tuple, content)?,
                OnConflict::Nothing if exists => continue,
                OnConflict::Update if exists && !touched.insert(tuple) => return Err("21000"),
                OnConflict::Nothing | OnConflict::Update => {
                    touched.insert(tuple);
                    self.current.tables.entry(table).or_default().insert(tuple, content);
                }
            }
            count += 1;
        }
        Ok(format!("INSERT 0 {count}"))
    }

    fn insert_row(&mut self, table: usize, tuple: Tuple, content: u32) -> Result<(), &'static str> {
        let known = self.current.window.get(&(table, tuple)).copied();
        let guarded = self
            .guard
            .as_ref()
            .filter(|(keys, _)| keys.contains(&(table, tuple)))
            .map(|(_, certain)| *certain);
        let exists = self.current.tables.entry(table).or_default().contains_key(&tuple);
        let stored = match (exists, known, guarded) {
            (false, None, _) => tuple,
            (true, Some(true), None) => {
                self.current.shared.insert((table, tuple));
                self.drawn += 1;
                (tuple.0, Key::Fresh(self.drawn))
            }
            // Known, though its row is gone; or not surely known; or guarded; or a row of somebody else.
            _ => {
                self.unsure = true;
                return Err("23505");
            }
        };
        self.current.tables.entry(table).or_default().insert(stored, content);
        self.current.window.insert((table, stored), true);
        Ok(())
    }

    fn delete(&mut self, table: usize, which: impl Fn(&Tuple, &u32) -> bool) -> String {
        let rows = self.current.tables.entry(table).or_default();
        let before = rows.len();
        rows.retain(|tuple, content| !which(tuple, content));
        let gone = before - rows.len();
        self.clear(table);
        format!("DELETE {gone}")
    }

    fn move_row(&mut self, table: usize, content: u32, key: u32) -> Result<String, &'static str> {
        self.doubt_if_shared(table, key);
        let rows = self.current.tables.entry(table).or_default();
        let from = rows.iter().find(|(_, row)| **row == content).map(|(tuple, _)| *tuple);
        if let Some(from) = from {
            let to = (from.0, Key::Given(key));
            if from != to && rows.contains_key(&to) {
                self.unsure = true;
                return Err("23505");
            }
            rows.remove(&from);
            rows.insert(to, content);
        }
        self.clear(table);
        Ok(format!("UPDATE {}", usize::from(from.is_some())))
    }

    /// An UPDATE or DELETE that names a shared key is made to fail, and so is an upsert that updates.
    fn doubt_if_shared(&mut self, table: usize, key: u32) {
        self.unsure |=
            self.current.shared.iter().any(|(of, tuple)| *of == table && tuple.1 == Key::Given(key));
    }

    fn clear(&mut self, table: usize) {
        self.current.window.retain(|(of, _), _| *of != table);
        self.cleared = true;
        self.guard = None;
    }
}
