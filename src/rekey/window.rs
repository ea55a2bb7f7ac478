//! The keys that are live in the current transaction, layered by savepoint. Knows no statement and no policy.

use crate::catalog::model::IndexId;
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The row that holds a key: the whole index tuple as one number.
///
/// For an index over a single `uuid` column that number is the UUID itself, for any other index a keyed
/// 128-bit hash of the tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub key: u128,
    pub row_hash: RowHash,
    /// Ordinal of the statement within its transaction, from 1.
    pub statement: u32,
    /// Ordinal of the row within its statement, from 1.
    pub row: u32,
}

/// Tells whether two rows are equal, without keeping their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowHash {
    /// Over every column.
    pub all: u32,
    /// Over the columns that are the same in every delivery of one fact; [`RowHash::NOT_KNOWN`] if the content of one
    /// cannot be known.
    pub steady: u32,
}

impl RowHash {
    /// No `steady` hash.
    pub const NOT_KNOWN: u32 = 0;

    /// The rows are equal in every column.
    #[must_use]
    pub fn is_identical(self, other: Self) -> bool {
        self.all == other.all
    }

    /// The rows are equal but for columns that differ between two deliveries of one fact.
    #[must_use]
    pub fn is_redelivery(self, other: Self) -> bool {
        self.steady != Self::NOT_KNOWN && self.steady == other.steady
    }

    /// The rows are certain to differ in more than that.
    #[must_use]
    pub fn is_another_fact(self, other: Self) -> bool {
        self.steady != Self::NOT_KNOWN && other.steady != Self::NOT_KNOWN && self.steady != other.steady
    }
}

/// Keys by index. Each index keeps its claims in the order they were made, so that going back to a
/// savepoint is cutting off the end.
#[derive(Debug)]
pub struct Window {
    /// A transaction writes to few tables: a search from the front beats hashing.
    indexes: Vec<(IndexId, Keys)>,
    /// Secret of the process, so that nobody can send keys that all fall into one place.
    hasher: SeedableRandomState,
    count: usize,
}

impl Default for Window {
    fn default() -> Self {
        let hasher = SeedableRandomState::with_seed(0, SharedSeed::global_random());
        Self { indexes: Vec::new(), hasher, count: 0 }
    }
}

#[derive(Debug, Default)]
struct Keys {
    log: Vec<Claim>,
    /// Positions in `log`, found by key.
    table: HashTable<u32>,
}

/// Bytes a key costs at most while its index grows: its claim twice (a vector that doubles) and its
/// position in the hash table at the lowest load, twice likewise.
pub const BYTES_PER_KEY: usize = 2 * (size_of::<Claim>() + 10);

/// A session keeps the memory of this many indexes between transactions,
const KEPT_INDEXES: usize = 8;
/// and of this many claims in each; larger windows are given back.
const KEPT_CLAIMS: usize = 256;

impl Window {
    #[must_use]
    pub fn find(&self, index: IndexId, key: u128) -> Option<&Claim> {
        self.keys(index)?.find(&self.hasher, key)
    }

    /// Records a row as the holder of its key, unless another row holds it already.
    pub fn claim(&mut self, index: IndexId, claim: Claim) {
        let at = self.indexes.iter().position(|(known, _)| *known == index).unwrap_or_else(|| {
            self.indexes.push((index, Keys::default()));
            self.indexes.len() - 1
        });
        if let Some((_, keys)) = self.indexes.get_mut(at)
            && keys.insert(&self.hasher, claim)
        {
            self.count += 1;
        }
    }

    fn keys(&self, index: IndexId) -> Option<&Keys> {
        self.indexes.iter().find(|(known, _)| *known == index).map(|(_, keys)| keys)
    }

    /// Takes over the claims of a statement that is executed now, as statement `ordinal`. Keys that another
    /// row has come to hold in between stay with it.
    pub fn take_over(&mut self, claims: &Self, ordinal: u32) {
        for (index, keys) in &claims.indexes {
            for claim in &keys.log {
                self.claim(*index, Claim { statement: ordinal, ..*claim });
            }
        }
    }

