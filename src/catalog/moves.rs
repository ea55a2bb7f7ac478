//! Which columns an UPDATE has to set to move a key, in the table it names or in one that its effects reach. It
//! knows columns and triggers; which tables are reached is `reach`'s business.

use super::families::Families;
use super::frees::Functions;
use super::model::Moves;
use super::raw::{self, Document};
use super::trigger::bits;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What moves keys, by the root of each partition tree.
pub(super) struct Movers<'a> {
    families: &'a Families,
    own: HashMap<u32, Moves>,
    /// Heirs that are no partitions: an UPDATE of the parent is one of theirs.
    heirs: HashMap<u32, Vec<u32>>,
    views: HashSet<u32>,
}

impl<'a> Movers<'a> {
    pub fn new(document: &Document, families: &'a Families, functions: &Functions) -> Self {
        let columns: HashMap<u32, &[raw::Column]> =
            document.columns.iter().map(|(table, columns)| (*table, columns.as_slice())).collect();
        let mut names: HashMap<u32, Option<BTreeSet<&str>>> = HashMap::new();
        let mut add = |table: u32, numbers: &[i16]| {
            let columns = columns.get(&table).copied().unwrap_or_default();
            let named = numbers.iter().filter(|number| **number != 0).map(|number| {
                raw::position(columns, *number).and_then(|at| columns.get(at)).map(|column| column.1.as_str())
            });
            let named: Option<BTreeSet<&str>> = named.collect();
            let of_tree = names.entry(families.root(table)).or_insert_with(|| Some(BTreeSet::new()));
            match (of_tree.as_mut(), named) {
                (Some(all), Some(named)) => all.extend(named),
                _ => *of_tree = None,
            }
        };
        for index in &document.indexes {
            add(index.table, &index.columns);
        }
        // A key that ON UPDATE CASCADE and the like hand on to the children.
        for key in document.foreign_keys.iter().filter(|key| matches!(key.update, 'c' | 'n' | 'd')) {
            add(key.parent, &key.parent_columns);
        }
        // A BEFORE trigger may set a key that the UPDATE does not name.
        let before = bits::ROW | bits::BEFORE | bits::UPDATE;
        for (table, kind, function) in &document.triggers {
            let root = families.root(*table);
            if kind & before == before
                && let Some(Some(keys)) = names.get(&root)
                && functions.may_set(*function, keys)
            {
                names.insert(root, None);
            }
        }
        let mut heirs: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(child, parent, _) in document.inherits.iter().filter(|(_, _, is_partition)| !is_partition) {
            heirs.entry(families.root(parent)).or_default().push(families.root(child));
        }
        let moves = |names: Option<BTreeSet<&str>>| match names {
            Some(names) => Moves::Columns(names.into_iter().map(Box::from).collect()),
            None => Moves::Any,
        };
        Self {
            families,
            own: names.into_iter().map(|(root, names)| (root, moves(names))).collect(),
            heirs,
            views: document
                .relations
                .iter()
                .filter(|relation| relation.3 == 'v')
                .map(|relation| relation.0)
                .collect(),
        }
    }

    /// What moves keys in the tree with this root, its heirs included.
    pub fn of(&self, root: u32) -> Moves {
        if self.views.contains(&root) {
            // Its columns may have other names than the table's.
            return Moves::Any;
        }
        let (mut seen, mut ahead, mut all) = (HashSet::from([root]), vec![root], BTreeSet::new());
        while let Some(here) = ahead.pop() {
            match self.own.get(&here) {
                Some(Moves::Any) => return Moves::Any,
                Some(Moves::Columns(names)) => all.extend(names.iter().cloned()),
                None => {}
            }
            let heirs = self.families.members(here).into_iter().filter_map(|member| self.heirs.get(&member));
            ahead.extend(heirs.flatten().filter(|heir| seen.insert(**heir)));
        }
        Moves::Columns(Arc::from_iter(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::raw::TriggerFunction;

    const BEFORE_UPDATE: i16 = bits::ROW | bits::BEFORE | bits::UPDATE;

    fn columns(table: u32, names: &[&str]) -> (u32, Vec<raw::Column>) {
        let column = |(at, name): (usize, &&str)| {
            raw::Column(at as i16 + 1, (*name).to_owned(), 2950, -1, false, false)
        };
        (table, names.iter().enumerate().map(column).collect())
    }

    fn key(table: u32, columns: &[i16]) -> raw::Index {
        raw::Index {
            oid: table + 1000,
            table,
            parent: None,
            name: String::new(),
            columns: columns.to_vec(),
            odd: false,
            valid: true,
            immediate: true,
            partial: false,
            expression: false,
            nulls_not_distinct: false,
        }
    }

    fn cascade(parent: u32, parent_columns: &[i16]) -> raw::ForeignKey {
        let (name, columns, parent_columns) = (String::new(), vec![1], parent_columns.to_vec());
        raw::ForeignKey {
            name,
            child: 99,
            parent,
            columns,
            parent_columns,
            delete: 'a',
            update: 'c',
            deferrable: false,
        }
    }

    #[test]
    fn keys_move_with_their_columns_those_of_partitions_heirs_and_references_included() {
        let trigger = |oid, body: &str| {
            TriggerFunction(oid, 1, "f".to_owned(), "plpgsql".to_owned(), Some(body.to_owned()))
        };
        let mut document = Document {
            relations: vec![(20, 1, "v".to_owned(), 'v')],
            columns: vec![
                columns(1, &["id", "v", "code"]),
                columns(2, &["id", "v", "code"]),
                columns(3, &["id", "v"]),
            ],
            // 2 is a partition of 1 and has a key of its own; 3 inherits from 4; 5 has no columns that are known.
            inherits: vec![(2, 1, true), (3, 4, false)],
            indexes: vec![key(1, &[1]), key(2, &[3, 0]), key(3, &[1]), key(6, &[1]), key(7, &[1])],
            foreign_keys: vec![cascade(3, &[2]), cascade(5, &[1])],
            triggers: vec![(6, BEFORE_UPDATE, 91), (7, BEFORE_UPDATE, 92)],
            trigger_functions: vec![
                trigger(91, "begin new.at := now(); return new; end"),
                trigger(92, "begin new.id := old.v; return new; end"),
            ],
            ..Document::default()
        };
        document.columns.push(columns(6, &["id", "at"]));
        document.columns.push(columns(7, &["id", "v"]));
        let families = Families::new(&document.inherits);
        let functions = Functions::new(&mut document);
        let movers = Movers::new(&document, &families, &functions);
        let told = |root| match movers.of(root) {
            Moves::Any => "any".to_owned(),
            Moves::Columns(names) => names.join(" "),
        };
        let expected = [
            (1, "code id"),
            (3, "id v"),
            (4, "id v"),
            (5, "any"),
            (6, "id"),
            (7, "any"),
            (8, ""),
            (20, "any"),
        ];
        for (root, names) in expected {
            assert_eq!(told(root), names, "{root}");
        }
    }
}
