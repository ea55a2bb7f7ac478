//! First or twin, and what becomes of a twin: one row at a time. Knows no text and no message.

use super::fresh::{self, Entropy};
use super::plan::{KeyPlan, Part, Plan};
use super::policy::{Ambiguous, IdenticalRows, Mode, NameBased, Policy};
use super::references::{References, Rekeyed, Row};
use super::rows::{Place, Slot};
use super::value::Value;
use super::window::{Claim, RowHash, Window};
use crate::catalog::model::{DefaultKind, IndexId};
use crate::key;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The constraint that a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Position in `Table::keys`.
    Key(usize),
    /// Position in `Table::foreign_keys`.
    Foreign(usize),
}

/// A row that carries the key of an earlier one, or refers to such a row, and what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// What would have been violated, or followed.
    pub rule: Rule,
    /// Position of the value in the row as sent.
    pub input: usize,
    /// The key as sent.
    pub old: u128,
    /// The fresh key, in the table or only on paper.
    pub new: Option<u128>,
    pub action: Action,
    /// The ordinal of the row in its statement.
    pub row: u32,
    /// Statement and row that hold the key, or that the reference follows.
    pub first: Row,
    /// Equal in every column.
    pub identical: bool,
    /// Not identical, but equal in every column that is the same in each delivery of one fact.
    pub suspected_redelivery: bool,
    /// Further values of the row that refer to the row itself, and follow its key.
    pub follows: SmallVec<[usize; 1]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Rekeyed,
    /// `observe`: nothing changes, `rewrite` would have rekeyed.
    Observed,
    /// Left as it is, and why.
    Forwarded(&'static str),
    /// A reference that was given the fresh key of the row it belongs to.
    Followed,
    /// A reference that could mean either of two rows, or the later of two rows that an earlier reference could
    /// mean: the statement is to be refused. The other row.
    Ambiguous(Row),
}

/// What holds for every row of one statement.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub plan: &'a Plan,
    pub policy: &'a Policy,
    /// `policy.mode`, or the session's more careful wish.
    pub mode: Mode,
    /// Ordinal of the statement in its transaction.
    pub statement: u32,
    /// The statement is guarded: keys that statements up to this ordinal claimed want their error.
    pub guard: Option<u32>,
    /// Why nothing can be rekeyed at the moment (journal, limits), if so.
    pub suspended: Option<&'static str>,
    /// Only references matter: the statement says itself what a conflict means.
    pub ignores_keys: bool,
    /// The statement inserts into several tables, a child perhaps before its parent.
    pub several: bool,
    /// All that the statement says: its text, and its parameters.
    pub sources: [&'a [u8]; 2],
}

/// A key may be that of every row of a long batch: a row is compared with so many before it, and with the first.
const MOST_COMPARED: usize = 64;

/// Reused memory.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) tuple: Vec<u8>,
    claims: SmallVec<[(IndexId, u128); 2]>,
    fresh: SmallVec<[Replaced; 1]>,
}

#[derive(Debug)]
struct Replaced {
    input: usize,
    new: u128,
    /// The fresh key as it will be written; empty for binary values.
    spelling: SmallVec<[u8; 64]>,
}

/// A row whose key an earlier one holds.
#[derive(Clone, Copy)]
struct Clash<'s> {
    key: &'s KeyPlan,
    slots: &'s [Slot<'s>],
    /// The UUID and the tuple as sent.
    old: u128,
    tuple: u128,
    row: u32,
    hash: RowHash,
    first: Claim,
}

/// Decides rows of one statement against the window.
pub struct Judge<'a> {
    pub at: Circumstances<'a>,
    /// What has been executed, where that is not in `own`.
    pub window: Option<&'a Window>,
    /// Rows that references may mean, and that are compared with no key.
    pub beside: [Option<&'a Window>; 2],
    /// What this statement claims (and nobody has executed yet).
    pub own: &'a mut Window,
    /// Shared keys of the transaction, and what this statement adds.
    pub references: &'a References,
    pub own_references: &'a mut References,
    pub entropy: &'a mut dyn Entropy,
    pub scratch: &'a mut Scratch,
    /// Secret of the process, so that nobody can construct tuples with equal hashes.
    pub seed: u64,
}

