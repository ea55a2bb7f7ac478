//! What is known of the session's search_path and temporary relations.

use super::tracked::Tracked;
use crate::catalog::resolve::{Path, Scope, Temporary};
use std::collections::HashSet;

/// The scope in which bare names are resolved, as SET and CREATE TEMP move it.
#[derive(Debug)]
pub struct SessionScope {
    path: Tracked<Path>,
    /// Something happened that may have made temporary relations we have not seen.
    temporary_unknown: bool,
    temporary: HashSet<String>,
}

impl Default for SessionScope {
    /// A new session: its path depends on settings of the role and the database, it has no temporary relations.
    fn default() -> Self {
        Self { path: Tracked::new(Path::Unknown), temporary_unknown: false, temporary: HashSet::new() }
    }
}

impl SessionScope {
    #[must_use]
    pub fn current(&self) -> Scope<'_> {
        Scope {
            path: self.path.current(),
            temporary: if self.temporary_unknown { Temporary::Unknown } else { Temporary::Known(&self.temporary) },
        }
    }

    /// Whether the session should be asked, once it is idle. `ambiguous` says that names exist in several
    /// schemas.
    #[must_use]
    pub fn should_ask(&self, ambiguous: bool) -> bool {
        self.temporary_unknown || ambiguous && matches!(self.path.current(), Path::Unknown)
    }

    /// `SET [LOCAL] search_path`; `None` is DEFAULT.
    pub fn set_path(&mut self, statement: u32, local: bool, schemas: Option<Vec<String>>) {
        // `"$user"` depends on the current role: the server will tell.
        let known = schemas.filter(|schemas| !schemas.iter().any(|schema| schema == "$user"));
        self.path.set(statement, local, Some(known.map_or(Path::Unknown, Path::Known)));
    }

    pub fn forget_path(&mut self, statement: u32) {
        self.path.set(statement, false, Some(Path::Unknown));
    }

    /// Anything may have happened.
    pub fn forget(&mut self, statement: u32) {
        self.forget_path(statement);
        self.temporary_unknown = true;
    }

    pub fn create_temporary(&mut self, name: &str) {
        self.temporary.insert(name.to_owned());
    }

    pub fn learn(&mut self, path: Path, temporary: HashSet<String>) {
        self.path.learn(path);
        self.temporary = temporary;
        self.temporary_unknown = false;
    }

    pub fn roll_back_to(&mut self, mark: u32) {
        self.path.roll_back_to(mark);
    }

    pub fn commit(&mut self) {
        self.path.commit();
    }

    pub fn roll_back(&mut self) {
        self.path.roll_back();
    }
}
