//! Looks at the rows of an INSERT before they reach the server: which table, which plan, which twins.

use super::prepared::Prepared;
use super::refusal::Refusal;
use super::restore::{self, Restore};
use super::{Edit, Fact, Outcome, Session};
use crate::carrier::Carrier;
use crate::catalog::Resolution;
use crate::catalog::model::Table;
use crate::rekey::judge::{self, Action, Circumstances, Judge, Rule};
use crate::rekey::likeness::{self, Measure};
use crate::rekey::plan::Plan;
use crate::rekey::policy::{Policy, Protect, Returning};
use crate::rekey::references::{References, Row};
use crate::rekey::rows::{self, Place, Slot, Supply};
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

/// Who asks for an inspection.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub supply: Supply<'a>,
    /// Ordinal of the statement in its transaction.
    pub statement: u32,
    /// Keys claimed by statements up to this ordinal are guarded.
    pub guard: Option<u32>,
    /// Why nothing may be rekeyed in this statement, if so.
    pub suspended: Option<&'static str>,
    /// Only references matter.
    pub ignores_keys: bool,
}

const ON_CONFLICT: &str = "ON CONFLICT";

/// A table and what is to be done for it.
#[derive(Debug)]
pub(super) struct Planned {
    pub plan: Plan,
    pub policy: Policy,
    /// For each value of a row, how it is told apart from that of another row.
    pub measures: Vec<Measure>,
}

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
            suspended: self.suspended(),
            ignores_keys: false,
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
        for insert in inserts {
            let base = Base { window: None, references: &references };
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
        let mut discarded;
        if let Some(reason) = self.is_past_limit(base.references.has_shared()) {
            self.around.counters.uninspected_total.increment(reason);
            return true;
        }
        let (mut asking, mut base, mut own) = (asking, base, own);
        let executed = base.window.is_none_or(Window::is_empty);
        let nothing_live = executed && own.window.is_empty() && base.references.is_empty();
        if planned.plan.keys.is_empty() && nothing_live {
            // The table only refers to others, and there is nothing to refer to.
            return true;
        }
        if let Some(conflict) = &insert.conflict {
            // The statement says itself what a conflict means, and its rows are not remembered. Only that one
            // row is proposed twice for an update is told: Postgres refuses that with 21000.
            self.around.counters.uninspected_total.increment(ON_CONFLICT);
            asking.suspended = Some(ON_CONFLICT);
            asking.ignores_keys = *conflict == Conflict::Nothing;
            discarded = Own::default();
            (base.window, own) = (None, &mut discarded);
        }
        let carrier = carrier(&insert.source);
        let mark = asking.statement.saturating_sub(1);
        let (edits, facts) = (outcome.edits.len(), outcome.facts.len());
        let mut expressions = !matches!(insert.source, Source::Values { .. }) || insert.returning.is_some();
        let returns = insert.returning.is_some();
        let shown = BTreeSet::new();
        let mut read =
            RowsSeen { session: self, planned, asking, base, own, outcome, returns, shown, carrier };
        let result = rows::for_each(insert, &planned.plan, asking.supply, &mut |row, slots| {
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
                own.window.roll_back_to(mark);
                own.references.clear();
                outcome.refusal = None;
                outcome.edits.truncate(edits);
                outcome.facts.truncate(facts);
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
        let asking =
            Asking { supply, statement, guard: self.transaction.guard(), suspended, ignores_keys: false };
        let (window, references) = (std::mem::take(&mut self.window), std::mem::take(&mut self.references));
        let base = Base { window: Some(&window), references: &references };
        let inserts = prepared.statement.inserts().unwrap_or_default();
        let plans = prepared.plans((self.epoch, self.scope.version(), self.path_is_doubtful()), || {
            inserts.iter().map(|insert| self.planned(insert, &prepared.text, prepared.options)).collect()
        });
        for (insert, planned) in inserts.iter().zip(plans.iter()) {
            self.inspect_insert(insert, planned, asking, base, claims, outcome);
        }
        self.window = window;
        self.references = references;
    }
}

/// The rows of one INSERT or COPY as they are read.
pub(super) struct RowsSeen<'a> {
    pub session: &'a mut Session,
    pub planned: &'a Planned,
    pub asking: Asking<'a>,
    pub base: Base<'a>,
    pub own: &'a mut Own,
    pub outcome: &'a mut Outcome,
    /// The statement returns rows.
    pub returns: bool,
    /// Keys that it returns as they were sent.
    pub shown: BTreeSet<u128>,
    /// `None`: literal or parameter, as the place of the key shows.
    pub carrier: Option<Carrier>,
}

