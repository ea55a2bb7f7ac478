//! Whether the keys of a statement were read, and why not: each statement that is sent to be run and inserts
//! rows, or may, counts once. Statements sent in a block that is known to have failed are not run, and do not
//! count. Knows no key.

use super::Session;
use crate::live::counters::Counters;
use crate::rekey::plan::Plan;
use crate::rekey::rows::{Place, Slot};
use crate::rekey::value::Value;
use crate::sql::statement::Statement;
use std::sync::Arc;

/// What became of the keys of one statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// It inserts nothing, as far as is known.
    #[default]
    Irrelevant,
    /// It inserts rows without a key to protect.
    Keyless,
    /// They were read, and could have been rewritten.
    Inspected,
    /// The statement is forwarded as it is, for this reason.
    Forwarded(&'static str),
}

/// Nothing in the statement is a key that untwin protects, or refers to one.
const KEYLESS: &str = "no protected key";
/// A function that may do anything is called.
pub(super) const VOLATILE_FUNCTION: &str = "volatile function";
/// The statement, or its parameters, were not held.
pub(super) const TOO_LARGE: &str = "statement too large";

impl Coverage {
    /// Takes in what became of a part of the same statement: one part that was not read says it all, and of the
    /// reasons the first.
    pub fn add(&mut self, part: Self) {
        let outweighs = match part {
            Self::Irrelevant => false,
            Self::Keyless => *self == Self::Irrelevant,
            Self::Inspected => matches!(self, Self::Irrelevant | Self::Keyless),
            Self::Forwarded(_) => !matches!(self, Self::Forwarded(_)),
        };
        if outweighs {
            *self = part;
        }
    }

    fn count(self, counters: &Counters) {
        match self {
            Self::Irrelevant => {}
            Self::Inspected => counters.inspected_statements_total.increment(),
            Self::Keyless => counters.uninspected_total.increment(KEYLESS),
            Self::Forwarded(reason) => {
                let count = counters.uninspected_total.add(reason, 1);
                // The first, the second, the fourth …: enough to find out who sends them.
                if count.is_power_of_two() {
                    tracing::info!(reason, count, "a statement that may insert keys was forwarded unread");
                }
            }
        }
    }

    /// What a statement is by its kind. Of an INSERT and a COPY from the client more has to be known.
    fn of_kind(statement: &Statement) -> Self {
        match statement {
            Statement::Merge(_) => Self::Forwarded("MERGE"),
            Statement::Mixed { merges, .. } if !merges.is_empty() => Self::Forwarded("MERGE"),
            Statement::CopyOther { into: Some(_) } => Self::Forwarded("COPY from the server's side"),
            Statement::Opaque => Self::Forwarded("DO or CALL"),
            Statement::Execute { .. } => Self::Forwarded("unknown prepared statement"),
            Statement::Unknown => Self::Forwarded("statement not understood"),
            _ => Self::Irrelevant,
        }
    }
}

/// Counts a COPY when nothing of it can come any more, however it ends.
#[derive(Debug)]
pub(super) struct Tally {
    counters: Arc<Counters>,
    pub coverage: Coverage,
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.coverage.count(&self.counters);
    }
}

impl Session {
    /// The statement that is being run is forwarded as it is, or a part of it.
    pub(super) fn forwarded(&mut self, reason: &'static str) {
        self.coverage.add(Coverage::Forwarded(reason));
    }

    /// A statement of this kind is being run.
    pub(super) fn covers_kind(&mut self, statement: &Statement) {
        self.coverage.add(Coverage::of_kind(statement));
    }

    /// A statement is refused before it was looked at row by row.
    pub(super) fn covers_refused(&mut self, statement: &Statement) {
        if matches!(statement, Statement::CopyIn(_)) || statement.inserts().is_some() {
            self.coverage.add(Coverage::Inspected);
        }
    }

    /// The statement has been handed in whole: counts it.
    pub(super) fn count_statement(&mut self) {
        std::mem::take(&mut self.coverage).count(&self.around.counters);
    }

    /// Counts one statement that nothing is known of but why.
    pub(super) fn count_forwarded(&mut self, reason: &'static str) {
        Coverage::Forwarded(reason).count(&self.around.counters);
    }

    /// For a COPY whose rows are about to come.
    pub(super) fn tally(&self, coverage: Coverage) -> Tally {
        Tally { counters: Arc::clone(&self.around.counters), coverage }
    }
}

/// What becomes of one row: a key that stands where it cannot be read or overwritten is not protected.
pub(super) fn of_row(plan: &Plan, slots: &[Slot<'_>]) -> Coverage {
    let obstacle = |slot: &Slot<'_>| match (&slot.value, &slot.place) {
        (Value::Null | Value::Default, _) => None,
        (_, Place::Fixed(reason)) => Some(*reason),
        _ => None,
    };
    let found = plan.keys.iter().find_map(|key| obstacle(slots.get(key.rekey)?));
    found.map_or(Coverage::Inspected, Coverage::Forwarded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coverage::{Forwarded, Inspected, Irrelevant, Keyless};

    #[test]
    fn the_part_that_was_not_read_says_it_all() {
        for (parts, whole) in [
            (&[][..], Irrelevant),
            (&[Irrelevant, Keyless], Keyless),
            (&[Keyless, Inspected, Keyless], Inspected),
            (&[Inspected, Forwarded("one"), Forwarded("other"), Inspected], Forwarded("one")),
            (&[Forwarded("one"), Keyless], Forwarded("one")),
        ] {
            let mut coverage = Coverage::default();
            parts.iter().for_each(|&part| coverage.add(part));
            assert_eq!(coverage, whole, "{parts:?}");
        }
    }

    #[test]
    fn each_statement_counts_once() {
        let counters = Counters::default();
        for coverage in [Irrelevant, Keyless, Inspected, Inspected, Forwarded("MERGE")] {
            coverage.count(&counters);
        }
        assert_eq!(counters.inspected_statements_total.value(), 2);
        assert_eq!(counters.uninspected_total.values(), [("MERGE", 1), (KEYLESS, 1)]);
    }
}
