//! What a statement does to the transaction, the window and the scope once it is run. The data it carries
//! has been looked at before (see `inspect`).

use super::Session;
use super::called::may_deallocate;
use super::inspect::Resolved;
use super::pipeline::Effect;
use super::transaction::BackTo;
use crate::catalog::Resolution;
use crate::catalog::model::{Table, TableId};
use crate::sql::insert::{Conflict, Insert};
use crate::sql::name::Name;
use crate::sql::statement::Statement;
use std::ops::Range;

/// Settings that move what a value of the same spelling means, or which triggers fire.
const VALUE_SETTINGS: &[&str] = &[
    "timezone",
    "datestyle",
    "intervalstyle",
    "session_replication_role",
    "lc_monetary",
    "timezone_abbreviations",
    "array_nulls",
    "client_encoding",
    "standard_conforming_strings",
    "xmloption",
    "bytea_output",
];

impl Session {
    /// Runs a statement given by its text.
    pub(super) fn after(
        &mut self,
        statement: &Statement,
        text: &[u8],
        range: Range<usize>,
        ordinal: u32,
    ) -> Effect {
        let options = self.options();
        let effect = self.apply(statement, ordinal);
        if *statement == Statement::Opaque && may_deallocate(text.get(range.clone()).unwrap_or_default()) {
            self.statements.close_all(self.message);
        }
        if needs_calls(statement) {
            let called = self.mentioned(text, range, options);
            self.called(&called, ordinal);
        }
        effect
    }

    /// Runs a statement, calls aside.
    pub(super) fn apply(&mut self, statement: &Statement, ordinal: u32) -> Effect {
        if self.failed_block && !ends_failure(statement) {
            return Effect::None;
        }
        self.covers_kind(statement);
        if changes_data(statement) {
            self.transaction.changed_data();
        }
        self.move_names(&statement.targets(), ordinal);
        match statement {
            Statement::Empty | Statement::Harmless | Statement::Select | Statement::Prepare { .. } => {}
            Statement::Begin => self.transaction.begin(),
            Statement::Commit { chain } => return self.end_transaction(true, *chain, Effect::Commit),
            Statement::Rollback { chain } => return self.end_transaction(false, *chain, Effect::Rollback),
            Statement::PrepareTransaction => {
                return self.end_transaction(true, false, Effect::PrepareTransaction);
            }
            Statement::Savepoint(name) => {
                self.moved.savepoints = self.message;
                self.transaction.savepoint(name);
                return Effect::Savepoint(name.clone());
            }
            Statement::Release(name) => {
                self.moved.savepoints = self.message;
                self.transaction.release(name);
                return Effect::Release(name.clone());
            }
            Statement::RollbackTo(name) => return self.roll_back_to(name),
            Statement::Insert(inserts) => self.inserted(inserts),
            Statement::Mixed { inserts, .. } => {
                self.inserted(inserts);
                self.freed_within(statement);
            }
            Statement::CopyIn(_) => {}
            Statement::CopyOther { into } => {
                if let Some(table) = into {
                    self.changed(table, |table| table.insert_frees, |_| &[]);
                }
            }
            Statement::Delete(table) => self.deleted(table),
            Statement::Update { table, columns } => self.updated(table, columns),
            Statement::Merge(table) => self.merged(table),
            Statement::Truncate { tables, .. } => {
                // Without CASCADE Postgres refuses where it would reach another table, partitions aside.
                for table in tables {
                    self.changed(table, |table| table.truncate_frees, |table| &table.truncate_reaches);
                }
            }
            Statement::Execute { .. } | Statement::Opaque | Statement::Unknown => self.opaque(),
            Statement::Explain { analyze, .. } => {
                if *analyze {
                    self.opaque();
                }
            }
            Statement::Deallocate(name) => self.statements.set(name.as_bytes(), self.message, None),
            Statement::DeallocateAll => self.statements.close_all(self.message),
            Statement::Set { local, name, values } => self.set(*local, name, values.as_deref(), ordinal),
            Statement::ResetAll => self.reset_all(ordinal),
            Statement::SetRole => self.scope.change_role(ordinal),
            Statement::DiscardAll => {
                self.statements.close_all(self.message);
                self.reset_all(ordinal);
                self.scope.forget(ordinal);
            }
            Statement::DiscardOther => self.scope.forget(ordinal),
            Statement::CreateRelation { name, temporary } => self.created(name, *temporary),
            Statement::Ddl => self.schema_changed(ordinal),
            Statement::Fetch | Statement::SetConstraints => self.window.clear(),
        }
        Effect::None
    }

