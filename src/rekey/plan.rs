//! How one INSERT or COPY feeds the protected keys of its table: a plain value, made once per statement.

use crate::catalog::model::{ColumnKind, DefaultKind, ForeignKey, IndexId, Table, TableId, UniqueKey};
use crate::sql::name::Ident;
use smallvec::SmallVec;
use std::sync::Arc;

/// The plan. Without `keys` and `references`: forward untouched.
#[derive(Clone, Debug)]
pub struct Plan {
    pub table: Arc<Table>,
    /// For each value of a row, in the order they are sent, the column it goes to (`Table::columns`).
    pub inputs: Vec<usize>,
    pub keys: Vec<KeyPlan>,
    /// Foreign keys to tables whose keys are protected.
    pub references: Vec<ReferencePlan>,
}

/// One foreign key, and a key of its parent that it names: all of it, or with further columns.
#[derive(Clone, Debug)]
pub struct ReferencePlan {
    /// Position in `Table::foreign_keys`.
    pub foreign: usize,
    pub parent: Arc<Table>,
    /// Position in the parent's `Table::keys`.
    pub key: usize,
    pub index: IndexId,
    /// For each column of the parent's key, in index order, the value that names it; `None` if it is left to a
    /// default.
    pub inputs: SmallVec<[Option<usize>; 2]>,
    /// Every value of the foreign key: if one is NULL, the row refers to nothing.
    pub columns: SmallVec<[usize; 2]>,
    /// The value that names the parent's rekeyed column.
    pub rekey: usize,
    /// The tuple is one `uuid` column.
    pub plain: bool,
    /// The row may come before its parent: the constraint is deferrable, or both are rows of one statement.
    pub may_come_first: bool,
}

/// One unique index whose whole tuple the statement supplies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// Position in `Table::keys`.
    pub key: usize,
    pub index: IndexId,
    pub parts: SmallVec<[Part; 2]>,
    /// The value that is overwritten in a twin (position in a row as sent).
    pub rekey: usize,
    /// The tuple is one `uuid` column, and its value is the key.
    pub plain: bool,
}

/// Where one column of the tuple comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Input(usize),
    /// Left out, and the default is the same for every row of the transaction.
    Stable,
}

/// Why a statement cannot be planned: Postgres will raise an error, or we have read it wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown column")]
pub struct UnknownColumn;

