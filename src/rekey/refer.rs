//! The foreign keys of a row: which row each means, where the key it names was sent with several. Knows no text and
//! no message.

use super::judge::{Action, Judge, Rule, Twin, joined};
use super::plan::ReferencePlan;
use super::policy::Ambiguous;
use super::references::{Child, Row, Whose};
use super::rows::{Place, Slot};
use super::value::Value;
use super::window::Window;
use crate::catalog::model::{DefaultKind, IndexId};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// What a foreign key of a row names.
#[derive(Clone, Copy)]
struct Named {
    uuid: u128,
    /// `None` if a part of it is not known.
    tuple: Option<u128>,
    /// How the tuple is spelled: see [`Value::form`].
    form: Option<u64>,
}

/// A key that was sent with several rows, and the row that is meant.
struct Meant {
    old: u128,
    whose: Whose,
}

impl Judge<'_> {
    /// Sees to it that the foreign keys of a row name the right rows.
    pub(super) fn refer(&mut self, row: u32, slots: &[Slot<'_>], twins: &mut Vec<Twin>) {
        let plan = self.at.plan;
        let mut decided = None;
        for reference in &plan.references {
            if !self.may_matter(reference) || self.is_nothing(reference, slots) {
                continue;
            }
            let named = self.named(reference, slots);
            if named.is_some_and(|named| self.is_self(reference, named.uuid, slots)) {
                continue;
            }
            let tuple = named.and_then(|named| named.tuple);
            let again = decided == Some(reference.foreign);
            let meant = if again { None } else { self.meant(reference, named, slots) };
            let twin = meant.map(|meant| self.follow(reference, &meant, row, slots));
            // One that is refused, or kept without knowing whose it is, is no parent's child.
            if twin.as_ref().is_none_or(|twin| twin.action == Action::Followed)
                && let Some(tuple) = tuple
            {
                self.note_child(reference, tuple);
            }
            if let Some(twin) = twin {
                decided = Some(reference.foreign);
                twins.push(twin);
            }
        }
    }

    /// Whether anything is live that the row could refer to, or may come to be.
    fn may_matter(&self, reference: &ReferencePlan) -> bool {
        let live = |window: &Option<&Window>| window.is_some_and(|window| !window.is_empty());
        self.may_come_first(reference)
            || !self.own.is_empty()
            || live(&self.window)
            || self.beside.iter().any(live)
            || self.references.has_shared()
    }

    fn may_come_first(&self, reference: &ReferencePlan) -> bool {
        reference.may_come_first || self.at.several
    }

    /// A foreign key with a NULL refers to nothing.
    fn is_nothing(&self, reference: &ReferencePlan, slots: &[Slot<'_>]) -> bool {
        let plan = self.at.plan;
        let default = |input: usize| Some(plan.table.columns.get(*plan.inputs.get(input)?)?.default);
        reference.columns.iter().any(|&input| match slots.get(input).map(|slot| slot.value) {
            Some(Value::Null) => true,
            Some(Value::Default) => default(input) == Some(DefaultKind::Null),
            _ => false,
        })
    }

    /// The shared key that the row names, and which of its rows it means.
    fn meant(&self, reference: &ReferencePlan, named: Option<Named>, slots: &[Slot<'_>]) -> Option<Meant> {
        let (shared, own, index) = (self.references, &*self.own_references, reference.index);
        let Some(Named { uuid, tuple, form }) = named else {
            let value = slots.get(reference.rekey)?.value;
            let (old, whose) = self.hidden(index, value)?;
            return Some(Meant { old, whose });
        };
        let exactly = tuple.and_then(|tuple| shared.whose(own, index, tuple));
        let whose = exactly.or_else(|| {
            let known = reference.plain || tuple.is_some_and(|tuple| self.is_live(index, tuple));
            if known { None } else { shared.may_mean(own, index, uuid, form.filter(|_| tuple.is_some())) }
        })?;
        Some(Meant { old: uuid, whose })
    }

    /// A value that cannot be read may come to be a shared key if it mentions one; if it is made from parameters,
    /// or not known at all, if the statement does.
    fn hidden(&self, index: IndexId, value: Value<'_>) -> Option<(u128, Whose)> {
        let (Value::Unknown(bytes) | Value::Expression { text: bytes, .. }) = value else { return None };
        let anywhere = bytes.is_empty() || memchr::memchr(b'$', bytes).is_some();
        let sources: &[&[u8]] = if anywhere { &self.at.sources } else { &[] };
        let named = |bytes: &&[u8]| self.references.named_of(self.own_references, index, bytes);
        let shared = std::iter::once(&bytes).chain(sources).find_map(named)?;
        let (first, last) = shared.rows()?;
        Some((shared.old, Whose::Ambiguous { first, last }))
    }

    /// Gives the row the key of its parent, if that is known.
    fn follow(&mut self, reference: &ReferencePlan, meant: &Meant, row: u32, slots: &[Slot<'_>]) -> Twin {
        let mut twin = Twin {
            rule: Rule::Foreign(reference.foreign),
            input: reference.rekey,
            old: meant.old,
            new: None,
            action: Action::Followed,
            row,
            first: (0, 0),
            identical: false,
            suspected_redelivery: false,
            follows: SmallVec::new(),
        };
        let writable = slots.get(reference.rekey).is_some_and(|slot| !matches!(slot.place, Place::Fixed(_)));
        match meant.whose {
            Whose::Last { value, row, .. } if writable => {
                (twin.new, twin.first) = (Some(value), row);
                self.push_replaced(reference.rekey, slots, value);
            }
            Whose::Last { first, row, .. } => (twin.action, twin.first) = (self.ambiguous(row), first),
            Whose::Ambiguous { first, last } => (twin.action, twin.first) = (self.ambiguous(last), first),
        }
        twin
    }

    fn ambiguous(&self, other: Row) -> Action {
        match self.at.policy.ambiguous {
            Ambiguous::Fail => Action::Ambiguous(other),
            Ambiguous::Keep => Action::Forwarded("ambiguous reference kept"),
        }
    }

    /// The row is a child of a row of this transaction, or may be one of a row that is still to come.
    fn note_child(&mut self, reference: &ReferencePlan, tuple: u128) {
        let live = self.is_live(reference.index, tuple)
            || self.references.whose(self.own_references, reference.index, tuple).is_some();
        if live || self.may_come_first(reference) {
            let child = Child { statement: self.at.statement, early: !live };
            self.own_references.child(self.references, reference.index, tuple, child);
        }
    }

    fn is_live(&self, index: IndexId, tuple: u128) -> bool {
        self.find(index, tuple).is_some()
            || self.beside.iter().flatten().any(|window| window.find(index, tuple).is_some())
    }

    /// The row refers to itself, and follows its own key.
    fn is_self(&self, reference: &ReferencePlan, uuid: u128, slots: &[Slot<'_>]) -> bool {
        let plan = self.at.plan;
        reference.parent.id == plan.table.id
            && plan
                .keys
                .iter()
                .any(|key| key.index == reference.index && self.rekeyed_value(key, slots) == Some(uuid))
    }

    /// The tuple of the parent that the row names; `None` if not even its UUID can be read.
    fn named(&mut self, reference: &ReferencePlan, slots: &[Slot<'_>]) -> Option<Named> {
        let key = reference.parent.keys.get(reference.key)?;
        let kind = reference.parent.columns.get(key.rekey)?.kind;
        let uuid = slots.get(reference.rekey)?.value.uuid(kind)?;
        if reference.plain {
            return Some(Named { uuid, tuple: Some(uuid), form: Some(0) });
        }
        let mut bytes = std::mem::take(&mut self.scratch.tuple);
        bytes.clear();
        let mut form = Some(0);
        let known = key.columns.iter().zip(&reference.inputs).all(|(&column, &input)| {
            let column = reference.parent.columns.get(column);
            let slot = input.and_then(|input| slots.get(input));
            let Some((column, slot)) = column.zip(slot) else { return false };
            form = form.zip(slot.value.form(column)).map(|(form, own)| joined(form, own));
            bytes.push(b'v');
            slot.value.encode(column.kind, &mut bytes)
        });
        let tuple = known.then(|| xxh3_128_with_seed(&bytes, self.seed));
        self.scratch.tuple = bytes;
        Some(Named { uuid, tuple, form })
    }
}
