//! Keys that two rows were sent with, and whose children name them: which row a reference means. Knows the
//! order of rows, no statement.

use super::escapes;
use crate::catalog::model::{IndexId, Table};
use crate::key;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A row: its statement in the transaction and its row in that statement, both from 1.
pub type Row = (u32, u32);

/// What the current transaction holds of shared keys, or what one statement adds to it.
#[derive(Debug, Default)]
pub struct References {
    shared: BTreeMap<(IndexId, u128), Shared>,
    /// The UUIDs in those keys, each with where it is shared.
    uuids: BTreeSet<(u128, (IndexId, u128))>,
    /// Keys that a child has named, each with the first child that did.
    children: BTreeMap<(IndexId, u128), Child>,
}

/// A child of a key that one row was sent with, or none yet.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    pub statement: u32,
    /// It came before any row with the key.
    pub early: bool,
}

/// A key that was sent for several rows, all but the first of which have been given a fresh one.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The key as sent.
    pub old: u128,
    pub table: Arc<Table>,
    index: IndexId,
    /// How the tuple was spelled: see `Value::form`. `None`: equal values may be spelled otherwise.
    form: Option<u64>,
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
    Last { value: u128, first: Row, row: Row },
    /// Two of the rows that it could be.
    Ambiguous { first: Row, last: Row },
}

