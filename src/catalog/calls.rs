//! Who calls whom: from functions to the operators, types, views and tables whose use runs them. It knows what is
//! recorded in the catalog; what stands in a function's body is `trigger`'s business.

use super::raw::Document;
use std::collections::{HashMap, HashSet};

/// What calls, or is called: `p` a function, `o` an operator, `t` a type, `w` the type of a cast, `r` a relation
/// when it is read, `c` a table when rows are put into it; and its oid.
type Node = (char, u32);

/// From what is called to what calls it.
pub(super) struct Calls<'a> {
    callers: HashMap<Node, Vec<Node>>,
    /// Schemas are known of functions.
    names: HashMap<Node, (Option<&'a str>, &'a str)>,
}

/// Functions of Postgres' own that run the text of a query.
const RUNNERS: &[&str] = &[
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "cursor_to_xml",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "schema_to_xml",
    "schema_to_xml_and_xmlschema",
    "database_to_xml",
    "database_to_xml_and_xmlschema",
    "ts_stat",
    "ts_rewrite",
];

/// What may run a function that may do anything, as it is written in statements.
#[derive(Debug, Default)]
pub(super) struct Opaque {
    /// Schemas and names of functions.
    pub functions: Vec<(String, String)>,
    /// Operators, types, and functions of one row.
    pub words: Vec<String>,
    /// Relations that run one when they are read.
    pub relations: Vec<u32>,
    /// Functions that may give a prepared statement another meaning.
    pub deallocating: Vec<(String, String)>,
}

impl<'a> Calls<'a> {
    pub fn new(document: &'a Document) -> Self {
        let mut callers: HashMap<Node, Vec<Node>> = HashMap::new();
        for &(kind, oid, caller_kind, caller) in &document.calls {
            callers.entry((kind, oid)).or_default().push((caller_kind, caller));
        }
        for &(view, relation) in &document.stands_on {
            callers.entry(('r', relation)).or_default().push(('r', view));
        }
        let named = document.call_names.iter();
        let mut names: HashMap<Node, (Option<&str>, &str)> = named
            .map(|(kind, oid, schema, name)| ((*kind, *oid), (schema.as_deref(), name.as_str())))
            .collect();
        names.extend(document.relations.iter().map(|(oid, _, name, _)| (('r', *oid), (None, name.as_str()))));
        let functions = document.callables.iter();
        names.extend(
            functions.map(|function| {
                (('p', function.oid), (Some(function.schema.as_str()), function.name.as_str()))
            }),
        );
        Self { callers, names }
    }

    /// The functions, and whatever calls one of them.
    pub fn of(&self, functions: impl Iterator<Item = u32>) -> HashSet<Node> {
        let mut ahead: Vec<Node> = functions.map(|oid| ('p', oid)).collect();
        let mut found: HashSet<Node> = ahead.iter().copied().collect();
        while let Some(here) = ahead.pop() {
            let callers = self.callers.get(&here).into_iter().flatten();
            ahead.extend(callers.filter(|caller| found.insert(**caller)));
        }
        found
    }

    /// The names by which a body may call one of these.
    pub fn names(&self, nodes: &HashSet<Node>) -> impl Iterator<Item = &'a str> {
        let names = nodes.iter().filter_map(|node| self.names.get(node));
        names.map(|(_, name)| *name).chain(RUNNERS.iter().copied())
    }

    /// What statements call it by, given the functions that may do anything and those that deallocate statements.
    pub fn opaque(&self, document: &Document, functions: impl Iterator<Item = u32>) -> Opaque {
        let deallocating = document.callables.iter().filter(|function| function.deallocates);
        let deallocating: Vec<u32> = deallocating.map(|function| function.oid).collect();
        let nodes = self.of(functions.chain(deallocating.iter().copied()));
        let mut opaque = Opaque {
            functions: self.functions(&nodes),
            deallocating: self.functions(&self.of(deallocating.into_iter())),
            ..Opaque::default()
        };
        if !opaque.functions.is_empty() {
            let runners =
                RUNNERS.iter().map(|name| (super::resolve::PG_CATALOG.to_owned(), (*name).to_owned()));
            opaque.functions.extend(runners);
        }
        let rows: HashSet<u32> = document.row_functions.iter().copied().collect();
        for &(kind, oid) in &nodes {
            let Some((_, name)) = self.names.get(&(kind, oid)) else { continue };
            match kind {
                'r' => opaque.relations.push(oid),
                'o' | 't' | 'w' => opaque.words.push((*name).to_owned()),
                'p' if rows.contains(&oid) => opaque.words.push((*name).to_owned()),
                _ => {}
            }
        }
        opaque
    }

    fn functions(&self, nodes: &HashSet<Node>) -> Vec<(String, String)> {
        let functions = nodes.iter().filter(|(kind, _)| *kind == 'p').filter_map(|node| self.names.get(node));
        functions.map(|(schema, name)| (schema.unwrap_or_default().to_owned(), (*name).to_owned())).collect()
    }
}

/// The tables among them into which no row can be put without a call.
pub(super) fn tables(nodes: &HashSet<Node>) -> HashSet<u32> {
    nodes.iter().filter(|(kind, _)| *kind == 'c').map(|(_, oid)| *oid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::raw::Callable;

    fn callable(oid: u32, deallocates: bool) -> Callable {
        Callable {
            oid,
            schema: "s".to_owned(),
            name: format!("f{oid}"),
            language: "sql".to_owned(),
            volatile: true,
            body: None,
            deallocates,
        }
    }

    #[test]
    fn whatever_leads_to_a_function_is_opaque_by_the_name_it_is_written_with() {
        let document = Document {
            callables: vec![callable(1, false), callable(2, false), callable(3, true)],
            calls: vec![
                ('p', 1, 'p', 11),
                ('p', 1, 'o', 12),
                ('o', 12, 'c', 21),
                ('p', 1, 't', 13),
                ('t', 13, 't', 14),
                ('t', 14, 'c', 22),
                ('p', 1, 'r', 23),
                ('p', 2, 'c', 24),
            ],
            call_names: vec![
                ('p', 11, Some("s".to_owned()), "total".to_owned()),
                ('o', 12, None, "===".to_owned()),
                ('t', 13, None, "email".to_owned()),
                ('t', 14, None, "_email".to_owned()),
            ],
            relations: vec![(23, 1, "v".to_owned(), 'v'), (25, 1, "w".to_owned(), 'v')],
            stands_on: vec![(25, 23)],
            row_functions: vec![1],
            ..Document::default()
        };
        let calls = Calls::new(&document);
        let opaque = calls.opaque(&document, [1].into_iter());
        let names = |functions: &[(String, String)]| {
            let own = functions.iter().filter(|(schema, _)| schema == "s");
            let mut names: Vec<String> = own.map(|(_, name)| name.clone()).collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(names(&opaque.functions), "f1 f3 total");
        assert_eq!(names(&opaque.deallocating), "f3");
        let (mut words, mut relations) = (opaque.words, opaque.relations);
        words.sort_unstable();
        relations.sort_unstable();
        assert_eq!(words, ["===", "_email", "email", "f1"]);
        assert_eq!(relations, [23, 25]);
        assert_eq!(tables(&calls.of([1].into_iter())), HashSet::from([21, 22]));
        let nothing = Document::default();
        assert!(Calls::new(&nothing).opaque(&nothing, std::iter::empty()).functions.is_empty());
    }
}
