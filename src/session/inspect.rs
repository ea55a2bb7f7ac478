//! Looks at the rows of an INSERT before they reach the server: which table, which plan. What becomes of each row is
//! the business of `rows_seen`.

use super::prepared::Prepared;
use super::restore;
use super::rows_seen::{Asking, Base, Own, OwnMut, Planned, RowsSeen};
use super::{Fact, Outcome, Session};
use crate::carrier::Carrier;
use crate::catalog::Resolution;
use crate::catalog::model::Table;
use crate::rekey::judge::Action;
use crate::rekey::likeness;
use crate::rekey::plan::Plan;
use crate::rekey::policy::{Protect, Returning};
use crate::rekey::references::References;
use crate::rekey::rows::{self, Supply};
use crate::rekey::window::Window;
use crate::sql::insert::{Conflict, Insert, Source};
use crate::sql::lex::Options;
use crate::sql::name::Name;
use crate::sql::statement::Statement;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// What a table name means to the session.
pub(super) enum Resolved {
    Table(Arc<Table>),
    /// Made since the snapshot, or temporary: nothing is known of it, and nothing of it was before.
    New,
    /// Not certain, for this reason.
    Unknown(&'static str),
}

pub(super) const ANOTHER_TABLE: &str = "a table of the name was made since the statement was prepared";
const ON_CONFLICT: &str = "ON CONFLICT";

impl Session {
    pub(super) fn resolve(&self, name: &Name) -> Resolved {
        let Some(catalog) = &self.catalog else { return Resolved::Unknown("catalog not loaded") };
        if self.schema.distrusted || self.outdated {
            return Resolved::Unknown("schema changed");
        }
        let resolution = match self.path_is_doubtful() {
            true => catalog.resolve(name, &self.scope.without_path()),
            false => catalog.resolve(name, self.scope.current()),
        };
        match resolution {
            Resolution::Table(table) => Resolved::Table(Arc::clone(table)),
            // A temporary relation may be gone again, and a schema may be out of the role's reach.
            Resolution::NotFound | Resolution::Temporary if catalog.bears(&name.name) => {
                Resolved::Unknown("search_path unknown")
            }
            Resolution::NotFound | Resolution::Temporary => Resolved::New,
            Resolution::Unknown => Resolved::Unknown("search_path unknown"),
        }
    }

    /// Whether the path was changed in a group that is not answered yet and may have failed.
    fn path_is_doubtful(&self) -> bool {
        (self.statements.confirmed() + 1..self.group).contains(&self.moved.scope)
    }

    /// Why nothing can be rekeyed at the moment, whatever the statement.
    pub(super) fn suspended(&self) -> Option<&'static str> {
        if self.over_limit {
            Some("limit")
        } else if !self.transaction.is_certain() {
            Some("unconfirmed transaction")
        } else {
            None
        }
    }

