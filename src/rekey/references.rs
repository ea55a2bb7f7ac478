//! Keys that two rows were sent with, and whose children name them: which row a reference means. Knows the
//! order of rows, no statement.

use crate::catalog::model::{IndexId, Table};
use crate::key;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row: its statement in the transaction and its row in that statement, both from 1.
pub type Row = (u32, u32);

/// What the current transaction holds of shared keys, or what one statement adds to it.
#[derive(Debug, Default)]
pub struct References {
    shared: BTreeMap<(IndexId, u128), Shared>,
    /// Keys of live rows that a child has named, with the statement of the first child that did.
    children: BTreeMap<(IndexId, u128), u32>,
}

/// A key that was sent for several rows, all but the first of which have been given a fresh one.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The key as sent.
    pub old: u128,
    pub table: Arc<Table>,
    /// The rows in the order in which they came: the first holds the key as sent.
    holders: SmallVec<[Holder; 2]>,
}

#[derive(Clone, Debug)]
struct Holder {
    /// The key that is stored.
    value: u128,
    row: Row,
    /// Statement of the first child that came after it, and before the next holder.
    child: Option<u32>,
}

/// The row that a reference to a shared key means.
#[derive(Clone, Debug)]
pub enum Whose {
    /// The order shows it: every earlier parent had its children before the next parent came.
    Last { value: u128, row: Row },
    /// Two of the rows that it could be.
    Ambiguous { first: Row, last: Row },
}

/// A row that was given a fresh key.
#[derive(Clone, Debug)]
pub struct Rekeyed<'a> {
    pub index: IndexId,
    /// The tuple as sent.
    pub tuple: u128,
    pub table: &'a Arc<Table>,
    pub old: u128,
    pub new: u128,
    pub first: Row,
    pub row: Row,
}

impl Shared {
    /// The first and the last of the rows that were sent with the key.
    #[must_use]
    pub fn rows(&self) -> Option<(Row, Row)> {
        Some((self.holders.first()?.row, self.holders.last()?.row))
    }
}

/// Bytes that a key with a child, or one that was shared, costs at most while the table of them grows.
pub const BYTES_PER_REFERENCE: usize = 2 * (size_of::<((IndexId, u128), Shared)>() + 1);

