//! The model: plain values that the planner reads. How they are learned is `load`'s business.

use std::sync::Arc;

/// Identifies the set of keys two rows may clash in: one unique index, shared by a partitioned
/// table's parent and all of its partitions. (The oid of the topmost index.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// A table's oid in `pg_class`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// What a relation is, as far as rows can be put into it (`pg_class.relkind`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelationKind {
    /// A table that holds rows, perhaps a partition.
    #[default]
    Table,
    /// A partitioned table: its rows are in its partitions.
    Partitioned,
    /// A view.
    View,
    /// A materialized view: no statement of the client's changes its rows.
    MaterializedView,
    /// A table of another server.
    ForeignTable,
}

/// A table, partitioned table, view, foreign table or materialized view.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its oid.
    pub id: TableId,
    /// What it is.
    pub kind: RelationKind,
    /// Names as `pg_class` has them (unquoted, case kept).
    pub schema: String,
    /// The bare name.
    pub name: String,
    /// Schema-qualified and quoted where needed, as `regclass` prints it with an empty search_path.
    pub display: String,
    /// In `attnum` order, dropped columns left out: the order of an INSERT without a column list.
    /// Empty for a table that has no UUID key and no foreign key to a table with one: such a table is
    /// known for its name, its triggers and what its cascades reach.
    pub columns: Vec<Column>,
    /// The protected keys. Empty: nothing to do for this table.
    pub keys: Vec<UniqueKey>,
    /// UUID keys that are not protected, each with the reason why.
    pub unprotected: Vec<UnprotectedKey>,
    /// Those whose parent has a UUID key, protected or not.
    pub foreign_keys: Vec<ForeignKey>,
    /// A foreign key of some table names this one (or its partition tree).
    pub referenced: bool,
    /// An INSERT into the table may free keys through a trigger function (any trigger of INSERT,
    /// row or statement level, before or after), so that the windows must be cleared after it.
    pub insert_frees: bool,
    /// The same for UPDATE, DELETE and TRUNCATE triggers, those of the tables reached included.
    pub update_frees: bool,
    /// See `update_frees`.
    pub delete_frees: bool,
    /// See `update_frees`.
    pub truncate_frees: bool,
    /// A trigger or an expression of the table, or of one that its statements reach, may give names another meaning
    /// (`search_path`, role, temporary tables).
    pub moves_names: bool,
    /// The user's triggers that could free keys: its own, and those FOR EACH ROW of its whole partition tree.
    pub freeing_triggers: Vec<FreeingTrigger>,
    /// Tables whose rows a DELETE here may delete or change (ON DELETE CASCADE, SET NULL, SET DEFAULT,
    /// transitively; inheritance children and whole partition trees included; of a view, the tables it
    /// stands on), itself too. Sorted. Shared by the members of a partition tree.
    pub delete_reaches: Arc<[TableId]>,
    /// The same for UPDATE of a key (ON UPDATE CASCADE …), itself too.
    pub update_reaches: Arc<[TableId]>,
    /// Which columns an UPDATE must set to move a key in one of those.
    pub update_moves: Moves,
    /// The same for TRUNCATE … CASCADE (every table with a foreign key here, transitively), itself too.
    pub truncate_reaches: Arc<[TableId]>,
}

/// The columns of which one must be set for a key to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Whatever is set.
    Any,
    /// By name.
    Columns(Arc<[Box<str>]>),
}

impl Default for Moves {
    fn default() -> Self {
        Self::Columns(Arc::default())
    }
}

impl Moves {
    /// Whether to set these columns may move a key. None: they are not known.
    #[must_use]
    pub fn with(&self, columns: &[String]) -> bool {
        match self {
            Self::Any => true,
            Self::Columns(names) => {
                columns.is_empty() || names.iter().any(|name| columns.iter().any(|set| **set == **name))
            }
        }
    }
}

impl Table {
    /// The keys whose tuples can be told from what a client sends, protected or not: one that is not protected
    /// here may be protected under the name of a view.
    pub fn knowable_keys(&self) -> impl Iterator<Item = &UniqueKey> {
        self.keys.iter().chain(self.unprotected.iter().filter_map(|key| key.key.as_ref()))
    }
}

/// A trigger function that could free keys, and when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeingTrigger {
    /// Its name, schema-qualified and quoted where needed.
    pub function: String,
    /// It runs on INSERT.
    pub on_insert: bool,
    /// It runs on UPDATE.
    pub on_update: bool,
    /// It runs on DELETE.
    pub on_delete: bool,
}

