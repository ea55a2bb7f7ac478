//! Looks at the rows of an INSERT before they reach the server: which table, which plan, which twins.

use super::prepared::Prepared;
use super::{Carrier, Edit, Fact, Outcome, Session};
use crate::catalog::model::Table;
use crate::catalog::Resolution;
use crate::rekey::judge::{self, Action, Circumstances, Judge};
use crate::rekey::plan::Plan;
use crate::rekey::policy::{Mode, Policy, Protect};
use crate::rekey::rows::{self, Place, Slot, Supply};
use crate::rekey::window::{BYTES_PER_KEY, Window};
use crate::sql::calls;
use crate::sql::insert::{Conflict, Insert, Source};
use crate::sql::name::Name;
use crate::sql::statement::Statement;
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
}

const ON_CONFLICT: &str = "ON CONFLICT";

/// A table and what is to be done for it.
pub(super) struct Planned {
    pub plan: Plan,
    pub policy: Policy,
    pub mode: Mode,
    /// For each value of a row, whether it may differ between two deliveries of one fact.
    pub volatile: Vec<bool>,
}

impl Session {
    pub(super) fn resolve(&self, name: &Name) -> Resolved {
        let Some(catalog) = &self.catalog else { return Resolved::Unknown("catalog not loaded") };
        if self.schema.distrusted {
            return Resolved::Unknown("schema changed");
        }
        match catalog.resolve(name, self.scope.current()) {
            Resolution::Table(table) => Resolved::Table(Arc::clone(table)),
            Resolution::NotFound | Resolution::Temporary => Resolved::New,
            Resolution::Unknown => Resolved::Unknown("search_path unknown"),
        }
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

    /// A statement that holds all its data in its own text.
    pub(super) fn inspect_text(
        &mut self,
        statement: &Statement,
        supply: Supply<'_>,
        range: Range<usize>,
        ordinal: u32,
        outcome: &mut Outcome,
    ) {
        if self.failed_block {
            return;
        }
        let asking = Asking { supply, statement: ordinal, guard: self.transaction.guard(), suspended: self.suspended() };
        let (edits, facts) = (outcome.edits.len(), outcome.facts.len());
        // The rows claim their keys at once: the statement is run where it stands.
        let mut own = std::mem::take(&mut self.window);
        let nothing = Window::default();
        let mut expressions = false;
        for insert in statement.inserts().unwrap_or_default() {
            expressions |= self.inspect_insert(insert, asking, &nothing, &mut own, outcome);
        }
        self.window = own;
        if expressions && self.calls_opaque(supply, range) {
            self.around.counters.uninspected_total.increment("volatile function");
            self.window.clear();
            outcome.edits.truncate(edits);
            outcome.facts.truncate(facts);
        }
        self.check_limit(outcome);
    }

    fn calls_opaque(&self, supply: Supply<'_>, range: Range<usize>) -> bool {
        let Some(catalog) = &self.catalog else { return true };
        calls::calls(supply.text, range, supply.options).any(|name| catalog.is_opaque_function(&name))
    }

    /// Inspects one INSERT. Its rows are compared with `window` and `own`, and claim their keys in `own`.
    /// Gives whether a value is an expression that might call a function.
    pub(super) fn inspect_insert(
        &mut self,
        insert: &Insert,
        asking: Asking<'_>,
        window: &Window,
        own: &mut Window,
        outcome: &mut Outcome,
    ) -> bool {
        let planned = match self.planned(insert, asking.supply) {
            Ok(Some(planned)) => planned,
            Ok(None) => return true,
            Err(reason) => {
                self.around.counters.uninspected_total.increment(reason);
                return true;
            }
        };
        let nothing = Window::default();
        let mut discarded = Window::default();
        let (mut asking, mut window, mut own) = (asking, window, own);
        match insert.conflict {
            None => {}
            // The statement says itself what a conflict means, and its rows are not remembered. Only that one
            // row is proposed twice is told: Postgres refuses that with 21000.
            Some(Conflict::Update(_)) => {
                self.around.counters.uninspected_total.increment(ON_CONFLICT);
                asking.suspended = Some(ON_CONFLICT);
                (window, own) = (&nothing, &mut discarded);
            }
            Some(Conflict::Nothing) => {
                self.around.counters.uninspected_total.increment(ON_CONFLICT);
                return true;
            }
        }
        let carrier = carrier(&insert.source);
        let mark = asking.statement.saturating_sub(1);
        let (edits, facts) = (outcome.edits.len(), outcome.facts.len());
        let mut expressions = !matches!(insert.source, Source::Values { .. }) || insert.returning.is_some();
        let mut read = RowsSeen { session: self, planned: &planned, asking, window, own, outcome, carrier };
        let result = rows::for_each(insert, &planned.plan, asking.supply, &mut |row, slots| {
            expressions |= slots.iter().any(|slot| slot.is_expression());
            read.row(row, slots);
        });
        match result {
            Ok(_) => self.around.counters.inspected_statements_total.increment(),
            Err(rows::Unreadable(reason)) => {
                self.around.counters.uninspected_total.increment(reason);
                own.roll_back_to(mark);
                outcome.edits.truncate(edits);
                outcome.facts.truncate(facts);
            }
        }
        expressions
    }

    /// The plan for an INSERT; `None` if the table has no key to protect.
    fn planned(&self, insert: &Insert, supply: Supply<'_>) -> Result<Option<Planned>, &'static str> {
        let table = match self.resolve(&insert.table) {
            Resolved::Table(table) => table,
            Resolved::New => return Err("table not in the catalog yet"),
            Resolved::Unknown(reason) => return Err(reason),
        };
        if table.keys.is_empty() {
            return Ok(None);
        }
        let columns = insert.columns.as_deref();
        let width = if columns.is_none() { rows::width(&insert.source, supply.text, supply.options) } else { None };
        self.plan(&table, columns, width, insert.overriding_user)
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
        if policy.protect == Protect::Never {
            return Err("not protected by configuration");
        }
        let plan = Plan::new(table, columns, width, identity_ignored).map_err(|_| "unknown column")?;
        if plan.keys.is_empty() {
            return Ok(None);
        }
        let volatile = plan
            .inputs
            .iter()
            .map(|&column| table.columns.get(column).is_some_and(|column| policy.is_volatile(&column.name) || column.identity))
            .collect();
        let mode = self.mode(policy.mode);
        Ok(Some(Planned { plan, policy, mode, volatile }))
    }

    /// A bound statement: its rows claim their keys in the portal, to be taken over when it is executed.
    pub(super) fn inspect_bound(
        &mut self,
        prepared: &Prepared,
        supply: Supply<'_>,
        claims: &mut Window,
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
        let asking = Asking { supply, statement, guard: self.transaction.guard(), suspended: self.suspended() };
        let window = std::mem::take(&mut self.window);
        for insert in prepared.statement.inserts().unwrap_or_default() {
            self.inspect_insert(insert, asking, &window, claims, outcome);
        }
        self.window = window;
    }

    /// Past the limit nothing is rekeyed for the rest of the transaction, and nothing is remembered.
    pub(super) fn check_limit(&mut self, outcome: &mut Outcome) {
        let bytes = (self.window.len() as u64).saturating_mul(BYTES_PER_KEY as u64);
        if bytes > self.around.limits.transaction_key_bytes && !self.over_limit {
            self.over_limit = true;
            self.window.clear();
            outcome.note = Some("max_transaction_key_bytes reached: nothing more is rekeyed in this transaction");
        }
    }
}

/// The rows of one INSERT or COPY as they are read.
pub(super) struct RowsSeen<'a> {
    pub session: &'a mut Session,
    pub planned: &'a Planned,
    pub asking: Asking<'a>,
    pub window: &'a Window,
    pub own: &'a mut Window,
    pub outcome: &'a mut Outcome,
    /// `None`: literal or parameter, as the place of the key shows.
    pub carrier: Option<Carrier>,
}

impl RowsSeen<'_> {
    /// Decides one row; facts and edits go into the outcome.
    pub fn row(&mut self, row: u32, slots: &[Slot<'_>]) {
        let Planned { plan, policy, mode, volatile } = self.planned;
        let session = &mut *self.session;
        let at = Circumstances {
            plan,
            policy,
            mode: *mode,
            statement: self.asking.statement,
            guard: self.asking.guard,
            suspended: self.asking.suspended,
        };
        let hash = judge::row_hash(plan, volatile, session.around.seed, slots);
        let mut judge = Judge {
            at,
            window: self.window,
            own: self.own,
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

    fn record(&mut self, twin: &judge::Twin, slots: &[Slot<'_>]) {
        let plan = &self.planned.plan;
        if let (Action::Rekeyed, Some(new)) = (twin.action, twin.new) {
            for &input in std::iter::once(&twin.input).chain(&twin.follows) {
                self.outcome.edits.extend(slots.get(input).map(|slot| Edit { place: slot.place.clone(), new }));
            }
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
        });
    }
}

fn carrier(source: &Source) -> Option<Carrier> {
    match source {
        Source::Unnest { .. } => Some(Carrier::Array),
        Source::Json { .. } => Some(Carrier::Json),
        _ => None,
    }
}
