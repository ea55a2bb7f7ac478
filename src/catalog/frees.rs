//! Which tables' triggers, rules, defaults and checks could free keys. It knows who calls whom; what a
//! function's body says is `trigger`'s business.

use super::calls::{self, Calls};
use super::families::Families;
use super::model::TableId;
use super::raw::{Document, TriggerFunction};
use super::trigger::{Body, Function, Names, bits};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Functions by oid, and which of them could free keys.
pub(super) struct Functions {
    by_oid: HashMap<u32, Function>,
    /// Schema's oid and name, of trigger functions.
    names: HashMap<u32, (u32, String)>,
    freeing: HashSet<u32>,
}

impl Functions {
    pub fn new(document: &mut Document) -> Self {
        let (mut by_oid, mut names) = (HashMap::new(), HashMap::new());
        for TriggerFunction(oid, schema, name, language, body) in
            std::mem::take(&mut document.trigger_functions)
        {
            by_oid.insert(oid, Function::new(&language, body));
            names.insert(oid, (schema, name));
        }
        for callable in &mut document.callables {
            by_oid.insert(callable.oid, Function::new(&callable.language, callable.body.take()));
        }
        let freeing = by_oid.iter().filter(|(_, function)| matches!(function, Function::Unknown));
        let freeing = freeing.map(|(oid, _)| *oid).collect();
        Self { by_oid, names, freeing }
    }

    /// The functions that could free keys.
    pub fn all_freeing(&self) -> impl Iterator<Item = u32> {
        self.freeing.iter().copied()
    }

    /// The oid of the schema and the name of a function that could free keys.
    pub fn freeing(&self, oid: u32) -> Option<(u32, &str)> {
        let (schema, name) = self.names.get(&oid)?;
        self.frees(oid).then_some((*schema, name.as_str()))
    }

    /// The body of a function that is PL/pgSQL or SQL and frees nothing.
    pub fn harmless(&self, oid: u32) -> Option<&Body> {
        match self.by_oid.get(&oid)? {
            Function::Readable(body) if !self.frees(oid) => Some(body),
            _ => None,
        }
    }

    /// Whether the function, as a BEFORE ROW trigger, may set one of these columns.
    pub fn may_set(&self, oid: u32, columns: &BTreeSet<&str>) -> bool {
        match self.by_oid.get(&oid) {
            Some(Function::BuiltIn) => false,
            Some(Function::Readable(body)) => {
                !body.passes_row_through() || columns.iter().any(|column| body.mentions(column))
            }
            Some(Function::Unknown) | None => true,
        }
    }

    fn frees(&self, oid: u32) -> bool {
        self.freeing.contains(&oid) || !self.by_oid.contains_key(&oid)
    }

    /// Condemns the functions that mention one of the names that call, or insert into one of the named tables;
    /// says whether there were any.
    fn condemn(&mut self, calling: &Names, tables: &Names) -> bool {
        let condemned = self.by_oid.iter().filter(|(oid, function)| {
            let Function::Readable(body) = function else {
                return false;
            };
            !self.freeing.contains(oid)
                && (body.mentions_any(calling) || body.inserts() && body.mentions_any(tables))
        });
        let condemned: Vec<u32> = condemned.map(|(oid, _)| *oid).collect();
        let any = !condemned.is_empty();
        self.freeing.extend(condemned);
        any
    }
}

/// Tables by the statement that could free keys, each by its own triggers alone.
#[derive(Debug, Default)]
pub(super) struct Frees {
    pub insert: HashSet<u32>,
    update: HashSet<u32>,
    delete: HashSet<u32>,
    truncate: HashSet<u32>,
    /// Roots of the partition trees where a default, a CHECK, an index or a policy calls what could free keys.
    pub calling: HashSet<u32>,
}

impl Frees {
    /// Marks in `functions` those that free keys through what they call, or through the triggers of tables they
    /// insert into.
    pub fn new(document: &Document, functions: &mut Functions, families: &Families, calls: &Calls) -> Self {
        loop {
            let callers = calls.of(functions.all_freeing());
            let calling = calls::tables(&callers);
            let insert = inserts(document, functions, families, &calling);
            let tables: Vec<u32> = insert.iter().copied().collect();
            let tables: Names = relation_names(document, &tables).collect();
            // Each round condemns a function or is the last.
            if !functions.condemn(&calls.names(&callers).collect(), &tables) {
                return Self {
                    insert,
                    update: others(document, functions, bits::UPDATE, '2', &calling),
                    delete: others(document, functions, bits::DELETE, '4', &HashSet::new()),
                    truncate: others(document, functions, bits::TRUNCATE, '-', &HashSet::new()),
                    calling: calling.into_iter().map(|table| families.root(table)).collect(),
                };
            }
        }
    }

