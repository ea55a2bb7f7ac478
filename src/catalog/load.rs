//! From the answer to `load.sql` to a [`Catalog`]. It puts the parts together; each part's judgement is
//! in its own module.

use super::families::{Families, top};
use super::frees::{Frees, Functions};
use super::keys::{Surroundings, judge};
use super::model::{
    Column, ColumnKind, DefaultKind, ForeignKey, IndexId, RelationKind, Table, TableId, UniqueKey,
    Unprotected, UnprotectedKey,
};
use super::raw::{self, Document};
use super::reach::{Event, Reach};
use super::reasons::Quoting;
use super::snapshot::Catalog;
use super::trigger::{Body, bits};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The statement that reads all that [`parse`] wants: one row, one text column. It has no parameters
/// and takes no locks on users' tables; it may be sent as a simple Query or as a Parse, in any session.
pub const STATEMENT: &str = include_str!("load.sql");

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither JSON nor hexadecimal digits.
    #[error("the answer to a catalog query is neither JSON nor hexadecimal text")]
    Encoding,
    /// Not the document that the query builds.
    #[error("the answer to a catalog query is not of the form expected: {0}")]
    Json(#[from] serde_json::Error),
}

/// Reads the answer to [`STATEMENT`]. `version` becomes the snapshot's own.
///
/// # Errors
/// The text is not such an answer. What it says of relations that it does not list (temporary ones)
/// is left out without an error.
pub fn parse(json: &str, version: u64) -> Result<Catalog, Error> {
    let mut document: Document = raw::read(json)?;
    let families = Families::new(&document.inherits);
    let mut functions = Functions::new(&mut document);
    let frees = Frees::new(&document, &mut functions, &families);
    let mut tables = Tables::new(&document, &families, &functions).build();
    let keyed_parents: HashSet<TableId> = tables
        .iter()
        .filter(|table| has_uuid_key(table))
        .map(|table| table.id)
        .collect();
    let mut reach = Reach::new(&document, &families);
    let mut effects = HashMap::new();
    for table in &mut tables {
        table
            .foreign_keys
            .retain(|key| keyed_parents.contains(&key.parent));
        table.insert_frees = frees.insert.contains(&table.id.0);
        let root = families.root(table.id.0);
        effects
            .entry(root)
            .or_insert_with(|| Effects::new(root, &families, &mut reach, &frees))
            .apply(table);
    }
    Ok(Catalog::new(version, tables, &document))
}

fn has_uuid_key(table: &Table) -> bool {
    !table.keys.is_empty() || !table.unprotected.is_empty()
}

/// What statements on a partition tree reach, the same for all of its members.
struct Effects {
    delete: (Arc<[TableId]>, bool),
    update: (Arc<[TableId]>, bool),
    truncate: (Arc<[TableId]>, bool),
}

impl Effects {
    fn new(root: u32, families: &Families, reach: &mut Reach, frees: &Frees) -> Self {
        let own = families.members(root);
        let [delete, update, truncate] =
            [Event::Delete, Event::Update, Event::Truncate].map(|event| reach.tables(root, event));
        Self {
            delete: (Arc::clone(&delete), frees.by_delete(&delete, &own)),
            update: (Arc::clone(&update), frees.by_update(&update, &own)),
            truncate: (Arc::clone(&truncate), frees.by_truncate(&truncate)),
        }
    }

    fn apply(&self, table: &mut Table) {
        (table.delete_reaches, table.delete_frees) = self.delete.clone();
        (table.update_reaches, table.update_frees) = self.update.clone();
        (table.truncate_reaches, table.truncate_frees) = self.truncate.clone();
    }
}

/// The document, indexed by table.
struct Tables<'a> {
    document: &'a Document,
    families: &'a Families,
    schemas: HashMap<u32, &'a str>,
    quoting: Quoting<'a>,
    types: HashMap<(u32, i32), (Arc<str>, ColumnKind)>,
    defaults: HashMap<(u32, i16), DefaultKind>,
    columns: HashMap<u32, &'a [raw::Column]>,
    indexes: HashMap<u32, Vec<&'a raw::Index>>,
    index_parents: HashMap<u32, u32>,
    foreign_keys: HashMap<u32, Vec<&'a raw::ForeignKey>>,
    /// By root: names of columns that are foreign keys.
    foreign: HashMap<u32, HashSet<&'a str>>,
    /// By root: BEFORE ROW INSERT triggers.
    before: HashMap<u32, Vec<Option<&'a Body>>>,
    insert_rules: HashSet<u32>,
    instead: HashSet<u32>,
    views: HashMap<u32, View<'a>>,
    referenced: HashSet<u32>,
}

/// A view of one table: which of its columns is which of the table's.
struct View<'a> {
    table: u32,
    origins: &'a [(i16, i16)],
}

