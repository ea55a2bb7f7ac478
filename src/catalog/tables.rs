//! Tables as the planner reads them, from the rows of `load.sql`: columns, keys, foreign keys. It does
//! not know what one table's statements do to another's rows.

use super::families::{Families, top};
use super::frees::Functions;
use super::keys::{Surroundings, judge};
use super::model::{
    Column, ColumnKind, DefaultKind, ForeignKey, FreeingTrigger, IndexId, RelationKind, Table, TableId,
    UniqueKey, Unprotected, UnprotectedKey,
};
use super::raw::{self, Document};
use super::reasons::Quoting;
use super::trigger::{Body, bits};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The document, indexed by table.
pub(super) struct Tables<'a> {
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
    freeing: Freeing<'a>,
    insert_rules: HashSet<u32>,
    /// Roots of trees whose expressions could free keys.
    calling: &'a HashSet<u32>,
    instead: HashSet<u32>,
    views: HashMap<u32, View<'a>>,
    referenced: HashSet<u32>,
}

/// Triggers whose functions could free keys: schema and name of the function, events.
struct Freeing<'a> {
    /// FOR EACH ROW, by root.
    row: HashMap<u32, Vec<(u32, &'a str, i16)>>,
    /// FOR EACH STATEMENT, by table.
    statement: HashMap<u32, Vec<(u32, &'a str, i16)>>,
}

impl<'a> Freeing<'a> {
    fn new(document: &Document, families: &Families, functions: &'a Functions) -> Self {
        let (mut row, mut statement): (HashMap<u32, Vec<_>>, HashMap<u32, Vec<_>>) = Default::default();
        for &(table, kind, function) in &document.triggers {
            let Some((schema, name)) = functions.freeing(function) else { continue };
            let found = (schema, name, kind);
            if kind & bits::ROW != 0 {
                row.entry(families.root(table)).or_default().push(found);
            } else {
                statement.entry(table).or_default().push(found);
            }
        }
        Self { row, statement }
    }

    /// Each function once, in the order of names, with every event that runs it.
    fn of(&self, table: u32, root: u32) -> BTreeMap<(u32, &'a str), i16> {
        let both = self.row.get(&root).into_iter().chain(self.statement.get(&table)).flatten();
        let mut events = BTreeMap::new();
        both.for_each(|&(schema, name, kind)| *events.entry((schema, name)).or_default() |= kind);
        events
    }
}

/// A view of one table: which of its columns is which of the table's.
struct View<'a> {
    table: u32,
    origins: &'a [raw::Origin],
}

impl<'a> Tables<'a> {
    pub fn new(
        document: &'a Document,
        families: &'a Families,
        functions: &'a Functions,
        calling: &'a HashSet<u32>,
    ) -> Self {
        let columns: HashMap<u32, &[raw::Column]> =
            document.columns.iter().map(|(table, columns)| (*table, columns.as_slice())).collect();
        // Partitions have copies of their parent's triggers.
        let before_row_insert = bits::ROW | bits::BEFORE | bits::INSERT;
        let before: HashSet<(u32, u32)> = document
            .triggers
            .iter()
            .filter(|(_, kind, _)| kind & before_row_insert == before_row_insert)
            .map(|(table, _, function)| (families.root(*table), *function))
            .collect();
        let instead = document.triggers.iter().filter(|(_, kind, _)| kind & bits::INSTEAD != 0);
        let insert_rules = document.rules.iter().filter(|(_, event)| *event == '3');
        Self {
            document,
            families,
            schemas: document.schemas.iter().map(|(oid, name)| (*oid, name.as_str())).collect(),
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
            before: grouped(before.into_iter().map(|(root, function)| (root, functions.harmless(function)))),
            freeing: Freeing::new(document, families, functions),
            calling,
            insert_rules: insert_rules.map(|(table, _)| *table).collect(),
            instead: instead.map(|(table, ..)| *table).collect(),
            views: document
                .view_columns
                .iter()
                .map(|(view, table, origins)| (*view, View { table: *table, origins }))
                .collect(),
            referenced: document.foreign_keys.iter().map(|key| families.root(key.parent)).collect(),
        }
    }