impl Judge<'_> {
    /// Decides one row and claims its keys. Twins are appended to `twins`; those with action
    /// [`Action::Rekeyed`] are to be overwritten with `new` before the row is forwarded.
    pub fn row(&mut self, row: u32, slots: &[Slot], hash: RowHash, twins: &mut Vec<Twin>) {
        self.scratch.claims.clear();
        self.scratch.fresh.clear();
        let plan = self.at.plan;
        self.refer(row, slots, twins);
        for key in if self.at.ignores_keys { &[] } else { plan.keys.as_slice() } {
            let Some(old) = self.rekeyed_value(key, slots) else { continue };
            let Some(tuple) = self.tuple(key, slots, old) else { continue };
            let Some(first) = self.find(key.index, tuple).copied() else {
                self.scratch.claims.push((key.index, tuple));
                continue;
            };
            let clash = Clash { key, slots, old, tuple, row, hash, first };
            let twin = self.twin(clash);
            if let Some(new) = twin.new {
                // Also on paper: by another key of the table the row would be no twin any more.
                if twin.action == Action::Rekeyed {
                    self.share(clash, new);
                }
                let fresh_tuple = self.replace(key, slots, new);
                self.scratch.claims.extend(fresh_tuple.map(|tuple| (key.index, tuple)));
            }
            twins.push(twin);
        }
        for &(index, key) in &self.scratch.claims {
            self.own.claim(index, Claim { key, row_hash: hash, statement: self.at.statement, row });
        }
    }

    pub(super) fn find(&self, index: IndexId, key: u128) -> Option<&Claim> {
        self.window.and_then(|window| window.find(index, key)).or_else(|| self.own.find(index, key))
    }

    /// From now on several rows were sent with the key: under this index, and under the others of the table whose
    /// tuple, as sent, an earlier row holds.
    fn share(&mut self, clash: Clash<'_>, new: u128) {
        let Clash { key, slots, old, row, .. } = clash;
        let plan = self.at.plan;
        let row = (self.at.statement, row);
        for other in &plan.keys {
            let tuple = match other.index == key.index {
                true => Some(clash.tuple),
                false => self.rekeyed_value(other, slots).and_then(|uuid| self.tuple(other, slots, uuid)),
            };
            let Some(tuple) = tuple else { continue };
            let Some(first) = self.find(other.index, tuple).map(|claim| (claim.statement, claim.row)) else {
                continue;
            };
            let (index, form, table) = (other.index, self.form(other, slots), &plan.table);
            let event = Rekeyed { index, tuple, form, table, old, new, first, row };
            self.own_references.rekeyed(self.references, event);
        }
    }

    /// How the tuple of a row is spelled.
    fn form(&self, key: &KeyPlan, slots: &[Slot<'_>]) -> Option<u64> {
        let plan = self.at.plan;
        key.parts.iter().try_fold(0, |form, part| {
            let Part::Input(input) = *part else { return None };
            let column = plan.table.columns.get(*plan.inputs.get(input)?)?;
            Some(joined(form, slots.get(input)?.value.form(column)?))
        })
    }

    /// The UUID in the column that is rekeyed: as sent, or as an earlier key of the same row has replaced it.
    pub(super) fn rekeyed_value(&self, key: &KeyPlan, slots: &[Slot]) -> Option<u128> {
        if let Some(replaced) = self.replaced(key.rekey, slots) {
            return Some(replaced.new);
        }
        let column = *self.at.plan.inputs.get(key.rekey)?;
        slots.get(key.rekey)?.value.uuid(self.at.plan.table.columns.get(column)?.kind)
    }

    fn twin(&mut self, clash: Clash<'_>) -> Twin {
        let Clash { key, slots, old, row, hash, first, .. } = clash;
        let likest = self.likest(clash);
        let identical = likest.is_identical(hash);
        let mut twin = Twin {
            rule: Rule::Key(key.key),
            input: key.rekey,
            old,
            new: None,
            action: Action::Observed,
            row,
            first: (first.statement, first.row),
            identical,
            suspected_redelivery: !identical && likest.is_redelivery(hash),
            follows: self.self_references(key, slots, old),
        };
        if let Some(reason) = self.reason_to_forward(clash, likest) {
            twin.action = Action::Forwarded(reason);
            return twin;
        }
        if self.is_ambiguous(clash) {
            twin.action = match self.at.mode {
                Mode::Observe => Action::Forwarded("ambiguous"),
                _ => Action::Ambiguous((self.at.statement, row)),
            };
            return twin;
        }
        twin.new = self.fresh_key(key, slots, old);
        twin.action = match (twin.new, self.at.mode) {
            (None, _) => Action::Forwarded("no random bytes"),
            (Some(_), Mode::Observe) => Action::Observed,
            (Some(_), _) => Action::Rekeyed,
        };
        twin
    }

    /// A child that came before both rows might mean either: once the row has a key of its own, it would mean the
    /// first without anybody knowing.
    fn is_ambiguous(&self, clash: Clash<'_>) -> bool {
        self.at.policy.ambiguous == Ambiguous::Fail
            && self.references.came_early(self.own_references, clash.key.index, clash.tuple)
    }

    /// The earlier row with the key that is most like this one, and that may have been given a fresh key.
    fn likest(&mut self, clash: Clash<'_>) -> RowHash {
        let Clash { key, slots, tuple, hash, first, .. } = clash;
        let mut likest = first.row_hash;
        if likest.is_identical(hash) {
            return likest;
        }
        let fresh = self.references.fresh(self.own_references, key.index, tuple).take(MOST_COMPARED);
        for new in fresh.collect::<SmallVec<[u128; 4]>>() {
            let tuple = self.replaced_tuple(key, slots, new);
            let Some(earlier) = tuple.and_then(|tuple| self.find(key.index, tuple)) else { continue };
            let earlier = earlier.row_hash;
            if earlier.is_identical(hash) {
                return earlier;
            }
            if earlier.is_redelivery(hash) {
                likest = earlier;
            }
        }
        likest
    }

    /// Values of the row that name its own key by a foreign key of the table to itself.
    fn self_references(&self, key: &KeyPlan, slots: &[Slot], old: u128) -> SmallVec<[usize; 1]> {
        let (plan, table) = (self.at.plan, &self.at.plan.table);
        let Some(&rekeyed) = plan.inputs.get(key.rekey) else { return SmallVec::new() };
        let own = table.foreign_keys.iter().filter(|foreign| foreign.parent == table.id);
        own.flat_map(|foreign| foreign.columns.iter().zip(&foreign.parent_columns))
            .filter(|&(_, &parent)| parent == rekeyed)
            .filter_map(|(&child, _)| Some((plan.input(child)?, table.columns.get(child)?.kind)))
            .filter(|&(input, kind)| slots.get(input).and_then(|slot| slot.value.uuid(kind)) == Some(old))
            .map(|(input, _)| input)
            .collect()
    }

    /// `likest` is the earlier row that is most like this one.
    fn reason_to_forward(&self, clash: Clash<'_>, likest: RowHash) -> Option<&'static str> {
        let Clash { key, slots, old, hash, first, .. } = clash;
        let at = &self.at;
        if first.statement < at.statement && at.guard.is_some_and(|mark| first.statement <= mark) {
            return Some("guarded insert");
        }
        if fresh::is_name_based(old) && at.policy.name_based == NameBased::Forward {
            return Some("name-based");
        }
        if likest.is_identical(hash) && at.policy.identical_rows == IdenticalRows::Forward {
            return Some("identical row");
        }
        if at.mode == Mode::Strict {
            if !likest.is_another_fact(hash) {
                return Some("strict: same content");
            }
            if at.plan.table.referenced {
                return Some("strict: referenced table");
            }
        }
        let places = std::iter::once(key.rekey).chain(self.self_references(key, slots, old));
        at.suspended.or_else(|| {
            places.filter_map(|input| slots.get(input)).find_map(|slot| match slot.place {
                Place::Fixed(reason) => Some(reason),
                Place::Text(_) | Place::Bind(_) => None,
            })
        })
    }

    /// A key nobody in the window holds. A handful of tries is plenty for 122 (or 62) random bits.
    fn fresh_key(&mut self, key: &KeyPlan, slots: &[Slot], old: u128) -> Option<u128> {
        for _ in 0..4 {
            let new = fresh::like(old, self.entropy.bytes()?);
            let taken = match self.replaced_tuple(key, slots, new) {
                Some(tuple) => self.find(key.index, tuple).is_some(),
                None => false,
            };
            if new != old && !taken {
                return Some(new);
            }
        }
        None
    }

    fn replaced_tuple(&mut self, key: &KeyPlan, slots: &[Slot], new: u128) -> Option<u128> {
        let tuple = self.replace(key, slots, new);
        self.scratch.fresh.pop();
        tuple
    }

    /// Notes that the value is overwritten with `new`, and gives the tuple that results.
    fn replace(&mut self, key: &KeyPlan, slots: &[Slot], new: u128) -> Option<u128> {
        self.push_replaced(key.rekey, slots, new);
        self.tuple(key, slots, new)
    }

    /// What a value has been replaced with: one place may feed several columns.
    fn replaced(&self, input: usize, slots: &[Slot]) -> Option<&Replaced> {
        let place = |input: usize| {
            slots.get(input).map(|slot| &slot.place).filter(|place| !matches!(place, Place::Fixed(_)))
        };
        let same = |other: usize| other == input || place(input).is_some() && place(input) == place(other);
        self.scratch.fresh.iter().rev().find(|replaced| same(replaced.input))
    }

    pub(super) fn push_replaced(&mut self, input: usize, slots: &[Slot], new: u128) {
        let mut spelling = SmallVec::new();
        if let Some(Value::Text(bytes)) = slots.get(input).map(|slot| slot.value) {
            spelling.extend_from_slice(bytes);
            key::overwrite(&mut spelling, new);
        }
        self.scratch.fresh.push(Replaced { input, new, spelling });
    }

    /// The index tuple of a row as one number; `None` if it cannot clash (a NULL) or cannot be known.
    /// `uuid` is the value of the column that is rekeyed, as it will be stored.
    fn tuple(&mut self, key: &KeyPlan, slots: &[Slot], uuid: u128) -> Option<u128> {
        if key.plain {
            return Some(uuid);
        }
        let mut bytes = std::mem::take(&mut self.scratch.tuple);
        bytes.clear();
        let known = self.encode(key, slots, uuid, &mut bytes);
        let tuple = xxh3_128_with_seed(&bytes, self.seed);
        self.scratch.tuple = bytes;
        known.then_some(tuple)
    }

    fn encode(&self, key: &KeyPlan, slots: &[Slot], uuid: u128, out: &mut Vec<u8>) -> bool {
        let unique = self.at.plan.table.keys.get(key.key);
        key.parts.iter().zip(unique.map(|unique| unique.columns.as_slice()).unwrap_or_default()).all(
            |(part, &column)| {
                let Some(column) = self.at.plan.table.columns.get(column) else { return false };
                let Part::Input(input) = *part else {
                    out.push(b'd');
                    return true;
                };
                let replaced = self.replaced(input, slots);
                let Some(slot) = slots.get(input) else { return false };
                let value = match (replaced, slot.value) {
                    (None, value) => value,
                    (Some(replaced), Value::Text(_)) => Value::Text(&replaced.spelling),
                    (Some(_), _) if input == key.rekey => Value::Uuid(uuid),
                    (Some(replaced), _) => Value::Uuid(replaced.new),
                };
                match value {
                    Value::Null => {
                        out.push(b'n');
                        unique.is_some_and(|unique| unique.nulls_not_distinct)
                    }
                    Value::Default => {
                        out.push(b'd');
                        column.default == DefaultKind::Stable
                    }
                    value => {
                        out.push(b'v');
                        value.encode(column.kind, out)
                    }
                }
            },
        )
    }
}

/// Forms of the columns of a tuple as one number.
pub(super) fn joined(form: u64, column: u32) -> u64 {
    form.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(column))
}