impl<'a> Tables<'a> {
    fn new(document: &'a Document, families: &'a Families, functions: &'a Functions) -> Self {
        let columns: HashMap<u32, &[raw::Column]> = document
            .columns
            .iter()
            .map(|(table, columns)| (*table, columns.as_slice()))
            .collect();
        let before = document.triggers.iter().filter(|(_, kind, _)| {
            let before_row_insert = bits::ROW | bits::BEFORE | bits::INSERT;
            kind & before_row_insert == before_row_insert
        });
        let instead = document
            .triggers
            .iter()
            .filter(|(_, kind, _)| kind & bits::INSTEAD != 0);
        let insert_rules = document.rules.iter().filter(|(_, event)| *event == '3');
        Self {
            document,
            families,
            schemas: document
                .schemas
                .iter()
                .map(|(oid, name)| (*oid, name.as_str()))
                .collect(),
            quoting: Quoting::new(&document.keywords),
            types: types(document),
            defaults: document
                .defaults
                .iter()
                .map(|(owner, part, kind)| ((*owner, *part), default(*kind)))
                .collect(),
            foreign: foreign_columns(document, families, &columns),
            columns,
            indexes: grouped(document.indexes.iter().map(|index| (index.table, index))),
            index_parents: document
                .indexes
                .iter()
                .filter_map(|index| Some((index.oid, index.parent?)))
                .collect(),
            foreign_keys: grouped(document.foreign_keys.iter().map(|key| (key.child, key))),
            before: grouped(
                before.map(|(table, _, oid)| (families.root(*table), functions.harmless(*oid))),
            ),
            insert_rules: insert_rules.map(|(table, _)| *table).collect(),
            instead: instead.map(|(table, ..)| *table).collect(),
            views: document
                .view_columns
                .iter()
                .map(|(view, table, origins)| {
                    (
                        *view,
                        View {
                            table: *table,
                            origins,
                        },
                    )
                })
                .collect(),
            referenced: document
                .foreign_keys
                .iter()
                .map(|key| families.root(key.parent))
                .collect(),
        }
    }

    fn build(&self) -> Vec<Table> {
        self.document
            .relations
            .iter()
            .map(|(oid, schema, name, kind)| self.table(*oid, *schema, name, *kind))
            .collect()
    }

    fn table(&self, oid: u32, schema: u32, name: &str, kind: char) -> Table {
        let schema = self.schemas.get(&schema).copied().unwrap_or_default();
        let mut table = Table {
            id: TableId(oid),
            kind: relation_kind(kind),
            schema: schema.to_owned(),
            name: name.to_owned(),
            display: self.quoting.qualified(schema, name),
            columns: self.columns(oid),
            foreign_keys: self.foreign_keys(oid),
            referenced: self.referenced.contains(&self.families.root(oid)),
            ..Table::default()
        };
        for verdict in self.verdicts(&table) {
            match verdict {
                Ok(key) => table.keys.push(key),
                Err(key) => table.unprotected.push(key),
            }
        }
        table
    }

    fn columns(&self, table: u32) -> Vec<Column> {
        let columns = self.columns.get(&table).copied().unwrap_or_default();
        columns
            .iter()
            .map(|column| self.column(table, column))
            .collect()
    }

    fn column(&self, table: u32, column: &raw::Column) -> Column {
        let &raw::Column(number, ref name, type_oid, typmod, generated, identity) = column;
        let (type_name, kind) = self
            .types
            .get(&(type_oid, typmod))
            .cloned()
            .unwrap_or_else(|| ("?".into(), ColumnKind::Other));
        let of = |owner, part| self.defaults.get(&(owner, part)).copied();
        let of_origin = || {
            let view = self.views.get(&table)?;
            let (_, origin) = view.origins.iter().find(|(own, _)| *own == number)?;
            of(view.table, *origin)
        };
        let default = of(table, number)
            .or_else(of_origin)
            .or_else(|| of(type_oid, 0))
            .unwrap_or(DefaultKind::Null);
        Column {
            name: name.clone(),
            kind,
            default: if identity {
                DefaultKind::Volatile
            } else {
                default
            },
            generated,
            identity,
            type_name,
        }
    }

    /// `attnum` to position.
    fn positions(&self, table: u32) -> HashMap<i16, usize> {
        let columns = self.columns.get(&table).copied().unwrap_or_default();
        columns
            .iter()
            .enumerate()
            .map(|(position, column)| (column.0, position))
            .collect()
    }

    fn foreign_keys(&self, table: u32) -> Vec<ForeignKey> {
        let Some(keys) = self.foreign_keys.get(&table) else {
            return Vec::new();
        };
        let own = self.positions(table);
        let resolve = |key: &&raw::ForeignKey| {
            let parent = self.positions(key.parent);
            Some(ForeignKey {
                constraint: key.name.clone(),
                columns: key
                    .columns
                    .iter()
                    .map(|number| own.get(number).copied())
                    .collect::<Option<_>>()?,
                parent: TableId(key.parent),
                parent_columns: key
                    .parent_columns
                    .iter()
                    .map(|number| parent.get(number).copied())
                    .collect::<Option<_>>()?,
            })
        };
        keys.iter().filter_map(resolve).collect()
    }

