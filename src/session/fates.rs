//! What became of recorded twins: committed, rolled back, unknown. Knows ordinals of facts, no content.

use super::pipeline::Effect;
use std::collections::VecDeque;

/// How a transaction ended for a recorded twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Committed,
    RolledBack,
    /// The connection was lost with COMMIT in flight, or the transaction was prepared for two-phase commit.
    Unknown,
}

/// Facts whose fate is open, in the order they were recorded, and what is known of the transaction.
#[derive(Debug, Default)]
pub struct Fates {
    open: VecDeque<u64>,
    recorded: u64,
    /// An error came since the last end of a transaction.
    failed: bool,
}

impl Fates {
    /// Records a fact and gives its ordinal in the session.
    pub fn record(&mut self) -> u64 {
        let ordinal = self.recorded;
        self.recorded += 1;
        self.open.push_back(ordinal);
        ordinal
    }

    /// Facts recorded so far.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    pub fn failed(&mut self) {
        self.failed = true;
    }

    /// A statement is complete; `tag` is its command tag, `upto` the facts recorded when it was sent.
    pub fn completed(&mut self, effect: Effect, tag: &[u8], upto: u64, settled: &mut Vec<(u64, Fate)>) {
        match effect {
            Effect::None => return,
            Effect::Commit if tag.starts_with(b"ROLLBACK") => self.settle(0, upto, Fate::RolledBack, settled),
            Effect::Commit => self.settle(0, upto, Fate::Committed, settled),
            Effect::Rollback => self.settle(0, upto, Fate::RolledBack, settled),
            // After a failure the savepoint may be another than the model thinks: the end will tell.
            Effect::RollbackTo { blind: true, .. } if self.failed => {}
            Effect::RollbackTo { from, .. } => self.settle(from, upto, Fate::RolledBack, settled),
            Effect::PrepareTransaction => self.settle(0, upto, Fate::Unknown, settled),
        }
        self.failed = false;
    }

    /// ReadyForQuery outside a transaction block: what is still open ended with the implicit transaction.
    pub fn idle(&mut self, upto: u64, settled: &mut Vec<(u64, Fate)>) {
        let fate = if self.failed { Fate::RolledBack } else { Fate::Committed };
        self.settle(0, upto, fate, settled);
        self.failed = false;
    }

    /// The connection is gone.
    pub fn lost(&mut self, commit_in_flight: bool, settled: &mut Vec<(u64, Fate)>) {
        let fate = if commit_in_flight { Fate::Unknown } else { Fate::RolledBack };
        self.settle(0, u64::MAX, fate, settled);
    }

    fn settle(&mut self, from: u64, upto: u64, fate: Fate, settled: &mut Vec<(u64, Fate)>) {
        self.open.retain(|&ordinal| {
            let hit = (from..upto).contains(&ordinal);
            if hit {
                settled.push((ordinal, fate));
            }
            !hit
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_says_rollback_is_a_rollback() {
        for (tag, fate) in [(&b"COMMIT"[..], Fate::Committed), (b"ROLLBACK", Fate::RolledBack)] {
            let (mut fates, mut settled) = (Fates::default(), Vec::new());
            let fact = fates.record();
            fates.completed(Effect::Commit, tag, 1, &mut settled);
            assert_eq!(settled, [(fact, fate)]);
        }
    }

    #[test]
    fn rolling_back_to_a_savepoint_leaves_what_came_before() {
        let (mut fates, mut settled) = (Fates::default(), Vec::new());
        fates.record();
        let from = fates.recorded();
        fates.record();
        fates.completed(Effect::RollbackTo { from, blind: false }, b"ROLLBACK", 2, &mut settled);
        assert_eq!(settled, [(1, Fate::RolledBack)]);
        fates.idle(2, &mut settled);
        assert_eq!(settled.last(), Some(&(0, Fate::Committed)));
    }

    #[test]
    fn facts_of_a_later_group_stay_open() {
        let (mut fates, mut settled) = (Fates::default(), Vec::new());
        fates.record();
        fates.record();
        fates.failed();
        fates.idle(1, &mut settled);
        assert_eq!(settled, [(0, Fate::RolledBack)]);
        fates.idle(2, &mut settled);
        assert_eq!(settled.last(), Some(&(1, Fate::Committed)));
    }
}
