//! What the contract promises, written a second time: cases in, replies, rows and journal out. Shares no code with the proxy.

use std::collections::BTreeSet;

use super::case::*;
use super::database::{Data, State, Value};
use super::schema::{Schema, When};
use super::window::{Place, Window};

/// What is done with a row, in the journal's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Rekeyed,
    Followed,
}

/// A record that must be in the journal.
#[derive(Clone, Debug)]
pub struct Expected {
    pub action: Action,
    /// Position in the schema's tables, and in that table's columns.
    pub table: usize,
    pub column: usize,
    pub old: u32,
    /// The number of the fresh key.
    pub fresh: u32,
    pub place: Place,
    pub first: Place,
    pub committed: bool,
    /// It need not be there.
    pub optional: bool,
    /// Statements before it failed or were skipped, and the contract does not say how those are counted.
    pub uncounted: bool,
}

/// A reply, as far as it can be told: a command tag, `!` with the SQLSTATE, or a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Tag(String),
    /// One of these.
    Error(Vec<State>),
    Row(Vec<Value>),
}

/// Everything that a rollback takes back.
#[derive(Clone, Debug)]
pub struct Moment {
    pub data: Data,
    pub window: Window,
    /// Records (positions) whose rows are there.
    pub kept: Vec<usize>,
}

/// The database and the proxy in front of it, for one case.
pub struct Model<'a> {
    pub schema: &'a Schema,
    pub keys: &'a Keys,
    /// What becomes of decisions that the contract leaves open, a bit each.
    pub course: u32,
    pub committed: Data,
    pub now: Moment,
    pub expected: Vec<Expected>,
    pub drawn: u32,
    /// Number of the transaction.
    pub transaction: u32,
    /// Ordinal of the statement that runs.
    pub ordinal: u64,
    /// An error came in this transaction.
    pub erred: bool,
    /// Statements up to this ordinal are guarded; whether that is certain.
    pub guard: Option<(u64, bool)>,
    /// Nothing is certain any more until the session has been idle: the schema may have changed, or messages were
    /// sent ahead of an error.
    pub doubt: bool,
    /// How many of those there were.
    pub open: u32,
    /// Statements come by Parse, Bind and Execute.
    pub extended: bool,
    /// No statement follows in the same group.
    pub last: bool,
    /// The server is alone: nothing is rekeyed, nothing refused.
    pub alone: bool,
    /// Something was sent behind an error, so that it may be on record though it never ran.
    pub skipped: bool,
    /// Keys of tables that were shared in this transaction, rolled back or not.
    pub once_shared: BTreeSet<(usize, u32)>,
    /// Keys of tables that a row referred to before there was such a row.
    pub orphaned: BTreeSet<(usize, u32)>,
    pub savepoints: Vec<Savepoint>,
    in_block: bool,
    failed: bool,
    at_once: bool,
}

/// A savepoint and what it goes back to.
pub struct Savepoint {
    name: &'static str,
    pub moment: Moment,
    guard: Option<(u64, bool)>,
}

impl<'a> Model<'a> {
    /// On a database that holds these rows.
    pub fn on(data: Data, schema: &'a Schema, keys: &'a Keys, course: u32) -> Self {
        Self {
            schema,
            keys,
            course,
            committed: data.clone(),
            now: Moment { data, window: Window::default(), kept: Vec::new() },
            expected: Vec::new(),
            drawn: 0,
            transaction: 0,
            ordinal: 0,
            erred: false,
            guard: None,
            doubt: false,
            open: 0,
            extended: false,
            last: false,
            alone: false,
            skipped: false,
            once_shared: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            savepoints: Vec::new(),
            in_block: false,
            failed: false,
            at_once: false,
        }
    }

    /// Runs a case; gives what the session is told, and what the other session is told meanwhile.
    pub fn run(&mut self, case: &Case) -> (Vec<Said>, Vec<Said>) {
        self.at_once = case.at_once;
        let (mut said, mut meanwhile) = (Vec::new(), Vec::new());
        for step in &case.steps {
            match step {
                Step::Group(group) => self.group(group, &mut said),
                Step::Meanwhile(insert) => self.meanwhile(insert, &mut meanwhile),
            }
        }
        (said, meanwhile)
    }

