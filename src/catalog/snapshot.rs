//! The catalog as it was when it was loaded: tables by oid and by name, and what must not be trusted.
//! It does not know how old it is.

use super::calls::Opaque;
use super::model::{Table, TableId};
use crate::sql::name::Name;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A snapshot of one database's catalog. Never changes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Differs between two snapshots; part of the key of every plan made with one.
    pub version: u64,
    by_id: HashMap<TableId, Arc<Table>>,
    by_name: HashMap<String, Vec<Arc<Table>>>,
    sorted: Vec<Arc<Table>>,
    homonyms: bool,
    /// Names to schemas.
    opaque_functions: HashMap<String, Vec<String>>,
    opaque_relations: HashMap<String, Vec<String>>,
    opaque_words: HashSet<String>,
    deallocating_functions: HashMap<String, Vec<String>>,
}

impl Catalog {
    pub(super) fn new(version: u64, tables: Vec<Table>, opaque: &Opaque) -> Self {
        let mut sorted: Vec<Arc<Table>> = tables.into_iter().map(Arc::new).collect();
        sorted.sort_by(|one, other| one.display.cmp(&other.display));
        let by_id: HashMap<TableId, Arc<Table>> =
            sorted.iter().map(|table| (table.id, Arc::clone(table))).collect();
        let mut by_name: HashMap<String, Vec<Arc<Table>>> = HashMap::new();
        for table in &sorted {
            by_name.entry(table.name.clone()).or_default().push(Arc::clone(table));
        }
        let relations = opaque.relations.iter().filter_map(|oid| by_id.get(&TableId(*oid)));
        let opaque_relations =
            schemas_by_name(relations.map(|table| (table.schema.as_str(), table.name.as_str())));
        let of = |functions: &[(String, String)]| {
            schemas_by_name(functions.iter().map(|(schema, name)| (schema.as_str(), name.as_str())))
        };
        Self {
            version,
            homonyms: by_name.values().any(|namesakes| are_homonyms(namesakes)),
            by_id,
            by_name,
            sorted,
            opaque_functions: of(&opaque.functions),
            deallocating_functions: of(&opaque.deallocating),
            opaque_relations,
            opaque_words: opaque.words.iter().cloned().collect(),
        }
    }

    /// The same catalog with each table as `change` gives it; `None` leaves it. Names and oids stay.
    #[must_use]
    pub fn map(mut self, change: impl Fn(&Table) -> Option<Table>) -> Self {
        let changed: Vec<Arc<Table>> =
            self.sorted.iter().filter_map(|table| change(table)).map(Arc::new).collect();
        for table in changed {
            let namesakes = self.by_name.get_mut(&table.name).into_iter().flatten();
            let places = namesakes.chain(self.by_id.get_mut(&table.id)).chain(&mut self.sorted);
            places.filter(|place| place.id == table.id).for_each(|place| *place = Arc::clone(&table));
        }
        self
    }

    /// The table with this oid.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(&id)
    }

    /// Every relation that rows could be put into, in the order of [`Table::display`], those of
    /// `pg_catalog` and `information_schema` included.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.sorted.iter()
    }

    /// The relations of this name, whatever their schema.
    pub(super) fn namesakes(&self, name: &str) -> &[Arc<Table>] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether any relation has this name, whatever its schema.
    #[must_use]
    pub fn bears(&self, name: &str) -> bool {
        !self.namesakes(name).is_empty()
    }

    /// Whether some name can mean two tables, so that a session's search path matters.
    #[must_use]
    pub fn has_homonyms(&self) -> bool {
        self.homonyms
    }

    /// Whether a call of this name may do anything: a user-defined volatile function, or one that may call one.
    /// A bare name is any schema's.
    #[must_use]
    pub fn is_opaque_function(&self, name: &Name) -> bool {
        contains(&self.opaque_functions, name)
    }

    /// Whether a call of this name may deallocate prepared statements. A bare name is any schema's.
    #[must_use]
    pub fn is_deallocating_function(&self, name: &Name) -> bool {
        contains(&self.deallocating_functions, name)
    }

    /// Whether there is any such function: see [`Self::is_opaque_function`].
    #[must_use]
    pub fn has_opaque_functions(&self) -> bool {
        !self.opaque_functions.is_empty()
    }

    /// Whether anything but a call may run such a function: see [`Self::is_opaque_word`].
    #[must_use]
    pub fn has_opaque_words(&self) -> bool {
        !(self.opaque_relations.is_empty() && self.opaque_words.is_empty())
    }

    /// Whether to read a relation of this name may run such a function: a view that calls one, or a
    /// view of such a view. A bare name is any schema's.
    #[must_use]
    pub fn is_opaque_word(&self, name: &Name) -> bool {
        contains(&self.opaque_relations, name) || self.opaque_words.contains(&name.name)
    }
}

/// Two relations of one name of which one may be a table of the users'.
fn are_homonyms(namesakes: &[Arc<Table>]) -> bool {
    let reachable = namesakes.iter().filter(|table| table.schema != super::resolve::INFORMATION_SCHEMA);
    reachable.clone().count() > 1
        && reachable.into_iter().any(|table| table.schema != super::resolve::PG_CATALOG)
}

fn schemas_by_name<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<String, Vec<String>> {
    let mut map: HashMap<String, Vec<String>> = HashMap::new();
    for (schema, name) in pairs {
        map.entry(name.to_owned()).or_default().push(schema.to_owned());
    }
    map
}

fn contains(map: &HashMap<String, Vec<String>>, name: &Name) -> bool {
    let Some(schemas) = map.get(&name.name) else {
        return false;
    };
    name.schema.as_ref().is_none_or(|schema| schemas.contains(schema))
}