    /// Whether a DELETE that reaches these tables, from a tree with the members `own`, could free more.
    pub fn by_delete(&self, reached: &[TableId], own: &[u32]) -> bool {
        let own: HashSet<u32> = own.iter().copied().collect();
        meet(&self.delete, reached, |_| true) || meet(&self.update, reached, |table| !own.contains(&table))
    }

    /// The same for an UPDATE, which may move a row from partition to partition by DELETE and INSERT.
    pub fn by_update(&self, reached: &[TableId], own: &[u32]) -> bool {
        let moved = |table| self.delete.contains(table) || self.insert.contains(table);
        meet(&self.update, reached, |_| true) || (own.len() > 1 && own.iter().any(moved))
    }

    /// The same for a TRUNCATE.
    pub fn by_truncate(&self, reached: &[TableId]) -> bool {
        meet(&self.truncate, reached, |_| true)
    }
}

/// Whether a table is in both and accepted. `reached` is sorted; either may be much the larger.
fn meet(freeing: &HashSet<u32>, reached: &[TableId], accept: impl Fn(u32) -> bool) -> bool {
    if freeing.len() < reached.len() {
        freeing.iter().any(|&table| accept(table) && reached.binary_search(&TableId(table)).is_ok())
    } else {
        reached.iter().any(|&TableId(table)| accept(table) && freeing.contains(&table))
    }
}

fn inserts(
    document: &Document,
    functions: &Functions,
    families: &Families,
    calling: &HashSet<u32>,
) -> HashSet<u32> {
    let freeing = || {
        let triggers = document.triggers.iter();
        triggers.filter(|(_, kind, function)| kind & bits::INSERT != 0 && functions.frees(*function))
    };
    // Triggers FOR EACH ROW, CHECKs and the like work wherever the row is put.
    let by_row = freeing().filter(|(_, kind, _)| kind & bits::ROW != 0).map(|(table, ..)| *table);
    let trees: HashSet<u32> =
        by_row.chain(calling.iter().copied()).map(|table| families.root(table)).collect();
    let mut tables: HashSet<u32> = trees.into_iter().flat_map(|root| families.members(root)).collect();
    tables.extend(freeing().map(|(table, ..)| *table));
    let rules = document.rules.iter().filter(|(_, event)| *event == '3');
    tables.extend(rules.map(|(table, _)| *table));
    // An INSERT into a view is one into its table. Each round adds a view or is the last.
    loop {
        let views = document.stands_on.iter().filter(|(_, table)| tables.contains(table));
        let new: Vec<u32> = views.map(|(view, _)| *view).filter(|view| !tables.contains(view)).collect();
        if new.is_empty() {
            return tables;
        }
        tables.extend(new);
    }
}

fn others(
    document: &Document,
    functions: &Functions,
    bit: i16,
    rule: char,
    calling: &HashSet<u32>,
) -> HashSet<u32> {
    let triggers =
        document.triggers.iter().filter(|(_, kind, function)| kind & bit != 0 && functions.frees(*function));
    let rules = document.rules.iter().filter(|(_, event)| *event == rule);
    let tables = triggers.map(|(table, _, _)| *table).chain(rules.map(|(table, _)| *table));
    tables.chain(calling.iter().copied()).collect()
}

