//! Which transaction the next message falls into, judged by the order of messages. Knows blocks, implicit
//! transactions, savepoints and guards; no keys.

/// The kind of transaction that is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Block {
    /// None.
    #[default]
    Idle,
    /// Statements up to the next Sync, or to the end of the Query.
    Implicit,
    /// After BEGIN.
    Explicit,
}

/// The state of the current transaction, one message ahead of the server.
#[derive(Debug, Default)]
pub struct Transaction {
    block: Block,
    savepoints: Vec<Savepoint>,
    /// Statements executed in this transaction, BEGIN not counted.
    statements: u32,
    guard: Option<u32>,
    /// Names of savepoints that were released or undone, also of earlier transactions, since the server last had
    /// nothing to do: if something failed before, they may still be there.
    dropped: Vec<String>,
    /// The server may have savepoints whose names are not known.
    strangers: bool,
    /// Anything but BEGIN came in the group (up to Sync, or the Query) that began the block.
    late_begin: bool,
    group_is_empty: bool,
    /// The block may not exist: it was begun behind statements that may have failed, and the server has
    /// not answered yet.
    uncertain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Savepoint {
    name: String,
    /// Statements executed before it, itself included.
    mark: u32,
    /// The guard that stood when it was set.
    guard: Option<u32>,
}

/// More names of dropped savepoints than this are not kept.
const MAX_DROPPED: usize = 1_000;

/// Savepoints that drivers set for themselves; an INSERT behind one asks nothing of its error.
const HOUSEKEEPING: &[&str] = &["pgjdbc_autosave", "pg_psql_temporary_savepoint", "_exec_svp_"];

/// What going back to a savepoint means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackTo {
    /// Statements after `mark` are undone.
    Savepoint { mark: u32 },
    /// It is not known which ones; those after `mark` in any case, if it is known.
    Unknown { mark: Option<u32> },
}

impl Transaction {
    #[must_use]
    pub fn block(&self) -> Block {
        self.block
    }

    /// Whether what is claimed now can be trusted to be live later in this transaction.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        !self.uncertain
    }

    /// Ordinal of the statement that is executed last.
    #[must_use]
    pub fn statement(&self) -> u32 {
        self.statements
    }

    /// Keys claimed by statements up to this ordinal are guarded now.
    #[must_use]
    pub fn guard(&self) -> Option<u32> {
        self.guard
    }

    /// A statement is executed (any but BEGIN); gives its ordinal.
    pub fn execute(&mut self) -> u32 {
        if self.block == Block::Idle {
            self.block = Block::Implicit;
        }
        self.group_is_empty = false;
        self.statements = self.statements.saturating_add(1);
        self.statements
    }

    /// A statement that changes data was executed.
    pub fn changed_data(&mut self) {
        self.guard = None;
    }

    pub fn begin(&mut self) {
        if self.block != Block::Explicit {
            self.block = Block::Explicit;
            self.late_begin = !self.group_is_empty;
        }
        self.group_is_empty = false;
    }

    /// COMMIT or ROLLBACK.
    pub fn end(&mut self, chain: bool) {
        self.drop_from(0);
        let (dropped, strangers) = (std::mem::take(&mut self.dropped), self.strangers);
        *self = Self { group_is_empty: self.group_is_empty, dropped, strangers, ..Self::default() };
        if chain {
            self.block = Block::Explicit;
        }
    }

    /// A Sync, or the end of a Query. Gives whether an implicit transaction ended with it.
    pub fn end_group(&mut self) -> bool {
        self.group_is_empty = true;
        if self.block == Block::Implicit {
            self.end(false);
            self.group_is_empty = true;
            return true;
        }
        self.uncertain |= std::mem::take(&mut self.late_begin);
        false
    }

    pub fn savepoint(&mut self, name: &str) {
        self.savepoints.push(Savepoint { name: name.to_owned(), mark: self.statements, guard: self.guard });
        if !is_housekeeping(name) {
            self.guard = Some(self.statements);
        }
    }

    /// RELEASE: the savepoint and all after it are gone, their keys stay.
    pub fn release(&mut self, name: &str) {
        if let Some(at) = self.find(name) {
            self.drop_from(at);
            if !is_housekeeping(name) {
                self.guard = None;
            }
        }
    }

    /// Some of the savepoints may not exist, or others may: going back to any of them undoes nobody knows what.
    pub fn forget_savepoints(&mut self) {
        self.savepoints.clear();
        self.strangers = true;
    }

    /// The savepoints from this one on are gone, if nothing has failed.
    fn drop_from(&mut self, at: usize) {
        self.dropped.extend(self.savepoints.drain(at..).map(|savepoint| savepoint.name));
        if self.dropped.len() > MAX_DROPPED {
            self.dropped.clear();
            self.strangers = true;
        }
    }

    /// Whether no savepoint that is not known here can bear the name.
    fn knows_all_of(&self, name: &str) -> bool {
        !self.strangers && !self.dropped.iter().any(|dropped| dropped == name)
    }

    /// ROLLBACK TO: `blind` if an earlier group is unanswered, so that savepoints seen since may not exist. Even then
    /// only one can be meant if only one bears the name: if it does not exist, the block has failed before it, and
    /// nothing of what follows is done until another ROLLBACK TO succeeds.
    pub fn roll_back_to(&mut self, name: &str, blind: bool) -> BackTo {
        let Some((at, savepoint)) =
            self.find(name).and_then(|at| Some((at, self.savepoints.get(at)?.clone())))
        else {
            self.guard = Some(self.statements);
            return BackTo::Unknown { mark: None };
        };
        let known = self.knows_all_of(name);
        let only = known && self.savepoints.iter().filter(|savepoint| savepoint.name == name).count() == 1;
        self.drop_from(at + 1);
        if blind && !only {
            self.guard = Some(self.statements);
            let mark = known.then_some(savepoint.mark);
            return BackTo::Unknown { mark };
        }
        self.guard = if is_housekeeping(name) { savepoint.guard } else { Some(self.statements) };
        BackTo::Savepoint { mark: savepoint.mark }
    }

    /// ReadyForQuery with nothing outstanding: the server's word overrides the model. Gives whether the
    /// model had kept keys of a transaction that is over.
    pub fn ready(&mut self, in_block: bool) -> bool {
        self.uncertain = false;
        self.group_is_empty = true;
        self.dropped.clear();
        self.strangers &= in_block;
        match (self.block, in_block) {
            (Block::Idle, false) | (Block::Explicit, true) => false,
            (_, false) => {
                self.end(false);
                self.dropped.clear();
                true
            }
            (_, true) => {
                self.end(true);
                self.strangers = true;
                true
            }
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name)
    }
}