    fn group(&mut self, group: &Group, said: &mut Vec<Said>) {
        self.extended = group.extended;
        for (at, statement) in group.statements.iter().enumerate() {
            self.last = at + 1 == group.statements.len();
            if let Err(states) = self.statement(statement, said) {
                said.push(Said::Error(states));
                // Of the statement itself, too: its Bind follows a Parse that failed.
                self.skipped = true;
                // Nobody in between knows which savepoints there are, if some were to be set or dropped in this group.
                self.doubt |= self.at_once || group.statements.iter().any(is_of_transactions);
                self.fail();
                return;
            }
        }
        if !self.in_block && !self.end(true) {
            // The end of a Query comes before the last tag, a Sync after it.
            if !group.extended {
                said.pop();
            }
            said.push(Said::Error(vec!["23505"]));
        }
    }

    fn fail(&mut self) {
        self.erred = true;
        if self.in_block {
            self.failed = true
        } else {
            self.end(false);
        }
    }

    /// Ends the transaction; gives whether it could be committed, if it was to be.
    fn end(&mut self, commit: bool) -> bool {
        let clash = commit && self.now.data.has_clash(self.schema, When::Commit);
        if commit && !clash {
            self.committed = self.now.data.clone();
            for &record in &self.now.kept {
                self.expected[record].committed = true;
            }
        }
        self.now = Moment { data: self.committed.clone(), window: Window::default(), kept: Vec::new() };
        self.savepoints.clear();
        self.once_shared.clear();
        self.orphaned.clear();
        self.guard = None;
        self.transaction += 1;
        (self.in_block, self.failed, self.erred, self.ordinal) = (false, false, false, 0);
        !clash
    }

    fn statement(&mut self, statement: &Statement, said: &mut Vec<Said>) -> Result<(), Vec<State>> {
        if !matches!(statement, Statement::Begin) {
            self.ordinal += 1;
        }
        let tag = match statement {
            Statement::Rollback => {
                self.end(false);
                "ROLLBACK".to_owned()
            }
            Statement::Commit if self.failed => {
                self.end(false);
                "ROLLBACK".to_owned()
            }
            Statement::Commit => {
                if !self.end(true) {
                    return Err(vec!["23505"]);
                }
                "COMMIT".to_owned()
            }
            Statement::RollbackTo(_) | Statement::Savepoint(_) | Statement::Release(_) if !self.in_block => {
                return Err(vec!["25P01"]);
            }
            Statement::RollbackTo(name) => self.roll_back_to(name)?,
            _ if self.failed => return Err(vec!["25P02"]),
            Statement::Begin => {
                self.in_block = true;
                "BEGIN".to_owned()
            }
            Statement::Savepoint(name) => {
                self.savepoint(name);
                "SAVEPOINT".to_owned()
            }
            Statement::Release(name) => self.release(name)?,
            Statement::DivideByZero => return Err(vec!["22012"]),
            Statement::SelectOne => {
                said.push(Said::Row(vec![Value::Number(1)]));
                "SELECT 1".to_owned()
            }
            Statement::Count { relation, key } => {
                let count = self.now.data.count(self.schema, *relation, Which::Key(*key));
                said.push(Said::Row(vec![Value::Number(u32::try_from(count).expect("few rows"))]));
                "SELECT 1".to_owned()
            }
            Statement::Insert(insert) => {
                let tag = self.insert(insert, said);
                self.guard = None;
                tag?
            }
            _ => {
                let tag = self.change(statement);
                self.guard = None;
                tag?
            }
        };
        said.push(Said::Tag(tag));
        Ok(())
    }

