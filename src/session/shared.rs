//! Statements that name a key which two rows were sent with: whether they may mean either of them.

use super::inspect::Resolved;
use super::limits::Note;
use super::refusal::Refusal;
use super::said::Said;
use super::{Outcome, Session};
use crate::catalog::Catalog;
use crate::catalog::model::{ForeignKey, RelationKind, Table, TableId, UniqueKey};
use crate::rekey::policy::Ambiguous;
use crate::rekey::references::{References, Shared};
use crate::sql::insert::{Conflict, Insert, Source};
use crate::sql::name::Name;
use crate::sql::statement::Statement;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a statement that names a key may do with the rows that were sent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// What there is to say of it has been said of its rows.
    None,
    Reads,
    /// It may change them, or store references to them.
    Changes,
}

impl Session {
    /// Looks whether a statement that is about to run names a key that two rows were sent with.
    pub(super) fn check_shared(
        &self,
        said: Said<'_>,
        references: &References,
        calls: impl Fn(&Catalog) -> bool,
        outcome: &mut Outcome,
    ) {
        if !references.has_shared() || self.failed_block {
            return;
        }
        // Of tables that the statement is not about, or whose keys it may name in its rows: one key may be shared in
        // several tables, and a statement may name several keys.
        let mut others: SmallVec<[TableId; 4]> = SmallVec::new();
        while let Some(shared) = said.named(references, |shared| !others.contains(&shared.table.id)) {
            let using = self.using(said, references, shared, &calls);
            if using == Use::Changes && self.is_elsewhere(said, shared) {
                others.push(shared.table.id);
                if is_query(said.statement) {
                    outcome.note = Some(Note::SharedKeyRead);
                }
                continue;
            }
            match using {
                Use::None => {
                    others.push(shared.table.id);
                    continue;
                }
                Use::Reads => outcome.note = Some(Note::SharedKeyRead),
                Use::Changes => self.refuse_for(shared, outcome),
            }
            return;
        }
    }

    fn refuse_for(&self, shared: &Shared, outcome: &mut Outcome) {
        match self.refusal_for(shared) {
            Some(refusal) => outcome.refusal = Some(refusal),
            None => outcome.note = Some(Note::SharedKeyKept),
        }
    }

    /// Why a statement that names the key is refused; `None` if the key is to mean the first row.
    fn refusal_for(&self, shared: &Shared) -> Option<Refusal> {
        let fails = self.policy.table(&shared.table.display).ambiguous == Ambiguous::Fail;
        if fails { Refusal::of_statement(shared) } else { None }
    }

    /// Rows go into a table unseen, children perhaps of a key that two rows were sent with: `into`, if it is known.
    pub(super) fn check_unseen_rows(&self, into: &Resolved, outcome: &mut Outcome) {
        if let Some(shared) = self.shared_by_parents(into) {
            self.refuse_for(shared, outcome);
        }
    }

    /// Likewise, for rows of which some have been sent already.
    pub(super) fn refusal_of_unseen(&self, into: &Arc<Table>) -> Option<Refusal> {
        self.refusal_for(self.shared_by_parents(&Resolved::Table(Arc::clone(into)))?)
    }

    fn shared_by_parents(&self, into: &Resolved) -> Option<&Shared> {
        self.references.shared().find(|shared| match into {
            Resolved::Table(table) => self.refers(table, shared),
            Resolved::New => false,
            Resolved::Unknown(_) => true,
        })
    }

    /// An INSERT cannot be read after all: whether it names a shared key, so that it is to be refused.
    pub(super) fn check_unreadable(
        &self,
        insert: &Insert,
        sources: &[&[u8]],
        references: &References,
        outcome: &mut Outcome,
    ) {
        if matches!(insert.source, Source::Uninspected(_)) {
            // That was known before.
            return;
        }
        let Some(shared) = sources.iter().find_map(|bytes| references.named_in(bytes)) else { return };
        if self.may_touch(&insert.table, shared) {
            self.refuse_for(shared, outcome);
        }
    }