    /// Why the rows of a portal, or of a statement that needs none, may not be rekeyed: another portal was bound
    /// before, and may yet name their key or free it.
    pub(super) fn open_portal(&self, portal: &[u8]) -> Option<&'static str> {
        self.portals.obstacle(portal, self.catalog.as_deref())
    }

    /// A statement that holds all its data in its own text. Gives whether a value is an expression, which
    /// might call a function.
    pub(super) fn inspect_text(
        &mut self,
        statement: &Statement,
        supply: Supply<'_>,
        range: Range<usize>,
        ordinal: u32,
        outcome: &mut Outcome,
    ) -> bool {
        if self.failed_block {
            return false;
        }
        let asking = Asking {
            supply,
            statement: ordinal,
            guard: self.transaction.guard(),
            suspended: self.suspended().or(self.open_portal(b"")),
            ignores_keys: false,
            several: false,
        };
        let (edits, facts) = (outcome.edits.len(), outcome.facts.len());
        let inserts = statement.inserts().unwrap_or_default();
        let expressions = self.inspect_at_once(inserts, asking, outcome);
        if expressions && self.calls_opaque(supply, range) {
            self.around.counters.uninspected_total.increment("volatile function");
            self.window.clear();
            outcome.edits.truncate(edits);
            outcome.facts.truncate(facts);
            outcome.refusal = None;
        }
        outcome.note = outcome.note.or(self.account());
        expressions
    }

    /// Inspects INSERTs that are run where they stand: their rows claim their keys at once.
    pub(super) fn inspect_at_once(
        &mut self,
        inserts: &[Insert],
        asking: Asking<'_>,
        outcome: &mut Outcome,
    ) -> bool {
        let mut references = std::mem::take(&mut self.references);
        let mut own = Own { window: std::mem::take(&mut self.window), references: References::default() };
        let mut expressions = false;
        let asking = Asking { several: inserts.len() > 1, ..asking };
        for insert in inserts {
            let base = Base { window: None, beside: [None, None], references: &references };
            let planned = self.planned(insert, asking.supply.text, asking.supply.options);
            expressions |= self.inspect_insert(insert, &planned, asking, base, &mut own, outcome);
            references.take_over(&mut own.references);
        }
        self.window = own.window;
        self.references = references;
        expressions
    }

    fn calls_opaque(&self, supply: Supply<'_>, range: Range<usize>) -> bool {
        let Some(catalog) = &self.catalog else { return true };
        self.mentioned(supply.text, range, supply.options).are_opaque(catalog)
    }

    /// Inspects one INSERT. Its rows are compared with `base` and `own`, and claim their keys in `own`.
    /// Gives whether a value is an expression that might call a function.
    pub(super) fn inspect_insert(
        &mut self,
        insert: &Insert,
        planned: &Result<Option<Arc<Planned>>, &'static str>,
        asking: Asking<'_>,
        base: Base<'_>,
        own: &mut Own,
        outcome: &mut Outcome,
    ) -> bool {
        let planned = match planned {
            Ok(Some(planned)) => planned,
            Ok(None) => return true,
            Err(reason) => {
                self.around.counters.uninspected_total.increment(reason);
                return true;
            }
        };
        if let Some(reason) = self.is_past_limit(base.references.has_shared()) {
            self.around.counters.uninspected_total.increment(reason);
            return true;
        }
        let executed = base.window.is_none_or(Window::is_empty);
        let nothing_live = executed && own.window.is_empty() && base.references.is_empty();
        let plan = &planned.plan;
        let may_come_first =
            asking.several || plan.references.iter().any(|reference| reference.may_come_first);
        if plan.keys.is_empty() && nothing_live && !may_come_first {
            // The table only refers to others, and there is nothing to refer to.
            return true;
        }
        let (mut asking, mut base) = (asking, base);
        let Own { window, references } = own;
        let mut own_window = window;
        let mut discarded;
        if let Some(conflict) = &insert.conflict {
            // The statement says itself what a conflict means, and its rows are not remembered. Only that one
            // row is proposed twice for an update is told: Postgres refuses that with 21000.
            self.around.counters.uninspected_total.increment(ON_CONFLICT);
            asking.suspended = Some(ON_CONFLICT);
            asking.ignores_keys = *conflict == Conflict::Nothing;
            discarded = Window::default();
            (base.window, base.beside) = (None, [base.window, Some(own_window)]);
            own_window = &mut discarded;
        }
        let carrier = carrier(&insert.source);
        let mark = asking.statement.saturating_sub(1);
        let (edits, facts) = (outcome.edits.len(), outcome.facts.len());
        let mut expressions = !matches!(insert.source, Source::Values { .. }) || insert.returning.is_some();
        let returns = insert.returning.is_some();
        let own = OwnMut { window: own_window, references };
        let shown = BTreeSet::new();
        let mut read =
            RowsSeen { session: self, planned, asking, base, own, outcome, returns, shown, carrier };
        let result = rows::for_each(insert, plan, asking.supply, &mut |row, slots| {
            expressions |= slots.iter().any(|slot| slot.is_expression());
            read.row(row, slots);
        });
        match result {
            Ok(rows) => {
                self.around.counters.inspected_statements_total.increment();
                let returning = insert.returning.clone().and_then(|range| asking.supply.text.get(range));
                hint(
                    planned,
                    returning.unwrap_or_default(),
                    rows,
                    outcome.facts.get_mut(facts..).unwrap_or_default(),
                );
            }
            Err(rows::Unreadable(reason)) => {
                self.around.counters.uninspected_total.increment(reason);
                own_window.roll_back_to(mark);
                references.clear();
                outcome.refusal = None;
                outcome.edits.truncate(edits);
                outcome.facts.truncate(facts);
                let supply = asking.supply;
                let sources = [supply.text, supply.bound.map_or(b"", |bound| bound.body)];
                self.check_unreadable(insert, &sources, base.references, outcome);
            }
        }
        expressions
    }

    /// The plan for an INSERT; `None` if the table has no key to protect, and refers to none.
    fn planned(
        &self,
        insert: &Insert,
        text: &[u8],
        options: Options,
    ) -> Result<Option<Arc<Planned>>, &'static str> {
        let table = match self.resolve(&insert.table) {
            Resolved::Table(table) => table,
            Resolved::New => return Err("table not in the catalog yet"),
            Resolved::Unknown(reason) => return Err(reason),
        };
        if table.keys.is_empty() && table.foreign_keys.is_empty() {
            return Ok(None);
        }
        let columns = insert.columns.as_deref();
        let width = if columns.is_none() { rows::width(&insert.source, text, options) } else { None };
        Ok(self.plan(&table, columns, width, insert.overriding_user)?.map(Arc::new))
    }

    /// The plan for rows of a table with this column list.
    pub(super) fn plan(
        &self,
        table: &Arc<Table>,
        columns: Option<&[String]>,
        width: Option<usize>,
        identity_ignored: bool,
    ) -> Result<Option<Planned>, &'static str> {
        let policy = self.policy.table(&table.display).clone();
        let parents = |id| self.catalog.as_ref().and_then(|catalog| catalog.table(id));
        let mut plan =
            Plan::new(table, columns, width, identity_ignored, &parents).map_err(|_| "unknown column")?;
        let switched_off = policy.protect == Protect::Never && !plan.keys.is_empty();
        if switched_off {
            // References are followed all the same: the parents' keys are not this table's.
            plan.keys.clear();
        }
        if plan.keys.is_empty() && plan.references.is_empty() {
            return if switched_off { Err("not protected by configuration") } else { Ok(None) };
        }
        let measures = likeness::measures(&plan, &policy);
        Ok(Some(Planned { plan, policy, measures }))
    }

    /// A bound statement: its rows claim their keys in the portal, to be taken over when it is executed.
    pub(super) fn inspect_bound(
        &mut self,
        prepared: &Prepared,
        supply: Supply<'_>,
        suspended: Option<&'static str>,
        claims: &mut Own,
        outcome: &mut Outcome,
    ) {
        if self.failed_block {
            return;
        }
        if let Some(catalog) = &self.catalog
            && prepared.calls_opaque(catalog)
        {
            return self.around.counters.uninspected_total.increment("volatile function");
        }
        let statement = self.transaction.statement().saturating_add(1);
        let suspended = self.suspended().or(suspended);
        let inserts = prepared.statement.inserts().unwrap_or_default();
        let guard = self.transaction.guard();
        let several = inserts.len() > 1;
        let asking = Asking { supply, statement, guard, suspended, ignores_keys: false, several };
        let (window, references) = (std::mem::take(&mut self.window), std::mem::take(&mut self.references));
        let base = Base { window: Some(&window), beside: [None, None], references: &references };
        let plans = prepared.plans((self.epoch, self.scope.version(), self.path_is_doubtful()), || {
            if !self.means_the_same(prepared) {
                return inserts.iter().map(|_| Err(ANOTHER_TABLE)).collect();
            }
            inserts.iter().map(|insert| self.planned(insert, &prepared.text, prepared.options)).collect()
        });
        for (insert, planned) in inserts.iter().zip(plans.iter()) {
            self.inspect_insert(insert, planned, asking, base, claims, outcome);
        }
        self.window = window;
        self.references = references;
    }
}

/// Notes with twins of earlier statements that the client will look for their rows under the keys that it sent.
fn hint(planned: &Planned, returning: &[u8], rows: u32, facts: &mut [Fact]) {
    if returning.is_empty() || planned.policy.returning == Returning::Sent {
        return;
    }
    for fact in facts {
        let name = fact.table.columns.get(fact.column).map_or("", |column| &column.name);
        let is_elsewhere = fact.twin.action == Action::Rekeyed && fact.twin.first.0 != fact.statement;
        if is_elsewhere && restore::finds_rows_by_key(returning, name, rows) {
            fact.hint = Some(restore::HINT);
        }
    }
}

fn carrier(source: &Source) -> Option<Carrier> {
    match source {
        Source::Unnest { .. } => Some(Carrier::Array),
        Source::Json { .. } => Some(Carrier::Json),
        _ => None,
    }
}