    /// Every relation, without what `reach` and `frees` know.
    pub fn build(&self) -> Vec<Table> {
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
            freeing_triggers: self.freeing_triggers(oid),
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

    fn freeing_triggers(&self, table: u32) -> Vec<FreeingTrigger> {
        let triggers = self.freeing.of(table, self.families.root(table));
        let named = |(&(schema, name), &events): (&(u32, &str), &i16)| FreeingTrigger {
            function: self.quoting.qualified(self.schemas.get(&schema).copied().unwrap_or_default(), name),
            on_insert: events & bits::INSERT != 0,
            on_update: events & bits::UPDATE != 0,
            on_delete: events & bits::DELETE != 0,
        };
        triggers.iter().map(named).collect()
    }

    fn columns(&self, table: u32) -> Vec<Column> {
        self.numbered(table).iter().map(|column| self.column(table, column)).collect()
    }

    fn column(&self, table: u32, column: &raw::Column) -> Column {
        let &raw::Column(number, ref name, type_oid, typmod, generated, identity) = column;
        let (type_name, kind) =
            self.types.get(&(type_oid, typmod)).cloned().unwrap_or_else(|| ("?".into(), ColumnKind::ByName));
        let of = |owner, part| self.defaults.get(&(owner, part)).copied();
        let of_origin = || {
            let view = self.views.get(&table)?;
            let (_, origin) = view.origins.iter().find(|(own, _)| *own == number)?;
            of(view.table, *origin)
        };
        let default =
            of(table, number).or_else(of_origin).or_else(|| of(type_oid, 0)).unwrap_or(DefaultKind::Null);
        Column {
            name: name.clone(),
            kind,
            default: if identity { DefaultKind::Volatile } else { default },
            generated,
            identity,
            type_name,
        }
    }

    fn numbered(&self, table: u32) -> &'a [raw::Column] {
        self.columns.get(&table).copied().unwrap_or_default()
    }

    fn foreign_keys(&self, table: u32) -> Vec<ForeignKey> {
        let Some(keys) = self.foreign_keys.get(&table) else {
            return Vec::new();
        };
        let resolve = |key: &&raw::ForeignKey| {
            Some(ForeignKey {
                constraint: key.name.clone(),
                columns: positions(self.numbered(table), &key.columns)?,
                parent: TableId(key.parent),
                parent_columns: positions(self.numbered(key.parent), &key.parent_columns)?,
                deferrable: key.deferrable,
            })
        };
        keys.iter().filter_map(resolve).collect()
    }

    fn verdicts(&self, table: &Table) -> Vec<Result<UniqueKey, UnprotectedKey>> {
        match table.kind {
            RelationKind::Table | RelationKind::Partitioned => self.of_table(table.id.0, &table.columns),
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
            numbered: self.numbered(table),
            foreign: self.foreign.get(&root).unwrap_or(&none),
            insert_rule: self.insert_rules.contains(&table),
            calling: self.calling.contains(&root),
            before: self.before.get(&root).map_or(&[], Vec::as_slice),
        };
        let window = |index: &raw::Index| IndexId(top(index.oid, &self.index_parents));
        indexes.iter().filter_map(|index| judge(index, window(index), &surroundings)).collect()
    }

    /// The keys of the table that the view shows, as far as it shows them.
    fn of_view(&self, view: &Table) -> Vec<Result<UniqueKey, UnprotectedKey>> {
        let Some(View { table, origins }) = self.views.get(&view.id.0) else {
            return Vec::new();
        };
        let (own, theirs) = (self.numbered(view.id.0), self.numbered(*table));
        let shown: HashMap<usize, usize> = origins
            .iter()
            .filter_map(|(number, origin)| {
                Some((raw::position(theirs, *origin)?, raw::position(own, *number)?))
            })
            .collect();
        let reason = match view.id.0 {
            oid if self.instead.contains(&oid) => Unprotected::InsteadOfTrigger,
            oid if self.insert_rules.contains(&oid) => Unprotected::InsertRule,
            _ => Unprotected::View,
        };
        let keys = self.of_table(*table, &self.columns(*table)).into_iter();
        let keys = keys.filter_map(|verdict| verdict.map_or_else(|unprotected| unprotected.key, Some));
        keys.filter_map(|key| {
            let rekey = *shown.get(&key.rekey)?;
            let columns: Option<Vec<usize>> = key.columns.iter().map(|at| shown.get(at).copied()).collect();
            let column = view.columns.get(rekey)?.name.clone();
            let constraint = key.constraint.clone();
            let key = columns.map(|columns| UniqueKey { columns, rekey, ..key });
            Some(Err(UnprotectedKey { constraint, column, reason, key }))
        })
        .collect()
    }
}

fn positions(columns: &[raw::Column], numbers: &[i16]) -> Option<Vec<usize>> {
    numbers.iter().map(|number| raw::position(columns, *number)).collect()
}

/// A foreign table's unique indexes are not known here; its first `uuid` column stands for them.
fn of_foreign_table(columns: &[Column]) -> Vec<Result<UniqueKey, UnprotectedKey>> {
    let uuid = columns.iter().find(|column| column.kind == ColumnKind::Uuid);
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
        names.entry(families.root(key.child)).or_default().extend(own.map(|column| column.1.as_str()));
    }
    names
}

fn types(document: &Document) -> HashMap<(u32, i32), (Arc<str>, ColumnKind)> {
    let kind = |letter| match letter {
        'u' => ColumnKind::Uuid,
        't' => ColumnKind::Text,
        'c' => ColumnKind::Char,
        'i' => ColumnKind::Citext,
        'o' => ColumnKind::Other,
        's' => ColumnKind::BySettings,
        _ => ColumnKind::ByName,
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