fn relation_names<'a>(document: &'a Document, oids: &[u32]) -> impl Iterator<Item = &'a str> + use<'a> {
    let oids: HashSet<u32> = oids.iter().copied().collect();
    let relations = document.relations.iter().filter(move |(oid, ..)| oids.contains(oid));
    relations.map(|(_, _, name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::raw::Callable;

    const AFTER_ROW_INSERT: i16 = bits::ROW | bits::INSERT;

    fn function(oid: u32, body: Option<&str>) -> TriggerFunction {
        TriggerFunction(oid, 1, format!("f{oid}"), "plpgsql".to_owned(), body.map(str::to_owned))
    }

    fn table(oid: u32, name: &str) -> (u32, u32, String, char) {
        (oid, 1, name.to_owned(), 'r')
    }

    fn frees(mut document: Document) -> (Frees, Functions) {
        let families = Families::new(&document.inherits);
        let mut functions = Functions::new(&mut document);
        let frees = Frees::new(&document, &mut functions, &families, &Calls::new(&document));
        (frees, functions)
    }

    fn sorted(set: &HashSet<u32>) -> Vec<u32> {
        let mut list: Vec<u32> = set.iter().copied().collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn a_trigger_that_inserts_into_a_freeing_table_frees_too_however_long_the_chain() {
        let document = Document {
            relations: vec![table(1, "a"), table(2, "b"), table(3, "c"), table(4, "d")],
            trigger_functions: vec![
                function(91, Some("begin insert into b values (1); return new; end")),
                function(92, Some("begin insert into c values (1); return new; end")),
                function(93, None),
                function(94, Some("begin insert into log values (1); return new; end")),
            ],
            triggers: (1..=4).map(|at| (at, AFTER_ROW_INSERT, 90 + at)).collect(),
            ..Document::default()
        };
        let (frees, functions) = frees(document);
        assert_eq!(sorted(&frees.insert), [1, 2, 3]);
        assert!(functions.harmless(94).is_some() && functions.harmless(91).is_none());
        assert_eq!(functions.freeing(91), Some((1, "f91")));
        assert_eq!(functions.freeing(94), None);
    }

    fn callable(oid: u32, name: &str, body: Option<&str>) -> Callable {
        let (schema, language) = ("public".to_owned(), "sql".to_owned());
        let body = body.map(str::to_owned);
        Callable { oid, schema, name: name.to_owned(), language, volatile: true, body, deallocates: false }
    }

    #[test]
    fn a_function_that_frees_or_a_view_of_one_condemns_a_body() {
        let document = Document {
            relations: vec![table(1, "a"), table(7, "purging")],
            callables: vec![
                callable(81, "purge", None),
                callable(82, "relays", Some("select purge()")),
                callable(83, "reads", Some("table noted")),
            ],
            calls: vec![('p', 81, 'r', 7)],
            trigger_functions: vec![
                function(91, Some("begin new.x := purge(new.y); return new; end")),
                function(92, Some("begin new.x := (select 1 from purging); return new; end")),
                function(93, Some("begin new.x := now(); return new; end")),
                function(94, Some("begin new.x := relays(); return new; end")),
                function(95, Some("begin new.x := reads(); return new; end")),
                function(96, Some("begin new.x := query_to_xml(new.y, false, false, ''); return new; end")),
            ],
            ..Document::default()
        };
        let (_, functions) = frees(document);
        let harmless: Vec<bool> =
            [91, 92, 93, 94, 95, 96, 99].map(|oid| functions.harmless(oid).is_some()).into();
        assert_eq!(harmless, [false, false, true, false, true, false, false]);
    }

    #[test]
    fn row_triggers_count_for_the_whole_partition_tree_and_views_for_their_table() {
        let document = Document {
            inherits: vec![(2, 1, true), (3, 1, true)],
            trigger_functions: vec![function(93, None)],
            triggers: vec![(2, AFTER_ROW_INSERT, 93), (8, bits::INSERT, 93)],
            stands_on: vec![(5, 1), (6, 5)],
            ..Document::default()
        };
        assert_eq!(sorted(&frees(document).0.insert), [1, 2, 3, 5, 6, 8]);
    }

    #[test]
    fn a_delete_frees_what_the_triggers_of_the_tables_it_reaches_free() {
        let document = Document {
            trigger_functions: vec![function(93, None)],
            triggers: vec![
                (1, bits::UPDATE, 93),
                (2, bits::UPDATE, 93),
                (3, bits::DELETE, 93),
                (4, bits::TRUNCATE, 93),
            ],
            ..Document::default()
        };
        let (frees, _) = frees(document);
        let reached = |tables: &[u32]| tables.iter().copied().map(TableId).collect::<Vec<_>>();
        assert!(!frees.by_delete(&reached(&[1]), &[1]), "its own UPDATE triggers do not fire");
        assert!(frees.by_delete(&reached(&[1, 2]), &[1]), "a SET NULL is an UPDATE of the child");
        assert!(frees.by_delete(&reached(&[1, 3]), &[1]));
        assert!(frees.by_update(&reached(&[1]), &[1]));
        assert!(!frees.by_update(&reached(&[3]), &[3]));
        assert!(frees.by_update(&reached(&[3, 5]), &[3, 5]), "a row moves between partitions");
        assert!(frees.by_truncate(&reached(&[1, 4])) && !frees.by_truncate(&reached(&[1])));
    }
}