    /// What is called by the tables that a statement changes may give names another meaning.
    pub(super) fn move_names(&mut self, targets: &[&Name], ordinal: u32) {
        let moves = |name: &&Name| match self.resolve(name) {
            Resolved::Table(table) => table.moves_names,
            Resolved::New | Resolved::Unknown(_) => false,
        };
        if targets.iter().any(moves) {
            self.scope.forget(ordinal);
        }
    }

    /// What a statement with INSERTs frees besides: its parts run in an order of the server's choice, so this
    /// counts both before and after its INSERTs.
    pub(super) fn freed_within(&mut self, statement: &Statement) {
        if let Statement::Mixed { deletes, updates, merges, .. } = statement {
            deletes.iter().for_each(|table| self.deleted(table));
            updates.iter().for_each(|(table, columns)| self.updated(table, columns));
            merges.iter().for_each(|table| self.merged(table));
        }
    }

    fn end_transaction(&mut self, commit: bool, chain: bool, effect: Effect) -> Effect {
        let committed = commit && !self.failed_block;
        self.transaction.end(chain);
        self.forget_transaction(committed);
        effect
    }

    fn roll_back_to(&mut self, name: &str) -> Effect {
        let blind = self.pipeline.earlier_group_is_due();
        self.failed_block = false;
        self.moved.savepoints = self.message;
        match self.transaction.roll_back_to(name, blind) {
            BackTo::Savepoint { mark } => {
                self.window.roll_back_to(mark);
                self.references.roll_back_to(mark);
                self.mode.roll_back_to(mark);
                self.scope.roll_back_to(mark);
                self.literals.roll_back_to(mark);
            }
            BackTo::Unknown { mark } => {
                let statement = self.transaction.statement();
                self.window.clear();
                if let Some(mark) = mark {
                    self.references.roll_back_to(mark);
                }
                self.scope.forget_changes(statement);
                self.literals.forget_changes(statement);
            }
        }
        Effect::RollbackTo(name.to_owned())
    }

    /// Anything may have happened to keys and names.
    pub(super) fn opaque(&mut self) {
        self.read_anew();
        self.transaction.changed_data();
        self.scope.forget(self.transaction.statement());
        self.literals.forget(self.transaction.statement());
        self.schema.distrust();
        self.epoch += 1;
    }

    fn inserted(&mut self, inserts: &[Insert]) {
        for insert in inserts {
            self.with(&insert.table, |session, table| {
                if table.insert_frees {
                    session.window.clear();
                }
                if let Some(Conflict::Update(columns)) = &insert.conflict {
                    session.updated_known(table, columns);
                }
            });
        }
    }

    fn deleted(&mut self, table: &Name) {
        self.changed(table, |table| table.delete_frees, |table| &table.delete_reaches);
    }

    fn merged(&mut self, table: &Name) {
        self.changed(
            table,
            |table| table.delete_frees || table.insert_frees || table.update_frees,
            |table| &table.delete_reaches,
        );
        self.changed(table, |_| false, |table| &table.update_reaches);
    }

    fn updated(&mut self, table: &Name, columns: &[String]) {
        self.with(table, |session, table| session.updated_known(table, columns));
    }

    fn updated_known(&mut self, table: &Table, columns: &[String]) {
        if table.update_frees {
            return self.window.clear();
        }
        if table.update_moves.with(columns) {
            self.free(&table.update_reaches);
        } else {
            // A column that is in no key here may be referred to, and change in the children's keys with it.
            let others = table.update_reaches.iter().filter(|&&id| !self.is_same(id, table));
            let others: Vec<TableId> = others.copied().collect();
            self.free(&others);
        }
    }

    fn changed(
        &mut self,
        table: &Name,
        frees: impl Fn(&Table) -> bool,
        reaches: impl Fn(&Table) -> &[TableId],
    ) {
        self.with(table, |session, table| {
            if frees(table) {
                session.window.clear();
            } else {
                session.free(reaches(table));
            }
        });
    }