impl Plan {
    /// `columns` is the statement's column list (`None`: all, in order); `width` the number of values in a
    /// row, if it is known. `identity_ignored` is `OVERRIDING USER VALUE`. `parents` finds the tables that
    /// foreign keys name.
    ///
    /// # Errors
    /// [`UnknownColumn`] if the list names a column that the table does not have.
    pub fn new<'p>(
        table: &Arc<Table>,
        columns: Option<&[Ident]>,
        width: Option<usize>,
        identity_ignored: bool,
        parents: &impl Fn(TableId) -> Option<&'p Arc<Table>>,
    ) -> Result<Self, UnknownColumn> {
        let mut inputs = match columns {
            None => (0..table.columns.len()).collect(),
            Some(names) => names.iter().map(|name| position(table, name)).collect::<Result<Vec<_>, _>>()?,
        };
        if let Some(width) = width {
            inputs.truncate(width);
        }
        let mut plan = Self { table: Arc::clone(table), inputs, keys: Vec::new(), references: Vec::new() };
        plan.keys = (0..table.keys.len()).filter_map(|key| plan.key(key, identity_ignored)).collect();
        plan.references =
            (0..table.foreign_keys.len()).flat_map(|foreign| plan.reference(foreign, parents)).collect();
        Ok(plan)
    }

    /// The keys that this foreign key names: those over its columns, or some of them.
    fn reference<'p>(
        &self,
        foreign: usize,
        parents: &impl Fn(TableId) -> Option<&'p Arc<Table>>,
    ) -> Vec<ReferencePlan> {
        let Some(link) = self.table.foreign_keys.get(foreign) else { return Vec::new() };
        let Some((link, parent)) = named_table(link.clone(), parents) else { return Vec::new() };
        let omitted = link.columns.iter().filter(|&&column| self.input(column).is_none());
        if omitted.clone().any(|&column| self.default(column) == Some(DefaultKind::Null)) {
            return Vec::new();
        }
        let child = |column: &usize| {
            let at = link.parent_columns.iter().position(|candidate| candidate == column)?;
            link.columns.get(at).copied()
        };
        let plan = |(key, unique): (usize, &UniqueKey)| {
            let named = unique.columns.iter().map(child).collect::<Option<SmallVec<[usize; 2]>>>()?;
            let kind = parent.columns.get(unique.rekey)?.kind;
            Some(ReferencePlan {
                foreign,
                parent: Arc::clone(parent),
                key,
                index: unique.index,
                inputs: named.iter().map(|&column| self.input(column)).collect(),
                columns: link.columns.iter().filter_map(|&column| self.input(column)).collect(),
                rekey: self.input(child(&unique.rekey)?)?,
                plain: unique.columns.len() == 1 && kind == ColumnKind::Uuid,
                may_come_first: link.deferrable || parent.id == self.table.id,
            })
        };
        parent.keys.iter().enumerate().filter_map(plan).collect()
    }

    fn default(&self, column: usize) -> Option<DefaultKind> {
        Some(self.table.columns.get(column)?.default)
    }

    fn key(&self, at: usize, identity_ignored: bool) -> Option<KeyPlan> {
        let key = self.table.keys.get(at)?;
        let mut parts = SmallVec::new();
        for &column in &key.columns {
            parts.push(self.part(column, key.nulls_not_distinct, identity_ignored)?);
        }
        let rekey = self.input(key.rekey)?;
        let plain = key.columns.len() == 1 && self.table.columns.get(key.rekey)?.kind == ColumnKind::Uuid;
        Some(KeyPlan { key: at, index: key.index, parts, rekey, plain })
    }

    /// `None` if the column makes every row different.
    fn part(&self, at: usize, nulls_not_distinct: bool, identity_ignored: bool) -> Option<Part> {
        let column = self.table.columns.get(at)?;
        if column.generated || (column.identity && identity_ignored) {
            return None;
        }
        match (self.input(at), column.default) {
            (Some(input), _) => Some(Part::Input(input)),
            (None, DefaultKind::Stable) => Some(Part::Stable),
            (None, DefaultKind::Null) => nulls_not_distinct.then_some(Part::Stable),
            (None, DefaultKind::Volatile) => None,
        }
    }

    /// The position in a row of the value for a column; `None` if the statement leaves it out.
    #[must_use]
    pub fn input(&self, column: usize) -> Option<usize> {
        self.inputs.iter().position(|&candidate| candidate == column)
    }
}

/// A foreign key leads that far from table to table.
const LONGEST_CHAIN: usize = 8;

/// The table whose key a foreign key names in the end. Where the columns it names are a foreign key in their
/// turn (a table whose key is that of another, one to one), they are that other table's key: the row follows
/// the same parent as the row it names.
fn named_table<'p>(
    mut link: ForeignKey,
    parents: &impl Fn(TableId) -> Option<&'p Arc<Table>>,
) -> Option<(ForeignKey, &'p Arc<Table>)> {
    for _ in 0..LONGEST_CHAIN {
        let parent = parents(link.parent)?;
        let onward = |next: &&ForeignKey| {
            next.parent != parent.id
                && next.columns.len() == link.parent_columns.len()
                && next.columns.iter().all(|column| link.parent_columns.contains(column))
        };
        let Some(next) = parent.foreign_keys.iter().find(onward) else { return Some((link, parent)) };
        let own = |column: &usize| {
            let at = link.parent_columns.iter().position(|candidate| candidate == column)?;
            link.columns.get(at).copied()
        };
        let columns = next.columns.iter().map(own).collect::<Option<Vec<usize>>>()?;
        link = ForeignKey {
            columns,
            parent: next.parent,
            parent_columns: next.parent_columns.clone(),
            constraint: link.constraint,
            deferrable: link.deferrable || next.deferrable,
        };
    }
    None
}

fn position(table: &Table, name: &str) -> Result<usize, UnknownColumn> {
    table.columns.iter().position(|column| column.name == name).ok_or(UnknownColumn)
}
