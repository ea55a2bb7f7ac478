//! Compares what happened to a case with the model: replies, stored rows, journal. Says the first difference in words.

use std::collections::HashMap;

use super::case::{Case, Keys, spell};
use super::database::{Data, Key, Value, content};
use super::forms::shown;
use super::journal::Record;
use super::model::{Action, Expected, Model, Said};
use super::schema::{Is, Schema, Table};
use crate::support::wire::{self, Reply};

/// What a server, or untwin in front of one, did with a case.
#[derive(Debug, Default)]
pub struct Observed {
    pub replies: Vec<Reply>,
    /// What the other session was told.
    pub meanwhile: Vec<Reply>,
    /// Rows of each table of the schema, by content; then the log.
    pub stored: Vec<Vec<String>>,
}

/// A case and everything that is known of it.
pub struct Trial<'a> {
    pub schema: &'a Schema,
    pub case: &'a Case,
    pub keys: Keys,
    pub before: Data,
    pub direct: &'a Observed,
    pub through: &'a Observed,
    pub records: &'a [Record],
}

/// Decisions of one case that are tried both ways; there are hardly ever more.
const MOST_OPEN: u32 = 14;

/// What a case showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// No unique index forbade anything: untwin had to do nothing at all.
    pub harmless: u32,
    /// A server alone refuses what untwin saves.
    pub saved: u32,
    /// Rows that were rekeyed, and references that followed.
    pub rekeyed: u32,
    /// Decisions that the contract leaves open.
    pub open: u32,
    /// Cases with such a decision.
    pub undecided: u32,
}

impl Shown {
    pub fn add(&mut self, other: Shown) {
        self.harmless += other.harmless;
        self.saved += other.saved;
        self.rekeyed += other.rekeyed;
        self.open += other.open;
        self.undecided += other.undecided;
    }
}

/// What can be said of replies in advance.
fn said(replies: &[Reply]) -> Vec<String> {
    let one = |reply: &Reply| match reply.tag {
        b'C' | b'E' => wire::outcomes(std::slice::from_ref(reply)).pop(),
        b'D' => wire::rows(std::slice::from_ref(reply)).pop().map(|row| format!("row {row}")),
        _ => None,
    };
    replies.iter().filter_map(one).collect()
}

/// Replies without what differs from run to run: values that an error shows may be times and drawn numbers.
fn steady(replies: &[Reply]) -> Vec<(u8, Vec<u8>)> {
    let masked = |reply: &Reply| {
        let fields = reply.body.split(|byte| *byte == 0);
        let shows_values = |field: &&[u8]| {
            field.starts_with(b"DFailing row contains") || field.starts_with(b"DKey (id, at)=")
        };
        let kept: Vec<&[u8]> = fields.filter(|field| !shows_values(field)).collect();
        kept.join(&0)
    };
    replies
        .iter()
        .map(|reply| (reply.tag, if reply.tag == b'E' { masked(reply) } else { reply.body.clone() }))
        .collect()
}