impl References {
    /// Keys that a child has named, and shared keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.children.len() + self.shared.len()
    }

    /// No key will come to be shared any more: forgets what is needed only for that.
    pub fn forget_unshared(&mut self) {
        self.children = BTreeMap::new();
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.children.is_empty()
    }

    /// Whether a key was sent for several rows.
    #[must_use]
    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Every shared key.
    pub fn shared(&self) -> impl Iterator<Item = &Shared> {
        self.shared.values()
    }

    /// The first shared key that these bytes name: spelled in any way, or as 16 binary bytes.
    #[must_use]
    pub fn named_in(&self, bytes: &[u8]) -> Option<&Shared> {
        if self.shared.is_empty() {
            return None;
        }
        let shared = |value: u128| self.shared.values().find(|shared| shared.old == value);
        let binary = |shared: &&Shared| memchr::memmem::find(bytes, &shared.old.to_be_bytes()).is_some();
        key::find_all(bytes).find_map(shared).or_else(|| self.shared.values().find(binary))
    }

    /// Which row a reference to this tuple means; `None` if only one row was sent with it. `own` is what
    /// the statement under way has added.
    #[must_use]
    pub fn whose(&self, own: &Self, index: IndexId, tuple: u128) -> Option<Whose> {
        let shared = own.shared.get(&(index, tuple)).or_else(|| self.shared.get(&(index, tuple)))?;
        let (last, earlier) = shared.holders.split_last()?;
        let first = earlier.first()?;
        Some(if earlier.iter().all(|holder| holder.child.is_some()) {
            Whose::Last { value: last.value, row: last.row }
        } else {
            Whose::Ambiguous { first: first.row, last: last.row }
        })
    }

    /// The fresh keys of the rows that were sent with this tuple, the latest first. `own` is what the statement
    /// under way has added.
    pub fn fresh<'a>(
        &'a self,
        own: &'a Self,
        index: IndexId,
        tuple: u128,
    ) -> impl Iterator<Item = u128> + 'a {
        let shared = own.shared.get(&(index, tuple)).or_else(|| self.shared.get(&(index, tuple)));
        let holders = shared.into_iter().flat_map(|shared| shared.holders.iter().skip(1).rev());
        holders.map(|holder| holder.value)
    }

    /// A row was given a fresh key; noted in `self`, which belongs to the statement, on top of `base`.
    pub fn rekeyed(&mut self, base: &Self, event: Rekeyed<'_>) {
        let at = (event.index, event.tuple);
        let child = self.children.get(&at).or_else(|| base.children.get(&at)).copied();
        let shared = self.shared.entry(at).or_insert_with(|| {
            base.shared.get(&at).cloned().unwrap_or_else(|| Shared {
                old: event.old,
                table: Arc::clone(event.table),
                holders: SmallVec::from_iter([Holder { value: event.old, row: event.first, child }]),
            })
        });
        shared.holders.push(Holder { value: event.new, row: event.row, child: None });
    }

    /// A child names this tuple; noted in `self`, which belongs to the statement, on top of `base`.
    pub fn child(&mut self, base: &Self, index: IndexId, tuple: u128, statement: u32) {
        let at = (index, tuple);
        if !self.shared.contains_key(&at)
            && let Some(shared) = base.shared.get(&at)
        {
            self.shared.insert(at, shared.clone());
        }
        if let Some(last) = self.shared.get_mut(&at).and_then(|shared| shared.holders.last_mut()) {
            last.child.get_or_insert(statement);
        } else if !base.children.contains_key(&at) {
            self.children.entry(at).or_insert(statement);
        }
    }

    /// Takes over what a statement adds, now that it is executed.
    pub fn take_over(&mut self, own: &mut Self) {
        self.shared.append(&mut own.shared);
        for (at, statement) in std::mem::take(&mut own.children) {
            self.children.entry(at).or_insert(statement);
        }
    }

    /// Forgets what statements after `mark` did.
    pub fn roll_back_to(&mut self, mark: u32) {
        self.children.retain(|_, statement| *statement <= mark);
        self.shared.retain(|_, shared| {
            shared.holders.retain(|holder| holder.row.0 <= mark);
            for holder in &mut shared.holders {
                holder.child = holder.child.filter(|&statement| statement <= mark);
            }
            shared.holders.len() > 1
        });
    }

    pub fn clear(&mut self) {
        if !self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: IndexId = IndexId(1);

    /// Plays parents (`P`) and children (`c`) of one key, each a statement of its own, and tells whose the
    /// next child would be.
    fn play(events: &str) -> Option<Whose> {
        let (mut base, table) = (References::default(), Arc::new(Table::default()));
        let mut first = None;
        for (at, event) in events.chars().enumerate() {
            let statement = at as u32 + 1;
            let mut own = References::default();
            match (event, first) {
                ('P', None) => first = Some((statement, 1)),
                ('P', Some(first)) => {
                    let row = (statement, 1);
                    let new = u128::from(statement);
                    own.rekeyed(
                        &base,
                        Rekeyed { index: INDEX, tuple: 7, table: &table, old: 7, new, first, row },
                    );
                }
                _ => own.child(&base, INDEX, 7, statement),
            }
            base.take_over(&mut own);
        }
        base.whose(&References::default(), INDEX, 7)
    }

    #[test]
    fn a_reference_follows_the_last_parent_if_the_earlier_ones_had_their_children() {
        for (events, expected) in [("PcP", 3), ("PccPc", 4), ("PcPcP", 5)] {
            assert!(matches!(play(events), Some(Whose::Last { value, .. }) if value == expected), "{events}");
        }
    }

    #[test]
    fn otherwise_it_is_ambiguous() {
        for events in ["PP", "PPP", "PcPP", "PPcP"] {
            assert!(matches!(play(events), Some(Whose::Ambiguous { first: (1, 1), .. })), "{events}");
        }
        assert!(play("P").is_none() && play("Pcc").is_none());
    }

    #[test]
    fn going_back_to_a_savepoint_undoes_parents_and_children() {
        let table = Arc::new(Table::default());
        let (mut base, mut own) = (References::default(), References::default());
        own.child(&base, INDEX, 7, 2);
        own.rekeyed(
            &base,
            Rekeyed { index: INDEX, tuple: 7, table: &table, old: 7, new: 8, first: (1, 1), row: (3, 1) },
        );
        base.take_over(&mut own);
        base.roll_back_to(2);
        assert!(!base.has_shared() && !base.is_empty());
        base.roll_back_to(1);
        assert!(base.is_empty());
    }
}