    fn verdicts(&self, table: &Table) -> Vec<Result<UniqueKey, UnprotectedKey>> {
        match table.kind {
            RelationKind::Table | RelationKind::Partitioned => {
                self.of_table(table.id.0, &table.columns)
            }
            RelationKind::View => self.of_view(table),
            RelationKind::ForeignTable => of_foreign_table(&table.columns),
            RelationKind::MaterializedView => Vec::new(),
        }
    }

    fn of_table(&self, table: u32, columns: &[Column]) -> Vec<Result<UniqueKey, UnprotectedKey>> {
        let Some(indexes) = self.indexes.get(&table) else {
            return Vec::new();
        };
        let (root, none) = (self.families.root(table), HashSet::new());
        let surroundings = Surroundings {
            columns,
            positions: &self.positions(table),
            foreign: self.foreign.get(&root).unwrap_or(&none),
            insert_rule: self.insert_rules.contains(&table),
            before: self.before.get(&root).map_or(&[], Vec::as_slice),
        };
        let window = |index: &raw::Index| IndexId(top(index.oid, &self.index_parents));
        indexes
            .iter()
            .filter_map(|index| judge(index, window(index), &surroundings))
            .collect()
    }

    /// The keys of the table that the view shows, as far as it shows them.
    fn of_view(&self, view: &Table) -> Vec<Result<UniqueKey, UnprotectedKey>> {
        let Some(View { table, origins }) = self.views.get(&view.id.0) else {
            return Vec::new();
        };
        let (own, theirs) = (self.positions(view.id.0), self.positions(*table));
        let shown: HashMap<usize, usize> = origins
            .iter()
            .filter_map(|(number, origin)| Some((*theirs.get(origin)?, *own.get(number)?)))
            .collect();
        let reason = match view.id.0 {
            oid if self.instead.contains(&oid) => Unprotected::InsteadOfTrigger,
            oid if self.insert_rules.contains(&oid) => Unprotected::InsertRule,
            _ => Unprotected::View,
        };
        let keys = self.of_table(*table, &self.columns(*table)).into_iter();
        let keys =
            keys.filter_map(|verdict| verdict.map_or_else(|unprotected| unprotected.key, Some));
        keys.filter_map(|key| {
            let rekey = *shown.get(&key.rekey)?;
            let columns: Option<Vec<usize>> = key
                .columns
                .iter()
                .map(|at| shown.get(at).copied())
                .collect();
            let column = view.columns.get(rekey)?.name.clone();
            let constraint = key.constraint.clone();
            let key = columns.map(|columns| UniqueKey {
                columns,
                rekey,
                ..key
            });
            Some(Err(UnprotectedKey {
                constraint,
                column,
                reason,
                key,
            }))
        })
        .collect()
    }
}

/// A foreign table's unique indexes are not known here; its first `uuid` column stands for them.
fn of_foreign_table(columns: &[Column]) -> Vec<Result<UniqueKey, UnprotectedKey>> {
    let uuid = columns
        .iter()
        .find(|column| column.kind == ColumnKind::Uuid);
    let unprotected = uuid.map(|column| UnprotectedKey {
        constraint: String::new(),
        column: column.name.clone(),
        reason: Unprotected::ForeignTable,
        key: None,
    });
    unprotected.map(Err).into_iter().collect()
}

fn foreign_columns<'a>(
    document: &'a Document,
    families: &Families,
    columns: &HashMap<u32, &'a [raw::Column]>,
) -> HashMap<u32, HashSet<&'a str>> {
    let mut names: HashMap<u32, HashSet<&str>> = HashMap::new();
    for key in &document.foreign_keys {
        let all = columns.get(&key.child).copied().unwrap_or_default();
        let own = all.iter().filter(|column| key.columns.contains(&column.0));
        names
            .entry(families.root(key.child))
            .or_default()
            .extend(own.map(|column| column.1.as_str()));
    }
    names
}

fn types(document: &Document) -> HashMap<(u32, i32), (Arc<str>, ColumnKind)> {
    let kind = |letter| match letter {
        'u' => ColumnKind::Uuid,
        't' => ColumnKind::Text,
        'c' => ColumnKind::Char,
        'i' => ColumnKind::Citext,
        _ => ColumnKind::Other,
    };
    let types = document.types.iter();
    types
        .map(|(oid, typmod, name, letter)| ((*oid, *typmod), (name.as_str().into(), kind(*letter))))
        .collect()
}

/// What is not known is taken as different for every row, which makes no twins.
fn default(letter: char) -> DefaultKind {
    match letter {
        'n' => DefaultKind::Null,
        's' => DefaultKind::Stable,
        _ => DefaultKind::Volatile,
    }
}

fn relation_kind(relkind: char) -> RelationKind {
    match relkind {
        'p' => RelationKind::Partitioned,
        'v' => RelationKind::View,
        'm' => RelationKind::MaterializedView,
        'f' => RelationKind::ForeignTable,
        _ => RelationKind::Table,
    }
}

fn grouped<T>(pairs: impl Iterator<Item = (u32, T)>) -> HashMap<u32, Vec<T>> {
    let mut groups: HashMap<u32, Vec<T>> = HashMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
    }
    groups
}
