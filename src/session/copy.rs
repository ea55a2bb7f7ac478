//! COPY FROM STDIN: rows that come in pieces, after the statement.

use super::inspect::Resolved;
use super::limits::Note;
use super::pipeline::{Effects, Request};
use super::refusal::Refusal;
use super::rows_seen::{Asking, Base, Own, OwnMut, Planned, RowsSeen};
use super::transaction::Block;
use super::{Fact, Outcome, Session};
use crate::carrier::Carrier;
use crate::carrier::Field;
use crate::carrier::copy::{CARRY_LIMIT, CopyReader, Row, Status};
use crate::catalog::model::RelationKind;
use crate::key;
use crate::rekey::references::References;
use crate::rekey::rows::{Place, Slot, Supply};
use crate::rekey::value::Value;
use crate::sql::lex::Options;
use crate::sql::statement::{self, CopyFormat};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A COPY whose rows are inspected.
pub(super) struct CopyIn {
    reader: CopyReader,
    planned: Planned,
    carrier: Carrier,
    statement: u32,
    /// Ordinal of the message that runs the COPY.
    message: u64,
    guard: Option<u32>,
    /// Why no key of its rows may be replaced, if so.
    suspended: Option<&'static str>,
    /// Why the COPY is to fail at its end: rows of it went by unseen.
    failing: Option<String>,
    insert_frees: bool,
}

/// Whether COPY data is due from the client. A transaction does not end while it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CopyOpen {
    #[default]
    No,
    /// The transaction may end with the data.
    ByQuery,
    /// The transaction may end with the Sync behind the data.
    ByExecute,
    /// Likewise, and a Sync came before the data: the transaction has ended with it if the COPY failed.
    BySync,
}

/// What has to happen before COPY data may be forwarded.
#[derive(Debug, Default)]
pub struct CopyOutcome {
    /// Up to this position in the client's byte stream nothing will change any more.
    pub safe: u64,
    /// Bytes to write at a position of the stream, once the facts are in the journal.
    pub patches: Vec<(u64, SmallVec<[u8; 64]>)>,
    /// To be written to the journal first.
    pub facts: Vec<Fact>,
    pub note: Option<Note>,
    /// The COPY is to fail, for this reason, as soon as the message that is being sent is complete.
    pub fail: Option<String>,
}

impl CopyOutcome {
    /// Whether the data can be forwarded as it is, with nothing to record.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.patches.is_empty() && self.facts.is_empty() && self.note.is_none() && self.fail.is_none()
    }

    /// The journal could not take the facts: without a record there is no rewrite. Rows that would then be stored
    /// under the wrong parent must not be.
    pub fn journal_failed(&mut self, facts: &[Fact]) {
        self.patches.clear();
        if facts.iter().any(Fact::follows) {
            self.fail.get_or_insert_with(|| Refusal::of_unrecorded().reason());
        }
    }

    pub fn clear(&mut self) {
        self.patches.clear();
        self.facts.clear();
        self.note = None;
        self.fail = None;
    }
}

impl Session {
    /// `COPY … FROM STDIN` is run: its data will follow. `obstacle` is a reason not to inspect it, `suspended` one
    /// not to rekey its rows.
    pub(super) fn begin_copy(
        &mut self,
        copy: &statement::CopyIn,
        ordinal: u32,
        open: CopyOpen,
        obstacle: Option<&'static str>,
        suspended: Option<&'static str>,
    ) {
        self.copy = None;
        self.copy_open = open;
        let obstacle = obstacle.or_else(|| self.is_past_limit(self.references.has_shared()));
        let obstacle = obstacle.or_else(|| self.copy_obstacle(copy));
        let begun = match obstacle {
            Some(reason) => Err(reason),
            None => self.plan_copy(copy, ordinal, suspended),
        };
        match begun {
            Ok(copy) => self.copy = copy,
            Err(reason) => {
                self.around.counters.uninspected_total.increment(reason);
                self.copied_unseen(copy);
            }
        }
        if obstacle.is_some() {
            self.window.clear();
        }
        self.move_names(&[&copy.table], ordinal);
        self.transaction.changed_data();
    }

