//! The contract's memory of one transaction, a second time: live keys, keys that several rows were sent with, and who is whose child.

use std::collections::{BTreeMap, BTreeSet};

use super::database::Key;

/// A statement and a row in it, both from 1.
pub type Place = (u64, u64);

/// The form of a value that is no key: only bytes of the same form are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Text,
    Binary,
    Element,
}

/// One column of an index tuple, as far as the contract compares what is sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Key(Key),
    /// What was sent, and how.
    Sent(Form, String),
    /// NULL, where it equals itself.
    Null,
    /// Left to a default that is the same for every row.
    Stable,
}

/// A unique index (table and position in it) and a tuple of it.
pub type Tuple = (usize, usize, Vec<Part>);

/// The row that holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub place: Place,
    /// The contract leaves open whether it is still remembered.
    pub certain: bool,
}

/// A row that was sent with a shared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub key: Key,
    pub place: Place,
    /// A child came before the next holder.
    pub has_child: bool,
}

/// Whose child a row is that names a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Nobody's that is known.
    Nobodys,
    /// The only row's with that key.
    Only,
    /// The last of several, since all before it had their children.
    Last(Holder),
    /// One of several; the first of them.
    Ambiguous(Place),
}

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct Window {
    live: BTreeMap<Tuple, Claim>,
    shared: BTreeMap<Tuple, Vec<Holder>>,
    with_child: BTreeSet<Tuple>,
}

impl Window {
    /// The row that holds the tuple.
    pub fn holder(&self, tuple: &Tuple) -> Option<Claim> {
        self.live.get(tuple).copied()
    }

    /// A row holds the tuple from now on, unless another does.
    pub fn claim(&mut self, tuple: Tuple, place: Place) {
        self.live.entry(tuple).or_insert(Claim { place, certain: true });
    }

    /// The tuple is not remembered any more.
    pub fn forget(&mut self, tuple: &Tuple) {
        self.live.remove(tuple);
    }

    /// A row that was sent with the tuple of `first` was given a fresh key.
    pub fn share(&mut self, tuple: &Tuple, old: u32, first: Place, fresh: Key, place: Place) {
        let has_child = self.with_child.contains(tuple);
        let holders = self
            .shared
            .entry(tuple.clone())
            .or_insert_with(|| vec![Holder { key: Key::Given(old), place: first, has_child }]);
        holders.push(Holder { key: fresh, place, has_child: false });
    }

    /// Whose child a row is that refers to this tuple.
    pub fn whose(&self, tuple: &Tuple) -> Whose {
        match self.shared.get(tuple).map(Vec::as_slice) {
            Some([earlier @ .., last]) => {
                let all = earlier.iter().all(|holder| holder.has_child);
                if all { Whose::Last(*last) } else { Whose::Ambiguous(earlier[0].place) }
            }
            _ if self.live.contains_key(tuple) => Whose::Only,
            _ => Whose::Nobodys,
        }
    }

    /// A child came that refers to this tuple.
    pub fn child(&mut self, tuple: Tuple) {
        match self.shared.get_mut(&tuple).and_then(|holders| holders.last_mut()) {
            Some(last) => last.has_child = true,
            None => {
                self.with_child.insert(tuple);
            }
        }
    }

    /// Whether several rows of one of these tables were sent with this key.
    pub fn is_shared(&self, tables: &[usize], key: u32) -> bool {
        self.shared
            .iter()
            .any(|((table, _, _), holders)| tables.contains(table) && holders[0].key == Key::Given(key))
    }

    /// Whether several rows of one of these tables were sent with any key.
    pub fn has_shared(&self, tables: &[usize]) -> bool {
        self.shared.keys().any(|(table, _, _)| tables.contains(table))
    }

    /// Keys of these tables may be free.
    pub fn clear(&mut self, tables: &[usize]) {
        self.live.retain(|(table, _, _), _| !tables.contains(table));
    }

    /// The same, undone: whether they are remembered is left open.
    pub fn doubt(&mut self, tables: &[usize]) {
        self.live
            .iter_mut()
            .filter(|((table, _, _), _)| tables.contains(table))
            .for_each(|(_, claim)| claim.certain = false);
    }
}