/// A row that was given a fresh key.
#[derive(Clone, Debug)]
pub struct Rekeyed<'a> {
    pub index: IndexId,
    /// The tuple as sent.
    pub tuple: u128,
    /// How it was spelled: see `Value::form`.
    pub form: Option<u64>,
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
pub const BYTES_PER_REFERENCE: usize =
    2 * (size_of::<((IndexId, u128), Shared)>() + size_of::<(u128, (IndexId, u128))>() + 1);

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

    /// The first shared key that these bytes name: spelled in any way, escaped or not, or as 16 binary bytes.
    #[must_use]
    pub fn named_in(&self, bytes: &[u8]) -> Option<&Shared> {
        self.named_where(bytes, |_| true)
    }

    /// Likewise, of the keys of one index. `own` is what the statement under way has added.
    #[must_use]
    pub fn named_of<'a>(&'a self, own: &'a Self, index: IndexId, bytes: &[u8]) -> Option<&'a Shared> {
        let of_index = |shared: &Shared| shared.index == index;
        own.named_where(bytes, of_index).or_else(|| self.named_where(bytes, of_index))
    }

    /// Likewise, of the keys that are asked for.
    #[must_use]
    pub fn named_where(&self, bytes: &[u8], which: impl Fn(&Shared) -> bool) -> Option<&Shared> {
        if self.shared.is_empty() {
            return None;
        }
        let of = |uuid: u128| self.of_uuid(uuid).find(|shared| which(shared));
        let spelled = |bytes: &[u8]| key::find_all(bytes).find_map(of);
        spelled(bytes)
            .or_else(|| binary_in(bytes, &self.uuids).find_map(of))
            .or_else(|| escapes::readings(bytes).find_map(|reading| spelled(&reading)))
    }

    /// The shared keys with this UUID.
    fn of_uuid(&self, uuid: u128) -> impl Iterator<Item = &Shared> {
        let all = (uuid, (IndexId(0), 0))..=(uuid, (IndexId(u32::MAX), u128::MAX));
        self.uuids.range(all).filter_map(|(_, at)| self.shared.get(at))
    }

    /// A shared key of this index that a reference may mean whose UUID is known, and whose tuple is not: not
    /// wholly, or in another `form` than the rows'.
    #[must_use]
    pub fn may_mean(&self, own: &Self, index: IndexId, uuid: u128, form: Option<u64>) -> Option<Whose> {
        let same = |shared: &&Shared| shared.index == index;
        let another = |shared: &&Shared| form.is_none() || shared.form.is_none() || form != shared.form;
        let candidates = own.of_uuid(uuid).chain(self.of_uuid(uuid));
        let (first, last) = candidates.filter(same).find(another)?.rows()?;
        Some(Whose::Ambiguous { first, last })
    }

    /// Whether a child named the tuple before the first row with it came, so that a second row may as well be
    /// the one it means.
    #[must_use]
    pub fn came_early(&self, own: &Self, index: IndexId, tuple: u128) -> bool {
        let at = (index, tuple);
        own.children.get(&at).or_else(|| self.children.get(&at)).is_some_and(|child| child.early)
    }

    /// Which row a reference to this tuple means; `None` if only one row was sent with it. `own` is what
    /// the statement under way has added.
    #[must_use]
    pub fn whose(&self, own: &Self, index: IndexId, tuple: u128) -> Option<Whose> {
        let shared = own.shared.get(&(index, tuple)).or_else(|| self.shared.get(&(index, tuple)))?;
        let (last, earlier) = shared.holders.split_last()?;
        let first = earlier.first()?;
        Some(if earlier.iter().all(|holder| holder.child.is_some()) {
            Whose::Last { value: last.value, first: first.row, row: last.row }
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
        let child = base.children.get(&at).or_else(|| self.children.get(&at));
        // Which of the rows an early child means is not known, so that it counts for none.
        let child = child.filter(|child| !child.early).map(|child| child.statement);
        self.uuids.insert((event.old, at));
        let shared = self.shared.entry(at).or_insert_with(|| {
            base.shared.get(&at).cloned().unwrap_or_else(|| Shared {
                old: event.old,
                table: Arc::clone(event.table),
                index: event.index,
                form: event.form,
                holders: SmallVec::from_iter([Holder { value: event.old, row: event.first, child }]),
            })
        });
        shared.holders.push(Holder { value: event.new, row: event.row, child: None });
    }

    /// A child names this tuple; noted in `self`, which belongs to the statement, on top of `base`.
    pub fn child(&mut self, base: &Self, index: IndexId, tuple: u128, child: Child) {
        let at = (index, tuple);
        if !self.shared.contains_key(&at)
            && let Some(shared) = base.shared.get(&at)
        {
            self.uuids.insert((shared.old, at));
            self.shared.insert(at, shared.clone());
        }
        if let Some(last) = self.shared.get_mut(&at).and_then(|shared| shared.holders.last_mut()) {
            last.child.get_or_insert(child.statement);
        } else if !base.children.contains_key(&at) {
            self.children.entry(at).or_insert(child);
        }
    }

    /// Takes over what a statement adds, now that it is executed.
    pub fn take_over(&mut self, own: &mut Self) {
        self.shared.append(&mut own.shared);
        self.uuids.append(&mut own.uuids);
        for (at, child) in std::mem::take(&mut own.children) {
            self.children.entry(at).or_insert(child);
        }
    }

    /// Forgets what statements after `mark` did.
    pub fn roll_back_to(&mut self, mark: u32) {
        self.children.retain(|_, child| child.statement <= mark);
        self.shared.retain(|_, shared| {
            shared.holders.retain(|holder| holder.row.0 <= mark);
            for holder in &mut shared.holders {
                holder.child = holder.child.filter(|&statement| statement <= mark);
            }
            shared.holders.len() > 1
        });
        self.uuids.retain(|(_, at)| self.shared.contains_key(at));
    }

    pub fn clear(&mut self) {
        if !self.is_empty() {
            *self = Self::default();
        }
    }
}

/// Those of the UUIDs that stand in the bytes in binary.
fn binary_in<'a>(
    bytes: &'a [u8],
    uuids: &'a BTreeSet<(u128, (IndexId, u128))>,
) -> impl Iterator<Item = u128> + 'a {
    /// With so few it is quicker to look for each of them.
    const FEW: usize = 4;
    let few = uuids.len() <= FEW;
    let searched = uuids
        .iter()
        .filter(move |_| few)
        .map(|(uuid, _)| *uuid)
        .filter(|uuid| memchr::memmem::find(bytes, &uuid.to_be_bytes()).is_some());
    let every = bytes.windows(16).filter(move |_| !few);
    searched.chain(every.filter_map(|window| Some(u128::from_be_bytes(window.try_into().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: IndexId = IndexId(1);

    fn rekeyed(table: &Arc<Table>, new: u128, first: Row, row: Row) -> Rekeyed<'_> {
        Rekeyed { index: INDEX, tuple: 7, form: Some(0), table, old: 7, new, first, row }
    }

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
                    own.rekeyed(&base, rekeyed(&table, u128::from(statement), first, (statement, 1)));
                }
                _ => own.child(&base, INDEX, 7, Child { statement, early: first.is_none() }),
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
        assert!(play("P").is_none() && play("Pcc").is_none() && play("cPc").is_none());
    }

    #[test]
    fn a_child_that_came_first_is_nobodys() {
        for events in ["cPP", "cPcP", "cPcPcP"] {
            assert!(matches!(play(events), Some(Whose::Ambiguous { .. })), "{events}");
        }
    }

    #[test]
    fn going_back_to_a_savepoint_undoes_parents_and_children() {
        let table = Arc::new(Table::default());
        let (mut base, mut own) = (References::default(), References::default());
        own.child(&base, INDEX, 7, Child { statement: 2, early: false });
        own.rekeyed(&base, rekeyed(&table, 8, (1, 1), (3, 1)));
        base.take_over(&mut own);
        base.roll_back_to(2);
        assert!(!base.has_shared() && !base.is_empty());
        base.roll_back_to(1);
        assert!(base.is_empty());
    }
}