impl Trial<'_> {
    fn is_of(&self, record: &Record, table: usize) -> bool {
        // A partition's record names the partition.
        let name = record.table.strip_prefix("public.").unwrap_or(&record.table);
        let relations = self.schema.relations.iter().filter(|relation| relation.table == table);
        relations.into_iter().any(|relation| relation.name == name)
    }

    /// Every check there is.
    pub fn check(&self) -> Result<Shown, String> {
        let mut bare = Model::on(self.before.clone(), self.schema, &self.keys, 0);
        bare.alone = true;
        let expected = bare.run(self.case);
        self.told("a server alone", &expected, self.direct, &HashMap::new())?;
        self.stored("a server alone", &bare.committed, self.direct, &HashMap::new())?;

        let refused = said(&self.direct.replies).iter().any(|said| said == "!23505");
        let changed = |record: &&Record| matches!(record.action.as_str(), "rekeyed" | "followed" | "failed");
        // Where one statement has both a null and an ambiguous reference, either may be told first.
        if !refused && !self.records.iter().any(|record| record.action == "failed") {
            self.harmless()?;
        }
        if !self.records.iter().any(|record| changed(&record)) {
            same("replies", &steady(&self.direct.replies), &steady(&self.through.replies))?;
            same("stored rows", &self.direct.stored, &self.through.stored)?;
        }

        let mut shown = self.courses()?;
        shown.harmless = u32::from(!refused);
        let dies = said(&self.through.replies).iter().any(|said| said == "!23505");
        shown.saved = u32::from(refused && !dies);
        Ok(shown)
    }

    /// What happened must be one of the courses that the contract allows; nearly always there is only one.
    fn courses(&self) -> Result<Shown, String> {
        let mut difference = None;
        let mut open = 0;
        for course in 0..1 << MOST_OPEN {
            let mut model = Model::on(self.before.clone(), self.schema, &self.keys, course);
            let expected = model.run(self.case);
            match self.course(&model, &expected) {
                Ok(()) => {
                    return Ok(Shown {
                        rekeyed: u32::try_from(model.expected.len()).expect("few"),
                        open: model.open,
                        undecided: u32::from(model.open > 0),
                        ..Shown::default()
                    });
                }
                Err(what) if model.open >= open => difference = Some(what),
                Err(_) => {}
            }
            open = open.max(model.open.min(MOST_OPEN));
            if course + 1 >= 1 << open {
                break;
            }
        }
        Err(difference.unwrap_or_default())
    }

    fn course(&self, model: &Model, expected: &(Vec<Said>, Vec<Said>)) -> Result<(), String> {
        let fresh = self.journal(model)?;
        self.told("untwin", expected, self.through, &fresh)?;
        self.stored("untwin", &model.committed, self.through, &fresh)
    }

    /// Where no unique index forbids anything, nothing is changed for good.
    fn harmless(&self) -> Result<(), String> {
        same("outcomes, though nothing clashes", &said(&self.direct.replies), &said(&self.through.replies))?;
        same("rows, though nothing clashes", &self.direct.stored, &self.through.stored)?;
        match self.records.iter().find(|record| record.new.is_some() && record.fate != "rolled_back") {
            Some(record) => Err(format!("rekeyed for good, though nothing clashes: {record:?}")),
            None => Ok(()),
        }
    }

    /// The journal against the model's records; gives the fresh keys.
    fn journal(&self, model: &Model) -> Result<HashMap<u32, u128>, String> {
        let mut fresh = HashMap::new();
        let mut rest: Vec<&Record> = self.records.iter().filter(|record| record.new.is_some()).collect();
        for (at, expected) in (1..).zip(&model.expected) {
            let Some(found) = self.find(&rest, expected, &model.expected[at as usize - 1..]) else {
                if expected.optional {
                    continue;
                }
                return Err(format!("not in the journal: {expected:?}"));
            };
            let record = rest.remove(found);
            let new = record.new.ok_or("a rewrite without a fresh key")?;
            if expected.action == Action::Rekeyed {
                fresh.insert(at, new);
            } else if fresh.get(&expected.fresh) != Some(&new) {
                return Err(format!("follows the wrong row: {record:?}"));
            }
            if let Some(why) = unlike(self.keys.value(expected.old), new) {
                return Err(format!("a fresh key that {why}: {record:?}"));
            }
        }
        let mut distinct: Vec<u128> = fresh.values().copied().chain(self.keys.0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < fresh.len() + self.keys.0.len() {
            return Err("a fresh key is not new".to_owned());
        }
        match rest.iter().find(|record| !(model.skipped && record.fate == "rolled_back")) {
            Some(record) => Err(format!("in the journal, but should not be: {record:?}")),
            None => Ok(fresh),
        }
    }

    /// The record that is expected. Statements that never ran may have left records like it: those came before.
    fn find(&self, rest: &[&Record], expected: &Expected, coming: &[Expected]) -> Option<usize> {
        let found: Vec<usize> = (0..rest.len()).filter(|&at| self.is(rest[at], expected)).collect();
        let like = |other: &&Expected| {
            (other.action, other.table, other.column, other.old)
                == (expected.action, expected.table, expected.column, expected.old)
        };
        let coming = coming.iter().filter(like).count();
        let exact = |at: &&usize| (rest[**at].place, rest[**at].first) == (expected.place, expected.first);
        if let Some(exact) = found.iter().find(exact) {
            return Some(*exact);
        }
        let surplus = if expected.uncounted { found.len().saturating_sub(coming) } else { 0 };
        found.get(surplus).copied()
    }

    fn is(&self, record: &Record, expected: &Expected) -> bool {
        let action = match expected.action {
            Action::Rekeyed => "rekeyed",
            Action::Followed => "followed",
        };
        let fate = if expected.committed { "committed" } else { "rolled_back" };
        let counted = (record.place, record.first) == (expected.place, expected.first);
        record.action == action
            && self.is_of(record, expected.table)
            && record.column == self.schema.tables[expected.table].columns[expected.column].name
            && record.old == self.keys.value(expected.old)
            && record.fate == fate
            && (expected.uncounted || counted)
    }

    fn told(
        &self,
        who: &str,
        (expected, meanwhile): &(Vec<Said>, Vec<Said>),
        observed: &Observed,
        fresh: &HashMap<u32, u128>,
    ) -> Result<(), String> {
        for (expected, replies) in [(expected, &observed.replies), (meanwhile, &observed.meanwhile)] {
            let actual = said(replies);
            let fits = |(expected, actual): (&Said, &String)| match expected {
                Said::Tag(tag) => tag == actual,
                Said::Error(states) => states.iter().any(|state| actual.strip_prefix('!') == Some(state)),
                Said::Row(values) => {
                    let values: Vec<String> = values.iter().map(|value| self.print(*value, fresh)).collect();
                    actual.strip_prefix("row ") == Some(values.join("|").as_str())
                }
            };
            if expected.len() != actual.len() || !expected.iter().zip(&actual).all(fits) {
                return Err(format!("{who} says {actual:?}\n  instead of {expected:?}"));
            }
        }
        Ok(())
    }

    fn print(&self, value: Value, fresh: &HashMap<u32, u128>) -> String {
        match value {
            Value::Null => "\\N".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.to_owned(),
            Value::Key(Key::Given(key)) => spell(self.keys.value(key)),
            Value::Key(Key::Fresh(key)) => {
                fresh.get(&key).map_or("no fresh key".to_owned(), |key| spell(*key))
            }
            Value::Drawn(_) | Value::Time(_) => DRAWN.to_owned(),
        }
    }

    fn stored(
        &self,
        who: &str,
        data: &Data,
        observed: &Observed,
        fresh: &HashMap<u32, u128>,
    ) -> Result<(), String> {
        let mut expected: Vec<Vec<String>> = Vec::new();
        for (table, rows) in self.schema.tables.iter().zip(&data.tables) {
            let mut rows: Vec<&Vec<Value>> = rows.iter().collect();
            rows.sort_by_key(|row| content(table, row));
            let line = |row: &&Vec<Value>| {
                let values: Vec<String> = shown(table).iter().map(|&at| self.print(row[at], fresh)).collect();
                values.join("|")
            };
            expected.push(rows.iter().map(line).collect());
        }
        let mut log = data.log.clone();
        log.sort_unstable();
        expected.push(log.iter().map(u32::to_string).collect());
        same(&format!("rows of the model and of {who}"), &expected, &observed.stored)
    }
}

