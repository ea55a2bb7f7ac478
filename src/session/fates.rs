//! What became of recorded twins: committed, rolled back, unknown. Knows ordinals of facts and what the server said
//! is done, no content.

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
    /// Those that the server said it has set, unlike those that a client has sent ahead.
    savepoints: Vec<Savepoint>,
    /// An error came since the last end of a transaction.
    failed: bool,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    /// Facts recorded before it.
    from: u64,
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
            Effect::Savepoint(name) => return self.savepoints.push(Savepoint { name, from: upto }),
            Effect::Release(name) => {
                let at = self.find(&name).unwrap_or(self.savepoints.len());
                return self.savepoints.truncate(at);
            }
            Effect::RollbackTo(name) => {
                self.failed = false;
                return self.roll_back_to(&name, upto, settled);
            }
            Effect::Commit if tag.starts_with(b"ROLLBACK") => self.settle(0, upto, Fate::RolledBack, settled),
            Effect::Commit => self.settle(0, upto, Fate::Committed, settled),
            Effect::Rollback => self.settle(0, upto, Fate::RolledBack, settled),
            Effect::PrepareTransaction => self.settle(0, upto, Fate::Unknown, settled),
        }
        self.savepoints.clear();
        self.failed = false;
    }

    /// ReadyForQuery outside a transaction block: what is still open ended with the implicit transaction.
    pub fn idle(&mut self, upto: u64, settled: &mut Vec<(u64, Fate)>) {
        let fate = if self.failed { Fate::RolledBack } else { Fate::Committed };
        self.settle(0, upto, fate, settled);
        self.savepoints.clear();
        self.failed = false;
    }

    /// The connection is gone.
    pub fn lost(&mut self, commit_in_flight: bool, settled: &mut Vec<(u64, Fate)>) {
        let fate = if commit_in_flight { Fate::Unknown } else { Fate::RolledBack };
        self.settle(0, u64::MAX, fate, settled);
    }

    /// The facts since a savepoint are gone; which ones, if its statement was not read, nobody knows.
    fn roll_back_to(&mut self, name: &str, upto: u64, settled: &mut Vec<(u64, Fate)>) {
        match self.find(name) {
            Some(at) => {
                let from = self.savepoints.get(at).map_or(upto, |savepoint| savepoint.from);
                self.savepoints.truncate(at + 1);
                self.settle(from, upto, Fate::RolledBack, settled);
            }
            None => self.settle(0, upto, Fate::Unknown, settled),
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name)
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
        let name = || "s".to_owned();
        fates.completed(Effect::Savepoint(name()), b"SAVEPOINT", 1, &mut settled);
        fates.record();
        // What was sent ahead of the failure did not happen, so the savepoint is still there.
        fates.failed();
        fates.completed(Effect::RollbackTo(name()), b"ROLLBACK", 2, &mut settled);
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