    /// Rows of these tables may be gone.
    fn free(&mut self, tables: &[TableId]) {
        let Some(catalog) = self.catalog.clone() else { return self.window.clear() };
        for &id in tables {
            let Some(table) = catalog.table(id) else { return self.window.clear() };
            if table.delete_frees {
                return self.window.clear();
            }
            table.knowable_keys().for_each(|key| self.window.clear_index(key.index));
        }
    }

    /// Does what a statement does to the table of this name. A table that was made since the snapshot, or is
    /// temporary, holds no keys we know and has no trigger; if it is not certain which table is meant, any
    /// key may be gone.
    fn with(&mut self, name: &Name, act: impl FnOnce(&mut Self, &Table)) {
        if self.window.is_empty() {
            return;
        }
        match self.resolve(name) {
            Resolved::Table(table) => act(self, &table),
            Resolved::New => {}
            Resolved::Unknown(_) => self.window.clear(),
        }
    }

    /// Values may mean others than before, also those that were read for portals which are not yet executed.
    pub(super) fn read_anew(&mut self) {
        self.window.clear();
        self.portals.forget_claims();
        self.readings.settings += 1;
    }

    fn set(&mut self, local: bool, name: &str, values: Option<&[String]>, ordinal: u32) {
        if VALUE_SETTINGS.contains(&name) {
            self.read_anew();
        }
        if name == "search_path" {
            self.moved.scope = self.message;
            self.readings.settings += 1;
            self.scope.set_path(ordinal, local, values.map(<[String]>::to_vec));
        } else if name == "untwin.mode" {
            self.moved.mode = self.message;
            let asked = values.and_then(|values| values.first());
            let known = asked.map(|value| value.parse().ok());
            if known == Some(None) {
                self.warn_of_mode();
            }
            let asked = known.flatten();
            self.mode.set(ordinal, local, values.map(|_| asked));
        } else if self.literals.set(
            ordinal,
            local,
            name,
            values.and_then(|values| values.first()).map(String::as_str),
        ) {
            // Its value holds from here on.
        } else if name == "role" || name == "session_authorization" {
            self.scope.change_role(ordinal);
        }
    }

    fn reset_all(&mut self, ordinal: u32) {
        self.read_anew();
        self.moved.mode = self.message;
        self.scope.forget_path(ordinal);
        self.mode.set(ordinal, false, None);
        self.literals.forget(ordinal);
    }

    fn created(&mut self, name: &Name, temporary: bool) {
        if temporary || name.schema.as_deref() == Some("pg_temp") {
            self.moved.scope = self.message;
            self.scope.create_temporary(&name.name);
        } else {
            // A new table may stand in front of an older one of the same name.
            self.schema.reload = true;
            self.schema.told = false;
            self.schema.distrusted |= self.bears_name(&name.name);
            self.epoch += 1;
        }
    }

    fn bears_name(&self, name: &str) -> bool {
        let name = Name { schema: None, name: name.to_owned() };
        let Some(catalog) = &self.catalog else { return true };
        !matches!(catalog.resolve(&name, self.scope.current()), Resolution::NotFound)
    }

    fn schema_changed(&mut self, ordinal: u32) {
        self.window.clear();
        self.scope.forget(ordinal);
        self.schema.distrust();
        self.epoch += 1;
    }
}

/// Statements in which a call can happen, and whose calls are not part of what they do anyway.
fn needs_calls(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Empty
            | Statement::Begin
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint(_)
            | Statement::Release(_)
            | Statement::RollbackTo(_)
            | Statement::Set { .. }
            | Statement::Prepare { .. }
            | Statement::CopyIn(_)
            | Statement::Unknown
            | Statement::Ddl
    )
}

/// Whether a guard (see `transaction`) ends with the statement.
fn changes_data(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Insert(_)
            | Statement::Mixed { .. }
            | Statement::CopyOther { into: Some(_) }
            | Statement::Delete(_)
            | Statement::Update { .. }
            | Statement::Merge(_)
            | Statement::Truncate { .. }
            | Statement::Ddl
    )
}

/// What has an effect in a block that has failed.
fn ends_failure(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::RollbackTo(_)
            | Statement::PrepareTransaction
    )
}