impl RowsSeen<'_> {
    /// Decides one row; facts and edits go into the outcome.
    pub fn row(&mut self, row: u32, slots: &[Slot<'_>]) {
        let Planned { plan, policy, measures } = self.planned;
        let session = &mut *self.session;
        let at = Circumstances {
            plan,
            policy,
            mode: session.mode(policy.mode),
            ignores_keys: self.asking.ignores_keys,
            statement: self.asking.statement,
            guard: self.asking.guard,
            suspended: self.asking.suspended,
        };
        let place = (self.asking.statement, row);
        let hash = likeness::row_hash(measures, self.carrier, session.around.seed, place, slots);
        let mut judge = Judge {
            at,
            window: self.base.window,
            own: &mut self.own.window,
            references: self.base.references,
            own_references: &mut self.own.references,
            entropy: &mut *session.entropy,
            scratch: &mut session.scratch,
            seed: session.around.seed,
        };
        judge.row(row, slots, hash, &mut session.twins);
        if session.twins.is_empty() {
            return;
        }
        let twins = std::mem::take(&mut session.twins);
        for twin in &twins {
            self.record(twin, slots);
        }
        self.session.twins = twins;
        self.session.twins.clear();
    }

    /// Columns besides the key's, and those that follow it, whose values contain the old key.
    fn echoes(&self, twin: &judge::Twin, slots: &[Slot<'_>]) -> Vec<usize> {
        let elsewhere = |input: &usize| *input != twin.input && !twin.follows.contains(input);
        let contains = |input: &usize| slots.get(*input).is_some_and(|slot| slot.value.mentions(twin.old));
        let inputs = (0..slots.len()).filter(|input| elsewhere(input) && contains(input));
        inputs.filter_map(|input| self.planned.plan.inputs.get(input).copied()).collect()
    }

    /// The client is to see the key that it sent. In one statement only one row shows it, the first one if that is
    /// there: who finds rows by their key could not tell two apart, and SQLAlchemy refuses them.
    fn restores(&mut self, twin: &judge::Twin) -> bool {
        if !self.returns || self.planned.policy.returning == Returning::Stored {
            return false;
        }
        match twin.action {
            Action::Followed => true,
            Action::Rekeyed => twin.first.0 != self.asking.statement && self.shown.insert(twin.old),
            _ => false,
        }
    }

    fn refusal(&self, twin: &judge::Twin, other: Row) -> Option<Refusal> {
        let Rule::Foreign(foreign) = twin.rule else { return None };
        let constraint = &self.planned.plan.table.foreign_keys.get(foreign)?.constraint;
        let reference = self.planned.plan.references.iter().find(|reference| reference.foreign == foreign)?;
        let what = format!("a reference from {}", self.planned.plan.table.display);
        Some(Refusal::new(twin.old, &what, &reference.parent, constraint, twin.first, other))
    }

    fn record(&mut self, twin: &judge::Twin, slots: &[Slot<'_>]) {
        let plan = &self.planned.plan;
        if let (Action::Rekeyed | Action::Followed, Some(new)) = (twin.action, twin.new) {
            for &input in std::iter::once(&twin.input).chain(&twin.follows) {
                self.outcome
                    .edits
                    .extend(slots.get(input).map(|slot| Edit { place: slot.place.clone(), new }));
            }
        }
        let returned_as_sent = self.restores(twin);
        if let (true, Some(new)) = (returned_as_sent, twin.new) {
            self.outcome.restores.push(Restore { new, old: twin.old });
        }
        if let (Action::Ambiguous(other), None) = (twin.action, &self.outcome.refusal) {
            self.outcome.refusal = self.refusal(twin, other);
        }
        let Some(&column) = plan.inputs.get(twin.input) else { return };
        self.outcome.facts.push(Fact {
            ordinal: self.session.fates.record(),
            table: Arc::clone(&plan.table),
            twin: twin.clone(),
            statement: self.asking.statement,
            carrier: self.carrier.unwrap_or(match slots.get(twin.input).map(|slot| &slot.place) {
                Some(Place::Bind(_)) => Carrier::Parameter,
                _ => Carrier::Literal,
            }),
            column,
            echoed_in: self.echoes(twin, slots),
            returned_as_sent,
            hint: None,
        });
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

/// What the rows of a statement are compared with: what has been executed before it.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    /// Absent where the rows claim their keys in it at once.
    pub window: Option<&'a Window>,
    pub references: &'a References,
}

/// What a statement claims, to be taken over when it is executed.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub window: Window,
    pub references: References,
}

impl Own {
    pub fn clear(&mut self) {
        self.window.clear();
        self.references.clear();
    }
}

fn carrier(source: &Source) -> Option<Carrier> {
    match source {
        Source::Unnest { .. } => Some(Carrier::Array),
        Source::Json { .. } => Some(Carrier::Json),
        _ => None,
    }
}
