//! Which tables' rows a DELETE, an UPDATE or a TRUNCATE of one table may change, through foreign keys,
//! inheritance and views. It knows edges between tables; triggers are `frees`' business.

use super::families::Families;
use super::model::TableId;
use super::raw::Document;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A statement that reaches more partition trees than this is taken to reach every table: chains of
/// foreign keys through thousands of tables would else cost the square of their number.
const MOST_TREES: usize = 256;

/// What happens to a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Delete,
    Update,
    Truncate,
}

/// Why an event of one table goes on to another.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// A foreign key of the other one, with its `confdeltype` and `confupdtype`.
    Key { delete: char, update: char },
    /// The other one inherits from it, or it is a view of the other one.
    Same,
}

impl Cause {
    fn carries(self, event: Event) -> Option<Event> {
        match (self, event) {
            (Self::Same, _) => Some(event),
            (Self::Key { .. }, Event::Truncate) => Some(Event::Truncate),
            (Self::Key { delete: 'c', .. }, Event::Delete) => Some(Event::Delete),
            (Self::Key { delete: 'n' | 'd', .. }, Event::Delete) => Some(Event::Update),
            (Self::Key { update: 'c' | 'n' | 'd', .. }, Event::Update) => Some(Event::Update),
            (Self::Key { .. }, _) => None,
        }
    }
}

/// Edges between partition trees, each named by its root.
pub(super) struct Reach<'a> {
    families: &'a Families,
    edges: HashMap<u32, Vec<(u32, Cause)>>,
    all: Arc<[TableId]>,
    /// Equal sets are stored once.
    sets: HashSet<Arc<[TableId]>>,
}

impl<'a> Reach<'a> {
    pub fn new(document: &Document, families: &'a Families) -> Self {
        let keys = document
            .foreign_keys
            .iter()
            .map(|key| (key.parent, key.child, Cause::Key { delete: key.delete, update: key.update }));
        let heirs = document.inherits.iter().map(|&(child, parent, _)| (parent, child, Cause::Same));
        let views = document.stands_on.iter().map(|&(view, table)| (view, table, Cause::Same));
        let mut edges: HashMap<u32, Vec<_>> = HashMap::new();
        for (from, to, cause) in keys.chain(heirs).chain(views) {
            let (from, to) = (families.root(from), families.root(to));
            if from != to {
                edges.entry(from).or_default().push((to, cause));
            }
        }
        let mut all: Vec<TableId> = document.relations.iter().map(|relation| TableId(relation.0)).collect();
        all.sort_unstable();
        Self { families, edges, all: all.into(), sets: HashSet::new() }
    }

    /// Every table that the event reaches from a tree's root, the tree itself included; sorted.
    pub fn tables(&mut self, root: u32, event: Event) -> Arc<[TableId]> {
        let Some(roots) = self.roots(root, event) else {
            return Arc::clone(&self.all);
        };
        let members = roots.into_iter().flat_map(|root| self.families.members(root));
        let mut tables: Vec<TableId> = members.map(TableId).collect();
        tables.sort_unstable();
        tables.dedup();
        if let Some(set) = self.sets.get(tables.as_slice()) {
            return Arc::clone(set);
        }
        let set: Arc<[TableId]> = tables.into();
        self.sets.insert(Arc::clone(&set));
        set
    }

    /// The roots of the trees reached; `None` if there are too many.
    fn roots(&self, root: u32, event: Event) -> Option<HashSet<u32>> {
        let mut seen = HashSet::from([(root, event)]);
        let mut ahead = vec![(root, event)];
        while let Some((here, event)) = ahead.pop() {
            let edges = self.edges.get(&here).map_or(&[][..], Vec::as_slice);
            let next = edges.iter().filter_map(|&(to, cause)| Some((to, cause.carries(event)?)));
            ahead.extend(next.filter(|step| seen.insert(*step)));
            if seen.len() > MOST_TREES {
                return None;
            }
        }
        Some(seen.into_iter().map(|(root, _)| root).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::ForeignKey;
    use super::*;

    fn key(parent: u32, child: u32, delete: char, update: char) -> ForeignKey {
        let name = format!("{parent}_{child}");
        ForeignKey {
            name,
            child,
            parent,
            columns: vec![1],
            parent_columns: vec![1],
            delete,
            update,
            deferrable: false,
        }
    }

    #[test]
    fn an_event_goes_as_far_as_the_foreign_keys_actions_carry_it() {
        let document = Document {
            // 1 <- 2 cascade; 2 <- 3 set null; 3 <- 4 on update cascade; 3 <- 5 on delete cascade; 1 <- 6 no action
            foreign_keys: vec![
                key(1, 2, 'c', 'a'),
                key(2, 3, 'n', 'a'),
                key(3, 4, 'a', 'c'),
                key(3, 5, 'c', 'a'),
                key(1, 6, 'a', 'r'),
                key(2, 1, 'c', 'a'),
            ],
            // 11 and 12 are partitions of 6; 7 inherits from 1; 20 is a view of 2.
            inherits: vec![(11, 6, true), (12, 6, true), (7, 1, false)],
            stands_on: vec![(20, 2)],
            ..Document::default()
        };
        let families = Families::new(&document.inherits);
        let mut reach = Reach::new(&document, &families);
        let cases: [(u32, Event, &[u32]); 9] = [
            (1, Event::Delete, &[1, 2, 3, 4, 7]),
            (3, Event::Delete, &[3, 5]),
            (3, Event::Update, &[3, 4]),
            (1, Event::Update, &[1, 7]),
            (1, Event::Truncate, &[1, 2, 3, 4, 5, 6, 7, 11, 12]),
            (4, Event::Truncate, &[4]),
            (7, Event::Delete, &[7]),
            (20, Event::Delete, &[1, 2, 3, 4, 7, 20]),
            (6, Event::Delete, &[6, 11, 12]),
        ];
        for (start, event, expected) in cases {
            let reached: Vec<u32> = reach.tables(start, event).iter().map(|table| table.0).collect();
            assert_eq!(reached, expected, "{event:?} of {start}");
        }
    }

    #[test]
    fn equal_sets_are_shared() {
        let families = Families::new(&[(2, 1, true)]);
        let mut reach = Reach::new(&Document::default(), &families);
        let (one, other) = (reach.tables(1, Event::Delete), reach.tables(1, Event::Update));
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_chain_too_long_to_follow_reaches_every_table() {
        let last = 1000;
        let document = Document {
            relations: (0..=last).map(|oid| (oid, 1, format!("t{oid}"), 'r')).collect(),
            foreign_keys: (1..last).map(|oid| key(oid, oid + 1, 'c', 'a')).collect(),
            ..Document::default()
        };
        let families = Families::new(&[]);
        let mut reach = Reach::new(&document, &families);
        assert_eq!(reach.tables(1, Event::Delete).len(), 1001);
        assert_eq!(reach.tables(last - 9, Event::Delete).len(), 10);
        assert!(Arc::ptr_eq(&reach.tables(1, Event::Delete), &reach.tables(2, Event::Truncate)));
    }
}