    fn using(
        &self,
        said: Said<'_>,
        references: &References,
        shared: &Shared,
        calls: impl Fn(&Catalog) -> bool,
    ) -> Use {
        let opaque = || self.catalog.as_deref().is_some_and(&calls);
        match said.statement {
            Statement::Delete(_)
            | Statement::Update { .. }
            | Statement::Merge(_)
            | Statement::Opaque
            | Statement::Unknown
            | Statement::Execute { .. } => Use::Changes,
            Statement::Mixed { .. } if said.names_outside_rows(references) => Use::Changes,
            Statement::Insert(inserts) | Statement::Mixed { inserts, .. } => {
                let unseen = |insert: &Insert| self.is_unseen(insert);
                let upsert = |insert: &Insert| self.updates_the_first(insert, shared);
                let says_more = |insert: &Insert| {
                    matches!(insert.source, Source::Uninspected(_))
                        || matches!(insert.conflict, Some(Conflict::Update(_)))
                };
                let obstacle = self.literals.obstacle().is_some() && said.names_in_text(references);
                let changes = obstacle
                    || said.names_in_unread(references)
                    || inserts.iter().any(unseen)
                    || inserts.iter().any(upsert)
                    || opaque()
                    || inserts.iter().any(says_more) && said.names_outside_rows(references);
                if changes { Use::Changes } else { Use::None }
            }
            Statement::Select | Statement::CopyOther { into: None } if opaque() => Use::Changes,
            Statement::Select | Statement::CopyOther { .. } | Statement::CreateRelation { .. } => Use::Reads,
            Statement::Harmless if said.is_cursor() => Use::Reads,
            _ => Use::None,
        }
    }

    /// Whether the rows of the INSERT are not looked at one by one: it is not certain which table is meant, or it is
    /// a view, whose table may refer to others.
    fn is_unseen(&self, insert: &Insert) -> bool {
        match self.resolve(&insert.table) {
            Resolved::Table(table) => table.kind == RelationKind::View,
            Resolved::New => false,
            Resolved::Unknown(_) => true,
        }
    }

    /// The row that an upsert of a shared key updates is the first.
    fn updates_the_first(&self, insert: &Insert, shared: &Shared) -> bool {
        let same = || match self.resolve(&insert.table) {
            Resolved::Table(table) => self.is_same(table.id, &shared.table),
            Resolved::New => false,
            Resolved::Unknown(_) => true,
        };
        matches!(insert.conflict, Some(Conflict::Update(_))) && same()
    }

    /// Whether a statement can only be about another table than the one whose key is shared: it names that
    /// other table, which does not refer to the first, and does not mention the first at all.
    fn is_elsewhere(&self, said: Said<'_>, shared: &Shared) -> bool {
        let targets: SmallVec<[&Name; 1]> = match said.statement {
            Statement::Delete(target) | Statement::Update { table: target, .. } => {
                SmallVec::from_iter([target])
            }
            Statement::Insert(inserts) => inserts.iter().map(|insert| &insert.table).collect(),
            _ => return false,
        };
        let name = shared.table.name.to_ascii_lowercase();
        let mentions =
            |bytes: &&[u8]| memchr::memmem::find(&bytes.to_ascii_lowercase(), name.as_bytes()).is_some();
        let inserts = matches!(said.statement, Statement::Insert(_));
        // What an INSERT reads of the first, it only reads; nor does it put rows into tables that inherit.
        targets
            .iter()
            .all(|target| !self.may_touch(target, shared) && (inserts || !self.has_heir(target, shared)))
            && (inserts || !said.sources().iter().any(mentions))
    }

    /// Whether an UPDATE or DELETE of the table that is meant is about the one whose key is shared, since that
    /// inherits from it.
    fn has_heir(&self, target: &Name, shared: &Shared) -> bool {
        match self.resolve(target) {
            Resolved::Table(target) => target.update_reaches.contains(&shared.table.id),
            Resolved::New | Resolved::Unknown(_) => true,
        }
    }

    /// Whether the table that is meant may be the one whose key is shared, or refer to it.
    fn may_touch(&self, target: &Name, shared: &Shared) -> bool {
        match self.resolve(target) {
            Resolved::Table(target) => self.is_same(target.id, &shared.table) || self.refers(&target, shared),
            Resolved::New | Resolved::Unknown(_) => true,
        }
    }

    /// Whether rows of the table, or of those that a view shows, refer to the table whose key is shared.
    fn refers(&self, table: &Table, shared: &Shared) -> bool {
        let to_shared = |link: &ForeignKey| self.is_same(link.parent, &shared.table);
        let shown = || {
            let catalog = self.catalog.as_deref();
            let tables = table.delete_reaches.iter().filter_map(|&id| catalog?.table(id));
            tables.into_iter().any(|table| {
                self.is_same(table.id, &shared.table) || table.foreign_keys.iter().any(to_shared)
            })
        };
        table.foreign_keys.iter().any(to_shared) || table.kind == RelationKind::View && shown()
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

/// Whether a statement that changes another table reads for it.
fn is_query(statement: &Statement) -> bool {
    let uninspected = |insert: &Insert| matches!(insert.source, Source::Uninspected(_));
    matches!(statement, Statement::Insert(inserts) if inserts.iter().any(uninspected))
}
