//! Facts of a session as records of the journal, and their fates.

use super::Shared;
use super::entropy::System;
use crate::journal::record::{Action, Fate, Id, Note, Origin, Place, Record};
use crate::journal::writer;
use crate::rekey::fresh::Entropy;
use crate::rekey::judge;
use crate::session::{self, Fact};
use jiff::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What one session has written to the journal and whose fate is open.
pub(super) struct Records {
    origin: Arc<Origin>,
    open: VecDeque<(u64, Id)>,
    entropy: System,
    /// The log has told of the hint in a record.
    hinted: bool,
}

impl Records {
    pub fn new(origin: Origin) -> Self {
        Self { origin: Arc::new(origin), open: VecDeque::new(), entropy: System::default(), hinted: false }
    }

    /// Writes facts to the journal. Only then may what they speak of be forwarded.
    ///
    /// # Errors
    /// The journal cannot be written to; nothing was recorded.
    pub fn append(&mut self, facts: &[Fact], shared: &Shared) -> Result<(), writer::Error> {
        let at = Timestamp::now();
        let records: Vec<Record> = facts.iter().filter_map(|fact| self.record(fact, at)).collect();
        shared.journal.append(&records)?;
        self.open.extend(facts.iter().zip(&records).map(|(fact, record)| (fact.ordinal, record.id)));
        for (fact, record) in facts.iter().zip(&records) {
            count(fact, record, shared);
            self.tell_hint(record);
        }
        Ok(())
    }

    /// Tells of a setting that the client seems to need, once a session.
    fn tell_hint(&mut self, record: &Record) {
        let Some(hint) = record.hint.as_deref().filter(|_| !self.hinted) else { return };
        self.hinted = true;
        tracing::warn!(
            hint,
            table = %record.table,
            application = self.origin.application,
            "the client seems to find the rows that RETURNING gives back by the keys it sent, as SQLAlchemy does: it needs another setting"
        );
    }

    fn record(&mut self, fact: &Fact, at: Timestamp) -> Option<Record> {
        let constraint = match fact.twin.rule {
            judge::Rule::Key(key) => &fact.table.keys.get(key)?.constraint,
            judge::Rule::Foreign(foreign) => &fact.table.foreign_keys.get(foreign)?.constraint,
        };
        let column = fact.table.columns.get(fact.column)?;
        let (action, reason) = match fact.twin.action {
            judge::Action::Rekeyed => {
                (Action::Rekeyed, fact.returned_as_sent.then_some("returned as sent".into()))
            }
            judge::Action::Observed => (Action::Observed, None),
            judge::Action::Forwarded(reason) => (Action::Forwarded, Some(reason.into())),
            judge::Action::Followed => {
                (Action::Followed, fact.returned_as_sent.then_some("returned as sent".into()))
            }
            judge::Action::Ambiguous(_) => (Action::Failed, Some("ambiguous".into())),
        };
        let random = u128::from_be_bytes(self.entropy.bytes()?);
        Some(Record {
            at,
            id: Id::new(at, random),
            fate: Fate::Pending,
            action,
            reason,
            table: fact.table.display.as_str().into(),
            constraint: constraint.as_str().into(),
            column: column.name.as_str().into(),
            old: fact.twin.old,
            new: fact.twin.new,
            place: Place { statement: fact.statement.into(), row: fact.twin.row.into() },
            first: Some(Place { statement: fact.twin.first.0.into(), row: fact.twin.first.1.into() }),
            carrier: fact.carrier,
            identical: fact.twin.identical,
            suspected_redelivery: fact.twin.suspected_redelivery,
            hint: fact.hint.map(Into::into),
            echoed_in: fact
                .echoed_in
                .iter()
                .filter_map(|&at| Some(fact.table.columns.get(at)?.name.as_str().into()))
                .collect(),
            origin: Arc::clone(&self.origin),
        })
    }

    /// Writes fates that have become known.
    pub fn settle(&mut self, settled: &[(u64, session::Fate)], shared: &Shared) {
        // Both are long where a whole batch was sent twice.
        let fates: HashMap<u64, session::Fate> = settled.iter().copied().collect();
        let (known, open): (VecDeque<_>, VecDeque<_>) =
            self.open.drain(..).partition(|(ordinal, _)| fates.contains_key(ordinal));
        self.open = open;
        for fate in [session::Fate::Committed, session::Fate::RolledBack, session::Fate::Unknown] {
            let of_fate = known.iter().filter(|(ordinal, _)| fates.get(ordinal) == Some(&fate));
            let ids: Vec<Id> = of_fate.map(|(_, id)| *id).collect();
            if !ids.is_empty() {
                let (fate, counter) = match fate {
                    session::Fate::Committed => (Fate::Committed, &shared.counters.committed_total),
                    session::Fate::RolledBack => (Fate::RolledBack, &shared.counters.rolled_back_total),
                    session::Fate::Unknown => (Fate::Unknown, &shared.counters.fate_unknown_total),
                };
                counter.add(ids.len() as u64);
                shared.journal.settle(&ids, fate);
            }
        }
    }

    pub fn note(&self, note: session::Note, shared: &Shared) {
        if let session::Note::LimitReached(limit) = note {
            shared.counters.limits_reached_total.increment(limit.setting());
            tracing::warn!(
                limit = limit.setting(),
                "limit reached: nothing more is rekeyed in this transaction"
            );
        }
        if note == session::Note::UnknownMode {
            tracing::warn!("{note}");
        }
        let note = Note {
            at: Timestamp::now(),
            note: note.to_string().into(),
            session: self.origin.session.clone(),
        };
        if let Err(error) = shared.journal.note(&note) {
            tracing::warn!(%error, "the journal cannot be written to");
        }
    }
}

fn count(fact: &Fact, record: &Record, shared: &Shared) {
    let counters = &shared.counters;
    match fact.twin.action {
        judge::Action::Rekeyed => counters.rekeyed_total.increment(),
        judge::Action::Observed => counters.observed_total.increment(),
        judge::Action::Forwarded(reason) => counters.forwarded_total.increment(reason),
        judge::Action::Followed => counters.followed_total.increment(),
        judge::Action::Ambiguous(_) => counters.failed_total.increment("ambiguous"),
    }
    if fact.twin.identical {
        counters.identical_total.increment();
        tracing::warn!(
            table = fact.table.display,
            "a row equals an earlier one of its transaction in every column: most likely it was delivered twice"
        );
    } else if fact.twin.suspected_redelivery {
        tracing::warn!(
            table = fact.table.display,
            "a row equals an earlier one of its transaction in every column that is not volatile: it may have been delivered twice"
        );
    }
    tracing::info!(
        action = record.action.name(),
        table = fact.table.display,
        constraint = %record.constraint,
        statement = fact.statement,
        row = fact.twin.row,
        identical = fact.twin.identical,
        reason = record.reason.as_deref(),
        "twin"
    );
}
