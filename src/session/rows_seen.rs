//! The rows of one INSERT or COPY, one at a time: decides each, and gathers what is to be written, recorded and
//! refused. Knows no message.

use super::refusal::Refusal;
use super::restore::Restore;
use super::{Edit, Fact, Outcome, Session};
use crate::carrier::Carrier;
use crate::rekey::judge::{self, Action, Circumstances, Judge, Rule};
use crate::rekey::likeness::{self, Measure};
use crate::rekey::plan::Plan;
use crate::rekey::policy::{Policy, Returning};
use crate::rekey::references::{References, Row};
use crate::rekey::rows::{Place, Slot, Supply};
use crate::rekey::window::Window;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    /// The statement has several INSERTs.
    pub several: bool,
}

/// A table and what is to be done for it.
#[derive(Debug)]
pub(super) struct Planned {
    pub plan: Plan,
    pub policy: Policy,
    /// For each value of a row, how it is told apart from that of another row.
    pub measures: Vec<Measure>,
}

/// The rows of one INSERT or COPY as they are read.
pub(super) struct RowsSeen<'a> {
    pub session: &'a mut Session,
    pub planned: &'a Planned,
    pub asking: Asking<'a>,
    pub base: Base<'a>,
    pub own: OwnMut<'a>,
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
            several: self.asking.several,
            sources: [self.asking.supply.text, self.asking.supply.bound.map_or(b"", |bound| bound.body)],
            statement: self.asking.statement,
            guard: self.asking.guard,
            suspended: self.asking.suspended,
        };
        let place = (self.asking.statement, row);
        let hash = likeness::row_hash(measures, self.carrier, session.around.seed, place, slots);
        let mut judge = Judge {
            at,
            window: self.base.window,
            beside: self.base.beside,
            own: self.own.window,
            references: self.base.references,
            own_references: self.own.references,
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

    /// Why the row is refused: `other` and the twin's `first` are the rows that something may mean.
    fn refusal(&self, twin: &judge::Twin, other: Row) -> Option<Refusal> {
        let table = &self.planned.plan.table;
        let rows = [twin.first, other];
        match twin.rule {
            Rule::Key(_) => Some(Refusal::of_early_child(twin.old, table, rows)),
            Rule::Foreign(foreign) => {
                let constraint = &table.foreign_keys.get(foreign)?.constraint;
                let references = &self.planned.plan.references;
                let reference = references.iter().find(|reference| reference.foreign == foreign)?;
                Some(Refusal::of_reference(twin.old, table, constraint, &reference.parent, rows))
            }
        }
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

/// What the rows of a statement are compared with: what has been executed before it.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    /// Absent where the rows claim their keys in it at once.
    pub window: Option<&'a Window>,
    /// What references are compared with besides.
    pub beside: [Option<&'a Window>; 2],
    pub references: &'a References,
}

/// What a statement claims, to be taken over when it is executed.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub window: Window,
    pub references: References,
}

/// Where a statement notes what it claims.
pub(super) struct OwnMut<'a> {
    pub window: &'a mut Window,
    pub references: &'a mut References,
}

impl Own {
    pub fn clear(&mut self) {
        self.window.clear();
        self.references.clear();
    }
}