    /// Live keys of all indexes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets what statements after `mark` (an ordinal) claimed.
    pub fn roll_back_to(&mut self, mark: u32) {
        for (_, keys) in &mut self.indexes {
            keys.roll_back_to(&self.hasher, mark);
        }
        self.count = self.indexes.iter().map(|(_, keys)| keys.log.len()).sum();
    }

    pub fn clear(&mut self) {
        if self.count == 0 {
            return;
        }
        self.count = 0;
        for (_, keys) in &mut self.indexes {
            keys.clear();
        }
        self.indexes.truncate(KEPT_INDEXES);
    }

    pub fn clear_index(&mut self, index: IndexId) {
        if let Some((_, keys)) = self.indexes.iter_mut().find(|(known, _)| *known == index) {
            self.count -= keys.log.len();
            keys.clear();
        }
    }
}

impl Keys {
    fn find(&self, hasher: &impl BuildHasher, key: u128) -> Option<&Claim> {
        let at = self.table.find(hasher.hash_one(key), |&at| self.log[at as usize].key == key)?;
        self.log.get(*at as usize)
    }

    fn insert(&mut self, hasher: &impl BuildHasher, claim: Claim) -> bool {
        let Ok(next) = u32::try_from(self.log.len()) else { return false };
        let log = &self.log;
        let entry = self.table.entry(
            hasher.hash_one(claim.key),
            |&at| log[at as usize].key == claim.key,
            |&at| hasher.hash_one(log[at as usize].key),
        );
        let hashbrown::hash_table::Entry::Vacant(vacant) = entry else { return false };
        vacant.insert(next);
        self.log.push(claim);
        true
    }

    fn roll_back_to(&mut self, hasher: &impl BuildHasher, mark: u32) {
        while let Some(claim) = self.log.last().filter(|claim| claim.statement > mark) {
            let last = self.log.len() - 1;
            if let Ok(entry) = self.table.find_entry(hasher.hash_one(claim.key), |&at| at as usize == last) {
                entry.remove();
            }
            self.log.pop();
        }
    }

    fn clear(&mut self) {
        if self.log.capacity() > KEPT_CLAIMS {
            *self = Self::default();
        } else {
            self.log.clear();
            self.table.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INDEX: IndexId = IndexId(7);

    fn claim(key: u128, statement: u32) -> Claim {
        Claim { key, row_hash: RowHash::default(), statement, row: 1 }
    }

    #[test]
    fn the_first_holder_stays() {
        let mut window = Window::default();
        window.claim(INDEX, claim(1, 1));
        window.claim(INDEX, claim(1, 2));
        assert_eq!(window.find(INDEX, 1), Some(&claim(1, 1)));
        assert_eq!(window.find(IndexId(8), 1), None);
        assert_eq!(window.len(), 1);
    }

    #[test]
    fn clearing_one_index_leaves_the_others() {
        let mut window = Window::default();
        window.claim(INDEX, claim(1, 1));
        window.claim(IndexId(8), claim(1, 1));
        window.clear_index(INDEX);
        assert_eq!((window.find(INDEX, 1), window.len()), (None, 1));
        assert!(window.find(IndexId(8), 1).is_some());
    }

    proptest! {
        #[test]
        fn rolling_back_leaves_exactly_what_was_claimed_before(keys in prop::collection::vec(0u128..20, 0..60), cut in 0usize..60) {
            let mut window = Window::default();
            let mut model = std::collections::BTreeMap::new();
            for (at, &key) in keys.iter().enumerate() {
                let statement = at as u32 + 1;
                window.claim(INDEX, claim(key, statement));
                if at < cut {
                    model.entry(key).or_insert(statement);
                }
            }
            window.roll_back_to(cut as u32);
            for key in 0..20 {
                prop_assert_eq!(window.find(INDEX, key).map(|claim| claim.statement), model.get(&key).copied());
            }
            prop_assert_eq!(window.len(), model.len());
        }
    }
}