    /// Why the data of a COPY cannot be read.
    pub(super) fn copy_obstacle(&self, copy: &statement::CopyIn) -> Option<&'static str> {
        let text = !matches!(copy.format, CopyFormat::Binary);
        let encoding = || self.literals.obstacle().filter(|_| text && !self.literals.is_ascii_safe());
        copy.obstacle.or_else(encoding)
    }

    fn plan_copy(
        &self,
        copy: &statement::CopyIn,
        ordinal: u32,
        suspended: Option<&'static str>,
    ) -> Result<Option<CopyIn>, &'static str> {
        let table = match self.resolve(&copy.table) {
            Resolved::Table(table) => table,
            Resolved::New => return Ok(None),
            Resolved::Unknown(reason) => return Err(reason),
        };
        if table.keys.is_empty() && table.foreign_keys.is_empty() {
            return if table.insert_frees { Err("trigger that may free keys") } else { Ok(None) };
        }
        // Without a column list COPY takes every column that is not generated.
        let all: Vec<String>;
        let columns = match &copy.columns {
            Some(columns) => columns,
            None => {
                all = table
                    .columns
                    .iter()
                    .filter(|column| !column.generated)
                    .map(|column| column.name.clone())
                    .collect();
                &all
            }
        };
        let Some(planned) = self.plan(&table, Some(columns), None, false)? else { return Ok(None) };
        let may_come_first = planned.plan.references.iter().any(|reference| reference.may_come_first);
        let nothing_live = self.window.is_empty() && self.references.is_empty();
        if planned.plan.keys.is_empty() && nothing_live && !may_come_first {
            return Ok(None);
        }
        Ok(Some(CopyIn {
            reader: CopyReader::new(&copy.format, columns, CARRY_LIMIT),
            carrier: match copy.format {
                CopyFormat::Text { .. } => Carrier::CopyText,
                CopyFormat::Csv { .. } => Carrier::CopyCsv,
                CopyFormat::Binary => Carrier::CopyBinary,
            },
            statement: ordinal,
            message: self.message,
            guard: self.transaction.guard(),
            suspended,
            failing: None,
            insert_frees: planned.plan.table.insert_frees,
            planned,
        }))
    }

    /// Looks whether a COPY may bring children of a key that two rows were sent with, and its rows cannot be
    /// looked at.
    pub(super) fn check_copy(
        &self,
        copy: &statement::CopyIn,
        obstacle: Option<&'static str>,
        outcome: &mut Outcome,
    ) {
        if !self.references.has_shared() || self.failed_block {
            return;
        }
        let into = self.resolve(&copy.table);
        let seen = match &into {
            Resolved::Table(table) => table.kind != RelationKind::View,
            Resolved::New => true,
            Resolved::Unknown(_) => false,
        };
        if !seen || obstacle.or_else(|| self.copy_obstacle(copy)).is_some() {
            self.check_unseen_rows(&into, outcome);
        }
    }

    /// Rows go into a table unseen: its triggers may do what they do.
    fn copied_unseen(&mut self, copy: &statement::CopyIn) {
        match self.resolve(&copy.table) {
            Resolved::Table(table) if !table.insert_frees => {}
            Resolved::New => {}
            _ => self.window.clear(),
        }
    }

    /// Whether COPY data is looked at.
    #[must_use]
    pub fn copies(&self) -> bool {
        self.copy.is_some()
    }

    /// The payload of a CopyData message, or a part of it; `at` is its position in the client's stream.
    pub fn copy_data(&mut self, payload: &[u8], at: u64, outcome: &mut CopyOutcome) {
        outcome.safe = at + payload.len() as u64;
        if self.pipeline.is_skipping() {
            return;
        }
        let Some(mut copy) = self.copy.take_if(|copy| copy.failing.is_none()) else { return };
        outcome.safe = self.copy_rows(&mut copy, outcome, |reader, rows| {
            reader.feed(payload, at, &mut |row: Row<'_>| rows.row(row))
        });
        self.copy_continues(copy, outcome);
    }

    fn copy_rows<R>(
        &mut self,
        copy: &mut CopyIn,
        outcome: &mut CopyOutcome,
        read: impl FnOnce(&mut CopyReader, &mut CopyRows<'_>) -> R,
    ) -> R {
        let mut own = Own { window: std::mem::take(&mut self.window), references: References::default() };
        let mut references = std::mem::take(&mut self.references);
        let mut rows = CopyRows {
            suspended: self.suspended().or(copy.suspended),
            session: self,
            planned: &copy.planned,
            carrier: copy.carrier,
            statement: copy.statement,
            guard: copy.guard,
            base: Base { window: None, beside: [None, None], references: &references },
            own: OwnMut { window: &mut own.window, references: &mut own.references },
            outcome,
        };
        let result = read(&mut copy.reader, &mut rows);
        self.window = own.window;
        references.take_over(&mut own.references);
        self.references = references;
        self.pipeline.recorded(copy.message, self.fates.recorded());
        result
    }

    fn copy_continues(&mut self, copy: CopyIn, outcome: &mut CopyOutcome) {
        if let Status::GaveUp(reason) = copy.reader.status() {
            self.around.counters.uninspected_total.increment(reason);
            let refusal = self.refusal_of_unseen(&copy.planned.plan.table);
            outcome.fail = outcome.fail.take().or(refusal.map(|refusal| refusal.reason()));
            return;
        }
        outcome.note = outcome.note.or(self.account());
        if let Some(reason) = self.is_past_limit(self.references.has_shared()) {
            self.around.counters.uninspected_total.increment(reason);
        } else if outcome.fail.is_none() {
            self.copy = Some(copy);
        }
    }

    /// Before CopyDone is forwarded: a last row may have been waiting for its end.
    pub fn copy_done(&mut self, outcome: &mut CopyOutcome) {
        outcome.safe = u64::MAX;
        if self.pipeline.is_skipping() {
            return;
        }
        let Some(mut copy) = self.copy.take() else { return };
        if copy.failing.is_some() {
            outcome.fail = copy.failing;
            return;
        }
        self.copy_rows(&mut copy, outcome, |reader, rows| reader.finish(&mut |row: Row<'_>| rows.row(row)));
        self.around.counters.inspected_statements_total.increment();
        if copy.insert_frees {
            self.window.clear();
        }
    }

    /// A row that is not complete goes to the server unread: the rest of the COPY cannot be followed.
    pub fn abandon_copy(&mut self) {
        let Some(mut copy) = self.copy.take() else { return };
        self.around.counters.uninspected_total.increment("Sync within COPY");
        self.window.clear();
        let refusal = self.refusal_of_unseen(&copy.planned.plan.table);
        copy.failing = refusal.map(|refusal| refusal.reason());
        self.copy = Some(copy).filter(|copy| copy.failing.is_some());
    }

    /// Something else comes than the data of the COPY: the server has refused the COPY, or gives it up now. Either
    /// way its transaction, or its block, has failed.
    pub(super) fn give_up_copy(&mut self) {
        self.copy = None;
        let open = std::mem::take(&mut self.copy_open);
        if open == CopyOpen::No {
            return;
        }
        if self.transaction.block() == Block::Explicit {
            self.failed_block = true;
        }
        if open != CopyOpen::ByExecute && self.transaction.end_group() {
            self.forget_transaction(false);
        }
    }

    /// CopyDone or CopyFail is forwarded.
    pub(super) fn end_copy(&mut self) {
        self.copy = None;
        self.due(Request::CopyEnd, Effects::new());
        if std::mem::take(&mut self.copy_open) == CopyOpen::ByQuery {
            self.end_group();
        }
    }
}

/// The sink of one COPY's rows.
struct CopyRows<'a> {
    session: &'a mut Session,
    planned: &'a Planned,
    carrier: Carrier,
    statement: u32,
    guard: Option<u32>,
    suspended: Option<&'static str>,
    base: Base<'a>,
    own: OwnMut<'a>,
    outcome: &'a mut CopyOutcome,
}

impl CopyRows<'_> {
    fn row(&mut self, row: Row<'_>) {
        let Ok(ordinal) = u32::try_from(row.ordinal) else { return };
        let slots: SmallVec<[Slot<'_>; 16]> =
            row.fields.iter().enumerate().map(|(input, &field)| self.slot(field, row.bytes, input)).collect();
        let supply = Supply {
            text: row.bytes,
            options: Options { standard_conforming_strings: true },
            only_row: None,
            read_before: false,
            text_fixed: None,
            bound: None,
        };
        let asking = Asking {
            supply,
            statement: self.statement,
            guard: self.guard,
            suspended: self.suspended,
            ignores_keys: false,
            several: false,
        };
        let own = OwnMut { window: &mut *self.own.window, references: &mut *self.own.references };
        let mut whole = Outcome::default();
        RowsSeen {
            session: self.session,
            planned: self.planned,
            asking,
            base: self.base,
            own,
            outcome: &mut whole,
            returns: false,
            shown: BTreeSet::new(),
            carrier: Some(self.carrier),
        }
        .row(ordinal, &slots);
        if whole.is_nothing() {
            return;
        }
        self.outcome.facts.append(&mut whole.facts);
        self.outcome.fail = self.outcome.fail.take().or(whole.refusal.map(|refusal| refusal.reason()));
        for edit in whole.edits {
            let Place::Text(range) = edit.place else { continue };
            let Some(old) = row.bytes.get(range.clone()) else { continue };
            let mut new: SmallVec<[u8; 64]> = SmallVec::from_slice(old);
            key::write_over(&mut new, edit.new);
            for (at, piece) in row.pieces(range.clone()) {
                let piece = piece.start - range.start..piece.end - range.start;
                self.outcome.patches.push((at, SmallVec::from_slice(new.get(piece).unwrap_or_default())));
            }
        }
    }

    fn slot<'r>(&self, field: Field, bytes: &'r [u8], input: usize) -> Slot<'r> {
        let plan = &self.planned.plan;
        let column = plan.inputs.get(input).and_then(|&column| plan.table.columns.get(column));
        let kind = column.map_or(crate::catalog::model::ColumnKind::Other, |column| column.kind.form());
        let (Some(range), Some(content)) = (field.range(), field.of(bytes)) else {
            let value = if field == Field::Default { Value::Default } else { Value::Null };
            return Slot { value, place: Place::Fixed("NULL") };
        };
        match field {
            Field::Escaped { .. } => {
                Slot { value: Value::Unknown(content), place: Place::Fixed("escaped field") }
            }
            _ => Slot {
                value: Value::field(content, matches!(field, Field::Binary { .. }), kind),
                place: Place::Text(range),
            },
        }
    }
}
