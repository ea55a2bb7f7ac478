//! What is known of the session's search_path and temporary relations.

use super::tracked::Tracked;
use crate::catalog::{Path, Scope, Temporary};
use std::collections::HashSet;

/// The scope in which bare names are resolved, as SET and CREATE TEMP move it.
#[derive(Debug)]
pub struct SessionScope {
    current: Scope,
    path: Tracked<Path>,
    /// Rises whenever a name may have come to mean another table.
    version: u64,
    /// Rises whenever there may be new temporary relations.
    creations: u64,
}

impl Default for SessionScope {
    /// A new session: its path depends on settings of the role and the database, it has no temporary relations.
    fn default() -> Self {
        let (path, temporary) = (Path::Unknown, Temporary::Known(HashSet::new()));
        let current = Scope { path, temporary, closed: None };
        Self { current, path: Tracked::new(Path::Unknown), version: 0, creations: 0 }
    }
}

impl SessionScope {
    #[must_use]
    pub fn current(&self) -> &Scope {
        &self.current
    }

    /// Rises whenever a name may have come to mean another table.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Rises whenever there may be new temporary relations.
    #[must_use]
    pub fn creations(&self) -> u64 {
        self.creations
    }

    /// Whether the session should be asked, once it is idle. `homonyms` says that some names exist in
    /// several schemas.
    #[must_use]
    pub fn should_ask(&self, homonyms: bool) -> bool {
        self.current.temporary == Temporary::Unknown || homonyms && self.current.path == Path::Unknown
    }

    /// `SET [LOCAL] search_path`; `None` is DEFAULT.
    pub fn set_path(&mut self, statement: u32, local: bool, schemas: Option<Vec<String>>) {
        // `"$user"` depends on the current role: the server will tell.
        let known = schemas.filter(|schemas| !schemas.iter().any(|schema| schema == "$user"));
        // So does which schemas may be used.
        let known = known.zip(self.current.closed.as_ref()).map(|(mut schemas, closed)| {
            schemas.retain(|schema| !closed.contains(schema));
            Path::Known(schemas)
        });
        self.change(|path| path.set(statement, local, Some(known.unwrap_or(Path::Unknown))));
    }

    /// Another role: other schemas may be used, `"$user"` is another one.
    pub fn change_role(&mut self, statement: u32) {
        self.current.closed = None;
        self.forget_path(statement);
    }

    pub fn forget_path(&mut self, statement: u32) {
        self.change(|path| path.set(statement, false, Some(Path::Unknown)));
    }

    /// Anything may have happened.
    pub fn forget(&mut self, statement: u32) {
        self.change_role(statement);
        self.current.temporary = Temporary::Unknown;
        self.version += 1;
        self.creations += 1;
    }

    /// Some changes did not happen, nor does anybody know which transaction they belonged to.
    pub fn doubt(&mut self) {
        self.path.learn(Path::Unknown);
        self.current = Scope::unknown();
        self.version += 1;
    }

    /// The path may have come to lead elsewhere; outside a transaction.
    pub fn ask_again(&mut self) {
        self.path.learn(Path::Unknown);
        self.current.path = Path::Unknown;
        self.current.closed = None;
        self.version += 1;
    }

    /// The same scope in which nothing is known of the path.
    #[must_use]
    pub fn without_path(&self) -> Scope {
        Scope { path: Path::Unknown, ..self.current.clone() }
    }

    /// Temporary relations may be gone.
    pub fn forget_temporary(&mut self) {
        if !matches!(&self.current.temporary, Temporary::Known(names) if names.is_empty()) {
            self.current.temporary = Temporary::Unknown;
            self.version += 1;
        }
    }

    pub fn create_temporary(&mut self, name: &str) {
        self.creations += 1;
        if let Temporary::Known(names) = &mut self.current.temporary {
            names.insert(name.to_owned());
            self.version += 1;
        }
    }

    /// The server has told, outside a transaction.
    pub fn learn(&mut self, scope: Scope) {
        self.path.learn(scope.path.clone());
        self.current = scope;
        self.version += 1;
    }

    /// Whether the current transaction has changed the path.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.path.is_changed()
    }

    /// Some of the transaction's changes of the path may have been undone.
    pub fn forget_changes(&mut self, statement: u32) {
        if self.path.is_changed() {
            self.forget_path(statement);
        }
    }

    pub fn roll_back_to(&mut self, mark: u32) {
        self.change(|path| path.roll_back_to(mark));
    }

    pub fn commit(&mut self) {
        self.change(Tracked::commit);
    }

    pub fn roll_back(&mut self) {
        self.change(Tracked::roll_back);
        self.forget_temporary();
    }

    fn change(&mut self, change: impl FnOnce(&mut Tracked<Path>)) {
        change(&mut self.path);
        if self.current.path != *self.path.current() {
            self.current.path = self.path.current().clone();
            self.version += 1;
        }
    }
}
