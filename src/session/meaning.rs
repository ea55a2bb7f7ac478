//! Whether a prepared statement is still about the tables that it was prepared for. Knows no row.

use super::Session;
use super::inspect::Resolved;
use super::prepared::{Meaning, Prepared};
use crate::catalog::Catalog;
use crate::sql::name::Name;
use crate::sql::statement::Statement;
use std::sync::Arc;

impl Session {
    /// What the names of the tables that a statement changes mean now.
    pub(super) fn meaning(&self, statement: &Statement) -> Meaning {
        let table = |name: &&Name| match self.resolve(name) {
            Resolved::Table(table) => Some(table.id),
            Resolved::New | Resolved::Unknown(_) => None,
        };
        let tables = statement.targets().iter().map(table).collect();
        Meaning { tables, at: (self.epoch, self.scope.creations()) }
    }

    /// Whether a prepared statement changes the tables that its names mean now. The server looks names up again
    /// when the path has changed, or a table that the statement knows; but not when another of the name is made
    /// in front of that.
    pub(super) fn means_the_same(&self, prepared: &Prepared) -> bool {
        let before = &prepared.meant;
        if before.at == (self.epoch, self.scope.creations()) {
            return true;
        }
        let is_certain = |name: &Name| {
            // A name that no table bears is that of none whose keys are known.
            let one = |catalog: &Arc<Catalog>| {
                !catalog.bears(&name.name) || catalog.is_borne_once(&name.name, self.scope.current())
            };
            name.schema.is_some() || self.catalog.as_ref().is_some_and(one)
        };
        let now = self.meaning(&prepared.statement).tables;
        let targets = prepared.statement.targets();
        let mut pairs = targets.iter().zip(before.tables.iter().zip(&now));
        pairs.all(|(name, (before, now))| is_certain(name) || before.is_some() && before == now)
    }
}
