//! From the answer to `load.sql` to a [`Catalog`]. It puts the parts together; each part's judgement is
//! in its own module.

use super::calls::{self, Calls};
use super::families::Families;
use super::frees::{Frees, Functions};
use super::model::{Moves, Table, TableId};
use super::moves::Movers;
use super::raw::{self, Document};
use super::reach::{Event, Reach};
use super::snapshot::Catalog;
use super::tables::Tables;
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
    let calls = Calls::new(&document);
    let frees = Frees::new(&document, &mut functions, &families, &calls);
    let mut tables = Tables::new(&document, &families, &functions, &frees.calling).build();
    let keyed_parents: HashSet<TableId> =
        tables.iter().filter(|table| has_uuid_key(table)).map(|table| table.id).collect();
    let mut reach = Reach::new(&document, &families);
    let movers = Movers::new(&document, &families, &functions);
    let mut effects = HashMap::new();
    for table in &mut tables {
        table.foreign_keys.retain(|key| keyed_parents.contains(&key.parent));
        table.insert_frees = frees.insert.contains(&table.id.0);
        let root = families.root(table.id.0);
        effects
            .entry(root)
            .or_insert_with(|| Effects::new(root, &families, &mut reach, &frees, &movers))
            .apply(table);
    }
    mark_movers(&mut tables, &document, &families, &calls);
    let volatile = document.callables.iter().filter(|function| function.volatile);
    let moving = document.moving.iter().copied();
    let opaque = functions.all_freeing().chain(volatile.map(|function| function.oid)).chain(moving);
    Ok(Catalog::new(version, tables, &calls.opaque(&document, opaque)))
}

/// Marks the tables whose triggers or expressions may give names another meaning, and those whose cascades reach
/// one.
fn mark_movers(tables: &mut [Table], document: &Document, families: &Families, calls: &Calls) {
    let moving: HashSet<u32> = document.moving.iter().copied().collect();
    let triggers = document.triggers.iter().filter(|(_, _, function)| moving.contains(function));
    let own = triggers.map(|(table, ..)| *table).chain(calls::tables(&calls.of(moving.iter().copied())));
    let roots: HashSet<u32> = own.map(|table| families.root(table)).collect();
    if roots.is_empty() {
        return;
    }
    for table in tables {
        let reached = [&table.delete_reaches, &table.update_reaches, &table.truncate_reaches];
        let reached = reached.into_iter().flat_map(|tables| tables.iter());
        table.moves_names =
            std::iter::once(&table.id).chain(reached).any(|id| roots.contains(&families.root(id.0)));
    }
}

fn has_uuid_key(table: &Table) -> bool {
    !table.keys.is_empty() || !table.unprotected.is_empty()
}

/// What statements on a partition tree reach, the same for all of its members.
struct Effects {
    delete: (Arc<[TableId]>, bool),
    update: (Arc<[TableId]>, bool),
    moves: Moves,
    truncate: (Arc<[TableId]>, bool),
}

impl Effects {
    fn new(root: u32, families: &Families, reach: &mut Reach, frees: &Frees, movers: &Movers) -> Self {
        let own = families.members(root);
        let [delete, update, truncate] =
            [Event::Delete, Event::Update, Event::Truncate].map(|event| reach.tables(root, event));
        Self {
            delete: (Arc::clone(&delete), frees.by_delete(&delete, &own)),
            update: (Arc::clone(&update), frees.by_update(&update, &own)),
            moves: movers.of(root),
            truncate: (Arc::clone(&truncate), frees.by_truncate(&truncate)),
        }
    }

    fn apply(&self, table: &mut Table) {
        (table.delete_reaches, table.delete_frees) = self.delete.clone();
        (table.update_reaches, table.update_frees) = self.update.clone();
        table.update_moves = self.moves.clone();
        (table.truncate_reaches, table.truncate_frees) = self.truncate.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_are_fit_for_any_session() {
        for text in [STATEMENT, super::super::resolve::default_path_probe()] {
            let code: String = text
                .lines()
                .map(|line| line.split("--").next().unwrap_or_default())
                .collect::<Vec<_>>()
                .join("\n");
            assert!(!code.contains(['$', ';', '\\']), "parameters, statements, escapes");
            let outside_strings: String = code.split('\'').step_by(2).collect::<Vec<_>>().join("''");
            for operator in [" = ", " <> ", " > ", " < ", " || ", " ~ ", " IN ", " LIKE ", " DISTINCT FROM"] {
                assert!(!outside_strings.contains(operator), "{operator} is looked up on the path");
            }
            for (before, _) in outside_strings.match_indices("::") {
                assert!(outside_strings.get(before..).is_some_and(|cast| cast.starts_with("::pg_catalog.")));
            }
        }
    }

    #[test]
    fn an_answer_is_json_or_its_hexadecimal() {
        let json = r#"{"schemas": [[1, "größe"]], "relations": [[7, 1, "t", "r"]], "columns": null}"#;
        let hexadecimal: String = json.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [json, &hexadecimal] {
            let catalog = parse(text, 3).unwrap();
            assert_eq!(catalog.version, 3);
            assert_eq!(catalog.table(TableId(7)).unwrap().display, "\"größe\".t");
        }
        assert!(parse("{}", 1).unwrap().tables().next().is_none());
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (text, encoding) in
            [("", false), ("abc", true), ("zz", true), ("{", false), ("[1]", true), ("7b", false)]
        {
            let error = parse(text, 1).unwrap_err();
            assert_eq!(matches!(error, Error::Encoding), encoding, "{text}");
        }
        assert!(parse(r#"{"unheard": []}"#, 1).is_err());
        assert!(parse(r#"{"relations": [[-1, 1, "t", "r"]]}"#, 1).is_err());
    }

    #[test]
    fn what_is_said_of_relations_that_are_not_listed_is_left_out() {
        let text = r#"{"inherits": [[1, 2, true]], "triggers": [[1, 7, 9]], "calls": [["p", 4, "c", 5], ["p", 4, "r", 5]], "moving": [4],
            "view_columns": [[6, 1, [[1, 1]]]], "rules": [[1, "3"]], "stands_on": [[6, 1]],
            "foreign_keys": [{"name": "f", "child": 1, "parent": 2, "columns": [1], "parent_columns": [1],
                              "delete": "c", "update": "a", "deferrable": false}]}"#;
        assert_eq!(parse(text, 1).unwrap().tables().count(), 0);
    }
}
