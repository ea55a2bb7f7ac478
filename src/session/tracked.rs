//! One run-time setting as SET, SET LOCAL, RESET, commit and rollback move it (Postgres manual, SET).

/// The value of a setting, with the changes of the current transaction.
#[derive(Clone, Debug)]
pub struct Tracked<T> {
    /// What RESET and DEFAULT give.
    initial: T,
    /// Before the current transaction.
    committed: T,
    changes: Vec<Change<T>>,
}

#[derive(Clone, Debug)]
struct Change<T> {
    /// Ordinal of the statement in its transaction.
    statement: u32,
    local: bool,
    value: T,
}

impl<T: Clone> Tracked<T> {
    pub fn new(initial: T) -> Self {
        Self { committed: initial.clone(), initial, changes: Vec::new() }
    }

    #[must_use]
    pub fn current(&self) -> &T {
        self.changes.last().map_or(&self.committed, |change| &change.value)
    }

    /// The value before the current transaction.
    #[must_use]
    pub fn committed(&self) -> &T {
        &self.committed
    }

    /// SET, SET LOCAL; RESET and SET … TO DEFAULT with no value.
    pub fn set(&mut self, statement: u32, local: bool, value: Option<T>) {
        let value = value.unwrap_or_else(|| self.initial.clone());
        self.changes.push(Change { statement, local, value });
    }

    pub fn roll_back_to(&mut self, mark: u32) {
        while self.changes.pop_if(|change| change.statement > mark).is_some() {}
    }

    pub fn commit(&mut self) {
        if let Some(change) = self.changes.drain(..).rfind(|change| !change.local) {
            self.committed = change.value;
        }
    }

    pub fn roll_back(&mut self) {
        self.changes.clear();
    }

    /// The server has told the value, outside a transaction.
    pub fn learn(&mut self, value: T) {
        self.changes.clear();
        self.committed = value;
    }

    /// Whether the current transaction has changed it.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Tracked;

    #[test]
    fn local_ends_with_the_transaction_and_the_last_set_stays() {
        let mut setting = Tracked::new("default");
        setting.set(1, false, Some("session"));
        setting.set(2, true, Some("local"));
        assert_eq!(*setting.current(), "local");
        setting.commit();
        assert_eq!(*setting.current(), "session");
        setting.set(1, false, None);
        assert_eq!(*setting.current(), "default");
        setting.roll_back();
        assert_eq!(*setting.current(), "session");
    }

    #[test]
    fn going_back_to_a_savepoint_undoes_what_was_set_after_it() {
        let mut setting = Tracked::new(0);
        setting.set(1, false, Some(1));
        setting.set(3, true, Some(2));
        setting.roll_back_to(2);
        assert_eq!(*setting.current(), 1);
        setting.commit();
        assert_eq!(*setting.current(), 1);
    }
}