    fn change(&mut self, statement: &Statement) -> Result<String, Vec<State>> {
        let schema = self.schema;
        match statement {
            Statement::Delete { relation, which } => {
                self.refuse_shared(&self.meant(*relation), &which_key(*which), self.is_view(*relation))?;
                self.clear(&self.reached_by_delete(*relation));
                let count = self.now.data.delete(schema, *relation, *which).map_err(one)?;
                Ok(format!("DELETE {count}"))
            }
            Statement::Note { relation, which } => {
                self.refuse_shared(&self.meant(*relation), &which_key(*which), self.is_view(*relation))?;
                self.doubt_heirs(*relation);
                Ok(format!("UPDATE {}", self.now.data.note(schema, *relation, *which)))
            }
            Statement::Move { relation, content, key } => {
                self.refuse_shared(&self.meant(*relation), &[*key], self.is_view(*relation))?;
                self.clear(&self.family(*relation));
                let count = self.now.data.move_key(schema, *relation, *content, *key).map_err(one)?;
                Ok(format!("UPDATE {count}"))
            }
            Statement::Do { relation, content } => {
                self.clear_all();
                self.doubt = true;
                self.now.data.delete(schema, *relation, Which::Content(*content)).map_err(one)?;
                Ok("DO".to_owned())
            }
            Statement::CreateTable => {
                self.doubt = true;
                if self.now.data.own.is_some() {
                    return Err(vec!["42P07"]);
                }
                self.now.data.own = Some(Vec::new());
                Ok("CREATE TABLE".to_owned())
            }
            Statement::FillTable { key, content } => {
                let rows = self.now.data.own.as_mut().ok_or_else(|| vec!["42P01"])?;
                if rows.iter().any(|(other, _)| other == key) {
                    return Err(vec!["23505"]);
                }
                rows.push((*key, *content));
                Ok("INSERT 0 1".to_owned())
            }
            Statement::DropTable => {
                self.clear_all();
                self.doubt = true;
                self.now.data.own.take().ok_or_else(|| vec!["42P01"])?;
                Ok("DROP TABLE".to_owned())
            }
            other => unreachable!("{other:?} changes nothing"),
        }
    }

    /// Another session commits a row. This one sees it, and so do its savepoints.
    fn meanwhile(&mut self, insert: &Insert, said: &mut Vec<Said>) {
        let table = self.schema.relations[insert.relation].table;
        let mut row = self.resolve(insert, &insert.rows[0]);
        // Their transaction is none of this session's.
        row.iter_mut()
            .filter(|value| matches!(value, Value::Time(_)))
            .for_each(|value| *value = Value::Time(u32::MAX));
        let moments = self.savepoints.iter_mut().map(|savepoint| &mut savepoint.moment.data);
        for data in moments.chain([&mut self.now.data, &mut self.committed]) {
            data.tables[table].push(row.clone());
        }
        said.push(Said::Tag("INSERT 0 1".to_owned()));
    }

    fn savepoint(&mut self, name: &'static str) {
        self.savepoints.push(Savepoint { name, moment: self.now.clone(), guard: self.guard });
        if name != HOUSEKEEPING {
            self.guard = Some((self.ordinal, true));
        } else if let Some((_, certain)) = &mut self.guard {
            // A driver's own savepoint inside of a guard is a case the contract does not name.
            *certain = false;
        }
    }

    fn release(&mut self, name: &str) -> Result<String, Vec<State>> {
        let place =
            self.savepoints.iter().rposition(|other| other.name == name).ok_or_else(|| vec!["3B001"])?;
        self.savepoints.truncate(place);
        if let Some((_, certain)) = &mut self.guard {
            *certain = false;
        }
        Ok("RELEASE".to_owned())
    }

    fn roll_back_to(&mut self, name: &'static str) -> Result<String, Vec<State>> {
        let place =
            self.savepoints.iter().rposition(|other| other.name == name).ok_or_else(|| vec!["3B001"])?;
        self.savepoints.truncate(place + 1);
        let savepoint = &self.savepoints[place];
        self.now = savepoint.moment.clone();
        self.failed = false;
        self.guard = match savepoint.guard {
            guard if name == HOUSEKEEPING => guard.map(|(mark, _)| (mark, false)),
            _ => Some((self.ordinal, true)),
        };
        // Whether a savepoint exists that was sent ahead is not known to anybody in between.
        self.doubt |= self.at_once;
        Ok("ROLLBACK".to_owned())
    }
}

fn is_of_transactions(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Begin
            | Statement::Commit
            | Statement::Rollback
            | Statement::Savepoint(_)
            | Statement::Release(_)
            | Statement::RollbackTo(_)
    )
}

/// A single SQLSTATE.
pub fn one(state: State) -> Vec<State> {
    vec![state]
}

fn which_key(which: Which) -> Vec<u32> {
    match which {
        Which::Key(key) => vec![key],
        Which::Content(_) => Vec::new(),
    }
}
