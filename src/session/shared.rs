//! Statements that name a key which two rows were sent with: whether they may mean either of them.

use super::inspect::Resolved;
use super::limits::Note;
use super::refusal::Refusal;
use super::{Outcome, Session};
use crate::catalog::Catalog;
use crate::catalog::model::{ForeignKey, Table, TableId, UniqueKey};
use crate::rekey::policy::Ambiguous;
use crate::rekey::references::Shared;
use crate::sql::insert::{Conflict, Source};
use crate::sql::name::Name;
use crate::sql::statement::{CopyIn, Statement};
use smallvec::SmallVec;
use std::sync::Arc;

impl Session {
    /// Looks whether a statement that is about to run names a key that two rows were sent with. `sources` are
    /// its text and its parameters.
    pub(super) fn check_shared(
        &self,
        statement: &Statement,
        sources: &[&[u8]],
        calls: impl Fn(&Catalog) -> bool,
        outcome: &mut Outcome,
    ) {
        if !self.references.has_shared() || self.failed_block {
            return;
        }
        if let Statement::CopyIn(copy) = statement {
            return self.check_copy(copy, outcome);
        }
        let Some(shared) = sources.iter().find_map(|bytes| self.references.named_in(bytes)) else { return };
        if !self.may_change_by_key(statement, shared, calls) {
            // An INSERT's rows have records of their own.
            if !matches!(statement, Statement::Insert(_)) {
                outcome.note = Some(Note::SharedKeyRead);
            }
        } else if !self.is_elsewhere(statement, shared, sources) {
            self.refuse_for(shared, outcome);
        }
    }

    fn refuse_for(&self, shared: &Shared, outcome: &mut Outcome) {
        if self.policy.table(&shared.table.display).ambiguous == Ambiguous::Fail {
            outcome.refusal = Refusal::of_statement(shared);
        }
    }

    /// A COPY whose rows cannot be looked at may bring children of a key that two rows were sent with.
    fn check_copy(&self, copy: &CopyIn, outcome: &mut Outcome) {
        let into = self.resolve(&copy.table);
        if self.copy_obstacle(copy).is_none() && !matches!(into, Resolved::Unknown(_)) {
            return;
        }
        let refers = |shared: &&Shared| match &into {
            Resolved::Table(table) => {
                table.foreign_keys.iter().any(|link| self.is_same(link.parent, &shared.table))
            }
            Resolved::New => false,
            Resolved::Unknown(_) => true,
        };
        if let Some(shared) = self.references.shared().find(refers) {
            self.refuse_for(shared, outcome);
        }
    }

    /// Whether rows that a key in the text names may be changed, or rows be stored that refer to it. What an
    /// INSERT inserts is looked at row by row.
    fn may_change_by_key(
        &self,
        statement: &Statement,
        shared: &Shared,
        calls: impl Fn(&Catalog) -> bool,
    ) -> bool {
        match statement {
            Statement::Delete(_)
            | Statement::Update { .. }
            | Statement::Merge(_)
            | Statement::Mixed { .. }
            | Statement::Opaque
            | Statement::Unknown
            | Statement::Execute { .. } => true,
            Statement::Insert(inserts) => {
                inserts.iter().any(|insert| match (&insert.source, &insert.conflict) {
                    (Source::Uninspected(_), _) => true,
                    // The row it updates is the first.
                    (_, Some(Conflict::Update(_))) => match self.resolve(&insert.table) {
                        Resolved::Table(table) => self.is_same(table.id, &shared.table),
                        Resolved::New => false,
                        Resolved::Unknown(_) => true,
                    },
                    _ => false,
                })
            }
            Statement::Select => self.catalog.as_deref().is_some_and(calls),
            _ => false,
        }
    }

    /// Whether a statement can only be about another table than the one whose key is shared: it names that
    /// other table, which does not refer to the first, and does not mention the first at all.
    fn is_elsewhere(&self, statement: &Statement, shared: &Shared, sources: &[&[u8]]) -> bool {
        let targets: SmallVec<[&Name; 1]> = match statement {
            Statement::Delete(target) | Statement::Update { table: target, .. } => {
                SmallVec::from_iter([target])
            }
            Statement::Insert(inserts) => inserts.iter().map(|insert| &insert.table).collect(),
            _ => return false,
        };
        let name = shared.table.name.to_ascii_lowercase();
        let mentions =
            |bytes: &&[u8]| memchr::memmem::find(&bytes.to_ascii_lowercase(), name.as_bytes()).is_some();
        let is_another = |target: &&Name| {
            let Resolved::Table(target) = self.resolve(target) else { return false };
            let refers = |link: &ForeignKey| self.is_same(link.parent, &shared.table);
            !self.is_same(target.id, &shared.table) && !target.foreign_keys.iter().any(refers)
        };
        // What an INSERT reads of the first, it only reads.
        targets.iter().all(is_another)
            && (matches!(statement, Statement::Insert(_)) || !sources.iter().any(mentions))
    }

    /// Whether the rows of one table may be those of the other: it is the same, of the same partition tree, or
    /// a view of it.
    pub(super) fn is_same(&self, one: TableId, other: &Table) -> bool {
        let shares_key = |table: &Arc<Table>| {
            let in_other = |key: &UniqueKey| other.knowable_keys().any(|theirs| theirs.index == key.index);
            table.knowable_keys().any(in_other)
        };
        one == other.id
            || self.catalog.as_ref().and_then(|catalog| catalog.table(one)).is_some_and(shares_key)
    }
}