/// What stands for a number that the server drew.
const DRAWN: &str = "drawn";
/// Sent numbers are not below this.
const SENT: u64 = 1_000_000_000;

/// A stored row with what the server drew masked.
pub fn masked(table: &Table, row: &str) -> String {
    let mask = |(at, value): (usize, &str)| {
        let drawn =
            table.columns[at].is == Is::Number && value.parse().is_ok_and(|number: u64| number < SENT);
        if drawn { DRAWN.to_owned() } else { value.to_owned() }
    };
    shown(table).into_iter().zip(row.split('|')).map(mask).collect::<Vec<_>>().join("|")
}

/// How a fresh key is not as the contract wants it for this one, if so.
fn unlike(old: u128, new: u128) -> Option<&'static str> {
    let version = |key: u128| (key >> 76) & 0xf;
    let wanted = match version(old) {
        1 => 1,
        6 => 6,
        7 => 7,
        _ => 4,
    };
    if version(new) != wanted || (new >> 62) & 0b11 != 0b10 {
        return Some("has the wrong version");
    }
    if wanted == 7 && old >> 80 != new >> 80 || wanted == 1 && old >> 64 != new >> 64 {
        return Some("has another time");
    }
    None
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, one: &[T], other: &[T]) -> Result<(), String> {
    if one == other {
        return Ok(());
    }
    let length = one.len().max(other.len());
    let at = (0..length).find(|&at| one.get(at) != other.get(at)).unwrap_or_default();
    Err(format!("{what} differ at {at}:\n  {:?}\n  {:?}", one.get(at), other.get(at)))
}