/// A column that is not dropped.
#[derive(Clone, Debug)]
pub struct Column {
    /// As `pg_attribute` has it.
    pub name: String,
    /// How its values are compared.
    pub kind: ColumnKind,
    /// What a row gets when the INSERT leaves the column out.
    pub default: DefaultKind,
    /// `GENERATED ALWAYS AS (…) STORED` or virtual: cannot be inserted.
    pub generated: bool,
    /// Type or name marks a value that differs between two deliveries of one fact (identity columns,
    /// timestamps whose default is the clock …). Names are judged by the policy, not here.
    pub identity: bool,
    /// The name of the type as `format_type` prints it, for messages.
    pub type_name: Arc<str>,
}

/// How a column's values are compared. Domains are judged by their base type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// `uuid`: by value.
    Uuid,
    /// `text`, `varchar` with the deterministic collation: exact bytes.
    Text,
    /// `char(n)`: exact bytes, trailing spaces aside.
    Char,
    /// `citext`: without case.
    Citext,
    /// Compared by bytes, in the same format only.
    Other,
    /// Likewise, but what a text means depends on settings and on when it is read: dates, times, money, arrays.
    BySettings,
    /// Likewise, but what a text means depends on more than can be followed (`regclass`, composite types): texts
    /// are never held for equal.
    ByName,
}

impl ColumnKind {
    /// Whether a value of this kind can be a UUID key.
    #[must_use]
    pub fn can_hold_key(self) -> bool {
        matches!(self, Self::Uuid | Self::Text | Self::Char | Self::Citext)
    }

    /// The kind as far as the form of a value goes.
    #[must_use]
    pub fn form(self) -> Self {
        if self.can_hold_key() { self } else { Self::Other }
    }
}

/// What a column's default gives to the rows of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultKind {
    /// No default: NULL.
    Null,
    /// The same for every row of a transaction (`now()`, a constant).
    Stable,
    /// Different for every row (`nextval`, `gen_random_uuid()`, identity).
    Volatile,
}

/// A unique index, as far as twins are concerned.
#[derive(Clone, Debug)]
pub struct UniqueKey {
    /// Whose window its tuples are claimed in.
    pub index: IndexId,
    /// The name Postgres' 23505 would give: the constraint's or index's own.
    pub constraint: String,
    /// Positions in `Table::columns`, in index order (INCLUDE columns left out).
    pub columns: Vec<usize>,
    /// Position in `Table::columns` of the column that is rekeyed: the last column of the tuple that
    /// is not a foreign key and of type `uuid`, or else of a type that can hold a UUID as text.
    pub rekey: usize,
    /// NULL equals NULL.
    pub nulls_not_distinct: bool,
}

/// A UUID key that is left alone.
#[derive(Clone, Debug)]
pub struct UnprotectedKey {
    /// The constraint's or index's name; empty for a foreign table.
    pub constraint: String,
    /// The column that would be rekeyed.
    pub column: String,
    /// Why.
    pub reason: Unprotected,
    /// What is protected if the configuration names the table; `None` where nothing can be, since the
    /// tuple of a row cannot be told from what the client sends.
    pub key: Option<UniqueKey>,
}

/// Why a UUID key is left alone unless the configuration names its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// A BEFORE ROW INSERT trigger may skip or move the row, or change the key.
    BeforeTrigger,
    /// A default, a CHECK, an index or a policy calls a function that could free keys between two rows.
    FreeingExpression,
    /// A view whose INSTEAD OF trigger decides what is stored.
    InsteadOfTrigger,
    /// A rule rewrites INSERTs.
    InsertRule,
    /// The constraint may be checked later than at once.
    Deferrable,
    /// The index has a WHERE.
    Partial,
    /// The index has an expression or a generated column.
    Expression,
    /// The index is not valid (yet).
    Invalid,
    /// Every UUID column of the key is a foreign key.
    ForeignKey,
    /// It is a view's.
    View,
    /// It is a foreign table's.
    ForeignTable,
    /// The collation is not deterministic (or the operator class not the type's own): equality is not
    /// that of bytes.
    Collation,
}

/// A foreign key whose parent has a UUID key.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// The constraint's name.
    pub constraint: String,
    /// Positions in the child's `Table::columns`.
    pub columns: Vec<usize>,
    /// The table referred to.
    pub parent: TableId,
    /// Positions in the parent's `Table::columns`, pairwise with `columns`.
    pub parent_columns: Vec<usize>,
    /// It may be checked later than at once: a child may come before its parent.
    pub deferrable: bool,
}