fn is_housekeeping(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    HOUSEKEEPING.iter().any(|start| folded.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Transaction {
        let mut transaction = Transaction::default();
        transaction.ready(false);
        transaction
    }

    #[test]
    fn an_implicit_transaction_ends_with_its_group() {
        let mut transaction = fresh();
        assert_eq!(
            (transaction.execute(), transaction.execute(), transaction.block()),
            (1, 2, Block::Implicit)
        );
        assert!(transaction.end_group());
        assert_eq!((transaction.block(), transaction.execute()), (Block::Idle, 1));
    }

    #[test]
    fn begin_adopts_what_came_before_but_only_the_server_makes_it_certain() {
        let mut transaction = fresh();
        transaction.execute();
        transaction.begin();
        assert!(transaction.is_certain());
        assert!(!transaction.end_group());
        assert_eq!((transaction.is_certain(), transaction.statement()), (false, 1));
        transaction.ready(true);
        assert!(transaction.is_certain());
    }

    #[test]
    fn a_begin_of_its_own_is_certain_at_once() {
        let mut transaction = fresh();
        transaction.begin();
        transaction.end_group();
        transaction.execute();
        transaction.end_group();
        assert_eq!((transaction.is_certain(), transaction.block()), (true, Block::Explicit));
    }

    #[test]
    fn commit_inside_a_pipeline_ends_the_transaction_and_the_next_begin_is_late() {
        let mut transaction = fresh();
        transaction.execute();
        transaction.end(false);
        transaction.begin();
        transaction.end_group();
        assert!(!transaction.is_certain());
    }

    #[test]
    fn the_newest_savepoint_of_a_name_is_meant_and_stays() {
        let mut transaction = fresh();
        transaction.begin();
        transaction.savepoint("s");
        transaction.execute();
        transaction.savepoint("s");
        transaction.execute();
        for _ in 0..2 {
            assert_eq!(transaction.roll_back_to("s", false), BackTo::Savepoint { mark: 1 });
        }
        transaction.release("s");
        assert_eq!(transaction.roll_back_to("s", false), BackTo::Savepoint { mark: 0 });
        assert_eq!(transaction.roll_back_to("s", true), BackTo::Unknown { mark: None });
        assert_eq!(transaction.roll_back_to("t", false), BackTo::Unknown { mark: None });
    }

    #[test]
    fn ahead_of_the_server_the_only_savepoint_of_a_name_is_meant() {
        let mut transaction = fresh();
        transaction.begin();
        transaction.savepoint("a");
        transaction.execute();
        transaction.savepoint("b");
        transaction.execute();
        let to = |mark| BackTo::Savepoint { mark };
        assert_eq!(transaction.roll_back_to("b", true), to(1));
        assert_eq!(transaction.roll_back_to("a", true), to(0));
        // The one that was undone may still be there.
        transaction.savepoint("b");
        assert_eq!(transaction.roll_back_to("b", true), BackTo::Unknown { mark: None });
        assert_eq!(transaction.roll_back_to("a", true), to(0));
        transaction.savepoint("a");
        assert_eq!(
            transaction.roll_back_to("a", true),
            BackTo::Unknown { mark: Some(transaction.statement()) }
        );
        transaction.ready(true);
        transaction.release("a");
        transaction.ready(true);
        assert_eq!(transaction.roll_back_to("a", true), to(0));
        transaction.forget_savepoints();
        transaction.savepoint("c");
        assert_eq!(transaction.roll_back_to("c", true), BackTo::Unknown { mark: None });
    }

    #[test]
    fn a_guard_stands_until_data_changes_or_its_savepoint_is_released() {
        let mut transaction = fresh();
        transaction.begin();
        transaction.execute();
        transaction.savepoint("PGJDBC_AUTOSAVE");
        assert_eq!(transaction.guard(), None);
        transaction.savepoint("a");
        assert_eq!(transaction.guard(), Some(1));
        transaction.execute();
        transaction.changed_data();
        assert_eq!(transaction.guard(), None);
        transaction.roll_back_to("a", false);
        assert_eq!(transaction.guard(), Some(2));
        transaction.release("a");
        assert_eq!(transaction.guard(), None);
    }

    #[test]
    fn the_server_overrides_the_model() {
        let mut transaction = fresh();
        transaction.begin();
        assert!(transaction.ready(false));
        assert_eq!(transaction.block(), Block::Idle);
        assert!(transaction.ready(true));
        assert_eq!(transaction.block(), Block::Explicit);
    }
}
